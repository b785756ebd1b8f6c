//! Mathematical functions to some 100 bits, by the shortest road: series and Newton's steps in IEEE
//! 754 binary128.

use std::ops::{Add, Div, Mul, Neg, Sub};

use rustc_apfloat::ieee::{Double, Quad};
use rustc_apfloat::{Float, FloatConvert};

/// A number of 113 bits.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Q(Quad);

macro_rules! operators {
    ($($operator:ident $method:ident),*) => {$(
        impl $operator for Q {
            type Output = Self;
            fn $method(self, right: Self) -> Self {
                Self(self.0.$method(right.0).value)
            }
        }
        impl $operator<f64> for Q {
            type Output = Self;
            fn $method(self, right: f64) -> Self {
                self.$method(Self::from(right))
            }
        }
    )*};
}

operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Q {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl From<f64> for Q {
    fn from(value: f64) -> Self {
        Self(Double::from_bits(value.to_bits().into()).convert(&mut false).value)
    }
}

fn constant(digits: &str) -> Q {
    Q(digits.parse().expect("a decimal number"))
}

fn pi() -> Q {
    constant("3.14159265358979323846264338327950288419716939937511")
}

fn ln_2() -> Q {
    constant("0.693147180559945309417232121458176568075500134360255")
}

impl Q {
    /// The nearest `f64`.
    pub(crate) fn to_f64(self) -> f64 {
        let double: Double = self.0.convert(&mut false).value;
        f64::from_bits(double.to_bits() as u64)
    }

    fn scaled(self, exponent: i32) -> Self {
        Self(self.0.scalbn(exponent))
    }

    fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    pub(crate) fn sqrt(self) -> Self {
        let mut root = Self::from(self.to_f64().sqrt());
        if root.to_f64() == 0.0 || !self.is_finite() {
            return root;
        }
        for _ in 0..2 {
            root = (root + self / root) * 0.5;
        }
        root
    }

    pub(crate) fn exp(self) -> Self {
        if !self.is_finite() || self.to_f64().abs() > 11_000.0 {
            return Self::from(self.to_f64().exp());
        }
        let exponent = (self.to_f64() / std::f64::consts::LN_2).round();
        let rest = self - ln_2() * exponent;
        (rest.expm1_series() + 1.0).scaled(exponent as i32)
    }

    pub(crate) fn exp2(self) -> Self {
        if !self.is_finite() || self.to_f64().abs() > 16_000.0 {
            return Self::from(self.to_f64().exp2());
        }
        let exponent = self.to_f64().round();
        (((self - exponent) * ln_2()).expm1_series() + 1.0).scaled(exponent as i32)
    }

    pub(crate) fn expm1(self) -> Self {
        if self.to_f64().abs() < 0.5 { self.expm1_series() } else { self.exp() - 1.0 }
    }

    /// For magnitudes up to 1/2.
    fn expm1_series(self) -> Self {
        (1..=30).rev().fold(Self::from(0.0), |sum, n| (sum + 1.0) * self / f64::from(n))
    }

    pub(crate) fn ln(self) -> Self {
        if self.to_f64() == 0.0 || self.to_f64() < 0.0 || !self.is_finite() {
            return Self::from(self.to_f64().ln());
        }
        // Halley's step triples the digits.
        let near = Self::from(self.to_f64().ln());
        let exponential = near.exp();
        near + (self - exponential) * 2.0 / (self + exponential)
    }

    pub(crate) fn log1p(self) -> Self {
        if self.to_f64().abs() > 0.1 || self.to_f64() == 0.0 {
            return if self.to_f64() == 0.0 { self } else { (self + 1.0).ln() };
        }
        let near = Self::from(self.to_f64().ln_1p());
        let exponential = near.expm1();
        near + (self - exponential) * 2.0 / (self + exponential + 2.0)
    }

    pub(crate) fn log2(self) -> Self {
        self.ln() / ln_2()
    }

    pub(crate) fn log10(self) -> Self {
        self.ln() / Self::from(10.0).ln()
    }

    pub(crate) fn tanh(self) -> Self {
        if self.to_f64().abs() > 50.0 {
            return Self::from(1.0_f64.copysign(self.to_f64()));
        }
        let minus_one = (self * 2.0).expm1();
        minus_one / (minus_one + 2.0)
    }

    pub(crate) fn sinh(self) -> Self {
        if self.to_f64() < 0.0 {
            return -(-self).sinh();
        }
        let minus_one = self.expm1();
        if !minus_one.is_finite() {
            return minus_one;
        }
        (minus_one + minus_one / (minus_one + 1.0)) * 0.5
    }

    pub(crate) fn cosh(self) -> Self {
        if !self.is_finite() {
            return self * self;
        }
        (self.exp() + (-self).exp()) * 0.5
    }

    pub(crate) fn sigmoid(self) -> Self {
        Self::from(1.0) / ((-self).exp() + 1.0)
    }

    /// The alternating series; it loses 60 bits at 6.
    pub(crate) fn erf(self) -> Self {
        if self.to_f64().is_nan() {
            return self;
        }
        if self.to_f64().abs() > 6.5 {
            return Self::from(1.0_f64.copysign(self.to_f64()));
        }
        let square = self * self;
        let mut term = self;
        let mut sum = self;
        for n in 1..200 {
            term = -term * square / f64::from(n);
            sum = sum + term / f64::from(2 * n + 1);
        }
        sum * 2.0 / pi().sqrt()
    }

    /// Sine and cosine of angles up to some 2^50.
    pub(crate) fn sin_cos(self) -> (Self, Self) {
        let quadrant = (self.to_f64() / std::f64::consts::FRAC_PI_2).round();
        let rest = self - pi() * 0.5 * quadrant;
        let square = rest * rest;
        let series = |first: i32| {
            (0..16).rev().fold(Self::from(0.0), |sum, n| {
                let next = first + 2 * n;
                Self::from(1.0) - sum * square / f64::from((next + 1) * (next + 2))
            })
        };
        let (sine, cosine) = (rest * series(1), series(0));
        match (quadrant as i64).rem_euclid(4) {
            0 => (sine, cosine),
            1 => (cosine, -sine),
            2 => (-sine, -cosine),
            _ => (-cosine, sine),
        }
    }

    pub(crate) fn tan(self) -> Self {
        let (sine, cosine) = self.sin_cos();
        sine / cosine
    }

    pub(crate) fn atan(self) -> Self {
        let near = Self::from(self.to_f64().atan());
        if !self.is_finite() {
            return if self.to_f64().is_nan() { self } else { pi() * 0.5_f64.copysign(self.to_f64()) };
        }
        let (sine, cosine) = near.sin_cos();
        // The tangent of what is missing.
        let tangent = (self * cosine - sine) / (cosine + self * sine);
        near + tangent - tangent * tangent * tangent / 3.0
    }

    pub(crate) fn asin(self) -> Self {
        if self.to_f64().abs() == 1.0 {
            return pi() * 0.5_f64.copysign(self.to_f64());
        }
        (self / ((Self::from(1.0) - self) * (self + 1.0)).sqrt()).atan()
    }

    pub(crate) fn acos(self) -> Self {
        if self.to_f64() == -1.0 {
            return pi();
        }
        // Half the angle has this tangent.
        ((Self::from(1.0) - self) / (self + 1.0)).sqrt().atan() * 2.0
    }

    pub(crate) fn cbrt(self) -> Self {
        let near = Self::from(self.to_f64().cbrt());
        if near.to_f64() == 0.0 || !near.is_finite() {
            return near;
        }
        near - (near * near * near - self) / (near * near * 3.0)
    }

    pub(crate) fn pow(self, exponent: Self) -> Self {
        (self.ln() * exponent).exp()
    }
}
