//! Functions of one tensor, element by element, by the names that PyTorch and candle give them.

use warpfold_kernels::operations::Operation;
use warpfold_kernels::{Dtype, Error};

use crate::Tensor;

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $operation:ident;)*) => {
        /// Functions of elements; [`Tensor::elementwise`] has all of them, with options.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`Unsupported`](crate::ErrorKind::Unsupported) for the element type.
            pub fn $method(&self) -> Result<Self, Error> {
                self.plain(Operation::$operation, &[])
            }
        )*}
    };
}

methods! {
    /// `|x|`.
    abs Abs;
    /// `|x|`.
    absolute Abs;
    /// `-x`; also `-&x`.
    neg Neg;
    /// `-x`.
    negative Neg;
    /// `e^x`.
    exp Exp;
    /// `2^x`.
    exp2 Exp2;
    /// `e^x - 1`, also where that is small.
    expm1 Expm1;
    /// The natural logarithm.
    log Log;
    /// The logarithm to base 2.
    log2 Log2;
    /// The logarithm to base 10.
    log10 Log10;
    /// `ln(1 + x)`, also where `x` is small.
    log1p Log1p;
    /// The square root.
    sqrt Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt Rsqrt;
    /// `1 / x`.
    recip Recip;
    /// `1 / x`.
    reciprocal Recip;
    /// `x * x`.
    sqr Square;
    /// `x * x`.
    square Square;
    /// The hyperbolic tangent.
    tanh Tanh;
    /// `1 / (1 + e^-x)`.
    sigmoid Sigmoid;
    /// `x`, or 0 if that is larger; NaN stays.
    relu Relu;
    /// `x / 2 * (1 + erf(x / sqrt(2)))`, as PyTorch's default.
    gelu Gelu;
    /// Alias of [`Tensor::gelu`].
    gelu_erf Gelu;
    /// GELU by the hyperbolic tangent.
    gelu_tanh GeluTanh;
    /// `x * sigmoid(x)`.
    silu Silu;
    /// `x * sigmoid(x)`.
    swish Silu;
    /// The error function.
    erf Erf;
    /// The sine.
    sin Sin;
    /// The cosine.
    cos Cos;
    /// The tangent.
    tan Tan;
    /// The next integer not above.
    floor Floor;
    /// The next integer not below.
    ceil Ceil;
    /// The nearest integer, ties to even.
    round Round;
    /// The next integer towards zero.
    trunc Trunc;
    /// -1, 0 or 1.
    sign Sign;
    /// Every bit of integers the other way.
    bitwise_not Not;
    /// Tests if `x` is NaN, as `bool`.
    isnan IsNan;
    /// Tests if `x` is infinite, as `bool`.
    isinf IsInf;
    /// Tests if `x` is neither infinite nor NaN, as `bool`.
    isfinite IsFinite;
}

impl Tensor {
    /// Tests if `x` is 0, as `bool`; complements the bits of integers.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[0_f32, 2.0], &device)?;
    /// assert_eq!(x.logical_not()?.to_dtype(Dtype::U8)?.to_vec::<u8>()?, [1, 0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn logical_not(&self) -> Result<Self, Error> {
        if self.dtype().is_float() { self.eq(0) } else { self.plain(Operation::Not, &[]) }
    }

    /// `x`, or `alpha * (e^x - 1)` below 0.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[-100_f32, 2.0], &device)?;
    /// assert_eq!(x.elu(0.5)?.to_vec::<f32>()?, [-0.5, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for the element type.
    pub fn elu(&self, alpha: f64) -> Result<Self, Error> {
        let below = (self.minimum(0)?.expm1()? * alpha)?;
        self.gt(0)?.where_cond(self, &below)
    }

    /// `x`, or `slope * x` below 0.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[-2_f32, 3.0], &device)?;
    /// assert_eq!(x.leaky_relu(0.5)?.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for the element type.
    pub fn leaky_relu(&self, slope: f64) -> Result<Self, Error> {
        self.gt(0)?.where_cond(self, &(self * slope)?)
    }

    /// The elements in another type, as Rust's `as` converts them; the tensor itself if it has that
    /// type.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1.7_f32, -1.7], &device)?;
    /// assert_eq!(x.to_dtype(Dtype::I32)?.to_vec::<i32>()?, [1, -1]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn to_dtype(&self, dtype: Dtype) -> Result<Self, Error> {
        if self.dtype() == dtype { Ok(self.clone()) } else { self.cast(dtype) }
    }

    /// The elements in the type of another tensor's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1_i32, 2], &device)?;
    /// let y = Tensor::new(&[0.5_f32], &device)?;
    /// assert_eq!(x.type_as(&y)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn type_as(&self, other: &Self) -> Result<Self, Error> {
        self.to_dtype(other.dtype())
    }
}

macro_rules! types {
    ($($method:ident $dtype:ident $name:literal;)*) => {
        /// Casts by PyTorch's names; [`Tensor::to_dtype`] has every type.
        impl Tensor {$(
            #[doc = concat!("The elements as `", $name, "`.")]
            ///
            /// # Errors
            /// What the device says.
            pub fn $method(&self) -> Result<Self, Error> {
                self.to_dtype(Dtype::$dtype)
            }
        )*}
    };
}

types! {
    float F32 "f32";
    double F64 "f64";
    half F16 "f16";
    bfloat16 Bf16 "bf16";
    int I32 "i32";
    long I64 "i64";
    short I16 "i16";
    byte U8 "u8";
    bool Bool "bool";
}
