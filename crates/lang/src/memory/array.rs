//! Arrays in shared and local memory.

use warpfold_ptx::StateSpace;

use super::pointer::{Local, Shared};
use crate::intrinsics::memory::Base;
use crate::kernel::is_identifier;
use crate::recorder::Symbol;
use crate::types::{Element, Type};
use crate::{ErrorKind, untyped};

/// Declares an array in the block's shared memory; its content is undefined until written.
#[track_caller]
#[must_use]
pub fn shared<T: Element>(len: u32) -> Shared<T> {
    shared_named("shared", len)
}

/// Like [`shared`], with a name for the PTX text and the virtual GPU's reports.
#[track_caller]
#[must_use]
pub fn shared_named<T: Element>(name: &str, len: u32) -> Shared<T> {
    Shared::from_base(Base::Symbol(named_array(name, T::TYPE, len)))
}

#[track_caller]
fn named_array(name: &str, ty: Type, len: u32) -> Symbol {
    if !is_identifier(name) {
        untyped::fail(ErrorKind::BadName(name.to_owned()));
    }
    untyped::array(StateSpace::Shared, ty, len.into(), name)
}

/// Allocates an array in dynamic shared memory; the kernel's
/// [`dynamic_shared_bytes`](crate::Built::dynamic_shared_bytes) counts it. For more than 48 KiB per
/// block.
#[track_caller]
#[must_use]
pub fn dynamic_shared<T: Element>(len: u32) -> Shared<T> {
    Shared::from_location(untyped::dynamic_shared(16, u64::from(T::BYTES) * u64::from(len)))
}

/// Declares an array in local memory. Unlike registers, it can be indexed at run time, at the cost
/// of memory accesses.
#[track_caller]
#[must_use]
pub fn local<T: Element>(len: u32) -> Local<T> {
    Local::from_base(Base::Symbol(untyped::array(StateSpace::Local, T::TYPE, len.into(), "local")))
}
