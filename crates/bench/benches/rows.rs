//! Times every way to hold a row on chip, for the constants of the plan of row operators: needs a
//! GPU.
//!
//! `cargo bench -p warpfold-bench --bench rows -- cuda:0 softmax bf16 16384x32768 …` prints
//! for each shape (rows x items) the bytes a second of a copy and of each place and number of
//! threads, timed in turns, and marks those that the plan chose. Results are compared with those of
//! the plan. `layer-norm+2` gives the norm a scale and a bias; `~pieces` among the shapes leaves,
//! of those after it, only the ways whose kernel's name contains it.

use std::sync::LazyLock;
use std::time::Duration;

use warpfold_conformance::elements::values_of;
use warpfold_device::{Buffer, Device, LaunchConfig};
use warpfold_kernels::plan::{KernelCache, Planner, Ready, TensorSpec};
use warpfold_kernels::rowwise::operators::{Norm, RowOp, Types, operator_of};
use warpfold_kernels::rowwise::{Algorithm, Choice, OnChip, RowPartition, RowStorage, RowWise, StoreVia};
use warpfold_kernels::{Dtype, Workspace};
use warpfold_lang::{Kernel, Val, clock, kernel, loop_until_left};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [device, op, dtype, shapes @ ..] = arguments.as_slice() else {
        println!(
            "nothing to time: give a device, an operator, a type and shapes, such as cuda:0 softmax bf16 16384x32768"
        );
        return;
    };
    let device = Device::parse(device).expect("the device is there");
    let dtype: Dtype = dtype.parse().expect("an element type");
    let (op, num_columns) = op.split_once('+').map_or((op.as_str(), 0), |(op, n)| (op, n.parse().expect("a number")));
    let norm = Norm { eps: 1e-5, keep_sum: false };
    let op = match op {
        "softmax" => RowOp::Softmax { scale: 1.0 },
        "layer-norm" => RowOp::LayerNorm(norm),
        "rms-norm" => RowOp::RmsNorm(norm),
        "quantize" => RowOp::Quantize { to: Dtype::I8 },
        other => panic!("no operator {other} here"),
    };
    let operator =
        operator_of(op, Types { rows: &[dtype], columns: &vec![dtype; num_columns] }).expect("the type is known");
    let mut only = "";
    for shape in shapes {
        if let Some(part) = shape.strip_prefix('~') {
            only = part;
            continue;
        }
        let (rows, len) = shape.split_once('x').expect("a shape is ROWSxITEMS");
        let (rows, len) = (rows.parse().expect("a number"), len.parse().expect("a number"));
        time_all(&device, &operator, dtype, num_columns, [rows, len], only);
    }
}

/// An operator's memory, with results that are renewed where they are compared.
struct Memory {
    /// The rows, then the vectors along them.
    inputs: Vec<Buffer<u8>>,
    /// The results, then the statistics.
    outputs: Vec<Buffer<u8>>,
    num_results: usize,
}

impl Memory {
    fn new(device: &Device, operator: &RowWise, dtype: Dtype, num_columns: usize, [rows, len]: [usize; 2]) -> Self {
        let filled = |len: usize| {
            let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 4_194_304.0 - 2.0;
            let all = len * dtype.bytes() as usize;
            // A prime number of values, again and again.
            let len = len.min(1_048_573);
            let part: Vec<u8> = match dtype {
                Dtype::Bf16 => (0..len).flat_map(|i| half::bf16::from_f32(value(i)).to_le_bytes()).collect(),
                Dtype::F16 => (0..len).flat_map(|i| half::f16::from_f32(value(i)).to_le_bytes()).collect(),
                Dtype::F32 => (0..len).flat_map(|i| value(i).to_le_bytes()).collect(),
                other => panic!("no values of {other} here"),
            };
            let part = device.upload(&part).expect("there is memory");
            let (stream, mut filled) = (device.default_stream(), device.alloc::<u8>(all).expect("there is memory"));
            for start in (0..all).step_by(part.len()) {
                let end = all.min(start + part.len());
                let to = filled.view_mut(start..end).expect("it has so many");
                stream.copy(to, part.view(..end - start).expect("it has so many")).expect("it is copied");
            }
            filled
        };
        let alloc = |dtype: &Dtype, len: usize| device.alloc(len * dtype.bytes() as usize).expect("there is memory");
        let results = operator.results().iter().map(|dtype| alloc(dtype, rows * len));
        let stats = operator.stats().iter().map(|dtype| alloc(dtype, rows));
        Self {
            inputs: std::iter::once(filled(rows * len)).chain((0..num_columns).map(|_| filled(len))).collect(),
            outputs: results.chain(stats).collect(),
            num_results: operator.results().len(),
        }
    }

    fn run(&mut self, device: &Device, ready: &Ready, workspace: &mut Workspace) {
        let inputs: Vec<_> = self.inputs.iter().map(|input| Some(input.as_view())).collect();
        let mut outputs: Vec<_> = self.outputs.iter_mut().map(Buffer::as_view_mut).collect();
        ready.launch(&device.default_stream(), &inputs, &mut outputs, workspace).expect("the plan runs");
    }

    /// The first results, as they are in memory.
    fn sample(&mut self) -> Vec<u8> {
        let result = &mut self.outputs[0];
        let bytes = result.len().min(1 << 22);
        let stream = result.device().default_stream();
        let mut sample = vec![0; bytes];
        stream.copy_to_host(result.view(..bytes).expect("it has so many"), &mut sample).expect("it can be read");
        result.fill_bytes(0xff).expect("it can be written");
        sample
    }
}

fn time_all(
    device: &Device,
    operator: &RowWise,
    dtype: Dtype,
    num_columns: usize,
    [rows, len]: [usize; 2],
    only: &str,
) {
    let mut memory = Memory::new(device, operator, dtype, num_columns, [rows, len]);
    let tensor = |shape: &[usize]| TensorSpec::contiguous(dtype, shape).expect("few dimensions");
    let problem = operator.problem(vec![tensor(&[rows, len])], vec![tensor(&[len]); num_columns], 1);
    let (target, kernels) = (device.target(), KernelCache::default());
    let planner = Planner::new(&target, device.limits(), &kernels);
    let ready = |choice: &Choice| {
        let plan = operator.plan_with(&problem, choice, &planner).expect("the choice is possible");
        plan.ready(device).expect("the kernel loads")
    };
    let name_of = |ready: &Ready| ready.plan().steps.last().map_or("", |step| step.kernel.name()).to_owned();
    let chosen = operator.choose(&problem, &target).expect("the rows are not too many");
    let ready_as_chosen = ready(&chosen);
    let mut workspace = Workspace::new();
    memory.run(device, &ready_as_chosen, &mut workspace);
    let expected = memory.sample();
    let results = memory.outputs[..memory.num_results].iter();
    let bytes = memory.inputs[0].len() + results.map(Buffer::len).sum::<usize>();
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let name = name_of(&ready_as_chosen);
    let mut ways = vec![(chosen.clone(), ready_as_chosen)];
    for choice in others(&chosen, dtype, operator.results(), len as u64, rows as u32) {
        let ready = ready(&choice);
        if name_of(&ready).contains(only) {
            ways.push((choice, ready));
        }
    }
    let mut timed: Vec<_> = (ways.iter())
        .map(|(choice, ready)| {
            memory.run(device, ready, &mut workspace);
            let agrees = close(operator.results()[0], &memory.sample(), &expected);
            (choice, ready, if agrees { "" } else { " WRONG" }, Vec::new())
        })
        .collect();
    // In turns, so that what the device does from second to second is the same for all.
    let (stream, mut copies) = (device.default_stream(), Vec::new());
    let mut to = device.alloc::<u8>(memory.inputs[0].len()).expect("there is memory");
    for _ in 0..ROUNDS {
        let copy = || stream.copy(to.as_view_mut(), memory.inputs[0].as_view()).expect("it is copied");
        copies.push(time(device, bytes, copy));
        for (_, ready, _, times) in &mut timed {
            times.push(time(device, bytes, || memory.run(device, ready, &mut workspace)));
        }
    }
    let copy = 2.0 * memory.inputs[0].len() as f64 / median(copies).as_secs_f64() / 1e9;
    println!("{name} {num_columns} {dtype} {rows}x{len}: copy {copy:.0} GB/s");
    for (choice, ready, agrees, times) in timed {
        let time = median(times);
        let mark = if *choice == chosen { " <- chosen" } else { "" };
        let blocks = match &choice.algorithm {
            Algorithm::OnChip(OnChip { storage: RowStorage::Smem { blocks_per_sm, .. }, .. }) => *blocks_per_sm,
            _ => 0,
        };
        let us = time.as_secs_f64() * 1e6;
        println!("  {:7.0} GB/s {us:9.2} us  {} {blocks}{mark}{agrees}", rate(time), name_of(ready));
    }
}

/// The same rows held in other ways, by a block each.
fn others(chosen: &Choice, dtype: Dtype, results: &[Dtype], len: u64, rows: u32) -> Vec<Choice> {
    let (Algorithm::OnChip(shape), Some(launch)) = (&chosen.algorithm, chosen.launch) else { return Vec::new() };
    let shared_by = |cluster: u32, block: u32, storage: RowStorage, shared: u32| {
        let shape = OnChip { cluster, block, threads_per_row: cluster * block, storage, ..shape.clone() };
        let mut launch = launch;
        (launch.grid, launch.block, launch.dynamic_shared) = ([cluster * rows, 1, 1], [block, 1, 1], shared);
        let mut plan = chosen.clone();
        (plan.algorithm, plan.launch) = (Algorithm::OnChip(shape), Some(launch));
        plan
    };
    let with = |block: u32, storage: RowStorage, shared: u32| shared_by(1, block, storage, shared);
    let (vector, row_bytes) = (shape.vector, len * dtype.bytes());
    let is_whole = row_bytes.is_multiple_of(16);
    let partition_of = |cluster: u32, block: u32, kept: u32| {
        let groups = (len / u64::from(vector)).div_ceil(u64::from(cluster * block)) as u32;
        let exact = u64::from(groups * vector * block * cluster) == len;
        let bytes = block * groups.saturating_sub(kept) * vector * dtype.bytes() as u32;
        RowPartition {
            groups,
            exact,
            register_groups: kept,
            blocks_per_sm: 1,
            smem_bytes: bytes,
            store_via: StoreVia::Threads,
        }
    };
    let partitioned = |cluster: u32, block: u32, partition: RowPartition| {
        shared_by(cluster, block, RowStorage::Partitioned(partition), partition.smem_bytes)
    };
    let mut plans = Vec::new();
    for (cluster, block) in
        [1, 2, 4, 8].into_iter().flat_map(|cluster| [64, 128, 256, 512, 1024].map(|block| (cluster, block)))
    {
        let partition = partition_of(cluster, block, 0);
        let RowPartition { groups, smem_bytes: bytes, .. } = partition;
        let most = (2048 / block).min((228 << 10) / (bytes + (2 << 10))).min(32);
        if !is_whole
            || groups > 32
            || (groups > 16 && block < 256)
            || most == 0
            || (cluster > 1 && (len < 16384 || groups < 2))
        {
            continue;
        }
        let registers = |count: u32| 65536 / (block * count);
        let mut counts =
            vec![most.min(registers(32)), most.min(registers(40)), most.min(registers(64)), most.min(registers(80))];
        counts.retain(|count| *count > 0);
        counts.dedup();
        let ways = [StoreVia::Tma, StoreVia::Threads];
        for (blocks, store_via) in counts.into_iter().flat_map(|blocks| ways.map(|way| (blocks, way))) {
            if store_via == StoreVia::Tma && results.iter().any(|result| result.bytes() != dtype.bytes()) {
                continue;
            }
            plans.push(partitioned(cluster, block, RowPartition { blocks_per_sm: blocks, store_via, ..partition }));
        }
    }
    for (cluster, block, kept) in [1, 2, 4].into_iter().flat_map(|cluster| {
        [256, 512, 1024].into_iter().flat_map(move |block| [1_u32, 2, 3, 4, 5, 6, 8].map(|kept| (cluster, block, kept)))
    }) {
        let partition = partition_of(cluster, block, kept);
        for blocks in [1, 2, 3] {
            let room = ((228_u32 << 10) / blocks).saturating_sub(5 << 10);
            let fits = partition.groups > kept && (room * 3 / 4..=room).contains(&partition.smem_bytes);
            if is_whole && fits && block * blocks <= 1024 {
                plans.push(partitioned(cluster, block, RowPartition { blocks_per_sm: blocks, ..partition }));
            }
        }
    }
    for (block, threads_per_row) in [(128, 32), (128, 128), (256, 256), (512, 512), (1024, 1024)] {
        let groups = (len / u64::from(vector)).div_ceil(threads_per_row.into()) as u32;
        if groups * vector <= 32 {
            let exact = u64::from(groups * vector * threads_per_row) == len;
            for early_columns in [true, false] {
                let mut plan = with(block, RowStorage::Registers { groups, exact, early_columns }, 0);
                let (Algorithm::OnChip(shape), Some(launch)) = (&mut plan.algorithm, &mut plan.launch) else {
                    unreachable!()
                };
                (shape.threads_per_row, launch.grid[0]) = (threads_per_row, rows.div_ceil(block / threads_per_row));
                plans.push(plan);
            }
        }
        for (items, blocks) in [8, 16, 32].into_iter().flat_map(|items| [1, 2, 3, 4].map(|blocks| (items, blocks))) {
            let room = u64::from((228 << 10) / blocks - (5 << 10));
            let (unroll, bytes) = ((items / vector).max(1), row_bytes.next_multiple_of(16) + 16);
            if block * blocks <= 2048 && bytes <= room {
                plans.push(with(
                    block,
                    RowStorage::Smem { unroll, blocks_per_sm: blocks, smem_bytes: bytes as u32 },
                    bytes as u32,
                ));
            }
        }
    }
    plans.retain(|plan| plan != chosen);
    plans
}

/// Waits for so many clock cycles.
static WAIT: LazyLock<Kernel<(u64,)>> = LazyLock::new(|| {
    kernel("wait", |cycles: Val<u64>| {
        let start = clock();
        loop_until_left(|waiting| waiting.leave_if((clock() - start).ge(cycles)));
    })
});

/// How often each way is timed.
const ROUNDS: usize = 7;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The time that a run takes among some, one behind the other.
fn time(device: &Device, bytes: usize, mut run: impl FnMut()) -> Duration {
    let stream = device.default_stream();
    let runs = (2_000_000_000 / bytes).clamp(4, 100) as u32;
    // What is enqueued behind a kernel that waits stands in line, so that no time of the host's
    // shows.
    stream.launch(&WAIT, LaunchConfig::new(1, 1), (1_000_000,)).expect("it waits");
    let start = stream.record().expect("an event");
    (0..runs).for_each(|_| run());
    let end = stream.record().expect("an event");
    end.elapsed_since(&start).expect("a time").unwrap_or_default() / runs
}

/// Whether two results differ by rounding alone, of terms of about 1.
fn close(dtype: Dtype, left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (values_of(dtype, left), values_of(dtype, right));
    left.iter().zip(&right).all(|(left, right)| (left - right).abs() <= 0.01 * right.abs() + 1e-6)
}
