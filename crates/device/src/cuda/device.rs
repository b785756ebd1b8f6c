//! A GPU: its context, its properties, its memory.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, DriverError, result, sys};
use warpfold_sim::{Arch, TensorMap};

use super::driver::{self, error};
use super::in_flight::InFlight;
use super::module::JitModule;
use super::pinned::Pinned;
use super::stream::CudaStreamHandle;
use crate::backend::{
    Backend, BackendHostMemory, BackendModule, BackendStream, ComputeCapability, DeviceKind, LaunchSite, Limits, Link,
    Properties,
};
use crate::{Error, ErrorKind};

/// Launches remembered for the message of a failure.
const REMEMBERED_LAUNCHES: usize = 16;

/// State shared by the streams, modules and host memory of a GPU. Keeps the driver's context alive.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) cuda: Arc<CudaContext>,
    pub(super) properties: Properties,
    pub(super) in_flight: Arc<InFlight>,
    /// The latest launches that no synchronisation has confirmed yet, with their streams.
    unconfirmed: Mutex<Vec<(usize, LaunchSite)>>,
}

impl Context {
    /// Makes the context current on this thread; to be called before each group of driver calls.
    pub(super) fn bind(&self) -> Result<(), Error> {
        self.cuda.bind_to_thread().map_err(|e| self.explain("binding the context", e))
    }

    pub(super) fn remember(&self, stream: usize, site: LaunchSite) {
        let mut launches = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if launches.len() == REMEMBERED_LAUNCHES {
            launches.remove(0);
        }
        launches.push((stream, site));
    }

    /// Marks as successful all launches so far on a stream, or on every stream for `None`.
    pub(super) fn confirm(&self, stream: Option<usize>) {
        let mut launches = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        launches.retain(|(of, _)| stream.is_some_and(|stream| stream != *of));
    }

    /// Converts the error of a call, which may be the error of an earlier kernel.
    pub(super) fn explain(&self, call: &'static str, e: DriverError) -> Error {
        if !driver::is_of_kernel(e) {
            return error(call, e);
        }
        // The context is lost, so that later calls answer with the same launches.
        let launches = self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner);
        let launches = launches.iter().map(|(_, site)| site.clone()).collect();
        ErrorKind::LaunchFailed { launches, reason: driver::text(e) }.into()
    }
}

/// A GPU behind the CUDA driver.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    pub(super) context: Arc<Context>,
    stream: Arc<CudaStreamHandle>,
}

impl CudaDevice {
    /// Opens the GPU with this ordinal, in its primary context.
    pub(crate) fn open(ordinal: usize) -> Result<Self, Error> {
        let found = driver::device_count()?;
        if ordinal >= found {
            return Err(ErrorKind::NoDevice { asked: ordinal, found }.into());
        }
        Self::wrap(CudaContext::new(ordinal).map_err(|e| error("creating a context", e))?)
    }

    /// Wraps the GPU of an existing context.
    pub(super) fn wrap(cuda: Arc<CudaContext>) -> Result<Self, Error> {
        let properties = properties(&cuda)?;
        let stream = cuda.default_stream();
        let in_flight = InFlight::of(&cuda);
        let context = Arc::new(Context { cuda, properties, in_flight, unconfirmed: Mutex::new(Vec::new()) });
        let stream = CudaStreamHandle::new(context.clone(), stream);
        Ok(Self { context, stream })
    }

    fn try_allocate(&self, bytes: usize) -> Result<u64, DriverError> {
        if self.context.cuda.has_async_alloc() {
            // SAFETY: the stream is one of the context; `memory.rs` orders uses on other streams
            // after it.
            unsafe { result::malloc_async(self.stream.raw(), bytes) }
        } else {
            // SAFETY: the context is current, and every bit pattern is a value of every element
            // type.
            unsafe { result::malloc_sync(bytes) }
        }
    }
}

impl Backend for CudaDevice {
    fn properties(&self) -> &Properties {
        &self.context.properties
    }

    fn default_stream(&self) -> Arc<dyn BackendStream> {
        self.stream.clone()
    }

    fn new_stream(&self) -> Result<Arc<dyn BackendStream>, Error> {
        // cudarc's `new_stream` synchronises the context the first time; a fork waits for the
        // default stream alone.
        let stream = self.stream.stream.fork().map_err(|e| self.context.explain("creating a stream", e))?;
        Ok(CudaStreamHandle::new(self.context.clone(), stream))
    }

    fn allocate(&self, bytes: u64, _name: &str) -> Result<u64, Error> {
        self.context.bind()?;
        let size = usize::try_from(bytes).map_err(|_| ErrorKind::TooLarge { len: usize::MAX, element_bytes: 1 })?;
        let out_of_memory = DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let address = match self.try_allocate(size) {
            // Memory that was freed after work that still runs becomes free when that is done.
            Err(e) if e == out_of_memory => {
                self.synchronize()?;
                self.try_allocate(size)
            }
            other => other,
        };
        match address {
            Err(e) if e == out_of_memory => {
                let (free, total) = self.memory()?;
                let device = self.context.properties.name.clone();
                Err(ErrorKind::OutOfMemory { device, requested: bytes, free, total }.into())
            }
            other => other.map_err(|e| self.context.explain("allocating memory", e)),
        }
    }

    fn free(&self, address: u64, last: &dyn BackendStream) {
        let cuda = &self.context.cuda;
        let stream = CudaStreamHandle::of(last).unwrap_or(&self.stream);
        // `record_err` makes the next call answer with the error, since this one cannot.
        cuda.record_err(cuda.bind_to_thread());
        if cuda.has_async_alloc() {
            // SAFETY: the address came from `malloc_async`, its owner is gone, and `memory.rs` has
            // ordered every use of it before this point of the stream.
            cuda.record_err(unsafe { result::free_async(address, stream.raw()) });
        } else {
            cuda.record_err(stream.synchronize_raw());
            // SAFETY: the address came from `malloc_sync`, its owner is gone, and every use of it
            // is done.
            cuda.record_err(unsafe { result::free_sync(address) });
        }
    }

    fn host_address(&self, _address: u64, _bytes: u64) -> Option<*const u8> {
        None
    }

    fn memory(&self) -> Result<(u64, u64), Error> {
        self.context.bind()?;
        super::peer::trim(&self.context).map_err(|e| self.context.explain("trimming the memory pool", e))?;
        let (free, total) =
            self.context.cuda.mem_get_info().map_err(|e| self.context.explain("asking for memory", e))?;
        Ok((free as u64, total as u64))
    }

    fn host_memory(&self, bytes: usize) -> Result<Box<dyn BackendHostMemory>, Error> {
        Ok(Box::new(Pinned::new(self.context.clone(), bytes)?))
    }

    fn encode_tensor_map(&self, map: &TensorMap) -> Result<[u8; 128], Error> {
        self.context.bind()?;
        super::tensor_map::encode(map)
    }

    fn link(&self, other: &dyn Backend) -> Result<Link, Error> {
        let any: &dyn Any = other;
        any.downcast_ref::<Self>().map_or(Ok(Link::Host), |other| super::peer::link(&self.context, &other.context))
    }

    fn enable_peer(&self, other: &dyn Backend) -> Result<(), Error> {
        let any: &dyn Any = other;
        any.downcast_ref::<Self>().map_or(Ok(()), |other| super::peer::enable(&self.context, &other.context))
    }

    fn load(&self, ptx: &str) -> Result<Arc<dyn BackendModule>, Error> {
        Ok(Arc::new(JitModule::load(self.context.clone(), ptx)?))
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.context.in_flight.wait()?;
        self.context.confirm(None);
        Ok(())
    }
}

fn properties(cuda: &Arc<CudaContext>) -> Result<Properties, Error> {
    let driver = driver::version()?;
    let get = |attribute| -> Result<u32, Error> {
        let value = cuda.attribute(attribute).map_err(|e| error("asking for a device attribute", e))?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let name = cuda.name().map_err(|e| error("asking for the device's name", e))?;
    let major = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let arch =
        arch(major, minor).ok_or_else(|| ErrorKind::UnsupportedArchitecture { device: name.clone(), major, minor })?;
    let limits = Limits {
        compute_capability: ComputeCapability::new(major, minor),
        max_threads_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_block: [
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        max_grid: [
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        // The driver has no attribute for the size: 8 is portable, and Hopper's 16 is not (CUDA C++
        // Programming Guide, "Thread Block Clusters").
        max_cluster_blocks: match (get(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)?, major) {
            (0, _) => 1,
            (_, 9 | 10) => 16,
            _ => 8,
        },
        has_mma: arch.number >= 80,
        has_wgmma: arch == Arch { number: 90, specific: true },
        shared_bytes_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        shared_bytes_per_block_optin: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_bytes_per_sm: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        registers_per_sm: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        max_threads_per_sm: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        max_blocks_per_sm: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        num_sms: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        warp_size: get(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        l2_bytes: u64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        memory_bytes: cuda.total_mem().map_err(|e| error("asking for the device's memory", e))? as u64,
    };
    Ok(Properties {
        kind: DeviceKind::Cuda { ordinal: cuda.ordinal() },
        name,
        arch,
        limits,
        driver: Some(driver),
        ptx_version: driver::ptx_version(driver),
        identity: cuda.cu_ctx() as u64,
    })
}

/// Target architecture for a compute capability. Generations after Hopper run sm_90 code, but not
/// the features specific to sm_90a.
fn arch(major: u32, minor: u32) -> Option<Arch> {
    match (major, minor) {
        (..8, _) => None,
        (8, 6 | 7 | 9) => Some(Arch { number: 80 + minor, specific: false }),
        (8, _) => Some(Arch::SM_80),
        (9, 0) => Some(Arch::SM_90A),
        _ => Some(Arch { number: 90, specific: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_follows_from_the_compute_capability() {
        let name = |major, minor| arch(major, minor).map(|a| a.to_string());
        assert_eq!(name(7, 5), None);
        assert_eq!(name(8, 0).as_deref(), Some("sm_80"));
        assert_eq!(name(8, 9).as_deref(), Some("sm_89"));
        assert_eq!(name(9, 0).as_deref(), Some("sm_90a"));
        assert_eq!(name(12, 0).as_deref(), Some("sm_90"));
    }
}
