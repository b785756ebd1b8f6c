//! The device's sampler against the engine's reference, on the same logits: the same tokens, and
//! log-probabilities within a unit in the last place of `f32`.

use std::sync::Arc;

use warpfold::{Device, Draw, DrawRows, Profile, Tensor};
use warpfold_device::Checks;
use warpfold_engine::{Constraint, LateMask, Next, SampleRow, Sampled, Sampling, TokenCount, philox, sample};

/// Logits of a row: some spread, and ties.
fn logits(vocab: usize, row: usize, spread: f32) -> Vec<f32> {
    let logit = |i: usize| {
        let word = philox(77, [i as u32, row as u32, 1, 0])[0];
        ((word >> 20) as f32 / 4096.0 - 0.5) * spread
    };
    (0..vocab).map(logit).collect()
}

/// Parameters that meet every rule, alone and together.
fn samplings(vocab: u32) -> Vec<Sampling> {
    let base = Sampling::default;
    let some = |n: u32| (0..n).map(|i| (i * 7919) % vocab).collect::<Vec<_>>();
    vec![
        Sampling::greedy(),
        base(),
        Sampling { temperature: 0.01, ..base() },
        Sampling { temperature: 100.0, ..base() },
        Sampling { top_k: Some(1), ..base() },
        Sampling { top_k: Some(5), ..base() },
        Sampling { top_k: Some(vocab * 2), ..base() },
        Sampling { top_p: 0.3, ..base() },
        Sampling { top_p: 0.999, temperature: 0.7, ..base() },
        Sampling { top_p: f32::MIN_POSITIVE, ..base() },
        Sampling { min_p: 0.2, ..base() },
        Sampling { min_p: 1.0, temperature: 2.0, ..base() },
        Sampling { top_k: Some(40), top_p: 0.8, min_p: 0.05, temperature: 0.8, ..base() },
        Sampling { presence_penalty: 1.5, frequency_penalty: -0.7, repetition_penalty: 1.3, ..base() },
        Sampling { repetition_penalty: 0.5, ..Sampling::greedy() },
        Sampling { logit_bias: vec![(3, 100.0), (5, -100.0), (3, -99.5)], ..base() },
        Sampling { allowed_ids: Some(some(9)), ..base() },
        Sampling { allowed_ids: Some(vec![2, 2, 1]), top_k: Some(3), logit_bias: vec![(0, 50.0)], ..base() },
    ]
}

/// Lets all tokens come but each third one.
#[derive(Debug)]
struct NoThirds;

impl Constraint for NoThirds {
    fn next(&mut self, vocab: usize) -> Next {
        let bit = |id: usize| u32::from(!id.is_multiple_of(3)) << (id % 32);
        Next::Tokens((0..vocab).step_by(32).map(|first| (first..first + 32).map(bit).sum()).collect())
    }

    fn is_over(&self) -> bool {
        false
    }

    fn push(&mut self, _token: u32) {}

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(Self)
    }
}

fn rows_of(vocab: u32) -> Vec<SampleRow> {
    let counts = (0..40).map(|i| TokenCount { token: i * (vocab / 40).max(1), in_output: i % 4 });
    let counts: Vec<_> = counts.filter(|count| count.token < vocab).collect();
    let mut rows = Vec::new();
    for (i, mut sampling) in (0_u32..).zip(samplings(vocab)) {
        if i % 4 == 1 {
            sampling.allowed_ids = Some((0..vocab).filter(|id| id % 3 != 1).collect());
        }
        rows.push(SampleRow {
            row: i,
            position: 100 + i,
            seed: 1 << (2 * i),
            counts: sampling.has_penalties().then(|| Arc::new(counts.clone())),
            mask: (i % 4 == 2).then(|| LateMask::new(Box::new(NoThirds), vocab as usize)),
            banned: (i % 5 == 0).then(|| Arc::from([0, 2, 2].as_slice())),
            sampling: Arc::new(sampling),
            top: [Some(0), None, Some(3), Some(20)][i as usize % 4],
            given: (i % 7 == 3).then_some(vocab / 2),
        });
    }
    rows
}

/// Draws on the virtual GPU, under all checks.
fn drawn(logits: &[f32], vocab: usize, samples: &[SampleRow]) -> Vec<Sampled> {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::All).expect("checks");
    let mut rows = DrawRows::default();
    for row in samples {
        let counts: Vec<_> = row.counts.iter().flat_map(|all| all.iter().map(|c| (c.token, c.in_output))).collect();
        let sampling = &*row.sampling;
        rows.push(&Draw {
            seed: row.seed,
            position: row.position,
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
            mask: row.mask_bits(),
            banned: row.banned.as_deref().unwrap_or(&[]),
            top: row.top.unwrap_or(0) as u32,
            token_only: row.top.is_none(),
            given: row.given,
        });
    }
    let mut words = Vec::new();
    rows.words(&mut words);
    let words: Vec<i32> = words.into_iter().map(u32::cast_signed).collect();
    let records = Tensor::from_slice(&words, &[words.len()], &device).expect("records");
    let logits = Tensor::from_slice(logits, &[samples.len(), vocab], &device).expect("logits");
    let drawn = logits.sample(&rows, &records).expect("the draw runs").to_vec::<i32>().expect("words");
    for report in device.take_reports() {
        let findings: Vec<_> = report.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
    let pair = |words: &[i32]| (words[0].cast_unsigned(), f32::from_bits(words[1].cast_unsigned()));
    let stride = drawn.len() / samples.len();
    let of_row = |(words, sample): (&[i32], &SampleRow)| {
        let (token, logprob) = pair(words);
        Sampled {
            token,
            logprob,
            top: words[2..].chunks_exact(2).take(sample.top.unwrap_or(0).min(vocab)).map(pair).collect(),
            ..Sampled::default()
        }
    };
    drawn.chunks_exact(stride).zip(samples).map(of_row).collect()
}

fn is_near(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a - b).abs() <= a.abs().max(b.abs()) * f32::EPSILON
}

#[track_caller]
fn check(vocab: usize, spread: f32) {
    let rows = rows_of(vocab as u32);
    let all: Vec<f32> = (0..rows.len()).flat_map(|row| logits(vocab, row, spread)).collect();
    let found = drawn(&all, vocab, &rows);
    for ((row, logits), found) in rows.iter().zip(all.chunks_exact(vocab)).zip(found) {
        let expected = sample(logits, row);
        assert_eq!(found.token, expected.token, "of {vocab}: {row:?}");
        assert!(is_near(found.logprob, expected.logprob), "{} for {}: {row:?}", found.logprob, expected.logprob);
        assert_eq!(found.top.len(), expected.top.len());
        for ((id, logprob), (token, wanted)) in found.top.iter().zip(&expected.top) {
            assert_eq!(id, token, "of {vocab}: {row:?}");
            assert!(is_near(*logprob, *wanted), "{logprob} for {wanted}");
        }
    }
}

#[test]
fn tokens_are_those_of_the_reference_for_vocabularies_around_every_boundary() {
    for vocab in [6, 31, 640, 2047, 2048, 2052, 5001] {
        check(vocab, 8.0);
    }
}

#[test]
fn tokens_are_those_of_the_reference_where_most_logits_are_equal() {
    check(1000, 0.002);
    check(999, 0.0);
}

#[test]
fn tokens_are_those_of_the_reference_where_few_are_likely() {
    check(3000, 200.0);
}

#[test]
fn what_is_no_number_is_never_drawn() {
    let row = |sampling| SampleRow { sampling: Arc::new(sampling), seed: 5, top: Some(0), ..SampleRow::default() };
    let rows = [row(Sampling::greedy()), row(Sampling::default()), row(Sampling { top_p: 0.5, ..Sampling::default() })];
    let logits = [f32::NAN, f32::NEG_INFINITY, 1.0, f32::NAN, -0.0, 0.0];
    let all = logits.repeat(rows.len());
    for (found, row) in drawn(&all, logits.len(), &rows).iter().zip(&rows) {
        assert_eq!(found.token, sample(&logits, row).token);
        assert!([2, 4, 5].contains(&found.token));
    }
    let none = [f32::NEG_INFINITY; 6].repeat(rows.len());
    assert!(drawn(&none, 6, &rows).iter().all(|found| found.token == 0));
}
