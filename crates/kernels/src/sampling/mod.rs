//! The next token of each row of logits, drawn on the device; only tokens and their probabilities
//! return.
//!
//! Allowed ids, bias, penalties, bans → temperature → top-k → top-p → min-p → the largest of logit
//! and Gumbel noise. A draw is a function of the row, its [`Draw`] and nothing else: noise follows
//! from seed, position and token (`noise.rs`). Every tie goes to the lower id. Probabilities are
//! weighed as whole numbers (`exp` in 40 binary places), so that their sums do not depend on an
//! order. No atomics. Edited logits are `f32`, scores and sums of exponentials `f64`; exponentials
//! and logarithms err by a unit in the last place of `f64`, which is all that this and a reference
//! on the host may differ by.
//!
//! Start with [`Rows`], which packs what is wanted, and [`Problem`]. Three launches: `edit` where
//! rows have edits; `partial`, a block for each [`CHUNK`] logits; `finish`, a block per row, which
//! also finds thresholds by their digits (`search.rs`).

mod draw;
mod edit;
mod noise;
mod row;
mod search;

pub(crate) use noise::philox;

use std::collections::BTreeMap;

use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, params};

use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{AnyKernel, Error, ErrorKind, Shipped};

/// Logits of a block of the first launch.
pub const CHUNK: u32 = 2048;

/// What stands where there is no number.
pub(crate) const NONE: u32 = u32::MAX;

/// The places of a row's record, in words of 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word {
    Temperature,
    TopK,
    TopP,
    MinP,
    SeedLow,
    SeedHigh,
    Position,
    Given,
    Top,
    /// Which of the edited rows it is.
    Edited,
    Repetition,
    Frequency,
    Presence,
    /// Where lists begin, in words from the beginning of all records.
    Bias,
    Counts,
    Banned,
    Allowed,
    /// Where the last list ends.
    End,
    /// Form of what stands under `Allowed`: nothing, [`RULE_LIST`] or [`RULE_BITS`].
    Rule,
    /// Whether log-probabilities are left out.
    TokenOnly,
}

/// A list of the only ids that may be drawn.
pub(crate) const RULE_LIST: u32 = 1;

/// A bit for each id that says whether it may be drawn.
pub(crate) const RULE_BITS: u32 = 2;

/// Words of a record.
pub(crate) const WORDS: usize = 20;

/// What is wanted of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draw<'a> {
    /// The key of the noise.
    pub seed: u64,
    /// The position of the token, which the noise depends on.
    pub position: u32,
    /// Divides the logits; 0 takes the largest.
    pub temperature: f32,
    /// Draw from this many of the most likely tokens.
    pub top_k: Option<u32>,
    /// Draw from the fewest most likely tokens whose probabilities sum to this, if below 1.
    pub top_p: f32,
    /// Draw from tokens at least this likely, relative to the most likely one.
    pub min_p: f32,
    /// Divides positive logits of counted tokens and multiplies negative ones.
    pub repetition_penalty: f32,
    /// Taken from the logit of a counted token for each time.
    pub frequency_penalty: f32,
    /// Taken from the logit of a token that was counted at least once.
    pub presence_penalty: f32,
    /// Added to the logits of tokens.
    pub bias: &'a [(u32, f32)],
    /// Tokens once each, and how often; 0 for those that repetition alone counts.
    pub counts: &'a [(u32, u32)],
    /// The only tokens that may be drawn.
    pub allowed: Option<&'a [u32]>,
    /// The only tokens that may be drawn as bits instead, one for each of the vocabulary: the first
    /// in the lowest bit of the first word.
    pub mask: Option<&'a [u32]>,
    /// Tokens that must not be drawn.
    pub banned: &'a [u32],
    /// How many of the most likely tokens to report.
    pub top: u32,
    /// A token to be measured instead of drawn.
    pub given: Option<u32>,
    /// Whether the token alone is wanted: its log-probability is reported as 0, and no exponentials
    /// are summed for it. Not with `top`.
    pub token_only: bool,
}

impl Draw<'_> {
    fn is_filtered(&self) -> bool {
        self.given.is_none() && self.temperature > 0.0 && (self.top_k.is_some() || self.top_p < 1.0 || self.min_p > 0.0)
    }

    fn is_edited(&self) -> bool {
        let has_lists = !self.bias.is_empty() || !self.banned.is_empty() || !self.counts.is_empty();
        self.given.is_none() && (has_lists || self.allowed.is_some() || self.mask.is_some())
    }
}

/// What is wanted of some rows, as kernels read it.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    records: Vec<u32>,
    lists: Vec<u32>,
    edited: u32,
    top: u32,
    filtered: bool,
}

impl Rows {
    /// Forgets all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.lists.clear();
        (self.edited, self.top, self.filtered) = (0, 0, false);
    }

    /// Rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len() / WORDS
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a row after the others.
    pub fn push(&mut self, draw: &Draw<'_>) {
        let mut record = [0; WORDS];
        let mut set = |word: Word, value: u32| record[word as usize] = value;
        set(Word::Temperature, draw.temperature.to_bits());
        set(Word::TopK, if draw.is_filtered() { draw.top_k.unwrap_or(0) } else { 0 });
        set(Word::TopP, if draw.is_filtered() { draw.top_p } else { 1.0 }.to_bits());
        set(Word::MinP, if draw.is_filtered() { draw.min_p } else { 0.0 }.to_bits());
        set(Word::SeedLow, (draw.seed & 0xffff_ffff) as u32);
        set(Word::SeedHigh, (draw.seed >> 32) as u32);
        set(Word::Position, draw.position);
        set(Word::Given, draw.given.unwrap_or(NONE));
        set(Word::Top, draw.top);
        set(Word::Edited, if draw.is_edited() { self.edited } else { NONE });
        set(Word::Repetition, draw.repetition_penalty.to_bits());
        set(Word::Frequency, draw.frequency_penalty.to_bits());
        set(Word::Presence, draw.presence_penalty.to_bits());
        set(
            Word::Rule,
            match draw {
                Draw { mask: Some(_), .. } => RULE_BITS,
                Draw { allowed: Some(_), .. } => RULE_LIST,
                _ => 0,
            },
        );
        set(Word::TokenOnly, (draw.token_only && draw.top == 0).into());
        if draw.is_edited() {
            self.edited += 1;
            // A token that is named twice gets the sum, and each list has a token once: kernels
            // take the entries of a list side by side.
            let mut bias = BTreeMap::new();
            draw.bias.iter().for_each(|(id, by)| *bias.entry(*id).or_insert(0.0_f32) += by);
            set(Word::Bias, self.lists.len() as u32);
            self.lists.extend(bias.into_iter().flat_map(|(id, by)| [id, by.to_bits()]));
            set(Word::Counts, self.lists.len() as u32);
            self.lists.extend(draw.counts.iter().flat_map(|(id, count)| [*id, *count]));
            let allowed = draw.allowed.filter(|_| draw.mask.is_none()).unwrap_or(&[]);
            for (word, ids) in [(Word::Banned, draw.banned), (Word::Allowed, allowed)] {
                set(word, self.lists.len() as u32);
                let first = self.lists.len();
                self.lists.extend(ids);
                self.lists[first..].sort_unstable();
                let mut last = None;
                let mut kept = first;
                for i in first..self.lists.len() {
                    let id = self.lists[i];
                    if last.replace(id) != Some(id) {
                        self.lists[kept] = id;
                        kept += 1;
                    }
                }
                self.lists.truncate(kept);
            }
            self.lists.extend(draw.mask.unwrap_or(&[]));
            set(Word::End, self.lists.len() as u32);
        }
        self.top = self.top.max(draw.top);
        self.filtered |= draw.is_filtered();
        self.records.extend(record);
    }

    /// Words that [`Rows::words`] gives.
    #[must_use]
    pub fn num_words(&self) -> usize {
        self.records.len() + self.lists.len()
    }

    /// Everything as one list of words; where lists begin counts from its beginning.
    pub fn words(&self, words: &mut Vec<u32>) {
        words.clear();
        words.extend(&self.records);
        for record in words.chunks_exact_mut(WORDS) {
            for word in [Word::Bias, Word::Counts, Word::Banned, Word::Allowed, Word::End] {
                record[word as usize] += self.records.len() as u32;
            }
        }
        words.extend(&self.lists);
    }

    /// The problem of these rows of a vocabulary.
    #[must_use]
    pub fn problem(&self, vocab: u64, alignment: u64) -> Problem {
        Problem {
            rows: self.len() as u64,
            vocab,
            edited: if self.edited == 0 { 0 } else { u64::from(self.edited).next_power_of_two() },
            top: if self.top == 0 { 0 } else { u64::from(self.top).next_power_of_two() },
            filtered: self.filtered,
            alignment,
        }
    }
}

/// The family of draws. Inputs: logits `[rows, vocab]` of `f32`, and all words of [`Rows`]. Output:
/// words, [`Problem::stride`] a row: the token, the bits of its log-probability, then pairs of the
/// same for the most likely tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample;

/// How many of everything. Numbers that change from step to step are rounded up, so that plans are
/// used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows.
    pub rows: u64,
    /// Logits of a row.
    pub vocab: u64,
    /// Rows with edits at most.
    pub edited: u64,
    /// The most likely tokens of a row at most.
    pub top: u64,
    /// Whether any row draws from a part of the tokens.
    pub filtered: bool,
    /// A power of two that the address of the logits is a multiple of, in bytes.
    pub alignment: u64,
}

impl Problem {
    /// Words of a row of the output.
    #[must_use]
    pub const fn stride(&self) -> u64 {
        2 + 2 * self.top
    }
}

params! {
    /// Parameters of the kernels.
    struct SampleArgs {
        logits: Global<f32>,
        /// What [`Rows::words`] gives.
        records: Global<u32>,
        /// Edited logits of the rows that have edits.
        edits: Option<Global<f32>>,
        /// What blocks found in their chunks.
        parts: Global<f64>, tokens: Global<u32>,
        /// Logits of a row.
        vocab: u32,
        /// Chunks of a row.
        chunks: u32,
        /// Words of a row of the output.
        stride: u32,
    }
}

/// What kernels are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kernel {
    Edit,
    Partial { wide: bool },
    Finish(draw::Finish),
}

impl Kernel {
    fn make(&self) -> AnyKernel {
        match *self {
            Self::Edit => edit::edit(),
            Self::Partial { wide } => draw::partial(wide),
            Self::Finish(finish) => draw::finish(finish),
        }
    }
}

impl Family for Sample {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        // THRESHOLD: larger vocabularies are refused, and more rows than a grid has in y; tested by
        // crates/kernels/tests/parts/choices.rs::vocabularies_and_rows_of_a_draw_are_those_that_a_grid_reaches
        const LIMIT: u64 = 1 << 24;
        let Problem { rows, vocab, edited, top, filtered, alignment } = *problem;
        if vocab == 0 {
            return Err(ErrorKind::Empty("sampling".to_owned()).into());
        }
        if vocab > LIMIT || rows > 65_535 {
            let (what, size, limit) =
                if vocab > LIMIT { ("a vocabulary", vocab, LIMIT) } else { ("the rows of a draw", rows, 65_535) };
            return Err(ErrorKind::TooLarge { what, size, limit }.into());
        }
        let wide = vocab.is_multiple_of(4) && alignment.is_multiple_of(16);
        let mut plan = Plan::new("sampling").choice(format_args!("{problem:?}"));
        let logits = OperandSpec::new("the logits", rows * vocab * 4, if wide { 16 } else { 4 });
        let logits = plan.add_input(logits);
        let records = plan.add_input(OperandSpec::new("the records", rows * WORDS as u64 * 4, 4));
        let tokens = plan.add_output(OperandSpec::new("the tokens", rows * problem.stride() * 4, 4));
        if rows == 0 {
            return Ok(plan);
        }
        let chunks = vocab.div_ceil(CHUNK.into());
        let args = SampleArgs::<Planned> {
            logits,
            records,
            edits: (edited > 0).then(|| plan.add_scratch(edited * vocab * 4)),
            parts: plan.add_scratch(rows * chunks * draw::PART_BYTES),
            tokens,
            vocab: vocab as u32,
            chunks: chunks as u32,
            stride: problem.stride() as u32,
        };
        let rows = grid_size(rows)?;
        let finish = draw::Finish { wide, filtered, top: top > 0, id_bits: search::id_bits(vocab) };
        let edit = (edited > 0).then_some((Kernel::Edit, LaunchConfig::new(rows, draw::BLOCK)));
        let partial = (Kernel::Partial { wide }, LaunchConfig::new((chunks as u32, rows), draw::PARTIAL_BLOCK));
        let finish = (Kernel::Finish(finish), LaunchConfig::new(rows, draw::BLOCK));
        for (kernel, launch) in edit.into_iter().chain([partial, finish]) {
            plan.steps.push(Step::new(planner.kernel(kernel, Kernel::make), launch).with(args)?);
        }
        Ok(plan)
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let finish = |wide, filtered, top| Kernel::Finish(draw::Finish { wide, filtered, top, id_bits: 20 });
    let finish = [finish(true, false, false), finish(true, true, true), finish(false, true, true)];
    let partial = [true, false].map(|wide| Kernel::Partial { wide });
    Shipped::each([Kernel::Edit].iter().chain(&finish).chain(&partial).map(Kernel::make))
}
