//! Options where blocks share keys, and over pages of every combination of element types.

use warpfold::{Attention, Dtype, PageLayout, Score, Tensor};
use warpfold_kernels::attention::segment_keys;

use crate::attention::options::{HIDDEN, check, sees, sizes};
use crate::attention::reference::{At, Sizes, no_sink};
use crate::attention::sequences::{
    HEADS, Pool, Sequence, concatenated, of_some_types, offsets, packed_row, row, with_options,
};
use crate::attention::support::{is_clean, on_every_device, tensor, values};

#[test]
fn options_hold_where_blocks_share_keys() {
    on_every_device(|device, dtypes| {
        let (len, keys) = (2, 2 * segment_keys(8, 8) as usize + 52);
        let sizes = Sizes { batch: 1, ..sizes([3, 1], [len, keys], [8, 8]) };
        let mask = tensor(&device, 9, Dtype::F32, &[len, keys]);
        let of_mask = values(&mask);
        // The first query sees nothing of the first segment, the second nothing but the last key.
        let is_seen = |at: At| if at.query == 0 { at.key >= 1100 } else { at.key == keys - 1 };
        let truths: Vec<u8> = (0..len * keys)
            .map(|i| u8::from(is_seen(At { batch: 0, head: 0, query: i / keys, key: i % keys })))
            .collect();
        let truths = Tensor::from_bytes(mask.queue(), Dtype::Bool, &truths, &[len, keys]).unwrap();
        let sinks = Tensor::from_slice(&[7.0_f32, f32::NEG_INFINITY, -2.0], &[3], &device).unwrap();
        let of_sinks = values(&sinks);
        let alibi = Score::new(|score, at| score - (at.query - at.key).cast::<f32>() * 0.01);
        let causal = |at: At| sees(Some(true), sizes, at);
        let distance = |at: At| at.query as f64 + (keys - len) as f64 - at.key as f64;
        for dtype in dtypes.iter().copied() {
            let check = |options: &Attention<'_>, score: &dyn Fn(f64, At) -> f64| {
                check(&device, dtype, sizes, options, score, no_sink);
            };
            let seen = |s: f64, is_seen: bool| if is_seen { s } else { HIDDEN };
            let attention = Attention::new;
            check(&attention().causal(), &|s, at| seen(s, causal(at)));
            for window in [1, 20, 1100, 2000] {
                let options = attention().causal().window(window);
                check(&options, &|s, at| seen(s, causal(at) && distance(at) < window as f64));
            }
            check(&attention().softcap(0.4), &|s, _| 0.4 * (s / 0.4).tanh());
            check(&attention().mask(&mask), &|s, at| s + of_mask[at.query * keys + at.key]);
            check(&attention().mask(&truths), &|s, at| seen(s, is_seen(at)));
            check(&attention().causal().score(&alibi), &|s, at| seen(s - 0.01 * distance(at), causal(at)));
            let sink = |head: usize| of_sinks[head];
            crate::attention::options::check(&device, dtype, sizes, &attention().sinks(&sinks), |s, _| s, sink);
        }
    });
}

#[test]
fn options_over_pages_give_the_bits_that_they_give_over_tensors() {
    of_some_types(0, |device, types| {
        let all = [17, 150].map(|len| Sequence::new(device, types, len, len));
        let queries = [1, 35];
        let of_last = |(sequence, num): (&Sequence, usize)| sequence.q.slice(0, sequence.len() - num..).unwrap();
        let q = concatenated(device, &all.iter().zip(queries).map(of_last).collect::<Vec<_>>());
        let cu_seqlens = offsets(device, &queries);
        let sinks = Tensor::from_slice(&[0.5_f32, -2.0, 3.0, 0.0], &[HEADS], device).unwrap();
        let score = Score::new(|score, at| score - (at.query - at.key).cast::<f32>() * 0.25);
        let of_pages: Vec<(&str, Attention<'_>)> = vec![
            ("a small window", types.options().window(5)),
            ("a window over tiles", types.options().window(133)),
            ("a soft cap", types.options().softcap(0.7).scale(1.3)),
            ("sinks", types.options().sinks(&sinks)),
            ("a function of scores", types.options().score(&score)),
        ];
        for (i, (what, options)) in of_pages.iter().enumerate() {
            let layout = if i % 2 == 0 { PageLayout::Hnd } else { PageLayout::Nhd };
            let pool = Pool::new(device, i, &all.each_ref(), layout);
            let attended = options.clone().page_layout(layout).run_paged(&q, pool.pages(), Some(&cu_seqlens)).unwrap();
            let mut first = 0;
            for (sequence, num) in all.iter().zip(queries) {
                let alone = with_options(options, sequence, sequence.len() - num, sequence.len());
                let is_same = |i: usize| packed_row(&attended, first + i) == row(&alone, i);
                (0..num).for_each(|i| assert!(is_same(i), "{types:?}, {what}: query {i} of {num}"));
                first += num;
            }
        }
        is_clean(device);
    });
}
