//! A row of logits and its record, and how threads walk over it.

use warpfold_lang::{Global, Val, range};

use super::{NONE, WORDS, Word};
use crate::Dtype;
use crate::elements::load;

/// The record of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record(Global<u32>);

impl Record {
    pub(super) fn of(records: Global<u32>, row: Val<u32>) -> Self {
        Self(records.at(row.mul_wide(WORDS as u32)))
    }

    pub(super) fn word(self, word: Word) -> Val<u32> {
        self.0.at(word as u32).get()
    }

    pub(super) fn float(self, word: Word) -> Val<f32> {
        self.word(word).bitcast()
    }

    /// Whether log-probabilities are reported.
    pub(super) fn is_measured(self) -> Val<bool> {
        self.word(Word::TokenOnly).eq(0)
    }

    /// The logits that tokens are drawn from: the edited ones where there are some.
    pub(super) fn drawn(self, logits: Global<f32>, edits: Global<f32>, vocab: Val<u32>) -> Global<f32> {
        let edited = self.word(Word::Edited);
        let away = edits.at(edited.mul_wide(vocab)).address() - logits.address();
        logits.reinterpret::<u8>().at(edited.ne(NONE).select(away, 0_u64)).reinterpret()
    }
}

/// What is no number cannot be drawn; the two zeros are one.
pub(super) fn value(logit: Val<f32>) -> Val<f32> {
    logit.is_nan().select(f32::NEG_INFINITY, logit + 0.0)
}

/// Logits that a thread takes at a time.
pub(super) const TAKEN: u32 = 8;

/// The logits of a thread's turn: values, tokens, and whether there is one.
pub(super) type Turn = Vec<(Val<f32>, Val<u32>, Val<bool>)>;

/// Loads a turn: two times four neighbours, `threads` times four apart, or, where they are not
/// aligned, eight logits `threads` apart.
pub(super) fn turn(
    row: Global<f32>,
    first: Val<u32>,
    thread: Val<u32>,
    threads: u32,
    end: Val<u32>,
    wide: bool,
) -> Turn {
    let (num, width) = if wide { (TAKEN / 4, 4) } else { (TAKEN, 1) };
    let mut turn = Vec::new();
    for i in 0..num {
        let id = first + (thread + i * threads) * width;
        let has = id.lt(end);
        // Rows of whole fours have all of four neighbours or none.
        let safe = has.select(id, 0_u32);
        let from = row.at(safe).reinterpret::<u8>();
        let values = load::<f32, _>(Dtype::F32, from, width, wide);
        turn.extend((0..width).zip(values).map(|(i, x)| (value(x), id + i, has)));
    }
    turn
}

/// Walks over a row with all threads of a block.
pub(super) fn each(
    row: Global<f32>,
    thread: Val<u32>,
    threads: u32,
    vocab: Val<u32>,
    wide: bool,
    body: impl FnOnce(Turn),
) {
    range(0_u32, vocab, threads * TAKEN, |first| body(turn(row, first, thread, threads, vocab, wide)));
}
