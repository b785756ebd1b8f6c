//! Operations on the addresses of all lanes at once, with vector instructions if the host has them.
//!
//! Written out because loops over 32 lanes are unrolled before the compiler vectorises them: what
//! comes of it are vectors at odd offsets, with single lanes in between.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::row::{LANES, has};

/// The lowest and the highest address of some lanes, and all bits that are set in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The lowest; all ones for no lane.
    pub lowest: u32,
    /// The highest; 0 for no lane.
    pub highest: u32,
    /// Bits set in any.
    pub bits: u32,
}

/// The lanes whose address is not `base + lane * step`.
#[inline(always)]
pub(crate) fn differing(at: &[u32; LANES], base: u32, step: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the host has the instructions.
        return unsafe { avx2::differing(at, base, step) };
    }
    let mut mask = 0;
    for (lane, &address) in (0u32..).zip(at) {
        mask |= u32::from(address != base.wrapping_add(lane.wrapping_mul(step))) << lane;
    }
    mask
}

/// [`differing`] for addresses of 64 bits.
#[inline(always)]
pub(crate) fn differing64(at: &[u64; LANES], base: u64, step: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the host has the instructions.
        return unsafe { avx2::differing64(at, base, step) };
    }
    let mut mask = 0;
    for (lane, &address) in (0u64..).zip(at) {
        mask |= u32::from(address != base.wrapping_add(lane.wrapping_mul(step.into()))) << lane;
    }
    mask
}

/// The span of the addresses of the lanes in `mask`.
#[inline(always)]
pub(crate) fn span(at: &[u32; LANES], mask: u32) -> Span {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the host has the instructions.
        return unsafe { avx2::span(at, mask) };
    }
    let mut span = Span { lowest: u32::MAX, highest: 0, bits: 0 };
    for (lane, &address) in at.iter().enumerate() {
        let active = if has(mask, lane) { u32::MAX } else { 0 };
        span.lowest = span.lowest.min(address | !active);
        span.highest = span.highest.max(address & active);
        span.bits |= address & active;
    }
    span
}

/// Moves 128 bytes that other host threads may access at the same time, each word of 4 bytes
/// atomically. Returns false, with nothing done, if the host has no such instructions or the bytes
/// are not aligned to 16.
///
/// # Safety
/// Both ranges can be accessed, and on one side of the move nobody but this thread does.
#[inline(always)]
pub(crate) unsafe fn move_row(from: *const u8, to: *mut u8) -> bool {
    #[cfg(target_arch = "x86_64")]
    if (from.addr() | to.addr()).is_multiple_of(16) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: passed on. Hosts with AVX access aligned 16 bytes in one piece (Intel SDM volume
        // 3, "Guaranteed Atomic Operations"; AMD's manual likewise), and the compiler cannot look
        // inside, so that this is an atomic access to it.
        unsafe {
            std::arch::asm!(
                "vmovdqa {a}, [{f}]",
                "vmovdqa {b}, [{f} + 16]",
                "vmovdqa {c}, [{f} + 32]",
                "vmovdqa {d}, [{f} + 48]",
                "vmovdqa [{t}], {a}",
                "vmovdqa [{t} + 16], {b}",
                "vmovdqa [{t} + 32], {c}",
                "vmovdqa [{t} + 48], {d}",
                "vmovdqa {a}, [{f} + 64]",
                "vmovdqa {b}, [{f} + 80]",
                "vmovdqa {c}, [{f} + 96]",
                "vmovdqa {d}, [{f} + 112]",
                "vmovdqa [{t} + 64], {a}",
                "vmovdqa [{t} + 80], {b}",
                "vmovdqa [{t} + 96], {c}",
                "vmovdqa [{t} + 112], {d}",
                f = in(reg) from,
                t = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
        return true;
    }
    let _ = (from, to);
    false
}

/// Reads cells that other host threads may change at the same time.
#[inline(always)]
pub(crate) fn load_cells(cells: &[AtomicU64; LANES]) -> [u64; LANES] {
    let mut values = Cells([0; LANES]);
    let (from, to) = (cells.as_ptr().cast::<u8>(), values.0.as_mut_ptr().cast::<u8>());
    // SAFETY: both are two rows, and the values are this function's.
    if unsafe { move_row(from, to) && move_row(from.add(128), to.add(128)) } {
        return values.0;
    }
    std::array::from_fn(|i| cells[i].load(Relaxed))
}

/// Writes such cells.
#[inline(always)]
pub(crate) fn store_cells(cells: &[AtomicU64; LANES], values: &[u64; LANES]) {
    let values = Cells(*values);
    let (from, to) = (values.0.as_ptr().cast::<u8>(), cells.as_ptr().cast_mut().cast::<u8>());
    // SAFETY: both are two rows, the values are this function's, and atomic cells may be written.
    if unsafe { move_row(from, to) && move_row(from.add(128), to.add(128)) } {
        return;
    }
    for (cell, &value) in cells.iter().zip(&values.0) {
        cell.store(value, Relaxed);
    }
}

/// Values aligned as [`move_row`] has them.
#[repr(align(64))]
struct Cells([u64; LANES]);

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The same with AVX2.

    use std::arch::x86_64::*;

    use super::Span;
    use crate::exec::row::LANES;

    /// Eight addresses.
    ///
    /// # Safety
    /// The host has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn eight(at: &[u32; LANES], n: usize) -> __m256i {
        // SAFETY: the array has four times eight elements.
        unsafe { _mm256_loadu_si256(at.as_ptr().add(8 * n).cast()) }
    }

    /// # Safety
    /// The host has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn differing(at: &[u32; LANES], base: u32, step: u32) -> u32 {
        let iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let eight_steps = _mm256_set1_epi32(step.wrapping_mul(8).cast_signed());
        let offsets = _mm256_mullo_epi32(iota, _mm256_set1_epi32(step.cast_signed()));
        let mut expected = _mm256_add_epi32(offsets, _mm256_set1_epi32(base.cast_signed()));
        let mut equal = 0;
        for n in 0..4 {
            // SAFETY: passed on.
            let same = unsafe { _mm256_cmpeq_epi32(eight(at, n), expected) };
            equal |= _mm256_movemask_ps(_mm256_castsi256_ps(same)).cast_unsigned() << (8 * n);
            expected = _mm256_add_epi32(expected, eight_steps);
        }
        !equal
    }

    /// # Safety
    /// The host has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn differing64(at: &[u64; LANES], base: u64, step: u32) -> u32 {
        let step = i64::from(step);
        let four_steps = _mm256_set1_epi64x(4 * step);
        let offsets = _mm256_setr_epi64x(0, step, 2 * step, 3 * step);
        let mut expected = _mm256_add_epi64(offsets, _mm256_set1_epi64x(base.cast_signed()));
        let mut equal = 0;
        for n in 0..8 {
            // SAFETY: the array has eight times four elements.
            let four = unsafe { _mm256_loadu_si256(at.as_ptr().add(4 * n).cast()) };
            let same = _mm256_cmpeq_epi64(four, expected);
            equal |= _mm256_movemask_pd(_mm256_castsi256_pd(same)).cast_unsigned() << (4 * n);
            expected = _mm256_add_epi64(expected, four_steps);
        }
        !equal
    }

    /// # Safety
    /// The host has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn span(at: &[u32; LANES], mask: u32) -> Span {
        let mut bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let lanes = _mm256_set1_epi32(mask.cast_signed());
        let mut lowest = _mm256_set1_epi32(-1);
        let (mut highest, mut bits) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for n in 0..4 {
            let active = _mm256_cmpeq_epi32(_mm256_and_si256(lanes, bit), bit);
            // SAFETY: passed on.
            let eight = unsafe { eight(at, n) };
            let inactive = _mm256_xor_si256(active, _mm256_set1_epi32(-1));
            lowest = _mm256_min_epu32(lowest, _mm256_or_si256(eight, inactive));
            let eight = _mm256_and_si256(eight, active);
            highest = _mm256_max_epu32(highest, eight);
            bits = _mm256_or_si256(bits, eight);
            bit = _mm256_slli_epi32::<8>(bit);
        }
        let halves = |x: __m256i| (_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        let turned = |x: __m128i| (_mm_shuffle_epi32::<0b0100_1110>(x), _mm_shuffle_epi32::<0b1011_0001>(x));
        let (low, high) = halves(lowest);
        let four = _mm_min_epu32(low, high);
        let two = _mm_min_epu32(four, turned(four).0);
        let lowest = _mm_min_epu32(two, turned(two).1);
        let (low, high) = halves(highest);
        let four = _mm_max_epu32(low, high);
        let two = _mm_max_epu32(four, turned(four).0);
        let highest = _mm_max_epu32(two, turned(two).1);
        let (low, high) = halves(bits);
        let four = _mm_or_si128(low, high);
        let two = _mm_or_si128(four, turned(four).0);
        let bits = _mm_or_si128(two, turned(two).1);
        let first = |x: __m128i| _mm_cvtsi128_si32(x).cast_unsigned();
        Span { lowest: first(lowest), highest: first(highest), bits: first(bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that are `base + lane * step` but for some lanes.
    fn addresses(base: u32, step: u32, other: u32) -> [u32; LANES] {
        let regular = |lane: u32| base.wrapping_add(lane.wrapping_mul(step));
        let at = |lane: u32| if other >> lane & 1 == 0 { regular(lane) } else { !regular(lane) };
        std::array::from_fn(|lane| at(u32::try_from(lane).expect("a lane")))
    }

    #[test]
    fn lanes_out_of_line_are_found() {
        for (base, step) in [(0, 0), (64, 4), (1 << 31, 12), (u32::MAX, 1), (7, u32::MAX)] {
            for other in [0, 1, 1 << 31, 0x8001_0180, u32::MAX, 0x5555_5555] {
                let at = addresses(base, step, other);
                assert_eq!(differing(&at, base, step), other, "{base} {step}");
                let base64 = u64::from(base) << 7;
                let wide = |lane: usize| {
                    base64.wrapping_add(lane as u64 * u64::from(step)) ^ u64::from(other >> lane & 1) << 50
                };
                assert_eq!(differing64(&std::array::from_fn(wide), base64, step), other, "{base} {step}");
            }
        }
    }

    #[test]
    fn a_span_is_that_of_the_active_lanes_alone() {
        let at = std::array::from_fn(|lane| 0x8000_0000 + 16 * lane as u32);
        let first = |lowest, highest, bits| Span { lowest, highest, bits };
        assert_eq!(span(&at, 1), first(0x8000_0000, 0x8000_0000, 0x8000_0000));
        assert_eq!(span(&at, 0b110), first(0x8000_0010, 0x8000_0020, 0x8000_0030));
        assert_eq!(span(&at, u32::MAX), first(0x8000_0000, 0x8000_01f0, 0x8000_01f0));
        assert_eq!(span(&at, 0), first(u32::MAX, 0, 0));
    }

    #[test]
    fn a_row_moves_whole_or_not_at_all() {
        #[repr(align(64))]
        struct Bytes([u8; 256]);
        let from = Bytes(std::array::from_fn(|i| i as u8));
        for start in [0, 16, 4] {
            let mut to = Bytes([0xff; 256]);
            // SAFETY: 128 bytes follow each start.
            let done = unsafe { move_row(from.0.as_ptr().add(start), to.0.as_mut_ptr()) };
            let expected = if done { &from.0[start..start + 128] } else { &[0xff; 128] };
            assert_eq!(to.0[..128], *expected);
            assert_eq!(to.0[128..], [0xff; 128]);
            assert!(!done || start != 4);
        }
    }
}
