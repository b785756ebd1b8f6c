//! Arguments of kernels whose types the compiler does not know.

use std::sync::Arc;

use crate::buffer::{View, ViewMut};
use crate::element::Element;
use crate::memory::{Access, Allocation};
use crate::module::{FunctionInfo, Param, Places};
use crate::tensor_map::TensorMap;

/// The arguments of a launch, in the kernel's order. The typed launch makes them by itself; foreign PTX takes them from
/// here.
///
/// Each argument lies at the next multiple of its alignment, as the CUDA ABI has it. A launch compares offsets and
/// sizes with the kernel's, where the device knows them; it cannot know types.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    bytes: Vec<u8>,
    params: Vec<Param>,
    /// The largest alignment among them.
    align: usize,
    memory: Vec<(Arc<Allocation>, Access)>,
    borrow: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Arguments<'a> {
    /// No arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the address of memory that the kernel reads.
    #[must_use]
    pub fn input<T: Element>(mut self, view: impl Into<View<'a, T>>) -> Self {
        self.push_input(&view.into());
        self
    }

    /// Adds the addresses of memory that the kernel reads as one array of so many pointers, zeros behind them.
    ///
    /// # Panics
    /// If there are more.
    #[must_use]
    pub fn inputs<T: Element>(mut self, views: impl IntoIterator<Item = View<'a, T>>, len: usize) -> Self {
        let mut addresses = vec![0_u64; len];
        for (i, view) in views.into_iter().enumerate() {
            addresses[i] = view.address();
            self.memory.push((view.memory().clone(), Access::Read));
        }
        self.push(bytemuck::cast_slice(&addresses), 8);
        self
    }

    /// Adds the address of memory that the kernel writes, or reads and writes.
    #[must_use]
    pub fn output<T: Element>(mut self, view: impl Into<ViewMut<'a, T>>) -> Self {
        self.push_output(&view.into());
        self
    }

    /// Adds a scalar.
    #[must_use]
    pub fn value<T: Element>(mut self, value: T) -> Self {
        self.push(bytemuck::bytes_of(&value), size_of::<T>());
        self
    }

    /// Adds bytes at a multiple of `align`: a structure that the kernel takes by value.
    ///
    /// # Panics
    /// If `align` is not a power of two.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8], align: usize) -> Self {
        assert!(align.is_power_of_two(), "an alignment is a power of two, not {align}");
        self.push(bytes, align);
        self
    }

    /// The borrow that `view` holds must outlast the launch: the public methods tie it to `'a`.
    pub(crate) fn push_input<T: Element>(&mut self, view: &View<'_, T>) {
        self.memory.push((view.memory().clone(), Access::Read));
        self.push(&view.address().to_le_bytes(), 8);
    }

    /// As [`Arguments::push_input`].
    pub(crate) fn push_output<T: Element>(&mut self, view: &ViewMut<'_, T>) {
        self.memory.push((view.memory().clone(), Access::Write));
        self.push(&view.address().to_le_bytes(), 8);
    }

    /// As [`Arguments::push_input`].
    pub(crate) fn push_tensor_map<T: Element>(&mut self, map: &TensorMap<'_, T>) {
        self.memory.push(map.memory());
        self.push(map.bytes(), 64);
    }

    pub(crate) fn push(&mut self, bytes: &[u8], align: usize) {
        self.align = self.align.max(align);
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        // Kernel parameters have at most a few KiB: the driver and the virtual GPU refuse more.
        self.params.push(Param { offset: self.bytes.len() as u32, bytes: bytes.len() as u32 });
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn memory(&self) -> &[(Arc<Allocation>, Access)] {
        &self.memory
    }

    /// Where each argument lies among the bytes.
    pub(crate) fn places(&self) -> &[Param] {
        &self.params
    }

    /// Compares with the parameters that the kernel declares.
    pub(crate) fn check(&self, function: &FunctionInfo) -> Result<(), String> {
        let Some(params) = &function.params else { return self.check_without_params() };
        if params.len() != self.params.len() {
            return Err(format!("the kernel has {} parameter(s), {} were given", params.len(), self.params.len()));
        }
        let differ = |(_, (expected, found)): &(usize, (&Param, &Param))| match function.places {
            Places::Ours => expected != found,
            Places::Drivers => expected.bytes != found.bytes,
        };
        match params.iter().zip(&self.params).enumerate().find(differ) {
            None => Ok(()),
            Some((index, (expected, found))) => Err(format!(
                "parameter {index} has {} bytes at offset {}, the argument has {} bytes at offset {}",
                expected.bytes, expected.offset, found.bytes, found.offset
            )),
        }
    }
}

impl Arguments<'_> {
    /// The bytes then go to the driver as they lie. It counts places from a start of its own, of which no more than a
    /// multiple of 16 is known.
    fn check_without_params(&self) -> Result<(), String> {
        if self.align > 16 {
            return Err(format!("an argument aligned to {} bytes needs a driver from CUDA 12.4 on", self.align));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(params: &[(u32, u32)]) -> FunctionInfo {
        FunctionInfo {
            name: "k".to_owned(),
            places: Places::Ours,
            params: Some(params.iter().map(|&(offset, bytes)| Param { offset, bytes }).collect()),
            static_shared: 0,
            max_threads: None,
            required_block: None,
            required_cluster: None,
            registers: 0,
            programmatic: false,
        }
    }

    #[test]
    fn each_argument_lies_at_a_multiple_of_its_alignment() {
        let arguments = Arguments::new().value(1_u8).value(2_u32).value(3_u16).value(4_f64).raw(&[5; 12], 16);
        let expected = function(&[(0, 1), (4, 4), (8, 2), (16, 8), (32, 12)]);
        assert_eq!(arguments.check(&expected), Ok(()));
        assert_eq!(arguments.bytes().len(), 44);
        assert_eq!(&arguments.bytes()[16..24], &4_f64.to_le_bytes());
    }

    #[test]
    fn arguments_of_another_number_or_size_are_refused() {
        let arguments = Arguments::new().value(1_u32);
        assert_eq!(
            arguments.check(&function(&[(0, 4), (8, 8)])),
            Err("the kernel has 2 parameter(s), 1 were given".to_owned())
        );
        assert_eq!(
            arguments.check(&function(&[(0, 8)])),
            Err("parameter 0 has 8 bytes at offset 0, the argument has 4 bytes at offset 0".to_owned())
        );
    }
}
