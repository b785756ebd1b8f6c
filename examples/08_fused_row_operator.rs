//! A row operator fused from closures: the scores of attention with a cap and a mask, softmax, and
//! a factor behind it, in one launch that reads each score once and writes each weight once.

use warpfold::{Axes, Device, Dtype, Tensor};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::rowwise::RowWise;
use warpfold_kernels::rowwise::operators::{Exponentials, Softmax};
use warpfold_lang::Val;

/// Scores are kept below it.
const CAP: f32 = 30.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::from_env()?;
    println!("on {device}");
    let (rows, len) = (6, 1000);
    let scores: Vec<f32> = (0..rows * len).map(|i| ((i * 7919) % 1013) as f32 / 10.0).collect();
    let keeps = |row: usize, t: usize| t <= row * len / rows;
    let mask: Vec<u8> = (0..rows * len).map(|i| u8::from(keeps(i / len, i % len))).collect();

    // Before: cap and mask, of two inputs. Behind: weights from 0 to 255, as whole numbers.
    let capped = |score: Val<f32>| (score * (1.0 / CAP)).tanh() * CAP;
    let source = Source::one::<f32>(Dtype::F32)
        .zip(Source::one::<f32>(Dtype::U8))
        .map(move |(score, keep)| keep.gt(0.0).select::<f32>(capped(score), f32::NEG_INFINITY));
    let sink = Sink::one::<f32>(Dtype::U8).after(|weight: Val<f32>| (weight * 255.0 + 0.5).floor());
    let softmax = Softmax(Exponentials::<f32>::new(false));
    let operator = RowWise::new("capped_softmax", softmax, (source, Source::nothing()), (sink, Sink::nothing()));

    let scores_of = Tensor::from_slice(&scores, &[rows, len], &device)?;
    let mask_of = Tensor::from_slice(&mask, &[rows, len], &device)?;
    let (results, _) = scores_of.rowwise(Some(&mask_of), &[], &operator, Axes::Of(&[-1]))?;
    let weights = results[0].to_vec::<u8>()?;

    for row in 0..rows {
        let kept: Vec<f64> = (0..len)
            .map(|t| {
                if keeps(row, t) { (f64::from(scores[row * len + t] / CAP).tanh() * f64::from(CAP)).exp() } else { 0.0 }
            })
            .collect();
        let sum: f64 = kept.iter().sum();
        for (t, weight) in kept.iter().enumerate() {
            let expected = weight / sum * 255.0;
            assert!((f64::from(weights[row * len + t]) - expected).abs() < 0.51, "row {row}, position {t}");
        }
        println!("row {row}: {} weights above zero", kept.iter().filter(|weight| **weight > 0.0).count());
    }
    Ok(())
}
