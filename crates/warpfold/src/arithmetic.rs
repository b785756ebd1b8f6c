//! Arithmetic between tensors, and between tensors and numbers: operators and methods.
//!
//! An operator gives a `Result`, since shapes and types may not fit; a result goes into the next
//! operator as it is, so that an expression takes one `?`.
//!
//! NOTE: operators take numbers of two types, `f64` and `i64`: with two floats or two integers the
//! compiler could not tell the type of `(&x * 2.0)?` when a method is called on it. Methods such as
//! [`Tensor::mul`] take any.

use warpfold_kernels::operations::{Number, Operation, Options};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;

/// The other side of an operation: a tensor, broadcast, or a number, which takes the tensor's type.
#[derive(Debug, Clone)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Number(Number),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Operand<'_> {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}

numbers!(f32, f64, i32, i64, u8, u32, bool);

impl Tensor {
    pub(crate) fn plain(&self, operation: Operation, others: &[&Self]) -> Result<Self, Error> {
        self.elementwise(operation, others, &Options::default())
    }

    /// `alpha * self + beta` for numbers, rounded after each step.
    pub(crate) fn scaled(&self, alpha: Number, beta: Number) -> Result<Self, Error> {
        self.elementwise(Operation::Scale, &[], &Options { alpha, beta, ..Options::default() })
    }

    /// A number as a tensor of no axes and this tensor's type.
    ///
    /// # Errors
    /// [`ErrorKind::OptionOutOfRange`] for a number that is not whole where elements are integers.
    pub(crate) fn number(&self, operation: Operation, number: Number) -> Result<Self, Error> {
        if let (false, Number::Float(x)) = (self.dtype().is_float(), number)
            && x.fract() != 0.0
        {
            let expected = format!("that is a whole number for elements of type {}, not {x}", self.dtype());
            return Err(ErrorKind::OptionOutOfRange { op: operation.to_string(), option: "other", expected }.into());
        }
        Self::filled(self.queue(), self.dtype(), number, &[])
    }

    fn with(&self, operation: Operation, other: Operand<'_>) -> Result<Self, Error> {
        let number = match other {
            Operand::Tensor(tensor) => return self.plain(operation, &[tensor]),
            Operand::Number(number) => number,
        };
        let can_scale = self.dtype() != Dtype::Bool;
        match operation {
            Operation::Add if can_scale => self.scaled(1.into(), number),
            Operation::Sub if can_scale => self.scaled(1.into(), -number),
            Operation::Mul if can_scale => self.scaled(number, self.nothing()),
            _ => self.plain(operation, &[&self.number(operation, number)?]),
        }
    }

    /// What is added to something that stays as it is: -0 to floats, as 0 would make -0 to 0.
    fn nothing(&self) -> Number {
        if self.dtype().is_float() { Number::Float(-0.0) } else { Number::Integer(0) }
    }

    /// `alpha * self + beta`, as candle's `affine`.
    ///
    /// # Errors
    /// Those of [`Tensor::elementwise`].
    pub fn affine(&self, alpha: impl Into<Number>, beta: impl Into<Number>) -> Result<Self, Error> {
        self.scaled(alpha.into(), beta.into())
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $operation:ident;)*) => {
        /// Operations of two sides, broadcast to their common shape; both have one type, and a
        /// number takes the tensor's. What integers and NaN give is said at [`Operation`].
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`ErrorKind::ShapeMismatch`], [`ErrorKind::DtypeMismatch`],
            /// [`ErrorKind::Unsupported`]; [`ErrorKind::OptionOutOfRange`] for integers and a
            /// number that is not whole.
            pub fn $method<'b>(&self, other: impl Into<Operand<'b>>) -> Result<Self, Error> {
                self.with(Operation::$operation, other.into())
            }
        )*}
    };
}

methods! {
    /// `self + other`; also `&x + &y`.
    add Add;
    /// `self - other`; also `&x - &y`.
    sub Sub;
    /// `self * other`, element by element; also `&x * &y`.
    mul Mul;
    /// `self / other`; also `&x / &y`.
    div Div;
    /// What the division towards zero leaves; also `&x % &y`.
    rem Rem;
    /// `self` to the power of `other`.
    pow Pow;
    /// The larger one; NaN if either is.
    maximum Maximum;
    /// The smaller one; NaN if either is.
    minimum Minimum;
    /// Whether they are equal, as `bool`.
    eq Eq;
    /// Whether they differ, as `bool`.
    ne Ne;
    /// Whether `self` is less, as `bool`.
    lt Lt;
    /// Whether `self` is less or equal, as `bool`.
    le Le;
    /// Whether `self` is greater, as `bool`.
    gt Gt;
    /// Whether `self` is greater or equal, as `bool`.
    ge Ge;
    /// As [`Tensor::add`]: every operation broadcasts.
    broadcast_add Add;
    /// As [`Tensor::sub`].
    broadcast_sub Sub;
    /// As [`Tensor::mul`].
    broadcast_mul Mul;
    /// As [`Tensor::div`].
    broadcast_div Div;
    /// `self & other`, of `bool` and of the bits of integers.
    logical_and And;
    /// `self | other`, of `bool` and of the bits of integers.
    logical_or Or;
    /// `self ^ other`, of `bool` and of the bits of integers.
    logical_xor Xor;
}

impl Tensor {
    /// `self` to the power of a number.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], [`ErrorKind::OptionOutOfRange`] for integers and a number that
    /// is not whole.
    pub fn powf(&self, exponent: f64) -> Result<Self, Error> {
        self.pow(exponent)
    }

    /// Each element, but at least `low` and at most `high`; NaN stays.
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn clamp<'b>(&self, low: impl Into<Operand<'b>>, high: impl Into<Operand<'b>>) -> Result<Self, Error> {
        self.maximum(low)?.minimum(high)
    }
}

/// A side of an operator: a tensor, one that may have failed, or a reference to one.
trait Side {
    fn tensor(&self) -> Result<&Tensor, Error>;
}

impl Side for Tensor {
    fn tensor(&self) -> Result<&Tensor, Error> {
        Ok(self)
    }
}

impl Side for &Tensor {
    fn tensor(&self) -> Result<&Tensor, Error> {
        Ok(self)
    }
}

impl Side for Result<Tensor, Error> {
    fn tensor(&self) -> Result<&Tensor, Error> {
        self.as_ref().map_err(Clone::clone)
    }
}

fn apply(operation: Operation, left: &impl Side, right: &impl Side) -> Result<Tensor, Error> {
    left.tensor()?.plain(operation, &[right.tensor()?])
}

macro_rules! operator {
    ($trait:ident $method:ident: $($left:ty, $right:ty;)*) => {$(
        impl std::ops::$trait<$right> for $left {
            type Output = Result<Tensor, Error>;

            fn $method(self, right: $right) -> Self::Output {
                apply(Operation::$trait, &self, &right)
            }
        }
    )*};
}

macro_rules! with_number {
    ($trait:ident $method:ident: $($number:ty),*) => {$(
        impl std::ops::$trait<$number> for &Tensor {
            type Output = Result<Tensor, Error>;

            fn $method(self, right: $number) -> Self::Output {
                self.with(Operation::$trait, right.into())
            }
        }

        impl std::ops::$trait<$number> for Tensor {
            type Output = Result<Tensor, Error>;

            fn $method(self, right: $number) -> Self::Output {
                self.with(Operation::$trait, right.into())
            }
        }

        impl std::ops::$trait<&Tensor> for $number {
            type Output = Result<Tensor, Error>;

            fn $method(self, right: &Tensor) -> Self::Output {
                right.number(Operation::$trait, self.into())?.plain(Operation::$trait, &[right])
            }
        }

        impl std::ops::$trait<Tensor> for $number {
            type Output = Result<Tensor, Error>;

            fn $method(self, right: Tensor) -> Self::Output {
                std::ops::$trait::$method(self, &right)
            }
        }
    )*};
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {$(
        operator! {
            $trait $method:
            &Tensor, &Tensor;
            &Tensor, Tensor;
            Tensor, &Tensor;
            Tensor, Tensor;
            &Tensor, Result<Tensor, Error>;
            Tensor, Result<Tensor, Error>;
            Result<Tensor, Error>, &Tensor;
            Result<Tensor, Error>, Tensor;
        }
        with_number!($trait $method: f64, i64);
    )*};
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
    Rem rem;
}

impl std::ops::Neg for &Tensor {
    type Output = Result<Tensor, Error>;

    fn neg(self) -> Self::Output {
        self.plain(Operation::Neg, &[])
    }
}

impl std::ops::Neg for Tensor {
    type Output = Result<Self, Error>;

    fn neg(self) -> Self::Output {
        -&self
    }
}
