//! PTX modules, compiled by the driver.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::{DriverError, result, sys};

use super::device::Context;
use super::{driver, parameters, stream};
use crate::backend::{BackendFunction, BackendModule, Begin, FunctionInfo, LaunchConfig, LaunchSite, Param, Places};
use crate::{Error, ErrorKind};

/// Size of each of the compiler's two logs, in bytes.
const LOG_BYTES: usize = 64 << 10;

/// The largest portable cluster; larger clusters need a function attribute.
const PORTABLE_CLUSTER_BLOCKS: u64 = 8;

/// A loaded module; unloaded when dropped.
#[derive(Debug)]
pub(super) struct JitModule {
    context: Arc<Context>,
    image: Image,
    module: sys::CUmodule,
    /// The number of parameters of each kernel in the text.
    param_counts: HashMap<String, usize>,
}

// SAFETY: a module handle may be used from every thread in which its context is current; `bind`
// makes it so.
unsafe impl Send for JitModule {}
// SAFETY: as above; the driver locks by itself.
unsafe impl Sync for JitModule {}

/// Compiled code, as it was loaded and is to be unloaded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Image {
    Library(sys::CUlibrary),
    /// Image of a driver before CUDA 12, which has no libraries.
    Module(sys::CUmodule),
}

// SAFETY: a library belongs to no thread; a module handle may be used from every thread in which
// its context is current.
unsafe impl Send for Image {}

impl Image {
    /// Compiles a text on this thread, with the compiler's logs.
    ///
    /// `cuModuleLoadData` compiles one text at a time, whatever the number of threads;
    /// `cuLibraryLoadData` as many as ask: 60 kernels took 8 threads 16 s and 3.6 s (H100, driver
    /// 580.159.04). Compiling by `cuLinkAddData` is parallel, too, but ignores `setmaxnreg` and the
    /// alignment of dynamic shared memory, as separate compilation does.
    ///
    /// # Safety
    /// The context is current.
    unsafe fn compile(text: &CStr, logs: &mut [Vec<u8>; 2]) -> Result<Self, DriverError> {
        use sys::CUjit_option as O;
        let mut options = [
            O::CU_JIT_ERROR_LOG_BUFFER,
            O::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            O::CU_JIT_INFO_LOG_BUFFER,
            O::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        ];
        // An option's value is the pointer itself, or a number in its place.
        let [errors, infos] = logs.each_mut().map(|log| (log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void));
        let mut values = [errors.0, errors.1, infos.0, infos.1];
        let count = options.len() as c_uint;
        let (text, options, values) = (text.as_ptr().cast(), options.as_mut_ptr(), values.as_mut_ptr());
        // SAFETY: the text ends with a zero byte; options and values have the same number of
        // entries, and the logs as many bytes as said; all of them outlive the call.
        unsafe {
            if driver::has(c"cuLibraryLoadData") {
                let (mut library, none) = (std::ptr::null_mut(), std::ptr::null_mut());
                sys::cuLibraryLoadData(&raw mut library, text, options, values, count, none, none.cast(), 0)
                    .result()?;
                Ok(Self::Library(library))
            } else {
                let mut module = std::ptr::null_mut();
                sys::cuModuleLoadDataEx(&raw mut module, text, count, options, values).result()?;
                Ok(Self::Module(module))
            }
        }
    }

    /// The module in the current context.
    ///
    /// # Safety
    /// It has not been unloaded.
    unsafe fn module(self) -> Result<sys::CUmodule, DriverError> {
        match self {
            Self::Module(module) => Ok(module),
            Self::Library(library) => {
                let mut module = std::ptr::null_mut();
                // SAFETY: the library is loaded.
                unsafe { sys::cuLibraryGetModule(&raw mut module, library) }.result()?;
                Ok(module)
            }
        }
    }

    /// Unloads it.
    ///
    /// # Safety
    /// It is loaded, nothing refers to it, none of its kernels runs, and the context is current.
    pub(super) unsafe fn unload(self) -> Result<(), DriverError> {
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Self::Library(library) => sys::cuLibraryUnload(library).result(),
                Self::Module(module) => result::module::unload(module),
            }
        }
    }
}

impl JitModule {
    pub(super) fn load(context: Arc<Context>, ptx: &str) -> Result<Self, Error> {
        context.bind()?;
        let refused = |reason: String, log: String| Error::from(ErrorKind::Jit { reason, log });
        let text =
            CString::new(ptx).map_err(|e| refused(format!("a zero byte at {}", e.nul_position()), String::new()))?;
        let mut logs = [vec![0_u8; LOG_BYTES], vec![0_u8; LOG_BYTES]];
        // SAFETY: the context is current.
        let image = unsafe { Image::compile(&text, &mut logs) };
        let loaded = image.and_then(|image| {
            // SAFETY: the image was loaded.
            match unsafe { image.module() } {
                Ok(module) => Ok((image, module)),
                Err(e) => {
                    // SAFETY: as above, and nothing refers to it. The first error is the one told.
                    let _ = unsafe { image.unload() };
                    Err(e)
                }
            }
        });
        match loaded {
            Ok((image, module)) => Ok(Self { context, image, module, param_counts: parameters::counts(ptx) }),
            Err(e) if driver::is_of_kernel(e) => Err(context.explain("loading a module", e)),
            Err(e) => Err(refused(driver::text(e), logs.iter().map(|log| log_text(log)).collect())),
        }
    }
}

fn log_text(log: &[u8]) -> String {
    CStr::from_bytes_until_nul(log).map_or_else(|_| String::from_utf8_lossy(log), CStr::to_string_lossy).into_owned()
}

impl BackendModule for JitModule {
    fn function(self: Arc<Self>, name: &str) -> Result<Arc<dyn BackendFunction>, Error> {
        self.context.bind()?;
        let unknown = || ErrorKind::UnknownKernel { name: name.to_owned(), known: Vec::new() };
        let symbol = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: the module is loaded.
        let function = match unsafe { result::module::get_function(self.module, symbol) } {
            Ok(function) => function,
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND)) => return Err(unknown().into()),
            Err(e) => return Err(self.context.explain("looking up a kernel", e)),
        };
        // Loaded now, not at its first launch: then the driver may wait for the device, which may
        // wait for a peer.
        if driver::has(c"cuFuncLoad") {
            // SAFETY: the function's module is loaded.
            let loaded = unsafe { sys::cuFuncLoad(function) }.result();
            loaded.map_err(|e| self.context.explain("loading a kernel", e))?;
        }
        let count = self.param_counts.get(name).copied();
        let info =
            info(name, function, count).map_err(|e| self.context.explain("asking for a kernel's properties", e))?;
        Ok(Arc::new(JitFunction { module: self, function, info, allowed_shared: AtomicU32::new(0) }))
    }

    fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.context.bind().ok()?;
        let symbol = CString::new(name).ok()?;
        // SAFETY: the module is loaded.
        let (address, bytes) = unsafe { result::module::get_global(self.module, symbol) }.ok()?;
        Some((address, bytes as u64))
    }
}

impl Drop for JitModule {
    fn drop(&mut self) {
        // Functions and graphs keep their module, so what is launched already is all that uses it.
        self.context.in_flight.unload(&self.context.cuda, self.image);
    }
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub(super) struct JitFunction {
    module: Arc<JitModule>,
    function: sys::CUfunction,
    info: FunctionInfo,
    /// Maximum dynamic shared memory allowed so far, beyond the 48 KiB that need no opt-in.
    allowed_shared: AtomicU32,
}

// SAFETY: as for the module.
unsafe impl Send for JitFunction {}
// SAFETY: as for the module.
unsafe impl Sync for JitFunction {}

impl JitFunction {
    pub(super) fn of(function: &dyn BackendFunction) -> Option<&Self> {
        let any: &dyn Any = function;
        any.downcast_ref()
    }

    pub(super) fn raw(&self) -> sys::CUfunction {
        self.function
    }

    /// Opts in to a launch's resources beyond the defaults: large shared memory, a large cluster.
    pub(super) fn allow(&self, config: &LaunchConfig) -> Result<(), DriverError> {
        use sys::CUfunction_attribute as A;
        // SAFETY: the module is loaded, so the function is valid.
        let set =
            |attribute, value| unsafe { result::function::set_function_attribute(self.function, attribute, value) };
        if config.dynamic_shared > self.allowed_shared.load(Ordering::Acquire) {
            let bytes = i32::try_from(config.dynamic_shared).unwrap_or(i32::MAX);
            set(A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)?;
            self.allowed_shared.fetch_max(config.dynamic_shared, Ordering::AcqRel);
        }
        let cluster = config.cluster.or(self.info.required_cluster);
        let blocks: u64 = cluster.map_or(1, |cluster| cluster.iter().map(|&n| u64::from(n)).product());
        if blocks > PORTABLE_CLUSTER_BLOCKS {
            set(A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
        }
        Ok(())
    }
}

impl BackendFunction for JitFunction {
    fn info(&self) -> &FunctionInfo {
        &self.info
    }

    fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32, Error> {
        let context = &self.module.context;
        context.bind()?;
        let site = LaunchSite::new(&self.info.name, config);
        let invalid = |e| ErrorKind::InvalidLaunch { site: site.clone(), reason: driver::text(e) };
        self.allow(config).map_err(invalid)?;
        let mut attributes = stream::attributes(config, Begin::InTurn);
        let launch = stream::launch_config(config, std::ptr::null_mut(), &mut attributes);
        let mut clusters = 0;
        // SAFETY: the function's module is loaded, the attributes outlive the call, and `clusters`
        // is valid for a write.
        let status = unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut clusters, self.function, &raw const launch) };
        status.result().map_err(invalid)?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }
}

fn info(name: &str, function: sys::CUfunction, count: Option<usize>) -> Result<FunctionInfo, DriverError> {
    use sys::CUfunction_attribute as A;
    // SAFETY: the function is valid.
    let get = |attribute| unsafe { result::function::get_function_attribute(function, attribute) };
    let get = |attribute| get(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    Ok(FunctionInfo {
        name: name.to_owned(),
        params: count.and_then(|count| params(function, count)),
        places: Places::Drivers,
        static_shared: get(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        max_threads: Some(get(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?),
        required_block: None,
        required_cluster: required_cluster(function),
        registers: get(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        programmatic: false,
    })
}

/// The cluster size of `.reqnctapercluster`.
fn required_cluster(function: sys::CUfunction) -> Option<[u32; 3]> {
    use sys::CUfunction_attribute as A;
    let of = |attribute| {
        // SAFETY: the function is valid.
        let value = unsafe { result::function::get_function_attribute(function, attribute) };
        value.ok().and_then(|value| u32::try_from(value).ok()).filter(|value| *value != 0)
    };
    Some([
        of(A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)?,
        of(A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?,
        of(A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?,
    ])
}

/// The parameters, if the driver reports them (12.4 and later).
fn params(function: sys::CUfunction, count: usize) -> Option<Vec<Param>> {
    if !driver::has(c"cuFuncGetParamInfo") {
        return None;
    }
    let param = |index| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function is valid, and both numbers are valid for a write.
        let status = unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut bytes) };
        status.result().ok()?;
        Some(Param { offset: u32::try_from(offset).ok()?, bytes: u32::try_from(bytes).ok()? })
    };
    (0..count).map(param).collect()
}
