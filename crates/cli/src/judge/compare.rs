//! An output beside what is expected of it, element by element.

use serde::Serialize;

use super::reference::{Elements, Expected};
use super::task::Tolerance;
use crate::measure::case::Dtype;

/// The wrong elements of outputs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Difference {
    pub(super) wrong_elements: usize,
    /// The largest error of an element; null where one is no number.
    pub(super) max_error: f64,
    /// The first wrong elements.
    pub(super) first: Vec<WrongElement>,
}

/// An element that is wrong.
#[derive(Debug, Serialize)]
pub(super) struct WrongElement {
    output: String,
    index: Vec<usize>,
    got: f64,
    expected: f64,
}

/// Wrong elements that are told.
const TOLD: usize = 5;

impl Difference {
    /// Adds an output, whose length is the expected one.
    pub(super) fn add(&mut self, name: &str, dtype: Dtype, data: &[u8], expected: &Expected, tolerance: Tolerance) {
        for (at, element) in data.chunks(dtype.bytes()).enumerate() {
            let got = decoded(dtype, element);
            let (error, wanted, is_right) = match &expected.elements {
                Elements::Integers(all) if !dtype.is_float() => {
                    let difference = i128::from(whole(dtype, element)) - i128::from(all[at]);
                    (difference.unsigned_abs() as f64, all[at] as f64, difference == 0)
                }
                Elements::Integers(all) => judged(got, all[at] as f64, tolerance),
                Elements::Floats(all) => judged(got, all[at], tolerance),
            };
            self.max_error = if error.is_nan() { f64::NAN } else { self.max_error.max(error) };
            if !is_right {
                self.wrong_elements += 1;
                if self.first.len() < TOLD {
                    let index = index(at, &expected.shape);
                    self.first.push(WrongElement { output: name.to_owned(), index, got, expected: wanted });
                }
            }
        }
    }
}

/// The error of an element, what it should be, and whether that passes.
fn judged(got: f64, expected: f64, tolerance: Tolerance) -> (f64, f64, bool) {
    if got == expected || got.is_nan() && expected.is_nan() {
        return (0.0, expected, true);
    }
    let error = (got - expected).abs();
    (error, expected, error <= tolerance.absolute + tolerance.relative * expected.abs() && expected.is_finite())
}

fn index(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (index, size) in index.iter_mut().zip(shape).rev() {
        *index = at % size;
        at /= size;
    }
    index
}

/// The bits of an integer, those of a u64 as an i64.
fn whole(dtype: Dtype, bytes: &[u8]) -> i64 {
    let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte)).cast_signed();
    let unused = 64 - 8 * bytes.len();
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 => bits << unused >> unused,
        _ => bits,
    }
}

fn decoded(dtype: Dtype, bytes: &[u8]) -> f64 {
    let bits = whole(dtype, bytes);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bits of a narrower type")]
    match dtype {
        Dtype::F64 => f64::from_bits(bits as u64),
        Dtype::F32 => f32::from_bits(bits as u32).into(),
        Dtype::Bf16 => half::bf16::from_bits(bits as u16).into(),
        Dtype::F16 => half::f16::from_bits(bits as u16).into(),
        _ => bits as f64,
    }
}
