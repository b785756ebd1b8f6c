//! Folds of tensors of any layout: planned, launched, checked, and compared with a plain loop.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Algorithm, Fold, Sum, TopK};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Family, KernelCache};
use warpfold_kernels::{Dtype, Workspace};
use warpfold_lang::Val;

use crate::folds::affine::{Affine, affine, scattered};
use crate::folds::{clean, planned, spec};

/// The positions of a layout's elements in memory, in C order.
fn walk(layout: &Layout) -> Vec<(Vec<usize>, isize)> {
    let mut all = vec![(Vec::new(), 0)];
    for (size, stride) in layout.shape().iter().zip(layout.strides()) {
        let step = |(index, offset): &(Vec<usize>, isize)| -> Vec<_> {
            let next = |i: usize| ([index.as_slice(), &[i]].concat(), offset + i as isize * stride);
            (0..*size).map(next).collect()
        };
        all = all.iter().flat_map(step).collect();
    }
    all
}

/// Folds the elements of each result by a plain loop.
fn expected(layout: &Layout, memory: &[u32], first: usize, axes: &[usize], fold: impl Fn(&[u32]) -> u32) -> Vec<u32> {
    let mut groups: std::collections::BTreeMap<Vec<usize>, Vec<u32>> = std::collections::BTreeMap::new();
    let kept = |index: &[usize]| -> Vec<usize> {
        index.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, i)| *i).collect()
    };
    for (index, offset) in walk(layout) {
        groups.entry(kept(&index)).or_default().push(memory[first.checked_add_signed(offset).unwrap()]);
    }
    groups.values().map(|elements| fold(elements)).collect()
}

struct Bench {
    device: Device,
    sum: Fold,
    affine: Fold,
    workspace: Workspace,
    kernels: KernelCache,
    /// Whether kernels count in 64 bits, whatever there is to count.
    counts_64_bits: bool,
}

impl Bench {
    fn new() -> Self {
        let device = Device::virtual_gpu(Profile::H200);
        device.configure(|options| options.checks = Checks::All).unwrap();
        let (source, sink) = (Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
        let sum = Fold::new("sum", Sum::<u32>::new(), source.clone(), sink.clone());
        Self {
            device,
            sum,
            affine: Fold::new("affine", Affine, source, sink),
            workspace: Workspace::new(),
            kernels: KernelCache::default(),
            counts_64_bits: false,
        }
    }

    fn run(
        &mut self,
        fold: &Fold,
        layout: &Layout,
        memory: &[u32],
        first: usize,
        axes: &[usize],
    ) -> (Algorithm, Vec<u32>) {
        let input = self.device.upload(memory).unwrap();
        let kept = |(axis, size): (usize, &usize)| if axes.contains(&axis) { 1 } else { *size };
        let results = layout.shape().iter().enumerate().map(kept).product();
        let mut output = self.device.alloc::<u32>(results).unwrap();
        let view = input.view(first..).unwrap().bytes();
        let problem = fold.problem(vec![spec(Dtype::U32, layout, view.address())], axes);
        let mut choice = fold.choose(&problem).unwrap();
        if self.counts_64_bits {
            match &mut choice.algorithm {
                Algorithm::Rows(rows) => rows.small = false,
                Algorithm::Columns(columns) => columns.small = false,
            }
        }
        let plan = planned(&self.device, &self.kernels, |planner| fold.plan_with(&problem, &choice, planner));
        let (stream, written) = (self.device.default_stream(), &mut [output.as_view_mut().bytes()]);
        let ready = plan.ready(&self.device).unwrap();
        ready
            .launch(&stream, &[Some(view)], written, &mut self.workspace)
            .unwrap_or_else(|e| panic!("{e}: {choice:?}"));
        clean(&self.device);
        (choice.algorithm, output.download().unwrap())
    }

    #[track_caller]
    fn check(&mut self, layout: &Layout, first: usize, axes: &[usize]) {
        let furthest =
            walk(layout).iter().map(|(_, offset)| first.checked_add_signed(*offset).unwrap()).max().unwrap_or(0);
        let memory: Vec<u32> = (0..=furthest).map(scattered).collect();
        let (of_sum, of_affine) = (self.sum.clone(), self.affine.clone());
        let (plan, sums) = self.run(&of_sum, layout, &memory, first, axes);
        let by_loop = |elements: &[u32]| elements.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x));
        assert_eq!(sums, expected(layout, &memory, first, axes, by_loop), "sum {layout:?} {first} {axes:?} {plan:?}");
        let (plan, composed) = self.run(&of_affine, layout, &memory, first, axes);
        let all = expected(layout, &memory, first, axes, affine);
        assert_eq!(composed, all, "affine {layout:?} {first} {axes:?} {plan:?}");
    }
}

fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1_usize << rank).map(move |bits| (0..rank).filter(|axis| bits >> axis & 1 == 1).collect())
}

#[test]
fn every_set_of_axes_of_small_tensors_is_folded_in_order() {
    let mut bench = Bench::new();
    for shape in [&[][..], &[1], &[7], &[3, 5], &[33, 4], &[4, 33], &[2, 3, 16], &[5, 1, 8, 3], &[9, 40, 2]] {
        let layout = Layout::contiguous(shape).unwrap();
        for axes in subsets(shape.len()) {
            bench.check(&layout, 0, &axes);
            bench.check(&layout, 1, &axes);
        }
    }
}

#[test]
fn strides_of_any_kind_are_walked() {
    let mut bench = Bench::new();
    let layout = |shape: &[usize], strides: &[isize]| Layout::new(shape.to_vec(), strides.to_vec()).unwrap();
    let turned = layout(&[40, 30], &[1, 40]);
    let gaps = layout(&[6, 50], &[64, 1]);
    let second = layout(&[20, 30], &[60, 2]);
    let repeated = layout(&[5, 20, 9], &[9, 0, 1]);
    let runs = layout(&[4, 3, 64], &[256, 80, 1]);
    for layout in [turned, gaps, second, repeated, runs] {
        for axes in subsets(layout.rank()) {
            bench.check(&layout, 0, &axes);
            bench.check(&layout, 3, &axes);
        }
    }
    let reversed = layout(&[11, 70], &[-70, -1]);
    for axes in subsets(2) {
        bench.check(&reversed, 11 * 70 - 1, &axes);
    }
}

#[test]
fn eight_dimensions_that_do_not_merge_are_walked() {
    let mut bench = Bench::new();
    let sizes = [2, 3, 2, 2, 3, 2, 2, 2];
    // One element between neighbours, and between each dimension and the next one.
    let strides: Vec<isize> =
        sizes.iter().rev().scan(2, |next, size| Some(std::mem::replace(next, *next * size + 1))).collect();
    let layout = Layout::new(sizes.map(|size| size as usize).to_vec(), strides.into_iter().rev().collect()).unwrap();
    for axes in subsets(8).step_by(17) {
        bench.check(&layout, 1, &axes);
    }
}

/// As where there are more elements or results than 32 bits count.
#[test]
fn positions_of_64_bits_lead_to_the_same_places() {
    let mut bench = Bench { counts_64_bits: true, ..Bench::new() };
    for shape in [&[3, 5][..], &[4, 33, 2], &[9, 40, 2], &[2, 3, 16], &[70_001]] {
        let layout = Layout::contiguous(shape).unwrap();
        for axes in subsets(shape.len()) {
            bench.check(&layout, 0, &axes);
        }
    }
}

#[test]
fn long_rows_are_shared_by_blocks_and_many_columns_by_threads() {
    let mut bench = Bench::new();
    for (shape, axes) in [
        (&[100_003][..], &[0][..]),
        (&[3, 20_001], &[1]),
        (&[1025, 130], &[0]),
        (&[5000, 65], &[0]),
        (&[2, 3000, 48], &[1]),
        (&[600, 300], &[1]),
        (&[8, 2048], &[1]),
        (&[40, 3, 400], &[0, 2]),
        (&[40, 3, 402], &[0, 2]),
    ] {
        bench.check(&Layout::contiguous(shape).unwrap(), 0, axes);
    }
}

#[test]
fn an_output_without_room_for_the_results_is_refused() {
    let bench = Bench::new();
    let layout = Layout::contiguous(&[5, 3]).unwrap();
    let input = bench.device.upload(&[1_u32; 15]).unwrap();
    let mut output = bench.device.alloc::<u32>(4).unwrap();
    let problem = bench.sum.problem(vec![spec(Dtype::U32, &layout, input.address())], &[1]);
    let ready = bench.sum.ready(&bench.device, &problem).unwrap();
    let (inputs, written) = ([Some(input.as_view().bytes())], &mut [output.as_view_mut().bytes()]);
    let stream = bench.device.default_stream();
    let error = ready.launch(&stream, &inputs, written, &mut Workspace::new()).unwrap_err();
    assert_eq!(error.to_string(), "fold: the output needs 20 bytes, not 16");
}

#[test]
fn a_fold_of_nothing_is_the_identity() {
    let mut bench = Bench::new();
    let sum = bench.sum.clone();
    for (shape, axes, results) in
        [(&[0][..], &[0][..], 1), (&[3, 0], &[1], 3), (&[0, 3], &[0], 3), (&[0, 3], &[1], 0), (&[0, 100, 9], &[1], 0)]
    {
        let layout = Layout::contiguous(shape).unwrap();
        let (_, sums) = bench.run(&sum, &layout, &[9], 0, axes);
        assert_eq!(sums, vec![0; results], "{shape:?}");
    }
}

#[test]
fn an_accumulator_may_have_more_registers_than_those_that_ship() {
    // 32 values with their positions, over lanes, a block, and blocks that share a row.
    let sink = Sink::<[Val<i32>; 32]>::list(Dtype::I32, 32);
    let sink = sink.after(|list: [(Val<i32>, Val<u64>); 32]| list.map(|entry| entry.0));
    let fold = Fold::new("largest", TopK::<i32, 32>::new(), Source::one::<i32>(Dtype::I32), sink);
    let bench = Bench::new();
    for len in [40, 3000, 70_001] {
        let numbers: Vec<i32> = (0..len).map(|i| scattered(i) as i32).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let (input, mut output) = (bench.device.upload(&numbers).unwrap(), bench.device.alloc::<i32>(32).unwrap());
        let row = spec(Dtype::I32, &Layout::contiguous(&[len]).unwrap(), input.address());
        let ready = fold.ready(&bench.device, &fold.problem(vec![row], &[0])).unwrap();
        let (inputs, written) = ([Some(input.as_view().bytes())], &mut [output.as_view_mut().bytes()]);
        ready.launch(&bench.device.default_stream(), &inputs, written, &mut Workspace::new()).unwrap();
        clean(&bench.device);
        assert_eq!(output.download().unwrap(), sorted[..32], "{len}");
    }
}
