//! Results that were timed, against a reference on the host in double precision, on samples.
//!
//! Inputs are patterns that the host knows ([`Elements`]), so a reference needs nothing of the
//! device but the sampled results. Samples are spread from the first to the last: rows, columns and
//! tiles at both ends and between. A fast operator whose results are wrong has no figure.

use warpfold_device::Buffer;
use warpfold_kernels::{Dtype, Error};

use super::data::decode;
use warpfold::Queue;

/// Result of the comparison with the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// All samples are right: what they are.
    Right(String),
    /// Description of a wrong result.
    Wrong(String),
}

/// A result that is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) output: usize,
    pub(super) dtype: Dtype,
    /// The position in the output.
    pub(super) at: u64,
    /// Value of the reference.
    pub(super) value: f64,
    /// Largest accepted error.
    pub(super) off: f64,
}

impl Sample {
    /// A result of the first output. Beside `error` it may be off by the type's own rounding.
    pub(super) fn new(dtype: Dtype, at: u64, value: f64, error: f64) -> Self {
        let value = if dtype.is_float() { value } else { wrapped(dtype, value) };
        Self { output: 0, dtype, at, value, off: error + rounding(dtype) * value.abs() }
    }

    fn judge(&self, bytes: &[u8]) -> Option<String> {
        let (result, Self { output, at, value, off, .. }) = (decode(self.dtype, bytes), *self);
        // Not `>`, which would pass over what is no number.
        let is_near = (result - value).abs() <= off;
        (!is_near).then(|| format!("output {output}, element {at}: {result}, not {value} within {off:.3e}"))
    }
}

/// Compares samples of the results of each run of a case.
pub(super) fn compare<'a>(
    queue: &Queue,
    runs: impl IntoIterator<Item = Vec<&'a Buffer<u8>>>,
    samples: &[Sample],
) -> Result<Checked, Error> {
    let mut num_runs = 0;
    for outputs in runs {
        num_runs += 1;
        for sample in samples {
            let size = sample.dtype.bytes() as usize;
            let mut bytes = vec![0; size];
            let first = sample.at as usize * size;
            queue.stream().copy_to_host(outputs[sample.output].view(first..first + size)?, &mut bytes)?;
            if let Some(wrong) = sample.judge(&bytes) {
                return Ok(Checked::Wrong(wrong));
            }
        }
    }
    let [num, first, last] = [samples.len(), 0, samples.len().saturating_sub(1)];
    let at = |i: usize| samples.get(i).map_or(0, |sample| sample.at);
    Ok(Checked::Right(format!("{num} results of {num_runs} runs, from element {} to {}", at(first), at(last))))
}

/// So many positions of `num`, from the first to the last.
pub(super) fn spread(num: u64, wanted: u64) -> impl Iterator<Item = u64> + Clone {
    let taken = wanted.min(num);
    (0..taken)
        .map(move |i| if taken == 1 { 0 } else { (u128::from(i) * u128::from(num - 1) / u128::from(taken - 1)) as u64 })
}

/// A number of terms that are added in `f32` (doubles in `f64`, integers exactly), by the sum of
/// their magnitudes: sixteen roundings of it.
pub(super) fn of_sum(dtype: Dtype, magnitudes: f64) -> f64 {
    match dtype {
        Dtype::F64 => magnitudes * 2_f64.powi(-48),
        dtype if dtype.is_float() => magnitudes * 2_f64.powi(-20),
        _ => 0.0,
    }
}

/// Returns the rounding error of a result of the type.
fn rounding(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 2_f64.powi(-48),
        Dtype::F32 => 2_f64.powi(-19),
        Dtype::F16 => 2_f64.powi(-10),
        Dtype::Bf16 => 2_f64.powi(-7),
        dtype if dtype.is_float() => 2_f64.powi(-2),
        _ => 0.0,
    }
}

fn wrapped(dtype: Dtype, value: f64) -> f64 {
    let value = value as i128;
    match dtype {
        Dtype::I8 => f64::from(value as i8),
        Dtype::U8 => f64::from(value as u8),
        Dtype::I16 => f64::from(value as i16),
        Dtype::I32 => f64::from(value as i32),
        Dtype::U32 => f64::from(value as u32),
        _ => value as f64,
    }
}

#[cfg(test)]
mod tests {
    use warpfold_device::{Device, Profile};

    use super::*;

    #[test]
    fn a_result_that_is_off_or_no_number_is_named() {
        let queue = Queue::new(Device::virtual_gpu(Profile::H200).default_stream());
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let samples = [0, 2].map(|at| Sample::new(Dtype::F32, at, 1.0, 1e-3));
        for (last, is_right) in [(1.0, true), (1.0005, true), (1.01, false), (f32::NAN, false), (0.0, false)] {
            let results = queue.device().upload(&bytes(&[1.0, 7.0, last])).unwrap();
            let checked = compare(&queue, [vec![&results], vec![&results]], &samples).unwrap();
            match checked {
                Checked::Right(what) => assert_eq!(what, "2 results of 2 runs, from element 0 to 2"),
                Checked::Wrong(what) => {
                    assert!(!is_right && what.starts_with("output 0, element 2: "), "{last}: {what}")
                }
            }
        }
    }

    #[test]
    fn samples_reach_from_the_first_to_the_last() {
        let of = |num, wanted| spread(num, wanted).collect::<Vec<_>>();
        assert_eq!(of(0, 3), []);
        assert_eq!(of(1, 3), [0]);
        assert_eq!(of(2, 3), [0, 1]);
        assert_eq!(of(1 << 40, 3), [0, ((1 << 40) - 1) / 2, (1 << 40) - 1]);
    }
}
