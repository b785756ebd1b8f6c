//! Untyped kernel arguments, for kernels whose types the compiler does not know.

use std::sync::Arc;

use crate::api::buffer::{View, ViewMut};
use crate::api::element::Element;
use crate::api::memory::{Access, Allocation};
use crate::api::tensor_map::TensorMap;
use crate::backend::Parameters;

/// The arguments of a launch, in the kernel's order. Typed launches build them automatically;
/// launches of foreign PTX take them from here.
///
/// Each argument is at the next multiple of its alignment, as the CUDA ABI has it. A launch
/// compares offsets and sizes with the kernel's, where the device knows them; it cannot know types.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    parameters: Parameters,
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
        self.parameters.grant(view.address(), view.num_bytes(), false);
        self.push(&view.address().to_le_bytes(), 8);
    }

    /// Declares that views are only the start of the elements, as with negative strides: the kernel
    /// may access all of their buffers. Otherwise checked launches on a virtual GPU report accesses
    /// outside of the views, and stores through input views.
    #[must_use]
    pub fn whole_buffers(mut self) -> Self {
        self.parameters.grant_whole_buffers();
        self
    }

    /// Pushes a view that the kernel writes; see [`Arguments::push_input`].
    pub(crate) fn push_output<T: Element>(&mut self, view: &ViewMut<'_, T>) {
        self.memory.push((view.memory().clone(), Access::Write));
        self.parameters.grant(view.address(), view.num_bytes(), true);
        self.push(&view.address().to_le_bytes(), 8);
    }

    /// Pushes a tensor map; see [`Arguments::push_input`].
    pub(crate) fn push_tensor_map<T: Element>(&mut self, map: &TensorMap<'_, T>) {
        // Only copies use the map, and they have bounds of their own.
        let (memory, access) = map.memory();
        self.parameters.grant(memory.address(), usize::MAX, true);
        self.memory.push((memory, access));
        self.push(map.bytes(), 64);
    }

    pub(crate) fn push(&mut self, bytes: &[u8], align: usize) {
        self.parameters.push(bytes, align);
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn memory(&self) -> &[(Arc<Allocation>, Access)] {
        &self.memory
    }
}
