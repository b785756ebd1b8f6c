//! Folds, scans and segmented folds of tensors: planned once, and captured in graphs.

use warpfold::by_name;
use warpfold::reductions::{Options, Reduction};
use warpfold::{Axes, Cumulative, Device, Dtype, Error, Profile, Queue, ScanOrder, Tensor};
use warpfold_device::Checks;
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Fold, Scan, Sum};

/// Elements, so many that blocks share a reduction, or a scan, of all of them.
const LEN: usize = 70_001;

struct Operator {
    name: String,
    run: Box<dyn Fn() -> Result<Vec<Tensor>, Error>>,
}

fn operator(name: impl Into<String>, run: impl Fn() -> Result<Vec<Tensor>, Error> + 'static) -> Operator {
    Operator { name: name.into(), run: Box::new(run) }
}

/// Every operator that is made of folds or scans, on inputs of a queue.
fn operators(queue: &Queue) -> Vec<Operator> {
    let numbers = |len: usize| -> Vec<f32> { (0..len).map(|i| (i * 7919 % 1009) as f32 - 504.0).collect() };
    let on = |tensor: Result<Tensor, Error>| tensor.unwrap().on(queue);
    let row = on(Tensor::from_slice(&numbers(LEN), &[LEN], queue.device()));
    let matrix = on(Tensor::from_slice(&numbers(600 * 40), &[600, 40], queue.device()));
    let offsets = on(Tensor::from_slice(&[0_i32, 3, 500, 1000, LEN as i32], &[5], queue.device()));
    let labels = on(Tensor::from_slice(&(0..600).map(|i| i % 40).collect::<Vec<i64>>(), &[600], queue.device()));
    let tensors = [(row.clone(), 0), (matrix.clone(), 0), (matrix.clone(), 1)];
    let mut all = Vec::new();
    for reduction in Reduction::ALL.iter().copied().filter(|reduction| *reduction != Reduction::Dot) {
        let options = Options { k: (reduction == Reduction::TopK).then_some(3), ..Options::default() };
        for (tensor, axis) in tensors.clone() {
            let name = format!("{reduction} of {:?} over {axis}", tensor.shape());
            all.push(operator(name, move || tensor.reduce(reduction, Axes::Of(&[axis]), options)));
        }
        let (row, offsets) = (row.clone(), offsets.clone());
        let segments = move || row.segment_reduce(reduction, &offsets, options);
        all.push(operator(format!("{reduction} of segments"), segments));
    }
    for reduction in [Reduction::Variance, Reduction::StandardDeviation, Reduction::MeanVariance] {
        let matrix = matrix.clone();
        let passes = move || matrix.reduce_in_two_passes(reduction, Axes::Of(&[1]), Options::default());
        all.push(operator(format!("{reduction} in two passes"), passes));
    }
    for cumulative in Cumulative::ALL.iter().copied() {
        for (tensor, axis) in tensors.clone() {
            let name = format!("{cumulative} of {:?} over {axis}", tensor.shape());
            let scan = move || Ok(vec![tensor.scan(cumulative, axis, ScanOrder::default(), None)?]);
            all.push(operator(name, scan));
        }
    }
    let source = || Source::one::<f32>(Dtype::F32).map(|x| x * x);
    let sink = || Sink::one::<f32>(Dtype::F32);
    let fold = Fold::new("squares", Sum::<f32>::new(), source(), sink());
    let scan = Scan::new("squares", Sum::<f32>::new(), source(), sink());
    let pairs = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::F32)).map(|(x, y)| x * y);
    let dot = Fold::new("dot", Sum::<f32>::new(), pairs, sink());
    let (x, squares) = (row.clone(), fold.clone());
    all.push(operator("a custom fold", move || x.fold(&squares, Axes::All)));
    let x = row.clone();
    all.push(operator("a custom fold of two inputs", move || x.fold_with(&x, &dot, Axes::All)));
    let x = row.clone();
    all.push(operator("a custom segmented fold", move || x.segment_fold(&fold, &offsets)));
    let x = row.clone();
    all.push(operator("a custom scan", move || x.scan_by(&scan, 0, ScanOrder::default())));
    all.push(operator("dot", move || by_name::run("dot", &[row.clone(), row.clone()], &by_name::Options::default())));
    all.push(operator("cross-entropy", move || {
        let (loss, log_sum) = matrix.cross_entropy_rows(&labels, None)?;
        Ok(vec![loss, log_sum])
    }));
    all
}

fn bytes_of(tensors: &[Tensor]) -> Vec<Vec<u8>> {
    tensors.iter().map(|tensor| tensor.to_bytes().unwrap()).collect()
}

#[test]
fn the_second_call_of_an_operator_plans_nothing() {
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    for Operator { name, run } in operators(&queue) {
        let before = queue.plan_counts();
        let first = bytes_of(&run().unwrap());
        let planned = queue.plan_counts();
        assert!(planned.planned > before.planned, "{name} was planned before");
        assert_eq!(bytes_of(&run().unwrap()), first, "{name}");
        let again = queue.plan_counts();
        assert_eq!(again.planned, planned.planned, "{name} was planned again");
        let calls = planned.planned + planned.found - before.planned - before.found;
        assert_eq!(again.found - planned.found, calls, "{name}: plans that were found");
    }
}

#[test]
fn every_operator_is_captured_after_its_first_call() {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    let queue = Queue::new(device.new_stream().unwrap());
    for Operator { name, run } in operators(&queue) {
        let expected = bytes_of(&run().unwrap_or_else(|e| panic!("{name}: {e}")));
        let captured = queue.stream().capture(&run);
        let (graph, results) = captured.unwrap_or_else(|e| panic!("{name} is not captured: {e}"));
        for _ in 0..2 {
            graph.launch().unwrap();
            assert_eq!(bytes_of(&results), expected, "{name}");
        }
        let findings = device.take_reports().into_iter().flat_map(|launch| launch.report.findings);
        assert_eq!(findings.count(), 0, "{name}");
    }
}
