//! What the operations give for NaN, infinities, zeros of either sign, ties and nothing, each as a
//! row, as columns and as many rows.

use warpfold_kernels::layout::Layout;
use warpfold_kernels::reductions::{self, Options, Reduction};
use warpfold_kernels::{Dtype, ErrorKind};

use crate::reductions::bench::{Bench, tiled};
use crate::reductions::host::{Value, values};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
const IGNORING: Options = Options { dtype: None, ignore_nan: true, last: false, ddof: None, k: None };
const LAST: Options = Options { ignore_nan: false, last: true, ..IGNORING };

fn name(reduction: Reduction) -> String {
    reduction.to_string()
}

/// Reduces elements of a type, alone and repeated, and compares the first output.
#[track_caller]
fn check_of(bench: &mut Bench, dtype: Dtype, case: (Reduction, Options), input: &[f64], expected: f64) {
    let elements = values(dtype, input);
    let mut gives = |elements: &[Value], layout: &Layout, axis: usize| {
        let (to, results) = bench.reduce(case, dtype, &[elements], (layout, 0), &[axis]).swap_remove(0);
        let wanted = values(to, &[expected])[0];
        let is_right = |got: &Value| *got == wanted || (expected == 0.0 && got.float() == 0.0);
        assert!(results.iter().all(is_right), "{} of {dtype} {input:?} {layout:?}: {results:?}", name(case.0));
    };
    gives(&elements, &Layout::contiguous(&[input.len()]).unwrap(), 0);
    for across in [true, false] {
        let (all, layout, axis) = tiled(&elements, 35, across);
        gives(&all, &layout, axis);
    }
}

#[track_caller]
fn check(bench: &mut Bench, case: (Reduction, Options), input: &[f64], expected: f64) {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
        check_of(bench, dtype, case, input, expected);
    }
}

/// The two signs of NaN.
const fn nans() -> [f64; 2] {
    [NAN, -NAN]
}

#[test]
fn extremes_are_nan_where_there_is_one_unless_it_is_ignored() {
    let bench = &mut Bench::new();
    let none = Options::default();
    for nan in nans() {
        let input = [1.0, nan, -3.0, 2.0, 5.0, 0.5];
        check(bench, (Reduction::Max, none), &input, NAN);
        check(bench, (Reduction::Min, none), &input, NAN);
        check(bench, (Reduction::Max, IGNORING), &input, 5.0);
        check(bench, (Reduction::Min, IGNORING), &input, -3.0);
        check(bench, (Reduction::Max, IGNORING), &[nan, nan, nan], NAN);
        check(bench, (Reduction::Max, IGNORING), &[nan, -INF], -INF);
        check(bench, (Reduction::AbsMax, none), &input, NAN);
    }
}

#[test]
fn extremes_of_infinities_are_infinities_and_zeros_are_ordered_by_sign() {
    let bench = &mut Bench::new();
    let none = Options::default();
    check(bench, (Reduction::Max, none), &[-INF; 5], -INF);
    check(bench, (Reduction::Min, none), &[INF; 5], INF);
    check(bench, (Reduction::Max, none), &[1.0, INF, -INF], INF);
    check(bench, (Reduction::Min, none), &[1.0, INF, -INF], -INF);
    check(bench, (Reduction::AbsMax, none), &[1.0, -INF], INF);
    check(bench, (Reduction::LInf, none), &[1.0, -7.0, 3.0], 7.0);
    for input in [[-0.0, 0.0], [0.0, -0.0]] {
        let elements = values(Dtype::F32, &input);
        let layout = Layout::contiguous(&[2]).unwrap();
        let mut sign = |reduction| {
            let results = bench.reduce((reduction, none), Dtype::F32, &[&elements], (&layout, 0), &[0]);
            results[0].1[0].float().is_sign_negative()
        };
        assert!(!sign(Reduction::Max) && sign(Reduction::Min), "{input:?}");
    }
}

#[test]
fn the_smallest_and_the_largest_come_together() {
    let bench = &mut Bench::new();
    let layout = Layout::contiguous(&[4]).unwrap();
    for (options, expected) in [(Options::default(), [NAN, NAN]), (IGNORING, [-2.0, 7.0])] {
        let elements = values(Dtype::F32, &[7.0, NAN, -2.0, 0.0]);
        let got = bench.reduce((Reduction::MinMax, options), Dtype::F32, &[&elements], (&layout, 0), &[0]);
        assert_eq!([got[0].1[0], got[1].1[0]], expected.map(Value::Float));
    }
}

#[test]
fn positions_are_the_first_or_the_last_of_equals() {
    let bench = &mut Bench::new();
    let none = Options::default();
    let input = [3.0, -1.0, 7.0, 7.0, -1.0, 7.0, 0.0];
    check(bench, (Reduction::ArgMax, none), &input, 2.0);
    check(bench, (Reduction::ArgMax, LAST), &input, 5.0);
    check(bench, (Reduction::ArgMin, none), &input, 1.0);
    check(bench, (Reduction::ArgMin, LAST), &input, 4.0);
    let zeros = [-0.0, 0.0, -0.0, 0.0];
    check(bench, (Reduction::ArgMax, none), &zeros, 0.0);
    check(bench, (Reduction::ArgMin, LAST), &zeros, 3.0);
    for dtype in [Dtype::I8, Dtype::U8, Dtype::I16, Dtype::U16, Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64] {
        let input = [3.0, 1.0, 7.0, 7.0, 1.0, 7.0, 2.0];
        check_of(bench, dtype, (Reduction::ArgMax, none), &input, 2.0);
        check_of(bench, dtype, (Reduction::ArgMax, LAST), &input, 5.0);
        check_of(bench, dtype, (Reduction::ArgMin, none), &input, 1.0);
        check_of(bench, dtype, (Reduction::ArgMin, LAST), &input, 4.0);
    }
}

/// Threads take 2 to 16 elements at once, of which 8 and more are compared with one another first.
#[test]
fn positions_of_extremes_are_right_wherever_they_stand_in_a_vector() {
    let bench = &mut Bench::new();
    let none = Options::default();
    for dtype in [Dtype::I8, Dtype::F16, Dtype::F32] {
        for at in [0, 1, 3, 7, 8, 15, 16] {
            let mut input = [3.0; 40];
            [input[at], input[at + 20]] = [5.0; 2];
            check_of(bench, dtype, (Reduction::ArgMax, none), &input, at as f64);
            check_of(bench, dtype, (Reduction::ArgMax, LAST), &input, (at + 20) as f64);
        }
    }
}

#[test]
fn positions_of_what_is_farthest_from_the_side_are_right_as_well() {
    let bench = &mut Bench::new();
    let none = Options::default();
    check(bench, (Reduction::ArgMax, none), &[-INF; 9], 0.0);
    check(bench, (Reduction::ArgMax, LAST), &[-INF; 9], 8.0);
    check(bench, (Reduction::ArgMin, none), &[INF; 9], 0.0);
    check(bench, (Reduction::ArgMin, LAST), &[INF; 9], 8.0);
    check(bench, (Reduction::ArgMax, none), &[-INF, -5.0, -INF], 1.0);
    for (dtype, lowest) in [(Dtype::I8, -128.0), (Dtype::I32, f64::from(i32::MIN)), (Dtype::U16, 0.0)] {
        check_of(bench, dtype, (Reduction::ArgMax, none), &[lowest; 40], 0.0);
        check_of(bench, dtype, (Reduction::ArgMax, LAST), &[lowest; 40], 39.0);
    }
    for (dtype, highest) in [(Dtype::U8, 255.0), (Dtype::I32, f64::from(i32::MAX)), (Dtype::U32, f64::from(u32::MAX))] {
        check_of(bench, dtype, (Reduction::ArgMin, none), &[highest; 40], 0.0);
        check_of(bench, dtype, (Reduction::ArgMin, LAST), &[highest; 40], 39.0);
    }
}

#[test]
fn the_position_of_an_extreme_is_that_of_the_first_nan_unless_it_is_ignored() {
    let bench = &mut Bench::new();
    let none = Options::default();
    let ignoring_last = Options { last: true, ..IGNORING };
    for nan in nans() {
        let input = [1.0, nan, 9.0, nan, 9.0, -4.0];
        check(bench, (Reduction::ArgMax, none), &input, 1.0);
        check(bench, (Reduction::ArgMin, none), &input, 1.0);
        check(bench, (Reduction::ArgMax, LAST), &input, 3.0);
        check(bench, (Reduction::ArgMax, IGNORING), &input, 2.0);
        check(bench, (Reduction::ArgMax, ignoring_last), &input, 4.0);
        check(bench, (Reduction::ArgMin, IGNORING), &input, 5.0);
        check(bench, (Reduction::ArgMax, IGNORING), &[nan, -INF, nan], 1.0);
        check(bench, (Reduction::ArgMax, IGNORING), &[nan; 3], 0.0);
        check(bench, (Reduction::ArgMin, ignoring_last), &[nan; 3], 2.0);
    }
}

#[test]
fn truths_count_nan_as_true_and_both_zeros_as_false() {
    let bench = &mut Bench::new();
    let none = Options::default();
    for (input, any, all, count) in [
        (&[0.0, -0.0, 0.0][..], 0.0, 0.0, 0.0),
        (&[0.0, NAN], 1.0, 0.0, 1.0),
        (&[NAN, -INF, 1.0], 1.0, 1.0, 3.0),
        (&[0.0, -2.0, 0.0, 3.0], 1.0, 0.0, 2.0),
    ] {
        check(bench, (Reduction::Any, none), input, any);
        check(bench, (Reduction::All, none), input, all);
        check(bench, (Reduction::CountNonzero, none), input, count);
    }
    for dtype in [Dtype::Bool, Dtype::I8, Dtype::U16, Dtype::I32, Dtype::U64, Dtype::I64] {
        check_of(bench, dtype, (Reduction::Any, none), &[0.0, 0.0, 1.0], 1.0);
        check_of(bench, dtype, (Reduction::All, none), &[1.0, 0.0, 1.0], 0.0);
        check_of(bench, dtype, (Reduction::All, none), &[1.0; 33], 1.0);
        check_of(bench, dtype, (Reduction::CountNonzero, none), &[1.0; 33], 33.0);
    }
    // Only the upper or the lower half of 64 bits.
    for high in [(1_u64 << 40) as f64, 5.0] {
        check_of(bench, Dtype::I64, (Reduction::Any, none), &[0.0, high], 1.0);
        check_of(bench, Dtype::U64, (Reduction::All, none), &[high, high], 1.0);
    }
    check_of(bench, Dtype::F64, (Reduction::Any, none), &[f64::from_bits(1), 0.0], 1.0);
}

#[test]
fn sums_follow_the_rules_of_infinities() {
    let bench = &mut Bench::new();
    let none = Options::default();
    for reduction in [Reduction::Sum, Reduction::Mean, Reduction::ReproducibleSum] {
        check(bench, (reduction, none), &[1.0, INF, 2.0], INF);
        check(bench, (reduction, none), &[1.0, -INF, 2.0], -INF);
        check(bench, (reduction, none), &[1.0, -INF, INF], NAN);
        check(bench, (reduction, none), &[1.0, NAN, INF], NAN);
    }
    check(bench, (Reduction::Product, none), &[0.0, INF], NAN);
    check(bench, (Reduction::Product, none), &[-2.0, INF], -INF);
    check(bench, (Reduction::L1, none), &[1.0, -INF], INF);
    check(bench, (Reduction::L2, none), &[1.0, -INF], INF);
    check(bench, (Reduction::MeanVariance, none), &[1.0, INF, 7.0, 2.0, 5.0], INF);
    check(bench, (Reduction::Variance, none), &[1.0, INF], NAN);
    check(bench, (Reduction::Variance, none), &[INF], NAN);
    check(bench, (Reduction::Variance, none), &[1.0, NAN], NAN);
}

#[test]
fn log_sum_exp_has_no_nan_but_from_nan() {
    let bench = &mut Bench::new();
    let case = (Reduction::LogSumExp, Options::default());
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
        check_of(bench, dtype, case, &[-INF; 7], -INF);
        check_of(bench, dtype, case, &[-INF, 3.0, -INF], 3.0);
        check_of(bench, dtype, case, &[INF, 3.0, -INF, 2.0, 1.0], INF);
        check_of(bench, dtype, case, &[INF, INF], INF);
        check_of(bench, dtype, case, &[NAN, INF, 1.0], NAN);
        check_of(bench, dtype, case, &[1.0, -NAN], NAN);
        check_of(bench, dtype, case, &[16384.0], 16384.0);
    }
}

#[test]
fn logarithms_of_sums_follow_the_logarithm() {
    let bench = &mut Bench::new();
    let case = (Reduction::LogSum, Options::default());
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16] {
        check_of(bench, dtype, case, &[0.5, 0.25, 0.25], 0.0);
        check_of(bench, dtype, case, &[1.0, -1.0], -INF);
        check_of(bench, dtype, case, &[1.0, -2.0], NAN);
        check_of(bench, dtype, case, &[1.0, INF], INF);
    }
}

#[test]
fn variances_divide_by_the_count_less_ddof() {
    let bench = &mut Bench::new();
    let with = |ddof| Options { ddof: Some(ddof), ..Options::default() };
    let input = [1.0, 2.0, 3.0, 4.0];
    check(bench, (Reduction::Variance, Options::default()), &input, 1.25);
    check(bench, (Reduction::Variance, with(2)), &input, 2.5);
    check(bench, (Reduction::StandardDeviation, with(4)), &input, INF);
    check(bench, (Reduction::StandardDeviation, with(0)), &[1.0, 3.0], 1.0);
    check(bench, (Reduction::Variance, with(9)), &input, INF);
    check(bench, (Reduction::Variance, with(1)), &[2.0], NAN);
    check(bench, (Reduction::Variance, with(0)), &[2.0], 0.0);
    // From the tests of PyTorch.
    check_of(bench, Dtype::F32, (Reduction::Variance, with(1)), &[2281.5, 2281.25], 0.03125);
}

#[test]
fn nothing_has_the_results_that_numpy_gives_it() {
    let bench = &mut Bench::new();
    let layout = Layout::contiguous(&[3, 0]).unwrap();
    for (reduction, expected) in [
        (Reduction::Sum, 0.0),
        (Reduction::Product, 1.0),
        (Reduction::Mean, NAN),
        (Reduction::Any, 0.0),
        (Reduction::All, 1.0),
        (Reduction::CountNonzero, 0.0),
        (Reduction::L1, 0.0),
        (Reduction::L2, 0.0),
        (Reduction::LInf, 0.0),
        (Reduction::AbsMax, 0.0),
        (Reduction::SumSquares, 0.0),
        (Reduction::LogSum, -INF),
        (Reduction::LogSumExp, -INF),
        (Reduction::Variance, NAN),
        (Reduction::StandardDeviation, NAN),
        (Reduction::MeanVariance, NAN),
        (Reduction::ReproducibleSum, 0.0),
    ] {
        let got = bench.reduce((reduction, Options::default()), Dtype::F32, &[&[]], (&layout, 0), &[1]);
        for (to, results) in got {
            assert_eq!(results, vec![values(to, &[expected])[0]; 3], "{reduction}");
        }
        assert!(reduction.check_len(Options::default(), 0).is_ok());
    }
    for reduction in [Reduction::Min, Reduction::Max, Reduction::MinMax, Reduction::ArgMin, Reduction::ArgMax] {
        let error = reduction.check_len(Options::default(), 0).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Empty(name(reduction)));
        assert!(reduction.check_len(Options::default(), 1).is_ok());
    }
}

#[test]
fn lists_put_nan_first_and_equals_in_their_order() {
    let bench = &mut Bench::new();
    let input = [1.0, NAN, 7.0, -0.0, 7.0, -INF, 0.0, INF, -NAN, 7.0];
    let order = [1.0, 8.0, 7.0, 2.0, 4.0, 9.0, 0.0, 3.0, 6.0, 5.0];
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
        for k in [1, 3, 4, 7, 10] {
            let case = (Reduction::TopK, Options { k: Some(k), ..Options::default() });
            for across in [true, false] {
                let (all, layout, axis) = tiled(&values(dtype, &input), 35, across);
                let got = bench.reduce(case, dtype, &[&all], (&layout, 0), &[axis]);
                let positions = values(Dtype::I64, &order[..k]);
                assert_eq!(got[1].1, positions.repeat(35), "{dtype} {k}");
                let elements: Vec<_> = order[..k].iter().map(|i| input[*i as usize] + 0.0).collect();
                assert_eq!(got[0], (dtype, values(dtype, &elements).repeat(35)), "{dtype} {k}");
            }
        }
    }
}

#[test]
fn an_option_that_a_reduction_does_not_take_is_an_error() {
    let none = Options::default();
    let refused = |reduction, options, option| {
        let error = reductions::fold_of(reduction, &[Dtype::F32], options).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::OptionNotTaken { op: name(reduction), option });
    };
    refused(Reduction::Sum, IGNORING, "ignore-nan");
    refused(Reduction::Max, LAST, "last");
    refused(Reduction::Mean, Options { ddof: Some(0), ..none }, "ddof");
    refused(Reduction::ArgMax, Options { dtype: Some(Dtype::I32), ..none }, "dtype");
    refused(Reduction::Max, Options { k: Some(2), ..none }, "k");
    for k in [None, Some(0), Some(17)] {
        let error = reductions::fold_of(Reduction::TopK, &[Dtype::F32], Options { k, ..none }).unwrap_err();
        assert_eq!(error.to_string(), "topk needs an option 'k' from 1 to 16");
    }
    for k in [1, Options::MAX_K] {
        reductions::fold_of(Reduction::TopK, &[Dtype::F32], Options { k: Some(k), ..none }).unwrap();
    }
    let two = Options { k: Some(2), ..none };
    assert!(Reduction::TopK.check_len(two, 2).is_ok());
    let error = Reduction::TopK.check_len(two, 1).unwrap_err();
    assert_eq!(error.to_string(), "topk needs an option 'k' from 1 to 1");
}

#[test]
fn inputs_of_another_number_or_type_are_refused() {
    let kind = |reduction, dtypes: &[Dtype]| {
        reductions::fold_of(reduction, dtypes, Options::default()).unwrap_err().kind().clone()
    };
    let expected = ErrorKind::NumInputs { op: "dot".to_owned(), least: 2, most: 2, found: 1 };
    assert_eq!(kind(Reduction::Dot, &[Dtype::F32]), expected);
    let operand = "input 1 of dot".to_owned();
    let expected = ErrorKind::DtypeMismatch { operand, found: Dtype::F16, expected: Dtype::F32 };
    assert_eq!(kind(Reduction::Dot, &[Dtype::F32, Dtype::F16]), expected);
    let expected = ErrorKind::Unsupported { op: "reproducible-sum".to_owned(), dtype: Dtype::I32 };
    assert_eq!(kind(Reduction::ReproducibleSum, &[Dtype::I32]), expected);
}
