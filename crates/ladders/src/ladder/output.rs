//! Buffers whose surroundings tell when a kernel reads or writes beside them.

use warpfold_device::{Buffer, Device, Element, View, ViewMut};
use warpfold_lang::Scalar;

use super::Guards;
use crate::Error;

/// Bytes on either side: they keep the alignment of the allocation.
const GUARD_BYTES: usize = 256;

/// Every byte of a guard, and of an output before a run: NaN, or -1.
const POISON: u8 = 0xff;

/// `len` elements between guards, or alone in their allocation.
#[derive(Debug)]
pub(crate) struct Guarded<T: Element + Scalar> {
    buffer: Buffer<T>,
    guard: usize,
    len: usize,
}

impl<T: Element + Scalar> Guarded<T> {
    /// Elements without a value: poisoned between guards, not initialised without them.
    pub(crate) fn new(device: &Device, name: &str, len: usize, guards: Guards) -> Result<Self, Error> {
        let guard = match guards {
            Guards::Bands => GUARD_BYTES / size_of::<T>(),
            Guards::Checker => 0,
        };
        let mut buffer = device.alloc_named(name, len + 2 * guard)?;
        if guard > 0 {
            device.unrecorded(|| buffer.fill_bytes(POISON))?;
        }
        Ok(Self { buffer, guard, len })
    }

    /// The elements of `data`.
    pub(crate) fn of(device: &Device, name: &str, data: &[T], guards: Guards) -> Result<Self, Error> {
        let mut this = Self::new(device, name, data.len(), guards)?;
        device.default_stream().copy_from_host(this.view_mut()?, data)?;
        Ok(this)
    }

    /// Takes every value away: poison between guards, a new allocation without them.
    pub(crate) fn renew(&mut self, device: &Device, name: &str, guards: Guards) -> Result<(), Error> {
        match guards {
            Guards::Bands => device.unrecorded(|| self.buffer.fill_bytes(POISON))?,
            Guards::Checker => *self = Self::new(device, name, self.len, guards)?,
        }
        Ok(())
    }

    pub(crate) fn fill_zero(&mut self) -> Result<(), Error> {
        let stream = self.buffer.device().default_stream();
        Ok(stream.fill_bytes(self.view_mut()?, 0)?)
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn view(&self) -> Result<View<'_, T>, Error> {
        Ok(self.buffer.view(self.guard..self.guard + self.len)?)
    }

    pub(crate) fn view_mut(&mut self) -> Result<ViewMut<'_, T>, Error> {
        Ok(self.buffer.view_mut(self.guard..self.guard + self.len)?)
    }

    /// The elements, and whether the guards are as they were.
    pub(crate) fn read(&self) -> Result<(Vec<T>, bool), Error> {
        let mut elements = vec![T::from_bits(0); self.len];
        self.buffer.device().default_stream().copy_to_host(self.view()?, &mut elements)?;
        Ok((elements, self.is_intact()?))
    }

    /// The same of rows of `width` elements, `pitch` apart: without guards what lies between them
    /// is not read, as nothing has written it.
    pub(crate) fn read_rows(&self, width: usize, pitch: usize) -> Result<(Vec<T>, bool), Error> {
        if self.guard > 0 || width == pitch {
            return self.read();
        }
        let mut elements = vec![T::from_bits(0); self.len];
        let (stream, all) = (self.buffer.device().default_stream(), self.view()?);
        for (row, elements) in elements.chunks_mut(pitch).enumerate() {
            stream.copy_to_host(all.clone().slice(row * pitch..row * pitch + width)?, &mut elements[..width])?;
        }
        Ok((elements, self.is_intact()?))
    }

    /// Returns whether the guards are unchanged.
    pub(crate) fn is_intact(&self) -> Result<bool, Error> {
        let stream = self.buffer.device().default_stream();
        let mut guards = vec![T::from_bits(0); 2 * self.guard];
        let (left, right) = guards.split_at_mut(self.guard);
        self.buffer.device().unrecorded(|| {
            stream.copy_to_host(self.buffer.view(..self.guard)?, left)?;
            stream.copy_to_host(self.buffer.view(self.guard + self.len..)?, right)
        })?;
        Ok(guards.into_iter().all(is_poison))
    }
}

fn is_poison<T: Scalar>(element: T) -> bool {
    Scalar::to_bits(element) == u64::from_le_bytes([POISON; 8]) >> (64 - T::TYPE.bits())
}
