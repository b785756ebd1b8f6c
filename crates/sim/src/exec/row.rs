//! The register file: rows of 32 lanes, and the layout of typed values in them.
//!
//! One row holds 32 bits of each of the 32 lanes. A 64-bit register takes two consecutive rows,
//! read as `[u64; 32]`; a 128-bit register takes four. Registers of 8 and 16 bits take one row,
//! zero-extended.

use std::hint::select_unpredictable;

/// Lanes in a warp.
pub(crate) const LANES: usize = 32;

/// A mask with every lane.
pub(crate) const ALL_LANES: u32 = u32::MAX;

/// Bit `lane` of lane `lane`: loops that test masks against it vectorise, those that shift by the
/// lane do not.
const LANE_BITS: [u32; LANES] = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// The mask of the lanes that satisfy `f`.
#[inline(always)]
pub(crate) fn mask_of(f: impl Fn(usize) -> bool) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_movemask_epi8};
        // A loop that shifts bits by the lane would not vectorise well.
        let mut bytes = [0u8; LANES];
        for (lane, byte) in bytes.iter_mut().enumerate() {
            *byte = if f(lane) { u8::MAX } else { 0 };
        }
        // SAFETY: the array has twice 16 bytes, and every x86-64 has SSE2.
        let [low, high] =
            [0, 16].map(|at| unsafe { _mm_movemask_epi8(_mm_loadu_si128(bytes.as_ptr().add(at).cast())) });
        low.cast_unsigned() | high.cast_unsigned() << 16
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        (0..LANES).fold(0, |mask, lane| mask | u32::from(f(lane)) << lane)
    }
}

/// Returns true if the mask includes the lane.
#[inline(always)]
pub(crate) fn has(mask: u32, lane: usize) -> bool {
    mask & LANE_BITS[lane] != 0
}

/// `yes` in the lanes of `mask`, `no` in the others. An `if` would become a branch per lane.
#[inline(always)]
pub(crate) fn blend<W: Word>(mask: u32, yes: &[W; LANES], no: &[W; LANES]) -> [W; LANES] {
    let mut out = [W::default(); LANES];
    for lane in 0..LANES {
        out[lane] = select_unpredictable(has(mask, lane), yes[lane], no[lane]);
    }
    out
}

/// 32 bits of each lane.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row(pub [u32; LANES]);

/// The raw bits of one lane of a register: `u32`, `u64` or `u128`.
pub(crate) trait Word: Copy + Default + PartialEq + 'static {}

impl Word for u32 {}
impl Word for u64 {}
impl Word for u128 {}

/// A typed view of a lane.
pub(crate) trait Lane: Copy + 'static {
    /// Type of the stored bits.
    type Bits: Word;
    /// Decodes the bits; excess high bits are ignored.
    fn from_bits(bits: Self::Bits) -> Self;
    /// Encodes the value, zero-extended.
    fn to_bits(self) -> Self::Bits;
}

macro_rules! lane {
    ($($ty:ty: $bits:ty, |$b:ident| $from:expr, |$v:ident| $to:expr;)*) => {$(
        impl Lane for $ty {
            type Bits = $bits;
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the excess bits are to be ignored")]
            fn from_bits($b: $bits) -> Self { $from }
            #[inline(always)]
            fn to_bits(self) -> $bits { let $v = self; $to }
        }
    )*};
}

lane! {
    u8: u32, |b| b as u8, |v| u32::from(v);
    i8: u32, |b| b as i8, |v| u32::from(v as u8);
    u16: u32, |b| b as u16, |v| u32::from(v);
    i16: u32, |b| b as i16, |v| u32::from(v as u16);
    u32: u32, |b| b, |v| v;
    i32: u32, |b| b as i32, |v| v as u32;
    u64: u64, |b| b, |v| v;
    i64: u64, |b| b as i64, |v| v as u64;
    u128: u128, |b| b, |v| v;
    f32: u32, |b| f32::from_bits(b), |v| v.to_bits();
    f64: u64, |b| f64::from_bits(b), |v| v.to_bits();
    half::f16: u32, |b| half::f16::from_bits(b as u16), |v| u32::from(v.to_bits());
    half::bf16: u32, |b| half::bf16::from_bits(b as u16), |v| u32::from(v.to_bits());
}
