//! The view of a launch that a reference gets.

use super::array::{Array, Element};
use super::case::{Arg, Case};

/// A case, and its buffers before and after the launch.
#[derive(Debug)]
pub struct Run<'a> {
    /// The case.
    pub case: &'a Case,
    /// Content of each argument before the launch; none for scalars and for buffers that start
    /// uninitialised.
    pub before: Vec<Option<Array>>,
    /// Content of each buffer after the launch.
    pub after: Vec<Option<Array>>,
}

impl Run<'_> {
    /// The elements of a buffer argument before the launch.
    ///
    /// # Panics
    /// If the argument is no buffer with contents, or has another type: the case does not fit its
    /// reference.
    #[must_use]
    pub fn before<T: Element>(&self, arg: usize) -> Vec<T> {
        self.before[arg].as_ref().unwrap_or_else(|| panic!("argument {arg} is no input")).elements()
    }

    /// The elements of a buffer argument after the launch.
    ///
    /// # Panics
    /// As [`Run::before`].
    #[must_use]
    pub fn after<T: Element>(&self, arg: usize) -> Vec<T> {
        self.after[arg].as_ref().unwrap_or_else(|| panic!("argument {arg} is no buffer")).elements()
    }

    /// A 32-bit unsigned scalar argument.
    ///
    /// # Panics
    /// If it is something else.
    #[must_use]
    pub fn u32(&self, arg: usize) -> u32 {
        match self.case.args[arg] {
            Arg::U32(x) => x,
            Arg::I32(x) => x.unsigned_abs(),
            ref other => panic!("argument {arg} is {other:?}, not a 32-bit integer"),
        }
    }

    /// A single-precision scalar argument.
    ///
    /// # Panics
    /// If it is something else.
    #[must_use]
    pub fn f32(&self, arg: usize) -> f32 {
        match self.case.args[arg] {
            Arg::F32(x) => x,
            ref other => panic!("argument {arg} is {other:?}, not an f32"),
        }
    }

    /// A size argument.
    #[must_use]
    pub fn size(&self, arg: usize) -> usize {
        self.u32(arg) as usize
    }

    /// A number that the case gives to its reference.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn with(&self, name: &str) -> usize {
        self.case.with.get(name).map_or_else(|| panic!("the case lacks `{name}`"), |&x| x as usize)
    }
}
