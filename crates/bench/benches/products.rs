//! Times every plan that a product of matrices may have, for the constants of its cost model: needs
//! a GPU.
//!
//! `cargo bench -p warpfold-bench --bench products -- cuda:0 bf16 64x8192x8192 …` prints, for each
//! shape (`c` has M x N, sums have K; with `nn` behind it, `b` lies in rows; with `t8` the sums are
//! a tree of eight parts), every tile and number of parts with its time, what the model expected,
//! and marks the plan that is chosen. The results of all plans are compared with those of the
//! chosen one.

use std::time::Duration;

use warpfold_conformance::elements::are_close;
use warpfold_device::{Buffer, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::matmul::{Algorithm, Choice, F32Math, Matmul, Matrix, MmaTile, Problem, Tile, WgmmaTile};
use warpfold_kernels::plan::{KernelCache, Planner, Ready, Workspace};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [device, dtype, shapes @ ..] = arguments.as_slice() else {
        println!("nothing to time: give a device, an element type and shapes, such as cuda:0 bf16 64x8192x8192");
        return;
    };
    let device = Device::parse(device).expect("the device is there");
    let (dtype, f32_math) = match dtype.as_str() {
        "tf32" => (Dtype::F32, F32Math::Tf32),
        name => (name.parse().expect("an element type"), F32Math::Ieee),
    };
    for shape in shapes {
        let (shape, is_transposed) = match shape.strip_suffix("nn") {
            Some(shape) => (shape, false),
            None => (shape.as_str(), true),
        };
        let (shape, parts) = shape.split_once('t').unwrap_or((shape, "1"));
        let k_parts = parts.parse().expect("a number of parts");
        let sizes: Vec<u64> = shape.split('x').map(|size| size.parse().expect("a number")).collect();
        let [m, n, k] = sizes[..] else { panic!("a shape is MxNxK, not {shape}") };
        time_all(&device, Problem { k_parts, ..problem(dtype, f32_math, [m, n, k], is_transposed) });
    }
}

/// A problem, mostly with the right matrix transposed, as weights lie.
fn problem(dtype: Dtype, f32_math: F32Math, [m, n, k]: [u64; 3], is_transposed: bool) -> Problem {
    let b = if is_transposed { Matrix::rows(dtype, k).transposed() } else { Matrix::rows(dtype, n) };
    let c = Matrix::rows(if dtype == Dtype::I8 { Dtype::I32 } else { dtype }, n);
    Problem { b, c, f32_math, ..Problem::new(dtype, m, n, k) }
}

struct Memory {
    a: Buffer<u8>,
    b: Buffer<u8>,
    c: Buffer<u8>,
}

impl Memory {
    fn new(device: &Device, problem: &Problem) -> Self {
        let Problem { m, n, k, a, c, .. } = problem;
        let filled = |len: u64| {
            let value = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / 8_388_608.0 - 1.0;
            let bytes: Vec<u8> = match a.dtype {
                Dtype::Bf16 => (0..len).flat_map(|i| half::bf16::from_f32(value(i)).to_le_bytes()).collect(),
                Dtype::F16 => (0..len).flat_map(|i| half::f16::from_f32(value(i)).to_le_bytes()).collect(),
                Dtype::F32 => (0..len).flat_map(|i| value(i).to_le_bytes()).collect(),
                // Small numbers of eight bits, floats as well as integers.
                _ => (0..len).map(|i| (value(i) * 50.0) as i8 as u8 & 0xb7).collect(),
            };
            device.upload(&bytes).expect("there is memory")
        };
        let c = device.alloc((m * n * c.dtype.bytes()) as usize).expect("there is memory");
        Self { a: filled(m * k), b: filled(n * k), c }
    }

    fn run(&mut self, device: &Device, ready: &Ready, workspace: &mut Workspace) {
        let (inputs, outputs) = ([Some(self.a.as_view()), Some(self.b.as_view())], &mut [self.c.as_view_mut()]);
        ready.launch(&device.default_stream(), &inputs, outputs, workspace).expect("the plan runs");
    }
}

fn time_all(device: &Device, problem: Problem) {
    let dtype = problem.a.dtype;
    let (target, limits, kernels) = (device.target(), device.limits(), KernelCache::default());
    let planner = Planner::new(&target, limits, &kernels);
    let chosen = Choice::new(problem.clone(), target.arch, limits).expect("there is a choice");
    println!("{chosen}");
    let bytes = (problem.m * problem.k + problem.k * problem.n) * dtype.bytes();
    let mut memories: Vec<_> =
        (0..(256_u64 << 20).div_ceil(bytes).clamp(1, 4)).map(|_| Memory::new(device, &problem)).collect();
    let mut workspace = Workspace::new();
    let ready = |choice: &Choice| {
        let plan = Matmul.plan_with(choice, &planner).expect("there is a plan");
        plan.ready(device).expect("the plan's kernels load")
    };
    memories[0].run(device, &ready(&chosen), &mut workspace);
    let expected = memories[0].c.download().expect("the result is there");
    let simt = Tile::ALL.into_iter().map(Algorithm::Simt);
    let mut timed = Vec::new();
    let mma = MmaTile::ALL.into_iter().map(Algorithm::Mma);
    let step = if problem.b.column_stride == 1 { 64 } else { 16 };
    let wave = WgmmaTile::wave(problem.m, problem.n, device.limits().num_sms.into(), step);
    let shared = WgmmaTile { split: 2, ..WgmmaTile::DEEP };
    let few = [WgmmaTile::DEEP, shared, WgmmaTile::DEEP_APART, WgmmaTile::APART, WgmmaTile::APART_NARROW, wave];
    let columns = problem.m.next_multiple_of(if dtype.bytes() == 1 { 16 } else { 8 }).clamp(16, 32) as u32;
    let turned = [1, 2].map(|split| Algorithm::SwapAb(WgmmaTile::swap_ab(columns, split)));
    let num_sms = device.limits().num_sms.into();
    let sides = [problem.n, problem.k / problem.k_parts, problem.k];
    let few_rows = (problem.m <= 8).then(|| WgmmaTile::few_rows(sides, dtype.bytes(), num_sms, 8));
    let few = few.into_iter().chain(few_rows).chain(WgmmaTile::OF_TREES);
    let wgmma = WgmmaTile::ALL.into_iter().chain(few).map(Algorithm::Wgmma).chain(turned);
    for code in wgmma.chain(mma).chain(simt) {
        for parts in [1, 2, 3, 4, 8, 16] {
            let Ok(plan) = Choice::with(problem.clone(), target.arch, limits, code, parts) else { continue };
            if plan.num_parts != parts || plan.clocks > 6.0 * chosen.clocks {
                continue;
            }
            let time = time(device, &ready(&plan), &mut memories, &mut workspace);
            let agrees =
                are_close(plan.problem.c.dtype, &memories[0].c.download().expect("the result is there"), &expected);
            timed.push((time, plan, agrees));
        }
    }
    timed.sort_by_key(|(time, ..)| *time);
    for (time, plan, agrees) in &timed {
        let mark =
            if plan.algorithm == chosen.algorithm && plan.num_parts == chosen.num_parts { "<- chosen" } else { "" };
        let wrong = if *agrees { "" } else { "WRONG" };
        println!(
            "  {:9.2} us  {:8.0} clocks expected  {} x{} {mark}{wrong}",
            time.as_secs_f64() * 1e6,
            plan.clocks,
            plan.algorithm,
            plan.num_parts
        );
    }
}

/// The median of a few rounds of some runs.
fn time(device: &Device, ready: &Ready, memories: &mut [Memory], workspace: &mut Workspace) -> Duration {
    let stream = device.default_stream();
    let mut times = Vec::new();
    for _ in 0..4 {
        // So many that the start of the first one does not show.
        let runs = 60;
        let start = stream.record().expect("an event");
        for i in 0..runs {
            let num = memories.len();
            memories[i % num].run(device, ready, workspace);
        }
        let end = stream.record().expect("an event");
        times.push(end.elapsed_since(&start).expect("a time").unwrap_or_default() / runs as u32);
    }
    times.sort_unstable();
    times[1]
}
