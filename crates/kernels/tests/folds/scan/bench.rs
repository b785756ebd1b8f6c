//! What the tests share: monoids, their prefixes by a loop, and a device that scans.

use std::collections::BTreeSet;

use warpfold_device::{Device, Finding, Severity};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Direction, Prefix, Scan, ScanAlgorithm, ScanChoice, ScanOrder, Sum};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::KernelCache;
use warpfold_kernels::{Dtype, Workspace};

use crate::folds::affine::{Affine, scattered};
use crate::folds::{planned, spec};

/// Its prefixes, one for each item.
pub(crate) fn affine(items: &[u32], prefix: Prefix) -> Vec<u32> {
    let mut x = 0_u32;
    let step = |(a, i): (&u32, u32)| {
        let before = x.wrapping_add(i);
        x = x.wrapping_mul(*a).wrapping_add(i);
        if prefix == Prefix::Inclusive { x.wrapping_add(i + 1) } else { before }
    };
    items.iter().zip(0..).map(step).collect()
}

pub(crate) fn sums(items: &[u32], prefix: Prefix) -> Vec<u32> {
    let mut sum = 0_u32;
    let step = |x: &u32| {
        let before = sum;
        sum = sum.wrapping_add(*x);
        if prefix == Prefix::Inclusive { sum } else { before }
    };
    items.iter().map(step).collect()
}

pub(crate) fn orders() -> [ScanOrder; 4] {
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
pub(crate) fn lines(layout: &Layout, axis: usize) -> Vec<Vec<(isize, usize)>> {
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
pub(crate) fn expected<T: Copy + Default>(
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

/// What was chosen, in a word.
pub(crate) fn kind(choice: &ScanChoice) -> String {
    match &choice.algorithm {
        ScanAlgorithm::Rows(rows) => {
            let group = if rows.lanes <= 32 { "lanes" } else { "block" };
            let width = if rows.vector > 1 { "wide" } else { "narrow" };
            format!("{group} {width} {:?}", rows.tiles)
        }
        ScanAlgorithm::Columns(columns) => {
            let width = if columns.vector > 1 { "wide" } else { "narrow" };
            format!("columns {width} {:?}", columns.tiles)
        }
    }
}

pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) sum: Scan,
    pub(crate) affine: Scan,
    workspace: Workspace,
    kernels: KernelCache,
    pub(crate) kinds: BTreeSet<String>,
}

impl Bench {
    /// One for each device at hand; the virtual one checks.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        crate::folds::devices().map(Self::on)
    }

    fn on(device: Device) -> Self {
        let (source, sink) = (Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
        let sum = Scan::new("sum", Sum::<u32>::new(), source.clone(), sink.clone());
        let affine = Scan::new("affine", Affine, source, sink);
        Self {
            device,
            sum,
            affine,
            workspace: Workspace::new(),
            kernels: KernelCache::default(),
            kinds: BTreeSet::new(),
        }
    }

    pub(crate) fn run<T: warpfold_device::Element>(
        &mut self,
        scan: &Scan,
        layout: &Layout,
        memory: &[T],
        first: usize,
        axis: usize,
        order: ScanOrder,
    ) -> Vec<T> {
        let input = self.device.upload(memory).unwrap();
        let mut output = self.device.alloc::<T>(layout.len()).unwrap();
        let view = input.view(first..).unwrap().bytes();
        let from = spec(scan.inputs()[0], layout, view.address());
        let to = spec(scan.outputs()[0], &Layout::contiguous(layout.shape()).unwrap(), output.address());
        let problem = scan.problem(vec![from], vec![to], axis, order);
        let choice = scan.choose(&problem).unwrap();
        let plan = planned(&self.device, &self.kernels, |planner| scan.plan_with(&problem, &choice, planner));
        let (stream, written) = (self.device.default_stream(), &mut [output.as_view_mut().bytes()]);
        let ready = plan.ready(&self.device).unwrap();
        ready
            .launch(&stream, &[Some(view)], written, &mut self.workspace)
            .unwrap_or_else(|e| panic!("{e}: {choice:?}"));
        for report in self.device.take_reports() {
            // Of very many blocks that wait for one another the checker says that it does not tell
            // all apart.
            let findings = report.report.findings.iter().filter(|finding| finding.severity != Severity::Info);
            assert_eq!(findings.collect::<Vec<_>>(), Vec::<&Finding>::new(), "{choice:?}");
        }
        self.kinds.insert(kind(&choice));
        output.download().unwrap()
    }

    #[track_caller]
    pub(crate) fn check(&mut self, layout: &Layout, first: usize, axis: usize) {
        let furthest =
            lines(layout, axis).iter().flatten().map(|(from, _)| first.checked_add_signed(*from).unwrap()).max();
        let memory: Vec<u32> = (0..=furthest.unwrap_or(first)).map(scattered).collect();
        let (sum, composed) = (self.sum.clone(), self.affine.clone());
        // The first and the last have each prefix and each direction once.
        let step = if memory.len() > 50_000 && !crate::folds::tries_all() { 3 } else { 1 };
        for order in orders().into_iter().step_by(step) {
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
pub(crate) fn compare(results: &[u32], expected: &[u32], what: &str) {
    assert_eq!(results.len(), expected.len(), "{what}");
    if let Some(i) = (0..results.len()).find(|i| results[*i] != expected[*i]) {
        panic!("{what}: result {i} is {} instead of {}", results[i], expected[i]);
    }
}
