//! Typed device memory: buffers, and views of their parts.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::memory::Allocation;
use crate::{Error, ErrorKind};

/// `len` elements of `T` in a device's memory; freed when dropped, after everything that uses it.
///
/// The methods here use the device's default stream; [`Stream`](crate::Stream) has those that name
/// one. A buffer keeps the order between streams by itself: a use waits for the earlier ones that
/// it must not overtake.
pub struct Buffer<T: Element> {
    memory: Arc<Allocation>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(memory: Arc<Allocation>, len: usize) -> Self {
        Self { memory, len, element: PhantomData }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The device that holds the memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// The name in findings.
    #[must_use]
    pub fn name(&self) -> &str {
        self.memory.name()
    }

    /// The device address of the first element; 0 for an empty buffer.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// A view of the whole buffer, to read.
    #[must_use]
    pub fn as_view(&self) -> View<'_, T> {
        View { memory: self.memory.clone(), first: 0, len: self.len, borrow: PhantomData }
    }

    /// A view of the whole buffer, to write.
    #[must_use]
    pub fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { memory: self.memory.clone(), first: 0, len: self.len, borrow: PhantomData }
    }

    /// A view of a part, to read.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`].
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>, Error> {
        self.as_view().slice(range)
    }

    /// A view of a part, to write.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`].
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>, Error> {
        self.as_view_mut().slice(range)
    }

    /// Views of the elements before `mid` and from `mid` on, which can be written at the same time.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`].
    pub fn split_at_mut(&mut self, mid: usize) -> Result<(ViewMut<'_, T>, ViewMut<'_, T>), Error> {
        self.as_view_mut().split_at(mid)
    }

    /// The same memory as bytes.
    #[must_use]
    pub fn into_bytes(self) -> Buffer<u8> {
        let len = self.num_bytes();
        Buffer::new(self.memory, len)
    }

    /// Copies the elements to the host, after all earlier work on them.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel before it failed.
    pub fn download(&self) -> Result<Vec<T>, Error> {
        let mut data = vec![T::zeroed(); self.len];
        self.copy_to(&mut data)?;
        Ok(data)
    }

    /// Copies `data`, which has the same length, into the buffer.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`].
    pub fn copy_from(&mut self, data: &[T]) -> Result<(), Error> {
        let stream = self.device().default_stream();
        stream.copy_from_host(self.as_view_mut(), data)
    }

    /// Copies the buffer to `data`, which has the same length.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`]; [`ErrorKind::LaunchFailed`] if a kernel before it failed.
    pub fn copy_to(&self, data: &mut [T]) -> Result<(), Error> {
        self.device().default_stream().copy_to_host(self.as_view(), data)
    }

    /// Copies `other`, of the same length and device, into the buffer.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn copy_from_buffer(&mut self, other: &Self) -> Result<(), Error> {
        let stream = self.device().default_stream();
        stream.copy(self.as_view_mut(), other.as_view())
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), Error> {
        let stream = self.device().default_stream();
        stream.fill_bytes(self.as_view_mut(), byte)
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({} x {} at {:#x} on ", T::NAME, self.name(), self.len, self.address())?;
        write!(f, "{})", self.device())
    }
}

/// Part of a buffer, to read. Cheap to clone.
pub struct View<'a, T: Element> {
    memory: Arc<Allocation>,
    first: usize,
    len: usize,
    borrow: PhantomData<&'a [T]>,
}

/// Part of a buffer, to write.
pub struct ViewMut<'a, T: Element> {
    memory: Arc<Allocation>,
    first: usize,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

macro_rules! view_methods {
    ($view:ident) => {
        impl<'a, T: Element> $view<'a, T> {
            /// Number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Returns true if the view has no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Size in bytes.
            #[must_use]
            pub fn num_bytes(&self) -> usize {
                self.len * size_of::<T>()
            }

            /// The device that holds the memory.
            #[must_use]
            pub fn device(&self) -> &Device {
                self.memory.device()
            }

            /// The device address of the first element.
            #[must_use]
            pub fn address(&self) -> u64 {
                self.memory.address() + (self.first * size_of::<T>()) as u64
            }

            /// Host address of the memory on the virtual GPU, valid until the buffer is freed.
            /// `None` on a GPU, and for an empty view. Accesses through it are ordered by no stream
            /// and seen by no check.
            #[must_use]
            pub fn host_address(&self) -> Option<*const u8> {
                match self.num_bytes() {
                    0 => None,
                    bytes => self.device().backend().host_address(self.address(), bytes as u64),
                }
            }

            /// A sub-view.
            ///
            /// # Errors
            /// [`ErrorKind::OutOfRange`].
            pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
                let range = resolve(range, self.len)?;
                Ok(Self { first: self.first + range.start, len: range.len(), ..self })
            }

            /// The sub-views before element `mid` and from it on.
            ///
            /// # Errors
            /// [`ErrorKind::OutOfRange`].
            pub fn split_at(self, mid: usize) -> Result<(Self, Self), Error> {
                resolve(mid.., self.len)?;
                let (memory, first, len) = (self.memory.clone(), self.first + mid, self.len - mid);
                let head = Self { len: mid, ..self };
                Ok((head, Self { memory, first, len, borrow: PhantomData }))
            }

            /// The same memory as bytes.
            #[must_use]
            pub fn bytes(self) -> $view<'a, u8> {
                let scale = size_of::<T>();
                $view { memory: self.memory, first: self.first * scale, len: self.len * scale, borrow: PhantomData }
            }

            pub(crate) fn memory(&self) -> &Arc<Allocation> {
                &self.memory
            }

            /// A view of `len` elements from the start of `memory`.
            pub(crate) fn of(memory: Arc<Allocation>, len: usize) -> Self {
                Self { memory, first: 0, len, borrow: PhantomData }
            }
        }

        impl<'a> $view<'a, u8> {
            /// The same memory as elements of another type; `None` if it is not aligned to whole
            /// elements.
            #[must_use]
            pub fn elements<T: Element>(self) -> Option<$view<'a, T>> {
                let scale = size_of::<T>();
                let fits = self.address().is_multiple_of(scale as u64)
                    && self.first.is_multiple_of(scale)
                    && self.len.is_multiple_of(scale);
                let (first, len) = (self.first / scale, self.len / scale);
                fits.then(|| $view { memory: self.memory, first, len, borrow: PhantomData })
            }
        }

        impl<T: Element> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (view, element, name) = (stringify!($view), T::NAME, self.memory.name());
                let range = self.first..self.first + self.len;
                write!(f, "{view}<{element}>({name}[{range:?}] on {})", self.device())
            }
        }
    };
}

view_methods!(View);
view_methods!(ViewMut);

impl<T: Element> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), ..*self }
    }
}

impl<T: Element> ViewMut<'_, T> {
    /// The same view with a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { memory: self.memory.clone(), first: self.first, len: self.len, borrow: PhantomData }
    }

    /// The same view, to read.
    #[must_use]
    pub fn as_view(&self) -> View<'_, T> {
        View { memory: self.memory.clone(), first: self.first, len: self.len, borrow: PhantomData }
    }
}

impl<'a, T: Element> From<&'a Buffer<T>> for View<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_view()
    }
}

impl<'a, T: Element> From<&'a mut Buffer<T>> for ViewMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.as_view_mut()
    }
}

impl<'a, T: Element> From<ViewMut<'a, T>> for View<'a, T> {
    fn from(view: ViewMut<'a, T>) -> Self {
        Self { memory: view.memory, first: view.first, len: view.len, borrow: PhantomData }
    }
}

/// The range as start and end, if it is within `len` elements.
pub(crate) fn resolve(range: impl RangeBounds<usize>, len: usize) -> Result<Range<usize>, Error> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len { Ok(start..end) } else { Err(ErrorKind::OutOfRange { start, end, len }.into()) }
}
