//! Names of kernels, part by part.

use std::fmt::{Display, Write};

/// The name of a kernel: parts that are joined by `_`.
pub(crate) struct KernelName(String);

impl KernelName {
    /// A name that begins so.
    pub(crate) fn new(first: &str) -> Self {
        Self(first.to_owned())
    }

    /// Adds a part.
    pub(crate) fn part(mut self, part: impl Display) -> Self {
        write!(self.0, "_{part}").expect("a string takes whatever is written to it");
        self
    }

    /// Adds a part where a condition holds.
    pub(crate) fn part_if(self, condition: bool, part: impl Display) -> Self {
        self.option(condition.then_some(part))
    }

    /// Adds a part if there is one.
    pub(crate) fn option(self, part: Option<impl Display>) -> Self {
        match part {
            Some(part) => self.part(part),
            None => self,
        }
    }
}

impl From<KernelName> for String {
    fn from(name: KernelName) -> Self {
        name.0
    }
}
