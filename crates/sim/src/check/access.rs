//! An access as the interpreter describes it to the checker: kind, strength, semantics, scope.

use std::fmt;

use warpfold_ptx::{Order, Scope};

use crate::exec::lanes;

/// Kind of access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// An atomic read-modify-write (`atom`, `red`).
    Atomic,
}

/// Kind of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceKind {
    /// `fence.sc` and `membar`.
    Sequential,
    /// `fence.acq_rel`.
    Both,
    /// `fence.acquire`.
    Acquire,
    /// `fence.release`.
    Release,
}

impl FenceKind {
    pub(crate) const fn acquires(self) -> bool {
        !matches!(self, Self::Release)
    }

    pub(crate) const fn releases(self) -> bool {
        !matches!(self, Self::Acquire)
    }
}

/// Strength of an access: strong accesses may meet without a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Strength {
    /// A plain access: `ld`, `st`, `.weak`.
    Weak,
    /// A strong access: atomics, `.relaxed`, `.acquire`, `.release`, `.volatile`, `.mmio`.
    Strong(Order, Scope),
}

/// A memory instruction executed by a warp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Position in the program's instruction table.
    pub(crate) instr: u32,
    /// Warp index in its block.
    pub(crate) warp: u32,
    /// Participating lanes.
    pub(crate) mask: u32,
    /// Bytes per lane: 1, 2, 4, 8 or 16, and each address a multiple of it.
    pub(crate) bytes: u32,
    /// Bytes of the scalars accessed, at most 8; 0 if unknown.
    pub(crate) element: u32,
    pub(crate) kind: Kind,
    pub(crate) strength: Strength,
}

/// Returns true if two strong accesses to the same bytes overlap in part only, and so are not
/// morally strong. Each is given by its kind and the bytes of its scalars.
///
/// Not so two atomics, which the ISA makes atomic towards one another whatever their sizes
/// ("Limitations on Mixed-size Data-races"), and an atomic that may be on a packed type, which is
/// two operations of half the size.
pub(crate) fn overlap_in_part(a: (Kind, u32), b: (Kind, u32)) -> bool {
    let is_atomic = |kind| kind == Kind::Atomic;
    let may_be_packed = |a: (Kind, u32), b: (Kind, u32)| is_atomic(a.0) && a.1 == 2 * b.1;
    a.1 != 0
        && b.1 != 0
        && a.1 != b.1
        && !(is_atomic(a.0) && is_atomic(b.0))
        && !may_be_packed(a, b)
        && !may_be_packed(b, a)
}

/// The sizes of strong accesses so far, as a mask: more checks are needed once there are two, and
/// not all of them are atomics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) u32);

impl Sizes {
    /// Some access is not an atomic.
    const PLAIN: u32 = 1 << 4;

    pub(crate) const fn of(access: &Access) -> Self {
        let plain = if matches!(access.kind, Kind::Atomic) { 0 } else { Self::PLAIN };
        Self(access.element & 0xf | plain)
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn are_mixed(self) -> bool {
        self.0 & Self::PLAIN != 0 && (self.0 & 0xf).count_ones() > 1
    }
}

impl Access {
    pub(crate) const fn is_strong(&self) -> bool {
        matches!(self.strength, Strength::Strong(..))
    }

    /// Returns true if the access is strong, and perhaps morally strong towards another block.
    pub(crate) const fn is_strong_between_blocks(&self) -> bool {
        match self.strength {
            Strength::Weak => false,
            Strength::Strong(_, scope) => !matches!(scope, Scope::Block),
        }
    }

    /// Returns true for a `volatile` load or store, or a stronger access.
    pub(crate) const fn is_volatile(&self) -> bool {
        let is_relaxed = matches!(self.strength, Strength::Strong(Order::Relaxed, Scope::System));
        is_relaxed && !matches!(self.kind, Kind::Atomic)
    }

    /// The participating lanes, in order.
    #[cfg(test)]
    pub(crate) fn lanes(&self) -> Lanes {
        Lanes(self.mask)
    }
}

/// Iterates over the set bits of a mask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes(pub(crate) u32);

impl Iterator for Lanes {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        (self.0 != 0).then(|| {
            let lane = self.0.trailing_zeros();
            self.0 &= self.0 - 1;
            lane
        })
    }
}

/// Address pattern of one warp access: the two cheap patterns, or any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Lanes `0..lanes` at consecutive addresses.
    Contiguous { lanes: u32 },
    /// All lanes at one address.
    Uniform { first: u32, last: u32 },
    /// Anything else.
    Scattered,
}

impl Pattern {
    #[inline(always)]
    pub(crate) fn of<A: Address>(mask: u32, addresses: &[A; 32], bytes: u32) -> Self {
        if mask == 0 {
            return Self::Scattered;
        }
        let first = mask.trailing_zeros();
        let last = 31 - mask.leading_zeros();
        let base = addresses[first as usize];
        let is_dense = mask & mask.wrapping_add(1) == 0;
        if A::differing(addresses, base, 0) & mask == 0 {
            Self::Uniform { first, last }
        } else if is_dense && A::differing(addresses, base, bytes) & mask == 0 {
            Self::Contiguous { lanes: last + 1 }
        } else {
            Self::Scattered
        }
    }
}

/// An address of either width.
pub(crate) trait Address: Copy {
    /// The lanes whose address is not `base + lane * step`.
    fn differing(addresses: &[Self; 32], base: Self, step: u32) -> u32;
}

impl Address for u32 {
    #[inline(always)]
    fn differing(addresses: &[Self; 32], base: Self, step: u32) -> u32 {
        lanes::differing(addresses, base, step)
    }
}

impl Address for u64 {
    #[inline(always)]
    fn differing(addresses: &[Self; 32], base: Self, step: u32) -> u32 {
        lanes::differing64(addresses, base, step)
    }
}

/// Access to the values of a store, only used once two writes have met: equal values make it a
/// warning.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    /// Value that a lane stores, in the low bytes.
    pub(crate) stored: &'a dyn Fn(u32) -> u128,
    /// Value of its bytes before this instruction.
    pub(crate) held: &'a dyn Fn(u32) -> u128,
}

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

/// Returns true if two stored values are rows of 32-bit floats that differ in their last bits
/// alone, as sums of the same numbers in another order do. Small numbers and those with an exponent
/// far from 0 are taken for integers.
pub(crate) fn differ_by_rounding(a: u128, b: u128, bytes: u32) -> bool {
    const LAST_BITS: u32 = 8;
    let word = |value: u128, at: u32| (value >> (at * 32)) as u32;
    let is_float = |word: u32| (64..192).contains(&(word >> 23 & 0xff));
    bytes.is_multiple_of(4)
        && (0..bytes / 4)
            .map(|at| (word(a, at), word(b, at)))
            .all(|(a, b)| a == b || (is_float(a) && is_float(b) && a.abs_diff(b) <= LAST_BITS))
}

/// The address space of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Space {
    /// Addresses are byte offsets into the block's shared memory.
    Shared,
    /// Addresses are device addresses.
    Global,
}

impl Space {
    /// A unique key for a location of either space.
    pub(crate) const fn key(self, address: u64) -> u64 {
        match self {
            Self::Shared => address | 1 << 63,
            Self::Global => address,
        }
    }
}
