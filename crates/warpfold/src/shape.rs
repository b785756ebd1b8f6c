//! Shapes as callers write them: tuples, arrays, slices, a number; with a hole where the rest
//! decides.

use warpfold_kernels::{Error, ErrorKind};

/// The sizes of a tensor, outermost first. Made from a number, a tuple, an array, a slice or a
/// `Vec`; `()` is the shape of a single element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape(Vec<usize>);

/// The sizes that a tensor is to have after [`Tensor::reshape`](crate::Tensor::reshape): those of a
/// [`Shape`], of which one may be left to the others: `()` in a tuple, -1 in an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShape {
    sizes: Vec<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Given(usize),
    Rest,
    /// A number below -1.
    Negative(isize),
}

impl Shape {
    /// The sizes.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.0
    }
}

impl NewShape {
    /// The sizes for a tensor of this shape.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the numbers of elements on both sides, and for two holes.
    pub(crate) fn resolve(&self, from: &[usize]) -> Result<Vec<usize>, Error> {
        let refuse = |reason: String| Error::from(ErrorKind::Operand { operator: "reshape", reason });
        let len: usize = if from.contains(&0) { 0 } else { from.iter().product() };
        let mut known = Some(1_usize);
        let mut holes = 0;
        for size in &self.sizes {
            match size {
                Size::Given(size) => known = known.and_then(|known| known.checked_mul(*size)),
                Size::Rest => holes += 1,
                Size::Negative(size) => return Err(refuse(format!("a size of {size}: only -1 stands for the rest"))),
            }
        }
        let known = known.ok_or_else(|| refuse("the new shape has more elements than can be counted".to_owned()))?;
        let rest = match holes {
            0 if known == len => 0,
            0 => {
                let sizes =
                    self.sizes.iter().filter_map(|size| if let Size::Given(n) = size { Some(*n) } else { None });
                let sizes: Vec<usize> = sizes.collect();
                return Err(refuse(format!("shape {from:?} has {len} element(s), {sizes:?} has {known}")));
            }
            1 if known > 0 && len.is_multiple_of(known) => len / known,
            1 => return Err(refuse(format!("{len} element(s) of shape {from:?} are no multiple of {known}"))),
            _ => return Err(refuse(format!("{holes} sizes are left open, one can be"))),
        };
        Ok(self.sizes.iter().map(|size| if let Size::Given(n) = size { *n } else { rest }).collect())
    }
}

impl From<()> for Shape {
    fn from((): ()) -> Self {
        Self(Vec::new())
    }
}

impl From<usize> for Shape {
    fn from(size: usize) -> Self {
        Self(vec![size])
    }
}

impl From<&[usize]> for Shape {
    fn from(sizes: &[usize]) -> Self {
        Self(sizes.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(sizes: Vec<usize>) -> Self {
        Self(sizes)
    }
}

impl From<&Vec<usize>> for Shape {
    fn from(sizes: &Vec<usize>) -> Self {
        Self(sizes.clone())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Self {
        Self(sizes.to_vec())
    }
}

impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(sizes: &[usize; N]) -> Self {
        Self(sizes.to_vec())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

macro_rules! tuples {
    ($(($($name:ident),+);)*) => {$(
        impl From<($(tuples!(@usize $name),)+)> for Shape {
            fn from(($($name,)+): ($(tuples!(@usize $name),)+)) -> Self {
                Self(vec![$($name),+])
            }
        }

        impl From<($(tuples!(@usize $name),)+)> for NewShape {
            fn from(($($name,)+): ($(tuples!(@usize $name),)+)) -> Self {
                Self { sizes: vec![$(Size::Given($name)),+] }
            }
        }
    )*};
    (@usize $name:ident) => { usize };
}

tuples! {
    (a);
    (a, b);
    (a, b, c);
    (a, b, c, d);
    (a, b, c, d, e);
    (a, b, c, d, e, f);
}

/// Tuples with a hole.
macro_rules! holes {
    ($(($($before:ident,)* _ $(,$after:ident)*);)*) => {$(
        impl From<($(tuples!(@usize $before),)* (), $(tuples!(@usize $after),)*)> for NewShape {
            fn from(
                ($($before,)* (), $($after,)*): ($(tuples!(@usize $before),)* (), $(tuples!(@usize $after),)*),
            ) -> Self {
                Self { sizes: vec![$(Size::Given($before),)* Size::Rest, $(Size::Given($after),)*] }
            }
        }
    )*};
}

holes! {
    (_, b);
    (a, _);
    (_, b, c);
    (a, _, c);
    (a, b, _);
    (_, b, c, d);
    (a, _, c, d);
    (a, b, _, d);
    (a, b, c, _);
}

impl From<()> for NewShape {
    fn from((): ()) -> Self {
        Self { sizes: Vec::new() }
    }
}

macro_rules! new_shapes {
    ($($number:ty: $size:expr;)*) => {$(
        impl From<$number> for NewShape {
            fn from(size: $number) -> Self {
                [size].into()
            }
        }

        impl From<&[$number]> for NewShape {
            fn from(sizes: &[$number]) -> Self {
                Self { sizes: sizes.iter().copied().map($size).collect() }
            }
        }

        impl From<Vec<$number>> for NewShape {
            fn from(sizes: Vec<$number>) -> Self {
                sizes[..].into()
            }
        }

        impl From<&Vec<$number>> for NewShape {
            fn from(sizes: &Vec<$number>) -> Self {
                sizes[..].into()
            }
        }

        impl<const N: usize> From<[$number; N]> for NewShape {
            fn from(sizes: [$number; N]) -> Self {
                sizes[..].into()
            }
        }

        impl<const N: usize> From<&[$number; N]> for NewShape {
            fn from(sizes: &[$number; N]) -> Self {
                sizes[..].into()
            }
        }
    )*};
}

new_shapes! {
    usize: Size::Given;
    isize: signed;
    i32: |size| signed(size as isize);
}

impl From<&Shape> for NewShape {
    fn from(shape: &Shape) -> Self {
        shape.sizes().into()
    }
}

fn signed(size: isize) -> Size {
    match size {
        -1 => Size::Rest,
        size => usize::try_from(size).map_or(Size::Negative(size), Size::Given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shape: impl Into<NewShape>, expected: &[usize]) {
        assert_eq!(shape.into().resolve(&[2, 3, 4]).expect("it fits"), expected);
    }

    #[track_caller]
    fn refused(shape: impl Into<NewShape>, sentence: &str) {
        let error = shape.into().resolve(&[2, 3, 4]).expect_err("it does not fit");
        assert_eq!(error.to_string(), format!("reshape: {sentence}"));
    }

    #[test]
    fn one_size_may_be_left_to_the_others() {
        check((6, 4), &[6, 4]);
        check((6, ()), &[6, 4]);
        check(((), 2, 6), &[2, 2, 6]);
        check([-1, 8], &[3, 8]);
        check(-1, &[24]);
        check(24_usize, &[24]);
        check(&[4_usize, 6][..], &[4, 6]);
        assert_eq!(NewShape::from(()).resolve(&[1, 1]).expect("one element"), [0_usize; 0]);
    }

    #[test]
    fn shapes_that_do_not_fit_say_both_numbers() {
        refused((5, 5), "shape [2, 3, 4] has 24 element(s), [5, 5] has 25");
        refused((5, ()), "24 element(s) of shape [2, 3, 4] are no multiple of 5");
        refused([-1, -1], "2 sizes are left open, one can be");
        refused([-2, 12], "a size of -2: only -1 stands for the rest");
        refused([usize::MAX, 2], "the new shape has more elements than can be counted");
    }
}
