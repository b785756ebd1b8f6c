//! Plans are made once, and what is captured reads lengths, tables and slots when it is launched.

use warpfold::{Attention, Dtype, PagedKeys, Queue, Tensor};
use warpfold_device::{Buffer, View};
use warpfold_kernels::attention::{self as kernel, Choice, Keys, Problem, Queries};
use warpfold_kernels::heads::{self, Cache, Heads, Source};
use warpfold_kernels::plan::{Family, KernelCache, Planner, TensorSpec, Workspace};

use crate::attention::support::{device, ints, is_clean, numbers, on_every_device, tensor};

#[test]
fn the_second_call_plans_nothing() {
    let device = device();
    let queue = Queue::of(&device);
    let run = |seed: usize, lens: [i32; 2]| {
        let of = |i, shape: &[usize]| tensor(&device, seed + i, Dtype::Bf16, shape);
        let (q, pages) = (of(1, &[2, 4, 16]), of(2, &[8, 16, 2, 16]));
        let table = Tensor::from_slice(&[seed as i32, 3, 1, 0], &[2, 2], &device).unwrap();
        let lens = ints(&device, &lens);
        let cache = warpfold::PagedKeys { keys: &pages, values: &pages, block_table: &table, lens: &lens };
        Attention::new().causal().run_paged(&q, cache, None).unwrap();
        let q = of(3, &[1, 4, 40, 16]);
        Attention::new().run(&q, &q, &q).unwrap();
    };
    run(0, [5, 20]);
    let before = queue.plan_counts();
    run(4, [32, 1]);
    let after = queue.plan_counts();
    assert_eq!((after.planned, after.found > before.found), (before.planned, true));
}

const PAGE: usize = 16;
const PAGES: usize = 8;
const KV_HEADS: usize = 2;
const HEADS: usize = 4;
const DIM: usize = 16;

/// Two new tokens for a pool of f32 pages `[page, token, head, element]`.
fn write_of_two() -> heads::Problem {
    let of = |dtype, shape: &[usize]| TensorSpec::contiguous(dtype, shape).unwrap();
    let new = || of(Dtype::F32, &[2, KV_HEADS, DIM]);
    let pages = || of(Dtype::F32, &[PAGES, PAGE, KV_HEADS, DIM]);
    let cache = Cache { slots: of(Dtype::I64, &[2]), pages: [pages(), pages()], scale_bits: [1.0_f32.to_bits(); 2] };
    let source = Source::Tensors { queries: None, keys_and_values: Some([new(), new()]) };
    heads::Problem { source, rotary: None, cache: Some(cache) }
}

/// A query each of two sequences over that pool.
fn decode_of_two() -> Problem {
    let [head, token, page] = [DIM, KV_HEADS * DIM, PAGE * KV_HEADS * DIM].map(|stride| stride as i64);
    let (row, of_head) = ((HEADS * DIM) as i64, DIM as i64);
    let strides = [page, head, token, 1];
    let queries = Queries::Dense { batch: 2, len: 1, strides: [row, of_head, 0, 1], out_strides: [row, of_head, 0] };
    let (page, pages) = (PAGE as u64, PAGES as u64);
    let keys = Keys::Paged { page, pages, width: 2, k_strides: strides, v_strides: strides };
    Problem::new(Dtype::F32, [HEADS, KV_HEADS].map(|heads| heads as u64), [DIM as u64; 2], queries, keys)
}

#[test]
fn a_captured_step_is_launched_again_with_other_lengths_tables_and_slots() {
    let device = device();
    let stream = device.new_stream().unwrap();
    let pool_len = PAGES * PAGE * KV_HEADS * DIM;
    let upload = |seed: usize, len: usize| device.upload(&numbers(seed, len)).unwrap();
    let (mut keys, mut of_values) = (upload(1, pool_len), upload(2, pool_len));
    let (q, new) = (upload(3, 2 * HEADS * DIM), upload(4, 2 * KV_HEADS * DIM));
    let mut output = device.alloc::<f32>(2 * HEADS * DIM).unwrap();
    let (mut table, mut lens) = (device.upload(&[0_i32; 4]).unwrap(), device.upload(&[0_i32; 2]).unwrap());
    let mut slots = device.upload(&[-1_i64; 2]).unwrap();
    let write = Heads.ready(&device, &write_of_two()).unwrap();
    let decode = kernel::Attention.ready(&device, &decode_of_two()).unwrap();
    let mut workspace = Workspace::new();
    stream.synchronize().unwrap();
    fn bytes<T: warpfold_device::Element>(buffer: &Buffer<T>) -> Option<View<'_, u8>> {
        Some(buffer.as_view().bytes())
    }
    let (graph, ()) = stream
        .capture(|| {
            let pools = &mut [keys.as_view_mut().bytes(), of_values.as_view_mut().bytes()];
            write.launch(&stream, &[bytes(&new), bytes(&new), bytes(&slots)], pools, &mut workspace)?;
            let inputs = [bytes(&q), bytes(&keys), bytes(&of_values), bytes(&lens), bytes(&table)];
            decode.launch(&stream, &inputs, &mut [output.as_view_mut().bytes()], &mut workspace)
        })
        .unwrap();
    let mut pool = [numbers(1, pool_len), numbers(2, pool_len)];
    let (queries, token) = (numbers(3, 2 * HEADS * DIM), KV_HEADS * DIM);
    for (pages, lengths, at) in [([0, 1, 2, 3], [3, 4], [2, 35]), ([7, 5, 1, 6], [20, 32], [83, 111])] {
        stream.copy_from_host(&mut table, &pages).unwrap();
        stream.copy_from_host(&mut lens, &lengths).unwrap();
        stream.copy_from_host(&mut slots, &at).unwrap();
        graph.launch().unwrap();
        for (i, slot) in at.iter().enumerate() {
            let new = numbers(4, 2 * token)[i * token..][..token].to_vec();
            pool.iter_mut().for_each(|pool| pool[*slot as usize * token..][..token].copy_from_slice(&new));
        }
        let found = output.download().unwrap();
        for s in 0..2 {
            let slot = |i: usize| pages[2 * s + i / PAGE] as usize * PAGE + i % PAGE;
            for head in 0..HEADS {
                let at = |pool: &[f32], i: usize, c: usize| {
                    f64::from(pool[slot(i) * token + head / (HEADS / KV_HEADS) * DIM + c])
                };
                let query = &queries[(s * HEADS + head) * DIM..][..DIM];
                let score = |i: usize| (0..DIM).map(|c| f64::from(query[c]) * at(&pool[0], i, c)).sum::<f64>() / 4.0;
                let weights: Vec<f64> = (0..lengths[s] as usize).map(|i| score(i).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for c in 0..DIM {
                    let weighed = weights.iter().enumerate().map(|(i, weight)| weight * at(&pool[1], i, c));
                    let expected = weighed.sum::<f64>() / sum;
                    let found = f64::from(found[(s * HEADS + head) * DIM + c]);
                    assert!((found - expected).abs() < 1e-5, "sequence {s}, head {head}: {found}, not {expected}");
                }
            }
        }
    }
    is_clean(&device);
}

#[test]
fn captured_parts_of_keys_are_merged_again_with_other_lengths_and_tables() {
    on_every_device(|device, _| {
        // Two segments of keys for each of two sequences.
        let width = 80;
        let of = |seed, shape: &[usize]| tensor(&device, seed, Dtype::F16, shape);
        let (q, k, v) =
            (of(1, &[2, HEADS, DIM]), of(2, &[170, PAGE, KV_HEADS, DIM]), of(3, &[170, PAGE, KV_HEADS, DIM]));
        let [head, token, page] = [DIM, KV_HEADS * DIM, PAGE * KV_HEADS * DIM].map(|stride| stride as i64);
        let (row, strides) = ((HEADS * DIM) as i64, [page, head, token, 1]);
        let (q_strides, out_strides) = ([row, head, 0, 1], [row, head, 0]);
        let queries = Queries::Dense { batch: 2, len: 1, strides: q_strides, out_strides };
        let keys = Keys::Paged { page: PAGE as u64, pages: 170, width, k_strides: strides, v_strides: strides };
        let heads = [HEADS, KV_HEADS].map(|heads| heads as u64);
        let problem = Problem { lse: true, ..Problem::new(Dtype::F16, heads, [DIM as u64; 2], queries, keys) };
        let (target, kernels) = (device.target(), KernelCache::default());
        let planner = Planner::new(&target, device.limits(), &kernels);
        let planned = kernel::Attention.choose(&problem, &planner);
        for single_launch in [false, true] {
            let choice = Choice { splits: 2, segments: 1, single_launch, ..planned };
            let decode = kernel::Attention.plan_with(&problem, choice, &planner).unwrap().ready(&device).unwrap();
            let stream = device.new_stream().unwrap();
            let memory = [&q, &k, &v].map(|tensor| device.upload(&tensor.to_bytes().unwrap()).unwrap());
            let mut lens = device.upload(&[0_i32; 2]).unwrap();
            let mut table = device.upload(&vec![0_i32; 2 * width as usize]).unwrap();
            let mut outputs = [0, 1].map(|i| device.alloc::<u8>(decode.plan().outputs[i].bytes as usize).unwrap());
            let mut workspace = Workspace::new();
            stream.synchronize().unwrap();
            let (graph, ()) = stream
                .capture(|| {
                    let tensors = memory.iter().map(|memory| Some(memory.as_view()));
                    let lists = [&lens, &table].map(|list| Some(list.as_view().bytes()));
                    let inputs: Vec<_> = tensors.chain(lists).collect();
                    let [output, lse] = &mut outputs;
                    decode.launch(&stream, &inputs, &mut [output.as_view_mut(), lse.as_view_mut()], &mut workspace)
                })
                .unwrap();
            for (step, lengths) in [(7, [1280, 3]), (3, [5, 1100]), (11, [0, 1025]), (1, [1024, 16])] {
                let pages: Vec<i32> = (0..2 * width as i32).map(|i| i * step % 169).collect();
                stream.copy_from_host(&mut table, &pages).unwrap();
                stream.copy_from_host(&mut lens, &lengths).unwrap();
                graph.launch().unwrap();
                let blocks = Tensor::from_slice(&pages, &[2, width as usize], &device).unwrap();
                let cache = PagedKeys { keys: &k, values: &v, block_table: &blocks, lens: &ints(&device, &lengths) };
                let expected = Attention::new().run_paged(&q, cache, None).unwrap();
                let what = format!("{lengths:?}, merged by the last: {single_launch}");
                assert_eq!(outputs[0].download().unwrap(), expected.output.to_bytes().unwrap(), "{what}");
                assert_eq!(outputs[1].download().unwrap(), expected.lse.to_bytes().unwrap(), "{what}");
            }
        }
        is_clean(&device);
    });
}
