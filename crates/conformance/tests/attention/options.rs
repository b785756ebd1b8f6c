//! Every option against the reference, at the lengths around every boundary.

use warpfold::{Attention, Device, Dtype, HeadLayout, Score, Tensor};
use warpfold_device::Severity;

use crate::attention::reference::{At, Sizes, attention, no_sink};
use crate::attention::support::{agrees, device, ints, is_clean, on_every_device, same, tensor, tolerance, values};

pub(crate) const HIDDEN: f64 = f64::NEG_INFINITY;

pub(crate) fn sizes(heads: [usize; 2], [len, keys]: [usize; 2], [dim, value_dim]: [usize; 2]) -> Sizes {
    Sizes { batch: 2, heads: heads[0], kv_heads: heads[1], len, keys, dim, value_dim }
}

/// Queries, keys and values.
pub(crate) fn inputs(device: &Device, dtype: Dtype, sizes: Sizes) -> [Tensor; 3] {
    let Sizes { batch, heads, kv_heads, len, keys, dim, value_dim } = sizes;
    [
        tensor(device, 1, dtype, &[batch, heads, len, dim]),
        tensor(device, 2, dtype, &[batch, kv_heads, keys, dim]),
        tensor(device, 3, dtype, &[batch, kv_heads, keys, value_dim]),
    ]
}

/// Runs an attention and compares; `score` is what the reference makes of the scaled product.
#[track_caller]
pub(crate) fn check(
    device: &Device,
    dtype: Dtype,
    sizes: Sizes,
    options: &Attention<'_>,
    score: impl Fn(f64, At) -> f64,
    sink: impl Fn(usize) -> f64,
) {
    let [q, k, v] = inputs(device, dtype, sizes);
    let what = format!("{dtype} {sizes:?}");
    let attended = options.run(&q, &k, &v).unwrap_or_else(|error| panic!("{what}: {error}"));
    let scale = 1.0 / (sizes.dim as f64).sqrt();
    let of = |dot: f64, at: At| score(dot * scale, at);
    let expected = attention(sizes, [&values(&q), &values(&k), &values(&v)], of, sink);
    agrees(&what, &attended, &expected, sizes);
    is_clean(device);
}

/// Which keys a causal query sees: those up to itself, counted from either corner.
pub(crate) fn sees(corner: Option<bool>, sizes: Sizes, at: At) -> bool {
    match corner {
        None => true,
        Some(true) => at.key + sizes.len <= at.query + sizes.keys,
        Some(false) => at.key <= at.query,
    }
}

pub(crate) fn causal<'a>(corner: Option<bool>) -> Attention<'a> {
    match corner {
        None => Attention::new(),
        Some(true) => Attention::new().causal(),
        Some(false) => Attention::new().causal_top_left(),
    }
}

pub(crate) const CORNERS: [Option<bool>; 3] = [None, Some(true), Some(false)];

#[test]
fn lengths_around_tiles_and_segments_and_nothing_at_all() {
    on_every_device(|device, dtypes| {
        for keys in [0, 1, 31, 32, 33, 63, 65, 127, 128, 129, 1023, 1024, 1025, 2080] {
            for len in [0, 1, 31, 33, 65] {
                for corner in CORNERS {
                    if keys > 1000 && (len == 31 || len == 65 || corner == Some(false)) {
                        continue;
                    }
                    let sizes = Sizes { batch: 1, ..sizes([2, 1], [len, keys], [8, 8]) };
                    let score = |s: f64, at: At| if sees(corner, sizes, at) { s } else { HIDDEN };
                    for dtype in dtypes.iter().copied() {
                        check(&device, dtype, sizes, &causal(corner), score, no_sink);
                    }
                }
            }
        }
    });
}

#[test]
fn head_sizes_of_keys_and_of_values_that_differ() {
    on_every_device(|device, dtypes| {
        let equal = [1, 16, 40, 64, 80, 96, 128, 256].map(|dim| [dim, dim]);
        for dims in equal.into_iter().chain([[1, 256], [256, 1], [40, 80], [128, 64], [7, 33], [64, 128]]) {
            for dtype in
                [Dtype::F32, Dtype::Bf16].into_iter().filter(|dtype| *dtype == Dtype::Bf16 || dtypes.contains(dtype))
            {
                check(&device, dtype, sizes([2, 1], [3, 45], dims), &Attention::new(), |s, _| s, no_sink);
            }
        }
        // No multiples of 16, over tiles of rows and of keys and one more of each.
        for dims in [[7, 33], [20, 100], [136, 200], [255, 129]] {
            let sizes = Sizes { batch: 1, ..sizes([2, 1], [33, 129], dims) };
            for dtype in dtypes.iter().copied() {
                check(&device, dtype, sizes, &Attention::new(), |s, _| s, no_sink);
            }
        }
    });
}

#[test]
fn groups_of_heads_of_any_ratio() {
    on_every_device(|device, _| {
        for group in 1..=16 {
            for len in [1, 5] {
                let sizes = sizes([2 * group, 2], [len, 70], [16, 16]);
                let score = |s: f64, at: At| if sees(Some(true), sizes, at) { s } else { HIDDEN };
                check(&device, Dtype::F16, sizes, &causal(Some(true)), score, no_sink);
            }
        }
    });
}

#[test]
fn windows_smaller_than_a_tile_and_larger_than_a_segment() {
    on_every_device(|device, dtypes| {
        for (window, keys) in [
            (1, 70),
            (5, 70),
            (31, 70),
            (32, 70),
            (33, 70),
            (100, 300),
            (128, 300),
            (5, 129),
            (127, 129),
            (129, 257),
            (usize::MAX >> 33, 70),
            (1030, 2100),
        ] {
            for corner in CORNERS {
                if keys > 1000 && corner == Some(false) {
                    continue;
                }
                let sizes = Sizes { batch: 1, ..sizes([2, 2], [37, keys], [8, 8]) };
                let score = |s: f64, at: At| {
                    // The last query stands at the last key, unless the first stands at the first.
                    let offset = if corner == Some(false) { 0 } else { keys as i64 - 37 };
                    let distance = at.query as i64 + offset - at.key as i64;
                    let is_near = distance < window as i64 && (corner.is_some() || -distance < window as i64);
                    if is_near && sees(corner, sizes, at) { s } else { HIDDEN }
                };
                for dtype in dtypes.iter().copied() {
                    check(&device, dtype, sizes, &causal(corner).window(window), score, no_sink);
                }
            }
        }
    });
}

/// Keys and values of more bytes than L2 is trusted to hold: heads go by sections, of which the
/// last is smaller. One key stands for all of a head, and a window hides all but a few.
#[test]
fn heads_whose_keys_l2_does_not_hold_at_once_are_those_that_they_are_alone() {
    on_every_device(|device, _| {
        let (heads, len, keys) = (7, 3, 1 << 15);
        let all = |x: &Tensor| x.broadcast(&[1, x.shape()[1], keys, 64]).unwrap();
        let q = tensor(&device, 1, Dtype::F16, &[1, heads, len, 64]);
        let [k, v] = [2, 3].map(|seed| tensor(&device, seed, Dtype::F16, &[1, heads, 1, 64]));
        let attention = Attention::new().causal().window(40);
        // 7 times 8 MiB, of which 24 are a section.
        let together = attention.run(&q, &all(&k), &all(&v)).unwrap();
        for head in [0, 3, 4, 6] {
            let part = |x: &Tensor| x.slice(1, head..head + 1).unwrap();
            let alone = attention.run(&part(&q), &all(&part(&k)), &all(&part(&v))).unwrap();
            assert_eq!(values(&part(&together.output)), values(&alone.output), "head {head}");
        }
        is_clean(&device);
    });
}

#[test]
fn windows_of_two_sides_around_tiles_and_segments() {
    on_every_device(|device, dtypes| {
        for (left, right, keys) in [
            (Some(0), Some(0), 70),
            (Some(3), Some(40), 129),
            (Some(40), None, 129),
            (None, Some(0), 70),
            (None, Some(17), 129),
            (Some(1100), Some(3), 2100),
        ] {
            for corner in [None, Some(true)] {
                let sizes = Sizes { batch: 1, ..sizes([2, 2], [37, keys], [8, 8]) };
                let score = |s: f64, at: At| {
                    let before = (at.query + keys - 37) as i64 - at.key as i64;
                    let is_near = left.is_none_or(|left| before <= left as i64)
                        && right.is_none_or(|right| -before <= right as i64);
                    if is_near && sees(corner, sizes, at) { s } else { HIDDEN }
                };
                let attention = left.into_iter().fold(causal(corner), Attention::window_left);
                let attention = right.into_iter().fold(attention, Attention::window_right);
                for dtype in dtypes.iter().copied() {
                    check(&device, dtype, sizes, &attention, score, no_sink);
                }
            }
        }
    });
}

#[test]
fn masks_of_every_shape_that_repeats() {
    on_every_device(|device, dtypes| {
        let sizes = sizes([4, 2], [5, 70], [16, 16]);
        let whole = [sizes.batch, sizes.heads, sizes.len, sizes.keys];
        for case in 0..16_usize {
            let shape: Vec<usize> = (0..4).map(|i| if case >> i & 1 == 1 { whole[i] } else { 1 }).collect();
            let dtype = [Dtype::F32, Dtype::F16, Dtype::Bf16][case % 3];
            let is_bool = case % 4 >= 2;
            let numbers = tensor(&device, 9 + case, dtype, &shape);
            let mask = if is_bool {
                let truths: Vec<u8> = values(&numbers).iter().map(|x| u8::from(*x > -0.5)).collect();
                Tensor::from_bytes(numbers.queue(), Dtype::Bool, &truths, &shape).unwrap()
            } else {
                numbers
            };
            // Fewer axes repeat as well.
            let first = shape.iter().position(|size| *size > 1).unwrap_or(3);
            let mask = mask.reshape(&shape[first..]).unwrap();
            let of_mask = values(&mask);
            let element = |at: At| {
                let index = [at.batch, at.head, at.query, at.key];
                let place = (0..4).fold(0, |place, i| place * shape[i] + index[i].min(shape[i] - 1));
                of_mask[place]
            };
            let score = |s: f64, at: At| match (is_bool, element(at)) {
                (false, added) => s + added,
                (true, 0.0) => HIDDEN,
                (true, _) => s,
            };
            check(&device, dtypes[case / 3 % dtypes.len()], sizes, &Attention::new().mask(&mask), score, no_sink);
        }
    });
}

#[test]
fn a_mask_hides_rows_by_infinity_and_evens_them_by_the_lowest_number() {
    on_every_device(|device, dtypes| {
        for (dtype, keys) in dtypes.iter().flat_map(|dtype| [40, 64, 129, 1030].map(|keys| (*dtype, keys))) {
            let sizes = sizes([2, 1], [3, keys], [8, 8]);
            let row = |x: f32| vec![x; keys];
            let rows = [row(f32::NEG_INFINITY), row(f32::MIN), row(0.0)].concat();
            let mask = Tensor::from_slice(&rows, &[3, keys], &device).unwrap();
            let score = |s: f64, at: At| match at.query {
                0 => HIDDEN,
                1 => 0.0,
                _ => s,
            };
            let [q, k, v] = inputs(&device, dtype, sizes);
            let attended = Attention::new().mask(&mask).run(&q, &k, &v).unwrap();
            let scale = 1.0 / 8_f64.sqrt();
            let of = |dot, at: At| score(dot * scale, at);
            let (expected, _) = attention(sizes, [&values(&q), &values(&k), &values(&v)], of, no_sink);
            let found = values(&attended.output);
            crate::attention::support::close(
                &format!("{dtype}, {keys} keys"),
                &found,
                &expected,
                tolerance(dtype, sizes),
            );
            let lse = attended.lse.to_vec::<f32>().unwrap();
            let is_fine = |rows: &[f32]| {
                rows[0] == f32::NEG_INFINITY && rows[1] < -1e38 && rows[1].is_finite() && rows[2] > -10.0
            };
            assert!(lse.chunks(3).all(is_fine), "{dtype}, {keys} keys: {lse:?}");
            // The same by truths: a row without any is zero, its log-sum-exp minus infinity.
            let truths: Vec<u8> = (0..3 * keys).map(|i| u8::from(i / keys == 1)).collect();
            let mask = Tensor::from_bytes(q.queue(), Dtype::Bool, &truths, &[3, keys]).unwrap();
            let attended = Attention::new().mask(&mask).run(&q, &k, &v).unwrap();
            let is_hidden = |row: usize| row % 3 != 1;
            let results = values(&attended.output);
            for (row, (results, lse)) in results.chunks(8).zip(values(&attended.lse)).enumerate() {
                let is_none = results.iter().all(|x| *x == 0.0) && lse == HIDDEN;
                assert_eq!(is_none, is_hidden(row), "{dtype}, {keys} keys, row {row}: {results:?}, {lse}");
            }
        }
        is_clean(&device);
    });
}

#[test]
fn a_mask_may_end_before_the_keys_and_sequences_before_both() {
    on_every_device(|device, dtypes| {
        let sizes = Sizes { batch: 4, ..sizes([2, 1], [5, 70], [8, 8]) };
        let mask = tensor(&device, 7, Dtype::F32, &[5, 50]);
        let of_mask = values(&mask);
        let under = |at: At| if at.key < 50 { of_mask[at.query * 50 + at.key] } else { HIDDEN };
        check(&device, Dtype::F32, sizes, &Attention::new().mask(&mask), |s, at| s + under(at), no_sink);
        let lens = [0_usize, 3, 33, 70];
        let list = ints(&device, &lens.map(|len| len as i32));
        for corner in CORNERS {
            let score = |s: f64, at: At| {
                let of_sequence = Sizes { keys: lens[at.batch], ..sizes };
                let is_there = at.key < lens[at.batch];
                if is_there && sees(corner, of_sequence, at) { s + under(at) } else { HIDDEN }
            };
            for dtype in dtypes.iter().copied() {
                let options = causal(corner).mask(&mask);
                check(&device, dtype, sizes, &options.key_lens(&list), score, no_sink);
            }
        }
        // What a list says beyond the keys that there are is not believed.
        let list = ints(&device, &[-7, 70, 71, i32::MAX]);
        let score = |s: f64, at: At| if at.batch == 0 { HIDDEN } else { s };
        for dtype in dtypes.iter().copied() {
            check(&device, dtype, sizes, &Attention::new().key_lens(&list), score, no_sink);
        }
    });
}

#[test]
fn scale_softcap_sinks_and_a_function_of_scores() {
    on_every_device(|device, dtypes| {
        let sizes = sizes([4, 2], [6, 45], [16, 24]);
        let root = (sizes.dim as f64).sqrt();
        for dtype in dtypes.iter().copied() {
            for scale in [1.7, 0.0, -1.7] {
                let of_scale = |s: f64, _: At| s * root * scale;
                check(&device, dtype, sizes, &Attention::new().scale(scale), of_scale, no_sink);
            }
            check(&device, dtype, sizes, &Attention::new().softcap(0.4), |s, _| 0.4 * (s / 0.4).tanh(), no_sink);
        }
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let sinks = Tensor::from_slice(&[0.5_f32, f32::NEG_INFINITY, -2.0, 3.0], &[4], &device).unwrap();
            let sinks = sinks.cast(dtype).unwrap();
            let of_sinks = values(&sinks);
            let sink = |head: usize| of_sinks[head];
            for of_queries in dtypes.iter().copied() {
                check(&device, of_queries, sizes, &Attention::new().sinks(&sinks), |s, _| s, sink);
                // Without a key the sink is all that there is.
                let none = Sizes { keys: 0, ..sizes };
                check(&device, of_queries, none, &Attention::new().sinks(&sinks), |s, _| s, sink);
            }
        }
        let slope = |head: f64| 2_f64.powf(-2.0 * (head + 1.0));
        let alibi = Score::new(|score, at| {
            let slope = ((at.head.cast::<f32>() + 1.0) * -2.0).exp2();
            score - slope * (at.query - at.key).cast::<f32>()
        });
        let score = |s: f64, at: At| {
            let distance = (at.query + sizes.keys - sizes.len) as f64 - at.key as f64;
            if sees(Some(true), sizes, at) { s - slope(at.head as f64) * distance } else { HIDDEN }
        };
        for dtype in dtypes.iter().copied() {
            check(&device, dtype, sizes, &causal(Some(true)).score(&alibi), score, no_sink);
        }
    });
}

#[test]
fn every_type_of_elements() {
    on_every_device(|device, _| {
        let sizes = sizes([4, 2], [6, 45], [40, 40]);
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F8E4M3] {
            check(&device, dtype, sizes, &Attention::new(), |s, _| s, no_sink);
        }
        // The scales of 8-bit floats.
        let options = Attention::new().tensor_scales([0.5, 0.25, 3.0]);
        let [q, k, v] = inputs(&device, Dtype::F8E4M3, sizes);
        let attended = options.run(&q, &k, &v).unwrap();
        let scale = 0.125 / (sizes.dim as f64).sqrt();
        let v: Vec<f64> = values(&v).iter().map(|v| 3.0 * v).collect();
        let expected = attention(sizes, [&values(&q), &values(&k), &v], |dot, _| dot * scale, no_sink);
        agrees("scaled", &attended, &expected, sizes);
    });
}

#[test]
fn layouts_and_strides_make_no_difference() {
    on_every_device(|device, _| {
        let sizes = sizes([4, 2], [6, 45], [16, 24]);
        let [q, k, v] = inputs(&device, Dtype::F16, sizes);
        let expected = Attention::new().run(&q, &k, &v).unwrap();
        // The same in other places: axes in another order, everything in reverse.
        let turned = |x: &Tensor| x.permute(&[3, 1, 0, 2]).unwrap().copy().unwrap().permute(&[2, 1, 3, 0]).unwrap();
        let flipped =
            |x: &Tensor| x.flip(2).unwrap().flip(3).unwrap().copy().unwrap().flip(3).unwrap().flip(2).unwrap();
        let rows = |x: &Tensor| x.permute(&[0, 2, 1, 3]).unwrap().copy().unwrap();
        same("turned", &Attention::new().run(&turned(&q), &turned(&k), &turned(&v)).unwrap(), &expected);
        same("flipped", &Attention::new().run(&flipped(&q), &flipped(&k), &flipped(&v)).unwrap(), &expected);
        let by_length = Attention::new().layout(HeadLayout::Bshd);
        let mut attended = by_length.run(&rows(&q), &rows(&k), &rows(&v)).unwrap();
        attended.output = attended.output.permute(&[0, 2, 1, 3]).unwrap();
        same("by length", &attended, &expected);
        // Heads of a fused projection: queries, keys and values side by side.
        let (b, s) = (sizes.batch, 45);
        let fused = tensor(&device, 30, Dtype::F16, &[b, s, 8, 17]);
        let part = |range: std::ops::Range<usize>| fused.slice(2, range).unwrap().slice(3, ..16).unwrap();
        let parts = [part(0..4), part(4..6), part(6..8)];
        let [q, k, v] = parts.each_ref().map(|part| part.copy().unwrap());
        let apart = by_length.run(&q, &k, &v).unwrap();
        let [q, k, v] = parts;
        same("fused", &by_length.run(&q, &k, &v).unwrap(), &apart);
        // One head of keys for all, as a view of stride 0.
        let k = tensor(&device, 31, Dtype::F16, &[1, 1, 45, 16]);
        let q = tensor(&device, 32, Dtype::F16, &[2, 4, 6, 16]);
        let wide = k.broadcast(&[2, 2, 45, 16]).unwrap();
        let copied = wide.copy().unwrap();
        let attention = Attention::new();
        same("repeated", &attention.run(&q, &wide, &wide).unwrap(), &attention.run(&q, &copied, &copied).unwrap());
        is_clean(&device);
    });
}

#[test]
fn what_cannot_be_attended_to_is_refused() {
    let device = device();
    let of = |dtype, shape: &[usize]| tensor(&device, 1, dtype, shape);
    let f32_of = |shape: &[usize]| of(Dtype::F32, shape);
    let (q, k) = (f32_of(&[1, 4, 3, 16]), f32_of(&[1, 2, 5, 16]));
    let attention = Attention::new();
    let refused = |attended: Result<warpfold::Attended, warpfold::Error>, part: &str| {
        let error = attended.err().unwrap_or_else(|| panic!("{part}: it was done")).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(attention.run(&f32_of(&[4, 3, 16]), &k, &k), "4 axes");
    refused(attention.run(&q, &f32_of(&[1, 3, 5, 16]), &f32_of(&[1, 3, 5, 16])), "multiple of 3 heads");
    refused(attention.run(&q, &f32_of(&[1, 2, 5, 8]), &k), "keys have the shape");
    refused(attention.run(&q, &k, &f32_of(&[1, 2, 6, 16])), "values have the shape");
    refused(attention.run(&f32_of(&[1, 4, 3, 264]), &f32_of(&[1, 2, 5, 264]), &k), "not 1 to 256");
    refused(attention.run(&q, &of(Dtype::F16, &[1, 2, 5, 16]), &of(Dtype::F16, &[1, 2, 5, 16])), "f16");
    let ints = Tensor::from_slice(&[0_i32; 160], &[1, 2, 5, 16], &device).unwrap();
    refused(attention.run(&ints, &ints, &ints), "i32");
    refused(Attention::new().mask(&f32_of(&[3, 7])).run(&q, &k, &k), "fit");
    refused(Attention::new().mask(&ints).run(&q, &k, &k), "fit");
    refused(Attention::new().sinks(&f32_of(&[3])).run(&q, &k, &k), "sinks");
    refused(Attention::new().key_lens(&f32_of(&[1])).run(&q, &k, &k), "i32");
    refused(Attention::new().softcap(0.0).run(&q, &k, &k), "softcap");
    refused(Attention::new().window(0).run(&q, &k, &k), "window");
    assert!(device.take_reports().iter().all(|report| !report.kernel.starts_with("attention")), "nothing was launched");
}

/// Weights that are rounded to 8 bits are off by up to 1/16, the small ones by half of the least
/// number; so is each product with a value, and they add up to the result.
#[track_caller]
fn check_products(device: &Device, sizes: Sizes, options: &Attention<'_>, score: impl Fn(f64, At) -> f64) {
    let [q, k, v] = inputs(device, Dtype::F8E4M3, sizes);
    let what = format!("{sizes:?}");
    let options = options.clone().products(Dtype::F8E4M3).output_dtype(Dtype::F16);
    let attended = options.run(&q, &k, &v).unwrap_or_else(|error| panic!("{what}: {error}"));
    let reports = device.take_reports();
    assert!(reports.iter().all(|report| !report.kernel.starts_with("attention_simt")), "{what}");
    for report in reports.into_iter().filter(|report| report.kernel.starts_with("attention")) {
        let counters = &report.report.counters;
        let conflicts = [counters.shared_load_bank_conflicts, counters.shared_store_bank_conflicts];
        let found: Vec<_> = report.report.findings.iter().filter(|f| f.severity > Severity::Info).collect();
        assert!(found.is_empty(), "{what}: {found:?}");
        assert_eq!(conflicts, [0, 0], "{what}: bank conflicts");
    }
    let scale = 1.0 / (sizes.dim as f64).sqrt();
    let of = |values: &[f64]| {
        attention(sizes, [&self::values(&q), &self::values(&k), values], |dot, at| score(dot * scale, at), no_sink)
    };
    let of_values = self::values(&v);
    let (results, lse) = of(&of_values);
    let (magnitudes, _) = of(&of_values.iter().map(|value| value.abs()).collect::<Vec<_>>());
    let found = values(&attended.output);
    assert_eq!(found.len(), results.len(), "{what}");
    let (mut squares, mut weight) = (0.0, 0.0);
    for ((found, result), magnitude) in found.iter().zip(&results).zip(&magnitudes) {
        let most = magnitude / 16.0 + sizes.keys as f64 * 2_f64.powi(-17) + 2_f64.powi(-11) * result.abs() + 1e-6;
        assert!((found - result).abs() <= most, "{what}: {found}, not {result}");
        squares += (found - result).powi(2);
        weight += magnitude.powi(2);
    }
    // Roundings go either way: all together they come to much less.
    assert!(squares.sqrt() <= weight.sqrt() / 30.0 + 1e-9, "{what}: {} of {}", squares.sqrt(), weight.sqrt());
    // Tensor cores keep 13 bits behind the point of a step's largest product, of 32 each.
    let of_scores = 2_f64.powi(-13) * (sizes.dim as f64 / 32.0).ceil();
    crate::attention::support::close(
        &what,
        &values(&attended.lse),
        &lse,
        of_scores + crate::attention::support::tolerance(Dtype::F32, sizes),
    );
}

#[test]
fn products_of_8_bit_floats_are_off_by_no_more_than_the_rounding_of_weights() {
    let device = device();
    if !device.limits().has_wgmma {
        println!("skipped: no WGMMA");
        return;
    }
    for [len, keys] in [[1, 1], [3, 16], [65, 33], [130, 127], [1, 129], [5, 1025], [64, 2080], [2, 0]] {
        for corner in CORNERS {
            let sizes = Sizes { batch: 1, ..sizes([2, 1], [len, keys], [32, 48]) };
            let score = |s: f64, at: At| if sees(corner, sizes, at) { s } else { HIDDEN };
            check_products(&device, sizes, &causal(corner), score);
        }
    }
    for dims in [[64, 64], [128, 128], [256, 256], [7, 33], [80, 40], [128, 200]] {
        check_products(&device, sizes([4, 2], [9, 150], dims), &Attention::new(), |s, _| s);
    }
    let small = Sizes { batch: 1, ..sizes([6, 2], [40, 300], [64, 64]) };
    let window = |s: f64, at: At| if at.key.abs_diff(at.query + 260) < 50 { s } else { HIDDEN };
    check_products(&device, small, &Attention::new().window(50), window);
    check_products(&device, small, &Attention::new().softcap(0.5), |s, _| 0.5 * (s / 0.5).tanh());
    let mask = tensor(&device, 9, Dtype::F32, &[40, 300]);
    let of_mask = values(&mask);
    check_products(&device, small, &Attention::new().mask(&mask), |s, at| s + of_mask[at.query * 300 + at.key]);
}

#[test]
fn products_of_8_bit_floats_are_refused_where_there_are_none() {
    let device = device();
    let (bytes, halves) = (Dtype::F8E4M3, Dtype::F16);
    let of = |dtype| tensor(&device, 1, dtype, &[1, 1, 4, 16]);
    let refused =
        |q: &Tensor, k: &Tensor, products| Attention::new().products(products).run(q, k, k).unwrap_err().to_string();
    let error = refused(&of(halves), &of(bytes), bytes);
    assert!(error.contains("products of f8e4m3 take f8e4m3, not f16 and f8e4m3"), "{error}");
    let error = refused(&of(bytes), &of(bytes), Dtype::Bf16);
    assert!(error.contains("bf16"), "{error}");
    let older = crate::attention::support::device_of(warpfold::Profile::A100);
    let x = tensor(&older, 1, bytes, &[1, 1, 4, 16]);
    let error = refused(&x, &x, bytes);
    assert!(error.contains("sm_90a"), "{error}");
}
