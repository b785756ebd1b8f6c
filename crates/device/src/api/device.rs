//! A device of either kind: its properties, streams, memory and modules.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use warpfold_lang::Target;
use warpfold_sim::Arch;

use crate::api::activity::Recorder;
use crate::api::buffer::Buffer;
use crate::api::draws::Draws;
use crate::api::element::Element;
use crate::api::host_buffer::HostBuffer;
use crate::api::kernel_cache::KernelCache;
use crate::api::memory::{Allocation, MemoryUse};
use crate::api::module::Module;
use crate::api::stream::Stream;
use crate::backend::{Backend, BackendStream, DeviceKind, DriverVersion, Limits, Pace};
use crate::{Error, ErrorKind};

/// A GPU: a CUDA device or the virtual GPU.
///
/// Cheap to clone; clones are the same device, with the same memory. Two devices are equal if
/// memory of one is memory of the other.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Box<dyn Backend>,
    stream: Arc<dyn BackendStream>,
    activity: Recorder,
    kernels: KernelCache,
    buffers: AtomicU64,
    memory: MemoryUse,
    draws: Arc<Draws>,
    /// The groups that the device is a rank of.
    groups: RwLock<Vec<(Weak<Pace>, usize)>>,
    /// Reason why the virtual GPU was chosen instead of a CUDA GPU.
    fallback: Option<Error>,
}

/// Properties.
impl Device {
    pub(crate) fn from_backend(backend: impl Backend) -> Self {
        let stream = backend.default_stream();
        let backend: Box<dyn Backend> = Box::new(backend);
        let (activity, kernels, buffers) = <(Recorder, KernelCache, AtomicU64)>::default();
        let (memory, draws, groups) = <(MemoryUse, Arc<Draws>, _)>::default();
        let fallback = None;
        let inner = Inner { backend, stream, activity, kernels, buffers, memory, draws, groups, fallback };
        Self { inner: Arc::new(inner) }
    }

    /// Makes the device a rank of a group.
    pub(crate) fn join(&self, group: &Arc<Pace>, rank: usize) {
        let mut groups = self.inner.groups.write().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|(group, _)| group.strong_count() > 0);
        groups.push((Arc::downgrade(group), rank));
    }

    /// Waits until the peers have launched what the device waits for, before a driver call that may
    /// wait for the device: see [`Pace`].
    pub(crate) fn catch_up(&self) -> Result<(), Error> {
        let groups = self.inner.groups.read().unwrap_or_else(PoisonError::into_inner);
        let living = groups.iter().filter_map(|(group, rank)| Some((group.upgrade()?, *rank)));
        let living: Vec<_> = living.collect();
        drop(groups);
        living.into_iter().try_for_each(|(group, rank)| group.catch_up(rank))
    }

    #[cfg(feature = "virtual-gpu")]
    /// Notes the reason why it stands in for a CUDA GPU. Called before the device is cloned.
    pub(crate) fn with_fallback(mut self, reason: Error) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a device that was just made has no clones");
        inner.fallback = Some(reason);
        self
    }

    /// The reason why [`Device::best`] chose the virtual GPU: the problem of the first CUDA GPU.
    /// `None` for a CUDA GPU, and for a device requested by name.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&Error> {
        self.inner.fallback.as_ref()
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    pub(crate) fn backend_as<B: Backend>(&self) -> Option<&B> {
        let any: &dyn Any = &*self.inner.backend;
        any.downcast_ref()
    }

    pub(crate) fn activity(&self) -> &Recorder {
        &self.inner.activity
    }

    pub(crate) fn kernels(&self) -> &KernelCache {
        &self.inner.kernels
    }

    /// The GPU's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.backend().properties().name
    }

    /// The kind of the device, with its ordinal or profile.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.backend().properties().kind
    }

    /// Returns true for the virtual GPU, which counts and checks but measures no times.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        matches!(self.kind(), DeviceKind::Virtual(_))
    }

    /// Returns true for a hardware GPU behind the CUDA driver.
    #[must_use]
    pub fn is_cuda(&self) -> bool {
        !self.is_virtual()
    }

    /// Returns true if both are the same device, like `==`.
    #[must_use]
    pub fn same_device(&self, other: &Self) -> bool {
        self == other
    }

    /// Resets the seed of the random numbers drawn for the device when no queue is given.
    /// Infallible; the `Result` is for compatibility with candle.
    ///
    /// # Errors
    /// None.
    pub fn set_seed(&self, seed: u64) -> Result<(), Error> {
        self.inner.draws.set_seed(seed);
        Ok(())
    }

    /// Counter of the random numbers drawn for the device when no queue is given.
    #[must_use]
    pub fn draws(&self) -> &Arc<Draws> {
        &self.inner.draws
    }

    /// The architecture that kernels are built for.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.backend().properties().arch
    }

    /// The target for kernels: architecture, limits, and the newest PTX version that the device
    /// accepts.
    #[must_use]
    pub fn target(&self) -> Target {
        let target = Target::new(self.arch(), self.ptx_version());
        let own = self.limits();
        let limits = warpfold_lang::Limits {
            max_threads: own.max_threads_per_block,
            max_shared_bytes: own.shared_bytes_per_block_optin,
            ..target.limits
        };
        Target { limits, ..target }
    }

    /// The newest PTX `.version` that the device takes, as major and minor number.
    #[must_use]
    pub fn ptx_version(&self) -> (u32, u32) {
        self.backend().properties().ptx_version
    }

    /// Limits of the device and of one block.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.backend().properties().limits
    }

    /// The CUDA version that the driver supports; `None` for the virtual GPU.
    #[must_use]
    pub fn driver_version(&self) -> Option<DriverVersion> {
        self.backend().properties().driver
    }

    /// Free bytes of device memory.
    ///
    /// # Errors
    /// What the driver says.
    pub fn free_memory_bytes(&self) -> Result<u64, Error> {
        self.backend().memory().map(|(free, _)| free)
    }

    /// Bytes of device memory that this device's buffers own. Borrowed memory, and memory that
    /// graphs or the driver keep for themselves, is not counted.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.memory_use().now()
    }

    /// Peak of the bytes that buffers owned, since the last [`restart_peak`](Self::restart_peak).
    #[must_use]
    pub fn peak_allocated_bytes(&self) -> u64 {
        self.memory_use().peak()
    }

    /// Resets the peak to the bytes that buffers own now.
    pub fn restart_peak(&self) {
        self.memory_use().restart();
    }

    pub(crate) fn memory_use(&self) -> &MemoryUse {
        &self.inner.memory
    }
}

/// Work.
impl Device {
    /// The default stream, for work that names no other. It cannot be captured.
    #[must_use]
    pub fn default_stream(&self) -> Stream {
        Stream::new(self.clone(), self.inner.stream.clone())
    }

    /// Creates a stream. On CUDA its work may overlap with that of other streams; on the virtual
    /// GPU all work runs in the order of the calls.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new_stream(&self) -> Result<Stream, Error> {
        Ok(Stream::new(self.clone(), self.backend().new_stream()?))
    }

    /// Waits for the work of every stream, except for captures. Streams of other users of cudarc
    /// are included only if they were [shared](Stream::from_cudarc).
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel failed since the last synchronisation.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.activity().call("cuStreamSynchronize", || self.backend().synchronize())
    }

    /// Loads PTX text: on CUDA by the driver's compiler, on the virtual GPU by its own front end.
    ///
    /// # Errors
    /// [`ErrorKind::Jit`] with the compiler's log, or [`ErrorKind::Load`] with line and text.
    pub fn load(&self, ptx: &str) -> Result<Module, Error> {
        self.catch_up()?;
        let module = self.activity().call("cuLibraryLoadData", || self.backend().load(ptx))?;
        Ok(Module::new(self.clone(), module))
    }
}

/// Memory.
impl Device {
    /// Allocates `len` uninitialised elements: the virtual GPU's checks report a read before a
    /// write.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let number = self.inner.buffers.fetch_add(1, Ordering::Relaxed);
        self.alloc_named(&format!("buffer{number}"), len)
    }

    /// Allocates like [`Device::alloc`], with a name for findings.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn alloc_named<T: Element>(&self, name: &str, len: usize) -> Result<Buffer<T>, Error> {
        let element_bytes = size_of::<T>();
        let bytes = len
            .checked_mul(element_bytes)
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(ErrorKind::TooLarge { len, element_bytes })?;
        Ok(Buffer::new(Allocation::new(self, bytes as u64, name)?, len))
    }

    /// A placeholder with a unique address and a size, but no memory: to plan work before its
    /// memory is allocated. Reads and writes of it are refused.
    ///
    /// ```
    /// use warpfold_device::{Device, Profile};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let weights = device.placeholder::<f32>(1 << 40);
    /// assert_eq!((device.allocated_bytes(), weights.num_bytes()), (0, 4 << 40));
    /// let first = weights.view(..1)?.bytes();
    /// assert!(device.default_stream().copy_to_host(first, &mut [0; 4]).is_err());
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    #[must_use]
    pub fn placeholder<T: Element>(&self, len: usize) -> Buffer<T> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64).min(1 << 56);
        Buffer::new(Allocation::placeholder(self, bytes), len)
    }

    /// Allocates `len` zeros.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let mut buffer = self.alloc(len)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    /// Copies `data` to a new buffer on the device.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.alloc(data.len())?;
        buffer.copy_from(data)?;
        Ok(buffer)
    }

    /// Uploads like [`Device::upload`], with a name for findings.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn upload_named<T: Element>(&self, name: &str, data: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.alloc_named(name, data.len())?;
        buffer.copy_from(data)?;
        Ok(buffer)
    }

    /// Allocates `len` zeros of pinned host memory, for asynchronous copies from and to this
    /// device; plain memory on the virtual GPU.
    ///
    /// # Errors
    /// What the driver says.
    pub fn host_buffer<T: Element>(&self, len: usize) -> Result<HostBuffer<T>, Error> {
        HostBuffer::new(self, len)
    }

    /// Fails unless `other` is this device.
    pub(crate) fn expect_same(&self, other: &Self, what: impl FnOnce() -> String) -> Result<(), Error> {
        if self == other {
            return Ok(());
        }
        Err(ErrorKind::MixedDevices { what: what(), expected: self.to_string(), found: other.to_string() }.into())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.backend().properties(), other.backend().properties());
        (a.kind, a.identity) == (b.kind, b.identity)
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind(), self.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(self.backend().properties()).finish()
    }
}
