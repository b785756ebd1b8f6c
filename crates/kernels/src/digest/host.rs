//! The digest on the host: the function itself, and sums over bytes in memory.

use super::Digest;

/// Elements whose keys share a factor: a group costs one mixing, and a product an element.
pub(super) const GROUP: u64 = 8;

/// The factors of the elements of a group, all odd.
pub(super) const FACTORS: [u64; GROUP as usize] = {
    let mut factors = [0; GROUP as usize];
    let mut i = 0;
    while i < GROUP {
        // Of places that no tensor has, so that no group has such a factor.
        factors[i as usize] = mixed(u64::MAX - i);
        i += 1;
    }
    factors
};

pub(super) const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
pub(super) const MIX: [(u32, u64); 2] = [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)];
pub(super) const LAST_SHIFT: u32 = 31;

/// SplitMix64's output for a counter (Steele, Lea and Flood, 2014), made odd: a change of one
/// element then never goes unnoticed.
const fn mixed(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(GAMMA);
    z = (z ^ (z >> MIX[0].0)).wrapping_mul(MIX[0].1);
    z = (z ^ (z >> MIX[1].0)).wrapping_mul(MIX[1].1);
    (z ^ (z >> LAST_SHIFT)) | 1
}

impl Digest {
    /// What the bits of an element at a place are multiplied by.
    #[must_use]
    pub const fn key(place: u64) -> u64 {
        mixed(place / GROUP).wrapping_mul(FACTORS[(place % GROUP) as usize])
    }

    /// The digest of elements of 1, 2, 4 or 8 little-endian bytes each on the host, the first of
    /// which stands at the place `first`, and each other one at the next.
    ///
    /// # Panics
    /// For elements of other sizes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8], element_bytes: usize, first: u64) -> u64 {
        match element_bytes {
            1 => sum(bytes, first, |[a]: [u8; 1]| a.into()),
            2 => sum(bytes, first, |bytes| u16::from_le_bytes(bytes).into()),
            4 => sum(bytes, first, |bytes| u32::from_le_bytes(bytes).into()),
            8 => sum(bytes, first, u64::from_le_bytes),
            other => panic!("an element has 1, 2, 4 or 8 bytes, not {other}"),
        }
    }
}

fn sum<const N: usize>(bytes: &[u8], first: u64, bits: impl Fn([u8; N]) -> u64) -> u64 {
    let (elements, _) = bytes.as_chunks::<N>();
    // Up to the first whole group, the groups, and what is left.
    let before = (first.next_multiple_of(GROUP) - first).min(elements.len() as u64) as usize;
    let (before, elements) = elements.split_at(before);
    let (groups, after) = elements.as_chunks::<{ GROUP as usize }>();
    let one_by_one = |elements: &[[u8; N]], first: u64| {
        (first..)
            .zip(elements)
            .fold(0, |sum: u64, (place, x)| sum.wrapping_add(bits(*x).wrapping_mul(Digest::key(place))))
    };
    let start = first + before.len() as u64;
    let mut sum = one_by_one(before, first);
    for (number, group) in (start / GROUP..).zip(groups) {
        let mut inner = 0_u64;
        for (x, factor) in group.iter().zip(FACTORS) {
            inner = inner.wrapping_add(bits(*x).wrapping_mul(factor));
        }
        sum = sum.wrapping_add(inner.wrapping_mul(mixed(number)));
    }
    sum.wrapping_add(one_by_one(after, start + groups.len() as u64 * GROUP))
}
