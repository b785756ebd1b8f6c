//! Times every kernel that the catalogue's convolutions may have, for the constants of their plans: needs a GPU.
//!
//! `cargo bench -p warpfold-conformance --bench convolutions -- cuda:0 f32 nchw 2 3 …` prints, for each problem, every kernel with
//! its time, and marks the one that is chosen; results of all are compared with that one's. With `ptx` and a folder in front it
//! writes their PTX there instead, to be assembled.

use std::time::Duration;

use warpfold_device::{Buffer, Cudnn, CudnnConvolution, CudnnTypes, Device, Function, Profile};
use warpfold_kernels::conv::ladder::PROBLEMS;
use warpfold_kernels::conv::{Code, Layout, Operands, PatchTile, Plan, Problem, Window, kernels_of, launch_with};
use warpfold_kernels::matmul::{Epilogue, MmaTile, Singles, Tile, WgmmaTile};
use warpfold_kernels::{Dtype, Workspace};

fn problem(dtype: &str, layout: &str, number: usize) -> Problem {
    let [n, c, h, w, k, r, s, u, v, p, q] = PROBLEMS[number - 1];
    let (dtype, singles) = match dtype {
        "tf32" => (Dtype::F32, Singles::Tf32),
        name => (name.parse().expect("an element type"), Singles::Full),
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
        singles,
        num_inputs: 0,
    }
}

fn simt() -> Vec<Tile> {
    let tile = |rows, columns, depth, thread, lanes_across, warps_across| Tile {
        rows,
        columns,
        depth,
        thread,
        lanes_across,
        warps_across,
    };
    vec![
        Tile::LARGE,
        Tile::MEDIUM,
        tile(128, 128, 16, [8, 16], 4, 2),
        tile(128, 128, 8, [8, 16], 4, 2),
        tile(128, 128, 16, [8, 8], 8, 2),
        tile(128, 128, 8, [8, 8], 8, 2),
        tile(128, 64, 16, [8, 8], 8, 1),
        tile(64, 64, 16, [8, 8], 8, 1),
        tile(128, 256, 16, [8, 16], 4, 4),
        tile(128, 128, 16, [16, 8], 8, 2),
        tile(256, 128, 8, [8, 16], 4, 2),
    ]
}

fn patches() -> Vec<PatchTile> {
    let tile = |lanes_across, warps| PatchTile { lanes_across, warps };
    vec![
        tile(8, [1, 1, 7]),
        tile(8, [1, 2, 7]),
        tile(8, [2, 1, 7]),
        tile(8, [1, 2, 4]),
        tile(16, [2, 2, 2]),
        tile(16, [2, 2, 1]),
        tile(32, [4, 2, 1]),
        tile(32, [4, 1, 1]),
        tile(32, [4, 1, 2]),
        tile(16, [4, 2, 1]),
        tile(32, [8, 1, 1]),
        tile(32, [8, 2, 1]),
    ]
}

fn plans(problem: &Problem, device: &Device) -> Vec<Plan> {
    let limits = device.limits();
    let chosen = Plan::new(problem.clone(), Epilogue::new(), limits).expect("there is a plan");
    let codes = simt()
        .into_iter()
        .flat_map(|tile| [Code::Planes(tile, true), Code::Planes(tile, false)])
        .chain([Tile::LARGE, Tile::MEDIUM].map(Code::Implicit))
        .chain(WgmmaTile::ALL.map(Code::Wgmma))
        .chain(MmaTile::ALL.map(Code::Mma))
        .chain(patches().into_iter().map(Code::Patches));
    let others = codes.filter_map(|code| Plan::with(problem.clone(), Epilogue::new(), limits, code).ok());
    let others: Vec<_> = others.filter(|plan| plan.code != chosen.code).filter(|plan| is_worth(plan)).collect();
    std::iter::once(chosen).chain(others).collect()
}

/// Whether it is worth its time.
fn is_worth(plan: &Plan) -> bool {
    match plan.code {
        Code::Patches(tile) => plan.problem.channels < 8 && tile.filters() <= plan.problem.filters as u32,
        Code::Wgmma(_) => plan.problem.channels < 8 && plan.problem.dtype == Dtype::F32,
        Code::Mma(tile) => {
            plan.problem.channels < 8
                && matches!(tile, MmaTile::SMALL | MmaTile::MEDIUM)
                && plan.problem.dtype == Dtype::F32
        }
        Code::Implicit(_) => plan.problem.dtype == Dtype::F32,
        _ => true,
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

    fn run(&mut self, device: &Device, plan: &Plan, functions: &[Function], workspace: &mut Workspace) {
        let operands = Operands {
            images: self.images.as_view(),
            filters: self.filters.as_view(),
            inputs: Vec::new(),
            result: self.result.as_view_mut(),
        };
        launch_with(&device.default_stream(), plan, functions, operands, workspace).expect("the plan runs");
    }
}

fn peer(problem: &Problem) -> CudnnConvolution {
    let types = match (problem.dtype, problem.singles) {
        (Dtype::F32, Singles::Full) => CudnnTypes::F32,
        (Dtype::F32, Singles::Tf32) => CudnnTypes::Tf32,
        (Dtype::F16, _) => CudnnTypes::F16,
        _ => CudnnTypes::Bf16,
    };
    let Problem { images, channels, size, filters, filter, window, layout, .. } = *problem;
    let Window { stride, padding, dilation } = window;
    let [size, filter, result] = [size, filter, problem.result_size()].map(|sizes| sizes.map(|size| size as usize));
    let [images, channels, filters] = [images, channels, filters].map(|size| size as usize);
    let channels_last = layout == Layout::Nhwc;
    CudnnConvolution {
        images,
        channels,
        size,
        filters,
        filter,
        result,
        stride,
        padding,
        dilation,
        channels_last,
        types,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (folder, arguments) = match arguments.as_slice() {
        [ptx, folder, rest @ ..] if ptx == "ptx" => (Some(folder), rest),
        rest => (None, rest),
    };
    let [device, cases @ ..] = arguments else {
        println!("nothing to time: give a device, and cases such as f32:nchw:2");
        return;
    };
    let device = Device::parse(device).expect("the device is there");
    let problems: Vec<_> = cases
        .iter()
        .map(|case| {
            let words: Vec<_> = case.split(':').collect();
            problem(words[0], words[1], words[2].parse().expect("a number"))
        })
        .collect();
    let plans: Vec<Vec<Plan>> = problems.iter().map(|problem| plans(problem, &device)).collect();
    if let Some(folder) = folder {
        let target = Device::virtual_gpu(Profile::H200);
        for kernel in plans.iter().flatten().flat_map(kernels_of) {
            let built = kernel.build(&target.target()).expect("it builds");
            std::fs::write(format!("{folder}/{}.ptx", kernel.name()), built.ptx()).expect("the folder is there");
        }
        return;
    }
    for (problem, plans) in problems.iter().zip(&plans) {
        let begin = std::time::Instant::now();
        compile(&device, plans);
        let compiled = begin.elapsed();
        time_all(&device, problem, plans);
        println!("  {} plans compiled in {compiled:.1?}, all in {:.1?}", plans.len(), begin.elapsed());
    }
}

/// The driver compiles as many at once as there are cores.
fn compile(device: &Device, plans: &[Plan]) {
    std::thread::scope(|scope| {
        for first in 0..16 {
            scope.spawn(move || {
                for kernel in plans.iter().skip(first).step_by(16).flat_map(kernels_of) {
                    if let Err(error) = kernel.prepare(device) {
                        println!("{}: {error}", kernel.name());
                    }
                }
            });
        }
    });
}

fn time_all(device: &Device, problem: &Problem, plans: &[Plan]) {
    let bytes = problem.num_results() * problem.dtype.bytes();
    let mut memories: Vec<_> =
        (0..(128_u64 << 20).div_ceil(bytes).clamp(1, 3)).map(|_| Memory::new(device, problem)).collect();
    let mut workspace = Workspace::new();
    let mut expected: Option<Vec<u8>> = None;
    let mut timed = Vec::new();
    for plan in plans {
        let functions: Result<Vec<_>, _> = kernels_of(plan).iter().map(|kernel| kernel.prepare(device)).collect();
        let Ok(functions) = functions else { continue };
        memories[0].result.fill_bytes(0xff).expect("it can be filled");
        memories[0].run(device, plan, &functions, &mut workspace);
        // The last few millions: behind many tiles.
        let result = &memories[0].result;
        let mut found = vec![0; result.len().min(8 << 20)];
        let last = result.view(result.len() - found.len()..).expect("it is inside");
        device.default_stream().copy_to_host(last, &mut found).expect("it is there");
        let agrees = expected.as_ref().is_none_or(|expected| close(problem.dtype, &found, expected));
        expected.get_or_insert(found);
        let time = time(device, |i| {
            let num = memories.len();
            memories[i % num].run(device, plan, &functions, &mut workspace);
        });
        timed.push((time, plan, agrees));
    }
    let library = Cudnn::load(&device.default_stream(), peer(problem)).ok().flatten();
    let of_peer = library.map(|mut library| {
        time(device, |i| {
            let num = memories.len();
            let Memory { images, filters, result } = &mut memories[i % num];
            library.convolve(&images.as_view(), &filters.as_view(), &mut result.as_view_mut()).expect("it runs");
        })
    });
    println!("{}, cuDNN {:.1} us", plans[0], of_peer.map_or(0.0, |time| time.as_secs_f64() * 1e6));
    timed.sort_by_key(|(time, ..)| *time);
    for (time, plan, agrees) in &timed {
        let mark = if plan.code == plans[0].code { "<- chosen" } else { "" };
        let wrong = if *agrees { "" } else { " WRONG" };
        let of_peer = of_peer.map_or(0.0, |peer| peer.as_secs_f64() / time.as_secs_f64());
        println!("  {:9.2} us  {of_peer:.3}x  {:?} {mark}{wrong}", time.as_secs_f64() * 1e6, plan.code);
    }
}

/// The median of a few rounds of some runs.
fn time(device: &Device, mut run: impl FnMut(usize)) -> Duration {
    let stream = device.default_stream();
    let mut times = Vec::new();
    for round in 0..4 {
        let runs = if round == 0 { 2 } else { 6 };
        let start = stream.record().expect("an event");
        (0..runs).for_each(&mut run);
        let end = stream.record().expect("an event");
        times.push(end.elapsed_since(&start).expect("a time").unwrap_or_default() / runs as u32);
    }
    times[1..].sort_unstable();
    times[2]
}

/// Whether two results differ by rounding alone.
fn close(dtype: Dtype, left: &[u8], right: &[u8]) -> bool {
    let values = |bytes: &[u8]| -> Vec<f32> {
        let two = |bytes: &[u8]| [bytes[0], bytes[1]];
        match dtype {
            Dtype::Bf16 => bytes.chunks(2).map(|b| half::bf16::from_le_bytes(two(b)).to_f32()).collect(),
            Dtype::F16 => bytes.chunks(2).map(|b| half::f16::from_le_bytes(two(b)).to_f32()).collect(),
            _ => bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect(),
        }
    };
    let (left, right) = (values(left), values(right));
    let scale = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    left.iter().zip(&right).all(|(left, right)| (left - right).abs() <= 0.02 * scale)
}
