//! cublasLt: matrix products, those of 8-bit floats among them, which [`super::Cublas`] lacks.
//! Scales are 1.

use std::ffi::{c_int, c_void};

use super::{CublasProduct, Handle, NOTHING, Owned, Vendor};
use warpfold_device::{Buffer, Error, Stream, View, ViewMut};

/// Names of the library, the newest first.
const NAMES: [&str; 5] = [
    "libcublasLt.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so",
    "/usr/local/cuda/lib64/libcublasLt.so",
    "cublasLt64_13.dll",
];

/// Memory that the library may work in.
const WORKSPACE_BYTES: usize = 64 << 20;

/// `CUDA_R_32F` (`library_types.h`), the type of alpha and beta.
const F32: c_int = 0;
/// `CUBLASLT_MATMUL_DESC_TRANSA`, `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES` (`cublasLt.h`).
const TRANSPOSE_LEFT: c_int = 3;
const MAX_WORKSPACE: c_int = 1;

/// `cublasLtMatmulHeuristicResult_t`: the algorithm, the workspace that it needs, a status, a
/// number of waves.
#[repr(C)]
#[derive(Clone, Copy)]
struct Choice {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

type CreateOperation = unsafe extern "C" fn(*mut Handle, c_int, c_int) -> c_int;
type SetAttribute = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int;
type CreateLayout = unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> c_int;
type Choose = unsafe extern "C" fn(
    Handle,
    Handle,
    Handle,
    Handle,
    Handle,
    Handle,
    Handle,
    c_int,
    *mut Choice,
    *mut c_int,
) -> c_int;
type Multiply = unsafe extern "C" fn(
    Handle,
    Handle,
    *const c_void,
    *const c_void,
    Handle,
    *const c_void,
    Handle,
    *const c_void,
    *const c_void,
    Handle,
    *mut c_void,
    Handle,
    *const [u64; 8],
    *mut c_void,
    usize,
    *mut c_void,
) -> c_int;

/// The library, made ready for one product of floats by the algorithm that it recommends; sums of
/// 8-bit floats without its fast accumulation.
#[derive(Debug)]
pub struct CublasLt {
    operation: Owned,
    /// Layouts of `b`, `a` and `c` in its column-major order.
    layouts: [Owned; 3],
    handle: Owned,
    multiply: Multiply,
    algorithm: [u64; 8],
    product: CublasProduct,
    workspace: Buffer<u8>,
    // Behind what it created, so that it is unloaded last.
    vendor: Vendor,
}

impl CublasLt {
    /// Loads the library for a stream of a GPU and has it choose an algorithm; nothing where it is
    /// not installed, on the virtual GPU, or where it has no algorithm.
    #[must_use]
    pub fn load(stream: &Stream, product: CublasProduct) -> Option<Self> {
        Self::prepare(Vendor::load("cublasLt", &NAMES, stream)?, product).ok()
    }

    fn prepare(vendor: Vendor, product: CublasProduct) -> Result<Self, Error> {
        let CublasProduct { m, n, k, b_is_transposed, types } = product;
        let (factor, result, compute) = types.codes();
        let [rows, columns, depth] = [m, n, k].map(|size| size as u64);
        // SAFETY: the types are those of the functions in `cublasLt.h`, the context is current on
        // this thread, every pointer is to something that lives until the call returns, and the
        // attributes are of the types of what they point to.
        unsafe {
            let handle = vendor.create("cublasLtCreate", "cublasLtDestroy")?;
            let operation = vendor.create_by::<CreateOperation>(
                "cublasLtMatmulDescCreate",
                "cublasLtMatmulDescDestroy",
                |create, to| create(to, compute, F32),
            )?;
            let transposed = c_int::from(b_is_transposed);
            set(&vendor, "cublasLtMatmulDescSetAttribute", &operation, TRANSPOSE_LEFT, &transposed)?;
            let layout = |(dtype, down, across): (c_int, u64, u64)| {
                vendor.create_by::<CreateLayout>(
                    "cublasLtMatrixLayoutCreate",
                    "cublasLtMatrixLayoutDestroy",
                    |create, to| create(to, dtype, down, across, down as i64),
                )
            };
            // In its columns-first order the result is c transposed: b transposed times a
            // transposed.
            let of_b = if b_is_transposed { (factor, depth, columns) } else { (factor, columns, depth) };
            let layouts = [layout(of_b)?, layout((factor, depth, rows))?, layout((result, columns, rows))?];
            let preference = vendor.create("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")?;
            set(&vendor, "cublasLtMatmulPreferenceSetAttribute", &preference, MAX_WORKSPACE, &WORKSPACE_BYTES)?;
            let call = "cublasLtMatmulAlgoGetHeuristic";
            let choose: Choose = vendor.function(call)?;
            let [b, a, c] = layouts.each_ref().map(|layout| layout.handle);
            let mut choice = Choice { algorithm: [0; 8], workspace_bytes: 0, status: 0, waves: 0.0, reserved: [0; 4] };
            let (lt, operator, preference) = (handle.handle, operation.handle, preference.handle);
            let mut found = 0;
            vendor.check(call, choose(lt, operator, b, a, c, c, preference, 1, &raw mut choice, &raw mut found))?;
            vendor.check(call, if found == 0 { NOTHING } else { choice.status })?;
            Ok(Self {
                operation,
                layouts,
                handle,
                multiply: vendor.function("cublasLtMatmul")?,
                algorithm: choice.algorithm,
                product,
                workspace: vendor.stream.device().alloc(WORKSPACE_BYTES)?,
                vendor,
            })
        }
    }

    /// Enqueues `c = a b`.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`](warpfold_device::ErrorKind::LengthMismatch) for memory that is
    /// too small, [`ErrorKind::Driver`](warpfold_device::ErrorKind::Driver) with the library's
    /// status.
    pub fn multiply(&mut self, a: &View<'_, u8>, b: &View<'_, u8>, c: &mut ViewMut<'_, u8>) -> Result<(), Error> {
        self.product.check(a, b, c)?;
        let workspace = self.workspace.as_view_mut();
        self.vendor.order([a, b], &[c, &workspace])?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let [left, right, to] = self.layouts.each_ref().map(|layout| layout.handle);
        let result = c.address() as *mut c_void;
        // SAFETY: the type is that of the function in `cublasLt.h`; handle, descriptions and
        // workspace are alive; every matrix lies inside memory of the device that was compared
        // above; alpha and beta are of the scale's type.
        let status = unsafe {
            (self.multiply)(
                self.handle.handle,
                self.operation.handle,
                (&raw const one).cast(),
                b.address() as *const c_void,
                left,
                a.address() as *const c_void,
                right,
                (&raw const zero).cast(),
                result,
                to,
                result,
                to,
                &raw const self.algorithm,
                workspace.address() as *mut c_void,
                WORKSPACE_BYTES,
                self.vendor.stream(),
            )
        };
        self.vendor.check("cublasLtMatmul", status)
    }
}

/// Sets an attribute, whose value the library copies.
///
/// # Safety
/// `function` sets attributes of things such as `of`, and this one has the type `T`.
unsafe fn set<T>(
    vendor: &Vendor,
    function: &'static str,
    of: &Owned,
    attribute: c_int,
    value: &T,
) -> Result<(), Error> {
    // SAFETY: the caller's.
    let status = unsafe {
        let set: SetAttribute = vendor.function(function)?;
        set(of.handle, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
    };
    vendor.check(function, status)
}
