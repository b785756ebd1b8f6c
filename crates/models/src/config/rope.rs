//! Angles of rotary position embedding.

use std::path::Path;

use super::fields::Fields;
use crate::Error;
use crate::error;

/// Rotary embedding: the map from positions to angles.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// The base: pair `i` of `n` turns by `theta^(-i / n)` a position.
    pub theta: f64,
    /// Scaling of the angles for contexts beyond the original training length.
    pub scaling: RopeScaling,
    /// Factor of cosines and sines, so that scores of scaled angles keep their size.
    pub magnitude: f64,
    /// Share of a head's elements that turn, its first ones.
    pub partial: f64,
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
    /// Fast ones kept, slow ones divided by a factor, those between blended by their index: YaRN.
    Yarn {
        /// Divisor of the slow angles.
        factor: f64,
        /// Turns within the first length from which an angle is kept.
        beta_fast: f64,
        /// Turns below which it is divided.
        beta_slow: f64,
        /// Positions of the first training.
        original_max_len: f64,
        /// The blend begins and ends at whole indices.
        is_truncated: bool,
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
        Self { theta, scaling: RopeScaling::None, magnitude: 1.0, partial: 1.0 }
    }

    /// The factor of cosines and sines that YaRN has for a factor of lengths.
    pub(super) fn yarn_magnitude(factor: f64) -> f64 {
        if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 }
    }

    /// Elements of a head of so many that turn.
    #[must_use]
    pub fn rotated(&self, head_dim: usize) -> usize {
        (head_dim as f64 * self.partial) as usize
    }

    /// Reads the rotation of layers that see all positions, in either dialect of `config.json`.
    /// What a file leaves out is that of `default`.
    pub(super) fn read(fields: &Fields, default: &Self, max_len: usize) -> Result<Self, Error> {
        let theta = fields.number("rope_theta")?.unwrap_or(default.theta);
        let partial = fields.number("partial_rotary_factor")?.unwrap_or(default.partial);
        let default = Self { partial, ..Self::plain(theta) };
        // Phi-3 has it beside the others.
        let outer = fields.number("original_max_position_embeddings")?;
        let max_len = max_len as f64;
        if let Some(parameters) = fields.object("rope_parameters")? {
            let of_full = parameters.object("full_attention")?;
            return Self::of(Some(of_full.as_ref().unwrap_or(&parameters)), &default, outer, max_len);
        }
        Self::of(fields.object("rope_scaling")?.as_ref(), &default, outer, max_len)
    }

    /// Reads the rotation of layers with a window, if it is another one.
    pub(super) fn read_local(fields: &Fields, max_len: usize) -> Result<Option<Self>, Error> {
        if let Some(parameters) = fields.object("rope_parameters")?
            && let Some(local) = parameters.object("sliding_attention")?
        {
            return Self::of(Some(&local), &Self::plain(1e4), None, max_len as f64).map(Some);
        }
        Ok(fields.number("rope_local_base_freq")?.map(Self::plain))
    }

    fn of(fields: Option<&Fields>, default: &Self, outer: Option<f64>, max_len: f64) -> Result<Self, Error> {
        let Some(fields) = fields else { return Ok(default.clone()) };
        let theta = fields.number("rope_theta")?.unwrap_or(default.theta);
        let partial = fields.number("partial_rotary_factor")?.unwrap_or(default.partial);
        let needed = |name| fields.needed(name, fields.number(name)?);
        let original = || {
            let name = "original_max_position_embeddings";
            fields.needed(name, fields.number(name)?.or(outer))
        };
        let kind = fields.text("rope_type")?.or(fields.text("type")?);
        let given = fields.number("attention_factor")?;
        let (scaling, magnitude) = match kind.as_deref() {
            None | Some("default") => (RopeScaling::None, 1.0),
            Some("linear") => (RopeScaling::Linear { factor: needed("factor")? }, 1.0),
            Some("llama3") => {
                let scaling = RopeScaling::Llama3 {
                    factor: needed("factor")?,
                    low_freq_factor: needed("low_freq_factor")?,
                    high_freq_factor: needed("high_freq_factor")?,
                    original_max_len: original()?,
                };
                (scaling, 1.0)
            }
            Some("yarn") => {
                let factor = needed("factor")?;
                let beta = |name, default| Ok::<_, Error>(fields.number(name)?.unwrap_or(default));
                let scaling = RopeScaling::Yarn {
                    factor,
                    beta_fast: beta("beta_fast", 32.0)?,
                    beta_slow: beta("beta_slow", 1.0)?,
                    original_max_len: fields.number("original_max_position_embeddings")?.or(outer).unwrap_or(max_len),
                    is_truncated: fields.flag("truncate")?.unwrap_or(true),
                };
                (scaling, given.unwrap_or(yarn_magnitude(fields, factor)?))
            }
            Some("longrope") => longrope(fields, given, original()?, max_len)?,
            Some(other) => return Err(error::unsupported(&fields.path, format!("rope of type {other}"))),
        };
        Ok(Self { theta, scaling, magnitude, partial })
    }

    pub(super) fn validate(&self, path: &Path, head_dim: usize) -> Result<(), Error> {
        let positive = |name, value: f64| {
            let is_fine = value > 0.0 && value.is_finite();
            is_fine.then_some(()).ok_or_else(|| error::field(path, name, format!("{value} is not positive")))
        };
        positive("rope_theta", self.theta)?;
        positive("rope_scaling.attention_factor", self.magnitude)?;
        let pairs = self.rotated(head_dim) / 2;
        if pairs == 0 || self.partial > 1.0 || !self.rotated(head_dim).is_multiple_of(2) {
            let reason = format!("{} of {head_dim} elements are no pairs", self.partial);
            return Err(error::field(path, "partial_rotary_factor", reason));
        }
        match &self.scaling {
            RopeScaling::None | RopeScaling::Zero => Ok(()),
            RopeScaling::Factors(factors) if factors.len() != pairs => {
                let reason = format!("{} divisors for {pairs} pairs of a head", factors.len());
                Err(error::field(path, "rope_scaling", reason))
            }
            RopeScaling::Factors(factors) => {
                factors.iter().try_for_each(|factor| positive("rope_scaling", f64::from(*factor)))
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, original_max_len, .. } => {
                positive("rope_scaling.factor", *factor)?;
                positive("rope_scaling.beta_slow", *beta_slow)?;
                positive("rope_scaling.beta_fast", *beta_fast - *beta_slow)?;
                if self.theta <= 1.0 {
                    return Err(error::field(
                        path,
                        "rope_theta",
                        format!("{} is not above 1, as YaRN needs", self.theta),
                    ));
                }
                positive("rope_scaling.original_max_position_embeddings", *original_max_len)
            }
            RopeScaling::Linear { factor } => positive("rope_scaling.factor", *factor),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_len } => {
                positive("rope_scaling.factor", *factor)?;
                positive("rope_scaling.low_freq_factor", *low_freq_factor)?;
                positive("rope_scaling.high_freq_factor", *high_freq_factor - *low_freq_factor)?;
                positive("rope_scaling.original_max_position_embeddings", *original_max_len)
            }
        }
    }

    /// Returns the angle per position of each pair of a head that turns. As transformers computes
    /// it: in `f32` but for the powers.
    #[must_use]
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let head_dim = self.rotated(head_dim);
        let plain = (0..head_dim / 2).map(|i| self.theta.powf(-((2 * i) as f64) / head_dim as f64) as f32);
        match &self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Zero => plain.map(|_| 0.0).collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / *factor as f32).collect(),
            RopeScaling::Factors(factors) => plain.zip(factors).map(|(f, by)| f / by).collect(),
            RopeScaling::Yarn { factor, beta_fast, beta_slow, original_max_len, is_truncated } => {
                // The pair that turns so often within the first length.
                let pair_of = |turns: f64| {
                    let length = original_max_len / (turns * std::f64::consts::TAU);
                    head_dim as f64 * length.ln() / (2.0 * self.theta.ln())
                };
                let [low, high] = match (pair_of(*beta_fast), pair_of(*beta_slow)) {
                    (low, high) if *is_truncated => [low.floor(), high.ceil()],
                    (low, high) => [low, high],
                };
                let (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
                let width = if high == low { 0.001 } else { high - low };
                let scaled = |(i, f): (usize, f32)| {
                    let slow = ((i as f64 - low) / width).clamp(0.0, 1.0) as f32;
                    f / *factor as f32 * slow + f * (1.0 - slow)
                };
                plain.enumerate().map(scaled).collect()
            }
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

    /// Cosines and sines of the first positions, a row a position; 1 and 0 of pairs that do not
    /// turn.
    #[must_use]
    pub fn tables(&self, head_dim: usize, num_positions: usize) -> [Vec<f32>; 2] {
        let (frequencies, magnitude) = (self.frequencies(head_dim), self.magnitude as f32);
        let table = |of: fn(f32) -> f32| {
            let row = |p: usize| {
                let turned = frequencies.iter().map(move |f| of(p as f32 * f) * magnitude);
                turned.chain(std::iter::repeat_n(of(0.0), head_dim / 2 - frequencies.len()))
            };
            (0..num_positions).flat_map(row).collect()
        };
        [table(f32::cos), table(f32::sin)]
    }
}

/// The same of a file that may have it for some of the elements and for all.
fn yarn_magnitude(fields: &Fields, factor: f64) -> Result<f64, Error> {
    let of = |scale: f64| (Rope::yarn_magnitude(factor) - 1.0) * scale + 1.0;
    let given = |name| Ok::<_, Error>(fields.number(name)?.filter(|scale| *scale != 0.0));
    Ok(match (given("mscale")?, given("mscale_all_dim")?) {
        (Some(scale), Some(all)) => of(scale) / of(all),
        _ => Rope::yarn_magnitude(factor),
    })
}

/// Divisors of angles of Phi-3's kind. A file has two lists; as in vLLM, the model's longest
/// sequence chooses one of them for all, so that no answer depends on how long it becomes.
fn longrope(fields: &Fields, given: Option<f64>, original: f64, max_len: f64) -> Result<(RopeScaling, f64), Error> {
    let name = if max_len > original { "long_factor" } else { "short_factor" };
    let factors = fields.of(name, "a list of numbers", |value| {
        value.as_array()?.iter().map(|factor| factor.as_f64().map(|factor| factor as f32)).collect::<Option<Vec<_>>>()
    })?;
    let factor = match fields.number("factor")? {
        Some(factor) => factor,
        None => max_len / original,
    };
    let by_length = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() };
    Ok((RopeScaling::Factors(fields.needed(name, factors)?), given.unwrap_or(by_length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_keeps_fast_angles_and_divides_slow_ones() {
        let scaling =
            RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_len: 64.0 };
        let plain = Rope::plain(500_000.0).frequencies(32);
        let scaled = Rope { scaling, ..Rope::plain(500_000.0) }.frequencies(32);
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

    #[test]
    fn pairs_that_do_not_turn_keep_their_size() {
        let rope = Rope { partial: 0.5, magnitude: 2.0, ..Rope::plain(10_000.0) };
        assert_eq!(rope.frequencies(8), Rope::plain(10_000.0).frequencies(4));
        let [cos, sin] = rope.tables(8, 2);
        assert_eq!((&cos[..4], &sin[..4]), (&[2.0, 2.0, 1.0, 1.0][..], &[0.0; 4][..]));
        assert_eq!((cos[6], sin[6], sin[4]), (1.0, 0.0, 2.0 * 1_f32.sin()));
        let refused = |partial| Rope { partial, ..rope.clone() }.validate(Path::new("config.json"), 8);
        assert!(refused(0.5).is_ok());
        for wrong in [0.1, 0.4, 1.5, f64::NAN] {
            let error = refused(wrong).expect_err("it is wrong").to_string();
            assert!(error.contains("partial_rotary_factor"), "{error}");
        }
    }

    /// The rotation of a text, for heads of 16 elements.
    fn read(text: &str, max_len: usize) -> Rope {
        let path = Path::new("config.json");
        let rope =
            Rope::read(&Fields::parse(path, text).expect("JSON"), &Rope::plain(1e4), max_len).expect("it is right");
        rope.validate(path, 16).expect("it is right");
        rope
    }

    /// Compares with what transformers 5.24 computes.
    #[track_caller]
    fn agrees(rope: &Rope, head_dim: usize, every: usize, expected: &[f32], magnitude: f64) {
        for (found, expected) in rope.frequencies(head_dim).iter().step_by(every).zip(expected) {
            assert!((found / expected - 1.0).abs() < 1e-6, "{found}, not {expected}");
        }
        assert!((rope.magnitude - magnitude).abs() < 1e-9, "{}", rope.magnitude);
    }

    #[test]
    fn yarn_is_that_of_transformers() {
        let plain = read(
            r#"{"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                "original_max_position_embeddings": 1024}}"#,
            4096,
        );
        let expected = [1.0, 0.133_370_95, 0.015_811_39, 1.405_853_3e-3, 2.5e-4, 4.445_698_5e-5, 7.905_694e-6];
        agrees(&plain, 16, 1, &expected, 1.138_629_436_111_989);
        let not_cut = read(
            r#"{"rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "truncate": false,
                "original_max_position_embeddings": 4096}}"#,
            131_072,
        );
        let expected = [1.0, 0.225_418, 0.050_813_273, 6.794_959_3e-3, 4.564_839_2e-4, 1.818_833_7e-5, 4.099_978_5e-6];
        agrees(&not_cut, 64, 4, &expected, 1.346_573_590_279_972_7);
    }

    #[test]
    fn longrope_takes_its_long_list_where_the_model_is_longer_than_its_training() {
        let text = r#"{"original_max_position_embeddings": 256, "rope_scaling": {"type": "longrope",
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
            "long_factor": [2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5]}}"#;
        let expected = [0.5, 0.126_491_11, 0.033_333_335, 9.035_079e-3, 2.5e-3, 7.027_284e-4, 2e-4, 5.749_595_6e-5];
        agrees(&read(text, 4096), 16, 1, &expected, 1.224_744_871_391_589);
        let short = read(text, 256);
        assert_eq!((short.frequencies(16)[0], short.magnitude), (1.0, 1.0));
        assert_eq!(short.tables(16, 1)[0][0], 1.0);
        assert_eq!(read(text, 4096).tables(16, 1)[0][0], 1.224_744_9);
    }
}
