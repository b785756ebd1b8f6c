//! The reference sampler: one row of logits, one token, in the order in which the rules apply.
//!
//! allowed ids, bans and bias → penalties → temperature → top-k → top-p → min-p → the largest of
//! logit + Gumbel noise. Every tie goes to the lower id. Probabilities are weighed as whole numbers
//! (`exp` in 40 binary places), so that their sums do not depend on an order, and a device that
//! sums them otherwise keeps the same tokens. Logits are edited in `f32`, as they come.

use std::collections::BTreeMap;

use super::{Sampling, gumbel};
use crate::batch::SampleRow;

/// Sample of a row of logits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampled {
    /// The token that was drawn, or the one that was given.
    pub token: u32,
    /// Its natural logarithm of probability under the model, before all parameters of drawing; 0
    /// where nobody asked for it.
    pub logprob: f32,
    /// The most likely tokens under the model, most likely first, as many as were asked for.
    pub top: Vec<(u32, f32)>,
    /// The hidden state of the row, where that was asked for instead of a token.
    pub hidden: Vec<f32>,
}

/// Binary places of a probability.
const PLACES: i32 = 40;

/// Draws the token of a row, and measures it.
#[must_use]
pub fn sample(logits: &[f32], row: &SampleRow) -> Sampled {
    let token = row.given.unwrap_or_else(|| draw(logits, row));
    let Some(top) = row.top else { return Sampled { token, ..Sampled::default() } };
    let total = log_sum_exp(logits);
    let logprob = |id: u32| (value(logits[id as usize]) - total) as f32;
    let top = ranked(logits.iter().map(|x| value(*x))).take(top).map(|id| (id, logprob(id))).collect();
    Sampled { token, logprob: logprob(token), top, ..Sampled::default() }
}

fn draw(logits: &[f32], row: &SampleRow) -> u32 {
    let processed = processed(logits, row).into_iter().map(f64::from);
    if row.sampling.temperature == 0.0 {
        return ranked(processed).next().expect("a vocabulary is not empty");
    }
    let scaled: Vec<_> = processed.map(|x| x / f64::from(row.sampling.temperature)).collect();
    let score = |id: &u32| scaled[*id as usize] + gumbel(row.seed, row.position, *id);
    let mut ids = kept(&scaled, &row.sampling);
    ids.sort_unstable();
    let mut best = ids[0];
    for id in ids {
        if score(&id) > score(&best) {
            best = id;
        }
    }
    best
}

/// The logits after bias, penalties, allowed ids and bans.
#[must_use]
pub fn processed(logits: &[f32], row: &SampleRow) -> Vec<f32> {
    let sampling = &*row.sampling;
    let mut x: Vec<f32> = logits.iter().map(|x| value(*x) as f32).collect();
    // What is said twice of a token counts once, with the sum.
    let mut bias = BTreeMap::new();
    sampling.logit_bias.iter().for_each(|(id, by)| *bias.entry(*id).or_insert(0.0) += by);
    for (id, by) in bias {
        x[id as usize] += by;
    }
    for count in row.counts.iter().flat_map(|counts| counts.iter()) {
        let x = &mut x[count.token as usize];
        *x = if *x > 0.0 { *x / sampling.repetition_penalty } else { *x * sampling.repetition_penalty };
        *x -= sampling.frequency_penalty * count.in_output as f32;
        *x -= if count.in_output > 0 { sampling.presence_penalty } else { 0.0 };
    }
    if let Some(bits) = row.mask_bits() {
        let may_come = |id: usize| bits[id / 32] >> (id % 32) & 1 != 0;
        (0..x.len()).filter(|id| !may_come(*id)).for_each(|id| x[id] = f32::NEG_INFINITY);
    }
    if let Some(allowed) = &sampling.allowed_ids {
        let mut is_allowed = vec![false; x.len()];
        allowed.iter().for_each(|id| is_allowed[*id as usize] = true);
        x.iter_mut().zip(is_allowed).filter(|(_, is)| !is).for_each(|(x, _)| *x = f32::NEG_INFINITY);
    }
    for id in row.banned.iter().flat_map(|ids| ids.iter()) {
        x[*id as usize] = f32::NEG_INFINITY;
    }
    x
}

/// The tokens that top-k, top-p and min-p leave, most likely first. There is always one.
#[must_use]
pub fn kept(scaled: &[f64], sampling: &Sampling) -> Vec<u32> {
    let mut ids: Vec<u32> = ranked(scaled.iter().copied()).collect();
    let largest = scaled[ids[0] as usize];
    ids.truncate(sampling.top_k.map_or(usize::MAX, |k| k as usize));
    let weight = |id: &u32| ((scaled[*id as usize] - largest).exp() * 2_f64.powi(PLACES)) as u64;
    let wanted = match sampling.top_p < 1.0 {
        true => (f64::from(sampling.top_p) * ids.iter().map(weight).sum::<u64>() as f64).ceil() as u64,
        false => u64::MAX,
    };
    let least = (f64::from(sampling.min_p) * 2_f64.powi(PLACES)).ceil() as u64;
    let mut sum = 0;
    let mut enters = |id: &u32| {
        let is_needed = sum < wanted && weight(id) >= least;
        sum += weight(id);
        is_needed
    };
    let num = ids.iter().map_while(|id| enters(id).then_some(())).count();
    ids.truncate(num.max(1));
    ids
}

/// Ids from the largest value to the smallest, equal ones from the lowest.
fn ranked(values: impl Iterator<Item = f64>) -> impl Iterator<Item = u32> {
    let mut all: Vec<(u32, f64)> = (0..).zip(values).collect();
    all.sort_by(|(i, a), (j, b)| b.total_cmp(a).then(i.cmp(j)));
    all.into_iter().map(|(id, _)| id)
}

/// Maps a logit to a comparable value: NaN cannot be drawn, and the two zeros are one.
fn value(logit: f32) -> f64 {
    if logit.is_nan() { f64::NEG_INFINITY } else { f64::from(logit) + 0.0 }
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = logits.iter().fold(f64::NEG_INFINITY, |m, x| m.max(value(*x)));
    largest + logits.iter().map(|x| (value(*x) - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::TokenCount;

    fn row(sampling: Sampling) -> SampleRow {
        SampleRow { sampling: Arc::new(sampling), seed: 3, position: 5, top: Some(0), ..SampleRow::default() }
    }

    fn token(logits: &[f32], sampling: Sampling) -> u32 {
        sample(logits, &row(sampling)).token
    }

    #[test]
    fn greedy_takes_the_largest_and_of_equals_the_lowest_id() {
        assert_eq!(token(&[1.0, 3.0, 3.0, 2.0], Sampling::greedy()), 1);
        assert_eq!(token(&[f32::NAN, -0.0, 0.0], Sampling::greedy()), 1);
        assert_eq!(token(&[f32::NEG_INFINITY; 3], Sampling::greedy()), 0);
    }

    #[test]
    fn logprobs_are_those_of_the_model_whatever_the_parameters() {
        let logits = [0.0, 1.0, 2.0];
        let mut row =
            row(Sampling { top_k: Some(1), temperature: 9.0, logit_bias: vec![(0, 100.0)], ..Sampling::default() });
        row.top = Some(2);
        let got = sample(&logits, &row);
        let total = (1.0 + 1_f64.exp() + 2_f64.exp()).ln();
        assert_eq!(got.token, 0);
        assert_eq!(got.logprob, (-total) as f32);
        assert_eq!(got.top, [(2, (2.0 - total) as f32), (1, (1.0 - total) as f32)]);
    }

    #[test]
    fn a_given_token_is_measured_and_not_drawn() {
        let given = SampleRow { given: Some(2), ..row(Sampling::greedy()) };
        assert_eq!(sample(&[9.0, 0.0, -9.0], &given).token, 2);
    }

    #[track_caller]
    fn keeps(scaled: &[f64], sampling: Sampling, expected: &[u32]) {
        assert_eq!(kept(scaled, &sampling), expected);
    }

    #[test]
    fn thresholds_keep_the_fewest_and_of_equals_the_lowest_ids() {
        let all = Sampling::default;
        let halves = [0.5_f64.ln(), 0.25_f64.ln(), 0.125_f64.ln(), 0.125_f64.ln()];
        keeps(&halves, all(), &[0, 1, 2, 3]);
        keeps(&halves, Sampling { top_k: Some(3), ..all() }, &[0, 1, 2]);
        keeps(&halves, Sampling { top_p: 0.5, ..all() }, &[0]);
        keeps(&halves, Sampling { top_p: 0.51, ..all() }, &[0, 1]);
        keeps(&halves, Sampling { top_p: 0.76, ..all() }, &[0, 1, 2]);
        keeps(&halves, Sampling { min_p: 0.5, ..all() }, &[0, 1]);
        keeps(&halves, Sampling { min_p: 1.0, ..all() }, &[0]);
        keeps(&[1.0; 4], Sampling { top_p: 0.5, ..all() }, &[0, 1]);
        // After top-k the rest are weighed anew among themselves: 2/3 and 1/3.
        keeps(&halves, Sampling { top_k: Some(2), top_p: 0.7, ..all() }, &[0, 1]);
        keeps(&halves, Sampling { top_k: Some(2), top_p: 0.66, ..all() }, &[0]);
    }

    #[test]
    fn allowed_ids_bans_and_bias_decide_before_anything_else() {
        let logits = [5.0, 4.0, 3.0, 2.0];
        assert_eq!(token(&logits, Sampling { allowed_ids: Some(vec![3, 2]), ..Sampling::greedy() }), 2);
        assert_eq!(token(&logits, Sampling { logit_bias: vec![(3, 10.0)], ..Sampling::greedy() }), 3);
        let banned = SampleRow { banned: Some([0, 1].into()), ..row(Sampling::greedy()) };
        assert_eq!(sample(&logits, &banned).token, 2);
    }

    #[test]
    fn penalties_follow_the_counts() {
        let logits = [2.0, 2.0, -2.0];
        let count = |token, in_output| TokenCount { token, in_output };
        let with = |sampling, counts: Vec<_>| {
            processed(&logits, &SampleRow { counts: Some(Arc::new(counts)), ..row(sampling) })
        };
        let presence = Sampling { presence_penalty: 0.5, ..Sampling::default() };
        assert_eq!(with(presence, vec![count(0, 3), count(1, 0)]), [1.5, 2.0, -2.0]);
        let frequency = Sampling { frequency_penalty: 0.5, ..Sampling::default() };
        assert_eq!(with(frequency, vec![count(0, 3), count(1, 0)]), [0.5, 2.0, -2.0]);
        let repetition = Sampling { repetition_penalty: 2.0, ..Sampling::default() };
        assert_eq!(with(repetition, vec![count(0, 1), count(2, 0)]), [1.0, 2.0, -4.0]);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let probabilities = [0.5_f32, 0.3, 0.15, 0.05];
        let logits = probabilities.map(f32::ln);
        let mut seen = [0_u32; 4];
        for position in 0..20_000 {
            let row = SampleRow { position, ..row(Sampling::default()) };
            seen[sample(&logits, &row).token as usize] += 1;
        }
        for (seen, p) in seen.iter().zip(probabilities) {
            assert!((f64::from(*seen) / 20_000.0 - f64::from(p)).abs() < 0.015, "{seen:?} of {p}");
        }
    }

    #[test]
    fn a_draw_depends_on_seed_and_position() {
        let logits = [0.0_f32; 64];
        let at = |seed, position| sample(&logits, &SampleRow { seed, position, ..row(Sampling::default()) }).token;
        let draws: Vec<_> = (0..16).map(|i| at(1, i)).collect();
        assert_eq!(draws, (0..16).map(|i| at(1, i)).collect::<Vec<_>>());
        assert_ne!(draws, (0..16).map(|i| at(2, i)).collect::<Vec<_>>());
        assert!(draws.iter().any(|t| *t != draws[0]));
    }
}
