//! The C structures (DLPack 1.1, `dlpack.h`), field by field, and our element types in them.

use std::ffi::c_void;

use warpfold_kernels::Dtype;

/// Memory that the CPU uses directly.
pub const CPU: i32 = 1;
/// Memory of a CUDA GPU.
pub const CUDA: i32 = 2;
/// Pinned memory of the CPU.
pub const CUDA_HOST: i32 = 3;
/// Managed memory, which CPU and GPU use.
pub const CUDA_MANAGED: i32 = 13;

/// The version of the structures.
pub const VERSION: Version = Version { major: 1, minor: 1 };

/// `DLPackVersion`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Changes when the layout does.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
}

/// `DLDevice`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Device type, such as [`CPU`].
    pub kind: i32,
    /// Index among the devices of that type.
    pub id: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataType {
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Bits of one number.
    pub bits: u8,
    /// Numbers of an element.
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    /// The memory.
    pub data: *mut c_void,
    /// The device that holds the memory.
    pub device: Device,
    /// Dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DataType,
    /// The sizes.
    pub shape: *mut i64,
    /// Elements from one position to the next, or null for C order.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`, of capsules named "dltensor".
#[repr(C)]
#[derive(Debug)]
pub struct Managed {
    /// The tensor.
    pub tensor: Tensor,
    /// Private data of the producer.
    pub context: *mut c_void,
    /// Gives it back; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// Flag: the consumer may not write to the memory.
pub const READ_ONLY: u64 = 1;
/// Flag: the memory is a copy, made for the consumer.
pub const IS_COPIED: u64 = 2;

/// `DLManagedTensorVersioned`, of capsules named "dltensor_versioned".
#[repr(C)]
#[derive(Debug)]
pub struct ManagedVersioned {
    /// Version of the structure.
    pub version: Version,
    /// Private data of the producer.
    pub context: *mut c_void,
    /// Gives it back; may be null.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// Such as [`READ_ONLY`].
    pub flags: u64,
    /// The tensor.
    pub tensor: Tensor,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Managed {}
    impl Sealed for super::ManagedVersioned {}
}

/// Either form.
pub trait Form: sealed::Sealed + Sized + 'static {
    /// The name of a capsule that holds it.
    const CAPSULE: &'static str;

    /// The structure of a tensor.
    fn new(tensor: Tensor, context: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self;

    /// The tensor.
    fn tensor(&self) -> &Tensor;

    /// Private data of the producer.
    fn context(&self) -> *mut c_void;

    /// The producer's function that takes it back.
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;

    /// The version, where it says one.
    fn version(&self) -> Option<Version>;
}

impl Form for Managed {
    const CAPSULE: &'static str = "dltensor";

    fn new(tensor: Tensor, context: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Self { tensor, context, deleter: Some(deleter) }
    }

    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn context(&self) -> *mut c_void {
        self.context
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn version(&self) -> Option<Version> {
        None
    }
}

impl Form for ManagedVersioned {
    const CAPSULE: &'static str = "dltensor_versioned";

    fn new(tensor: Tensor, context: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Self { version: VERSION, context, deleter: Some(deleter), flags: 0, tensor }
    }

    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn context(&self) -> *mut c_void {
        self.context
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn version(&self) -> Option<Version> {
        Some(self.version)
    }
}

/// Our types with their codes: `kDLInt` 0, `kDLUInt` 1, `kDLFloat` 2, `kDLBfloat` 4, `kDLBool` 6,
/// `kDLFloat8_e4m3fn` 10, `kDLFloat8_e5m2` 12.
const CODES: [(Dtype, u8); 15] = [
    (Dtype::Bool, 6),
    (Dtype::U8, 1),
    (Dtype::U16, 1),
    (Dtype::U32, 1),
    (Dtype::U64, 1),
    (Dtype::I8, 0),
    (Dtype::I16, 0),
    (Dtype::I32, 0),
    (Dtype::I64, 0),
    (Dtype::F16, 2),
    (Dtype::Bf16, 4),
    (Dtype::F8E4M3, 10),
    (Dtype::F8E5M2, 12),
    (Dtype::F32, 2),
    (Dtype::F64, 2),
];

impl DataType {
    /// Ours as theirs.
    #[must_use]
    pub fn of(dtype: Dtype) -> Self {
        let code = CODES.into_iter().find(|(known, _)| *known == dtype).map_or(0, |(_, code)| code);
        Self { code, bits: 8 * dtype.bytes() as u8, lanes: 1 }
    }

    /// Theirs as ours, if we have it.
    #[must_use]
    pub fn dtype(self) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| Self::of(*dtype) == self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_header_on_64_bits() {
        assert_eq!((size_of::<DataType>(), size_of::<Device>(), size_of::<Tensor>()), (4, 8, 48));
        assert_eq!((size_of::<Managed>(), size_of::<ManagedVersioned>()), (64, 80));
    }

    #[test]
    fn every_type_has_a_code_of_its_own() {
        for dtype in Dtype::ALL {
            assert_eq!(DataType::of(dtype).dtype(), Some(dtype));
        }
        assert_eq!(DataType { code: 5, bits: 64, lanes: 1 }.dtype(), None, "complex");
        assert_eq!(DataType { code: 2, bits: 32, lanes: 4 }.dtype(), None, "four floats");
    }
}
