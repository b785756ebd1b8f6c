//! Pages: of any size and layout, in any order, shared, of 8-bit floats, and full of NaN where no
//! sequence is.

use warpfold::{Attention, Device, Dtype, PageLayout, PagedKeys, Queue, Tensor};

use crate::attention::reference::{Sizes, attention, no_sink};
use crate::attention::support::{agrees, device, ints, is_clean, on_every_device, same, tensor, values};

const KV_HEADS: usize = 2;

fn table(device: &Device, rows: &[&[i32]]) -> Tensor {
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let padded = rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(-1, width - row.len())));
    Tensor::from_slice(&padded.collect::<Vec<_>>(), &[rows.len(), width], device).unwrap()
}

/// The keys of a row of the table, as `[1, heads, len, dim]`.
fn gathered(device: &Device, pages: &Tensor, row: &[i32], len: usize) -> Tensor {
    let rows: Vec<i64> = row.iter().map(|page| i64::from(*page)).collect();
    let rows = Tensor::from_slice(&rows, &[row.len()], device).unwrap();
    let found = pages.gather_rows(&rows).unwrap();
    let [_, page, heads, dim] = *found.shape() else { panic!("pages have four axes") };
    let tokens = found.reshape(&[1, row.len() * page, heads, dim]).unwrap();
    tokens.slice(1, ..len).unwrap().permute(&[0, 2, 1, 3]).unwrap()
}

#[test]
fn pages_of_any_size_and_layout_hold_what_a_tensor_holds() {
    on_every_device(|device, _| {
        for (page, [dim, value_dim]) in [(16, [16, 16]), (48, [8, 24]), (1, [16, 16]), (7, [5, 9])] {
            let of = |seed, dim| tensor(&device, seed, Dtype::F16, &[12, page, KV_HEADS, dim]);
            let (k, v) = (of(1, dim), of(2, value_dim));
            let rows: [&[i32]; 3] = [&[11, 3, 0, 7], &[7, 3], &[]];
            let lens = [4 * page - page / 2, page + 1 - page / 16, 0];
            let blocks = table(&device, &rows);
            let list = ints(&device, &lens.map(|len| len as i32));
            let q = tensor(&device, 3, Dtype::F16, &[3, 6, dim]);
            let cache = PagedKeys { keys: &k, values: &v, block_table: &blocks, lens: &list };
            cache.check(PageLayout::Nhd).unwrap();
            let attended = Attention::new().run_paged(&q, cache, None).unwrap();
            let [k_hnd, v_hnd] = [&k, &v].map(|pages| pages.permute(&[0, 2, 1, 3]).unwrap().copy().unwrap());
            let by_heads = PagedKeys { keys: &k_hnd, values: &v_hnd, ..cache };
            let hnd = Attention::new().page_layout(PageLayout::Hnd).run_paged(&q, by_heads, None).unwrap();
            same(&format!("pages of {page} by heads"), &hnd, &attended);
            for (i, (row, len)) in rows.iter().zip(lens).enumerate() {
                let query = q.slice(0, i..i + 1).unwrap().reshape(&[1, 6, 1, dim]).unwrap();
                let found = attended.output.slice(0, i..i + 1).unwrap();
                if len == 0 {
                    assert!(values(&found).iter().all(|x| *x == 0.0));
                    continue;
                }
                let [k, v] = [&k, &v].map(|pages| gathered(&device, pages, row, len));
                let dense = Attention::new().run(&query, &k, &v).unwrap();
                assert_eq!(
                    found.to_bytes().unwrap(),
                    dense.output.to_bytes().unwrap(),
                    "pages of {page}, sequence {i}"
                );
                let sizes = Sizes { batch: 1, heads: 6, kv_heads: KV_HEADS, len: 1, keys: len, dim, value_dim };
                let scale = 1.0 / (dim as f64).sqrt();
                let expected =
                    attention(sizes, [&values(&query), &values(&k), &values(&v)], |dot, _| dot * scale, no_sink);
                agrees(&format!("pages of {page}"), &dense, &expected, sizes);
            }
            is_clean(&device);
        }
    });
}

#[test]
fn what_lies_beyond_a_sequence_does_not_show() {
    let of_devices = |device: &Device, dtypes: &[Dtype]| {
        for dtype in dtypes.iter().copied().chain([Dtype::Bf16]) {
            [f32::NAN, f32::INFINITY].into_iter().for_each(|poison| is_not_poisoned(device, [dtype; 2], poison));
            // Of 8 bits NaN is all that is no number.
            is_not_poisoned(device, [dtype, Dtype::F8E4M3], f32::NAN);
        }
    };
    on_every_device(|device, dtypes| of_devices(&device, dtypes));
    let hopper = device();
    if hopper.limits().has_wgmma {
        is_not_poisoned(&hopper, [Dtype::F8E4M3; 2], f32::NAN);
    }
}

/// Of queries of a type over pages of another, of both layouts; what has 8 bits alone is multiplied
/// as it is.
fn is_not_poisoned(device: &Device, [dtype, of_pages]: [Dtype; 2], poison: f32) {
    let (page, dim) = (16, 16);
    let lens = [1, 15, 16, 33];
    let clean: Vec<f32> = crate::attention::support::numbers(5, 12 * page * KV_HEADS * dim);
    let mut dirty = clean.clone();
    // Sequence `s` has the pages 3 s and on.
    for (slot, element) in dirty.chunks_mut(KV_HEADS * dim).enumerate() {
        let (sequence, position) = (slot / (3 * page), slot % (3 * page));
        if position >= lens[sequence] {
            element.fill(poison);
        }
    }
    let shape = [12, page, KV_HEADS, dim];
    let of = |elements: &[f32]| Tensor::from_slice(elements, &shape, device).unwrap().cast(of_pages).unwrap();
    let blocks = table(device, &[&[0, 1, 2], &[3, 4, 5], &[6, 7, 8], &[9, 10, 11]]);
    let list = ints(device, &lens.map(|len| len as i32));
    let q = tensor(device, 3, dtype, &[4, 6, dim]);
    let attention = Attention::new();
    let attention = if dtype.bytes() == 1 { attention.products(dtype) } else { attention };
    for layout in [PageLayout::Nhd, PageLayout::Hnd] {
        let run = |pages: &Tensor| {
            let pages = match layout {
                PageLayout::Nhd => pages.clone(),
                PageLayout::Hnd => pages.permute(&[0, 2, 1, 3]).unwrap().copy().unwrap(),
            };
            let cache = PagedKeys { keys: &pages, values: &pages, block_table: &blocks, lens: &list };
            attention.clone().page_layout(layout).run_paged(&q, cache, None).unwrap()
        };
        let attended = run(&of(&dirty));
        assert!(values(&attended.output).iter().all(|x| x.is_finite()), "{dtype} over {of_pages} with {poison}");
        same("a poisoned pool", &attended, &run(&of(&clean)));
        is_clean(device);
    }
}

#[test]
fn a_cache_of_eight_bits_gives_the_bits_of_its_elements_in_sixteen() {
    // Heads as wide as a panel or not, of keys and of values apart.
    let dims = [[24, 24], [128, 128], [112, 128], [128, 112]];
    on_every_device(|device, _| {
        for [key_dim, value_dim] in dims {
            let of = |seed, dim| tensor(&device, seed, Dtype::F8E4M3, &[6, 16, KV_HEADS, dim]);
            let (k, v) = (of(1, key_dim), of(2, value_dim));
            let [k_wide, v_wide] = [&k, &v].map(|pages| pages.cast(Dtype::F32).unwrap().cast(Dtype::F16).unwrap());
            let blocks = table(&device, &[&[5, 0, 2], &[1]]);
            let list = ints(&device, &[40, 16]);
            let q = tensor(&device, 3, Dtype::F16, &[2, 6, key_dim]);
            let options = Attention::new().tensor_scales([1.0, 0.3, 1.7]);
            let run = |keys: &Tensor, values: &Tensor| {
                options.run_paged(&q, PagedKeys { keys, values, block_table: &blocks, lens: &list }, None).unwrap()
            };
            same("dequantised", &run(&k, &v), &run(&k_wide, &v_wide));
        }
        is_clean(&device);
    });
}

/// Pages of every byte of a format but for those that are no number, and with one of those.
fn of_bytes(device: &Device, dtype: Dtype, shape: &[usize], no_number: Option<u8>) -> Tensor {
    let first = if dtype == Dtype::F8E4M3 { 0x7f } else { 0x7c };
    let is_number = |byte: &u8| byte & 0x7f < first;
    let mut bytes: Vec<u8> =
        (0_usize..).map(|i| (i * 37 + i / 256) as u8).filter(is_number).take(shape.iter().product()).collect();
    let place = bytes.len() / 3;
    no_number.into_iter().for_each(|byte| bytes[place] = byte);
    Tensor::from_bytes(&Queue::of(device), dtype, &bytes, shape).unwrap()
}

#[test]
fn few_queries_over_any_bytes_have_the_bits_of_sixteen_ones_for_heads_and_groups_of_every_size() {
    let device = device();
    if !device.limits().has_wgmma {
        println!("skipped: no WGMMA");
        return;
    }
    // Queries of each head of keys: of one tile with 8, 16 and 32 rows, of two, and too many.
    let sizes = [
        ([64, 64], 1),
        ([128, 128], 4),
        ([256, 256], 9),
        ([96, 80], 16),
        ([32, 128], 24),
        ([128, 16], 64),
        ([64, 64], 65),
    ];
    for (i, (dims, group)) in sizes.into_iter().enumerate() {
        let (narrow, wide) = [(Dtype::F8E4M3, Dtype::Bf16), (Dtype::F8E5M2, Dtype::F16)][i % 2];
        for (narrow, wide) in [(narrow, wide), (narrow, if wide == Dtype::F16 { Dtype::Bf16 } else { Dtype::F16 })] {
            let infinite = if narrow == Dtype::F8E5M2 { 0xfc } else { 0xff };
            for no_number in [None, Some(0x7f), Some(infinite)] {
                let [k, v] = dims.map(|dim| of_bytes(&device, narrow, &[80, 16, KV_HEADS, dim], no_number));
                let [k_wide, v_wide] = [&k, &v].map(|pages| pages.cast(Dtype::F32).unwrap().cast(wide).unwrap());
                let rows: Vec<i32> = (0..70).rev().collect();
                let (blocks, lens) = (table(&device, &[&rows, &[75, 71, 79]]), ints(&device, &[1101, 35]));
                let q = tensor(&device, 3, wide, &[2, group * KV_HEADS, dims[0]]);
                let options = Attention::new().scale(1e-3);
                let run = |keys: &Tensor, values: &Tensor| {
                    drop(device.take_reports());
                    let cache = PagedKeys { keys, values, block_table: &blocks, lens: &lens };
                    let attended = options.run_paged(&q, cache, None).unwrap();
                    let reports = device.take_reports();
                    let kernel =
                        reports.iter().map(|report| report.kernel.clone()).find(|name| name.starts_with("attention"));
                    (attended, kernel.unwrap())
                };
                let ((found, kernel), (expected, _)) = (run(&k, &v), run(&k_wide, &v_wide));
                let what = format!("{narrow} to {wide}, {dims:?}, {group} rows, {no_number:?}");
                assert_eq!(kernel.starts_with("attention_swapped"), group <= 64, "{what}: {kernel}");
                same(&what, &found, &expected);
                let has_none = values(&found.output).iter().any(|x| !x.is_finite());
                assert_eq!(has_none, no_number.is_some(), "{what}");
            }
        }
    }
}

#[test]
fn tables_and_lengths_that_lead_outside_are_named() {
    let device = device();
    let k = tensor(&device, 1, Dtype::F32, &[4, 16, KV_HEADS, 8]);
    let of = |rows: &[&[i32]], lens: &[i32]| {
        let (blocks, lens) = (table(&device, rows), ints(&device, lens));
        let cache = PagedKeys { keys: &k, values: &k, block_table: &blocks, lens: &lens };
        cache.check(PageLayout::Nhd).map_err(|error| error.to_string())
    };
    assert_eq!(of(&[&[3, 0], &[1, 99]], &[32, 16]), Ok(()));
    assert!(of(&[&[3, 4]], &[17]).unwrap_err().contains("page 4"));
    assert!(of(&[&[-1]], &[1]).unwrap_err().contains("page -1"));
    assert!(of(&[&[3, 0]], &[33]).unwrap_err().contains("33 keys"));
    assert!(of(&[&[3, 0]], &[-1]).unwrap_err().contains("-1 keys"));
    assert!(of(&[&[3, 0]], &[1, 1]).unwrap_err().contains("kv_lens"));
    // Nobody looks at more pages than the table has, whatever the list says.
    let (blocks, lens) = (table(&device, &[&[3, 1]]), ints(&device, &[1000]));
    let q = tensor(&device, 2, Dtype::F32, &[1, 2, 8]);
    let cache = PagedKeys { keys: &k, values: &k, block_table: &blocks, lens: &lens };
    let attended = Attention::new().run_paged(&q, cache, None).unwrap();
    let full = ints(&device, &[32]);
    same(
        "a list beyond the table",
        &attended,
        &Attention::new().run_paged(&q, PagedKeys { lens: &full, ..cache }, None).unwrap(),
    );
    is_clean(&device);
}
