//! A piece of device memory, and the order in which streams may use it.
//!
//! Streams run side by side, so a buffer written on one and read on another needs an order. It comes from the use
//! itself: a read waits for the stream that wrote last, a write waits for that one and for every reader since, and
//! memory is freed behind all of them. Whoever stays on one stream pays a comparison of pointers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::backend::BackendStream;
use crate::device::Device;

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
    order: Mutex<Order>,
}

/// The stream that wrote last, and those that have read since.
#[derive(Debug)]
struct Order {
    writer: Arc<dyn BackendStream>,
    readers: Vec<Arc<dyn BackendStream>>,
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

    /// Orders a use on `stream` behind those that it must not overtake. To be called before the use is enqueued.
    pub(crate) fn order(&self, stream: &Arc<dyn BackendStream>, access: Access) -> Result<(), Error> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        match access {
            Access::Read => {
                let known = same(&order.writer, stream) || order.readers.iter().any(|reader| same(reader, stream));
                if !known {
                    stream.follow(&*order.writer)?;
                    order.readers.push(stream.clone());
                }
            }
            Access::Write => {
                for other in order.readers.iter().chain([&order.writer]) {
                    if !same(other, stream) {
                        stream.follow(&**other)?;
                    }
                }
                order.readers.clear();
                order.writer = stream.clone();
            }
        }
        Ok(())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.ownership == Ownership::Borrowed {
            return;
        }
        let order = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
        for reader in &order.readers {
            // A stream that fails to wait belongs to a context that failed: every later call reports that.
            let _ = order.writer.follow(&**reader);
        }
        self.device.backend().free(self.address, &*order.writer);
    }
}

fn same(a: &Arc<dyn BackendStream>, b: &Arc<dyn BackendStream>) -> bool {
    Arc::ptr_eq(a, b)
}
