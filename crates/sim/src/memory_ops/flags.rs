//! Access flags: element type, vector length, extension, memory order and scope, packed into one
//! number.

use warpfold_ptx::{Order, Scope};

/// Flags of an access, packed into `Op::dst2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(pub u32);

/// Extension of a loaded value of 8 or 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extend {
    /// Zero-extended.
    Zero = 0,
    /// From 8 to 32 bits.
    Sign8 = 1,
    /// From 16 to 32 bits.
    Sign16 = 2,
    /// From 8 to 16 bits.
    Sign8To16 = 3,
}

impl Access {
    /// Packs an access.
    pub(crate) fn new(
        element_bytes: u32,
        count: u32,
        wide: bool,
        extend: Extend,
        order: Option<Order>,
        scope: Scope,
    ) -> Self {
        Self(
            element_bytes.trailing_zeros()
                | (count.trailing_zeros() << 3)
                | (u32::from(wide) << 6)
                | ((extend as u32) << 7)
                | (order.map_or(0, |order| order as u32 + 1) << 9)
                | ((scope as u32) << 12),
        )
    }

    /// A load whose undefined bytes are findings at once: nothing follows them through registers.
    pub(crate) fn plain(self) -> Self {
        Self(self.0 | 1 << 14)
    }

    /// Returns true if the load's undefined bytes are followed.
    #[inline(always)]
    pub(crate) fn is_watched(self) -> bool {
        self.0 >> 14 & 1 == 0
    }

    /// Bytes of one element.
    #[inline(always)]
    pub(crate) fn element(self) -> u32 {
        1 << (self.0 & 7)
    }

    /// Elements of the vector.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        1 << (self.0 >> 3 & 7)
    }

    /// Bytes per lane.
    #[inline(always)]
    pub(crate) fn bytes(self) -> u32 {
        self.element() * self.count()
    }

    /// Returns true for a plain access to one 4-byte word per lane.
    #[inline(always)]
    pub(crate) fn is_word(self) -> bool {
        self.0 & 0x3f == 2 && !self.is_strong()
    }

    /// Returns true if the address register has 64 bits.
    #[inline(always)]
    pub(crate) fn wide(self) -> bool {
        self.0 >> 6 & 1 != 0
    }

    /// Extends a short value.
    #[inline(always)]
    pub(crate) fn extend(self, value: u32) -> u32 {
        match self.0 >> 7 & 3 {
            0 => value,
            1 => i32::from(value as u8 as i8) as u32,
            2 => i32::from(value as u16 as i16) as u32,
            _ => u32::from(i16::from(value as u8 as i8) as u16),
        }
    }

    /// Returns true if short values need extending.
    #[inline(always)]
    pub(crate) fn extends(self) -> bool {
        self.0 >> 7 & 3 != 0
    }

    /// Memory order; none of a weak access, which may not be used to communicate.
    pub(crate) fn order(self) -> Option<Order> {
        match self.0 >> 9 & 7 {
            0 => None,
            1 => Some(Order::Relaxed),
            2 => Some(Order::Acquire),
            3 => Some(Order::Release),
            _ => Some(Order::AcqRel),
        }
    }

    /// Returns true if the access is strong: threads may use it to communicate.
    #[inline(always)]
    pub(crate) fn is_strong(self) -> bool {
        self.0 >> 9 & 7 != 0
    }

    /// Scope.
    pub(crate) fn scope(self) -> Scope {
        match self.0 >> 12 & 3 {
            0 => Scope::Block,
            1 => Scope::Cluster,
            2 => Scope::Gpu,
            _ => Scope::System,
        }
    }
}
