//! The reproducible sum has the bits that its definition gives it, whatever its plan, its
//! alignment, the order of the elements, the size of blocks and the device are.

use warpfold_device::{LaunchConfig, Profile};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Algorithm, Binned, Choice, Fold, ReproducibleSum, Rows};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{KernelCache, Planner, TensorSpec};
use warpfold_kernels::{Dtype, Workspace};

use crate::reductions::bench::{Bench, tiled};
use crate::reductions::host::{Value, encode, scattered, uniform};

/// A float on the host, and what its sum is by definition.
trait Float: Binned {
    /// Of sums whose unit is not below the smallest number.
    fn defined_sum(numbers: &[f64]) -> f64;
}

/// The sum of the numbers, each rounded to a multiple of 2^(width · (top - 4)), in such multiples;
/// and the unit.
fn multiples(numbers: &[f64], width: i32) -> (i128, i32) {
    let largest = numbers.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let top = (-40..60).find(|top| largest < f64::exp2(f64::from(width * top))).unwrap();
    let unit = width * (top - 4);
    // Scaling by a power of two is exact here, and so is rounding to even.
    let multiple = |x: &f64| (*x * f64::exp2(f64::from(-unit))).round_ties_even() as i128;
    (numbers.iter().map(multiple).sum(), unit)
}

impl Float for f32 {
    fn defined_sum(numbers: &[f64]) -> f64 {
        let (sum, unit) = multiples(numbers, 22);
        // An integer is rounded once on its way to a float, and a power of two does not round.
        f64::from(sum as f32) * f64::exp2(f64::from(unit))
    }
}

impl Float for f64 {
    fn defined_sum(numbers: &[f64]) -> f64 {
        let (sum, unit) = multiples(numbers, 28);
        sum as f64 * f64::exp2(f64::from(unit))
    }
}

fn fold<C: Binned>(dtype: Dtype) -> Fold {
    Fold::new("reproducible", ReproducibleSum::<C>::new(), Source::one::<C>(dtype), Sink::one::<C>(C::DTYPE))
}

/// Numbers that no order of plain additions sums alike.
fn numbers(n: usize, spread: f64, single: bool) -> Vec<f64> {
    let number = |i: usize| uniform(i) * f64::exp2(spread * uniform(n + i));
    (0..n).map(|i| if single { f64::from(number(i) as f32) } else { number(i) }).collect()
}

fn of(numbers: &[f64]) -> Vec<Value> {
    numbers.iter().map(|x| Value::Float(*x)).collect()
}

fn ordered<T: Copy>(values: &[T], key: impl Fn(usize) -> u64) -> Vec<T> {
    let mut order: Vec<_> = (0..values.len()).collect();
    order.sort_by_key(|i| key(*i));
    order.into_iter().map(|i| values[i]).collect()
}

/// Every way to lay out and to walk the same numbers; all results must be the expected one.
fn check_everywhere<C: Float>(bench: &mut Bench, numbers: &[f64]) {
    let expected = C::defined_sum(numbers);
    let fold = fold::<C>(C::DTYPE);
    let n = numbers.len();
    let all = of(numbers);
    let mut check = |elements: &[Value], layout: &Layout, first: usize, axes: &[usize]| {
        let (choice, got) = bench.fold(&fold, &[C::DTYPE], &[elements], (layout, first), axes);
        let is_right = |value: &Value| *value == Value::Float(expected);
        assert!(got[0].1.iter().all(is_right), "{:?}, not {expected:?}, by {choice:?}", got[0].1);
    };
    let row = Layout::contiguous(&[n]).unwrap();
    check(&all, &row, 0, &[0]);
    check(&ordered(&all, scattered), &row, 0, &[0]);
    check(&ordered(&all, |i| numbers[i].abs().to_bits()), &row, 0, &[0]);
    check(&ordered(&all, |i| !numbers[i].abs().to_bits()), &row, 0, &[0]);
    for first in 1..4 {
        let shifted: Vec<_> = std::iter::repeat_n(Value::Float(f64::NAN), first).chain(all.iter().copied()).collect();
        check(&shifted, &row, first, &[0]);
    }
    check(&all, &Layout::new(vec![n], vec![-1]).unwrap(), n - 1, &[0]);
    for copies in [33, 40, 300] {
        for across in [true, false] {
            let (elements, layout, axis) = tiled(&all, copies, across);
            check(&elements, &layout, 0, &[axis]);
        }
    }
    let spaced: Vec<_> = all.iter().flat_map(|value| [*value, Value::Float(f64::INFINITY)]).collect();
    check(&spaced, &Layout::new(vec![n], vec![2]).unwrap(), 0, &[0]);
    if n.is_multiple_of(8) {
        check(&all, &Layout::new(vec![8, n / 8], vec![1, 8]).unwrap(), 0, &[0, 1]);
        check(&all, &Layout::contiguous(&[2, n / 8, 4]).unwrap(), 0, &[0, 1, 2]);
    }
}

#[test]
fn sums_of_single_precision_are_what_they_are_defined_to_be_everywhere() {
    for profile in [Profile::H200, Profile::A100] {
        let bench = &mut Bench::of(profile);
        for (n, spread) in [(1, 1.0), (7, 30.0), (1000, 10.0), (1000, 60.0), (3000, 1.0)] {
            check_everywhere::<f32>(bench, &numbers(n, spread, true));
        }
    }
}

#[test]
fn sums_of_double_precision_are_what_they_are_defined_to_be_everywhere() {
    for profile in [Profile::H200, Profile::A100] {
        let bench = &mut Bench::of(profile);
        for (n, spread) in [(1, 1.0), (7, 30.0), (1000, 10.0), (1000, 200.0), (3000, 1.0)] {
            check_everywhere::<f64>(bench, &numbers(n, spread, false));
        }
    }
}

#[test]
fn numbers_of_every_exponent_sum_alike() {
    let bench = &mut Bench::new();
    // A number for each power of two from the largest down, twice of one sign and once of the
    // other.
    let single: Vec<_> = (-126..127).flat_map(|e| [1.0, -1.5, 1.0].map(|x| x * f64::exp2(f64::from(e)))).collect();
    check_everywhere::<f32>(bench, &single);
    // What overflows a sum of two, and comes back.
    check_everywhere::<f32>(bench, &[f32::MAX, f32::MAX, -f32::MAX, 1e30, -f32::MAX].map(f64::from));
}

#[test]
fn subnormal_numbers_are_summed_exactly() {
    let bench = &mut Bench::new();
    let row = Layout::contiguous(&[1000]).unwrap();
    let integers: Vec<_> = (0..1000).map(|i| (scattered(i) % 2_000_001) as i64 - 1_000_000).collect();
    let total = integers.iter().sum::<i64>() as f64;
    for (unit, dtype) in [(f64::exp2(-149.0), Dtype::F32), (f64::from_bits(1), Dtype::F64)] {
        let elements: Vec<_> = integers.iter().map(|i| Value::Float(*i as f64 * unit)).collect();
        let got = match dtype {
            Dtype::F32 => bench.fold(&fold::<f32>(dtype), &[dtype], &[&elements], (&row, 0), &[0]).1,
            _ => bench.fold(&fold::<f64>(dtype), &[dtype], &[&elements], (&row, 0), &[0]).1,
        };
        assert_eq!(got[0].1, [Value::Float(total * unit)], "{dtype}");
    }
}

#[test]
fn halves_are_summed_exactly() {
    let bench = &mut Bench::new();
    let elements: Vec<_> = (0..5000).map(|i| Value::Float(half::f16::from_f64(uniform(i) * 60000.0).into())).collect();
    let exact: f64 = elements.iter().map(|value| value.float()).sum();
    let layout = Layout::contiguous(&[5000]).unwrap();
    let (_, got) = bench.fold(&fold::<f32>(Dtype::F16), &[Dtype::F16], &[&elements], (&layout, 0), &[0]);
    assert_eq!(got[0].1, [Value::Float(f64::from(exact as f32))]);
}

/// The choice with rows folded by so many threads with so many loads in flight.
fn with_block(mut choice: Choice, block: u32, unroll: u32) -> Choice {
    let Algorithm::Rows(rows) = choice.algorithm else { panic!("rows are folded by rows: {choice:?}") };
    choice.algorithm = Algorithm::Rows(Rows { block, lanes: block, unroll, ..rows });
    choice.launch = choice.launch.map(|launch| LaunchConfig::new(launch.grid, block));
    choice
}

#[test]
fn blocks_of_every_size_give_the_same_sum() {
    let bench = Bench::new();
    let stream = bench.device.default_stream();
    let numbers = numbers(5000, 30.0, true);
    let rows = 600;
    let elements: Vec<_> = of(&numbers).repeat(rows);
    let input = bench.device.upload(&encode(Dtype::F32, &elements)).unwrap();
    let fold = fold::<f32>(Dtype::F32);
    let layout = Layout::contiguous(&[rows, numbers.len()]).unwrap();
    let problem = fold.problem(vec![TensorSpec::new(Dtype::F32, layout, input.address())], &[1]);
    let choice = fold.choose(&problem).unwrap();
    let (target, kernels) = (bench.device.target(), KernelCache::default());
    let planner = Planner::new(&target, bench.device.limits(), &kernels);
    for (block, unroll) in [(256, 4), (64, 1), (128, 2), (512, 4), (1024, 1)] {
        let plan = fold.plan_with(&problem, &with_block(choice.clone(), block, unroll), &planner);
        let (mut output, ready) = (bench.device.alloc::<f32>(rows).unwrap(), plan.ready(&bench.device).unwrap());
        let written = &mut [output.as_view_mut().bytes()];
        ready.launch(&stream, &[Some(input.as_view())], written, &mut Workspace::new()).unwrap();
        let expected = f32::defined_sum(&numbers) as f32;
        assert!(output.download().unwrap().iter().all(|sum| sum.to_bits() == expected.to_bits()), "{}", ready.plan());
    }
}
