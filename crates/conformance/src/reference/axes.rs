//! Axes of an array, and the lanes of elements that an operation along them takes together.

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl Refused {
    /// A refusal with its reason.
    pub fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self(reason.into()))
    }
}

/// Sorted, non-negative axes.
///
/// # Errors
///
/// An axis out of range, or one named twice.
pub fn normalise(axes: &[i64], rank: usize) -> Result<Vec<usize>, Refused> {
    let mut sorted = Vec::new();
    for &axis in axes {
        let positive = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(positive) {
            Ok(axis) if axis < rank => sorted.push(axis),
            _ => return Refused::because(format!("axis {axis} of {rank} dimensions")),
        }
    }
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Refused::because(format!("an axis twice in {axes:?}"));
    }
    Ok(sorted)
}

/// An array cut into lanes: all elements that differ in the given axes only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    /// The sizes of the axes that are left, in order.
    pub kept: Vec<usize>,
    /// The same with size 1 where an axis is gone.
    pub kept_as_one: Vec<usize>,
    /// Elements of a lane.
    pub len: usize,
    /// For each lane, in C order, the positions of its elements, in C order.
    pub positions: Vec<Vec<usize>>,
}

/// Cuts a shape along sorted axes.
#[must_use]
pub fn lanes(shape: &[usize], axes: &[usize]) -> Lanes {
    let is_gone = |axis: usize| axes.contains(&axis);
    let of = |gone: bool| shape.iter().enumerate().filter(move |(axis, _)| is_gone(*axis) == gone);
    let kept: Vec<usize> = of(false).map(|(_, &n)| n).collect();
    let kept_as_one = shape.iter().enumerate().map(|(axis, &n)| if is_gone(axis) { 1 } else { n }).collect();
    let len: usize = of(true).map(|(_, &n)| n).product();
    let offsets = |gone: bool| {
        let sizes: Vec<usize> = of(gone).map(|(_, &n)| n).collect();
        let strides: Vec<usize> = of(gone).map(|(axis, _)| shape[axis + 1..].iter().product()).collect();
        coordinates(&sizes).map(|c| dot(&c, &strides)).collect::<Vec<usize>>()
    };
    let inner = offsets(true);
    let positions = offsets(false).iter().map(|outer| inner.iter().map(|i| outer + i).collect()).collect();
    Lanes { kept, kept_as_one, len, positions }
}

fn dot(coordinates: &[usize], strides: &[usize]) -> usize {
    coordinates.iter().zip(strides).map(|(c, s)| c * s).sum()
}

/// All coordinates of a shape in C order.
pub fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    let count: usize = shape.iter().product();
    (0..count).map(move |mut index| {
        let mut coordinate = vec![0; shape.len()];
        for (c, &n) in coordinate.iter_mut().zip(&shape).rev() {
            *c = index % n;
            index /= n;
        }
        coordinate
    })
}

/// The position of a coordinate in a shape that is broadcast to the coordinate's.
#[must_use]
pub fn position(coordinate: &[usize], shape: &[usize]) -> usize {
    let last = &coordinate[coordinate.len() - shape.len()..];
    last.iter().zip(shape).fold(0, |position, (&c, &n)| position * n + if n == 1 { 0 } else { c })
}

/// The shape to which several broadcast, as NumPy does it: from the last axis, ones stretch.
///
/// # Errors
///
/// Two sizes that differ and are not one.
pub fn broadcast(shapes: &[&[usize]]) -> Result<Vec<usize>, Refused> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (r, &n) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*r, n) {
                (_, 1) => {}
                (1, _) => *r = n,
                (a, b) if a == b => {}
                _ => return Refused::because(format!("shapes {shapes:?} do not broadcast")),
            }
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_a_matrix_are_its_rows_and_columns() {
        assert_eq!(lanes(&[2, 3], &[1]).positions, [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(lanes(&[2, 3], &[0]).positions, [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(lanes(&[2, 3], &[0, 1]).positions, [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(lanes(&[2, 3], &[]).positions.len(), 6);
        let middle = lanes(&[2, 3, 2], &[0, 2]);
        assert_eq!(middle.positions, [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]);
        assert_eq!((middle.kept, middle.kept_as_one, middle.len), (vec![3], vec![1, 3, 1], 4));
    }

    #[test]
    fn empty_axes_give_empty_lanes_or_none() {
        assert_eq!(lanes(&[3, 0], &[1]).positions, vec![Vec::<usize>::new(); 3]);
        assert_eq!(lanes(&[0, 3], &[1]).positions, Vec::<Vec<usize>>::new());
        assert_eq!(lanes(&[], &[]).positions, [[0]]);
    }

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!(normalise(&[-1, 0], 3), Ok(vec![0, 2]));
        assert!(normalise(&[3], 3).is_err());
        assert!(normalise(&[-4], 3).is_err());
        assert!(normalise(&[0, -3], 3).is_err());
    }

    #[test]
    fn shapes_broadcast_from_the_end() {
        assert_eq!(broadcast(&[&[2, 1, 4], &[3, 1]]), Ok(vec![2, 3, 4]));
        assert_eq!(broadcast(&[&[], &[3]]), Ok(vec![3]));
        assert_eq!(broadcast(&[&[1], &[0]]), Ok(vec![0]));
        assert!(broadcast(&[&[2], &[3]]).is_err());
        assert_eq!(position(&[1, 2, 3], &[3, 1]), 2);
        assert_eq!(position(&[1, 2, 3], &[]), 0);
    }
}
