//! From the engine's samples to draws on the device, and back.

use warpfold::{Draw, DrawRows, Tensor};
use warpfold_engine::{SampleRow, Sampled, TokenCount};

use crate::Error;

/// What the samples of a batch ask for.
pub(crate) fn rows_of(samples: &[SampleRow], rows: &mut DrawRows) {
    rows.clear();
    let mut counts = Vec::new();
    for sample in samples {
        let sampling = &*sample.sampling;
        counts.clear();
        let pair = |count: &TokenCount| (count.token, count.in_output);
        counts.extend(sample.counts.iter().flat_map(|all| all.iter().map(pair)));
        rows.push(&Draw {
            seed: sample.seed,
            position: sample.position,
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            repetition_penalty: sampling.repetition_penalty,
            frequency_penalty: sampling.frequency_penalty,
            presence_penalty: sampling.presence_penalty,
            bias: &sampling.logit_bias,
            counts: &counts,
            allowed: sample.allowed_ids(),
            banned: sample.banned.as_deref().unwrap_or(&[]),
            // No token is reported twice.
            top: u32::try_from(sample.top).unwrap_or(u32::MAX),
            given: sample.given,
        });
    }
}

/// What was drawn, as the device gives it.
pub(crate) fn sampled(drawn: &Tensor, samples: &[SampleRow], vocab: usize) -> Result<Vec<Sampled>, Error> {
    let words = drawn.to_vec::<i32>()?;
    let pair = |words: &[i32]| (words[0].cast_unsigned(), f32::from_bits(words[1].cast_unsigned()));
    let of_row = |(words, sample): (&[i32], &SampleRow)| {
        let (token, logprob) = pair(words);
        let top = words[2..].chunks_exact(2).take(sample.top.min(vocab)).map(pair).collect();
        Sampled { token, logprob, top }
    };
    let stride = words.len() / samples.len().max(1);
    Ok(words.chunks_exact(stride.max(1)).zip(samples).map(of_row).collect())
}
