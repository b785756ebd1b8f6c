//! The one place where PTX instructions are written: typed operation in, mnemonic and operands out.
//!
//! Each function takes the recorder and values without Rust types; the modules above add the types.
//! Constants are folded here, and what a target lacks is either replaced by an exact sequence or
//! noted as an error.
//!
//! To add an instruction: a function here that pushes it (`Recorder::define` for one with a result)
//! and names what it requires; a typed method that calls it, on [`Val`](crate::Val),
//! [`Pointer`](crate::Pointer) or [`Lanes`](crate::Lanes); a use in `tests/suite`, which prints,
//! parses back and assembles it; and a case in the conformance suite's `language` test, which runs
//! it.

pub(crate) mod arithmetic;
pub(crate) mod asynchronous;
pub(crate) mod atomic;
pub(crate) mod bits;
pub(crate) mod bulk;
pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod entry;
pub(crate) mod f8;
pub(crate) mod logic;
pub(crate) mod math;
pub(crate) mod matrix;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod print;
pub(crate) mod special;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod warp;

pub(crate) use arithmetic::Binary;
pub(crate) use compare::Comparison;
