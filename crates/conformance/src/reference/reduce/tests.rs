//! Sums and statistics against values that are known.

use super::super::array::Array;
use super::super::call::Options;
use super::*;

#[track_caller]
fn gives(op: &str, x: &Array, options: &Options, expected_values: &[f64]) {
    let outputs = expected(&Call { op, inputs: &[x], options }).expect("a result");
    let output = outputs.last().expect("an output");
    let dtype = output.dtypes[0];
    let value = |&v: &f64| if dtype.is_float() { Value::Float(v) } else { Value::Int(v as i128) };
    assert_eq!(output.check(&Array::new(dtype, &output.shape, expected_values.iter().map(value))), Ok(()), "{op}");
    let off = expected_values.iter().map(|v| value(&(v * 1.01 + 1.0)));
    let is_finite = expected_values.iter().all(|v| v.is_finite());
    assert!(!is_finite || output.check(&Array::new(dtype, &output.shape, off)).is_err(), "{op} takes everything");
}

fn f32s(values: &[f64]) -> Array {
    Array::floats(Dtype::F32, &[values.len()], values)
}

#[test]
fn results_are_those_of_numpy() {
    let plain = Options::default();
    let x = f32s(&[1.0, -2.0, 3.0, 4.0]);
    gives("sum", &x, &plain, &[6.0]);
    gives("prod", &x, &plain, &[-24.0]);
    gives("mean", &x, &plain, &[1.5]);
    gives("l1", &x, &plain, &[10.0]);
    gives("l2", &x, &plain, &[30f64.sqrt()]);
    gives("sum-squares", &x, &plain, &[30.0]);
    gives("log-sum", &x, &plain, &[6f64.ln()]);
    gives("log-sum-exp", &x, &plain, &[4.350_759_0]);
    gives("var", &x, &plain, &[5.25]);
    gives("std", &x, &plain, &[5.25f64.sqrt()]);
    gives("mean-var", &x, &plain, &[5.25]);
    gives("var", &f32s(&[2281.5, 2281.25]), &plain, &[0.015_625]);
    gives("var", &f32s(&[2281.5, 2281.25]), &Options { ddof: 1, ..plain.clone() }, &[0.031_25]);
    gives("std", &f32s(&[1.0]), &Options { ddof: 1, ..plain }, &[f64::NAN]);
}

#[test]
fn nothing_has_the_identity_or_no_number() {
    let (plain, none) = (Options::default(), f32s(&[]));
    gives("sum", &none, &plain, &[0.0]);
    gives("prod", &none, &plain, &[1.0]);
    gives("mean", &none, &plain, &[f64::NAN]);
    gives("var", &none, &plain, &[f64::NAN]);
    gives("log-sum", &none, &plain, &[f64::NEG_INFINITY]);
    gives("log-sum-exp", &none, &plain, &[f64::NEG_INFINITY]);
    gives("l2", &none, &plain, &[0.0]);
}

#[test]
fn special_values_go_through() {
    let (plain, inf, nan) = (Options::default(), f64::INFINITY, f64::NAN);
    gives("sum", &f32s(&[1.0, inf]), &plain, &[inf]);
    gives("sum", &f32s(&[inf, -inf]), &plain, &[nan]);
    gives("sum", &f32s(&[3e38, 3e38]), &plain, &[inf]);
    gives("prod", &f32s(&[0.0, inf]), &plain, &[nan]);
    gives("log-sum-exp", &f32s(&[-inf, -inf]), &plain, &[-inf]);
    gives("log-sum-exp", &f32s(&[1.0, inf]), &plain, &[inf]);
    gives("l2", &f32s(&[1.0, -inf]), &plain, &[inf]);
    gives("var", &f32s(&[1.0, inf]), &plain, &[nan]);
}

#[test]
fn integers_have_64_bits_unless_another_type_is_asked_for() {
    let bytes = Array::ints(Dtype::I8, &[3], &[100, 100, 100]);
    gives("sum", &bytes, &Options::default(), &[300.0]);
    gives("sum", &bytes, &Options { dtype: Some(Dtype::I8), ..Options::default() }, &[44.0]);
    gives("sum", &bytes, &Options { dtype: Some(Dtype::I32), ..Options::default() }, &[300.0]);
    gives("prod", &bytes, &Options::default(), &[1e6]);
    gives("mean", &bytes, &Options::default(), &[100.0]);
    gives("sum", &Array::ints(Dtype::Bool, &[3], &[1, 0, 1]), &Options::default(), &[2.0]);
    gives("sum-squares", &Array::ints(Dtype::U64, &[2], &[1 << 40, 3]), &Options::default(), &[9.0]);
}

#[test]
fn axes_are_those_of_numpy() {
    let x = Array::ints(Dtype::I32, &[2, 3], &[1, 2, 3, 4, 5, 6]);
    let along = |axes: &[i64]| Options { axes: Some(axes.to_vec()), ..Options::default() };
    gives("sum", &x, &along(&[0]), &[5.0, 7.0, 9.0]);
    gives("sum", &x, &along(&[-1]), &[6.0, 15.0]);
    gives("sum", &x, &along(&[]), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let kept = expected(&Call { op: "sum", inputs: &[&x], options: &Options { keepdims: true, ..along(&[0]) } });
    assert_eq!(kept.expect("a result")[0].shape, [1, 3]);
}

#[test]
fn an_adversarial_sum_is_only_as_good_as_its_magnitudes() {
    let outputs = expected(&Call { op: "sum", inputs: &[&f32s(&[1e20, 1.0, -1e20])], options: &Options::default() });
    let output = &outputs.expect("a result")[0];
    assert_eq!(output.check(&Array::floats(Dtype::F32, &[], &[0.0])), Ok(()));
    assert!(output.check(&Array::floats(Dtype::F32, &[], &[1e15])).is_err());
}

#[test]
fn a_dot_is_a_sum_of_products() {
    let (x, y) = (f32s(&[1.0, 2.0, 3.0]), f32s(&[4.0, -5.0, 6.0]));
    let outputs = expected(&Call { op: "dot", inputs: &[&x, &y], options: &Options::default() }).expect("a result");
    assert_eq!(outputs[0].check(&Array::floats(Dtype::F32, &[], &[12.0])), Ok(()));
}
