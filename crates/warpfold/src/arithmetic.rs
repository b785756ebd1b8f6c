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

    /// The addend that leaves every value unchanged: -0 for floats, as 0 would turn -0 into 0.
    fn nothing(&self) -> Number {
        if self.dtype().is_float() { Number::Float(-0.0) } else { Number::Integer(0) }
    }

    /// `alpha * self + beta`, as candle's `affine`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.affine(2.0, 1.0)?.to_vec::<f32>()?, [7.0, 3.0, 5.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
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
    /// The remainder of truncated division; also `&x % &y`.
    rem Rem;
    /// `self` to the power of `other`.
    pow Pow;
    /// The larger one; NaN if either is.
    maximum Maximum;
    /// The smaller one; NaN if either is.
    minimum Minimum;
    /// Compares for equality, as `bool`.
    eq Eq;
    /// Compares for inequality, as `bool`.
    ne Ne;
    /// Compares `self < other`, as `bool`.
    lt Lt;
    /// Compares `self <= other`, as `bool`.
    le Le;
    /// Compares `self > other`, as `bool`.
    gt Gt;
    /// Compares `self >= other`, as `bool`.
    ge Ge;
    /// Alias of [`Tensor::add`]: every operation broadcasts.
    broadcast_add Add;
    /// Alias of [`Tensor::sub`].
    broadcast_sub Sub;
    /// Alias of [`Tensor::mul`].
    broadcast_mul Mul;
    /// Alias of [`Tensor::div`].
    broadcast_div Div;
    /// `self & other`, of `bool` and of the bits of integers.
    logical_and And;
    /// `self | other`, of `bool` and of the bits of integers.
    logical_or Or;
    /// `self ^ other`, of `bool` and of the bits of integers.
    logical_xor Xor;
    /// Alias of [`Tensor::maximum`].
    broadcast_maximum Maximum;
    /// Alias of [`Tensor::minimum`].
    broadcast_minimum Minimum;
    /// Alias of [`Tensor::pow`].
    broadcast_pow Pow;
    /// Alias of [`Tensor::eq`].
    broadcast_eq Eq;
    /// Alias of [`Tensor::ne`].
    broadcast_ne Ne;
    /// Alias of [`Tensor::lt`].
    broadcast_lt Lt;
    /// Alias of [`Tensor::le`].
    broadcast_le Le;
    /// Alias of [`Tensor::gt`].
    broadcast_gt Gt;
    /// Alias of [`Tensor::ge`].
    broadcast_ge Ge;
    /// Alias of [`Tensor::sub`].
    subtract Sub;
    /// Alias of [`Tensor::mul`].
    multiply Mul;
    /// Alias of [`Tensor::div`].
    divide Div;
    /// Alias of [`Tensor::rem`].
    fmod Rem;
    /// Alias of [`Tensor::ne`].
    not_equal Ne;
    /// Alias of [`Tensor::lt`].
    less Lt;
    /// Alias of [`Tensor::le`].
    less_equal Le;
    /// Alias of [`Tensor::gt`].
    greater Gt;
    /// Alias of [`Tensor::ge`].
    greater_equal Ge;
    /// Alias of [`Tensor::logical_and`].
    bitwise_and And;
    /// Alias of [`Tensor::logical_or`].
    bitwise_or Or;
    /// Alias of [`Tensor::logical_xor`].
    bitwise_xor Xor;
    /// The larger one; the number if the other is NaN.
    fmax Fmax;
    /// The smaller one; the number if the other is NaN.
    fmin Fmin;
    /// `self * 2^other` of integers.
    bitwise_left_shift Shl;
    /// `self / 2^other` of integers, rounded down.
    bitwise_right_shift Shr;
}

impl Tensor {
    /// The quotient, rounded down, as PyTorch's `floor_divide`; of integers, too.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.floor_divide(2.0)?.to_vec::<f32>()?, [1.0, 0.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::div`].
    pub fn floor_divide<'b>(&self, other: impl Into<Operand<'b>>) -> Result<Self, Error> {
        let other = other.into();
        let quotient = self.with(Operation::Div, other.clone())?;
        if self.dtype().is_float() {
            return quotient.floor();
        }
        // A quotient towards zero is one too many where something is left with the other's sign.
        let rest = self.with(Operation::Rem, other.clone())?;
        let divisor = quotient.zeros_like()?.with(Operation::Add, other)?;
        let is_above = (rest.ne(0)? & rest.lt(0)?.ne(&divisor.lt(0)?)?)?;
        quotient.sub(&is_above.to_dtype(quotient.dtype())?)
    }

    /// The remainder of [`Tensor::floor_divide`]: has the sign of the divisor, as Python's `%`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.remainder(3.0)?.to_vec::<f32>()?, [2.0, 0.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::div`].
    pub fn remainder<'b>(&self, other: impl Into<Operand<'b>>) -> Result<Self, Error> {
        let other = other.into();
        let rest = self.with(Operation::Rem, other.clone())?;
        let divisor = rest.zeros_like()?.with(Operation::Add, other)?;
        let is_wrong = (rest.ne(0)? & rest.lt(0)?.ne(&divisor.lt(0)?)?)?;
        is_wrong.where_cond(&rest.add(&divisor)?, &rest)
    }

    /// `ln(e^self + e^other)`, without overflow.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1000_f32], &device)?;
    /// assert_eq!(x.logaddexp(&x)?.to_vec::<f32>()?, [1000.0 + 2_f32.ln()]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn logaddexp(&self, other: &Self) -> Result<Self, Error> {
        let distance = self.sub(other)?.abs()?;
        self.maximum(other)?.add(&distance.neg()?.exp()?.log1p()?)
    }

    /// `self` to the power of a whole number.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.powi(2)?.to_vec::<f32>()?, [9.0, 1.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::pow`].
    pub fn powi(&self, exponent: i32) -> Result<Self, Error> {
        self.pow(exponent)
    }

    /// `self` to the power of a number.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.powf(2.0)?.to_vec::<f32>()?, [9.0, 1.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], [`ErrorKind::OptionOutOfRange`] for integers and a number that
    /// is not whole.
    pub fn powf(&self, exponent: f64) -> Result<Self, Error> {
        self.pow(exponent)
    }

    /// Each element, but at least `low` and at most `high`; NaN stays.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.clamp(1.5, 2.5)?.to_vec::<f32>()?, [2.5, 1.5, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn clamp<'b>(&self, low: impl Into<Operand<'b>>, high: impl Into<Operand<'b>>) -> Result<Self, Error> {
        self.maximum(low)?.minimum(high)
    }

    /// Alias of [`Tensor::clamp`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[-1_f32, 0.5, 2.0], &device)?;
    /// assert_eq!(x.clip(0.0, 1.0)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn clip<'b>(&self, low: impl Into<Operand<'b>>, high: impl Into<Operand<'b>>) -> Result<Self, Error> {
        self.clamp(low, high)
    }

    /// Each element, but at least `low`; NaN stays.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.clamp_min(2.0)?.to_vec::<f32>()?, [3.0, 2.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn clamp_min<'b>(&self, low: impl Into<Operand<'b>>) -> Result<Self, Error> {
        self.maximum(low)
    }

    /// Each element, but at most `high`; NaN stays.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.clamp_max(2.0)?.to_vec::<f32>()?, [2.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn clamp_max<'b>(&self, high: impl Into<Operand<'b>>) -> Result<Self, Error> {
        self.minimum(high)
    }

    /// `self + weight * (end - self)`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.lerp(&v.zeros_like()?, 0.5)?.to_vec::<f32>()?, [1.5, 0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn lerp<'b>(&self, end: &Self, weight: impl Into<Operand<'b>>) -> Result<Self, Error> {
        self + end.sub(self)?.mul(weight)?
    }

    /// `self + value * x * y`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.addcmul(&v, &v, 2.0)?.to_vec::<f32>()?, [21.0, 3.0, 10.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn addcmul(&self, x: &Self, y: &Self, value: f64) -> Result<Self, Error> {
        self + (x * y)? * value
    }

    /// Compares elements with a tolerance, as `bool`: equal, or `|self - other| <= atol + rtol *
    /// |other|`.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1_f32, 2.0], &device)?;
    /// let y = Tensor::new(&[1.0001_f32, 3.0], &device)?;
    /// assert_eq!(x.isclose(&y, 1e-3, 0.0)?.to_dtype(Dtype::U8)?.to_vec::<u8>()?, [1, 0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn isclose(&self, other: &Self, rtol: f64, atol: f64) -> Result<Self, Error> {
        let reach = ((other.abs()? * rtol)? + atol)?;
        self.sub(other)?.abs()?.le(&reach)?.logical_or(&self.eq(other)?)
    }

    /// Returns whether all elements are close: see [`Tensor::isclose`]. Waits for the device.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert!(v.allclose(&v, 1e-5, 1e-8)?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn allclose(&self, other: &Self, rtol: f64, atol: f64) -> Result<bool, Error> {
        self.isclose(other, rtol, atol)?.is_true_everywhere()
    }

    /// Returns whether shapes and all elements are equal. Waits for the device.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert!(v.equal(&v)? && !v.equal(&v.zeros_like()?)?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`], and what the device says.
    pub fn equal(&self, other: &Self) -> Result<bool, Error> {
        Ok(self.shape() == other.shape() && self.eq(other)?.is_true_everywhere()?)
    }

    fn is_true_everywhere(&self) -> Result<bool, Error> {
        Ok(self.all_all()?.to_bytes()? == [1])
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

/// Operators of two tensors, of truths and of the bits of integers: a mask of two conditions.
macro_rules! bits {
    ($($trait:ident $method:ident $operation:ident;)*) => {$(
        bits! { one $trait $method $operation: &Tensor, &Tensor; &Tensor, Tensor; Tensor, &Tensor; Tensor, Tensor;
            &Tensor, Result<Tensor, Error>; Tensor, Result<Tensor, Error>; }
    )*};
    (one $trait:ident $method:ident $operation:ident: $($left:ty, $right:ty;)*) => {$(
        impl std::ops::$trait<$right> for $left {
            type Output = Result<Tensor, Error>;

            fn $method(self, right: $right) -> Self::Output {
                apply(Operation::$operation, &self, &right)
            }
        }
    )*};
}

bits! {
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
}

impl std::ops::Not for &Tensor {
    type Output = Result<Tensor, Error>;

    fn not(self) -> Self::Output {
        self.plain(Operation::Not, &[])
    }
}

impl std::ops::Not for Tensor {
    type Output = Result<Self, Error>;

    fn not(self) -> Self::Output {
        !&self
    }
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
