//! Whether a layout gives each position an address of its own, as outputs must.

use crate::layout::Layout;

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
