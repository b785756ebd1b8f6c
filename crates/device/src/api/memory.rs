//! Allocations of device memory, and the order in which streams may use them.
//!
//! Streams run concurrently, so a buffer that is written on one and read on another needs an order,
//! which follows from its uses: a read waits for the stream that wrote last, a write waits for that
//! one and for every reader since, and memory is freed after all of them. Uses on one stream cost a
//! comparison of pointers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::device::Device;
use crate::backend::{BackendEvent, BackendStream, CaptureId};
use crate::{Error, ErrorKind};

/// Kind of access of an operation to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Ownership of an allocation, which decides who frees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    Ours,
    Borrowed,
    /// A placeholder without memory at its address.
    Placeholder,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    device: Device,
    address: u64,
    /// Bytes owned; 0 for borrowed memory.
    owned_bytes: u64,
    name: String,
    ownership: Ownership,
    order: Mutex<Order<dyn BackendStream>>,
}

/// Bytes that a device's buffers own, and their peak.
#[derive(Debug, Default)]
pub(crate) struct MemoryUse {
    now: AtomicU64,
    peak: AtomicU64,
}

impl MemoryUse {
    fn add(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn remove(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn restart(&self) {
        self.peak.store(self.now(), Ordering::Relaxed);
    }
}

impl Allocation {
    /// Allocates `bytes` of memory; none for 0 bytes.
    pub(crate) fn new(device: &Device, bytes: u64, name: &str) -> Result<Arc<Self>, Error> {
        let (address, ownership) = match bytes {
            0 => (0, Ownership::Borrowed),
            _ => {
                device.catch_up()?;
                (device.activity().call("cuMemAlloc", || device.backend().allocate(bytes, name))?, Ownership::Ours)
            }
        };
        let mut allocation = Self::with(device, address, name, ownership, device.backend().default_stream());
        allocation.owned_bytes = bytes;
        device.memory_use().add(bytes);
        Ok(Arc::new(allocation))
    }

    /// Memory of another owner, last used on `stream`.
    pub(crate) fn borrowed(device: &Device, address: u64, name: &str, stream: Arc<dyn BackendStream>) -> Arc<Self> {
        Arc::new(Self::with(device, address, name, Ownership::Borrowed, stream))
    }

    /// A unique address for `bytes`, without memory.
    pub(crate) fn placeholder(device: &Device, bytes: u64) -> Arc<Self> {
        // Above all device addresses.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 60);
        let address = NEXT.fetch_add(bytes.next_multiple_of(256) + 256, Ordering::Relaxed);
        let stream = device.backend().default_stream();
        Arc::new(Self::with(device, address, "placeholder", Ownership::Placeholder, stream))
    }

    fn with(device: &Device, address: u64, name: &str, ownership: Ownership, writer: Arc<dyn BackendStream>) -> Self {
        let order = Mutex::new(Order { writer: Use { stream: writer, capture: None }, readers: Vec::new() });
        Self { device: device.clone(), address, owned_bytes: 0, name: name.to_owned(), ownership, order }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Orders a use like [`Allocation::order_use`], without keeping the memory for a graph.
    pub(crate) fn order(&self, stream: &Arc<dyn BackendStream>, access: Access) -> Result<(), Error> {
        self.order_use(stream, access).map(|_| ())
    }

    /// Orders a use on `stream` after those that it must not overtake, and returns the capture that
    /// the use goes into. Called before the use is enqueued.
    ///
    /// A graph can wait for nothing outside of it, so for a use that is captured the host waits
    /// here. While a capture lasts, the use of another stream that would have to wait for one of
    /// its uses is refused.
    pub(crate) fn order_use(
        &self,
        stream: &Arc<dyn BackendStream>,
        access: Access,
    ) -> Result<Option<CaptureId>, Error> {
        if self.ownership == Ownership::Placeholder {
            return Err(ErrorKind::Placeholder.into());
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let others = order.before(stream, access);
        let is_in_capture =
            |other: &Use<dyn BackendStream>| other.capture.is_some_and(|capture| other.stream.gate().is_in(capture));
        if others.iter().any(is_in_capture) {
            return Err(ErrorKind::NotCapturable("memory that other streams use meanwhile").into());
        }
        let reached = others.iter().map(|other| other.stream.gate().reached(&*other.stream));
        let reached = reached.collect::<Result<Vec<_>, _>>()?;
        // Other gates are left before this one is entered: see `Gate`.
        let entered = stream.gate().enter()?;
        let capture = entered.capture();
        for reached in reached {
            if capture.is_some() { reached.synchronize()? } else { stream.wait(&*reached)? }
        }
        drop(entered);
        order.add(stream, access, capture);
        Ok(capture)
    }
}

impl Drop for Allocation {
    /// Frees the memory after all uses, on the stream that wrote last. A graph keeps its memory, so
    /// a stream that is being captured has used it before the capture, or not at all.
    fn drop(&mut self) {
        if self.ownership != Ownership::Ours {
            return;
        }
        self.device.memory_use().remove(self.owned_bytes);
        let Order { writer, readers } = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A stream that fails here belongs to a failed context: every later call reports that.
        let reached = |used: &Use<dyn BackendStream>| used.stream.gate().reached(&*used.stream).ok();
        let readers: Vec<Arc<dyn BackendEvent>> = readers.iter().filter_map(reached).collect();
        let backend = self.device.backend();
        let free = |last: &dyn BackendStream, uses: &[Arc<dyn BackendEvent>]| {
            for reached in uses {
                let _ = last.wait(&**reached);
            }
            self.device.activity().call("cuMemFree", || backend.free(self.address, last));
        };
        match writer.stream.gate().enter_uncaptured() {
            Some(_entered) => free(&*writer.stream, &readers),
            // The default stream cannot be captured.
            None => {
                let uses: Vec<_> = readers.into_iter().chain(reached(writer)).collect();
                free(&*backend.default_stream(), &uses);
            }
        }
    }
}

/// The use of memory on a stream.
#[derive(Debug)]
struct Use<S: ?Sized> {
    stream: Arc<S>,
    /// The capture that the use belongs to, if it was not executed at once.
    capture: Option<CaptureId>,
}

impl<S: ?Sized> Clone for Use<S> {
    fn clone(&self) -> Self {
        Self { stream: self.stream.clone(), capture: self.capture }
    }
}

/// The stream of the last write, and those that have read since and waited for it.
#[derive(Debug)]
struct Order<S: ?Sized> {
    writer: Use<S>,
    readers: Vec<Use<S>>,
}

impl<S: ?Sized> Order<S> {
    /// The uses on other streams that a use on `stream` must wait for.
    fn before(&self, stream: &Arc<S>, access: Access) -> Vec<Use<S>> {
        let is_other = |other: &&Use<S>| !Arc::ptr_eq(&other.stream, stream);
        match access {
            Access::Read if self.readers.iter().all(|reader| is_other(&reader)) => {
                Some(&self.writer).filter(is_other).cloned().into_iter().collect()
            }
            Access::Read => Vec::new(),
            Access::Write => self.readers.iter().chain([&self.writer]).filter(is_other).cloned().collect(),
        }
    }

    /// Adds a use on `stream`.
    fn add(&mut self, stream: &Arc<S>, access: Access, capture: Option<CaptureId>) {
        let used = Use { stream: stream.clone(), capture };
        if access == Access::Write {
            *self = Self { writer: used, readers: Vec::new() };
            return;
        }
        match self.readers.iter_mut().find(|reader| Arc::ptr_eq(&reader.stream, stream)) {
            Some(reader) => reader.capture = capture,
            // Who waits for the write waits for the read, too, unless the read is in a graph.
            None if Arc::ptr_eq(&self.writer.stream, stream) && self.writer.capture == capture => {}
            None => self.readers.push(used),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs uses such as `write a`, and compares with the streams that each waits for.
    #[track_caller]
    fn check(uses: &[(&str, &[&str])]) {
        let streams: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
        let stream = |name: &str| streams.iter().find(|s| ***s == *name).expect("a, b or c");
        let mut order = Order { writer: Use { stream: stream("a").clone(), capture: None }, readers: Vec::new() };
        for (i, (text, expected)) in uses.iter().enumerate() {
            let (access, name) = text.split_once(' ').expect("an access and a stream");
            let access = if access == "read" { Access::Read } else { Access::Write };
            let expected: Vec<_> = expected.iter().map(|e| stream(e).clone()).collect();
            let before: Vec<_> = order.before(stream(name), access).into_iter().map(|other| other.stream).collect();
            assert_eq!(before, expected, "use {i}");
            order.add(stream(name), access, None);
        }
    }

    #[test]
    fn uses_on_one_stream_wait_for_nothing() {
        check(&[("write a", &[]), ("read a", &[]), ("read a", &[]), ("write a", &[])]);
    }

    #[test]
    fn a_reader_waits_once_for_the_stream_that_wrote() {
        check(&[("write a", &[]), ("read b", &["a"]), ("read b", &[]), ("read c", &["a"]), ("read a", &[])]);
    }

    #[test]
    fn a_writer_waits_for_the_last_writer_and_every_reader_since() {
        check(&[("read b", &["a"]), ("read c", &["a"]), ("write b", &["c", "a"]), ("write c", &["b"])]);
    }

    #[test]
    fn a_reader_waits_again_after_another_write() {
        check(&[("read b", &["a"]), ("write a", &["b"]), ("read b", &["a"])]);
    }
}
