//! The contract: no bit of a row depends on the batch, on how queries are chunked, or on where keys
//! lie; of every combination of element types.

use warpfold::{PageLayout, Tensor};
use warpfold_kernels::attention::segment_keys;

use crate::attention::sequences::{
    Bits, Pool, Sequence, Types, alone, concatenated, narrow_cache, of_all_types, offsets, packed_row, row,
    with_options,
};
use crate::attention::support::{is_clean, on_every_device, random, same};

#[test]
fn prefill_chunks_and_decode_give_the_same_bits() {
    of_all_types(|device, types| {
        let len = segment_keys(16, 16) as usize + 40;
        let sequence = Sequence::new(device, types, 1, len);
        // Few rows in all: the last 75 queries at once, and then in chunks and one by one.
        let first = len - 75;
        let whole = alone(&sequence, first, len);
        let mut from = first;
        for chunk in [1, 31, 1, 33, 9] {
            let part = alone(&sequence, from, from + chunk);
            let is_same = |i: usize| row(&part, i) == row(&whole, from + i - first);
            (0..chunk).for_each(|i| assert!(is_same(i), "{types:?}, query {}", from + i));
            from += chunk;
        }
        assert_eq!(from, len);
        // A short sequence whole, against each of its queries alone.
        let sequence = Sequence::new(device, types, 2, 70);
        let whole = alone(&sequence, 0, 70);
        for i in [0, 1, 30, 31, 32, 63, 64, 69] {
            assert!(row(&alone(&sequence, i, i + 1), 0) == row(&whole, i), "{types:?}, query {i}");
        }
        is_clean(device);
    });
}

#[test]
fn a_cache_of_eight_bits_gives_the_bits_of_its_elements_in_sixteen_for_prefill_and_for_decode() {
    on_every_device(|device, dtypes| {
        for queries in dtypes.iter().copied().chain([warpfold::Dtype::Bf16]) {
            let types = narrow_cache(queries);
            for len in [1, 70, segment_keys(16, 16) as usize + 40] {
                let sequence = Sequence::new(&device, types, 5, len);
                let wide = sequence.dequantised();
                // Queries for one warpgroup, and for two.
                for num in [1, 40, 90] {
                    let from = len.saturating_sub(num);
                    let dequantised = with_options(&types.options(), &wide, from, len);
                    let what = format!("{types:?}: {num} queries of {len} tokens");
                    same(&what, &alone(&sequence, from, len), &dequantised);
                }
            }
            is_clean(&device);
        }
    });
}

/// Sequences in some order, each with some of its last queries: what every one of them gives as
/// pages, as packed keys, with a list of where queries begin and without.
fn any_batch(device: &warpfold::Device, types: Types, rounds: std::ops::Range<usize>) {
    let lens = [1, 17, 33, 64, 130, segment_keys(16, 16) as usize + 3];
    let new = |(i, len): (usize, &usize)| Sequence::new(device, types, 10 + i, *len);
    let all: Vec<Sequence> = lens.iter().enumerate().map(new).collect();
    let of_last = |sequence: &Sequence| row(&alone(sequence, sequence.len() - 1, sequence.len()), 0);
    let last: Vec<Bits> = all.iter().map(of_last).collect();
    for round in rounds {
        let mut chosen: Vec<usize> = (0..all.len()).filter(|i| round == 0 || random(round, *i) > -0.3).collect();
        if round % 2 == 1 {
            chosen.reverse();
        }
        let sequences: Vec<&Sequence> = chosen.iter().map(|i| &all[*i]).collect();
        let kv_lens: Vec<usize> = sequences.iter().map(|sequence| sequence.len()).collect();
        let layout = if round % 2 == 0 { PageLayout::Nhd } else { PageLayout::Hnd };
        let pool = Pool::new(device, round, &sequences, layout);
        let options = types.options().page_layout(layout);
        let concatenated_of = |of: fn(&Sequence) -> &Tensor| {
            concatenated(device, &sequences.iter().map(|sequence| of(sequence).clone()).collect::<Vec<_>>())
        };
        let (k, v) = (concatenated_of(|sequence| &sequence.k), concatenated_of(|sequence| &sequence.v));
        // One of them may have none.
        let num = |s: usize| ((random(40 + round, s).abs() * 40.0) as usize).min(kv_lens[s]);
        let mixed: Vec<usize> = (0..sequences.len()).map(num).collect();
        for (what, queries) in [("decode", vec![1; sequences.len()]), ("mixed", mixed)] {
            let what = format!("{types:?}, {what} {round}");
            let parts: Vec<Tensor> = sequences
                .iter()
                .zip(&queries)
                .filter(|(_, num)| **num > 0)
                .map(|(sequence, num)| sequence.q.slice(0, sequence.len() - num..).unwrap())
                .collect();
            let q = concatenated(device, &parts);
            let cu_seqlens = offsets(device, &queries);
            let attended = options.run_paged(&q, pool.pages(), Some(&cu_seqlens)).unwrap();
            let packed = options.run_packed([&q, &k, &v], &cu_seqlens, &offsets(device, &kv_lens), 2000).unwrap();
            same(&format!("{what}: pages and packed keys"), &attended, &packed);
            if queries.iter().all(|num| *num == 1) {
                let each = options.run_paged(&q, pool.pages(), None).unwrap();
                same(&format!("{what}: with and without a list"), &attended, &each);
            }
            let mut end = 0;
            for (s, num) in queries.iter().enumerate() {
                end += num;
                let is_same = *num == 0 || packed_row(&attended, end - 1) == last[chosen[s]];
                assert!(is_same, "{what}: sequence {s} of {kv_lens:?} with {queries:?}");
            }
        }
    }
    is_clean(device);
}

#[test]
fn in_any_batch_and_any_pages_of_a_pool_of_nan_a_row_has_the_bits_that_it_has_alone() {
    of_all_types(|device, types| {
        let is_usual = types.queries == warpfold::Dtype::F16 && types.keys == types.queries;
        any_batch(device, types, if is_usual { 0..4 } else { 1..3 });
    });
}
