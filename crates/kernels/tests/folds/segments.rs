//! Folds of segments of mixed sizes: planned, launched, checked, and compared with a plain loop.

use warpfold_device::{Device, Profile};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Fold, SegmentedFold, Sum};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Family, KernelCache};
use warpfold_kernels::{Dtype, ErrorKind, Workspace};

use crate::folds::affine::{Affine, affine, scattered};
use crate::folds::{clean, planned, spec};

fn sum(items: &[u32]) -> u32 {
    items.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}

/// Offsets of segments of these sizes, the first of which starts at `first`.
fn offsets_of(first: usize, sizes: &[usize]) -> Vec<i64> {
    let mut end = first as i64;
    std::iter::once(end)
        .chain(sizes.iter().map(|size| {
            end += *size as i64;
            end
        }))
        .collect()
}

struct Bench {
    device: Device,
    sum: Fold,
    affine: Fold,
    workspace: Workspace,
    kernels: KernelCache,
    /// Whether blocks for parts look through as many ranges as they can, else through one.
    few_helpers: bool,
}

impl Bench {
    /// One for each device at hand; the virtual one checks.
    fn all() -> impl Iterator<Item = Self> {
        crate::folds::devices().map(Self::on)
    }

    fn on(device: Device) -> Self {
        let (source, sink) = (Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
        let sum = Fold::new("sum", Sum::<u32>::new(), source.clone(), sink.clone());
        Self {
            device,
            sum,
            affine: Fold::new("affine", Affine, source, sink),
            workspace: Workspace::new(),
            kernels: KernelCache::default(),
            few_helpers: false,
        }
    }

    fn run(&mut self, fold: &Fold, layout: &Layout, memory: &[u32], (dtype, offsets): (Dtype, &[u8])) -> Vec<u32> {
        let num_segments = offsets.len() / dtype.bytes() as usize - 1;
        let input = self.device.upload(memory).unwrap();
        let offsets = self.device.upload(offsets).unwrap();
        let mut output = self.device.alloc::<u32>(num_segments).unwrap();
        let family = SegmentedFold(fold);
        let problem = family.problem(vec![spec(Dtype::U32, layout, input.address())], dtype, num_segments);
        let mut choice = family.choose(&problem).unwrap();
        if self.few_helpers {
            choice.helpers = choice.helpers.div_ceil(8);
        }
        let plan = planned(&self.device, &self.kernels, |planner| family.plan_with(&problem, &choice, planner));
        let inputs = [Some(input.as_view().bytes()), Some(offsets.as_view())];
        let (stream, written) = (self.device.default_stream(), &mut [output.as_view_mut().bytes()]);
        plan.ready(&self.device).unwrap().launch(&stream, &inputs, written, &mut self.workspace).unwrap();
        clean(&self.device);
        output.download().unwrap()
    }

    /// Segments that begin at `first`, of a tensor with `rest` items behind the last, with a
    /// stride.
    #[track_caller]
    fn check_in(&mut self, first: usize, sizes: &[usize], rest: usize, stride: usize) {
        let len = first + sizes.iter().sum::<usize>() + rest;
        let memory: Vec<u32> = (0..len * stride).map(scattered).collect();
        let layout = Layout::new(vec![len], vec![stride as isize]).unwrap();
        let offsets = offsets_of(first, sizes);
        let segments = offsets
            .windows(2)
            .map(|ends| -> Vec<u32> { (ends[0] as usize..ends[1] as usize).map(|i| memory[i * stride]).collect() });
        let segments: Vec<Vec<u32>> = segments.collect();
        let wide: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let narrow: Vec<u8> = offsets.iter().flat_map(|offset| (*offset as i32).to_le_bytes()).collect();
        let (of_sum, of_affine) = (self.sum.clone(), self.affine.clone());
        let sums = self.run(&of_sum, &layout, &memory, (Dtype::I64, &wide));
        assert_eq!(sums, segments.iter().map(|items| sum(items)).collect::<Vec<_>>(), "{sizes:?}");
        let composed = self.run(&of_affine, &layout, &memory, (Dtype::I32, &narrow));
        assert_eq!(composed, segments.iter().map(|items| affine(items)).collect::<Vec<_>>(), "{sizes:?}");
    }

    #[track_caller]
    fn check(&mut self, sizes: &[usize]) {
        self.check_in(0, sizes, 0, 1);
    }
}

/// Around every boundary: lanes, warps, what is put off, parts of what is huge.
const SIZES: [usize; 19] =
    [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 255, 257, 1025, 2047, 2048, 2049, 65_536, 65_537];

#[test]
fn one_segment_of_every_size() {
    for mut bench in Bench::all() {
        for size in SIZES.into_iter().chain([32_767, 32_768, 32_769, 65_535, 98_303, 98_304, 98_305, 200_003]) {
            bench.check_in(5, &[size], 3, 1);
            if size < 10_000 || crate::folds::tries_all() {
                bench.check(&[size]);
            }
        }
    }
}

#[test]
fn many_segments_of_like_size() {
    for mut bench in Bench::all() {
        for size in [0, 1, 3, 7, 20, 40, 90, 170, 350, 2000] {
            let sizes: Vec<usize> = (0..600_usize.min(40_000 / (size + 1))).map(|i| size + i % 3 * size / 3).collect();
            bench.check(&sizes);
        }
    }
}

#[test]
fn more_tiny_segments_than_blocks_take_at_once() {
    for mut bench in Bench::all() {
        // Some in each block's turns are put off: to warps, and to the block.
        let size = |i: usize| match (i % 997, i % 99_991) {
            (_, 7) => 2500,
            (5, _) => 70 + i % 50,
            _ => i % 4,
        };
        bench.check(&(0..650_000).map(size).collect::<Vec<_>>());
    }
}

#[test]
fn tiny_and_huge_segments_in_one_launch() {
    let all = Bench::all().flat_map(|bench| {
        let fewer = Bench { few_helpers: true, ..Bench::on(bench.device.clone()) };
        [bench, fewer]
    });
    for mut bench in all {
        let mut mixed: Vec<usize> = (0..300).map(|i| SIZES[i * 7 % 17]).collect();
        mixed.extend([80_000, 0, 66_000, 1, 2, 120_001, 65_537]);
        mixed.extend((0..100).map(|i| i % 4));
        bench.check(&mixed);
        bench.check_in(1000, &mixed, 1000, 2);
        // Most are empty, and the parts of neighbours begin in one range.
        let mut sparse = vec![0; 2000];
        for (i, size) in [(3, 65_537), (4, 65_537), (700, 100_000), (1999, 66_001)] {
            sparse[i] = size;
        }
        bench.check(&sparse);
    }
}

#[test]
fn no_segment_and_no_item_are_folded() {
    for mut bench in Bench::all() {
        bench.check(&[]);
        bench.check(&[0; 40]);
        bench.check_in(7, &[], 3, 1);
    }
}

#[test]
fn offsets_beyond_the_end_read_nothing() {
    for mut bench in Bench::all() {
        let memory: Vec<u32> = (0..50).map(scattered).collect();
        let layout = Layout::contiguous(&[50]).unwrap();
        let offsets: Vec<u8> = [0_i64, 40, 60, 1 << 40, 7].iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let fold = bench.sum.clone();
        let sums = bench.run(&fold, &layout, &memory, (Dtype::I64, &offsets));
        assert_eq!(sums, [sum(&memory[..40]), sum(&memory[40..]), 0, 0]);
    }
}

#[test]
fn sums_of_floats_depend_on_the_segment_alone() {
    let (source, sink) = (Source::one::<f32>(Dtype::F32), Sink::one::<f32>(Dtype::F32));
    let fold = Fold::new("sum", Sum::<f32>::new(), source, sink);
    let own: Vec<f32> = (0..135_000).map(|i| (scattered(i) as f32 - 16_000_000.0) * 1e-3).collect();
    let sums = |before: usize, workers: usize| {
        let device = Device::virtual_gpu(Profile::H200);
        device.configure(|options| options.workers = Some(workers)).unwrap();
        // The same number of items and of segments, so the same plan.
        let memory = [vec![0.5; before], own.clone(), vec![0.25; 1000 - before]].concat();
        let sizes = [before, 1500, 3000, 130_500, 1000 - before];
        let offsets: Vec<i64> = offsets_of(0, &sizes);
        let (input, offsets) = (device.upload(&memory).unwrap(), device.upload(&offsets).unwrap());
        let mut output = device.alloc::<f32>(5).unwrap();
        let layout = Layout::contiguous(&[memory.len()]).unwrap();
        let family = SegmentedFold(&fold);
        let ready = family
            .ready(&device, &family.problem(vec![spec(Dtype::F32, &layout, input.address())], Dtype::I64, 5))
            .unwrap();
        let inputs = [Some(input.as_view().bytes()), Some(offsets.as_view().bytes())];
        let (stream, written) = (device.default_stream(), &mut [output.as_view_mut().bytes()]);
        ready.launch(&stream, &inputs, written, &mut Workspace::new()).unwrap();
        let sums = output.download().unwrap();
        sums[1..4].iter().map(|sum| sum.to_bits()).collect::<Vec<_>>()
    };
    let alone = sums(0, 1);
    for (before, workers) in [(0, 4), (1, 3), (333, 1), (1000, 4)] {
        assert_eq!(sums(before, workers), alone, "behind {before} items with {workers} workers");
    }
}

#[test]
fn what_is_no_row_of_segments_is_refused() {
    for bench in Bench::all() {
        let matrix = Layout::contiguous(&[3, 4]).unwrap();
        let row = Layout::contiguous(&[12]).unwrap();
        for (layout, offsets) in [(&matrix, Dtype::I64), (&row, Dtype::F32)] {
            let family = SegmentedFold(&bench.sum);
            let error = family.choose(&family.problem(vec![spec(Dtype::U32, layout, 0)], offsets, 2)).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Operand { .. }), "{error}");
        }
    }
}
