//! The second call of an operator plans nothing, and every operator can be captured in a graph.

use warpfold::by_name::{self, Operator, Options};
use warpfold::{Axes, Device, Dtype, NormInputs, Profile, Queue, Tensor};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::map::Map;
use warpfold_kernels::operations::{self, Operation};
use warpfold_kernels::rowwise::RowWise;
use warpfold_kernels::rowwise::operators::AbsMaxScale;

/// A queue of its own, so that nobody else's plans count.
fn queue() -> Queue {
    Queue::new(Device::virtual_gpu(Profile::H200).new_stream().unwrap())
}

fn tensor(queue: &Queue, dtype: Dtype, shape: &[usize]) -> Tensor {
    let data: Vec<f32> = (0..shape.iter().product()).map(|i: usize| (i * 7919 % 13) as f32).collect();
    Tensor::from_bytes(queue, Dtype::F32, bytemuck::cast_slice(&data), shape).unwrap().cast(dtype).unwrap()
}

/// Calls something on a queue twice: the second call plans nothing, and launches what was planned.
#[track_caller]
fn check(queue: &Queue, what: &str, call: impl Fn()) {
    call();
    let first = queue.plan_counts();
    call();
    let second = queue.plan_counts();
    assert_eq!(second.planned, first.planned, "{what} is planned again");
    assert!(second.found > first.found, "{what} has a plan");
}

/// The operators that work on rows or on elements, with inputs that each takes.
fn operators(queue: &Queue) -> Vec<(&'static Operator, Vec<Tensor>, Options)> {
    let all = by_name::operators().filter_map(|operator| {
        let is_of_rows = operator.inputs == (1, 2) || operator.name.ends_with("-norm") && operator.outputs > 1;
        let is_of_rows = is_of_rows || ["abs-max-scale", "quantize"].contains(&operator.name);
        let operation = operator.name.parse::<Operation>();
        if !is_of_rows && operation.is_err() {
            return None;
        }
        let dtype = match operation {
            Ok(Operation::And | Operation::Or | Operation::Xor | Operation::Not | Operation::Shl | Operation::Shr) => {
                Dtype::I32
            }
            _ => Dtype::F32,
        };
        let mut inputs = vec![tensor(queue, dtype, &[6, 40]); operator.inputs.1];
        if operator.name.ends_with("-norm") {
            inputs[1..].iter_mut().for_each(|column| *column = tensor(queue, dtype, &[40]));
        }
        if operation == Ok(Operation::Where) {
            inputs[0] = tensor(queue, Dtype::Bool, &[6, 40]);
        }
        let dtype = (operation == Ok(Operation::Cast)).then_some(Dtype::F16);
        Some((operator, inputs, Options { dtype, ..Options::default() }))
    });
    all.collect()
}

#[test]
fn the_second_call_of_an_operator_plans_nothing() {
    let queue = queue();
    let operators = operators(&queue);
    assert_eq!(operators.len(), 6 + Operation::ALL.iter().filter(|operation| operation.inputs() > 0).count());
    for (operator, inputs, options) in &operators {
        check(&queue, operator.name, || drop(operator.run(inputs, options).unwrap()));
        // Of another layout: copied by a launch before, where it has to be.
        let permuted: Vec<_> = inputs.iter().map(|x| x.reverse_axes().unwrap().contiguous().unwrap()).collect();
        let permuted: Vec<_> = permuted.iter().map(|x| x.reverse_axes().unwrap()).collect();
        check(&queue, operator.name, || drop(operator.run(&permuted, options).unwrap()));
    }
}

#[test]
fn the_second_call_in_place_plans_nothing() {
    let queue = queue();
    for (operator, inputs, options) in operators(&queue) {
        let results = operator.run(&inputs, &options).unwrap();
        if results[0].dtype() != inputs[0].dtype() {
            continue;
        }
        let others: Vec<_> = inputs[1..].iter().map(|other| other.copy().unwrap()).collect();
        let copied = inputs[0].copy().unwrap();
        check(&queue, operator.name, || {
            let mut x = copied.copy().unwrap();
            drop(operator.run_in_place(&mut x, &others, &options).unwrap());
            assert_eq!(x.to_bytes().unwrap(), results[0].to_bytes().unwrap(), "{}", operator.name);
        });
    }
}

#[test]
fn operators_of_users_and_other_calls_are_planned_once() {
    let queue = queue();
    let x = tensor(&queue, Dtype::F32, &[6, 40]);
    let source = || Source::one::<f32>(Dtype::F32);
    let map = Map::new("twice", source().map(|x| x + x), Sink::one::<f32>(Dtype::F32));
    check(&queue, "a map", || drop(x.map(&[], &map).unwrap()));
    let sinks = (Sink::one::<f32>(Dtype::F32), Sink::one::<f32>(Dtype::F32));
    let scaled = RowWise::new("scaled", AbsMaxScale::<f32>::new(), (source(), Source::nothing()), sinks);
    for axes in [&[1][..], &[0], &[0, 1]] {
        check(&queue, "a row operator", || drop(x.rowwise(None, &[], &scaled, Axes::Of(axes)).unwrap()));
    }
    let (labels, row) = (tensor(&queue, Dtype::I64, &[6]), tensor(&queue, Dtype::F32, &[40, 3]));
    check(&queue, "cross-entropy", || drop(x.cross_entropy_rows(&labels, None).unwrap()));
    check(&queue, "softmax-v", || drop(x.softmax_v(&row).unwrap()));
    check(&queue, "softmax-v", || {
        drop(x.softmax_v(&row.reverse_axes().unwrap().contiguous().unwrap().reverse_axes().unwrap()).unwrap())
    });
    check(&queue, "full", || drop(Tensor::filled(&queue, Dtype::I16, 7, &[3]).unwrap()));
    let columns = row.slice(1, 0..1).unwrap().reshape(&[40]).unwrap();
    let inputs = NormInputs { scale: Some(&columns), residual: Some(&x), ..NormInputs::default() };
    check(&queue, "a norm with a strided scale", || drop(x.layer_norm(Axes::Of(&[-1]), inputs).unwrap()));
    // A long row: a fold, then a map.
    let long = tensor(&queue, Dtype::F32, &[1, 300_007]);
    check(&queue, "softmax of a long row", || drop(long.softmax(Axes::Of(&[-1])).unwrap()));
}

/// Two maps of equal types are two maps.
#[test]
fn maps_with_other_closures_and_other_constants_have_plans_of_their_own() {
    let queue = queue();
    let x = tensor(&queue, Dtype::F32, &[4]);
    let map = |factor: f32| {
        let source = Source::one::<f32>(Dtype::F32).map(move |x| x * factor);
        Map::new("times", source, Sink::one::<f32>(Dtype::F32))
    };
    let first = x.to_vec::<f32>().unwrap();
    for factor in [2.0, 3.0] {
        let expected: Vec<f32> = first.iter().map(|x| x * factor).collect();
        assert_eq!(x.map(&[], &map(factor)).unwrap()[0].to_vec::<f32>().unwrap(), expected);
        let options = operations::Options { alpha: factor.into(), ..operations::Options::default() };
        assert_eq!(x.elementwise(Operation::Scale, &[], &options).unwrap().to_vec::<f32>().unwrap(), expected);
        let inputs = NormInputs { eps: Some(factor.into()), ..NormInputs::default() };
        let rstd = x.rms_norm(Axes::All, inputs).unwrap().rstd.to_vec::<f32>().unwrap()[0];
        let mean = first.iter().map(|x| x * x).sum::<f32>() / 4.0;
        assert!((rstd - (mean + factor).sqrt().recip()).abs() < 1e-6, "{rstd}");
    }
}

#[test]
fn every_operator_is_captured_in_a_graph() {
    let queue = queue();
    for (operator, inputs, options) in operators(&queue) {
        let expected = operator.run(&inputs, &options).unwrap();
        let captured = queue.stream().capture(|| operator.run(&inputs, &options));
        let (graph, results) = captured.unwrap_or_else(|error| panic!("{}: {error}", operator.name));
        graph.launch().unwrap();
        for (result, expected) in results.iter().zip(&expected) {
            assert_eq!(result.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{}", operator.name);
        }
    }
    let (x, long) = (tensor(&queue, Dtype::F32, &[40, 6]), tensor(&queue, Dtype::F32, &[1, 300_007]));
    for (x, axis) in [(&x, 0), (&long, 1)] {
        let expected = x.softmax(Axes::Of(&[axis])).unwrap().to_bytes().unwrap();
        let (graph, y) = queue.stream().capture(|| x.softmax(Axes::Of(&[axis]))).unwrap();
        graph.launch().unwrap();
        assert_eq!(y.to_bytes().unwrap(), expected, "axis {axis}");
    }
}
