//! Scans of tensors of any layout: planned, launched, checked, and compared with a plain loop.

use std::collections::BTreeSet;

use warpfold_device::{Checks, Device, Finding, Profile, Severity};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{
    Cumulative, Direction, Monoid, Position, Prefix, Scan, ScanOrder, ScanPlan, ScanShape, Sum, scan_of,
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
    [
        (Prefix::Inclusive, forward),
        (Prefix::Exclusive, forward),
        (Prefix::Inclusive, reverse),
        (Prefix::Exclusive, reverse),
    ]
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
    /// One for each device at hand; the virtual one checks.
    fn all() -> impl Iterator<Item = Self> {
        Device::all().into_iter().map(|device| {
            println!("on {device}");
            if device.is_virtual() {
                device.configure(|options| options.checks = Checks::All).unwrap();
            }
            Self::on(device)
        })
    }

    fn on(device: Device) -> Self {
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
            // Of very many blocks that wait for one another the checker says that it does not tell all apart.
            let findings = report.report.findings.iter().filter(|finding| finding.severity != Severity::Info);
            assert_eq!(findings.collect::<Vec<_>>(), Vec::<&Finding>::new(), "{plan:?}");
        }
        self.kinds.insert(kind(&plan));
        output.download().unwrap()
    }

    #[track_caller]
    fn check(&mut self, layout: &Layout, first: usize, axis: usize) {
        let furthest =
            lines(layout, axis).iter().flatten().map(|(from, _)| first.checked_add_signed(*from).unwrap()).max();
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
    for mut bench in Bench::all() {
        for shape in [&[1][..], &[7], &[3, 5], &[33, 4], &[4, 33], &[2, 3, 16], &[5, 1, 8, 3], &[9, 40, 2], &[1, 12]] {
            let layout = Layout::contiguous(shape).unwrap();
            for axis in 0..shape.len() {
                bench.check(&layout, 0, axis);
                bench.check(&layout, 1, axis);
            }
        }
    }
}

#[test]
fn rows_of_every_length_are_scanned() {
    for mut bench in Bench::all() {
        for len in [1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097] {
            bench.check(&Layout::contiguous(&[len]).unwrap(), 0, 0);
            bench.check(&Layout::contiguous(&[3, len]).unwrap(), 0, 1);
        }
        bench.check(&Layout::contiguous(&[1025]).unwrap(), 3, 0);
    }
}

#[test]
fn strides_of_any_kind_are_walked() {
    for mut bench in Bench::all() {
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
}

#[test]
fn long_axes_are_shared_by_blocks() {
    for mut bench in Bench::all() {
        for (shape, axis) in [
            (&[100_003][..], 0),
            (&[100_000], 0),
            (&[3, 20_001], 1),
            (&[2, 40_000], 1),
            (&[5000, 65], 0),
            (&[2, 3000, 48], 1),
            (&[600, 300], 0),
            (&[600, 300], 1),
            (&[8, 2048], 1),
            (&[40, 3, 400], 0),
            (&[300, 3], 0),
            (&[20, 100, 51], 1),
        ] {
            bench.check(&Layout::contiguous(shape).unwrap(), 0, axis);
        }
        // Large ones in one order only.
        let scan = bench.affine.clone();
        for (turn, (shape, axis)) in
            [(&[512, 4100][..], 1), (&[512, 2049], 1), (&[600, 600], 1), (&[171, 130, 65], 1), (&[64, 66, 512], 1)]
                .into_iter()
                .enumerate()
        {
            let order = orders()[turn % 4];
            let layout = Layout::contiguous(shape).unwrap();
            let memory: Vec<u32> = (0..layout.len()).map(scattered).collect();
            let results = bench.run(&scan, &layout, &memory, 0, axis, order);
            let by_loop = expected(&layout, &memory, 0, axis, order.direction, |items| affine(items, order.prefix));
            compare(&results, &by_loop, &format!("{shape:?} {order:?}"));
        }
        for kind in [
            "lanes wide One",
            "lanes wide Loop",
            "block narrow Loop",
            "block narrow Split",
            "block wide Loop",
            "block wide Split",
            "columns narrow Loop",
            "columns narrow Split",
            "columns wide Loop",
        ] {
            assert!(bench.kinds.contains(kind), "no plan was {kind}: {:#?}", bench.kinds);
        }
    }
}

#[test]
fn narrow_elements_are_scanned_as_wide_as_they_lie() {
    for mut bench in Bench::all() {
        let scan = Scan::new("narrow", Sum::<u32>::new(), Source::one(Dtype::U16), Sink::one(Dtype::U16));
        for (shape, axis) in [(&[50_007][..], 0), (&[3, 16_384], 1), (&[700, 128], 0), (&[2, 600, 64], 1)] {
            let layout = Layout::contiguous(shape).unwrap();
            let memory: Vec<u16> = (0..layout.len()).map(|i| scattered(i) as u16).collect();
            for order in orders() {
                let results = bench.run(&scan, &layout, &memory, 0, axis, order);
                let by_loop = expected(&layout, &memory, 0, axis, order.direction, |items| {
                    let wide: Vec<u32> = items.iter().map(|item| u32::from(*item)).collect();
                    sums(&wide, order.prefix).into_iter().map(|sum| sum as u16).collect()
                });
                assert!(results == by_loop, "{shape:?} {order:?}");
            }
        }
        for kind in ["block wide Split", "block narrow Split", "columns wide Split"] {
            assert!(bench.kinds.contains(kind), "no plan was {kind}: {:#?}", bench.kinds);
        }
    }
}

#[test]
fn a_scan_of_nothing_is_nothing() {
    for mut bench in Bench::all() {
        let sum = bench.sum.clone();
        for (shape, axis) in [(&[0][..], 0), (&[3, 0], 1), (&[3, 0], 0), (&[0, 3], 1)] {
            let layout = Layout::contiguous(shape).unwrap();
            assert_eq!(bench.run(&sum, &layout, &[9_u32], 0, axis, ScanOrder::default()), []);
        }
    }
}

/// Sixteen registers: [`Affine`] eight times, so that tiles are small and trees high.
#[derive(Clone, Copy)]
struct Wide;

impl Monoid for Wide {
    type Item = Val<u32>;
    type Acc = [(Val<u32>, Val<u32>); 8];
    type Output = Val<u32>;
    const COMMUTES: bool = false;

    fn identity(self) -> Self::Acc {
        [Affine.identity(); 8]
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        std::array::from_fn(|i| Affine.combine(left[i], right[i]))
    }

    fn lift(self, item: Val<u32>, position: Position) -> Self::Acc {
        [Affine.lift(item, position); 8]
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Val<u32> {
        acc.into_iter().map(|acc| Affine.finish(acc, count)).reduce(|all, one| all & one).expect("there are eight")
    }
}

#[test]
fn more_tiles_than_a_group_of_groups_has_are_scanned_in_order() {
    for mut bench in Bench::all() {
        let scan = Scan::new("wide", Wide, Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
        for (shape, axis, first) in [(&[256 * 1100 + 9][..], 0, 1), (&[16 * 1060 + 3, 17], 0, 0)] {
            let layout = Layout::contiguous(shape).unwrap();
            let memory: Vec<u32> = (0..layout.len() + first).map(scattered).collect();
            let order = ScanOrder::default();
            let results = bench.run(&scan, &layout, &memory, first, axis, order);
            let by_loop = expected(&layout, &memory, first, axis, order.direction, |items| affine(items, order.prefix));
            compare(&results, &by_loop, &format!("{shape:?}"));
        }
        assert_eq!(bench.kinds.iter().collect::<Vec<_>>(), ["block narrow Split", "columns narrow Split"]);
    }
}

/// Floats of both signs over many orders of magnitude.
fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| (f32::from(scattered(i) as u16) - 32_768.0) * 2.0_f32.powi((i * 7 % 41) as i32 - 20)).collect()
}

/// Every sum is off by no more than a rounding for each step that leads to it, of all magnitudes in it.
#[track_caller]
fn check_bound(layout: &Layout, axis: usize, memory: &[f32], results: &[f32], plan: &ScanPlan) {
    for line in lines(layout, axis) {
        let (mut sum, mut magnitudes) = (0.0_f64, 0.0_f64);
        for (from, to) in line {
            let x = f64::from(memory[from as usize]);
            sum += x;
            magnitudes += x.abs();
            let bound = plan.depth() as f64 * f64::from(f32::EPSILON) / 2.0 * magnitudes;
            let error = (f64::from(results[to]) - sum).abs();
            assert!(error <= bound, "result {to} is {} for {sum}: off by {error}, not {bound}: {plan:?}", results[to]);
        }
    }
}

/// Virtual GPUs with numbers of workers, and all other devices.
fn devices() -> impl Iterator<Item = (Device, usize)> {
    let others = Device::all().into_iter().filter(|device| !device.is_virtual()).map(|device| (device, 0));
    [1, 4, 3].into_iter().map(|workers| (Device::virtual_gpu(Profile::H200), workers)).chain(others)
}

#[test]
fn sums_of_floats_keep_their_bound_and_their_bits() {
    let scan = scan_of(Cumulative::Sum, Dtype::F32, None).unwrap();
    for (shape, axis) in [(&[300_003][..], 0), (&[40_000, 40], 0), (&[600, 5000], 1), (&[1000, 70], 1)] {
        let layout = Layout::contiguous(shape).unwrap();
        let memory = floats(layout.len());
        let mut before: Option<Vec<u32>> = None;
        // One worker runs one block after the other: a tile that waited for a later one would wait for ever. With more
        // workers than cores blocks overtake each other.
        for (device, workers) in devices() {
            if device.is_virtual() {
                device.configure(|options| options.workers = Some(workers)).unwrap();
            }
            let input = device.upload(&memory).unwrap();
            let mut output = device.alloc::<f32>(layout.len()).unwrap();
            let addresses = [input.address(), output.address()];
            let plan = scan.plan(&[&layout], &addresses, axis, ScanOrder::default()).unwrap();
            let mut workspace = Workspace::new();
            for _ in 0..2 {
                output.fill_bytes(0xff).unwrap();
                let (input, written) = (input.as_view().bytes(), output.as_view_mut().bytes());
                scan.launch(&device.default_stream(), &plan, vec![input], vec![written], &mut workspace).unwrap();
                let results = output.download().unwrap();
                let bits: Vec<u32> = results.iter().map(|x| x.to_bits()).collect();
                match &before {
                    None => {
                        check_bound(&layout, axis, &memory, &results, &plan);
                        before = Some(bits);
                    }
                    Some(before) => assert!(bits == *before, "{shape:?} on {device} with {workers} workers differs"),
                }
            }
        }
    }
}

#[test]
fn two_inputs_are_scanned_together() {
    // The recurrence h = a * h + b, as state space models have it.
    #[derive(Clone, Copy)]
    struct Recurrence;
    impl Monoid for Recurrence {
        type Item = (Val<i32>, Val<i32>);
        type Acc = (Val<i32>, Val<i32>);
        type Output = Val<i32>;
        const COMMUTES: bool = false;
        fn identity(self) -> Self::Acc {
            (Val::constant(1), Val::constant(0))
        }
        fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
            (left.0 * right.0, left.1.mul_add(right.0, right.1))
        }
        fn lift(self, item: Self::Item, _: Position) -> Self::Acc {
            item
        }
        fn finish(self, acc: Self::Acc, _: Val<u64>) -> Val<i32> {
            acc.1
        }
    }
    let source = Source::one::<i32>(Dtype::I8).zip(Source::one::<i32>(Dtype::I32));
    let scan = Scan::new("recurrence", Recurrence, source, Sink::one::<i32>(Dtype::I32));
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    // One factor for each time, repeated over the channels.
    for (times, channels) in [(5000, 32), (70, 9), (900, 1)] {
        let factors: Vec<i8> = (0..times).map(|i| scattered(i) as i8).collect();
        let addends: Vec<i32> = (0..times * channels).map(|i| scattered(i + 7) as i32).collect();
        let (a, b) = (device.upload(&factors).unwrap(), device.upload(&addends).unwrap());
        let mut output = device.alloc::<i32>(addends.len()).unwrap();
        let layouts = [Layout::new(vec![times, channels], vec![1, 0]), Layout::contiguous(&[times, channels])];
        let layouts = layouts.map(Result::unwrap);
        let addresses = [a.address(), b.address(), output.address()];
        let plan = scan.plan(&layouts.each_ref(), &addresses, 0, ScanOrder::default()).unwrap();
        let inputs = vec![a.as_view().bytes(), b.as_view().bytes()];
        let written = vec![output.as_view_mut().bytes()];
        scan.launch(&device.default_stream(), &plan, inputs, written, &mut Workspace::new()).unwrap();
        assert!(device.take_reports().iter().all(|report| report.report.findings.is_empty()));
        let results = output.download().unwrap();
        for channel in 0..channels {
            let mut h = 0_i32;
            for time in 0..times {
                h = h.wrapping_mul(i32::from(factors[time])).wrapping_add(addends[time * channels + channel]);
                assert_eq!(results[time * channels + channel], h, "{time} {channel}");
            }
        }
    }
}

#[test]
fn elements_are_read_once_and_results_written_once() {
    let device = Device::virtual_gpu(Profile::H200);
    // One worker runs one block after the other, and no block has to ask twice.
    device.configure(|options| options.workers = Some(1)).unwrap();
    // Tickets, flags and nodes take a few sectors a tile of 512 or, of columns, 256; more, but all of them in L2.
    for (shape, axis, share) in [(&[1 << 18][..], 0, 10), (&[4096, 128], 1, 100), (&[1024, 256], 0, 2)] {
        let scan = scan_of(Cumulative::Sum, Dtype::F32, None).unwrap();
        let layout = Layout::contiguous(shape).unwrap();
        let input = device.upload(&floats(layout.len())).unwrap();
        let mut output = device.alloc::<f32>(layout.len()).unwrap();
        let plan = scan.plan(&[&layout], &[input.address(), output.address()], axis, ScanOrder::default()).unwrap();
        let (input, written) = (input.as_view().bytes(), output.as_view_mut().bytes());
        scan.launch(&device.default_stream(), &plan, vec![input], vec![written], &mut Workspace::new()).unwrap();
        let counters = device.last_report().unwrap().report.counters;
        let sectors = layout.len() as u64 * 4 / 32;
        assert!(counters.global_load_sectors < sectors + sectors / share, "{counters:?}");
        assert!(counters.global_store_sectors < sectors + sectors / share, "{counters:?}");
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{counters:?}");
    }
}
