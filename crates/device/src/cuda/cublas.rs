//! NVIDIA's own matrix product, loaded at run time where it is installed: something to be measured against, in the same run
//! and on the same data. Nothing of the product needs it.

use std::ffi::{c_int, c_void};

use libloading::{Library, Symbol};

use super::stream::CudaStreamHandle;
use crate::buffer::{View, ViewMut};
use crate::memory::Access;
use crate::stream::Stream;
use crate::{Error, ErrorKind};

/// Names of the library, the newest first.
const NAMES: [&str; 6] = [
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublas.so",
    "/usr/local/cuda/lib64/libcublas.so",
    "cublas64_13.dll",
    "cublas64_12.dll",
];

/// What is multiplied, and how: the pairs of types that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CublasTypes {
    /// `f32`, on ordinary cores.
    F32,
    /// `f32`, without its low bits on tensor cores.
    Tf32,
    /// `f16`, summed in `f32`.
    F16,
    /// `bf16`, summed in `f32`.
    Bf16,
    /// `i8` to `i32`.
    I8,
    /// `f8e4m3`, summed in `f32`, to `bf16`; [`CublasLt`](super::CublasLt) has it.
    F8E4M3,
}

impl CublasTypes {
    /// `cudaDataType` of factors and result, `cublasComputeType_t` (`library_types.h`, `cublas_api.h`).
    pub(super) const fn codes(self) -> (c_int, c_int, c_int) {
        match self {
            Self::F32 => (0, 0, 68),
            Self::Tf32 => (0, 0, 77),
            Self::F16 => (2, 2, 68),
            Self::Bf16 => (14, 14, 68),
            Self::I8 => (3, 10, 72),
            Self::F8E4M3 => (28, 14, 68),
        }
    }

    pub(super) const fn bytes(self) -> (usize, usize) {
        match self {
            Self::F32 | Self::Tf32 => (4, 4),
            Self::F16 | Self::Bf16 => (2, 2),
            Self::I8 => (1, 4),
            Self::F8E4M3 => (1, 2),
        }
    }
}

/// The sizes of a product of matrices whose rows lie without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CublasProduct {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Whether `b` lies transposed: `n` rows of `k`.
    pub b_is_transposed: bool,
    /// The element types.
    pub types: CublasTypes,
}

type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
type SetStream = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Gemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// The library, with a handle that works on one stream.
#[derive(Debug)]
pub struct Cublas {
    library: Library,
    handle: *mut c_void,
    stream: Stream,
}

impl Cublas {
    /// Loads the library for a stream of a GPU; nothing where it is not installed, or on the virtual GPU.
    #[must_use]
    pub fn load(stream: &Stream) -> Option<Self> {
        let imp = CudaStreamHandle::of(&**stream.imp())?;
        imp.context.bind().ok()?;
        // SAFETY: the vendor's library has no requirements on when it is loaded.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the types are those of the functions in `cublas_api.h`; the context is current on this thread, the stream
        // belongs to it and is kept alive by `stream`.
        let is_ready = unsafe {
            let create: Symbol<'_, Create> = library.get(b"cublasCreate_v2").ok()?;
            let set_stream: Symbol<'_, SetStream> = library.get(b"cublasSetStream_v2").ok()?;
            create(&raw mut handle) == 0 && set_stream(handle, imp.raw().cast()) == 0
        };
        is_ready.then(|| Self { library, handle, stream: stream.clone() })
    }

    /// Enqueues `c = a b`.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] for memory that is too small, [`ErrorKind::Driver`] with the library's status.
    pub fn multiply(
        &self,
        product: CublasProduct,
        a: &View<'_, u8>,
        b: &View<'_, u8>,
        c: &mut ViewMut<'_, u8>,
    ) -> Result<(), Error> {
        let CublasProduct { m, n, k, b_is_transposed, types } = product;
        check_sizes(product, types.bytes(), [a.num_bytes(), b.num_bytes(), c.num_bytes()])?;
        for (memory, access) in [(a.memory(), Access::Read), (b.memory(), Access::Read), (c.memory(), Access::Write)] {
            memory.order(self.stream.imp(), access)?;
        }
        let (factor, result, compute) = types.codes();
        let [rows, columns, depth] = [m, n, k].map(|size| c_int::try_from(size).unwrap_or(c_int::MAX));
        // In its columns-first order the result is c transposed: b transposed times a transposed.
        let (transpose_b, pitch_b) = if b_is_transposed { (1, depth) } else { (0, columns) };
        let (one, zero, one_of_integers, zero_of_integers) = (1.0_f32, 0.0_f32, 1_i32, 0_i32);
        let (alpha, beta): (*const c_void, *const c_void) = match types {
            CublasTypes::I8 => ((&raw const one_of_integers).cast(), (&raw const zero_of_integers).cast()),
            _ => ((&raw const one).cast(), (&raw const zero).cast()),
        };
        // SAFETY: the type is that of the function in `cublas_api.h`, the handle is alive, every matrix lies inside memory of
        // the device that was compared above, and alpha and beta are of the compute type.
        let status = unsafe {
            let gemm: Symbol<'_, Gemm> = self.library.get(b"cublasGemmEx").map_err(|_| failed(-1))?;
            let (left, right, to) =
                (b.address() as *const c_void, a.address() as *const c_void, c.address() as *mut c_void);
            gemm(
                self.handle,
                transpose_b,
                0,
                columns,
                rows,
                depth,
                alpha,
                left,
                factor,
                pitch_b,
                right,
                factor,
                depth,
                beta,
                to,
                result,
                columns,
                compute,
                -1,
            )
        };
        if status == 0 { Ok(()) } else { Err(failed(status)) }
    }
}

/// Refuses memory that does not hold matrices with elements of so many bytes.
pub(super) fn check_sizes(
    CublasProduct { m, n, k, .. }: CublasProduct,
    (factor, result): (usize, usize),
    [a, b, c]: [usize; 3],
) -> Result<(), Error> {
    for (what, expected, found) in [
        ("the left matrix", m * k * factor, a),
        ("the right matrix", k * n * factor, b),
        ("the result", m * n * result, c),
    ] {
        if found < expected {
            return Err(ErrorKind::LengthMismatch { what, expected, found }.into());
        }
    }
    Ok(())
}

pub(super) fn failed(status: c_int) -> Error {
    let (code, message) = (format!("cublasStatus {status}"), "see cublasStatus_t".to_owned());
    ErrorKind::Driver { call: "multiplying with cuBLAS", code, message }.into()
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: the handle came from `cublasCreate_v2` and is not used again.
        unsafe {
            if let Ok(destroy) = self.library.get::<Destroy>(b"cublasDestroy_v2") {
                destroy(self.handle);
            }
        }
    }
}
