//! A piece of device memory, and the order in which streams may use it.
//!
//! Streams run side by side, so a buffer written on one and read on another needs an order. It comes from the use
//! itself: a read waits for the stream that wrote last, a write waits for that one and for every reader since, and
//! memory is freed behind all of them. Whoever stays on one stream pays a comparison of pointers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::BackendStream;
use crate::device::Device;
use crate::{Error, ErrorKind};

/// How an operation uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Who frees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    Ours,
    Borrowed,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    device: Device,
    address: u64,
    name: String,
    ownership: Ownership,
    order: Mutex<Order<dyn BackendStream>>,
}

impl Allocation {
    /// `bytes` of memory; none at all for 0 bytes.
    pub(crate) fn new(device: &Device, bytes: u64, name: &str) -> Result<Arc<Self>, Error> {
        let (address, ownership) = match bytes {
            0 => (0, Ownership::Borrowed),
            _ => (device.backend().allocate(bytes, name)?, Ownership::Ours),
        };
        Ok(Arc::new(Self::with(device, address, name, ownership, device.backend().default_stream())))
    }

    /// Memory that someone else owns and last used on `stream`.
    pub(crate) fn borrowed(device: &Device, address: u64, name: &str, stream: Arc<dyn BackendStream>) -> Arc<Self> {
        Arc::new(Self::with(device, address, name, Ownership::Borrowed, stream))
    }

    fn with(device: &Device, address: u64, name: &str, ownership: Ownership, writer: Arc<dyn BackendStream>) -> Self {
        let order = Mutex::new(Order { writer, readers: Vec::new() });
        Self { device: device.clone(), address, name: name.to_owned(), ownership, order }
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

    /// Orders a use on `stream` behind those that it must not overtake. To be called before the use is enqueued. A use that
    /// is captured waits here for what others do so far: a graph holds nothing that is outside of it; and while it
    /// lasts, the use of another stream that would have to wait for it is refused.
    pub(crate) fn order(self: &Arc<Self>, stream: &Arc<dyn BackendStream>, access: Access) -> Result<(), Error> {
        let is_captured = stream.capture().hold(self, access);
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let others = order.before(stream, access);
        // To wait for such a stream would draw the one that waits into its graph.
        if others.iter().any(|other| other.capture().is_on()) {
            return Err(ErrorKind::NotCapturable("memory that other streams use meanwhile").into());
        }
        order.add(stream, access);
        others.iter().try_for_each(|other| if is_captured { other.synchronize() } else { stream.follow(&**other) })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.ownership == Ownership::Borrowed {
            return;
        }
        let Order { writer, readers } = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
        let streams = std::iter::once(writer.clone()).chain(readers.drain(..)).collect();
        Released { address: self.address, streams }.free(&self.device);
    }
}

/// Memory whose owner is gone, and the streams that may still be using it.
#[derive(Debug)]
pub(crate) struct Released {
    address: u64,
    streams: Vec<Arc<dyn BackendStream>>,
}

impl Released {
    /// Frees it behind what the streams do; the first one that is being captured takes it, to be freed once that is over.
    pub(crate) fn free(self, device: &Device) {
        let Self { address, streams } = match self.streams.iter().position(|stream| stream.capture().is_on()) {
            None => self,
            Some(capturing) => match self.streams[capturing].clone().capture().free_later(self) {
                Ok(()) => return,
                Err(released) => return released.free(device),
            },
        };
        let (last, others) = streams.split_first().expect("some stream wrote it last");
        for other in others {
            // A stream that fails to wait belongs to a context that failed: every later call reports that.
            let _ = last.follow(&**other);
        }
        device.backend().free(address, &**last);
    }
}

/// The stream that wrote last, and those that have read since and waited for it.
#[derive(Debug)]
struct Order<S: ?Sized> {
    writer: Arc<S>,
    readers: Vec<Arc<S>>,
}

impl<S: ?Sized> Order<S> {
    /// The streams that a use on `stream` has to wait for.
    fn before(&self, stream: &Arc<S>, access: Access) -> Vec<Arc<S>> {
        let is_new = |other: &&Arc<S>| !Arc::ptr_eq(other, stream);
        match access {
            Access::Read if self.readers.iter().all(|reader| is_new(&reader)) => {
                Some(&self.writer).filter(is_new).cloned().into_iter().collect()
            }
            Access::Read => Vec::new(),
            Access::Write => self.readers.iter().chain([&self.writer]).filter(is_new).cloned().collect(),
        }
    }

    /// Adds a use on `stream`.
    fn add(&mut self, stream: &Arc<S>, access: Access) {
        let is_known = |known: &Arc<S>| Arc::ptr_eq(known, stream);
        match access {
            Access::Read if is_known(&self.writer) || self.readers.iter().any(is_known) => {}
            Access::Read => self.readers.push(stream.clone()),
            Access::Write => *self = Self { writer: stream.clone(), readers: Vec::new() },
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
        let mut order = Order { writer: stream("a").clone(), readers: Vec::new() };
        for (i, (text, expected)) in uses.iter().enumerate() {
            let (access, name) = text.split_once(' ').expect("an access and a stream");
            let access = if access == "read" { Access::Read } else { Access::Write };
            let expected: Vec<_> = expected.iter().map(|e| stream(e).clone()).collect();
            assert_eq!(order.before(stream(name), access), expected, "use {i}");
            order.add(stream(name), access);
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
