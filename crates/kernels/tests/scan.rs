//! Scans of tensors of any layout: planned, launched, checked, and compared with a plain loop.

use std::collections::BTreeSet;

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::elements::{Compute, Sink, Source};
use warpfold_kernels::fold::{
    Cumulative, Direction, Monoid, Position, Prefix, Scan, ScanOrder, ScanPlan, ScanShape, Sum, Tiles, scan_of,
};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::{Dtype, Workspace};
use warpfold_lang::Val;

/// `x -> a * x + b`, composed: associative, and nothing else. Feels every change of order, position and count.
#[derive(Clone, Copy)]
struct Affine;

impl Monoid for Affine {
    type Item = Val<u32>;
    type Acc = (Val<u32>, Val<u32>);
    type Output = Val<u32>;
    const COMMUTES: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(1), Val::constant(0))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        (left.0 * right.0, left.1.mul_add(right.0, right.1))
    }

    fn lift(self, item: Val<u32>, position: Position) -> Self::Acc {
        (item, position.index().cast())
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Val<u32> {
        acc.1 + count.cast::<u32>()
    }
}

/// Its prefixes, one for each item.
fn affine(items: &[u32], prefix: Prefix) -> Vec<u32> {
    let mut x = 0_u32;
    let step = |(a, i): (&u32, u32)| {
        let before = x.wrapping_add(i);
        x = x.wrapping_mul(*a).wrapping_add(i);
        if prefix == Prefix::Inclusive { x.wrapping_add(i + 1) } else { before }
    };
    items.iter().zip(0..).map(step).collect()
}

fn sums(items: &[u32], prefix: Prefix) -> Vec<u32> {
    let mut sum = 0_u32;
    let step = |x: &u32| {
        let before = sum;
        sum = sum.wrapping_add(*x);
        if prefix == Prefix::Inclusive { sum } else { before }
    };
    items.iter().map(step).collect()
}

fn scattered(i: usize) -> u32 {
    (i as u32).wrapping_mul(2_654_435_761) >> 7 | 1
}

fn orders() -> [ScanOrder; 4] {
    let [forward, reverse] = [Direction::Forward, Direction::Reverse];
    [(Prefix::Inclusive, forward), (Prefix::Exclusive, forward), (Prefix::Inclusive, reverse), (Prefix::Exclusive, reverse)]
        .map(|(prefix, direction)| ScanOrder { prefix, direction })
}

/// The positions in memory of each line of the layout along the axis, and where its results go.
fn lines(layout: &Layout, axis: usize) -> Vec<Vec<(isize, usize)>> {
    let results = Layout::contiguous(layout.shape()).unwrap();
    let mut all = vec![(0, 0)];
    for other in (0..layout.rank()).filter(|other| *other != axis) {
        let next = |(from, to): &(isize, isize)| -> Vec<_> {
            let step = |i| (from + i * layout.strides()[other], to + i * results.strides()[other]);
            (0..layout.shape()[other] as isize).map(step).collect()
        };
        all = all.iter().flat_map(next).collect();
    }
    let line = |(from, to): (isize, isize)| {
        let at = |i| (from + i * layout.strides()[axis], (to + i * results.strides()[axis]) as usize);
        (0..layout.shape()[axis] as isize).map(at).collect()
    };
    all.into_iter().map(line).collect()
}

/// Scans each line by a plain loop.
fn expected<T: Copy + Default>(
    layout: &Layout,
    memory: &[T],
    first: usize,
    axis: usize,
    direction: Direction,
    scan: impl Fn(&[T]) -> Vec<T>,
) -> Vec<T> {
    let mut results = vec![T::default(); layout.len()];
    for mut line in lines(layout, axis) {
        if direction == Direction::Reverse {
            line.reverse();
        }
        let items: Vec<T> = line.iter().map(|(from, _)| memory[first.checked_add_signed(*from).unwrap()]).collect();
        for (value, (_, to)) in scan(&items).into_iter().zip(&line) {
            results[*to] = value;
        }
    }
    results
}

/// How a plan goes about it, in a word.
fn kind(plan: &ScanPlan) -> String {
    match &plan.shape {
        ScanShape::Rows(rows) => {
            let group = if rows.lanes <= 32 { "lanes" } else { "block" };
            let width = if rows.vector > 1 { "wide" } else { "narrow" };
            format!("{group} {width} {:?}", rows.tiles)
        }
        ScanShape::Columns(columns) => {
            let width = if columns.vector > 1 { "wide" } else { "narrow" };
            format!("columns {width} {:?}", columns.tiles)
        }
    }
}

struct Bench {
    device: Device,
    sum: Scan<Sum<u32>>,
    affine: Scan<Affine>,
    workspace: Workspace,
    kinds: BTreeSet<String>,
}

impl Bench {
    fn new() -> Self {
        let device = Device::virtual_gpu(Profile::H200);
        device.configure(|options| options.checks = Checks::All).unwrap();
        let (source, sink) = (Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
        let sum = Scan::new("sum", Sum::new(), source.clone(), sink.clone());
        let affine = Scan::new("affine", Affine, source, sink);
        Self { device, sum, affine, workspace: Workspace::new(), kinds: BTreeSet::new() }
    }

    fn run<M: Monoid, T: warpfold_device::Element>(
        &mut self,
        scan: &Scan<M>,
        layout: &Layout,
        memory: &[T],
        first: usize,
        axis: usize,
        order: ScanOrder,
    ) -> Vec<T> {
        let input = self.device.upload(memory).unwrap();
        let mut output = self.device.alloc::<T>(layout.len()).unwrap();
        let view = input.view(first..).unwrap().bytes();
        let plan = scan.plan(&[layout], &[view.address(), output.address()], axis, order).unwrap();
        let stream = self.device.default_stream();
        let written = output.as_view_mut().bytes();
        scan.launch(&stream, &plan, vec![view], vec![written], &mut self.workspace)
            .unwrap_or_else(|e| panic!("{e}: {plan:?}"));
        for report in self.device.take_reports() {
            assert!(report.report.findings.is_empty(), "{plan:?}: {:?}", report.report.findings);
        }
        self.kinds.insert(kind(&plan));
        output.download().unwrap()
    }

    #[track_caller]
    fn check(&mut self, layout: &Layout, first: usize, axis: usize) {
        let furthest = lines(layout, axis).iter().flatten().map(|(from, _)| first.strict_add_signed(*from)).max();
        let memory: Vec<u32> = (0..=furthest.unwrap_or(first)).map(scattered).collect();
        let (sum, composed) = (self.sum.clone(), self.affine.clone());
        for order in orders() {
            let ScanOrder { prefix, direction } = order;
            let results = self.run(&sum, layout, &memory, first, axis, order);
            let by_loop = expected(layout, &memory, first, axis, direction, |items| sums(items, prefix));
            compare(&results, &by_loop, &format!("sum {layout:?} {first} {axis} {order:?}"));
            let results = self.run(&composed, layout, &memory, first, axis, order);
            let by_loop = expected(layout, &memory, first, axis, direction, |items| affine(items, prefix));
            compare(&results, &by_loop, &format!("affine {layout:?} {first} {axis} {order:?}"));
        }
    }
}

#[track_caller]
fn compare(results: &[u32], expected: &[u32], what: &str) {
    assert_eq!(results.len(), expected.len(), "{what}");
    if let Some(i) = (0..results.len()).find(|i| results[*i] != expected[*i]) {
        panic!("{what}: result {i} is {} instead of {}", results[i], expected[i]);
    }
}

#[test]
fn every_axis_of_small_tensors_is_scanned_in_order() {
    let mut bench = Bench::new();
    for shape in [&[1][..], &[7], &[3, 5], &[33, 4], &[4, 33], &[2, 3, 16], &[5, 1, 8, 3], &[9, 40, 2], &[1, 12]] {
        let layout = Layout::contiguous(shape).unwrap();
        for axis in 0..shape.len() {
            bench.check(&layout, 0, axis);
            bench.check(&layout, 1, axis);
        }
    }
}

#[test]
fn rows_of_every_length_are_scanned() {
    let mut bench = Bench::new();
    for len in [1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097] {
        bench.check(&Layout::contiguous(&[len]).unwrap(), 0, 0);
        bench.check(&Layout::contiguous(&[3, len]).unwrap(), 0, 1);
    }
    bench.check(&Layout::contiguous(&[1025]).unwrap(), 3, 0);
}

#[test]
fn strides_of_any_kind_are_walked() {
    let mut bench = Bench::new();
    let layout = |shape: &[usize], strides: &[isize]| Layout::new(shape.to_vec(), strides.to_vec()).unwrap();
    let turned = layout(&[40, 30], &[1, 40]);
    let gaps = layout(&[6, 50], &[64, 1]);
    let second = layout(&[20, 30], &[60, 2]);
    let repeated = layout(&[5, 20, 9], &[9, 0, 1]);
    let constant = layout(&[3, 70], &[1, 0]);
    let runs = layout(&[4, 3, 64], &[256, 80, 1]);
    for layout in [turned, gaps, second, repeated, constant, runs] {
        for axis in 0..layout.rank() {
            bench.check(&layout, 0, axis);
            bench.check(&layout, 3, axis);
        }
    }
    let reversed = layout(&[11, 70], &[-70, -1]);
    bench.check(&reversed, 11 * 70 - 1, 0);
    bench.check(&reversed, 11 * 70 - 1, 1);
}

#[test]
fn long_axes_are_shared_by_blocks() {
    let mut bench = Bench::new();
    for (shape, axis) in [
        (&[100_003][..], 0),
        (&[100_000], 0),
        (&[3, 20_001], 1),
        (&[2, 40_000], 1),
        (&[5000, 65], 0),
        (&[2, 3000, 48], 1),
        (&[600, 300], 0),
        (&[600, 300], 1),
        (&[700, 2300], 1),
        (&[520, 2400], 1),
        (&[8, 2048], 1),
        (&[40, 3, 400], 0),
        (&[30, 64, 512], 1),
        (&[300, 3], 0),
    ] {
        bench.check(&Layout::contiguous(shape).unwrap(), 0, axis);
    }
    println!("{:#?}", bench.kinds);
}
