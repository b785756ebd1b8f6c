//! CUDA streams and events: copies, launches, waits.

use std::any::Any;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaEvent, CudaStream, DriverError, result, sys};

use super::device::{Context, CudaDevice};
use super::driver;
use super::module::JitFunction;
use super::pinned::{Direction, Pinned};
use crate::backend::{
    Backend, BackendEvent, BackendFunction, BackendGraph, BackendHostMemory, BackendStream, Begin, Clock, Gate,
    LaunchConfig, LaunchSite, Param, Parameters, Span, mixed,
};
use crate::{Error, ErrorKind};

/// A CUDA stream, with its context.
#[derive(Debug)]
pub(super) struct CudaStreamHandle {
    pub(super) context: Arc<Context>,
    pub(super) stream: Arc<CudaStream>,
    gate: Gate,
}

impl CudaStreamHandle {
    /// The handle of a stream, always the same one.
    pub(super) fn new(context: Arc<Context>, stream: Arc<CudaStream>) -> Arc<Self> {
        let in_flight = context.in_flight.clone();
        in_flight.handle(stream, |stream| Self { context, stream, gate: Gate::default() })
    }

    /// Returns true if a user of cudarc who shares the stream is capturing it, which its gate does
    /// not know.
    pub(super) fn is_captured_by_others(&self) -> bool {
        let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        self.gate.enter_uncaptured().is_some() && self.stream.capture_status().is_ok_and(|status| status != none)
    }

    pub(super) fn of(stream: &dyn BackendStream) -> Option<&Self> {
        let any: &dyn Any = stream;
        any.downcast_ref()
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    pub(super) fn synchronize_raw(&self) -> Result<(), DriverError> {
        self.stream.synchronize()
    }

    /// Enqueues one operation, between two events if it is timed.
    fn enqueue(
        &self,
        call: &'static str,
        clock: Clock,
        work: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<Option<Span>, Error> {
        self.context.bind()?;
        let explain = |e| self.context.explain(call, e);
        if clock == Clock::Off {
            return work().map(|()| None).map_err(explain);
        }
        let start = self.record(Clock::On)?;
        work().map_err(explain)?;
        Ok(Some(Span { start, end: self.record(Clock::On)? }))
    }

    fn event(&self, clock: Clock) -> Result<CudaEvent, Error> {
        let flags = match clock {
            Clock::Off => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
            Clock::On => sys::CUevent_flags::CU_EVENT_DEFAULT,
        };
        self.stream.record_event(Some(flags)).map_err(|e| self.context.explain("recording an event", e))
    }

    /// Runs a copy between pinned memory and the device, after those on other streams that use the
    /// same bytes.
    fn copy_pinned(
        &self,
        memory: &Pinned,
        (range, direction): (Range<usize>, Direction),
        copy: impl FnOnce() -> Result<Option<Span>, Error>,
    ) -> Result<Option<Span>, Error> {
        for other in memory.before(&range, direction) {
            self.stream.wait(&other).map_err(|e| self.context.explain("waiting for a copy", e))?;
        }
        let copied = copy();
        match self.event(Clock::Off) {
            Ok(event) => memory.busy_until(range, direction, event),
            // Without an event nothing would wait for the copy, so wait here.
            Err(_) => self.synchronize()?,
        }
        copied
    }
}

impl Drop for CudaStreamHandle {
    fn drop(&mut self) {
        // Destroying a stream does not wait for its work, so others must still be able to.
        if !self.is_captured_by_others()
            && let Ok(event) = self.event(Clock::Off)
        {
            self.context.in_flight.stream_ended(event);
        }
    }
}

impl BackendStream for CudaStreamHandle {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn upload(&self, to: u64, from: &[u8], clock: Clock) -> Result<Option<Span>, Error> {
        // SAFETY: `to` is an allocation of this context with at least that many bytes, kept by the
        // caller; `from` is borrowed until the synchronisation below.
        let copy =
            self.enqueue("copying to the device", clock, || unsafe { result::memcpy_htod_async(to, from, self.raw()) });
        self.synchronize()?;
        copy
    }

    fn download(&self, from: u64, to: &mut [u8], clock: Clock) -> Result<Option<Span>, Error> {
        // SAFETY: `from` is an allocation of this context with at least that many bytes, kept by
        // the caller; `to` is borrowed until the synchronisation below.
        let copy =
            self.enqueue("copying to the host", clock, || unsafe { result::memcpy_dtoh_async(to, from, self.raw()) });
        self.synchronize()?;
        copy
    }

    fn upload_async(
        &self,
        to: u64,
        from: &dyn BackendHostMemory,
        range: Range<usize>,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        let from = Pinned::of(from).ok_or_else(|| mixed("the host buffer", &self.context.properties))?;
        let (bytes, len) = (from.bytes_now(&range), range.len());
        // SAFETY: `to` is an allocation of this context with at least `len` bytes, kept by the
        // caller; the pinned bytes live until the event that `copy_pinned` gives them.
        let copy = || unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.cast_const(), len, self.raw()).result() };
        self.copy_pinned(from, (range, Direction::ToDevice), || self.enqueue("copying to the device", clock, copy))
    }

    fn download_async(
        &self,
        from: u64,
        to: &mut dyn BackendHostMemory,
        range: Range<usize>,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        let to = Pinned::of(to).ok_or_else(|| mixed("the host buffer", &self.context.properties))?;
        let (bytes, len) = (to.bytes_now(&range), range.len());
        // SAFETY: `from` is an allocation of this context with at least `len` bytes, kept by the
        // caller; the host does not touch the pinned bytes before the event that `copy_pinned`
        // gives them.
        let copy = || unsafe { sys::cuMemcpyDtoHAsync_v2(bytes, from, len, self.raw()).result() };
        self.copy_pinned(to, (range, Direction::ToHost), || self.enqueue("copying to the host", clock, copy))
    }

    fn fill(&self, address: u64, byte: u8, bytes: u64, clock: Clock) -> Result<Option<Span>, Error> {
        // SAFETY: the address is an allocation of this context with at least `bytes` bytes, kept by
        // the caller.
        self.enqueue("filling memory", clock, || unsafe {
            result::memset_d8_async(address, byte, bytes as usize, self.raw())
        })
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, clock: Clock) -> Result<Option<Span>, Error> {
        // SAFETY: both addresses are allocations of this context with at least `bytes` bytes, kept
        // by the caller.
        self.enqueue("copying on the device", clock, || unsafe {
            result::memcpy_dtod_async(to, from, bytes as usize, self.raw())
        })
    }

    fn copy_from_peer(
        &self,
        to: u64,
        (from, owner): (u64, &dyn Backend),
        bytes: u64,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        let any: &dyn Any = owner;
        let owner: &CudaDevice = any.downcast_ref().ok_or_else(|| mixed("the source", &self.context.properties))?;
        self.enqueue("copying between devices", clock, || {
            super::peer::copy((to, &self.context), (from, &owner.context), bytes, self.raw())
        })
    }

    fn launch(
        &self,
        function: &dyn BackendFunction,
        config: &LaunchConfig,
        begin: Begin,
        parameters: &Parameters,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        let function = JitFunction::of(function).ok_or_else(|| mixed("the kernel", &self.context.properties))?;
        self.context.bind()?;
        let site = LaunchSite::new(&function.info().name, config);
        let invalid = |e| match driver::is_of_kernel(e) {
            true => self.context.explain("launching", e),
            false => ErrorKind::InvalidLaunch { site: site.clone(), reason: driver::text(e) }.into(),
        };
        function.allow(config).map_err(invalid)?;
        let start = if clock == Clock::On { Some(self.record(Clock::On)?) } else { None };
        launch(function, self.raw(), config, begin, parameters).map_err(invalid)?;
        self.context.remember(self.raw() as usize, site);
        Ok(match start {
            Some(start) => Some(Span { start, end: self.record(Clock::On)? }),
            None => None,
        })
    }

    fn record(&self, clock: Clock) -> Result<Arc<dyn BackendEvent>, Error> {
        Ok(Arc::new(DriverEvent { context: self.context.clone(), event: self.event(clock)? }))
    }

    fn wait(&self, event: &dyn BackendEvent) -> Result<(), Error> {
        let event = DriverEvent::of(event).ok_or_else(|| mixed("the event", &self.context.properties))?;
        self.stream.wait(&event.event).map_err(|e| self.context.explain("waiting for an event", e))
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.synchronize_raw().map_err(|e| self.context.explain("synchronising a stream", e))?;
        self.context.confirm(Some(self.raw() as usize));
        Ok(())
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.begin_graph()
    }

    fn end_capture(&self) -> Result<Box<dyn BackendGraph>, Error> {
        self.end_graph()
    }
}

/// Launches with the attributes of the configuration.
fn launch(
    function: &JitFunction,
    stream: sys::CUstream,
    config: &LaunchConfig,
    begin: Begin,
    parameters: &Parameters,
) -> Result<(), DriverError> {
    let mut attributes = attributes(config, begin);
    let launch = launch_config(config, stream, &mut attributes);
    let bytes = parameters.bytes();
    let mut len = bytes.len();
    let mut buffer = [
        sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize as *mut c_void,
        bytes.as_ptr().cast_mut().cast(),
        sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize as *mut c_void,
        (&raw mut len).cast(),
        sys::CU_LAUNCH_PARAM_END_AS_INT as usize as *mut c_void,
    ];
    let argument = |place: &Param| bytes[place.offset as usize..].as_ptr().cast_mut().cast::<c_void>();
    let mut each: Vec<*mut c_void> = parameters.places().iter().map(argument).collect();
    // As a list of pointers the driver puts arguments where the kernel has them, and would read
    // beyond a list that is too short. Drivers that do not tell a kernel's parameters get one
    // buffer, in which arguments have to be at their offsets already.
    let (one_by_one, at_once) = match (each.is_empty(), &function.info().params) {
        (true, _) => (std::ptr::null_mut(), std::ptr::null_mut()),
        (false, Some(_)) => (each.as_mut_ptr(), std::ptr::null_mut()),
        (false, None) => (std::ptr::null_mut(), buffer.as_mut_ptr()),
    };
    // SAFETY: the function belongs to the stream's context and its module is loaded; where
    // arguments go one by one, their number and sizes are those of the function's parameters; the
    // driver has read attributes and arguments, which it does not write, when the call returns.
    // What the kernel does with the addresses among them is the kernel's business: device code is
    // outside of what Rust guarantees.
    unsafe { sys::cuLaunchKernelEx(&raw const launch, function.raw(), one_by_one, at_once) }.result()
}

/// A launch in the driver's form; the attributes must outlive it.
pub(super) fn launch_config(
    config: &LaunchConfig,
    stream: sys::CUstream,
    attributes: &mut [sys::CUlaunchAttribute],
) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: config.grid[0],
        gridDimY: config.grid[1],
        gridDimZ: config.grid[2],
        blockDimX: config.block[0],
        blockDimY: config.block[1],
        blockDimZ: config.block[2],
        sharedMemBytes: config.dynamic_shared,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as c_uint,
    }
}

pub(super) fn attributes(config: &LaunchConfig, begin: Begin) -> Vec<sys::CUlaunchAttribute> {
    let attribute = |id, set: &dyn Fn(&mut sys::CUlaunchAttributeValue)| {
        let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
        set(&mut value);
        sys::CUlaunchAttribute { id, pad: [0; 4], value }
    };
    let mut attributes = Vec::new();
    if let Some([x, y, z]) = config.cluster {
        attributes.push(attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &|value| {
            value.clusterDim.x = x;
            value.clusterDim.y = y;
            value.clusterDim.z = z;
        }));
    }
    if config.cooperative {
        let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes.push(attribute(id, &|value| value.cooperative = 1));
    }
    if begin == Begin::Early {
        let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes.push(attribute(id, &|value| value.programmaticStreamSerializationAllowed = 1));
    }
    attributes
}

/// A CUDA event.
#[derive(Debug)]
struct DriverEvent {
    context: Arc<Context>,
    event: CudaEvent,
}

impl DriverEvent {
    fn of(event: &dyn BackendEvent) -> Option<&Self> {
        let any: &dyn Any = event;
        any.downcast_ref()
    }
}

impl BackendEvent for DriverEvent {
    fn synchronize(&self) -> Result<(), Error> {
        self.event.synchronize().map_err(|e| self.context.explain("waiting for an event", e))
    }

    fn is_complete(&self) -> Result<bool, Error> {
        self.context.bind()?;
        self.event.try_is_complete().map_err(|e| self.context.explain("asking for an event", e))
    }

    fn elapsed_since(&self, earlier: &dyn BackendEvent) -> Result<Option<Duration>, Error> {
        let earlier = Self::of(earlier).ok_or_else(|| mixed("the earlier event", &self.context.properties))?;
        earlier.synchronize()?;
        self.synchronize()?;
        self.context.bind()?;
        let milliseconds = elapsed_ms(earlier.event.cu_event(), self.event.cu_event())
            .map_err(|e| self.context.explain("asking for the time between two events", e))?;
        // The later event may be on another stream and in truth be the earlier one.
        Ok(Some(Duration::from_secs_f64((f64::from(milliseconds) / 1e3).max(0.0))))
    }
}

/// Time between two events that have been reached.
fn elapsed_ms(start: sys::CUevent, end: sys::CUevent) -> Result<f32, DriverError> {
    if driver::has(c"cuEventElapsedTime_v2") {
        // SAFETY: both events are alive, of this context, recorded and reached.
        return unsafe { result::event::elapsed(start, end) };
    }
    type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let mut milliseconds = 0.0;
    // SAFETY: the driver is loaded and the type is that of the function (CUDA Driver API, "Event
    // Management"), which drivers before 12.8 have instead of the second version. Both events are
    // alive, recorded and reached.
    let status = unsafe {
        let Some(function) = driver::function::<ElapsedTime>(c"cuEventElapsedTime") else {
            return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
        };
        function(&raw mut milliseconds, start, end)
    };
    status.result().map(|()| milliseconds)
}
