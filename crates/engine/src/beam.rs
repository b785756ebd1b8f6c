//! Beam search: each step keeps the best continuations of all beams, as forks; copy-on-write does
//! the rest.
//!
//! Scores, early stopping and the choice among `2 * width` candidates are those of Hugging Face's
//! `generate` with `early_stopping=False`: a beam that ends counts only among the best `width`
//! candidates, and the search is over when no running beam can beat the worst answer.

use crate::batch::SequenceId;
use crate::block::Pool;
use crate::group::Group;
use crate::request::{Beam, Finish};
use crate::sampling::Sampled;
use crate::sequence::Sequence;

/// A beam that ended.
#[derive(Debug, Clone)]
pub(crate) struct Hypothesis {
    pub(crate) score: f64,
    pub(crate) tokens: Vec<Sampled>,
    pub(crate) finish: Finish,
}

/// A continuation of a beam.
struct Candidate {
    beam: usize,
    token: u32,
    logprob: f32,
    score: f64,
}

/// Returns the number of continuations that each beam must offer, so that enough remain without
/// those that end it.
pub(crate) fn num_candidates(group: &Group, beam: Beam) -> usize {
    2 * beam.width + group.rules.stop_ids.len()
}

/// Takes a step of the search if all beams have their candidates; returns whether the search is
/// over.
pub(crate) fn advance(group: &mut Group, pool: &mut Pool, block_size: usize, last_id: &mut SequenceId) -> bool {
    let Some(beam) = group.request.beam else { return false };
    if group.seqs.iter().any(|s| s.candidates.is_none()) {
        return false;
    }
    let mut next = Vec::new();
    for (rank, candidate) in candidates(group, beam.width).into_iter().enumerate() {
        let parent = &group.seqs[candidate.beam];
        if group.rules.stop_ids.contains(&candidate.token) {
            if rank < beam.width {
                let hypothesis = hypothesis(parent, &candidate, beam, Finish::StopToken(candidate.token));
                keep(&mut group.hypotheses, hypothesis, beam.width);
            }
        } else if next.len() < beam.width {
            next.push(candidate);
        }
    }
    let len = group.seqs[0].tokens.len() + 1;
    let is_full = len >= group.rules.max_total;
    let is_over = next.is_empty() || is_full || is_decided(group, &next, beam);
    if is_over {
        for candidate in next.iter().filter(|_| is_full) {
            let hypothesis = hypothesis(&group.seqs[candidate.beam], candidate, beam, Finish::Length);
            keep(&mut group.hypotheses, hypothesis, beam.width);
        }
        return true;
    }
    let fork = |c: &Candidate| {
        *last_id += 1;
        child(&group.seqs[c.beam], c, *last_id, pool, block_size)
    };
    let seqs: Vec<_> = next.iter().map(fork).collect();
    group.release(pool);
    group.seqs = seqs;
    false
}

/// The best continuations of all beams, best first; of equals that of the earlier beam, then of its
/// better candidate.
fn candidates(group: &Group, width: usize) -> Vec<Candidate> {
    let may_stop = group.seqs[0].num_generated() >= group.rules.min_tokens;
    let mut all = Vec::new();
    for (beam, seq) in group.seqs.iter().enumerate() {
        let tokens = seq.candidates.iter().flatten().filter(|(t, _)| may_stop || !group.rules.stop_ids.contains(t));
        let candidate =
            |&(token, logprob): &(u32, f32)| Candidate { beam, token, logprob, score: seq.score + f64::from(logprob) };
        all.extend(tokens.map(candidate));
    }
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all.truncate(2 * width);
    all
}

fn is_decided(group: &Group, next: &[Candidate], beam: Beam) -> bool {
    let worst = group.hypotheses.last().map_or(f64::NEG_INFINITY, |h| h.score);
    let len = group.seqs[0].num_generated() + 1;
    group.hypotheses.len() >= beam.width && worst >= normalized(next[0].score, len, beam)
}

fn normalized(score: f64, len: usize, beam: Beam) -> f64 {
    score / (len as f64).powf(beam.length_penalty)
}

fn hypothesis(parent: &Sequence, candidate: &Candidate, beam: Beam, finish: Finish) -> Hypothesis {
    let mut tokens = parent.fresh.clone();
    tokens.push(sampled(candidate));
    Hypothesis { score: normalized(candidate.score, tokens.len(), beam), tokens, finish }
}

/// Keeps the best hypotheses, best first; of equals the earlier one.
fn keep(hypotheses: &mut Vec<Hypothesis>, new: Hypothesis, width: usize) {
    let at = hypotheses.partition_point(|h| h.score >= new.score);
    hypotheses.insert(at, new);
    hypotheses.truncate(width);
}

fn child(parent: &Sequence, candidate: &Candidate, id: SequenceId, pool: &mut Pool, block_size: usize) -> Sequence {
    let table = parent.table.fork(pool, parent.computed, block_size);
    let mut seq = Sequence { id, table, candidates: None, score: candidate.score, ..parent.clone() };
    seq.tokens.push(candidate.token);
    seq.fresh.push(sampled(candidate));
    seq
}

fn sampled(candidate: &Candidate) -> Sampled {
    Sampled { token: candidate.token, logprob: candidate.logprob, ..Sampled::default() }
}
