//! Tensors for others: the structure, and what it keeps alive.

use std::ffi::c_void;
use std::ptr::NonNull;

use warpfold_device::DeviceKind;
use warpfold_kernels::{Error, ErrorKind};

use super::abi::{self, Form};
use crate::Tensor;

/// A DLPack tensor that was not handed over yet: dropped, it gives its memory back.
#[derive(Debug)]
pub struct Exported<F: Form> {
    managed: NonNull<F>,
}

// SAFETY: it is the only owner of the structure. The standard lets the deleter be called on any
// thread, and ours is a drop of `Send` values.
unsafe impl<F: Form> Send for Exported<F> {}
// SAFETY: shared references only read fields, which nobody writes.
unsafe impl<F: Form> Sync for Exported<F> {}

impl<F: Form> Exported<F> {
    /// Takes over a structure that a producer handed out.
    ///
    /// # Safety
    /// `managed` points to a structure as DLPack defines it, with a shape (and strides, unless they
    /// are null) of `ndim` numbers and memory for every element that they name, all of which stay
    /// until its deleter is called. Nobody else calls that. The memory is not written while we have
    /// it, and what was enqueued to write it is done or comes first on the stream it is used on.
    #[must_use]
    pub unsafe fn from_raw(managed: NonNull<F>) -> Self {
        Self { managed }
    }

    /// The pointer for a capsule; who takes it calls the deleter.
    #[must_use]
    pub fn into_raw(self) -> NonNull<F> {
        let managed = self.managed;
        std::mem::forget(self);
        managed
    }

    pub(super) fn form(&self) -> &F {
        // SAFETY: the structure stays until the deleter is called, which `drop` does.
        unsafe { self.managed.as_ref() }
    }

    /// The tensor's description.
    #[must_use]
    pub fn tensor(&self) -> &abi::Tensor {
        self.form().tensor()
    }

    fn numbers(&self, start: *mut i64) -> &[i64] {
        match usize::try_from(self.tensor().ndim) {
            // SAFETY: who made this promised so many numbers, which stay as long as it does.
            Ok(len) if len > 0 && !start.is_null() => unsafe { std::slice::from_raw_parts(start, len) },
            _ => &[],
        }
    }

    /// The sizes.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        self.numbers(self.tensor().shape)
    }

    /// The strides in elements; `None` for C order.
    #[must_use]
    pub fn strides(&self) -> Option<&[i64]> {
        (!self.tensor().strides.is_null()).then(|| self.numbers(self.tensor().strides))
    }
}

impl Exported<abi::ManagedVersioned> {
    /// With these flags, such as [`abi::READ_ONLY`].
    #[must_use]
    pub fn with_flags(mut self, flags: u64) -> Self {
        // SAFETY: the structure stays until the deleter is called, and nobody else has it yet.
        unsafe { self.managed.as_mut() }.flags = flags;
        self
    }
}

impl<F: Form> Drop for Exported<F> {
    fn drop(&mut self) {
        if let Some(deleter) = self.form().deleter() {
            // SAFETY: nobody else calls it, and the structure is not used after it.
            unsafe { deleter(self.managed.as_ptr()) };
        }
    }
}

/// The allocations that an exported structure points to.
struct Kept {
    _tensor: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Tensor {
    /// The tensor for others, in place; the form is the caller's choice. Waits for the tensor's
    /// queue. See the [module](crate::dlpack).
    ///
    /// # Errors
    /// What the device says of the work so far.
    pub fn to_dlpack<F: Form>(&self) -> Result<Exported<F>, Error> {
        self.queue().stream().synchronize()?;
        let device = match self.device().kind() {
            DeviceKind::Cuda { ordinal } => abi::Device { kind: abi::CUDA, id: ordinal as i32 },
            _ => abi::Device { kind: abi::CPU, id: 0 },
        };
        let data = if self.is_empty() {
            std::ptr::null_mut()
        } else if device.kind == abi::CUDA {
            std::ptr::with_exposed_provenance_mut::<c_void>(self.address() as usize)
        } else {
            let lowest = self.view_of_all()?.host_address().ok_or_else(|| {
                let reason = format!("memory of {} has no address for others", self.device());
                ErrorKind::Operand { operator: "to_dlpack", reason }
            })?;
            let before = (self.first - self.extent().0) * self.dtype().bytes() as usize;
            lowest.wrapping_add(before).cast_mut().cast()
        };
        let shape = self.shape().iter().map(|size| *size as i64).collect();
        let strides = self.layout().strides().iter().map(|stride| *stride as i64).collect();
        let mut kept = Box::new(Kept { _tensor: self.clone(), shape, strides });
        let tensor = abi::Tensor {
            data,
            device,
            ndim: self.rank() as i32,
            dtype: abi::DataType::of(self.dtype()),
            shape: kept.shape.as_mut_ptr(),
            strides: kept.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let managed = F::new(tensor, Box::into_raw(kept).cast(), give_back::<F>);
        Ok(Exported { managed: NonNull::from(Box::leak(Box::new(managed))) })
    }
}

/// The deleter of our structures.
unsafe extern "C" fn give_back<F: Form>(managed: *mut F) {
    if managed.is_null() {
        return;
    }
    // SAFETY: `to_dlpack` leaked both boxes, and a deleter is called once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.context().cast::<Kept>()) });
}
