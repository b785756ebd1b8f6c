//! Expected results of an operator: a value with an error bound for every element.

use std::fmt;

use super::array::{Array, Value, bits};
use super::dtype::Dtype;

/// Accepted values of one element.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// This value; the sign of a zero and the payload of a NaN do not matter.
    Exactly(Value),
    /// This value, and this sign of zero.
    WithSign(Value),
    /// Any number that is a correct rounding of a number at most `error` away.
    Near {
        /// The exact result, as far as an `f64` has it.
        value: f64,
        /// Error bound before rounding to the type.
        error: f64,
    },
    /// An integer that is a rounding, ties to even, of a number at most `error` away, kept within
    /// the limits.
    Rounded {
        /// The exact result.
        value: f64,
        /// Error bound before rounding.
        error: f64,
        /// The largest magnitude.
        limit: f64,
    },
    /// The order of the operations decides, and no order is promised: a sum that may overflow on
    /// its way.
    Anything,
}

impl Answer {
    /// A float, rounded correctly.
    #[must_use]
    pub fn float(value: f64) -> Self {
        Self::near(value, 0.0)
    }

    /// An integer.
    #[must_use]
    pub fn int(value: i128) -> Self {
        Self::Exactly(Value::Int(value))
    }

    /// A bool.
    #[must_use]
    pub fn bool(value: bool) -> Self {
        Self::Exactly(Value::from(value))
    }

    /// A float with an error; an error that is no number leaves everything open.
    #[must_use]
    pub fn near(value: f64, error: f64) -> Self {
        if value.is_finite() && !error.is_finite() { Self::Anything } else { Self::Near { value, error } }
    }

    /// Returns whether a result of this type is right.
    #[must_use]
    pub fn accepts(self, dtype: Dtype, got: Value) -> bool {
        match (self, got) {
            (Self::Anything, _) => true,
            (Self::Exactly(Value::Int(want)), Value::Int(got))
            | (Self::WithSign(Value::Int(want)), Value::Int(got)) => want == got,
            (Self::Exactly(Value::Float(want)), Value::Float(got)) => want == got || want.is_nan() && got.is_nan(),
            (Self::WithSign(Value::Float(want)), Value::Float(got)) => {
                want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan()
            }
            (Self::Near { value, .. }, Value::Float(got)) if value.is_nan() => got.is_nan(),
            (Self::Near { value, .. }, Value::Float(got)) if value.is_infinite() => {
                dtype.format().round(value) == got || dtype.format().round(value).is_nan() && got.is_nan()
            }
            (Self::Near { value, error }, Value::Float(got)) => {
                let round = |x: f64| dtype.format().round(x);
                round(value - error) <= got && got <= round(value + error)
            }
            (Self::Rounded { value, error, limit }, Value::Int(got)) => {
                let round = |x: f64| x.round_ties_even().clamp(-limit, limit);
                round(value - error) <= got as f64 && got as f64 <= round(value + error)
            }
            (Self::Rounded { value, error, .. }, Value::Float(got)) => {
                let round = |x: f64| dtype.format().round_saturating(x);
                round(value - error) <= got && got <= round(value + error)
            }
            (Self::Exactly(_) | Self::WithSign(_) | Self::Near { .. }, _) => false,
        }
    }

    /// The value that it stands for, of a type.
    fn shown(self, dtype: Dtype) -> Option<Value> {
        match self {
            Self::Exactly(value) | Self::WithSign(value) => Some(value),
            Self::Near { value, .. } => Some(Value::Float(dtype.format().round(value))),
            Self::Rounded { value, .. } if dtype.is_float() => {
                Some(Value::Float(dtype.format().round_saturating(value)))
            }
            Self::Rounded { value, limit, .. } => {
                Some(Value::Int(value.round_ties_even().clamp(-limit, limit) as i128))
            }
            Self::Anything => None,
        }
    }
}

/// Expected content of one output of an operator.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The element type; where the issue leaves it open, any of several.
    pub dtypes: Vec<Dtype>,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Accepted values of each element, in C order.
    pub answers: Vec<Answer>,
}

impl Expected {
    /// An output of one type.
    ///
    /// # Panics
    ///
    /// If the answers do not fill the shape.
    #[must_use]
    pub fn new(dtype: Dtype, shape: &[usize], answers: Vec<Answer>) -> Self {
        assert_eq!(answers.len(), shape.iter().product::<usize>(), "answers for the shape {shape:?}");
        Self { dtypes: vec![dtype], shape: shape.to_vec(), answers }
    }

    /// The same, where f32 may stand for a narrower float.
    #[must_use]
    pub fn or_single(mut self) -> Self {
        if !self.dtypes.contains(&Dtype::F32) && !self.dtypes.contains(&Dtype::F64) {
            self.dtypes.push(Dtype::F32);
        }
        self
    }

    /// Compares a result.
    ///
    /// # Errors
    ///
    /// What differs first, in words, and how many elements differ.
    pub fn check(&self, got: &Array) -> Result<(), String> {
        if !self.dtypes.contains(&got.dtype) {
            let names: Vec<_> = self.dtypes.iter().map(|d| d.name()).collect();
            return Err(format!("type {}, expected {}", got.dtype.name(), names.join(" or ")));
        }
        if self.shape != got.shape {
            return Err(format!("shape {:?}, expected {:?}", got.shape, self.shape));
        }
        let dtype = got.dtype;
        let is_wrong = |&(_, (answer, &value)): &(usize, (&Answer, &Value))| !answer.accepts(dtype, value);
        let mut wrong = self.answers.iter().zip(&got.values).enumerate().filter(is_wrong);
        let Some((index, (answer, &value))) = wrong.next() else { return Ok(()) };
        let others = wrong.count();
        Err(format!(
            "at {index} of {:?} {}: got {}, expected {} ({} more of {} differ)",
            self.shape,
            dtype.name(),
            Shown(dtype, Some(value)),
            Wanted(dtype, *answer),
            others,
            self.answers.len(),
        ))
    }
}

/// A value and its bits.
struct Shown(Dtype, Option<Value>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            None => write!(f, "anything"),
            Some(Value::Int(i)) => write!(f, "{i}"),
            Some(Value::Float(x)) => {
                write!(f, "{x:e} (0x{:0width$x})", bits(self.0, Value::Float(x)), width = 2 * self.0.bytes())
            }
        }
    }
}

/// Formats an answer of a type.
struct Wanted(Dtype, Answer);

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Shown(self.0, self.1.shown(self.0)))?;
        match self.1 {
            Answer::Near { error, .. } | Answer::Rounded { error, .. } => {
                write!(f, " within {error:e} before rounding")
            }
            Answer::Exactly(_) | Answer::WithSign(_) | Answer::Anything => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: Answer, dtype: Dtype, accepted: &[f64], refused: &[f64]) {
        for &x in accepted {
            assert!(answer.accepts(dtype, Value::Float(x)), "{x:e}");
        }
        for &x in refused {
            assert!(!answer.accepts(dtype, Value::Float(x)), "{x:e}");
        }
    }

    #[test]
    fn an_answer_without_error_is_the_correct_rounding() {
        check(Answer::float(0.1), Dtype::F32, &[f64::from(0.1f32)], &[0.1, f64::from(0.1f32.next_up()), f64::NAN]);
        check(Answer::float(70000.0), Dtype::F16, &[f64::INFINITY], &[65504.0]);
        check(Answer::float(f64::NAN), Dtype::F16, &[f64::NAN], &[0.0, f64::INFINITY]);
        check(Answer::float(f64::INFINITY), Dtype::F32, &[f64::INFINITY], &[f64::MAX, f64::NAN]);
        check(Answer::float(0.0), Dtype::F32, &[0.0, -0.0], &[1e-45]);
    }

    #[test]
    fn an_error_widens_the_answer_before_it_is_rounded() {
        let answer = Answer::near(1.0, 1e-4);
        check(answer, Dtype::F32, &[1.0, 1.00009, 0.99991], &[1.00011, 0.9998]);
        check(answer, Dtype::Bf16, &[1.0], &[1.0078125]);
        check(Answer::near(65500.0, 30.0), Dtype::F16, &[65504.0, 65472.0, f64::INFINITY], &[65408.0]);
        check(Answer::near(1.0, f64::INFINITY), Dtype::F32, &[f64::NAN, 7.0], &[]);
    }

    #[test]
    fn signs_of_zero_matter_only_where_asked_for() {
        check(Answer::WithSign(Value::Float(-0.0)), Dtype::F32, &[-0.0], &[0.0]);
        check(Answer::Exactly(Value::Float(-0.0)), Dtype::F32, &[-0.0, 0.0], &[]);
    }

    #[test]
    fn roundings_stop_at_the_limit() {
        let answer = Answer::Rounded { value: 126.5, error: 1e-3, limit: 127.0 };
        assert!(answer.accepts(Dtype::I8, Value::Int(126)) && answer.accepts(Dtype::I8, Value::Int(127)));
        assert!(!answer.accepts(Dtype::I8, Value::Int(125)));
        let answer = Answer::Rounded { value: 127.7, error: 1e-3, limit: 127.0 };
        assert!(answer.accepts(Dtype::I8, Value::Int(127)) && !answer.accepts(Dtype::I8, Value::Int(-128)));
        check(Answer::Rounded { value: 449.0, error: 0.0, limit: 448.0 }, Dtype::F8E4M3, &[448.0], &[416.0, f64::NAN]);
    }

    #[test]
    fn a_mismatch_names_index_values_and_bits() {
        let expected = Expected::new(Dtype::F32, &[2], vec![Answer::float(1.0), Answer::float(2.0)]);
        assert_eq!(expected.check(&Array::floats(Dtype::F32, &[2], &[1.0, 2.0])), Ok(()));
        let message = expected.check(&Array::floats(Dtype::F32, &[2], &[1.0, 3.0])).expect_err("it differs");
        assert!(message.starts_with("at 1 of [2] f32: got 3e0 (0x40400000), expected 2e0 (0x40000000)"), "{message}");
        assert!(expected.check(&Array::floats(Dtype::F16, &[2], &[1.0, 2.0])).is_err());
        assert!(expected.check(&Array::floats(Dtype::F32, &[2, 1], &[1.0, 2.0])).is_err());
    }
}
