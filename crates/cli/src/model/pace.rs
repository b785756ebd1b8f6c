//! Estimate of the time per token on the virtual GPU, printed before the first one.
//!
//! A row is multiplied with each weight once, so a token takes the number of weights over a rate.
//! The rate is that of one product of the model's width, which is run for it.

use std::time::{Duration, Instant};

use warpfold::{Device, Dtype, Matmul, Tensor};
use warpfold_models::{ModelConfig, ModelFiles};

use super::Place;
use crate::failure::Failure;
use crate::output;

/// Weights of the product that is timed.
const TIMED: usize = 1 << 20;

// THRESHOLD: of a model with fewer weights nothing is measured, and nothing said; tested by
// crates/cli/src/model/pace.rs::a_model_that_is_quick_is_not_talked_about
/// Weights of a row's products.
const FEW: u64 = 1 << 23;

/// Time per token that is not worth a note.
const QUICK: Duration = Duration::from_secs(1);

/// Prints on standard error what a token will take on the virtual GPU, if that is long: in short if
/// the device was asked for by name.
pub(crate) fn tell(place: &Place, files: &ModelFiles, dtype: Dtype, named: Option<&str>) -> Result<(), Failure> {
    let weights = weights_of_a_row(files.config());
    if !place.is_virtual() || weights < FEW {
        return Ok(());
    }
    let per_second = measured(&place.devices()[0], files.config().hidden, dtype)?;
    if let Some(text) = told(place, weights, per_second, named) {
        output::note(&text);
    }
    Ok(())
}

/// Returns the note, unless a token is quick.
fn told(place: &Place, weights: u64, per_second: f64, named: Option<&str>) -> Option<String> {
    let token = Duration::from_secs_f64(weights as f64 / per_second);
    let seconds = token.as_secs_f64();
    let seconds = if seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
    let short = format!("note: on {place} a token takes about {seconds} s");
    let [millions, rate] = [weights as f64, per_second].map(|count| (count / 1e6).round());
    (token >= QUICK).then(|| match named {
        Some(_) => format!("{short}\n"),
        None => format!(
            "{short} ({millions} million weights, {rate} million a second), and each of a prompt a part of that; for \
             speed take a GPU (--device cuda:0), or warpfold-tales, the small model in the program\n"
        ),
    })
}

/// Weights that a row is multiplied with: of a mixture those of the chosen experts.
fn weights_of_a_row(config: &ModelConfig) -> u64 {
    let attention = 2 * (config.query_len() + config.kv_len());
    let dense = 3 * config.intermediate;
    let mlps = config.experts.as_ref().map_or(config.num_layers * dense, |experts| {
        let dense_layers = experts.dense_layers.len().min(config.num_layers);
        (config.num_layers - dense_layers) * (3 * experts.chosen * experts.inner + experts.num) + dense_layers * dense
    });
    (config.hidden * (config.num_layers * attention + mlps + config.vocab)) as u64
}

/// Weights a second of a product with one row, the second time: the first plans it.
fn measured(device: &Device, width: usize, dtype: Dtype) -> Result<f64, Failure> {
    let rows = (TIMED / width).next_multiple_of(64);
    let row = Tensor::zeros((1, width), dtype, device)?;
    let weights = Tensor::zeros((rows, width), dtype, device)?;
    let product = Matmul::new().batch_invariant().weights();
    let mut last = Duration::ZERO;
    for _ in 0..2 {
        let begin = Instant::now();
        product.run(&row, &weights.t()?)?;
        device.synchronize()?;
        last = begin.elapsed();
    }
    Ok((rows * width) as f64 / last.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use warpfold::Profile;

    use super::*;

    fn place() -> Place {
        Place::One(Device::virtual_gpu(Profile::H200))
    }

    #[test]
    fn a_model_that_is_quick_is_not_talked_about() {
        let shipped = ModelFiles::shipped().expect("it is part of the program");
        assert!(weights_of_a_row(shipped.config()) < FEW);
        let weights = [FEW - 1, FEW].map(|weights| told(&place(), weights, FEW as f64, None).is_some());
        assert_eq!(weights, [false, true]);
    }

    #[test]
    fn what_a_token_takes_is_told_with_what_it_was_computed_from_or_in_short() {
        let long = told(&place(), 134_000_000, 30e6, None).expect("it is slow");
        assert!(long.contains(" a token takes about 4.5 s (134 million weights, 30 million a second)"), "{long}");
        assert!(long.contains("--device cuda:0") && long.contains("warpfold-tales"), "{long}");
        let short = told(&place(), 134_000_000, 3e6, Some("virtual")).expect("it is slow");
        assert!(short.ends_with(" a token takes about 45 s\n") && short.lines().count() == 1, "{short}");
    }

    #[test]
    fn a_rate_is_measured() {
        let Place::One(device) = place() else { panic!("it is one") };
        let rate = measured(&device, 256, Dtype::Bf16).expect("the product runs");
        assert!(rate > 1e4 && rate < 1e12, "{rate}");
    }
}
