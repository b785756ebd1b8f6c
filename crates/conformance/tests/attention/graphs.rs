//! Plans are made once, and what is captured reads lengths, tables and slots when it is launched.

#![allow(unsafe_code, reason = "who lends memory says so")]

use warpfold::{Attention, CacheShape, Device, Dtype, NewTokens, PageLayout, PagedCache, Queue, Tensor, TensorElement};
use warpfold_device::Buffer;

use crate::support::{device, ints, is_clean, same, tensor};

#[test]
fn the_second_call_plans_nothing() {
    let device = device();
    let queue = Queue::of(&device);
    let run = |seed: usize, lens: [i32; 2]| {
        let of = |i, shape: &[usize]| tensor(&device, seed + i, Dtype::Bf16, shape);
        let (q, pages) = (of(1, &[2, 4, 16]), of(2, &[8, 16, 2, 16]));
        let table = Tensor::from_slice(&device, &[seed as i32, 3, 1, 0], &[2, 2]).unwrap();
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

/// A tensor in memory of the caller.
///
/// # Safety
/// The buffer outlives the tensor, and is used in the order of the queue's stream.
unsafe fn borrowed<T: TensorElement>(queue: &Queue, buffer: &Buffer<T>, shape: &[usize]) -> Tensor {
    // SAFETY: as above.
    let memory = unsafe { Buffer::<T>::from_raw(queue.stream(), buffer.address(), buffer.len()) };
    Tensor::from_buffer(queue, memory, shape).unwrap()
}

#[test]
fn a_captured_step_is_launched_again_with_other_lengths_tables_and_slots() {
    let device: Device = device();
    let queue = Queue::new(device.new_stream().unwrap());
    let stream = queue.stream();
    let shape = CacheShape { pages: 8, page: 16, kv_heads: 2, head_dim: 16, value_dim: 16 };
    let mut cache = PagedCache::new(&queue, Dtype::F32, shape, PageLayout::Nhd).unwrap();
    let all = tensor(&device, 1, Dtype::F32, &[128, 2, 16]).on(&queue);
    let every: Vec<i32> = (0..128).collect();
    let every = ints(&device, &every).on(&queue);
    cache.write(NewTokens { keys: &all, values: &all, slots: &every }, None).unwrap();

    let (mut table, mut lens) = (device.upload(&[0_i32, 1, 2, 3]).unwrap(), device.upload(&[3_i32, 4]).unwrap());
    let mut slots = device.upload(&[2_i64, 35]).unwrap();
    // SAFETY: the three buffers live to the end of this function and are used in the order of the stream.
    let (blocks, list, places) =
        unsafe { (borrowed(&queue, &table, &[2, 2]), borrowed(&queue, &lens, &[2]), borrowed(&queue, &slots, &[2])) };
    let (q, new) = (tensor(&device, 2, Dtype::F32, &[2, 4, 16]), tensor(&device, 3, Dtype::F32, &[2, 2, 16]));
    let (q, new) = (q.on(&queue), new.on(&queue));
    stream.synchronize().unwrap();
    let (graph, captured) = stream
        .capture(|| {
            cache.write(NewTokens { keys: &new, values: &new, slots: &places }, None)?;
            Attention::new().run_paged(&q, cache.pages(&blocks, &list), None)
        })
        .unwrap();
    for (pages, lengths, at) in [([0, 1, 2, 3], [3, 4], [2, 35]), ([7, 5, 1, 6], [20, 32], [83, 111])] {
        stream.copy_from_host(&mut table, &pages).unwrap();
        stream.copy_from_host(&mut lens, &lengths).unwrap();
        stream.copy_from_host(&mut slots, &at).unwrap();
        graph.launch().unwrap();
        let attended = Attention::new().run_paged(&q, cache.pages(&blocks, &list), None).unwrap();
        same("a launch of the graph", &captured, &attended);
        // The new tokens are where they were put.
        let token = |memory: &Tensor, i: usize| memory.slice(0, i..i + 1).unwrap().to_bytes().unwrap();
        let written = cache.keys().reshape(&[128, 2, 16]).unwrap();
        at.iter().enumerate().for_each(|(i, slot)| assert!(token(&written, *slot as usize) == token(&new, i)));
    }
    is_clean(&device);
}
