//! Rotary embeddings, and new keys and values on their way to a cache.

use warpfold::{
    CacheRotary, CacheShape, Device, Dtype, NewTokens, PageLayout, PagedCache, Pairs, Queue, RotaryOptions, Tensor,
};

use crate::attention::support::{close, device, ints, is_clean, tensor, values};

/// A head turned by its position, in `f64`.
fn turned(head: &[f64], cos: &[f64], sin: &[f64], pairs: Pairs) -> Vec<f64> {
    let mut result = head.to_vec();
    for i in 0..cos.len() {
        let (first, second) = match pairs {
            Pairs::Halves => (i, i + cos.len()),
            Pairs::Interleaved => (2 * i, 2 * i + 1),
        };
        let (x, y) = (head[first], head[second]);
        result[first] = x * cos[i] - y * sin[i];
        result[second] = x * sin[i] + y * cos[i];
    }
    result
}

fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bf16 => 2_f64.powi(-8),
        Dtype::F16 => 2_f64.powi(-11),
        _ => 2_f64.powi(-22),
    }
}

#[test]
fn heads_turn_by_their_positions() {
    let device = device();
    let (batch, heads, len, rows) = (2, 3, 5, 11);
    let list: Vec<i32> = (0..batch * len).map(|i| (i as i32 * 7) % 11).collect();
    let positions = Tensor::from_slice(&list, &[batch, len], &device).unwrap();
    for (dim, rotary_dim) in [(2, 2), (16, 16), (64, 64), (80, 32), (128, 128), (7, 4), (24, 0), (256, 64)] {
        for (pairs, dtype, table) in [
            (Pairs::Halves, Dtype::F32, Dtype::F32),
            (Pairs::Interleaved, Dtype::F32, Dtype::F32),
            (Pairs::Halves, Dtype::Bf16, Dtype::F32),
            (Pairs::Interleaved, Dtype::F16, Dtype::F16),
        ] {
            let what = format!("{dtype} {pairs:?} {rotary_dim} of {dim}");
            let x = tensor(&device, 1, dtype, &[batch, heads, len, dim]);
            let of_rows = |seed| tensor(&device, seed, table, &[rows, rotary_dim / 2]);
            let (cos, sin) = (of_rows(2), of_rows(3));
            let options = RotaryOptions { pairs, rotary_dim: Some(rotary_dim), num_heads: None };
            let y = x.rotary_embedding(&cos, &sin, Some(&positions), options).unwrap();
            let (elements, of_cos, of_sin) = (values(&x), values(&cos), values(&sin));
            let row = |of: &[f64], r: usize| of[r * (rotary_dim / 2)..][..rotary_dim / 2].to_vec();
            let expected: Vec<f64> = elements
                .chunks(dim)
                .enumerate()
                .flat_map(|(i, head)| {
                    let position = list[i / (heads * len) * len + i % len] as usize;
                    turned(head, &row(&of_cos, position), &row(&of_sin, position), pairs)
                })
                .collect();
            close(&what, &values(&y), &expected, tolerance(dtype));
            // Heads side by side, and tables with a row for each query.
            let flat = x.permute(&[0, 2, 1, 3]).unwrap().copy().unwrap().reshape(&[batch, len, heads * dim]).unwrap();
            let long: Vec<i64> = list.iter().map(|position| i64::from(*position)).collect();
            let rows_of = Tensor::from_slice(&long, &[batch * len], &device).unwrap();
            let by_query =
                |table: &Tensor| table.gather_rows(&rows_of).unwrap().reshape(&[batch, len, rotary_dim / 2]).unwrap();
            if rotary_dim > 0 {
                let options = RotaryOptions { num_heads: Some(heads), ..options };
                let z = flat.rotary_embedding(&by_query(&cos), &by_query(&sin), None, options).unwrap();
                let z = z.reshape(&[batch, len, heads, dim]).unwrap().permute(&[0, 2, 1, 3]).unwrap();
                assert_eq!(z.to_bytes().unwrap(), y.to_bytes().unwrap(), "{what}: other layouts");
                let strided = x.flip(2).unwrap().copy().unwrap().flip(2).unwrap();
                let options = RotaryOptions { num_heads: None, ..options };
                let z = strided.rotary_embedding(&cos, &sin, Some(&positions), options).unwrap();
                assert_eq!(z.to_bytes().unwrap(), y.to_bytes().unwrap(), "{what}: strides below zero");
            }
            is_clean(&device);
        }
    }
}

#[test]
fn what_cannot_be_turned_is_refused() {
    let device = device();
    let of = |shape: &[usize]| tensor(&device, 1, Dtype::F32, shape);
    let (x, cos) = (of(&[1, 2, 3, 8]), of(&[5, 4]));
    let positions = Tensor::from_slice(&[0_i64, 1, 2], &[1, 3], &device).unwrap();
    let options = RotaryOptions::default();
    let refused = |result: Result<Tensor, warpfold::Error>, part: &str| {
        let error = result.err().unwrap_or_else(|| panic!("{part}: it was done")).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(of(&[2, 8]).rotary_embedding(&cos, &cos, Some(&positions), options), "3 or 4 axes");
    refused(of(&[1, 3, 16]).rotary_embedding(&cos, &cos, Some(&positions), options), "number of its heads");
    let three = RotaryOptions { num_heads: Some(3), ..options };
    refused(of(&[1, 3, 16]).rotary_embedding(&cos, &cos, Some(&positions), three), "3 heads");
    refused(x.rotary_embedding(&cos, &cos, Some(&positions), three), "2 heads, not 3");
    let odd = RotaryOptions { rotary_dim: Some(5), ..options };
    refused(x.rotary_embedding(&of(&[5, 2]), &of(&[5, 2]), Some(&positions), odd), "even part");
    let more = RotaryOptions { rotary_dim: Some(10), ..options };
    refused(x.rotary_embedding(&of(&[5, 5]), &of(&[5, 5]), Some(&positions), more), "even part");
    refused(x.rotary_embedding(&of(&[5, 3]), &cos, Some(&positions), options), "cosines");
    refused(x.rotary_embedding(&cos, &of(&[4, 4]), Some(&positions), options), "sines");
    refused(x.rotary_embedding(&cos, &cos, None, options), "cosines");
    let floats = of(&[1, 3]);
    refused(x.rotary_embedding(&cos, &cos, Some(&floats), options), "f32");
}

const SLOTS: [i64; 6] = [37, -1, 0, 63, 5, 64];

/// Writes six tokens, two of them nowhere, to a pool of four pages of 16: the pools after it, and
/// the queries.
fn written(
    device: &Device,
    [dtype, cache]: [Dtype; 2],
    [head_dim, value_dim]: [usize; 2],
    layout: PageLayout,
    pairs: Option<Pairs>,
) -> [Tensor; 3] {
    let queue = Queue::of(device);
    let shape = CacheShape { pages: 4, page: 16, kv_heads: 2, head_dim, value_dim };
    let mut pool = PagedCache::new(&queue, cache, shape, layout).unwrap();
    if cache.bytes() == 1 {
        pool = pool.with_scales([0.5, 0.25]).unwrap();
    }
    // What is there before is what stays.
    let old = tensor(device, 8, dtype, &[64, 2, head_dim]);
    let old_values = tensor(device, 9, dtype, &[64, 2, value_dim]);
    let every: Vec<i32> = (0..64).collect();
    let every = ints(device, &every);
    pool.write(NewTokens { keys: &old, values: &old_values, slots: &every }, None).unwrap();
    let (k, v) = (tensor(device, 1, dtype, &[6, 2, head_dim]), tensor(device, 2, dtype, &[6, 2, value_dim]));
    let mut queries = tensor(device, 3, dtype, &[6, 6, head_dim]);
    let slots = Tensor::from_slice(&SLOTS, &[6], device).unwrap();
    let (cos, sin) = (tensor(device, 4, Dtype::F32, &[9, 4]), tensor(device, 5, Dtype::F32, &[9, 4]));
    let positions = ints(device, &[8, 0, 1, 3, 3, 7]);
    let rotary = pairs.map(|pairs| CacheRotary {
        cos: &cos,
        sin: &sin,
        positions: &positions,
        pairs,
        queries: Some(&mut queries),
    });
    pool.write(NewTokens { keys: &k, values: &v, slots: &slots }, rotary).unwrap();
    is_clean(device);
    let by_token = |pages: &Tensor| match layout {
        PageLayout::Nhd => pages.clone(),
        PageLayout::Hnd => pages.permute(&[0, 2, 1, 3]).unwrap(),
    };
    [by_token(pool.keys()), by_token(pool.values()), queries]
}

#[test]
fn new_tokens_come_to_their_slots_and_nothing_else_changes() {
    let device = device();
    for (dtype, cache) in
        [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::F16), (Dtype::Bf16, Dtype::F8E4M3)]
    {
        for layout in [PageLayout::Nhd, PageLayout::Hnd] {
            for dims in [[16, 16], [9, 5], [64, 128]] {
                let found = written(&device, [dtype, cache], dims, layout, None);
                for (pool, (dim, (seed, scale))) in found.iter().zip(dims.into_iter().zip([(1, 0.5), (2, 0.25)])) {
                    let scale = if cache.bytes() == 1 { scale } else { 1.0 };
                    let of = |seed, tokens| values(&tensor(&device, seed, dtype, &[tokens, 2, dim]));
                    let (new, mut expected) = (of(seed, 6), of(seed + 7, 64));
                    for (token, slot) in new.chunks(2 * dim).zip(SLOTS).filter(|(_, slot)| (0..64).contains(slot)) {
                        expected[slot as usize * 2 * dim..][..2 * dim].copy_from_slice(token);
                    }
                    let expected: Vec<f64> = expected.iter().map(|x| x / scale).collect();
                    // Three bits behind the first of an e4m3, down to its smallest steps.
                    let tolerance = if cache.bytes() == 1 { 2_f64.powi(-4) } else { 0.0 };
                    let what = format!("{dtype} to {cache} {layout:?} {dims:?}");
                    let found = values(pool);
                    close(&what, &found, &expected, tolerance);
                }
            }
        }
    }
}

#[test]
fn what_is_too_large_for_eight_bits_saturates() {
    let device = device();
    let shape = CacheShape { pages: 1, page: 16, kv_heads: 1, head_dim: 2, value_dim: 2 };
    let mut pool = PagedCache::new(&Queue::of(&device), Dtype::F8E4M3, shape, PageLayout::Nhd).unwrap();
    let x = Tensor::from_slice(&[1e9_f32, -1e9], &[1, 1, 2], &device).unwrap();
    let slot = ints(&device, &[4]);
    pool.write(NewTokens { keys: &x, values: &x, slots: &slot }, None).unwrap();
    let token = pool.values().slice(1, 4..5).unwrap();
    assert_eq!(values(&token), [448.0, -448.0]);
}

#[test]
fn keys_turned_on_the_way_have_the_bits_of_those_turned_before() {
    let device = device();
    for (dtype, cache) in [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::F8E4M3)] {
        for pairs in [Pairs::Halves, Pairs::Interleaved] {
            for layout in [PageLayout::Nhd, PageLayout::Hnd] {
                // Eight of the elements are turned: all of them, or the first.
                for dims in [[8, 8], [24, 16], [11, 4]] {
                    let [keys, of_values, queries] = written(&device, [dtype, cache], dims, layout, Some(pairs));
                    let [plain, plain_values, _] = written(&device, [dtype, cache], dims, layout, None);
                    let what = format!("{dtype} to {cache} {pairs:?} {dims:?}");
                    assert_eq!(of_values.to_bytes().unwrap(), plain_values.to_bytes().unwrap(), "{what}: values");
                    let positions = Tensor::from_slice(&[8_i64, 0, 1, 3, 3, 7], &[1, 6], &device).unwrap();
                    let (cos, sin) = (tensor(&device, 4, Dtype::F32, &[9, 4]), tensor(&device, 5, Dtype::F32, &[9, 4]));
                    let options = RotaryOptions { pairs, rotary_dim: Some(8), num_heads: None };
                    let turn = |x: &Tensor| {
                        let by_heads = x.unsqueeze(0).unwrap().permute(&[0, 2, 1, 3]).unwrap();
                        let turned = by_heads.rotary_embedding(&cos, &sin, Some(&positions), options).unwrap();
                        turned.permute(&[0, 2, 1, 3]).unwrap().copy().unwrap().reshape(x.shape()).unwrap()
                    };
                    let expected = turn(&tensor(&device, 3, dtype, &[6, 6, dims[0]]));
                    assert_eq!(queries.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{what}: queries");
                    // The same pool, with keys that were turned before.
                    let shape = CacheShape { pages: 4, page: 16, kv_heads: 2, head_dim: dims[0], value_dim: dims[0] };
                    let mut pool = PagedCache::new(&Queue::of(&device), cache, shape, PageLayout::Nhd).unwrap();
                    if cache.bytes() == 1 {
                        pool = pool.with_scales([0.5, 0.25]).unwrap();
                    }
                    let before = turn(&tensor(&device, 1, dtype, &[6, 2, dims[0]]));
                    let slots = Tensor::from_slice(&SLOTS, &[6], &device).unwrap();
                    pool.write(NewTokens { keys: &before, values: &before, slots: &slots }, None).unwrap();
                    let slot = |pages: &Tensor, slot: i64| {
                        let (page, place) = (slot as usize / 16, slot as usize % 16);
                        pages.slice(0, page..page + 1).unwrap().slice(1, place..place + 1).unwrap().to_bytes().unwrap()
                    };
                    for place in [37, 0, 63, 5] {
                        assert_eq!(slot(&keys, place), slot(pool.keys(), place), "{what}: slot {place}");
                        assert!(slot(&keys, place) != slot(&plain, place), "{what}: slot {place} was turned");
                    }
                    assert_eq!(slot(&keys, 6), slot(&plain, 6), "{what}: a slot beside");
                    is_clean(&device);
                }
            }
        }
    }
}

#[test]
fn tokens_that_do_not_fit_a_cache_are_refused() {
    let device = device();
    let of = |shape: &[usize]| tensor(&device, 1, Dtype::F32, shape);
    let shape = CacheShape { pages: 2, page: 16, kv_heads: 2, head_dim: 8, value_dim: 4 };
    let mut pool = PagedCache::new(&Queue::of(&device), Dtype::F32, shape, PageLayout::Nhd).unwrap();
    let (k, v, slots) = (of(&[3, 2, 8]), of(&[3, 2, 4]), ints(&device, &[0, 1, 2]));
    let mut refused = |keys: &Tensor, values: &Tensor, slots: &Tensor, part: &str| {
        let error = pool.write(NewTokens { keys, values, slots }, None).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&of(&[3, 2, 9]), &v, &slots, "keys have the shape");
    refused(&k, &of(&[2, 2, 4]), &slots, "values have the shape");
    refused(&k, &v, &of(&[3]), "f32");
    refused(&k, &tensor(&device, 1, Dtype::F16, &[3, 2, 4]), &slots, "f16");
    let seen = pool.keys().clone();
    let error = pool.write(NewTokens { keys: &k, values: &v, slots: &slots }, None).unwrap_err();
    assert_eq!(*error.kind(), warpfold::ErrorKind::SharedMemory);
    drop(seen);
    pool.write(NewTokens { keys: &k, values: &v, slots: &slots }, None).unwrap();
    assert!(PagedCache::new(&Queue::of(&device), Dtype::I32, shape, PageLayout::Nhd).is_err());
    assert!(pool.with_scales([0.0, 1.0]).is_err());
}
