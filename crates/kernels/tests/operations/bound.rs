//! What a result may be.

use warpfold_kernels::Dtype;

use crate::operations::value::{Value, computed, round};

/// What a result has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// This, to the sign of a zero.
    Exactly(Value),
    /// This float, computed with so many units in the last place of the type that is computed in,
    /// then rounded to the element's type. The sign of a zero is left open.
    Near(f64, f64),
}

impl Expected {
    #[track_caller]
    pub(crate) fn check(self, dtype: Dtype, got: Value, what: &dyn Fn() -> String) {
        let is_right = match self {
            Self::Exactly(value) => got.is(value),
            Self::Near(value, units) => is_near(dtype, got.float(), value, units),
        };
        assert!(is_right, "{}: {got:?}, expected {self:?}", what());
    }
}

/// The distance between numbers of the type around `x`.
fn unit(dtype: Dtype, x: f64) -> f64 {
    let (digits, least) = if dtype == Dtype::F64 { (52, -1022) } else { (23, -126) };
    let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
    2.0_f64.powi(exponent.max(least) - digits)
}

fn is_near(dtype: Dtype, got: f64, value: f64, units: f64) -> bool {
    if value.is_nan() || got.is_nan() {
        return value.is_nan() && got.is_nan();
    }
    let error = if value.is_finite() { units * unit(computed(dtype), value) } else { 0.0 };
    (round(dtype, value - error)..=round(dtype, value + error)).contains(&got)
}
