//! cuBLAS: matrix products.

use std::ffi::{c_int, c_void};

use super::{Handle, Owned, Vendor, check_bytes};
use warpfold_device::{Error, Stream, View, ViewMut};

/// Names of the library, the newest first.
const NAMES: [&str; 6] = [
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublas.so",
    "/usr/local/cuda/lib64/libcublas.so",
    "cublas64_13.dll",
    "cublas64_12.dll",
];

/// Pairs of operand types that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CublasTypes {
    /// `f32`, on CUDA cores.
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
    /// `cudaDataType` of factors and result, `cublasComputeType_t` (`library_types.h`,
    /// `cublas_api.h`).
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

    const fn bytes(self) -> (usize, usize) {
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
    /// `b` is transposed: `n` rows of `k`.
    pub b_is_transposed: bool,
    /// The element types.
    pub types: CublasTypes,
}

impl CublasProduct {
    /// Refuses memory that does not hold the matrices.
    pub(super) fn check(&self, a: &View<'_, u8>, b: &View<'_, u8>, c: &ViewMut<'_, u8>) -> Result<(), Error> {
        let Self { m, n, k, .. } = *self;
        let (factor, result) = self.types.bytes();
        check_bytes([
            ("the left matrix", m * k * factor, a.num_bytes()),
            ("the right matrix", k * n * factor, b.num_bytes()),
            ("the result", m * n * result, c.num_bytes()),
        ])
    }
}

type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type Gemm = unsafe extern "C" fn(
    Handle,
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
    handle: Owned,
    gemm: Gemm,
    // Behind what it created, so that it is unloaded last.
    vendor: Vendor,
}

impl Cublas {
    /// Loads the library for a stream of a GPU; nothing where it is not installed, or on the
    /// virtual GPU.
    #[must_use]
    pub fn load(stream: &Stream) -> Option<Self> {
        let vendor = Vendor::load("cuBLAS", &NAMES, stream)?;
        // SAFETY: the types are those of the functions in `cublas_api.h`; the context is current on
        // this thread, the stream belongs to it and is kept alive by `vendor`.
        unsafe {
            let handle = vendor.create("cublasCreate_v2", "cublasDestroy_v2").ok()?;
            let set_stream: SetStream = vendor.function("cublasSetStream_v2").ok()?;
            let gemm = vendor.function("cublasGemmEx").ok()?;
            (set_stream(handle.handle, vendor.stream()) == 0).then_some(Self { handle, gemm, vendor })
        }
    }

    /// Enqueues `c = a b`.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`](warpfold_device::ErrorKind::LengthMismatch) for memory that is
    /// too small, [`ErrorKind::Driver`](warpfold_device::ErrorKind::Driver) with the library's
    /// status.
    pub fn multiply(
        &self,
        product: CublasProduct,
        a: &View<'_, u8>,
        b: &View<'_, u8>,
        c: &mut ViewMut<'_, u8>,
    ) -> Result<(), Error> {
        let CublasProduct { m, n, k, b_is_transposed, types } = product;
        product.check(a, b, c)?;
        self.vendor.order([a, b], &[c])?;
        let (factor, result, compute) = types.codes();
        let [rows, columns, depth] = [m, n, k].map(|size| c_int::try_from(size).unwrap_or(c_int::MAX));
        // In its columns-first order the result is c transposed: b transposed times a transposed.
        let (transpose_b, pitch_b) = if b_is_transposed { (1, depth) } else { (0, columns) };
        let (one, zero, one_of_integers, zero_of_integers) = (1.0_f32, 0.0_f32, 1_i32, 0_i32);
        let (alpha, beta): (*const c_void, *const c_void) = match types {
            CublasTypes::I8 => ((&raw const one_of_integers).cast(), (&raw const zero_of_integers).cast()),
            _ => ((&raw const one).cast(), (&raw const zero).cast()),
        };
        // SAFETY: the type is that of the function in `cublas_api.h`, the handle is alive, every
        // matrix lies inside memory of the device that was compared above, and alpha and beta are
        // of the compute type.
        let status = unsafe {
            let (left, right, to) =
                (b.address() as *const c_void, a.address() as *const c_void, c.address() as *mut c_void);
            (self.gemm)(
                self.handle.handle,
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
        self.vendor.check("cublasGemmEx", status)
    }
}
