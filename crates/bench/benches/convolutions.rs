//! Times every kernel that the catalogue's convolutions may have, for the constants of their cost
//! models: needs a GPU.
//!
//! `cargo bench -p warpfold-bench --bench convolutions -- cuda:0 f32:nchw:2 bf16:nhwc:7 …`
//! prints, for each problem (its element type, layout and number in the catalogue), every kernel
//! with its time, and marks the one that is chosen. The end of all results is compared with that of
//! the chosen one's.

use std::time::Duration;

use warpfold_conformance::elements::are_close;
use warpfold_device::{Buffer, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::conv::PROBLEMS;
use warpfold_kernels::conv::{Algorithm, Choice, Conv, Layout, PatchTile, Problem, Window};
use warpfold_kernels::matmul::{Epilogue, F32Math, MmaTile, Tile, WgmmaTile};
use warpfold_kernels::plan::{KernelCache, Planner, Ready, Workspace};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [device, cases @ ..] = arguments.as_slice() else {
        println!("nothing to time: give a device, and cases such as f32:nchw:2");
        return;
    };
    let device = Device::parse(device).expect("the device is there");
    for case in cases {
        let words: Vec<_> = case.split(':').collect();
        let [dtype, layout, number] = words[..] else { panic!("a case is TYPE:LAYOUT:NUMBER, not {case}") };
        time_all(&device, &problem(dtype, layout, number.parse().expect("a number")));
    }
}

fn problem(dtype: &str, layout: &str, number: usize) -> Problem {
    let [n, c, h, w, k, r, s, u, v, p, q] = PROBLEMS[number - 1];
    let (dtype, f32_math) = match dtype {
        "tf32" => (Dtype::F32, F32Math::Tf32),
        name => (name.parse().expect("an element type"), F32Math::Ieee),
    };
    Problem {
        dtype,
        result: dtype,
        layout: if layout == "nchw" { Layout::Nchw } else { Layout::Nhwc },
        images: n.into(),
        channels: c.into(),
        size: [h, w].map(u64::from),
        filters: k.into(),
        filter: [r, s].map(u64::from),
        groups: 1,
        window: Window { stride: [u, v], padding: [p, q], dilation: [1, 1] },
        f32_math,
        epilogue: Epilogue::new(),
    }
}

struct Memory {
    images: Buffer<u8>,
    filters: Buffer<u8>,
    result: Buffer<u8>,
}

impl Memory {
    fn new(device: &Device, problem: &Problem) -> Self {
        let Problem { dtype, images, channels, size: [h, w], filters, .. } = *problem;
        let filled = |len: u64| {
            let value = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / 8_388_608.0 - 1.0;
            let bytes: Vec<u8> = match dtype {
                Dtype::Bf16 => (0..len).flat_map(|i| half::bf16::from_f32(value(i)).to_le_bytes()).collect(),
                Dtype::F16 => (0..len).flat_map(|i| half::f16::from_f32(value(i)).to_le_bytes()).collect(),
                _ => (0..len).flat_map(|i| value(i).to_le_bytes()).collect(),
            };
            device.upload(&bytes).expect("there is memory")
        };
        let result = device.alloc((problem.num_results() * dtype.bytes()) as usize).expect("there is memory");
        Self { images: filled(images * channels * h * w), filters: filled(filters * problem.depth()), result }
    }

    fn run(&mut self, device: &Device, ready: &Ready, workspace: &mut Workspace) {
        let inputs = [Some(self.images.as_view()), Some(self.filters.as_view())];
        let outputs = &mut [self.result.as_view_mut()];
        ready.launch(&device.default_stream(), &inputs, outputs, workspace).expect("the plan runs");
    }

    /// The last few millions of bytes: of many tiles.
    fn end(&self, device: &Device) -> Vec<u8> {
        let mut end = vec![0; self.result.len().min(8 << 20)];
        let view = self.result.view(self.result.len() - end.len()..).expect("it is inside");
        device.default_stream().copy_to_host(view, &mut end).expect("it is there");
        end
    }
}

fn time_all(device: &Device, problem: &Problem) {
    let (target, limits, kernels) = (device.target(), device.limits(), KernelCache::default());
    let planner = Planner::new(&target, limits, &kernels);
    let chosen = Choice::new(problem.clone(), target.arch, limits).expect("there is a choice");
    println!("{chosen}");
    let codes = Tile::ALL.into_iter().flat_map(|tile| [Algorithm::Implicit(tile), Algorithm::Planes(tile)]);
    let codes = codes.chain(PatchTile::ALL.map(Algorithm::Patches)).chain(MmaTile::ALL.map(Algorithm::Mma));
    let others = codes.chain(WgmmaTile::ALL.map(Algorithm::Wgmma)).filter(|code| *code != chosen.algorithm);
    let others = others.filter_map(|code| Choice::with(problem.clone(), limits, code).ok());
    let mut memory = Memory::new(device, problem);
    let mut workspace = Workspace::new();
    let mut expected: Option<Vec<u8>> = None;
    let mut timed = Vec::new();
    for plan in std::iter::once(chosen.clone()).chain(others) {
        memory.result.fill_bytes(0xff).expect("it can be filled");
        let ready = Conv.plan_with(&plan, &planner).ready(device).expect("the plan's kernels load");
        memory.run(device, &ready, &mut workspace);
        let found = memory.end(device);
        let agrees = expected.as_ref().is_none_or(|expected| are_close(problem.dtype, &found, expected));
        expected.get_or_insert(found);
        timed.push((time(device, || memory.run(device, &ready, &mut workspace)), plan, agrees));
    }
    timed.sort_by_key(|(time, ..)| *time);
    for (time, plan, agrees) in &timed {
        let mark = if plan.algorithm == chosen.algorithm { "<- chosen" } else { "" };
        let wrong = if *agrees { "" } else { " WRONG" };
        println!("  {:9.2} us  {:?} {mark}{wrong}", time.as_secs_f64() * 1e6, plan.algorithm);
    }
}

/// The median of a few rounds of some runs.
fn time(device: &Device, mut run: impl FnMut()) -> Duration {
    let stream = device.default_stream();
    let mut times = Vec::new();
    for _ in 0..5 {
        let runs = 4;
        let start = stream.record().expect("an event");
        (0..runs).for_each(|_| run());
        let end = stream.record().expect("an event");
        times.push(end.elapsed_since(&start).expect("a time").unwrap_or_default() / runs);
    }
    times.sort_unstable();
    times[2]
}
