//! NVIDIA's second library of products, `cublasLt`, which alone has those of 8-bit floats: to be measured against, as
//! [`super::cublas`]. Scales are 1.

use std::ffi::{c_int, c_void};

use libloading::{Library, Symbol};

use super::cublas::{CublasProduct, check_sizes, failed};
use super::stream::CudaStreamHandle;
use crate::Error;
use crate::buffer::{Buffer, View, ViewMut};
use crate::memory::Access;
use crate::stream::Stream;

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

/// `cublasLtMatmulHeuristicResult_t`: the algorithm, the workspace that it needs, a status, a number of waves.
#[repr(C)]
#[derive(Clone, Copy)]
struct Choice {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
type CreateOperation = unsafe extern "C" fn(*mut *mut c_void, c_int, c_int) -> c_int;
type SetAttribute = unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> c_int;
type CreateLayout = unsafe extern "C" fn(*mut *mut c_void, c_int, u64, u64, i64) -> c_int;
type Choose = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    c_int,
    *mut Choice,
    *mut c_int,
) -> c_int;
type Multiply = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    *const c_void,
    *mut c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *const [u64; 8],
    *mut c_void,
    usize,
    *mut c_void,
) -> c_int;

/// The library, made ready for one product of floats by the algorithm that it recommends; sums of 8-bit floats without its
/// fast accumulation.
#[derive(Debug)]
pub struct CublasLt {
    /// What was created, with the functions that destroy it, in the order in which that is done.
    created: Vec<(*mut c_void, &'static [u8])>,
    operation: *mut c_void,
    /// Of `b`, `a` and `c` in its columns-first order.
    layouts: [*mut c_void; 3],
    handle: *mut c_void,
    algorithm: [u64; 8],
    product: CublasProduct,
    workspace: Buffer<u8>,
    stream: Stream,
    library: Library,
}

impl CublasLt {
    /// Loads the library for a stream of a GPU and has it choose an algorithm; nothing where it is not installed, on the
    /// virtual GPU, or where it has no algorithm.
    #[must_use]
    pub fn load(stream: &Stream, product: CublasProduct) -> Option<Self> {
        CudaStreamHandle::of(&**stream.imp())?.context.bind().ok()?;
        // SAFETY: the vendor's library has no requirements on when it is loaded.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        let none = std::ptr::null_mut();
        let mut this = Self {
            created: Vec::new(),
            operation: none,
            layouts: [none; 3],
            handle: none,
            algorithm: [0; 8],
            product,
            workspace: stream.device().alloc(WORKSPACE_BYTES).ok()?,
            stream: stream.clone(),
            library,
        };
        this.prepare().ok()?;
        Some(this)
    }

    fn prepare(&mut self) -> Result<(), Error> {
        let CublasProduct { m, n, k, b_is_transposed, types } = self.product;
        let (factor, result, compute) = types.codes();
        let [rows, columns, depth] = [m, n, k].map(|size| size as u64);
        // SAFETY: the types are those of the functions in `cublasLt.h`, the context is current on this thread, every pointer is
        // to something that lives until the call returns, and what is created is destroyed once, by `drop`.
        unsafe {
            self.handle = self.create::<Create>(b"cublasLtCreate", b"cublasLtDestroy", |create, to| create(to))?;
            let operation = self.create::<CreateOperation>(
                b"cublasLtMatmulDescCreate",
                b"cublasLtMatmulDescDestroy",
                |create, to| create(to, compute, F32),
            )?;
            self.operation = operation;
            let transposed = c_int::from(b_is_transposed);
            self.set(b"cublasLtMatmulDescSetAttribute", operation, TRANSPOSE_LEFT, &transposed)?;
            // In its columns-first order the result is c transposed: b transposed times a transposed.
            let of_b = if b_is_transposed { (factor, depth, columns) } else { (factor, columns, depth) };
            let of = [of_b, (factor, depth, rows), (result, columns, rows)];
            for (i, (dtype, down, across)) in of.into_iter().enumerate() {
                self.layouts[i] = self.create::<CreateLayout>(
                    b"cublasLtMatrixLayoutCreate",
                    b"cublasLtMatrixLayoutDestroy",
                    |create, to| create(to, dtype, down, across, down as i64),
                )?;
            }
            let preference = self.create::<Create>(
                b"cublasLtMatmulPreferenceCreate",
                b"cublasLtMatmulPreferenceDestroy",
                |create, to| create(to),
            )?;
            self.set(b"cublasLtMatmulPreferenceSetAttribute", preference, MAX_WORKSPACE, &WORKSPACE_BYTES)?;
            let choose: Symbol<'_, Choose> = self.function(b"cublasLtMatmulAlgoGetHeuristic")?;
            let [b, a, c] = self.layouts;
            let mut choice = Choice { algorithm: [0; 8], workspace_bytes: 0, status: 0, waves: 0.0, reserved: [0; 4] };
            let mut found = 0;
            let status = choose(self.handle, operation, b, a, c, c, preference, 1, &raw mut choice, &raw mut found);
            if status != 0 || found == 0 || choice.status != 0 {
                return Err(failed(status.max(choice.status)));
            }
            self.algorithm = choice.algorithm;
        }
        Ok(())
    }

    /// Enqueues `c = a b`.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`](crate::ErrorKind::LengthMismatch) for memory that is too small,
    /// [`ErrorKind::Driver`](crate::ErrorKind::Driver) with the library's status.
    pub fn multiply(&mut self, a: &View<'_, u8>, b: &View<'_, u8>, c: &mut ViewMut<'_, u8>) -> Result<(), Error> {
        check_sizes(self.product, self.product.types.bytes(), [a.num_bytes(), b.num_bytes(), c.num_bytes()])?;
        for (memory, access) in [(a.memory(), Access::Read), (b.memory(), Access::Read), (c.memory(), Access::Write)] {
            memory.order(self.stream.imp(), access)?;
        }
        let stream = CudaStreamHandle::of(&**self.stream.imp()).expect("it was loaded for a stream of a GPU");
        let (one, zero) = (1.0_f32, 0.0_f32);
        let [left, right, to] = self.layouts;
        let result = c.address() as *mut c_void;
        let workspace = self.workspace.as_view_mut().address() as *mut c_void;
        // SAFETY: the type is that of the function in `cublasLt.h`; handle, descriptions and workspace are alive; every matrix
        // lies inside memory of the device that was compared above; alpha and beta are of the scale's type.
        let status = unsafe {
            let multiply: Symbol<'_, Multiply> = self.function(b"cublasLtMatmul")?;
            multiply(
                self.handle,
                self.operation,
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
                workspace,
                WORKSPACE_BYTES,
                stream.raw().cast(),
            )
        };
        if status == 0 { Ok(()) } else { Err(failed(status)) }
    }

    /// # Safety
    /// `F` is the type of the function.
    unsafe fn function<F>(&self, name: &[u8]) -> Result<Symbol<'_, F>, Error> {
        // SAFETY: the caller's.
        unsafe { self.library.get(name) }.map_err(|_| failed(-1))
    }

    /// Creates something and remembers how it is destroyed.
    ///
    /// # Safety
    /// `F` is the type of the function, which `call` calls as it wants to be.
    unsafe fn create<F>(
        &mut self,
        name: &[u8],
        destroy: &'static [u8],
        call: impl FnOnce(&F, *mut *mut c_void) -> c_int,
    ) -> Result<*mut c_void, Error> {
        let mut created = std::ptr::null_mut();
        // SAFETY: the caller's.
        let status = call(&*unsafe { self.function::<F>(name) }?, &raw mut created);
        if status != 0 {
            return Err(failed(status));
        }
        self.created.insert(0, (created, destroy));
        Ok(created)
    }

    /// # Safety
    /// `name` sets attributes of things such as `of`, and this one has the type `T`.
    unsafe fn set<T>(&self, name: &[u8], of: *mut c_void, attribute: c_int, value: &T) -> Result<(), Error> {
        // SAFETY: the caller's; the function copies the value.
        let status = unsafe {
            let set: Symbol<'_, SetAttribute> = self.function(name)?;
            set(of, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
        };
        if status == 0 { Ok(()) } else { Err(failed(status)) }
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        for (created, destroy) in &self.created {
            // SAFETY: it came from the function of the same family, and is not used again; the handle goes last.
            unsafe {
                if let Ok(destroy) = self.library.get::<Destroy>(*destroy) {
                    destroy(*created);
                }
            }
        }
    }
}
