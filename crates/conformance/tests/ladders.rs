//! Every rung of every ladder: right at every size, clean under every check, and true to what it
//! claims.

use std::collections::BTreeSet;

use warpfold_conformance::sample::{sampled, tries_all};
use warpfold_device::{Checks, Device, LaunchConfig, Profile};
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{
    Finish, LADDERS, Ladder, LadderReport, Metric, RunOptions, Rung, RungReport, Sizes, ladder, run,
};
use warpfold_ladders::reduce::ladder::{
    BLOCK, MAX_BLOCKS, PartialSums, first_add, interleaved, naive, sequential, shuffle, single_pass, unroll_all,
    unroll_last_warp,
};
use warpfold_lang::{
    Arch, Global, Target, Val, block_idx, halving, kernel, shared_named, sync_threads, thread_idx, when,
};
use warpfold_ptx::Opcode;

/// Around every size at which a warp, a vector access, a block or a grid is full.
const SIZES: &[u64] = &[
    0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025,
    1999, 2047, 2048, 2049, 4095, 4096, 4097, 100_003,
];

/// More than one round for the rungs whose grid is fixed, with something left over.
const SEVERAL_ROUNDS: u64 = 2 * (MAX_BLOCKS * BLOCK * 4) as u64 + 1234 * 4 + 3;

/// The devices to test on: the one that the environment names, or all at hand.
fn devices() -> Vec<Device> {
    if std::env::var_os("WARPFOLD_DEVICE").is_some() {
        return vec![Device::from_env().expect("the device that WARPFOLD_DEVICE names is there")];
    }
    Device::all()
}

/// Runs a test on every device, and says on which.
#[track_caller]
fn on_every_device(test: impl Fn(&Device)) {
    for device in devices() {
        println!("on {device}");
        test(&device);
    }
}

fn virtual_gpu() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    println!("on {device}");
    device
}

fn options(checks: Checks) -> RunOptions {
    RunOptions { checks, repetitions: 2, ..RunOptions::default() }
}

#[track_caller]
fn reported(device: &Device, ladder: &'static Ladder, size: u64, dtype: Dtype, checks: Checks) -> LadderReport {
    run(device, ladder, size, dtype, &options(checks)).unwrap_or_else(|e| panic!("{} {size} {dtype}: {e}", ladder.name))
}

#[track_caller]
fn all_are_right(report: &LadderReport) {
    for rung in report.rungs.iter().filter(|rung| !rung.is_race) {
        let at = format!("{}/{} of {} {} on {}", report.ladder, rung.name, report.size, report.dtype, report.device);
        assert!(rung.ok, "{at}: max error {}, {:?}", rung.max_error, rung.failure);
        let findings: Vec<_> = rung.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{at}: {}", findings.join("\n"));
    }
}

/// Around every tile of a product of matrices.
const PRODUCTS: &[&str] =
    &["1", "3x5x7", "31x33x32", "65x64x9", "1x257x40", "129x127x1", "128x128x24", "200x131x77", "270x300x200"];

/// Around every tile of rows and of keys, with heads of their own keys and with shared ones.
const ATTENTIONS: &[&str] = &[
    "1x1x1x64x1",
    "7x2x2x128x1-causal",
    "31x3x1x64x2",
    "32x2x1x128x1-causal",
    "33x4x2x64x1-causal",
    "63x2x1x128x1",
    "65x2x2x64x1-causal",
    "127x2x1x64x1-causal",
    "128x1x1x128x2-causal",
    "129x2x2x128x1",
    "200x6x2x64x2-causal",
    "257x3x1x128x1-causal",
    "300x2x1x64x1",
];

/// Around every page and part of a cache, with groups that fill a block's rows and that do not.
const DECODES: &[&str] = &[
    "1x1x1x64x1",
    "15x5x1x128x2",
    "16x4x2x64x3",
    "17x6x2x128x2",
    "255x2x2x64x2",
    "256x8x1x128x1",
    "257x3x3x64x3",
    "1000x9x1x64x2",
];

/// The sizes to try a ladder with, of those that are numbers of elements or in the form that it
/// takes.
fn sizes_of(ladder: &Ladder, elements: &[u64]) -> Vec<u64> {
    match (ladder.sizes, ladder.name) {
        (Sizes::Elements | Sizes::With(_), _) => {
            elements.iter().copied().filter(|size| *size <= ladder.max_size).collect()
        }
        (Sizes::Numbers(_), "sgemm" | "hgemm") => {
            PRODUCTS.iter().map(|text| ladder.parse_size(text).unwrap()).collect()
        }
        (Sizes::Numbers(_), "conv") => ["1x16", "2x16", "3x16", "4x16", "5x32", "6x16", "7x32"]
            .map(|text| ladder.parse_size(text).unwrap())
            .to_vec(),
        (Sizes::Numbers(_), name) => panic!("no sizes to try {name} with"),
        (Sizes::Heads(_), "attention") => ATTENTIONS.iter().map(|text| ladder.parse_size(text).unwrap()).collect(),
        (Sizes::Heads(_), "decode") => DECODES.iter().map(|text| ladder.parse_size(text).unwrap()).collect(),
        (Sizes::Heads(_), name) => panic!("no sizes to try {name} with"),
    }
}

/// Ladders by what they cost, so that tests run side by side: nobody is left out.
const GROUPS: [&[&str]; 6] = [
    &["vector-add", "relu", "sigmoid", "dot", "reduce", "reduce-lessons", "group-reduce", "scan"],
    &["softmax", "softmax-vector", "norm", "rms-norm", "scale", "gemv", "histogram"],
    &["sgemm", "hgemm"],
    &["conv"],
    &["attention"],
    &["decode"],
];

fn ladders_of(group: usize) -> impl Iterator<Item = &'static Ladder> {
    GROUPS[group].iter().map(|name| ladder(name).unwrap())
}

#[test]
fn every_ladder_is_of_one_group() {
    let grouped: Vec<_> = GROUPS.concat();
    let all: Vec<_> = LADDERS.iter().map(|ladder| ladder.name).collect();
    assert_eq!(grouped, all);
}

/// A test for each of [`GROUPS`].
macro_rules! in_groups {
    ($test:ident) => {
        mod $test {
            #[test]
            fn of_vectors() {
                super::$test(0);
            }

            #[test]
            fn of_rows() {
                super::$test(1);
            }

            #[test]
            fn of_products() {
                super::$test(2);
            }

            #[test]
            fn of_convolution() {
                super::$test(3);
            }

            #[test]
            fn of_attention() {
                super::$test(4);
            }

            #[test]
            fn of_decode() {
                super::$test(5);
            }
        }
    };
}

/// The cases to try: of the sizes another third for each type, so that none is left out where a
/// ladder has three.
fn cases(group: usize, elements: &[u64]) -> Vec<(&'static Ladder, u64, Dtype)> {
    let of_dtype = |ladder: &'static Ladder, turn: usize| {
        let sizes = sampled(turn + ladder.name.len(), sizes_of(ladder, elements)).into_iter();
        sizes.map(move |size| (ladder, size, ladder.dtypes[turn]))
    };
    ladders_of(group).flat_map(|ladder| (0..ladder.dtypes.len()).flat_map(move |turn| of_dtype(ladder, turn))).collect()
}

in_groups!(every_rung_is_right_at_every_boundary_of_size);
in_groups!(every_rung_is_clean_under_every_check);
in_groups!(every_rung_buys_what_it_claims);

fn every_rung_is_right_at_every_boundary_of_size(group: usize) {
    on_every_device(|device| {
        for (ladder, size, dtype) in cases(group, SIZES) {
            all_are_right(&reported(device, ladder, size, dtype, Checks::None));
        }
    });
}

#[test]
fn every_rung_is_right_when_threads_take_several_rounds() {
    on_every_device(|device| {
        let reduce = ladder("reduce").unwrap();
        for dtype in reduce.dtypes {
            all_are_right(&reported(device, reduce, SEVERAL_ROUNDS, *dtype, Checks::None));
        }
    });
}

#[test]
fn several_rounds_of_threads_are_clean_under_every_check() {
    let reduce = ladder("reduce").unwrap();
    all_are_right(&reported(&virtual_gpu(), reduce, SEVERAL_ROUNDS, Dtype::F32, Checks::All));
}

fn every_rung_is_clean_under_every_check(group: usize) {
    let device = virtual_gpu();
    for (ladder, size, dtype) in cases(group, &[0, 1, 33, 257, 513, 1025, 1999, 100_003]) {
        all_are_right(&reported(&device, ladder, size, dtype, Checks::All));
    }
}

/// Rungs that buy what the virtual GPU does not count: hits of the L2, work at the same time, and
/// one order of the fold for every batch.
const TIME_ALONE: &[(&str, &str)] = &[
    ("hgemm", "tile_order"),
    ("attention", "overlap"),
    ("attention", "shipped"),
    ("decode", "shipped"),
    ("scan", "look_back"),
];

/// The element types to hold claims in: the ladder's first, and the first of each rung that has no
/// kernel for that.
fn dtypes_of_claims(ladder: &Ladder) -> Vec<Dtype> {
    let mut dtypes = vec![ladder.default_dtype()];
    for known in ladder.rungs.iter().flat_map(|rung| rung.launches).filter_map(|launch| launch.dtypes) {
        if !dtypes.iter().any(|dtype| known.contains(dtype)) {
            dtypes.push(known[0]);
        }
    }
    dtypes
}

fn every_rung_buys_what_it_claims(group: usize) {
    let device = virtual_gpu();
    for ladder in ladders_of(group) {
        // Full blocks for every rung, and several rounds for those whose grid is fixed.
        let has_one_block = ladder.rungs.iter().any(|rung| rung.finish == Finish::OneBlock);
        let rounds = if tries_all() { 4 } else { 2 };
        let size = match ladder.sizes {
            Sizes::Elements | Sizes::With(_) if !has_one_block => {
                ladder.max_size.min(rounds * u64::from(MAX_BLOCKS * BLOCK * 4))
            }
            _ => ladder.default_size,
        };
        let mut held = BTreeSet::new();
        for dtype in dtypes_of_claims(ladder) {
            let report = reported(&device, ladder, size, dtype, Checks::None);
            for (rung, pair) in ladder.rungs.windows(2).filter_map(|pair| {
                let find = |name| report.rungs.iter().find(|report| report.name == name);
                Some((&pair[1], [find(pair[0].name)?, find(pair[1].name)?]))
            }) {
                holds_its_claims(ladder, rung, &report, pair);
                held.insert(rung.name);
            }
        }
        let missed: Vec<_> = ladder.rungs[1..].iter().filter(|rung| !held.contains(rung.name)).collect();
        assert!(missed.is_empty(), "{}: {missed:?}", ladder.name);
    }
}

/// Holds a rung's claims against its report and that of the rung before it.
#[track_caller]
fn holds_its_claims(ladder: &Ladder, rung: &Rung, all: &LadderReport, [before, after]: [&RungReport; 2]) {
    let measured = |report: &RungReport| report.measured().expect("the virtual GPU counts");
    let is_of_time = TIME_ALONE.contains(&(ladder.name, rung.name));
    assert!(!rung.claims.is_empty() || is_of_time, "{}/{} claims nothing", ladder.name, rung.name);
    for claim in rung.claims {
        let other = all.rungs.iter().find(|other| Some(other.name) == claim.against);
        assert_eq!(other.is_some(), claim.against.is_some(), "{}/{} compares with no rung", ladder.name, rung.name);
        let before = measured(other.unwrap_or(before));
        let found = claim.describe(&before, &measured(after));
        let holds = claim.holds(&before, &measured(after));
        assert!(holds, "{}/{}: {:?}, {found}", ladder.name, rung.name, claim.change);
        assert!(after.sentence.contains(&found), "{}", after.sentence);
    }
}

#[test]
fn races_by_design_are_refuted_by_the_checks() {
    let device = virtual_gpu();
    let mut races = 0;
    for ladder in LADDERS {
        for rung in ladder.rungs.iter().filter(|rung| rung.finish == Finish::Race) {
            let options = RunOptions { rungs: vec![rung.name.to_owned()], ..options(Checks::All) };
            let report = run(&device, ladder, 5003, ladder.default_dtype(), &options).unwrap();
            let findings: Vec<_> = report.rungs[0].findings.iter().map(ToString::to_string).collect();
            assert!(findings.iter().any(|finding| finding.contains("race")), "{}: {findings:?}", rung.name);
            races += 1;
        }
    }
    assert_eq!(races, 1, "softmax-vector has the one");
}

#[test]
fn what_a_width_is_made_for_pays_at_that_width() {
    let device = virtual_gpu();
    let gemv = ladder("gemv").unwrap();
    // The first width that each of the three kernels was written for, and what it has over the rung
    // before it there.
    for (columns, rung, metric) in [
        (32, "sgemv_k32", Metric::LoadSectors),
        (128, "sgemv_k128", Metric::GlobalLoads),
        (16, "sgemv_k16", Metric::Instructions),
    ] {
        for elements in [1 << 14, 100_000, 1 << 20] {
            let size = gemv.with_option(elements, "columns", columns).unwrap();
            let report = reported(&device, gemv, size, Dtype::F32, Checks::None);
            all_are_right(&report);
            let at = report.rungs.iter().position(|report| report.name == rung).unwrap();
            let [before, after] = [at - 1, at].map(|i| metric.of(&report.rungs[i].measured().unwrap()));
            assert!(after < before, "{rung} of {elements} elements: {metric} {before} → {after}");
        }
    }
}

#[test]
fn what_is_claimed_in_a_sentence_is_true_at_any_size() {
    let device = virtual_gpu();
    for columns in [1, 16, 32, 128, 1000] {
        for elements in [1, 100, 5000, 65_536] {
            let gemv = ladder("gemv").unwrap();
            let size = gemv.with_option(elements, "columns", columns).unwrap();
            let report = reported(&device, gemv, size, Dtype::F32, Checks::None);
            for (rung, pair) in gemv.rungs[1..].iter().zip(report.rungs.windows(2)) {
                let [before, after] = [0, 1].map(|i| pair[i].measured().unwrap());
                for claim in rung.claims {
                    let is_said = pair[1].sentence.contains(&claim.describe(&before, &after));
                    let is_true = claim.points_the_right_way(&before, &after);
                    assert_eq!(is_said, is_true, "{elements} elements, {columns} columns: {}", pair[1].sentence);
                }
            }
        }
    }
}

#[test]
fn coarsening_by_a_factor_divides_blocks_barriers_and_atomics() {
    let device = virtual_gpu();
    let lessons = ladder("reduce-lessons").unwrap();
    let elements = 1 << 18;
    for factor in [2, 4, 8] {
        let size = lessons.with_option(elements, "factor", factor).unwrap();
        let report = reported(&device, lessons, size, Dtype::I32, Checks::All);
        all_are_right(&report);
        let names: Vec<_> = report.rungs.iter().map(|rung| rung.name).collect();
        assert_eq!(names, ["segmented", "coarsened"], "the others hold one block's elements");
        let [before, after] = [0, 1].map(|i| report.rungs[i].measured().unwrap());
        for metric in [Metric::Blocks, Metric::Barriers, Metric::Atomics] {
            assert_eq!(metric.of(&after) * factor as f64, metric.of(&before), "{metric} with {factor}");
        }
    }
}

#[test]
fn other_blocks_and_other_rows_are_right() {
    let device = virtual_gpu();
    let of = |name: &str, elements, option, value, dtype| {
        let ladder = ladder(name).unwrap();
        let size = ladder.with_option(elements, option, value).unwrap();
        let report = reported(&device, ladder, size, dtype, Checks::All);
        all_are_right(&report);
        report
    };
    for block in [32, 64, 1024] {
        for elements in [0, 31, 4099] {
            of("reduce", elements, "block", block, Dtype::I32);
        }
    }
    for columns in [1, 100, 256, 2000] {
        for dtype in [Dtype::F32, Dtype::F16] {
            of("scale", 5000, "columns", columns, dtype);
        }
    }
    // Two accesses of a lane hold 256 floats: they are read once.
    let report = of("scale", 1 << 14, "columns", 256, Dtype::F32);
    let [block, warp] = [0, 1].map(|i| Metric::LoadBytes.of(&report.rungs[i].measured().unwrap()));
    assert_eq!(block, 2.0 * warp);
}

#[test]
fn bank_conflicts_are_those_that_hardware_measured() {
    let reduce = ladder("reduce").unwrap();
    // The size that was measured, for the rung which has them; a 32nd of it for the others.
    let interleaved = RunOptions { rungs: vec!["interleaved".to_owned()], ..options(Checks::None) };
    let all = [(reduce.default_size, interleaved), (reduce.default_size / 32, options(Checks::None))];
    for (size, options) in all {
        let report = run(&virtual_gpu(), reduce, size, Dtype::I32, &options).unwrap();
        all_are_right(&report);
        for rung in &report.rungs {
            let counters = rung.counters.expect("the virtual GPU counts");
            let measured = 4_587_520 / (reduce.default_size / size);
            let expected = if rung.name == "interleaved" { measured } else { 0 };
            assert_eq!(counters.shared_store_bank_conflicts, expected, "{} of {size}", rung.name);
        }
    }
}

#[test]
fn only_the_naive_rung_divides() {
    let target = Target::new(Arch::SM_90A, (8, 0));
    for rung in ladder("reduce").unwrap().rungs {
        let built = rung.launches[0].kernel(Dtype::I32, 0).build(&target).unwrap();
        let divides = built.module.kernels().flat_map(|k| k.instructions()).any(|i| i.opcode == Opcode::Rem);
        assert_eq!(divides, rung.name == "naive", "{}", rung.name);
    }
}

/// The rungs that leave one sum a block, with the elements that each thread takes.
#[test]
fn the_rungs_are_right_for_every_block_size() {
    type Builder = fn(u32) -> PartialSums<i32>;
    let rungs: [(Builder, u32); 6] =
        [(naive, 1), (interleaved, 1), (sequential, 1), (first_add, 2), (unroll_last_warp, 2), (unroll_all, 2)];
    let len = 10_007_u32;
    let elements: Vec<i32> = (0..len).map(|i| i.wrapping_mul(2_654_435_761) as i32).collect();
    let total = |elements: &[i32]| elements.iter().fold(0_i32, |sum, element| sum.wrapping_add(*element));
    on_every_device(|device| {
        let input = device.upload(&elements).unwrap();
        for block in [64, 128, 256, 512, 1024] {
            for (kernel, taken) in rungs.map(|(builder, taken)| (builder(block), taken)) {
                let blocks = len.div_ceil(block * taken);
                let mut sums = device.alloc::<i32>(blocks as usize).unwrap();
                device.launch(&kernel, LaunchConfig::new(blocks, block), (&input, &mut sums, len)).unwrap();
                let expected: Vec<_> = elements.chunks((block * taken) as usize).map(total).collect();
                assert_eq!(sums.download().unwrap(), expected, "{} with {block} threads", kernel.name());
            }
        }
    });
}

#[test]
#[should_panic(expected = "a power of two of threads from 32 to 1,024, not 96")]
fn a_block_that_no_tree_fits_is_refused() {
    drop(naive::<i32>(96).build(&virtual_gpu().target()));
}

/// Whole numbers whose sums stay below 2^24: any order of additions gives them exactly, so that one
/// lost element shows.
#[test]
fn sums_of_whole_floats_are_exact() {
    on_every_device(|device| {
        for len in [1_usize, 257, 100_003, 2_000_001] {
            let elements: Vec<f32> = (0..len).map(|i| ((i * 7919) % 15) as f32 - 7.0).collect();
            let expected: f32 = elements.iter().sum();
            let input = device.upload(&elements).unwrap();
            let config = |elements: u32| LaunchConfig::new(len.div_ceil(elements as usize) as u32, BLOCK);

            let mut sums = device.alloc::<f32>(len.div_ceil(BLOCK as usize)).unwrap();
            device.launch(&naive::<f32>(BLOCK), config(BLOCK), (&input, &mut sums, len as u32)).unwrap();
            assert_eq!(sums.download().unwrap().iter().sum::<f32>(), expected, "naive, {len}");

            let mut sum = device.alloc_zeroed::<f32>(1).unwrap();
            device.launch(&shuffle::<f32>(BLOCK), config(2 * BLOCK), (&input, &mut sum, len as u32)).unwrap();
            assert_eq!(sum.download().unwrap(), [expected], "shuffle, {len}");
        }
    });
}

#[test]
fn the_single_pass_gives_the_same_bits_every_time_and_readies_its_counter() {
    let bits: Vec<u32> = devices().iter().flat_map(single_pass_bits).collect();
    assert!(bits.iter().all(|b| *b == bits[0]), "{bits:x?}");
}

/// The result of some launches that share one counter.
fn single_pass_bits(device: &Device) -> Vec<u32> {
    println!("on {device}");
    let len = 1_000_003_u32;
    let elements: Vec<f32> = (0..len).map(|i| (i.wrapping_mul(2_654_435_761) as f32).sqrt() - 40_000.0).collect();
    let input = device.upload(&elements).unwrap();
    let config = LaunchConfig::new(len.div_ceil(4 * BLOCK).min(MAX_BLOCKS), BLOCK);
    let mut ticket = device.alloc_zeroed::<u32>(1).unwrap();
    let kernel = single_pass::<f32>(BLOCK);
    let launch = |_| {
        let mut sums = device.alloc::<f32>(config.grid[0] as usize).unwrap();
        let mut result = device.alloc::<f32>(1).unwrap();
        device.launch(&kernel, config, (&input, &mut sums, &mut result, &mut ticket, len)).unwrap();
        result.download().unwrap()[0].to_bits()
    };
    (0..8).map(launch).collect()
}

/// The rung `unroll_last_warp` as it was written before Volta.
fn unroll_last_warp_in_lockstep(block: u32) -> PartialSums<i32> {
    let body = move |input: Global<i32>, sums: Global<i32>, len: Val<u32>| {
        let tile = shared_named::<i32>("tile", block);
        let thread = thread_idx().x;
        let i = block_idx().x * (2 * block) + thread;
        let load = |i: Val<u32>| input.at(i).get_or(0, i.lt(len));
        let mine = tile.at(thread);
        mine.set(load(i) + load(i + block));
        sync_threads();
        for stride in halving(block / 2).take_while(|stride| *stride > 32) {
            when(thread.lt(stride), || mine.add_assign(mine.at(stride).get()));
            sync_threads();
        }
        when(thread.lt(32), || {
            for stride in halving(32) {
                mine.add_assign(mine.at(stride).get());
            }
            when(thread.eq(0), || sums.at(block_idx().x).set(tile.at(0).get()));
        });
    };
    kernel("reduce_in_lockstep", body).required_block(block)
}

#[test]
fn a_last_warp_without_warp_barriers_is_reported() {
    let device = virtual_gpu();
    device.set_checks(Checks::All).unwrap();
    let input = device.upload(&vec![1_i32; 1024]).unwrap();
    let mut sums = device.alloc::<i32>(2).unwrap();
    let kernel = unroll_last_warp_in_lockstep(BLOCK);
    device.launch(&kernel, LaunchConfig::new(2, BLOCK), (&input, &mut sums, 1024)).unwrap();
    let findings = device.last_report().expect("the virtual GPU reports").report.findings;
    let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(text.contains("warp_sync") && text.contains("tile") && text.contains("reduce_in_lockstep"), "{text}");
}
