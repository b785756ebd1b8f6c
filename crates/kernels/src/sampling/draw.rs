//! The kernels that draw: parts of rows, then rows.
//!
//! Where all tokens may be drawn, the blocks of the first kernel find the best of their part: they
//! weigh tokens in `f32` first, and in `f64` those alone that may win.

use warpfold_lang::{Global, Val, Var, block_idx, kernel, loop_until_left, range, sync_threads, thread_idx, var, when};

use super::noise::{Noise, gumbel, gumbel_approx};
use super::row::{Record, TAKEN, Turn, each, turn, value};
use super::search::{Sums, id_of, rank, search};
use super::{CHUNK, NONE, SampleArgs, Word};
use crate::AnyKernel;
use crate::fold::{Extreme, Monoid, Position, Sum, fold_block_for_all};
use crate::overlap::overlap_launches;

/// Threads of the blocks of parts: each takes eight logits.
pub(super) const PARTIAL_BLOCK: u32 = CHUNK / TAKEN;
/// Threads of the blocks of rows.
pub(super) const BLOCK: u32 = 512;
/// The largest logit, the sum of exponentials, the best score, its token: `f64` each.
const PART: u32 = 4;
/// Bytes of a part.
pub(super) const PART_BYTES: u64 = 8 * PART as u64;
/// Binary places of a probability.
const PLACES: i32 = 40;

/// The best score and its token; of equals the lower.
#[derive(Debug, Clone, Copy)]
struct Best;

impl Monoid for Best {
    type Item = (Val<f64>, Val<u32>);
    type Acc = (Val<f64>, Val<u32>);
    type Output = (Val<f64>, Val<u32>);
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        (Val::constant(f64::NEG_INFINITY), Val::constant(NONE))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let is_right = right.0.gt(left.0) | (right.0.eq(left.0) & right.1.lt(left.1));
        (is_right.select(right.0, left.0), is_right.select(right.1, left.1))
    }

    fn lift(self, item: Self::Item, _: Position) -> Self::Acc {
        item
    }

    fn finish(self, acc: Self::Acc, _: Val<u64>) -> Self::Output {
        acc
    }
}

/// What exponentials are taken relative to: the largest logit, unless there is none.
fn shift_of(largest: Val<f32>) -> Val<f64> {
    largest.eq(f32::NEG_INFINITY).select(0.0_f64, largest.cast::<f64>())
}

/// How a row is drawn.
#[derive(Clone, Copy)]
struct Drawing {
    temperature: Val<f32>,
    noise: Noise,
}

impl Drawing {
    fn of(record: Record) -> Self {
        let seed = [record.word(Word::SeedLow), record.word(Word::SeedHigh)];
        Self {
            temperature: record.float(Word::Temperature),
            noise: Noise { seed, position: record.word(Word::Position) },
        }
    }

    fn scaled(self, logit: Val<f32>) -> Val<f64> {
        logit.cast::<f64>() / self.temperature.cast::<f64>()
    }

    fn score(self, logit: Val<f32>, word: Val<u32>) -> Val<f64> {
        self.scaled(logit) + gumbel(word)
    }
}

/// Whether a row draws from a part of the tokens.
fn is_filtered(record: Record) -> Val<bool> {
    record.word(Word::TopK).ne(0) | record.float(Word::TopP).lt(1.0) | record.float(Word::MinP).gt(0.0)
}

/// A block some logits of a row: their largest, the sum of their exponentials, and the best token
/// as far as it can be said without the others.
pub(super) fn partial(wide: bool) -> AnyKernel {
    let body = move |args: SampleArgs| {
        let SampleArgs { logits, records, edits, parts, vocab, chunks, .. } = args;
        overlap_launches();
        let (chunk, row, thread) = (block_idx().x, block_idx().y, thread_idx().x);
        let record = Record::of(records, row);
        let logits = logits.at(row.mul_wide(vocab));
        let mine = |logits: Global<f32>| turn(logits, chunk * CHUNK, thread, PARTIAL_BLOCK, vocab, wide);
        // What the model says
        let (model_largest, model_sum) = (var(f32::NEG_INFINITY), var(0.0_f64));
        when(record.is_measured(), || {
            let of_model = mine(logits);
            let lowest = Val::constant(f32::NEG_INFINITY);
            let largest = of_model.iter().fold(lowest, |max, (x, _, has)| has.select(max.max(*x), max));
            let largest = fold_block_for_all(Extreme::<f32>::max(), largest, PARTIAL_BLOCK);
            let shift = shift_of(largest);
            let exponential = |(x, _, has): &(Val<f32>, Val<u32>, Val<bool>)| {
                has.select((x.cast::<f64>() - shift).exp(), Val::constant(0.0_f64))
            };
            let sum = of_model.iter().map(exponential).reduce(|a, b| a + b).expect("a thread takes some");
            model_largest.set(largest);
            model_sum.set(fold_block_for_all(Sum::<f64>::new(), sum, PARTIAL_BLOCK));
        });
        // What is drawn
        let best = (var(f64::NEG_INFINITY), var(NONE));
        when(record.word(Word::Given).eq(NONE), || {
            let drawn = mine(record.drawn(logits, edits, vocab));
            let drawing = Drawing::of(record);
            let is_plain = drawing.temperature.eq(0.0) | is_filtered(record);
            when(is_plain, || {
                for (x, id, has) in &drawn {
                    take_better(best, x.cast::<f64>(), *id, *has);
                }
            });
            when(!is_plain, || draw_from(drawing, &drawn, wide, best));
        });
        let best = fold_block_for_all(Best, (best.0.get(), best.1.get()), PARTIAL_BLOCK);
        when(thread.eq(0), || {
            let part = parts.at((row.mul_wide(chunks) + chunk.cast::<u64>()) * u64::from(PART));
            let all = [model_largest.get().cast::<f64>(), model_sum.get(), best.0, best.1.cast::<f64>()];
            (0_u32..).zip(all).for_each(|(i, number)| part.at(i).set(number));
        });
    };
    let name = if wide { "sample_partial_wide" } else { "sample_partial" };
    kernel(name, body).required_block(PARTIAL_BLOCK).into()
}

fn take_better((score, token): (Var<f64>, Var<u32>), new: Val<f64>, id: Val<u32>, has: Val<bool>) {
    let is_better = has & (new.gt(score.get()) | (new.eq(score.get()) & id.lt(token.get())));
    score.set(is_better.select(new, score.get()));
    token.set(is_better.select(id, token.get()));
}

/// The best of a thread's tokens, if it may be that of the block: of each token a score in `f32`,
/// of those that are near the block's best the score in `f64`.
fn draw_from(drawing: Drawing, drawn: &Turn, wide: bool, best: (Var<f64>, Var<u32>)) {
    const FAR: f32 = 1e30;
    let random: Vec<Val<u32>> = if wide {
        drawn.chunks(4).flat_map(|four| drawing.noise.words(four[0].1 >> 2)).collect()
    } else {
        let word = |id: Val<u32>| {
            let words = drawing.noise.words(id >> 2);
            (0_u32..).zip(words).reduce(|a, b| (b.0, (id & 3).eq(b.0).select(b.1, a.1))).expect("four words").1
        };
        drawn.iter().map(|(_, id, _)| word(*id)).collect()
    };
    let over = drawing.temperature.recip();
    let rough: Vec<Var<f32>> = drawn
        .iter()
        .zip(&random)
        .map(|((x, _, has), word)| {
            let scaled = (*x * over).max(-FAR).min(FAR) + gumbel_approx(*word);
            // What is below all numbers cannot win over one, and is not looked at.
            var((*has & x.gt(f32::NEG_INFINITY)).select(scaled, f32::NEG_INFINITY))
        })
        .collect();
    let largest = rough.iter().map(|rough| rough.get()).reduce(|a, b| a.max(b)).expect("a thread takes some");
    let largest = fold_block_for_all(Extreme::<f32>::max(), largest, PARTIAL_BLOCK);
    // Twice what `gumbel_approx` and the scaling in `f32` may err by.
    let limit = largest - ((largest.abs() + 32.0) * 4e-6 + 1e-3);
    loop_until_left(|search| {
        let next = rough.iter().map(|rough| rough.get()).reduce(|a, b| a.max(b)).expect("a thread takes some");
        search.leave_if(next.eq(f32::NEG_INFINITY) | next.lt(limit));
        let (x, id, word) = (var(0.0_f32), var(0_u32), var(0_u32));
        let is_taken = var(0_u32);
        for (rough, ((logit, token, _), random)) in rough.iter().zip(drawn.iter().zip(&random)) {
            let is_it = rough.get().eq(next) & is_taken.get().eq(0);
            x.set(is_it.select(*logit, x.get()));
            id.set(is_it.select(*token, id.get()));
            word.set(is_it.select(*random, word.get()));
            is_taken.set(is_it.select(1_u32, is_taken.get()));
            rough.set(is_it.select(f32::NEG_INFINITY, rough.get()));
        }
        take_better(best, drawing.score(x.get(), word.get()), id.get(), Val::constant(true));
    });
}

/// What decides on the code of the last kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Finish {
    pub(super) wide: bool,
    /// Whether rows draw from a part of the tokens.
    pub(super) filtered: bool,
    /// Whether rows want their most likely tokens.
    pub(super) top: bool,
    pub(super) id_bits: u32,
}

impl Finish {
    fn name(self) -> String {
        let Self { wide, filtered, top, id_bits } = self;
        let options = [(wide, "_wide"), (filtered, "_filtered"), (top, "_top")];
        let options: String = options.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        format!("sample_finish_{id_bits}{options}")
    }
}

/// A block per row: puts its parts together, draws where thresholds decide, and reports.
pub(super) fn finish(finish: Finish) -> AnyKernel {
    let body = move |args: SampleArgs| {
        let SampleArgs { logits, records, edits, parts, tokens, vocab, chunks, stride } = args;
        overlap_launches();
        let (row, thread) = (block_idx().x, thread_idx().x);
        let record = Record::of(records, row);
        let logits = logits.at(row.mul_wide(vocab));
        let tokens = tokens.at(row.mul_wide(stride));
        let part = |chunk: Val<u32>, i: u32| {
            parts.at((row.mul_wide(chunks) + chunk.cast::<u64>()) * u64::from(PART)).at(i).get()
        };
        // Parts
        let largest = var(f32::NEG_INFINITY);
        let best = (var(f64::NEG_INFINITY), var(NONE));
        range(thread, chunks, BLOCK, |chunk| {
            largest.set(largest.get().max(part(chunk, 0).cast::<f32>()));
            take_better(best, part(chunk, 2), part(chunk, 3).cast::<u32>(), Val::constant(true));
        });
        let total = var(0.0_f64);
        when(record.is_measured(), || {
            let shift = shift_of(fold_block_for_all(Extreme::<f32>::max(), largest.get(), BLOCK));
            let sum = var(0.0_f64);
            range(thread, chunks, BLOCK, |chunk| {
                let of_part = shift_of(part(chunk, 0).cast::<f32>());
                sum.add_assign(part(chunk, 1) * (of_part - shift).exp());
            });
            total.set(shift + fold_block_for_all(Sum::<f64>::new(), sum.get(), BLOCK).ln());
        });
        let found = fold_block_for_all(Best, (best.0.get(), best.1.get()), BLOCK);
        let token = var(found.1);
        if finish.filtered {
            let is_drawn = record.word(Word::Given).eq(NONE) & record.float(Word::Temperature).gt(0.0);
            when(is_drawn & is_filtered(record), || {
                let row = record.drawn(logits, edits, vocab);
                token.set(draw_filtered(finish, record, row, vocab, found));
            });
        }
        // Report
        let logprob =
            |id: Val<u32>| (value(logits.at(id).get()).cast::<f64>() - total.get()).cast::<f32>().bitcast::<u32>();
        when(thread.eq(0), || {
            let given = record.word(Word::Given);
            // Where every logit is below all numbers, the first token is as good as any.
            let token = token.get().eq(NONE).select(0_u32, token.get());
            let token = given.eq(NONE).select(token, given);
            tokens.at(0_u32).set(token);
            tokens.at(1_u32).set(record.is_measured().select(logprob(token), 0_u32));
        });
        if finish.top {
            // Rows that want fewer have zeros where others have tokens.
            let wanted = record.word(Word::Top).min(vocab) * 2 + 2;
            range(wanted + thread, stride, BLOCK, |i| tokens.at(i).set(0_u32));
            report_top(finish, logits, vocab, record.word(Word::Top).min(vocab), |place, id| {
                tokens.at(place * 2 + 2).set(id);
                tokens.at(place * 2 + 3).set(logprob(id));
            });
        }
    };
    kernel(finish.name(), body).required_block(BLOCK).into()
}

/// The most likely tokens, one after the other.
fn report_top(
    finish: Finish,
    logits: Global<f32>,
    vocab: Val<u32>,
    num: Val<u32>,
    report: impl FnOnce(Val<u32>, Val<u32>),
) {
    let last = var(u64::MAX);
    range(0_u32, num, 1_u32, |place| {
        let next = var(0_u64);
        each(logits, thread_idx().x, BLOCK, vocab, finish.wide, |turn| {
            for (x, id, has) in turn {
                let rank = rank(x, id, finish.id_bits);
                next.set((has & rank.lt(last.get()) & rank.gt(next.get())).select(rank, next.get()));
            }
        });
        let next = fold_block_for_all(Extreme::<u64>::max(), next.get(), BLOCK);
        when(thread_idx().x.eq(0), || report(place, id_of(next, finish.id_bits)));
        last.set(next);
        sync_threads();
    });
}

/// The token of a row that draws from a part of the tokens. `found` is the most likely one.
fn draw_filtered(
    finish: Finish,
    record: Record,
    row: Global<f32>,
    vocab: Val<u32>,
    found: (Val<f64>, Val<u32>),
) -> Val<u32> {
    let (Finish { wide, id_bits, .. }, thread) = (finish, thread_idx().x);
    let drawing = Drawing::of(record);
    let largest = drawing.scaled(found.0.cast::<f32>());
    let one = 2_f64.powi(PLACES);
    // Whole numbers: their sums are the same in any order.
    let weight = |logit: Val<f32>| {
        let relative = drawing.scaled(logit) - largest;
        let weight = (relative.exp() * one).cast::<u64>();
        relative.is_nan().select(0_u64, weight)
    };
    let walk = |body: &dyn Fn(Turn)| each(row, thread, BLOCK, vocab, wide, body);
    let sums = Sums::new(BLOCK / 32);
    let threshold = var(0_u64);
    let top_k = record.word(Word::TopK);
    when(top_k.ne(0) & top_k.lt(vocab), || {
        threshold.set(search(sums, id_bits, top_k.cast::<u64>(), walk, |_, _| Val::constant(1_u64)));
    });
    let top_p = record.float(Word::TopP);
    when(top_p.lt(1.0), || {
        let least = threshold.get();
        let kept = |logit: Val<f32>, rank: Val<u64>| rank.ge(least).select(weight(logit), 0_u64);
        let all = var(0_u64);
        walk(&|turn: Turn| {
            for (x, id, has) in turn {
                all.add_assign(has.select(kept(x, rank(x, id, id_bits)), 0_u64));
            }
        });
        let all = fold_block_for_all(Sum::<u64>::new(), all.get(), BLOCK);
        let wanted = (top_p.cast::<f64>() * all.cast::<f64>()).ceil().cast::<u64>();
        let of_weights = search(sums, id_bits, wanted, walk, kept);
        threshold.set(of_weights.max(least));
    });
    let min_p = record.float(Word::MinP);
    let least = (min_p.cast::<f64>() * one).ceil().cast::<u64>();
    let best = (var(f64::NEG_INFINITY), var(NONE));
    walk(&|turn: Turn| {
        // Few are left: one after the other they take the code of one.
        let left = var(0_u32);
        for (bit, (x, id, has)) in (0_u32..).zip(&turn) {
            let is_kept = *has & rank(*x, *id, id_bits).ge(threshold.get());
            left.set(left.get() | is_kept.select(1_u32 << bit, 0_u32));
        }
        loop_until_left(|tokens| {
            tokens.leave_if(left.get().eq(0));
            let bit = left.get().ctz();
            left.set(left.get() & (left.get() - 1));
            let pick = |a: (Val<f32>, Val<u32>), (i, b): (u32, (Val<f32>, Val<u32>))| {
                let is_it = bit.eq(i);
                (is_it.select(b.0, a.0), is_it.select(b.1, a.1))
            };
            let all = (0_u32..).zip(turn.iter().map(|(x, id, _)| (*x, *id)));
            let (x, id) = all.fold((turn[0].0, turn[0].1), pick);
            let words = drawing.noise.words(id >> 2);
            let word = (0_u32..).zip(words).fold(words[0], |a, (i, b)| (id & 3).eq(i).select(b, a));
            let is_likely = min_p.eq(0.0) | weight(x).ge(least);
            take_better(best, drawing.score(x, word), id, is_likely);
        });
    });
    let drawn = fold_block_for_all(Best, (best.0.get(), best.1.get()), BLOCK);
    // The most likely token stays whatever is asked for.
    drawn.1.eq(NONE).select(found.1, drawn.1)
}
