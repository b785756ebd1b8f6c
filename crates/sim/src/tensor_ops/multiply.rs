//! The loop behind all products of fragments: `C += A B`, in the order of K.

use super::fragment::{A, B, C, COLUMNS};

/// Adds the product of the first `depth` columns of A and rows of B to `blocks` blocks of eight rows.
///
/// Eight rows of eight numbers stay in registers: eight vectors of AVX2.
#[inline(always)]
pub(crate) fn multiply(c: &mut C<f32>, a: &A, b: &B, blocks: usize, depth: usize) {
    for block in 0..blocks {
        let rows = &a[block * 8..][..8];
        let mut sums: [[f32; COLUMNS]; 8] = c[block * 8..][..8].try_into().expect("eight rows");
        for (k, b) in b.iter().enumerate().take(depth) {
            for (sum, row) in sums.iter_mut().zip(rows) {
                let x = row[k];
                for (sum, y) in sum.iter_mut().zip(b) {
                    *sum = x.mul_add(*y, *sum);
                }
            }
        }
        c[block * 8..][..8].copy_from_slice(&sums);
    }
}
