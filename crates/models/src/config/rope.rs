//! Angles of rotary position embedding.

use std::path::Path;

use crate::Error;
use crate::error;

/// Rotary embedding: the map from positions to angles.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// The base: pair `i` of `n` turns by `theta^(-i / n)` a position.
    pub theta: f64,
    /// Scaling of the angles for contexts beyond the original training length.
    pub scaling: RopeScaling,
}

/// Scaling of the angles.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All by the same factor.
    Linear {
        /// Divisor of the angles.
        factor: f64,
    },
    /// Slow ones divided by a factor, fast ones kept, those between blended: Llama 3.1.
    Llama3 {
        /// Divisor of the low-frequency angles.
        factor: f64,
        /// Turns within the first length below which an angle is slow.
        low_freq_factor: f64,
        /// Turns above which it is fast.
        high_freq_factor: f64,
        /// Positions of the first training.
        original_max_len: f64,
    },
    /// Each by a divisor of its own, from the file.
    Factors(Vec<f32>),
    /// No position turns anything.
    Zero,
}

impl Rope {
    /// Unscaled angles.
    #[must_use]
    pub const fn plain(theta: f64) -> Self {
        Self { theta, scaling: RopeScaling::None }
    }

    pub(super) fn validate(&self, path: &Path) -> Result<(), Error> {
        let positive = |name, value: f64| {
            let is_fine = value > 0.0 && value.is_finite();
            is_fine.then_some(()).ok_or_else(|| error::field(path, name, format!("{value} is not positive")))
        };
        positive("rope_theta", self.theta)?;
        match &self.scaling {
            RopeScaling::None | RopeScaling::Factors(_) | RopeScaling::Zero => Ok(()),
            RopeScaling::Linear { factor } => positive("rope_scaling.factor", *factor),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_len } => {
                positive("rope_scaling.factor", *factor)?;
                positive("rope_scaling.low_freq_factor", *low_freq_factor)?;
                positive("rope_scaling.high_freq_factor", *high_freq_factor - *low_freq_factor)?;
                positive("rope_scaling.original_max_position_embeddings", *original_max_len)
            }
        }
    }

    /// Returns the angle per position of each pair of a head. As transformers computes it: in `f32`
    /// but for the powers.
    #[must_use]
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let plain = (0..head_dim / 2).map(|i| self.theta.powf(-((2 * i) as f64) / head_dim as f64) as f32);
        match &self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Zero => plain.map(|_| 0.0).collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / *factor as f32).collect(),
            RopeScaling::Factors(factors) => plain.zip(factors).map(|(f, by)| f / by).collect(),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_len } => {
                let scaled = |f: f32| {
                    let turns = original_max_len * f64::from(f) / std::f64::consts::TAU;
                    let smooth = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    let smooth = smooth.clamp(0.0, 1.0);
                    (f64::from(f) * ((1.0 - smooth) / factor + smooth)) as f32
                };
                plain.map(scaled).collect()
            }
        }
    }

    /// Cosines and sines of the first positions, a row a position.
    #[must_use]
    pub fn tables(&self, head_dim: usize, num_positions: usize) -> [Vec<f32>; 2] {
        let frequencies = self.frequencies(head_dim);
        let angles = || (0..num_positions).flat_map(|p| frequencies.iter().map(move |f| p as f32 * f));
        [angles().map(f32::cos).collect(), angles().map(f32::sin).collect()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_keeps_fast_angles_and_divides_slow_ones() {
        let scaling =
            RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_len: 64.0 };
        let plain = Rope::plain(500_000.0).frequencies(32);
        let scaled = Rope { theta: 500_000.0, scaling }.frequencies(32);
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[15], plain[15] / 8.0);
        let between = (1..15).filter(|i| scaled[*i] < plain[*i] && scaled[*i] > plain[*i] / 8.0).count();
        assert!(between > 0);
    }

    #[test]
    fn tables_have_a_row_for_each_position() {
        let [cos, sin] = Rope::plain(10_000.0).tables(4, 3);
        assert_eq!((cos.len(), sin.len()), (6, 6));
        assert_eq!((cos[0], sin[0]), (1.0, 0.0));
        assert!((sin[2] - 1_f32.sin()).abs() < 1e-7 && (cos[5] - 0.02_f32.cos()).abs() < 1e-7);
    }
}
