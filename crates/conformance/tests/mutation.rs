//! Takes one synchronisation at a time away from every kernel of every ladder: the checks, or the
//! result, must object.

use warpfold_conformance::mutants::{Mutant, is_sampled, mutants, touch};
use warpfold_device::{Arguments, Buffer, Checks, Device, Function, LaunchConfig, Limits, Profile};
use warpfold_kernels::conv::Conv;
use warpfold_kernels::fold::{Extreme, Sum, fold_cluster};
use warpfold_kernels::matmul::{Epilogue, Matmul, MmaTile, Tile, WgmmaTile};
use warpfold_kernels::plan::{KernelCache, Plan, Planner, Step, Workspace};
use warpfold_kernels::{AnyKernel, Dtype, conv, matmul};
use warpfold_ladders::ladder::{Finish, Guards, Instance, LADDERS, Ladder, Rung, Sizes};
use warpfold_lang::{Global, block_idx, cluster_arrive_relaxed, cluster_block_rank, cluster_wait, kernel, thread_idx};

/// A size at which every part of a rung has work: several blocks, and several rounds where a thread
/// takes rounds.
fn size_of(ladder: &Ladder, rung: &Rung) -> u64 {
    match (ladder.sizes, ladder.name) {
        (Sizes::Elements | Sizes::With(_), _) => {}
        (Sizes::Numbers(_), "sgemm") => return ladder.parse_size("130x70x70").unwrap(),
        (Sizes::Numbers(_), "hgemm") => return ladder.parse_size("130x300x400").unwrap(),
        (Sizes::Numbers(_), "conv") => return ladder.parse_size("2x32").unwrap(),
        // Three tiles for some blocks, and tiles of keys that come round in their ring.
        (Sizes::Heads(_), "attention") if rung.name == "persistent" => {
            return ladder.parse_size("300x89x1x64x1-causal").unwrap();
        }
        // One head of some tiles: without tensor cores a simulation takes far longer.
        (Sizes::Heads(_), "attention") if ["three_kernels", "flash1", "flash2"].contains(&rung.name) => {
            return ladder.parse_size("130x1x1x64x1-causal").unwrap();
        }
        (Sizes::Heads(_), "attention") => return ladder.parse_size("400x2x1x64x1-causal").unwrap(),
        (Sizes::Heads(_), "decode") => return ladder.parse_size("600x5x1x64x2").unwrap(),
        (Sizes::Numbers(_) | Sizes::Heads(_), name) => panic!("no size to try {name} with"),
    }
    let rounds = match rung.name {
        _ if rung.finish == Finish::OneBlock => 2000,
        "grid_stride" | "single_pass" => 2_200_003,
        // More blocks than a warp has lanes: other warps than that of the grid's barrier read.
        "grid_sync" => 70_003,
        // More totals of tiles than one round scans.
        "hillis_steele" | "blelloch" | "shuffle" if ladder.name == "scan" => 300_007,
        _ => 5003,
    };
    ladder.max_size.min(rounds)
}

/// What the checks say against a launch, if they object.
fn objection(device: &Device, function: &Function, config: LaunchConfig, arguments: &Arguments<'_>) -> Option<String> {
    drop(device.take_reports());
    if let Err(error) = device.default_stream().launch_raw(function, config, arguments) {
        return Some(error.to_string());
    }
    let findings = device.last_report().expect("the virtual GPU reports").report.findings;
    findings.first().map(ToString::to_string)
}

/// Synchronisations that may go unnoticed, by parts of what is said of them, and why.
const EQUIVALENT: [([&str; 2], &str); 10] = [
    (["", "fence.mbarrier_init"], "the barrier behind it releases as well"),
    (
        ["repack_channels_last_4_c40_40", "number 0:"],
        "filters alone are repacked for planes: it stands where images would be",
    ),
    (["attention_overlap", "number 20:"], TWO_PRODUCTS),
    (["attention_ping_pong", "number 21:"], TWO_PRODUCTS),
    (["attention_persistent", "number 26:"], TWO_PRODUCTS),
    (["attention_p", "Delete `bar.sync %"], "turns are for speed: what warpgroups share they read"),
    (["hgemm_tma_store", "number 10:"], ONCE),
    (["hgemm_tma_store", "number 11:"], ONCE),
    (["hgemm_tile_order", "number 10:"], ONCE),
    (["hgemm_tile_order", "number 11:"], ONCE),
];
const TWO_PRODUCTS: &str = "the fence before the other product is enough, but not for ptxas behind a wait";
const ONCE: &str = "at this size no block has a second tile; the library's product is tried with one";

/// Tries a kernel as it is, then each of its mutants; gives how many there are, but for that
/// without a wait for the launch before, and those that nobody objects to.
fn try_mutants(
    device: &Device,
    kernel: &AnyKernel,
    mut objection: impl FnMut(&Function) -> Option<String>,
) -> (usize, Vec<String>) {
    let whole = kernel.prepare(device).unwrap();
    assert_eq!(objection(&whole), None, "{} as it is", kernel.name());
    let built = kernel.build(&device.target()).unwrap_or_else(|e| panic!("{e}"));
    let mutants = mutants(&built.ptx());
    let count = mutants.iter().filter(|mutant| !mutant.overlaps()).count();
    let mut survivors = Vec::new();
    for (number, Mutant { instruction, mutation, text }) in mutants.into_iter().enumerate() {
        if !is_sampled(kernel.name(), number) {
            continue;
        }
        let function = whole.rewritten(&text).unwrap();
        let at = format!("{}, number {number}: {mutation:?} `{instruction}`", kernel.name());
        let equivalent = EQUIVALENT.iter().find(|(parts, _)| parts.iter().all(|part| at.contains(part)));
        match (objection(&function), equivalent) {
            (Some(objection), _) => println!("{at}: {objection}"),
            (None, Some((_, why))) => println!("{at}: not needed: {why}"),
            (None, None) => survivors.push(at),
        }
    }
    (count, survivors)
}

fn checked_device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    println!("on {device}");
    // A mutant may go on for ever with what it read too early.
    let configured = device.configure(|options| (options.checks, options.limit) = (Checks::All, 200_000_000));
    configured.unwrap();
    device
}

/// Ladders by the time that their mutants take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Vectors,
    Products,
    Attention,
}

impl Group {
    fn of(ladder: &Ladder) -> Self {
        match ladder.sizes {
            Sizes::Elements | Sizes::With(_) => Self::Vectors,
            Sizes::Numbers(_) => Self::Products,
            Sizes::Heads(_) => Self::Attention,
        }
    }
}

#[test]
fn no_barrier_fence_or_order_of_a_ladder_of_vectors_can_be_taken_away_unnoticed() {
    try_ladders(Group::Vectors, LEAST[0]);
}

#[test]
fn no_barrier_fence_or_order_of_a_ladder_of_products_can_be_taken_away_unnoticed() {
    try_ladders(Group::Products, LEAST[1]);
}

#[test]
fn no_barrier_fence_or_order_of_a_ladder_of_attention_can_be_taken_away_unnoticed() {
    try_ladders(Group::Attention, LEAST[2]);
}

/// Synchronisations of the ladders of each group, at least.
const LEAST: [usize; 3] = [120, 120, 150];

#[track_caller]
fn try_ladders(group: Group, least: usize) {
    let device = checked_device();
    let (mut tried, mut survivors) = (0, Vec::new());
    for ladder in LADDERS.iter().filter(|ladder| Group::of(ladder) == group) {
        // Integers, where there are some: a wrong sum shows in them whatever the order of
        // additions.
        let dtype = ladder.dtypes.iter().copied().find(|dtype| *dtype == Dtype::I32).unwrap_or(ladder.default_dtype());
        let mut opened: Option<((u64, Dtype), Box<dyn Instance>)> = None;
        // A race is refuted as it is; what ships is tried with the library.
        let is_tried = |rung: &&Rung| rung.finish != Finish::Race && rung.name != "shipped";
        for rung in ladder.rungs.iter().filter(is_tried) {
            // Rungs of one size share the data, and what should become of it.
            let size = size_of(ladder, rung);
            let own = rung.launches.iter().find_map(|launch| launch.dtypes).filter(|own| !own.contains(&dtype));
            let dtype = own.map_or(dtype, |own| own[0]);
            let (_, mut instance) = match opened.take() {
                Some(opened) if opened.0 == (size, dtype) => opened,
                _ => ((size, dtype), (ladder.open)(&device, dtype, size, Guards::Checker).unwrap()),
            };
            let whole: Vec<_> = rung.launches.iter().map(|l| l.kernel(dtype, size).prepare(&device).unwrap()).collect();
            for (mutated, launch) in rung.launches.iter().enumerate() {
                let (count, left) = try_mutants(&device, &launch.kernel(dtype, size), |function| {
                    instance.reset(rung).unwrap();
                    let objections = rung.launches.iter().enumerate().find_map(|(launch_idx, launch)| {
                        let function = if launch_idx == mutated { function } else { &whole[launch_idx] };
                        // What waits for the launch before meets itself there.
                        let times = if function.info().programmatic { 2 } else { 1 };
                        (0..times).find_map(|_| {
                            let arguments = instance.arguments(rung, launch_idx).unwrap();
                            objection(&device, function, (launch.config)(size), &arguments)
                        })
                    });
                    objections.or_else(|| wrong(&*instance, rung))
                });
                tried += count;
                survivors.extend(left);
            }
            opened = Some(((size, dtype), instance));
        }
    }
    println!("{tried} mutants, {} of them unnoticed", survivors.len());
    assert!(tried >= least, "the ladders had more synchronisations than {tried}");
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

/// Rows that a cluster shares, by a fold of its own: the sum of a row of `CLUSTER * 64 * 2`
/// numbers, in every thread.
fn sums_of_clusters() -> AnyKernel {
    let body = |input: Global<i32>, output: Global<i32>| {
        cluster_arrive_relaxed();
        let thread = cluster_block_rank() * 64 + thread_idx().x;
        let row = block_idx().x / CLUSTER;
        let mine = input.at(row * (CLUSTER * 128) + thread * 2).get_vec::<2>();
        cluster_wait();
        let sum = fold_cluster(Sum::<i32>::new(), mine[0] + mine[1], 64, CLUSTER);
        let largest = fold_cluster(Extreme::<i32>::max(), mine[0].max(mine[1]), 64, CLUSTER);
        output.at(row * (CLUSTER * 64) + thread).set(sum + largest);
    };
    kernel("sums_of_clusters", body).required_block(64).cluster(CLUSTER).into()
}

/// Blocks of the clusters of [`sums_of_clusters`].
const CLUSTER: u32 = 4;

#[test]
fn no_barrier_of_a_clusters_fold_can_be_taken_away_unnoticed() {
    let device = checked_device();
    const ROWS: usize = 3;
    let row = CLUSTER as usize * 128;
    let data: Vec<i32> = (0..(ROWS * row) as i32).map(|i| i * 7919 % 1013).collect();
    let of_row = |row: &[i32]| row.iter().sum::<i32>() + row.iter().max().unwrap();
    let expected: Vec<i32> = data.chunks(row).flat_map(|row| vec![of_row(row); row.len() / 2]).collect();
    let input = device.upload(&data).unwrap();
    let (count, survivors) = try_mutants(&device, &sums_of_clusters(), |function| {
        let mut output = device.alloc::<i32>(ROWS * row / 2).unwrap();
        let arguments = Arguments::new().input(&input).output(&mut output);
        let config = LaunchConfig::new(ROWS as u32 * CLUSTER, 64);
        let objection = objection(&device, function, config, &arguments);
        drop(arguments);
        objection.or_else(|| (output.download().unwrap() != expected).then(|| "wrong".to_owned()))
    });
    assert_eq!(count, 6, "an arrival and a wait at the start, and for each fold");
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

fn wrong(instance: &dyn Instance, rung: &Rung) -> Option<String> {
    let verdict = instance.verdict(rung).unwrap();
    (!verdict.ok).then(|| format!("wrong by {}", verdict.max_error))
}

/// What the checks say of a run, if they object.
fn objection_of_run(device: &Device, run: impl FnOnce() -> Result<(), warpfold_kernels::Error>) -> Option<String> {
    drop(device.take_reports());
    if let Err(error) = run() {
        return Some(error.to_string());
    }
    let mut findings = device.take_reports().into_iter().flat_map(|launch| launch.report.findings);
    findings.next().map(|finding| finding.to_string())
}

/// Tries the mutants of each step of a plan with one output: how many there are of each. The checks
/// object, or the result is not that of the kernels as they are.
fn try_plan(device: &Device, plan: &Plan, inputs: &mut [Buffer<u8>]) -> Vec<usize> {
    let whole: Vec<_> = plan.steps.iter().map(|step| step.kernel.prepare(device).unwrap()).collect();
    let mut expected = None;
    let mut each_step = |(mutated, step): (usize, &Step)| {
        let (count, survivors) = try_mutants(device, &step.kernel, |function| {
            let mut functions = whole.clone();
            functions[mutated] = function.clone();
            inputs.iter_mut().for_each(|input| touch(input).unwrap());
            let mut result = device.alloc::<u8>(plan.outputs[0].bytes as usize).unwrap();
            let views: Vec<_> = inputs.iter().map(|input| Some(input.as_view())).collect();
            let ready = plan.clone().ready(device).unwrap().with_functions(functions);
            let (stream, mut workspace) = (device.default_stream(), Workspace::new());
            let outputs = &mut [result.as_view_mut()];
            let objection = objection_of_run(device, || ready.launch(&stream, &views, outputs, &mut workspace));
            objection.or_else(|| {
                // The kernel as it is comes first.
                let found = result.download().unwrap();
                let right = expected.get_or_insert_with(|| found.clone());
                (found != *right).then(|| "wrong".to_owned())
            })
        });
        assert!(survivors.is_empty(), "{}", survivors.join("\n"));
        count
    };
    plan.steps.iter().enumerate().map(&mut each_step).collect()
}

/// Tries a product: how many mutants each of its kernels has.
fn try_product(
    device: &Device,
    problem: matmul::Problem,
    (algorithm, parts): (matmul::Algorithm, u32),
    num_sms: u32,
    inputs: &mut [Buffer<u8>],
) -> Vec<usize> {
    let limits = Limits { num_sms, ..*device.limits() };
    let (target, kernels) = (device.target(), KernelCache::default());
    let choice = matmul::Choice::with(problem, target.arch, &limits, algorithm, parts).unwrap();
    try_plan(device, &Matmul.plan_with(&choice, &Planner::new(&target, &limits, &kernels)).unwrap(), inputs)
}

#[test]
fn no_wait_group_or_barrier_of_a_product_on_ordinary_cores_can_be_taken_away_unnoticed() {
    let device = checked_device();
    // Three commits and three waits for copies, and two barriers; halves go by way of registers.
    // What adds parts has none.
    let cases = [
        (Dtype::F32, Tile::SMALL, 2, 90, vec![8, 0]),
        (Dtype::F32, Tile::MEDIUM, 1, 40, vec![8]),
        (Dtype::F32, Tile::LARGE, 1, 40, vec![8]),
        (Dtype::F16, Tile::FLAT, 1, 40, vec![2]),
    ];
    for (dtype, tile, parts, k, expected) in cases {
        let (m, n) = (70, 140);
        let upload = |len: u64| device.upload(&vec![1.0_f32; len as usize]).unwrap().into_bytes();
        let (problem, code) = (matmul::Problem::new(dtype, m, n, k), (matmul::Algorithm::Simt(tile), parts));
        let num_sms = device.limits().num_sms;
        let counts = try_product(&device, problem, code, num_sms, &mut [upload(m * k), upload(k * n)]);
        assert_eq!(counts, expected, "{tile}");
    }
}

/// Tries the mutants of a product of bf16 on tensor cores: how many there are. It has every stage
/// several times, and two tiles of so many columns, which on a device of one multiprocessor one
/// block takes in turn if it takes several at all.
fn try_tensor_product(device: &Device, code: (matmul::Algorithm, u32), columns: u32, result: Dtype) -> usize {
    let (m, n, k) = (24, u64::from(columns) + 8, u64::from(code.1 * code.1) * 64 * 10);
    let b = matmul::Matrix::rows(Dtype::Bf16, k).transposed();
    let c = matmul::Matrix::rows(result, n);
    let problem = matmul::Problem { b, c, ..matmul::Problem::new(Dtype::Bf16, m, n, k) };
    let upload = |len: u64, value: fn(u64) -> f32| {
        let values: Vec<_> = (0..len).map(|i| half::bf16::from_f32(value(i))).collect();
        device.upload(&values).unwrap().into_bytes()
    };
    let a = upload(m * k, |i| (i * 7919 % 5) as f32);
    let b = upload(k * n, |i| (i * 104_729 % 7) as f32 - 3.0);
    let [count] = try_product(device, problem, code, 1, &mut [a, b])[..] else { panic!("one launch is expected") };
    count
}

#[test]
fn no_wait_arrival_or_fence_of_a_product_by_warpgroups_can_be_taken_away_unnoticed() {
    let device = checked_device();
    let tiles = [
        (WgmmaTile::LARGE, Dtype::Bf16),
        (WgmmaTile::ALONE, Dtype::Bf16),
        (WgmmaTile::MEDIUM, Dtype::F32),
        (WgmmaTile::SMALL, Dtype::F32),
        // The result leaves through the stages.
        (WgmmaTile { columns: 96, stages: 2, once: true, ..WgmmaTile::ALONE }, Dtype::Bf16),
        // Factors come through rings of their own.
        (WgmmaTile { stages: 2, rows_stages: Some(3), panels: 1, ..WgmmaTile::APART_NARROW }, Dtype::Bf16),
    ];
    let tried: usize = tiles
        .into_iter()
        .map(|(tile, result)| try_tensor_product(&device, (matmul::Algorithm::Wgmma(tile), 1), tile.columns, result))
        .sum();
    assert!(tried >= 40, "the kernels had more synchronisations than {tried}");
    // Blocks that share a tile: the exchange of their sums, too.
    let shared = [
        (matmul::Algorithm::Wgmma(WgmmaTile { consumers: 2, stages: 2, split: 2, ..WgmmaTile::DEEP }), Dtype::Bf16),
        (matmul::Algorithm::SwapAb(WgmmaTile { stages: 2, ..WgmmaTile::swap_ab(24, 2) }), Dtype::Bf16),
    ];
    let tried: usize =
        shared.into_iter().map(|(code, result)| try_tensor_product(&device, (code, 2), 64, result)).sum();
    assert!(tried >= 20, "the kernels had more synchronisations than {tried}");
}

#[test]
fn no_wait_group_or_barrier_of_a_product_by_warps_can_be_taken_away_unnoticed() {
    let device = checked_device();
    for tile in MmaTile::ALL {
        // A group for each stage that is copied ahead, and one for each step; a wait and a barrier
        // before the first, and in it.
        let tried = try_tensor_product(&device, (matmul::Algorithm::Mma(tile), 1), 128, Dtype::F32);
        assert_eq!(tried as u32, tile.stages - 1 + 5, "{tile}");
    }
}

#[test]
fn no_wait_or_barrier_of_a_convolution_can_be_taken_away_unnoticed() {
    let device = checked_device();
    let small = MmaTile::SMALL;
    let (of_planes, behind) = (conv::Layout::Nchw, conv::Layout::Nhwc);
    for (layout, images, channels, size, code, expected) in [
        (of_planes, 1, 8, [12, 12], conv::Algorithm::Implicit(Tile::SMALL), 2),
        (behind, 1, 8, [12, 12], conv::Algorithm::Implicit(Tile::SMALL), 2),
        (behind, 1, 8, [12, 12], conv::Algorithm::Mma(small), small.stages as usize - 1 + 5),
        (of_planes, 1, 16, [12, 12], conv::Algorithm::Planes(Tile::SMALL), 10),
        // Blocks take several tiles.
        (of_planes, 300, 1, [3, 4], conv::Algorithm::Patches(conv::PatchTile::WIDE), 4),
        (of_planes, 1, 8, [12, 12], conv::Algorithm::Direct, 0),
        // Images and filters are repacked first; a block takes two tiles.
        (of_planes, 5, 64, [6, 6], conv::Algorithm::Wgmma(WgmmaTile::SMALL), 13),
    ] {
        let limits = Limits { num_sms: 1, ..*device.limits() };
        let problem = conv::Problem {
            dtype: Dtype::F32,
            result: Dtype::F32,
            layout,
            images,
            channels,
            size,
            filters: 40,
            filter: [3, 3],
            groups: 1,
            window: conv::Window::default(),
            f32_math: matmul::F32Math::Tf32,
            epilogue: Epilogue::new(),
        };
        let (target, kernels) = (device.target(), KernelCache::default());
        let choice = conv::Choice::with(problem.clone(), &limits, code).unwrap();
        let plan = Conv.plan_with(&choice, &Planner::new(&target, &limits, &kernels));
        let upload = |len: u64| device.upload(&vec![1.0_f32; len as usize]).unwrap().into_bytes();
        let images = upload(images * channels * size[0] * size[1]);
        let counts = try_plan(&device, &plan, &mut [images, upload(problem.filters * problem.depth())]);
        assert_eq!(counts.into_iter().sum::<usize>(), expected, "{plan}");
    }
}
