//! Shape and strides of a tensor, and what a kernel needs of them: dimensions of size 1 dropped,
//! neighbours merged.

use crate::{Error, ErrorKind};

/// Dimensions at most.
pub(crate) const MAX_RANK: usize = 8;

/// Shape and strides of a tensor; strides count elements, and may be zero (broadcast) or negative
/// (reversed).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Layout {
    /// Elements in C order: the last dimension is the fastest.
    ///
    /// # Errors
    /// Those of [`Layout::new`].
    pub fn contiguous(shape: &[usize]) -> Result<Self, Error> {
        let mut strides = vec![0; shape.len()];
        let mut stride = 1_isize;
        for (size, place) in shape.iter().zip(&mut strides).rev() {
            *place = stride;
            stride = stride.saturating_mul((*size).max(1) as isize);
        }
        Self::new(shape.to_vec(), strides)
    }

    /// Any shape with any strides, one a dimension.
    ///
    /// # Errors
    /// [`ErrorKind::TooManyDimensions`]; [`ErrorKind::TooLarge`] for more elements than can be
    /// counted, repeated ones too.
    ///
    /// # Panics
    /// If there is not one stride for each size.
    pub fn new(shape: Vec<usize>, strides: Vec<isize>) -> Result<Self, Error> {
        assert_eq!(shape.len(), strides.len(), "a layout has one stride for each size");
        if shape.len() > MAX_RANK {
            return Err(ErrorKind::TooManyDimensions(shape.len()).into());
        }
        let limit = isize::MAX as usize;
        let len = shape.iter().try_fold(1_usize, |len, size| len.checked_mul(*size));
        if !shape.contains(&0) && len.is_none_or(|len| len > limit) {
            return Err(ErrorKind::TooLarge { what: "a tensor", size: u64::MAX, limit: limit as u64 }.into());
        }
        Ok(Self { shape, strides })
    }

    /// The sizes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements from one position to the next, for each dimension.
    #[must_use]
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        // A zero makes the product zero whatever else it has.
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements are contiguous in C order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1_isize;
        self.is_empty()
            || self.shape.iter().zip(&self.strides).rev().all(|(size, stride)| {
                let fits = *size == 1 || *stride == expected;
                expected *= *size as isize;
                fits
            })
    }

    /// The dimensions in another order; `order` names each once.
    #[must_use]
    pub fn permute(&self, order: &[usize]) -> Self {
        let shape = order.iter().map(|axis| self.shape[*axis]).collect();
        Self { shape, strides: order.iter().map(|axis| self.strides[*axis]).collect() }
    }

    /// The same elements seen in another shape by repetition: dimensions of size 1, and missing
    /// ones in front, repeat.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], and those of [`Layout::new`].
    pub fn broadcast(&self, shape: &[usize]) -> Result<Self, Error> {
        let mismatch = || ErrorKind::ShapeMismatch { left: self.shape.clone(), right: shape.to_vec() };
        let new = shape.len().checked_sub(self.rank()).ok_or_else(mismatch)?;
        let mut strides = vec![0; shape.len()];
        for (i, (size, stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match *size {
                n if n == shape[new + i] => strides[new + i] = *stride,
                1 => {}
                _ => return Err(mismatch().into()),
            }
        }
        Self::new(shape.to_vec(), strides)
    }

    /// The same elements in the same C order in another shape with as many of them; `None` where no
    /// strides say it, because a new dimension would span two that are not one in memory.
    ///
    /// # Errors
    /// Those of [`Layout::contiguous`].
    pub fn reshape(&self, shape: &[usize]) -> Result<Option<Self>, Error> {
        if self.is_contiguous() {
            return Self::contiguous(shape).map(Some);
        }
        let strides = strides_within(&dims(&[self], |_| true), shape);
        strides.map(|strides| Self::new(shape.to_vec(), strides)).transpose()
    }
}

/// Strides for a shape whose elements are those of these merged dimensions, if each new dimension
/// stays inside one of them.
fn strides_within(dims: &[Dim], shape: &[usize]) -> Option<Vec<isize>> {
    let mut strides = vec![0; shape.len()];
    let mut dims = dims.iter().rev();
    let (mut left, mut stride) = (1_u64, 1_i64);
    for (size, place) in shape.iter().zip(&mut strides).rev() {
        if *size == 1 {
            *place = stride as isize;
            continue;
        }
        if left == 1 {
            let dim = dims.next()?;
            (left, stride) = (dim.size, dim.strides[0]);
        }
        if left % *size as u64 != 0 {
            return None;
        }
        *place = stride as isize;
        left /= *size as u64;
        stride *= *size as i64;
    }
    Some(strides)
}

/// The shape that tensors have together when each repeats along dimensions of size 1 (NumPy,
/// "Broadcasting").
///
/// # Errors
/// [`ErrorKind::ShapeMismatch`].
pub fn broadcast_shape(shapes: &[&[usize]]) -> Result<Vec<usize>, Error> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut common = vec![1; rank];
    for (number, shape) in shapes.iter().enumerate() {
        for (from_end, (place, &size)) in (1..).zip(common.iter_mut().rev().zip(shape.iter().rev())) {
            match (*place, size) {
                (1, _) => *place = size,
                (_, 1) => {}
                (a, b) if a == b => {}
                (a, _) => {
                    let has = |other: &&&[usize]| other.len() >= from_end && other[other.len() - from_end] == a;
                    let left = shapes[..number].iter().find(has).expect("an earlier shape has the size");
                    return Err(ErrorKind::ShapeMismatch { left: left.to_vec(), right: shape.to_vec() }.into());
                }
            }
        }
    }
    Ok(common)
}

/// One dimension that several tensors walk together: its size, and the stride of each in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dim {
    /// Positions.
    pub(crate) size: u64,
    /// Elements from one position to the next, one an input.
    pub(crate) strides: Vec<i64>,
}

/// The dimensions of tensors of one shape that `choose` takes, in order: none of size 1, and
/// neighbours that all tensors walk like one dimension as one.
#[must_use]
pub(crate) fn dims(layouts: &[&Layout], choose: impl Fn(usize) -> bool) -> Vec<Dim> {
    let taken = (0..layouts[0].rank()).filter(|axis| choose(*axis) && layouts[0].shape[*axis] != 1);
    merge(taken.map(|axis| Dim {
        size: layouts[0].shape[axis] as u64,
        strides: layouts.iter().map(|layout| layout.strides[axis] as i64).collect(),
    }))
}

/// The dimensions with neighbours that all tensors walk like one dimension as one.
#[must_use]
pub(crate) fn merge(dims: impl IntoIterator<Item = Dim>) -> Vec<Dim> {
    let mut merged: Vec<Dim> = Vec::new();
    for dim in dims {
        match merged.last_mut() {
            Some(outer) if outer.strides.iter().zip(&dim.strides).all(|(a, b)| *a == b * dim.size as i64) => {
                *outer = Dim { size: outer.size * dim.size, strides: dim.strides };
            }
            _ => merged.push(dim),
        }
    }
    merged
}

/// Axes as a user names them, negative ones from the end, as positions in order.
///
/// # Errors
/// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::RepeatedAxis`].
pub fn normalize_axes(axes: &[isize], rank: usize) -> Result<Vec<usize>, Error> {
    let mut normal = Vec::new();
    for &axis in axes {
        let position = if axis < 0 { axis + rank as isize } else { axis };
        if !(0..rank as isize).contains(&position) {
            return Err(ErrorKind::AxisOutOfRange { axis, rank }.into());
        }
        if normal.contains(&(position as usize)) {
            return Err(ErrorKind::RepeatedAxis(axis).into());
        }
        normal.push(position as usize);
    }
    normal.sort_unstable();
    Ok(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize], strides: &[isize]) -> Layout {
        Layout::new(shape.to_vec(), strides.to_vec()).expect("few dimensions")
    }

    #[test]
    fn neighbours_that_are_walked_like_one_dimension_merge() {
        let c = Layout::contiguous(&[2, 3, 4, 5]).expect("few dimensions");
        assert_eq!(dims(&[&c], |_| true), [Dim { size: 120, strides: vec![1] }]);
        assert_eq!(
            dims(&[&c], |axis| axis != 1),
            [Dim { size: 2, strides: vec![60] }, Dim { size: 20, strides: vec![1] }]
        );
        let turned = layout(&[4, 1, 3], &[1, 7, 4]);
        assert_eq!(dims(&[&turned], |_| true), [Dim { size: 4, strides: vec![1] }, Dim { size: 3, strides: vec![4] }]);
        let row = c.broadcast(&[2, 3, 4, 5]).expect("the same shape");
        assert_eq!(row, c);
    }

    #[test]
    fn tensors_merge_only_where_all_of_them_do() {
        let (c, row) = (layout(&[3, 4], &[4, 1]), layout(&[4], &[1]).broadcast(&[3, 4]).expect("it repeats"));
        assert_eq!(
            dims(&[&c, &row], |_| true),
            [Dim { size: 3, strides: vec![4, 0] }, Dim { size: 4, strides: vec![1, 1] }]
        );
    }

    #[test]
    fn more_elements_than_can_be_counted_are_refused() {
        let one = layout(&[1], &[1]);
        assert!(one.broadcast(&[1 << 40, 1 << 22]).is_ok() && one.broadcast(&[1 << 40, 1 << 24]).is_err());
        assert_eq!(
            one.broadcast(&[1 << 40, 1 << 40, 1]).unwrap_err().kind(),
            &ErrorKind::TooLarge { what: "a tensor", size: u64::MAX, limit: isize::MAX as u64 }
        );
        assert_eq!(layout(&[1 << 40, 1 << 40, 0], &[0; 3]).len(), 0, "nothing, many times");
    }

    #[test]
    fn axes_count_from_either_end_and_come_once() {
        assert_eq!(normalize_axes(&[-1, 0], 3), Ok(vec![0, 2]));
        assert!(normalize_axes(&[3], 3).is_err() && normalize_axes(&[-4], 3).is_err());
        assert!(normalize_axes(&[1, -2], 3).is_err());
    }

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        assert_eq!(broadcast_shape(&[&[3, 1], &[4]]), Ok(vec![3, 4]));
        assert_eq!(broadcast_shape(&[&[0], &[1]]), Ok(vec![0]));
        let error = broadcast_shape(&[&[1, 1], &[2, 3], &[4, 3]]).unwrap_err();
        assert_eq!(error.to_string(), "shapes [2, 3] and [4, 3] do not fit each other: 2 and 4 in axis -2");
    }
}
