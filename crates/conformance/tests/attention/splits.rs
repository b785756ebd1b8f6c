//! The contract at every level of split: no bit of a row depends on how many segments of its keys a
//! block takes, on what else a block is made of, nor on who combines the parts.

use warpfold::{Device, Dtype, PageLayout, Profile, Tensor};
use warpfold_conformance::sample::tries_all;
use warpfold_kernels::attention::{
    self as kernel, Algorithm, Causal, Choice, Keys, MmaTile, Order, Problem, Queries, WgmmaTile, segment_keys,
};
use warpfold_kernels::plan::{KernelCache, Planner, Workspace};

use crate::attention::sequences::{
    Bits, DIM, HEADS, KV_HEADS, PAGE, Pool, Sequence, Types, alone, concatenated, of_some_types, offsets, row,
};
use crate::attention::support::{device, device_of, is_clean, tensor};

/// Runs one sequence of queries with keys split as it is told: results and log-sum-exp, as bytes.
fn split(device: &Device, problem: &Problem, choice: Choice, inputs: &[&Tensor]) -> [Vec<u8>; 2] {
    let (target, kernels) = (device.target(), KernelCache::default());
    let planner = Planner::new(&target, device.limits(), &kernels);
    let plan = kernel::Attention.plan_with(problem, choice, &planner).unwrap();
    let of_scratch: u64 = plan.scratch.iter().sum();
    let mut outputs: Vec<_> =
        plan.outputs.iter().map(|output| device.alloc::<u8>(output.bytes as usize).unwrap()).collect();
    let memory: Vec<_> = inputs.iter().map(|tensor| device.upload(&tensor.to_bytes().unwrap()).unwrap()).collect();
    let views: Vec<_> = memory.iter().map(|memory| Some(memory.as_view())).collect();
    let mut places: Vec<_> = outputs.iter_mut().map(|output| output.as_view_mut()).collect();
    let ready = plan.ready(device).unwrap();
    ready.launch(&device.default_stream(), &views, &mut places, &mut Workspace::new()).unwrap();
    assert!(choice.splits == 1 || of_scratch > 0, "parts have to be kept");
    is_clean(device);
    [outputs[0].download().unwrap(), outputs[1].download().unwrap()]
}

/// Three queries and some more keys than two segments, in elements of `dim`.
fn of_segments(dtype: Dtype, dim: usize) -> (Problem, [usize; 2]) {
    let (len, keys) = (3_usize, 2 * segment_keys(dim as u64, dim as u64) as usize + 77);
    let dense = |heads: usize, len: usize| [heads, len, dim].iter().product::<usize>() as i64;
    let strides = |heads, len: usize| [dense(heads, len), (len * dim) as i64, dim as i64, 1];
    let queries = Queries::Dense {
        batch: 1,
        len: len as u64,
        strides: strides(HEADS, len),
        out_strides: [dense(HEADS, len), (len * dim) as i64, dim as i64],
    };
    let kv = strides(KV_HEADS, keys);
    let keys_of = Keys::Dense { len: keys as u64, k_strides: kv, v_strides: kv };
    let plain = Problem::new(dtype, [HEADS, KV_HEADS].map(|heads| heads as u64), [dim as u64; 2], queries, keys_of);
    let is_narrow = dtype == Dtype::F8E4M3;
    let problem = Problem {
        output: if is_narrow { Dtype::Bf16 } else { dtype },
        products: is_narrow.then_some(dtype),
        lse: true,
        ..plain
    };
    (problem, [len, keys])
}

/// Holds that all these kernels give the same bits with keys in any parts.
fn gives_the_same(device: &Device, dtype: Dtype, dim: usize, algorithms: &[Algorithm]) {
    let (problem, [len, keys]) = of_segments(dtype, dim);
    let q = tensor(device, 1, dtype, &[HEADS, len, dim]);
    let k = tensor(device, 2, dtype, &[KV_HEADS, keys, dim]);
    let v = tensor(device, 3, dtype, &[KV_HEADS, keys, dim]);
    let segments = (keys as u64).div_ceil(segment_keys(dim as u64, dim as u64).into());
    let variants = [
        problem.clone(),
        Problem { causal: Some(Causal::BottomRight), window_left: Some(1499), ..problem.clone() },
        // Elements one by one.
        Problem { alignment: 2, ..problem },
    ];
    // All of them where a head is as large as the others of this file.
    let num = if dim == DIM || tries_all() { variants.len() } else { 1 };
    let variants = &variants[..num];
    let mut expected: Vec<[Vec<u8>; 2]> = Vec::new();
    for (problem, is_one_by_one) in variants.iter().zip([false, false, true]) {
        let mut of_first = None;
        for (i, algorithm) in algorithms.iter().enumerate() {
            // Every part with the first of them; the others are compared with it.
            let per_parts: &[u64] = match (i, is_one_by_one) {
                (0, _) if tries_all() => &[segments, 1, 2, 8],
                (0, _) => &[segments, 1],
                (_, true) => &[],
                (_, false) if tries_all() => &[segments, 1],
                (_, false) => &[1],
            };
            for per_part in per_parts.iter().copied() {
                let (algorithm, splits) = (*algorithm, segments.div_ceil(per_part));
                let order = Order::Segments;
                let may_merge = algorithm != Algorithm::Simt && [1, 2].contains(&per_part);
                for single_launch in [false, true].into_iter().filter(|single| may_merge || !single) {
                    let choice = Choice { algorithm, splits, segments: per_part, order, single_launch };
                    let parts = split(device, problem, choice, &[&q, &k, &v]);
                    let first = of_first.get_or_insert_with(|| parts.clone());
                    assert!(parts == *first, "{choice} of {problem:?}");
                }
            }
        }
        expected.extend(of_first);
    }
    let [whole, in_a_window, one_by_one] = &expected[..] else { return };
    assert!(whole == one_by_one && whole != in_a_window);
}

#[test]
fn however_keys_are_split_the_bits_are_the_same() {
    gives_the_same(&device(), Dtype::F32, DIM, &[Algorithm::Simt]);
}

#[test]
fn warpgroups_stages_and_turns_change_no_bit() {
    if !device().limits().has_wgmma {
        println!("skipped: no WGMMA");
        return;
    }
    let tile = |consumers, stages, blocks, ping_pong, keeps_states| {
        Algorithm::Wgmma(WgmmaTile { consumers, keys: 128, stages, blocks, ping_pong, keeps_states, element_bytes: 2 })
    };
    let tiles = [
        tile(1, 8, 1, false, false),
        tile(1, 3, 2, false, true),
        tile(2, 4, 1, true, true),
        tile(2, 5, 1, false, false),
        tile(3, 2, 1, false, true),
    ];
    gives_the_same(&device(), Dtype::F16, DIM, &tiles);
    gives_the_same(&device(), Dtype::Bf16, 72, &tiles[..2]);
}

#[test]
fn products_of_8_bit_floats_have_the_same_bits_however_keys_are_split() {
    if !device().limits().has_wgmma {
        println!("skipped: no WGMMA");
        return;
    }
    let tile = |keys, consumers, stages, ping_pong, keeps_states| {
        Algorithm::Wgmma(WgmmaTile { consumers, keys, stages, blocks: 1, ping_pong, keeps_states, element_bytes: 1 })
    };
    let tiles = [tile(128, 1, 4, false, false), tile(128, 2, 5, true, true), tile(128, 2, 2, false, false)];
    gives_the_same(&device(), Dtype::F8E4M3, DIM, &tiles);
    gives_the_same(&device(), Dtype::F8E4M3, 72, &tiles[..1]);
    gives_the_same(&device(), Dtype::F8E4M3, 136, &[tile(64, 1, 3, false, false), tile(64, 2, 2, true, false)]);
}

#[test]
fn without_wgmma_parts_of_keys_and_blocks_on_a_multiprocessor_change_no_bit() {
    let device = device_of(Profile::A100);
    let tiles = |keys| [1, 2].map(|blocks| Algorithm::Mma(MmaTile { keys, blocks }));
    gives_the_same(&device, Dtype::F16, DIM, &tiles(64));
    gives_the_same(&device, Dtype::Bf16, 72, &tiles(64)[..1]);
    gives_the_same(&device, Dtype::F16, 136, &tiles(32)[..1]);
}

/// All keys as one segment are another sum: what the order is compared with is not the order.
#[test]
fn the_order_of_segments_matters() {
    let device = device();
    let (problem, [len, keys]) = of_segments(Dtype::F32, DIM);
    let q = tensor(&device, 1, Dtype::F32, &[HEADS, len, DIM]);
    let k = tensor(&device, 2, Dtype::F32, &[KV_HEADS, keys, DIM]);
    let v = tensor(&device, 3, Dtype::F32, &[KV_HEADS, keys, DIM]);
    let [by_segments, at_once] = [Order::Segments, Order::OneSegment].map(|order| {
        let choice = Choice { algorithm: Algorithm::Simt, splits: 1, segments: 3, order, single_launch: false };
        split(&device, &problem, choice, &[&q, &k, &v])
    });
    assert!(by_segments != at_once);
}

/// Three queries of a long sequence and one of a short one, over pages in a pool of NaN, with keys
/// split as it is told: the bits of each row.
fn of_pages(
    device: &Device,
    types: Types,
    pool: &Pool,
    q: &Tensor,
    queries: [usize; 2],
    per_part: u64,
    merges: bool,
) -> Option<Vec<Bits>> {
    let [head, token, page] = match pool.layout {
        PageLayout::Nhd => [DIM, KV_HEADS * DIM, PAGE * KV_HEADS * DIM],
        PageLayout::Hnd => [PAGE * DIM, DIM, KV_HEADS * PAGE * DIM],
    };
    let strides = [page, head, token, 1].map(|stride| stride as i64);
    let [pages, width] = [pool.keys.shape()[0], pool.table.shape()[1]].map(|size| size as u64);
    let keys = Keys::Paged { page: PAGE as u64, pages, width, k_strides: strides, v_strides: strides };
    let total = queries.iter().sum::<usize>() as u64;
    let packed = Queries::Packed { batch: 2, total, strides: [(HEADS * DIM) as i64, DIM as i64, 1] };
    let of_heads = [HEADS, KV_HEADS].map(|heads| heads as u64);
    let plain = Problem::new(types.queries, of_heads, [DIM as u64; 2], packed, keys);
    let (scale_k, scale_v) = if types.keys.bytes() == 1 { (0.3, 1.7) } else { (1.0, 1.0) };
    let problem = Problem {
        kv_dtype: types.keys,
        products: types.narrow_products.then_some(types.keys),
        scale_bits: ((0.25_f64 * scale_k) as f32).to_bits(),
        value_scale_bits: (scale_v as f32).to_bits(),
        causal: Some(Causal::BottomRight),
        lse: true,
        ..plain
    };
    let (target, kernels) = (device.target(), KernelCache::default());
    let planned = kernel::Attention.choose(&problem, &Planner::new(&target, device.limits(), &kernels));
    let splits = (width * PAGE as u64).div_ceil(segment_keys(DIM as u64, DIM as u64).into()).div_ceil(per_part);
    if merges && (splits == 1 || planned.algorithm == Algorithm::Simt) {
        return None;
    }
    let choice = Choice { splits, segments: per_part, order: Order::Segments, single_launch: merges, ..planned };
    let cu_seqlens = offsets(device, &queries);
    let inputs = [q, &pool.keys, &pool.values, &cu_seqlens, &pool.lens, &pool.table];
    let [output, lse] = split(device, &problem, choice, &inputs);
    let (of_row, of_lse) = (output.len() / total as usize, lse.len() / total as usize);
    Some(output.chunks(of_row).zip(lse.chunks(of_lse)).map(|(row, lse)| (row.to_vec(), lse.to_vec())).collect())
}

#[test]
fn pages_in_a_pool_of_nan_give_the_same_bits_however_keys_are_split_and_merged() {
    of_some_types(1, |device, types| {
        let lens = [2 * segment_keys(16, 16) as usize + 21, 35];
        let all = lens.map(|len| Sequence::new(device, types, len, len));
        let queries = [3, 1];
        let of_last = |(sequence, num): (&Sequence, usize)| sequence.q.slice(0, sequence.len() - num..).unwrap();
        let q = concatenated(device, &all.iter().zip(queries).map(of_last).collect::<Vec<_>>());
        let expected: Vec<Bits> = all
            .iter()
            .zip(queries)
            .flat_map(|(sequence, num)| {
                let attended = alone(sequence, sequence.len() - num, sequence.len());
                (0..num).map(|i| row(&attended, i)).collect::<Vec<_>>()
            })
            .collect();
        for (seed, layout) in [(1, PageLayout::Nhd), (2, PageLayout::Hnd)] {
            let pool = Pool::new(device, seed, &all.each_ref(), layout);
            for (per_part, merges) in [(3, false), (2, true), (1, false), (1, true)] {
                let found = of_pages(device, types, &pool, &q, queries, per_part, merges);
                let is_same = found.is_none_or(|found| found == expected);
                assert!(is_same, "{types:?}, {layout:?}, {per_part} segments a part, merged by the last: {merges}");
            }
        }
    });
}
