//! The contract: no bit of a row depends on the batch, on how queries are chunked, on how keys are
//! split over blocks, or on where they lie.

use warpfold::{Attended, Attention, Device, Dtype, PagedKeys, Profile, Tensor};
use warpfold_kernels::attention::{
    self as kernel, Algorithm, Causal, Choice, Keys, MmaTile, Order, Problem, Queries, WgmmaTile, segment_keys,
};
use warpfold_kernels::plan::{KernelCache, Planner, Workspace};

use crate::support::{device, device_of, ints, is_clean, on_every_device, random, same, tensor};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 16;

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

/// Three queries and some more keys than four segments, in elements of `dim`.
fn of_segments(dtype: Dtype, dim: usize) -> (Problem, [usize; 2]) {
    let (len, keys) = (3_usize, 4 * segment_keys(dim as u64, dim as u64) as usize + 77);
    let dense = |heads: usize, len: usize| [heads, len, dim].iter().product::<usize>() as i64;
    let strides = |heads, len: usize| [dense(heads, len), (len * dim) as i64, dim as i64, 1];
    let problem = Problem {
        dtype,
        kv_dtype: dtype,
        output: if dtype == Dtype::F8E4M3 { Dtype::Bf16 } else { dtype },
        products: (dtype == Dtype::F8E4M3).then_some(dtype),
        heads: HEADS as u64,
        kv_heads: KV_HEADS as u64,
        head_dim: dim as u64,
        value_dim: dim as u64,
        queries: Queries::Dense {
            batch: 1,
            len: len as u64,
            strides: strides(HEADS, len),
            out_strides: [dense(HEADS, len), (len * dim) as i64, dim as i64],
        },
        keys: Keys::Dense { len: keys as u64, k_strides: strides(KV_HEADS, keys), v_strides: strides(KV_HEADS, keys) },
        scale_bits: 0.25_f32.to_bits(),
        value_scale_bits: 1.0_f32.to_bits(),
        causal: None,
        window: None,
        softcap_bits: None,
        mask: None,
        sinks: None,
        lse: true,
        score: None,
        alignment: 16,
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
        Problem { causal: Some(Causal::BottomRight), window: Some(1500), ..problem.clone() },
        // Elements one by one.
        Problem { alignment: 2, ..problem },
    ];
    let mut expected: Vec<[Vec<u8>; 2]> = Vec::new();
    for problem in &variants {
        let mut of_first = None;
        for algorithm in algorithms {
            for per_part in [segments, 1, 2, 3, 4, 8] {
                let (algorithm, splits) = (*algorithm, segments.div_ceil(per_part));
                let order = Order::Segments;
                let may_merge = algorithm != Algorithm::Simt && [1, 3].contains(&per_part);
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
    assert!(expected[0] == expected[2] && expected[0] != expected[1]);
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

/// Segments in one left fold are another sum: what the tree is compared with is not the tree.
#[test]
fn the_order_of_segments_matters() {
    let device = device();
    let (problem, [len, keys]) = of_segments(Dtype::F32, DIM);
    let q = tensor(&device, 1, Dtype::F32, &[HEADS, len, DIM]);
    let k = tensor(&device, 2, Dtype::F32, &[KV_HEADS, keys, DIM]);
    let v = tensor(&device, 3, Dtype::F32, &[KV_HEADS, keys, DIM]);
    let [tree, left] = [Order::Segments, Order::OneSegment].map(|order| {
        let choice = Choice { algorithm: Algorithm::Simt, splits: 1, segments: 5, order, single_launch: false };
        split(&device, &problem, choice, &[&q, &k, &v])
    });
    assert!(tree != left);
}

/// A sequence of tokens with their queries, keys and values.
struct Sequence {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl Sequence {
    fn new(device: &Device, seed: usize, len: usize) -> Self {
        let of = |i: usize, heads: usize| tensor(device, 3 * seed + i, Dtype::F16, &[len, heads, DIM]);
        Self { q: of(0, HEADS), k: of(1, KV_HEADS), v: of(2, KV_HEADS) }
    }

    fn len(&self) -> usize {
        self.q.shape()[0]
    }
}

fn options<'a>() -> Attention<'a> {
    Attention::new().causal()
}

/// The results of queries `from..to` of a sequence, with the keys before `to`: `[heads, queries,
/// dim]` of one batch.
fn alone(sequence: &Sequence, from: usize, to: usize) -> Attended {
    let by_heads =
        |x: &Tensor, from: usize| x.slice(0, from..to).unwrap().permute(&[1, 0, 2]).unwrap().unsqueeze(0).unwrap();
    let Sequence { q, k, v } = sequence;
    options().run(&by_heads(q, from), &by_heads(k, 0), &by_heads(v, 0)).unwrap()
}

/// The bits of a query, of each head: of results and log-sum-exp, from `[1, heads, queries, dim]`.
fn row(attended: &Attended, i: usize) -> (Vec<u8>, Vec<u8>) {
    let bits = |x: &Tensor| x.slice(2, i..i + 1).unwrap().to_bytes().unwrap();
    (bits(&attended.output), bits(&attended.lse))
}

/// The same from `[total, heads, dim]`.
fn packed_row(attended: &Attended, i: usize) -> (Vec<u8>, Vec<u8>) {
    let bits = |x: &Tensor| x.slice(0, i..i + 1).unwrap().to_bytes().unwrap();
    (bits(&attended.output), bits(&attended.lse))
}

#[test]
fn prefill_chunks_and_decode_give_the_same_bits() {
    on_every_device(|device, _| {
        let len = segment_keys(16, 16) as usize + 40;
        let sequence = Sequence::new(&device, 1, len);
        // Few rows in all: the last 75 queries at once, and then in chunks and one by one.
        let first = len - 75;
        let whole = alone(&sequence, first, len);
        let mut from = first;
        for chunk in [1, 31, 1, 33, 9] {
            let part = alone(&sequence, from, from + chunk);
            (0..chunk).for_each(|i| assert!(row(&part, i) == row(&whole, from + i - first), "query {}", from + i));
            from += chunk;
        }
        assert_eq!(from, len);
        // A short sequence whole, against each of its queries alone.
        let sequence = Sequence::new(&device, 2, 70);
        let whole = alone(&sequence, 0, 70);
        for i in [0, 1, 30, 31, 32, 63, 64, 69] {
            assert!(row(&alone(&sequence, i, i + 1), 0) == row(&whole, i), "query {i}");
        }
        is_clean(&device);
    });
}

/// Where sequences lie in a pool of pages.
struct Pool {
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    lens: Tensor,
}

const PAGE: usize = 16;

impl Pool {
    /// Puts sequences into pages in a random order, in a pool of NaN.
    fn new(device: &Device, seed: usize, sequences: &[&Sequence], lens: &[usize]) -> Self {
        let num_pages: usize = lens.iter().map(|len| len.div_ceil(PAGE)).sum::<usize>() + 3;
        let mut order: Vec<usize> = (0..num_pages).collect();
        (0..num_pages).for_each(|i| order.swap(i, ((random(seed, i).abs() * 1e6) as usize) % num_pages));
        let width = lens.iter().map(|len| len.div_ceil(PAGE)).max().unwrap_or(0) + 1;
        let token = KV_HEADS * DIM * 2;
        let nan = half::f16::NAN.to_bits().to_le_bytes();
        let mut pages = [0, 1].map(|_| nan.repeat(num_pages * PAGE * KV_HEADS * DIM));
        let mut table = vec![i32::MAX; sequences.len() * width];
        let mut free = order.into_iter();
        for (s, (sequence, len)) in sequences.iter().zip(lens).enumerate() {
            let bytes = [&sequence.k, &sequence.v].map(|x| x.to_bytes().unwrap());
            for first in (0..*len).step_by(PAGE) {
                let page = free.next().unwrap();
                table[s * width + first / PAGE] = page as i32;
                let num = (len - first).min(PAGE) * token;
                for (pages, bytes) in pages.iter_mut().zip(&bytes) {
                    pages[page * PAGE * token..][..num].copy_from_slice(&bytes[first * token..][..num]);
                }
            }
        }
        let queue = sequences[0].q.queue();
        let shape = [num_pages, PAGE, KV_HEADS, DIM];
        let [keys, values] = pages.map(|bytes| Tensor::from_bytes(queue, Dtype::F16, &bytes, &shape).unwrap());
        let table = Tensor::from_slice(device, &table, &[sequences.len(), width]).unwrap();
        let lens: Vec<i32> = lens.iter().map(|len| *len as i32).collect();
        Self { keys, values, table, lens: ints(device, &lens) }
    }

    fn pages(&self) -> PagedKeys<'_> {
        PagedKeys { keys: &self.keys, values: &self.values, block_table: &self.table, lens: &self.lens }
    }
}

fn concatenated(device: &Device, parts: &[Tensor]) -> Tensor {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_bytes().unwrap()).collect();
    let total = parts.iter().map(|part| part.shape()[0]).sum();
    let shape = [&[total], &parts[0].shape()[1..]].concat();
    Tensor::from_bytes(&warpfold::Queue::of(device), parts[0].dtype(), &bytes, &shape).unwrap()
}

fn offsets(device: &Device, lens: &[usize]) -> Tensor {
    let mut sum = 0;
    let list: Vec<i32> = std::iter::once(0)
        .chain(lens.iter().map(|len| {
            sum += len;
            sum as i32
        }))
        .collect();
    ints(device, &list)
}

#[test]
fn in_any_batch_and_any_pages_a_row_has_the_bits_that_it_has_alone() {
    on_every_device(|device, _| {
        let lens = [1, 17, 33, 64, 130, segment_keys(16, 16) as usize + 3];
        let all: Vec<Sequence> = lens.iter().enumerate().map(|(i, len)| Sequence::new(&device, 10 + i, *len)).collect();
        let last: Vec<(Vec<u8>, Vec<u8>)> =
            all.iter().map(|sequence| row(&alone(sequence, sequence.len() - 1, sequence.len()), 0)).collect();
        for round in 0..4 {
            // Some of them in some order, each with some of its last queries; one of them with none.
            let mut chosen: Vec<usize> = (0..all.len()).filter(|i| round == 0 || random(round, *i) > -0.3).collect();
            if round % 2 == 1 {
                chosen.reverse();
            }
            let sequences: Vec<&Sequence> = chosen.iter().map(|i| &all[*i]).collect();
            let kv_lens: Vec<usize> = sequences.iter().map(|sequence| sequence.len()).collect();
            let pool = Pool::new(&device, round, &sequences, &kv_lens);
            let num = |s: usize| ((random(40 + round, s).abs() * 40.0) as usize).min(kv_lens[s]);
            let mixed: Vec<usize> = (0..sequences.len()).map(num).collect();
            for (what, queries) in [("decode", vec![1; sequences.len()]), ("mixed", mixed)] {
                let parts: Vec<Tensor> = sequences
                    .iter()
                    .zip(&queries)
                    .filter(|(_, num)| **num > 0)
                    .map(|(sequence, num)| sequence.q.slice(0, sequence.len() - num..).unwrap())
                    .collect();
                let q = concatenated(&device, &parts);
                let cu_seqlens = offsets(&device, &queries);
                let attended = options().run_paged(&q, pool.pages(), Some(&cu_seqlens)).unwrap();
                let k = concatenated(&device, &sequences.iter().map(|sequence| sequence.k.clone()).collect::<Vec<_>>());
                let v = concatenated(&device, &sequences.iter().map(|sequence| sequence.v.clone()).collect::<Vec<_>>());
                let of_keys = offsets(&device, &kv_lens);
                let packed = options().run_packed([&q, &k, &v], &cu_seqlens, &of_keys, 2000).unwrap();
                same(&format!("{what} {round}: pages and packed keys"), &attended, &packed);
                if what == "decode" {
                    let each = options().run_paged(&q, pool.pages(), None).unwrap();
                    same(&format!("{what} {round}: with and without a list"), &attended, &each);
                }
                let mut end = 0;
                for (s, num) in queries.iter().enumerate() {
                    end += num;
                    if *num > 0 {
                        let found = packed_row(&attended, end - 1);
                        assert!(
                            found == last[chosen[s]],
                            "{what} {round}: sequence {s} of {kv_lens:?} with {queries:?}"
                        );
                    }
                }
            }
        }
        is_clean(&device);
    });
}
