//! The shapes of the cases: around the sizes where plans change, in up to four dimensions, with
//! every subset of axes.

/// Lengths around a warp, a block, and what a block takes at once.
pub(crate) const LENGTHS: [usize; 16] = [0, 1, 2, 3, 31, 32, 33, 63, 65, 255, 256, 257, 1023, 1024, 1025, 4099];

/// Longer than a block's share: several blocks meet.
pub(crate) const LONG: [usize; 2] = [65_537, 300_007];

/// Shapes with a reason each: inner, outer and middle axes that are short, long, one, or none.
pub(crate) const SHAPES: &[&[usize]] = &[
    &[],
    &[7],
    &[3, 5],
    &[32, 33],
    &[33, 32],
    &[1, 257],
    &[257, 1],
    &[2, 1025],
    &[1025, 2],
    &[64, 64],
    &[0, 3],
    &[3, 0],
    &[2, 3, 4],
    &[5, 1, 33],
    &[3, 31, 2],
    &[17, 5, 9],
    &[2, 0, 3],
    &[4, 300, 3],
    &[2, 2, 33, 3],
    &[3, 1, 2, 32],
    &[2, 16, 3, 17],
];

/// Matrices for operators on rows.
pub(crate) const ROWS: &[&[usize]] = &[
    &[1],
    &[33],
    &[1, 1],
    &[3, 2],
    &[5, 31],
    &[4, 32],
    &[3, 33],
    &[2, 64],
    &[3, 100],
    &[2, 255],
    &[2, 256],
    &[2, 257],
    &[2, 512],
    &[1, 1023],
    &[2, 1024],
    &[1, 1025],
    &[1, 4096],
    &[1, 4099],
    &[1, 9001],
    &[130, 3],
    &[67, 40],
    &[2, 3, 40],
    &[2, 2, 3, 17],
    &[0, 5],
];

/// Every choice of at least one axis, every other one counted from the end.
pub(crate) fn axes_of(rank: usize) -> Vec<Vec<i64>> {
    let chosen = |bits: usize| (0..rank).filter(move |axis| bits >> axis & 1 == 1);
    let named = |bits: usize, axis: usize| if bits % 2 == 1 { axis as i64 - rank as i64 } else { axis as i64 };
    (1..1usize << rank).map(|bits| chosen(bits).map(|axis| named(bits, axis)).collect()).collect()
}
