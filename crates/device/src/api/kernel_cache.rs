//! Cache of built and loaded kernels, per device and configuration.
//!
//! Two levels. A kernel value is known by its number and bounds, so that launching it again costs a
//! look-up. Kernels made anew for each call (`sum(256)` twice) are built each time, but the same
//! PTX text is loaded once.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_lang::{Bounds, Built, Kernel, Params, Threads};

use crate::api::device::Device;
use crate::api::module::{Function, Prepared};
use crate::backend::{BackendFunction, BackendModule, DeviceKind, FunctionInfo};
use crate::{Error, ErrorKind};

/// Counts of the kernels that a device has built and loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCounts {
    /// Kernels built, that is written as PTX.
    pub built: u64,
    /// Texts loaded: compiled by the driver, or decoded by the virtual GPU.
    pub loaded: u64,
}

#[derive(Debug, Default)]
pub(crate) struct KernelCache {
    kernels: Table<(u64, Bounds), Arc<Prepared>>,
    modules: Table<String, Arc<dyn BackendModule>>,
    rewrite: Mutex<Rewrite>,
    built: AtomicU64,
    loaded: AtomicU64,
}

/// Rewriting of PTX texts before they are loaded; none by default.
#[derive(Clone, Default)]
struct Rewrite(Option<Arc<dyn Fn(&str) -> String + Send + Sync>>);

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Rewrite(_)" } else { "None" })
    }
}

/// A kernel for a device. The virtual GPU's findings name lines of Rust; a driver gets the text
/// alone.
pub(crate) fn build<Ps: Params>(device: &Device, kernel: &Kernel<Ps>) -> Result<Built, Error> {
    let built = match device.kind() {
        DeviceKind::Virtual(_) => kernel.build_with_lines(&device.target()),
        DeviceKind::Cuda { .. } => kernel.build(&device.target()),
    };
    Ok(built.map_err(ErrorKind::Build)?)
}

impl KernelCache {
    /// The kernel of this number and bounds. Compiled once, not once for each list of parameters.
    fn prepare(
        &self,
        device: &Device,
        id: (u64, Bounds),
        build: &dyn Fn() -> Result<Built, Error>,
    ) -> Result<Arc<Prepared>, Error> {
        self.kernels.get_or_insert(id, || {
            let built = build()?;
            device.catch_up()?;
            self.built.fetch_add(1, Ordering::Relaxed);
            let rewrite = self.rewrite.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let ptx = built.module.to_string();
            let ptx = rewrite.0.map_or_else(|| ptx.clone(), |rewrite| rewrite(&ptx));
            let module = self.modules.get_or_insert(ptx.clone(), || {
                let module = device.activity().call("cuLibraryLoadData", || device.backend().load(&ptx))?;
                self.loaded.fetch_add(1, Ordering::Relaxed);
                Ok(module)
            })?;
            prepared(module.function(&built.entry)?, &built).map(Arc::new)
        })
    }
}

fn prepared(imp: Arc<dyn BackendFunction>, built: &Built) -> Result<Prepared, Error> {
    let mut info = FunctionInfo { programmatic: built.waits_for_dependencies, ..imp.info().clone() };
    if let Threads::Required(block) = built.bounds.threads {
        info.required_block = Some(block);
    }
    // The language refuses more shared memory than the target has, so this fits.
    let dynamic_shared = u32::try_from(built.dynamic_shared_bytes).unwrap_or(u32::MAX);
    Ok(Prepared { imp, info, dynamic_shared })
}

/// Kernels.
impl Device {
    /// Builds and loads a kernel in advance, so that its first launch does not wait for that.
    /// Launches of the function get the dynamic shared memory that the kernel declares.
    ///
    /// # Errors
    /// [`ErrorKind::Build`], [`ErrorKind::Jit`], [`ErrorKind::Load`].
    pub fn prepare<Ps: Params>(&self, kernel: &Kernel<Ps>) -> Result<Function, Error> {
        Ok(Function::new(self.clone(), self.prepared(kernel)?))
    }

    /// Passes the text of each kernel loaded from now on through a function: to inspect it, or to
    /// try a variant with the same entry and parameters. Kernels loaded before are unchanged, as
    /// are those of [`Device::load`].
    ///
    /// ```
    /// use warpfold_device::{Device, LaunchConfig, Profile};
    /// use warpfold_lang::{Global, kernel};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// device.rewrite_kernels(|text| text.replace(", 41;", ", 42;"));
    /// let answer = kernel("answer", |output: Global<u32>| output.set(41));
    /// let mut output = device.alloc::<u32>(1)?;
    /// device.launch(&answer, LaunchConfig::new(1, 1), (&mut output,))?;
    /// assert_eq!(output.download()?, [42]);
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    pub fn rewrite_kernels(&self, rewrite: impl Fn(&str) -> String + Send + Sync + 'static) {
        *self.kernels().rewrite.lock().unwrap_or_else(PoisonError::into_inner) = Rewrite(Some(Arc::new(rewrite)));
    }

    /// Number of kernels built and loaded so far, not counting those of [`Device::load`].
    #[must_use]
    pub fn kernel_counts(&self) -> KernelCounts {
        let KernelCache { built, loaded, .. } = self.kernels();
        KernelCounts { built: built.load(Ordering::Relaxed), loaded: loaded.load(Ordering::Relaxed) }
    }

    pub(crate) fn prepared<Ps: Params>(&self, kernel: &Kernel<Ps>) -> Result<Arc<Prepared>, Error> {
        self.kernels().prepare(self, (kernel.id(), *kernel.bounds()), &|| build(self, kernel))
    }
}

/// A map that computes each value once, even if several threads ask at the same time; different
/// keys do not wait for each other.
#[derive(Debug)]
struct Table<K, V>(Mutex<HashMap<K, Entry<V>>>);

type Entry<V> = Arc<Mutex<Option<V>>>;

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Table<K, V> {
    fn get_or_insert(&self, key: K, make: impl FnOnce() -> Result<V, Error>) -> Result<V, Error> {
        let entry = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let mut value = entry.lock().unwrap_or_else(PoisonError::into_inner);
        match &*value {
            Some(value) => Ok(value.clone()),
            None => Ok(value.insert(make()?).clone()),
        }
    }
}
