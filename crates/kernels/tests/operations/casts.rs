//! Casts of every type to every type, exact.

use warpfold_kernels::Dtype;
use warpfold_kernels::operations::{Operation, Options, map_of};

use crate::operations::bench::{Arrangement, Bench, Tensor};
use crate::operations::value::{Value, elements, range, round, wrap};

/// As Rust's `as`, but for 8-bit floats, which saturate.
fn expected(to: Dtype, value: Value) -> Value {
    match value {
        Value::Int(i) if to == Dtype::Bool => Value::truth(i != 0),
        Value::Float(x) if to == Dtype::Bool => Value::truth(x != 0.0),
        Value::Int(i) if !to.is_float() => Value::Int(wrap(to, i)),
        Value::Int(i) => Value::Float(of_integer(to, i)),
        Value::Float(x) if to.is_float() => Value::Float(round(to, x)),
        Value::Float(x) => {
            let (low, high) = range(to);
            let cut = if x.is_nan() { 0 } else { x.trunc().clamp(-1e30, 1e30) as i128 };
            Value::Int(cut.clamp(low, high))
        }
    }
}

/// The nearest float to an integer: an `f64` that is not exact must not decide a tie of a narrower
/// type.
fn of_integer(to: Dtype, i: i128) -> f64 {
    if to == Dtype::F64 {
        return i as f64;
    }
    let near = i as f64;
    let rest = i - near as i128;
    let nudged = if rest > 0 { near.next_up() } else { near.next_down() };
    round(to, if rest == 0 { near } else { nudged })
}

/// Halfway between numbers of narrower types, and a little beside.
fn ties(from: Dtype) -> Vec<Value> {
    let mut all = Vec::new();
    if from.is_float() {
        for halfway in [1.0625, 1.1875, 1.125, 1.375, 1.0 + 2.0_f64.powi(-8), 1.0 + 3.0 * 2.0_f64.powi(-8)] {
            for scale in [1.0, 2.0_f64.powi(-7), 2.0_f64.powi(-15), 3.0 * 2.0_f64.powi(-10)] {
                for nudge in [0.0, 2.0_f64.powi(-20), -2.0_f64.powi(-20), 2.0_f64.powi(-40), -2.0_f64.powi(-40)] {
                    all.extend([halfway * scale * (1.0 + nudge), -halfway * scale * (1.0 + nudge)]);
                }
            }
        }
        all.extend([464.0, 465.0, 480.0, 61440.0, 61439.0, 65519.0, 65520.0, 1e5, 1e9, 3e9, 5e9, 1e19, 2e19, -1e19]);
        all.extend([127.5, 128.0, -128.5, -129.0, 255.9, 256.0, -0.9, 2_147_483_647.5, 3.4e38, 3.402_823_5e38]);
        return all.into_iter().map(|x| Value::Float(round(from, x))).collect();
    }
    let (low, high) = range(from);
    let numbers =
        (0..64).flat_map(|bit| [(1_i128 << bit) - 1, 1 << bit, (1 << bit) + 1, (3 << bit) + (1 << (bit / 2)) + 1]);
    numbers.flat_map(|i| [i, -i]).filter(|i| (low..=high).contains(i)).map(Value::Int).collect()
}

#[test]
fn every_type_is_cast_to_every_type_exactly() {
    let bench = Bench::new();
    for (turn, from) in Dtype::ALL.into_iter().enumerate() {
        let mut values = elements(from, 200, turn as u64);
        values.extend(ties(from));
        let count = (values.len() - 1) / 4 * 4 + 1;
        values.truncate(count);
        let flat = Tensor::new(from, &[count], values.clone());
        let matrix = Tensor::new(from, &[20, 10], values[..200].to_vec());
        for (i, to) in Dtype::ALL.into_iter().enumerate() {
            let map = map_of(Operation::Cast, &[from], &Options { dtype: Some(to), ..Options::default() }).unwrap();
            let pair = Arrangement::PAIRS[(turn + i) % 7];
            for (input, pair) in [(&flat, Arrangement::PAIRS[0]), (&flat, Arrangement::PAIRS[2]), (&matrix, pair)] {
                let got = bench.run(&map, &[input], &input.shape, pair);
                for (x, got) in input.values.iter().zip(got) {
                    let wanted = expected(to, *x);
                    assert!(got.is(wanted), "{from} {x:?} to {to}: {got:?}, expected {wanted:?}");
                }
            }
        }
    }
}

#[test]
fn every_eight_bit_float_keeps_its_value_in_wider_types_and_back() {
    let bench = Bench::new();
    for from in [Dtype::F8E4M3, Dtype::F8E5M2] {
        let all: Vec<Value> = (0..=255).map(|bits| crate::operations::value::decode(from, &[bits])).collect();
        let input = Tensor::new(from, &[256], all);
        for wide in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
            let cast = |from, to| map_of(Operation::Cast, &[from], &Options { dtype: Some(to), ..Options::default() });
            let there = bench.run(&cast(from, wide).unwrap(), &[&input], &[256], Arrangement::PAIRS[0]);
            for (x, y) in input.values.iter().zip(&there) {
                assert!(x.is(*y), "{from} to {wide}: {x:?} became {y:?}");
            }
            let there = Tensor::new(wide, &[256], there);
            let back = bench.run(&cast(wide, from).unwrap(), &[&there], &[256], Arrangement::PAIRS[0]);
            for (x, y) in input.values.iter().zip(back) {
                let saturated = Value::Float(round(from, x.float()));
                assert!(saturated.is(y), "{wide} to {from}: {x:?} became {y:?}");
            }
        }
    }
}
