//! Coalescing and bank conflicts: sectors of global memory and wavefronts of shared memory per warp
//! access.
//!
//! Sector: an aligned 32 bytes; a request costs the distinct sectors of its active lanes.
//! Wavefronts of shared memory: lanes are served in phases by access width (4 bytes: all 32 lanes
//! at once; 8: half-warps; 16: quarter-warps); a phase costs as many wavefronts as the bank with
//! the most distinct 4-byte words.

use crate::exec::lanes;
use crate::exec::row::{ALL_LANES, LANES};

/// Bytes of a sector.
const SECTOR: u64 = 32;

/// Returns the address of lane 0's element if the active lanes access consecutive elements of
/// `size` bytes in lane order.
#[inline(always)]
pub(crate) fn contiguous(addresses: &[u64; LANES], mask: u32, size: u64) -> Option<u64> {
    let first = mask.trailing_zeros() as usize;
    let base = addresses[first].wrapping_sub(first as u64 * size);
    (lanes::differing64(addresses, base, size as u32) & mask == 0).then_some(base)
}

/// Returns true if the lanes of a mask are consecutive.
#[inline(always)]
pub(crate) fn is_run(mask: u32) -> bool {
    let low = mask >> mask.trailing_zeros();
    low & low.wrapping_add(1) == 0
}

/// Distinct sectors of a request whose lanes access `bytes` bytes each.
#[inline]
pub(crate) fn sectors(addresses: &[u64; LANES], mask: u32, bytes: u64) -> u64 {
    let step = addresses[1].wrapping_sub(addresses[0]);
    if mask == ALL_LANES && step <= SECTOR && lanes::differing64(addresses, addresses[0], step as u32) == 0 {
        // No sector between the first and the last one is skipped.
        return range_sectors(addresses[0], addresses[LANES - 1] + bytes);
    }
    let mut seen = [0u64; 2 * LANES];
    let mut count = 0usize;
    let mut highest = 0u64;
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let first = addresses[lane] / SECTOR + 1;
        let last = (addresses[lane] + bytes - 1) / SECTOR + 1;
        for sector in first..=last {
            if sector > highest {
                highest = sector;
            } else if sector == highest || seen[..count].contains(&sector) {
                continue;
            }
            if count < seen.len() {
                seen[count] = sector;
            }
            count += 1;
        }
    }
    count as u64
}

/// Sectors of a contiguous range.
#[inline(always)]
pub(crate) fn range_sectors(start: u64, end: u64) -> u64 {
    (end - 1) / SECTOR - start / SECTOR + 1
}

/// Wavefronts of a request to shared memory, and the ideal number of them.
///
/// Loads of 8 and 16 bytes whose neighbours read the same merge them, and take half the phases
/// (measured on an H200, cases `v2-neighbours-equal`, `v4-neighbours-equal` and
/// `v4-second-neighbours-equal` of the calibration group).
#[inline(always)]
pub(crate) fn wavefronts(addresses: &[u32; LANES], mask: u32, bytes: u32, is_load: bool) -> (u64, u64) {
    if bytes <= 4 {
        return (phase(addresses, mask, 1), u64::from(mask != 0));
    }
    let words = bytes / 4;
    let merges = is_load && (pairs_equal(addresses, mask, 1) || (bytes == 16 && pairs_equal(addresses, mask, 2)));
    let phases = if merges { words / 2 } else { words };
    let lanes = 32 / phases;
    let (mut total, mut ideal) = (0, 0);
    for i in 0..phases {
        let part = mask & ((ALL_LANES >> (32 - lanes)) << (i * lanes));
        total += phase(addresses, part, words);
        ideal += u64::from(part != 0);
    }
    (total, ideal)
}

/// Turns of an atomic on shared memory: in each, a bank serves one lane. And the ideal number of
/// them.
pub(crate) fn atomic_turns(addresses: &[u32; LANES], mask: u32, bytes: u32) -> (u64, u64) {
    let words = bytes.div_ceil(4);
    let mut lanes_at = [0u32; 32];
    for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
        let first = addresses[lane] / 4;
        (first..first + words).for_each(|word| lanes_at[(word % 32) as usize] += 1);
    }
    let turns = lanes_at.into_iter().max().unwrap_or(0);
    (u64::from(turns), u64::from((mask.count_ones() * words).div_ceil(32)))
}

/// Returns true if lanes `n` and `n ^ step` access the same address wherever both are active.
#[inline(always)]
fn pairs_equal(addresses: &[u32; LANES], mask: u32, step: usize) -> bool {
    let mut differs = 0u32;
    for lane in 0..LANES {
        differs |= u32::from(addresses[lane] != addresses[lane ^ step]) << lane;
    }
    let partners = if step == 1 {
        (mask & 0x5555_5555) << 1 | mask >> 1 & 0x5555_5555
    } else {
        (mask & 0x3333_3333) << 2 | mask >> 2 & 0x3333_3333
    };
    mask.count_ones() > 1 && differs & mask & partners == 0 && mask & partners != 0
}

/// Cost of one phase: the largest number of distinct words in any bank. Each lane reads `words`
/// words.
#[inline(always)]
fn phase(addresses: &[u32; LANES], mask: u32, words: u32) -> u64 {
    if mask == 0 {
        return 0;
    }
    if let Some(cost) = strided(addresses, mask, words) {
        return cost;
    }
    if are_apart(addresses, mask, words) { 1 } else { general_phase(addresses, mask, words) }
}

/// Cost of accesses to words at a constant stride, computed without looking at each bank.
#[inline(always)]
fn strided(addresses: &[u32; LANES], mask: u32, words: u32) -> Option<u64> {
    let first = mask.trailing_zeros();
    let rest = mask & (mask - 1);
    if rest == 0 {
        return Some(1);
    }
    let second = rest.trailing_zeros();
    let (a, b) = (addresses[first as usize], addresses[second as usize]);
    let distance = b.wrapping_sub(a) / (second - first);
    let base = a.wrapping_sub(first.wrapping_mul(distance));
    let differs = lanes::differing(addresses, base, distance);
    if differs & mask != 0 || distance.wrapping_mul(second - first) != b.wrapping_sub(a) {
        return None;
    }
    if distance == 0 {
        return Some(1);
    }
    if distance == 4 * words && a % 4 == 0 {
        // Consecutive elements: 32 consecutive words, each in a bank of its own.
        return Some(1);
    }
    if words == 1 && distance.is_multiple_of(4) && is_run(mask) {
        // The words repeat their bank after 32 / gcd(stride, 32) lanes.
        let stride = distance / 4;
        let period = 32 >> stride.trailing_zeros().min(5);
        return Some(u64::from(mask.count_ones().div_ceil(period)));
    }
    None
}

/// Returns true if no two words share a bank, as in swizzled tiles.
#[inline]
fn are_apart(addresses: &[u32; LANES], mask: u32, words: u32) -> bool {
    let (mut banks, mut rest, own) = (0u32, mask, (1 << words) - 1);
    let mut meet = false;
    while rest != 0 {
        let bits = u32::rotate_left(own, addresses[rest.trailing_zeros() as usize] / 4);
        meet |= banks & bits != 0;
        banks |= bits;
        rest &= rest - 1;
    }
    !meet
}

/// The cost of any other pattern: distinct words by bank.
#[inline(never)]
fn general_phase(addresses: &[u32; LANES], mask: u32, words: u32) -> u64 {
    // Each bank has a list of the distinct words requested from it.
    const END: u8 = u8::MAX;
    let mut head = [END; 32];
    let mut next = [END; 128];
    let mut word_of = [0u32; 128];
    let mut depth = [0u8; 32];
    let mut used = 0usize;
    let mut most = 1;
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let start = addresses[lane] / 4;
        for word in start..start + words {
            let bank = (word % 32) as usize;
            let mut at = head[bank];
            while at != END && word_of[at as usize] != word {
                at = next[at as usize];
            }
            if at != END || used == 128 {
                continue;
            }
            word_of[used] = word;
            next[used] = head[bank];
            #[allow(clippy::cast_possible_truncation, reason = "below 128")]
            {
                head[bank] = used as u8;
            }
            used += 1;
            depth[bank] += 1;
            most = most.max(depth[bank]);
        }
    }
    u64::from(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(f: impl Fn(u32) -> u32) -> [u32; LANES] {
        std::array::from_fn(|lane| f(u32::try_from(lane).expect("small")))
    }

    #[track_caller]
    fn check(f: impl Fn(u32) -> u32, bytes: u32, expected: (u64, u64)) {
        assert_eq!(wavefronts(&addresses(f), ALL_LANES, bytes, true), expected);
    }

    #[test]
    fn lanes_of_an_atomic_take_turns_at_a_bank() {
        let turns = |f: fn(u32) -> u32, mask, bytes| atomic_turns(&addresses(f), mask, bytes);
        assert_eq!(turns(|l| l * 4, ALL_LANES, 4), (1, 1));
        assert_eq!(turns(|_| 64, ALL_LANES, 4), (32, 1));
        assert_eq!(turns(|l| l % 8 * 4, ALL_LANES, 4), (4, 1));
        assert_eq!(turns(|l| l * 128, 0xff, 4), (8, 1));
        assert_eq!(turns(|l| l * 8, ALL_LANES, 8), (2, 2));
        assert_eq!(turns(|l| l * 4, 0, 4), (0, 0));
    }

    #[test]
    fn wavefronts_match_the_published_examples() {
        check(|l| l * 16, 16, (4, 4)); // contiguous float4
        check(|l| l * 512, 16, (32, 4)); // 512-byte stride
        check(|l| l % 4 * 16, 16, (4, 4)); // broadcast of four vectors
        check(|l| l * 8, 8, (2, 2)); // contiguous float2
        check(|l| l * 8, 4, (2, 1)); // every second float
        check(|l| l * 33 * 4, 4, (1, 1)); // padded column
        check(|l| l * 32 * 4, 4, (32, 1)); // unpadded column
        check(|_| 64, 4, (1, 1)); // broadcast
        check(|l| l, 1, (1, 1)); // bytes of eight words
    }

    #[test]
    fn equal_neighbours_merge_in_wide_loads_alone() {
        check(|l| l / 2 * 16, 16, (2, 2));
        check(|l| (l / 4 * 2 + l % 2) * 16, 16, (2, 2));
        check(|l| l / 2 * 8, 8, (1, 1));
        assert_eq!(wavefronts(&addresses(|l| l / 2 * 16), ALL_LANES, 16, false), (4, 4));
    }

    #[test]
    fn quarter_warps_are_served_one_after_the_other() {
        // Each quarter-warp stays in four banks, and the quarters use different banks.
        let pattern = |l: u32| l % 8 * 512 + l / 8 * 16;
        check(pattern, 16, (32, 4));
    }

    #[test]
    fn the_strided_shortcut_agrees_with_the_general_rule() {
        for stride in 0..70 {
            for mask in [ALL_LANES, 0xffff, 0xff, 1, 0x7fff_fffe] {
                let a = addresses(|l| l * stride * 4);
                assert_eq!(phase(&a, mask, 1), general_phase(&a, mask, 1), "stride {stride}, mask {mask:#x}");
            }
        }
    }

    #[test]
    fn sectors_are_counted_once_in_any_order() {
        let up: [u64; LANES] = std::array::from_fn(|l| 1024 + l as u64 * 4);
        let down: [u64; LANES] = std::array::from_fn(|l| 1024 + (31 - l as u64) * 4);
        assert_eq!(sectors(&up, ALL_LANES, 4), 4);
        assert_eq!(sectors(&down, ALL_LANES, 4), 4);
        let far: [u64; LANES] = std::array::from_fn(|l| l as u64 * 128);
        assert_eq!(sectors(&far, ALL_LANES, 4), 32);
        for (step, expected) in [(0, 1), (8, 8), (12, 12), (32, 32)] {
            let regular: [u64; LANES] = std::array::from_fn(|l| 1024 + l as u64 * step);
            let mut irregular = regular;
            irregular.swap(3, 17);
            assert_eq!(sectors(&regular, ALL_LANES, 4), expected, "{step}");
            assert_eq!(sectors(&irregular, ALL_LANES, 4), expected, "{step}");
        }
        let wide: [u64; LANES] = std::array::from_fn(|l| 32 + l as u64 * 16);
        assert_eq!(sectors(&wide, ALL_LANES, 16), 16);
    }
}
