//! The kernel that edits logits: a block per row, in memory of its own.

use warpfold_lang::{Val, block_idx, kernel, range, sync_threads, thread_idx, when, when_else};

use super::draw::BLOCK;
use super::row::{Record, value};
use super::{NONE, RULE_BITS, RULE_LIST, SampleArgs, Word};
use crate::AnyKernel;
use crate::overlap::overlap_launches;

/// Allowed ids, bias, penalties, bans, in this order.
pub(super) fn edit() -> AnyKernel {
    let body = move |args: SampleArgs| {
        let SampleArgs { logits, records, edits, vocab, .. } = args;
        overlap_launches();
        let (row, thread) = (block_idx().x, thread_idx().x);
        let record = Record::of(records, row);
        let edited = record.word(Word::Edited);
        when(edited.ne(NONE), || {
            let (from, to) = (logits.at(row.mul_wide(vocab)), edits.at(edited.mul_wide(vocab)));
            let start = |word: Word| record.word(word);
            let list = |first: Word, end: Word, words: u32, body: &dyn Fn(Val<u32>)| {
                range(start(first) + thread * words, start(end), BLOCK * words, body);
                sync_threads();
            };
            let rule = record.word(Word::Rule);
            when_else(
                rule.eq(RULE_BITS),
                || {
                    let bits = records.at(start(Word::Allowed));
                    range(thread, vocab, BLOCK, |id| {
                        let may_come = (bits.at(id / 32).get() >> (id % 32) & 1).ne(0);
                        to.at(id).set(may_come.select(value(from.at(id).get()), f32::NEG_INFINITY));
                    });
                },
                || {
                    range(thread, vocab, BLOCK, |id| {
                        when_else(
                            rule.eq(RULE_LIST),
                            || to.at(id).set(f32::NEG_INFINITY),
                            || to.at(id).set(value(from.at(id).get())),
                        );
                    });
                },
            );
            sync_threads();
            let end = rule.eq(RULE_LIST).select(start(Word::End), start(Word::Allowed));
            range(start(Word::Allowed) + thread, end, BLOCK, |i| {
                let id = records.at(i).get();
                to.at(id).set(value(from.at(id).get()));
            });
            sync_threads();
            list(Word::Bias, Word::Counts, 2, &|i| {
                let (logit, by) = (to.at(records.at(i).get()), records.at(i + 1).get().bitcast::<f32>());
                logit.set(logit.get() + by);
            });
            list(Word::Counts, Word::Banned, 2, &|i| {
                let (logit, count) = (to.at(records.at(i).get()), records.at(i + 1).get());
                let (x, repetition) = (logit.get(), record.float(Word::Repetition));
                let x = x.gt(0.0).select(x / repetition, x * repetition);
                let x = x - record.float(Word::Frequency) * count.cast::<f32>();
                logit.set(x - count.gt(0).select(record.float(Word::Presence), 0.0));
            });
            list(Word::Banned, Word::Allowed, 1, &|i| to.at(records.at(i).get()).set(f32::NEG_INFINITY));
        });
    };
    kernel("sample_edit", body).required_block(BLOCK).into()
}
