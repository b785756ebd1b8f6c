//! From the engine's samples to draws on the device, and back.

use warpfold::{Draw, DrawRows};
use warpfold_engine::{SampleRow, Sampled, TokenCount};

/// Fills the draw parameters of a batch's samples.
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
            allowed: sampling.allowed_ids.as_deref(),
            mask: sample.mask_bits(),
            banned: sample.banned.as_deref().unwrap_or(&[]),
            // No token is reported twice.
            top: u32::try_from(sample.top.unwrap_or(0)).unwrap_or(u32::MAX),
            token_only: sample.top.is_none(),
            given: sample.given,
        });
    }
}

/// Words of 32 bits that samples are drawn to, at most.
pub(crate) fn num_words(samples: &[SampleRow]) -> usize {
    let top = samples.iter().filter_map(|sample| sample.top).max().unwrap_or(0);
    samples.len() * (2 + 2 * top.next_power_of_two())
}

/// Decodes the drawn tokens from little-endian words of the device; `tops` is the number of likely
/// tokens for each sample.
pub(crate) fn sampled(words: &[u8], tops: &[usize], vocab: usize) -> Vec<Sampled> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("a word has four bytes"));
    let pair = |bytes: &[u8]| (word(&bytes[..4]), f32::from_bits(word(&bytes[4..8])));
    let of_row = |(words, top): (&[u8], &usize)| {
        let (token, logprob) = pair(words);
        let top = words[8..].chunks_exact(8).take((*top).min(vocab)).map(pair).collect();
        Sampled { token, logprob, top, ..Sampled::default() }
    };
    let stride = words.len() / tops.len().max(1);
    words.chunks_exact(stride.max(1)).zip(tops).map(of_row).collect()
}

/// Hidden states of so many numbers each, from little-endian bytes of the device.
pub(crate) fn hidden(bytes: &[u8], len: usize) -> impl Iterator<Item = Sampled> {
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("a number has four bytes"));
    let of_row = move |row: &[u8]| Sampled { hidden: row.chunks_exact(4).map(number).collect(), ..Sampled::default() };
    bytes.chunks_exact(4 * len).map(of_row)
}
