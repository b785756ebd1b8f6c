//! Whether two tensors share memory, and how: whether a kernel may write one while it reads the
//! other.

use crate::Dtype;
use crate::layout::{Dim, Layout, dims};

/// A tensor in memory.
#[derive(Debug, Clone, Copy)]
pub struct Region<'a> {
    /// Its shape and strides.
    pub layout: &'a Layout,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The address of its first element.
    pub address: u64,
}

/// What two tensors share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// Nothing.
    None,
    /// Every element, at the same position: a map may write the one while it reads the other.
    Same,
    /// Some memory, or it is not certain that they do not: a map must not write the one and read
    /// the other.
    Partial,
}

impl Overlap {
    /// Whether a map may write one of the tensors while it reads the other.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::None | Self::Same)
    }
}

/// What two tensors share. Exact for tensors that are slices of one contiguous tensor along the
/// same axes; else it may be [`Overlap::Partial`] where the truth is [`Overlap::None`].
///
/// ```
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::map::{Overlap, Region, overlap};
///
/// // The left and the right half of a matrix with rows of 8.
/// let half = Layout::new(vec![3, 4], vec![8, 1])?;
/// let [left, right, between] = [0, 16, 8].map(|bytes| Region { layout: &half, dtype: Dtype::F32, address: 4096 + bytes });
/// assert_eq!(overlap(left, right), Overlap::None);
/// assert_eq!(overlap(left, between), Overlap::Partial);
/// assert_eq!(overlap(left, left), Overlap::Same);
/// # Ok::<(), warpfold_kernels::Error>(())
/// ```
#[must_use]
pub fn overlap(a: Region<'_>, b: Region<'_>) -> Overlap {
    if a.layout.is_empty() || b.layout.is_empty() {
        return Overlap::None;
    }
    if is_same(a, b) {
        return Overlap::Same;
    }
    let (a, b) = (Bytes::of(a), Bytes::of(b));
    let moduli = a.dims.iter().chain(&b.dims).map(|(_, stride)| *stride);
    let is_apart = a.start + a.extent(None) <= b.start
        || b.start + b.extent(None) <= a.start
        || moduli.into_iter().any(|modulus| are_apart_modulo(&a, &b, modulus));
    if is_apart { Overlap::None } else { Overlap::Partial }
}

fn is_same(a: Region<'_>, b: Region<'_>) -> bool {
    let walk = |region: Region<'_>| dims(&[region.layout], |_| true);
    a.address == b.address
        && a.dtype.bytes() == b.dtype.bytes()
        && a.layout.shape() == b.layout.shape()
        && walk(a) == walk(b)
}

/// Bytes that a tensor takes: from `start` on, `bytes` at every combination of positions along its
/// dimensions.
struct Bytes {
    start: i128,
    bytes: i128,
    /// Positions and stride of each dimension, the stride positive.
    dims: Vec<(i128, i128)>,
}

impl Bytes {
    fn of(region: Region<'_>) -> Self {
        let bytes = i128::from(region.dtype.bytes());
        let mut bytes_of = Self { start: region.address.into(), bytes, dims: Vec::new() };
        for Dim { size, strides } in dims(&[region.layout], |_| true) {
            let (last, stride) = (i128::from(size) - 1, i128::from(strides[0]) * bytes);
            bytes_of.start += (last * stride).min(0);
            if stride != 0 {
                bytes_of.dims.push((size.into(), stride.abs()));
            }
        }
        bytes_of
    }

    /// From the first byte to the end of the last, without the dimensions whose stride is a
    /// multiple of `modulus`.
    fn extent(&self, modulus: Option<i128>) -> i128 {
        let counts = self.dims.iter().filter(|(_, stride)| modulus.is_none_or(|modulus| stride % modulus != 0));
        self.bytes + counts.map(|(size, stride)| (size - 1) * stride).sum::<i128>()
    }
}

/// Whether both are in separate intervals of every stretch of `modulus` bytes.
fn are_apart_modulo(a: &Bytes, b: &Bytes, modulus: i128) -> bool {
    let (a_extent, b_extent) = (a.extent(Some(modulus)), b.extent(Some(modulus)));
    let from_a_to_b = (b.start - a.start).rem_euclid(modulus);
    a_extent <= from_a_to_b && from_a_to_b + b_extent <= modulus
}

/// Whether no two positions of a tensor can have one address: each stride is longer than the extent
/// of the dimensions with smaller ones.
pub(super) fn is_injective(layout: &Layout) -> bool {
    let mut dims: Vec<(u128, u128)> = (layout.shape().iter().zip(layout.strides()))
        .filter(|(size, _)| **size != 1)
        .map(|(size, stride)| (stride.unsigned_abs() as u128, *size as u128))
        .collect();
    dims.sort_unstable();
    let mut reach = 0;
    layout.is_empty()
        || dims.iter().all(|(stride, size)| {
            let is_beyond = *stride > reach;
            reach += stride * (size - 1);
            is_beyond
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize], strides: &[isize]) -> Layout {
        Layout::new(shape.to_vec(), strides.to_vec()).expect("few dimensions")
    }

    fn bytes_of(layout: &Layout, address: u64, bytes: u64) -> Vec<u64> {
        let mut all = vec![address];
        for (size, stride) in layout.shape().iter().zip(layout.strides()) {
            let step =
                |from: u64| (0..*size as i64).map(move |i| from.wrapping_add_signed(i * *stride as i64 * bytes as i64));
            all = all.into_iter().flat_map(step).collect();
        }
        all.into_iter().flat_map(|place| place..place + bytes).collect()
    }

    #[test]
    fn an_answer_of_none_is_never_wrong_and_slices_of_one_tensor_are_told_apart() {
        let views = [
            (layout(&[4, 3], &[8, 1]), 0),
            (layout(&[4, 3], &[8, 1]), 4),
            (layout(&[4, 3], &[8, 2]), 1),
            (layout(&[4, 3], &[8, 2]), 0),
            (layout(&[3, 4], &[1, 8]), 0),
            (layout(&[4, 3], &[-8, -1]), 29),
            (layout(&[2, 3], &[16, 1]), 8),
            (layout(&[2, 3], &[16, 1]), 0),
            (layout(&[5], &[0]), 9),
            (layout(&[], &[]), 31),
            (layout(&[0], &[1]), 0),
        ];
        for (a, a_first) in &views {
            for (b, b_first) in &views {
                let region = |layout, first: &u64| Region { layout, dtype: Dtype::F32, address: 4096 + 4 * first };
                let found = overlap(region(a, a_first), region(b, b_first));
                let (a_bytes, b_bytes) = (bytes_of(a, 4 * a_first, 4), bytes_of(b, 4 * b_first, 4));
                let shares = a_bytes.iter().any(|byte| b_bytes.contains(byte));
                assert_eq!(found == Overlap::None, !shares, "{a:?} {a_first} {b:?} {b_first}: {found:?}");
                if found == Overlap::Same {
                    assert_eq!(a_bytes, b_bytes);
                }
            }
        }
    }

    #[test]
    fn another_type_of_the_same_size_may_take_the_place() {
        let c = layout(&[2, 3], &[3, 1]);
        let region = |dtype| Region { layout: &c, dtype, address: 512 };
        assert_eq!(overlap(region(Dtype::F32), region(Dtype::I32)), Overlap::Same);
        assert_eq!(overlap(region(Dtype::F32), region(Dtype::F64)), Overlap::Partial);
        assert!(!overlap(region(Dtype::F32), region(Dtype::F16)).is_allowed());
    }

    #[test]
    fn only_outputs_with_a_place_for_each_position_are_taken() {
        for (shape, strides) in
            [(&[3, 4][..], &[4, 1][..]), (&[3, 4], &[1, 3]), (&[2, 2], &[-9, 3]), (&[1, 3], &[0, 1])]
        {
            assert!(is_injective(&layout(shape, strides)), "{shape:?} {strides:?}");
        }
        for (shape, strides) in [(&[3, 4][..], &[0, 1][..]), (&[3, 4], &[2, 1]), (&[2, 2], &[1, -1])] {
            assert!(!is_injective(&layout(shape, strides)), "{shape:?} {strides:?}");
        }
        assert!(is_injective(&layout(&[0, 4], &[0, 1])));
    }
}
