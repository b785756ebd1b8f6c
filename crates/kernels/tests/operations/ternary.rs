//! Functions of three elements.

use warpfold_kernels::Dtype;
use warpfold_kernels::operations::{Operation, Options, map_of};

use crate::operations::bench::{Arrangement, Bench, Tensor};
use crate::operations::bound::Expected;
use crate::operations::value::{Value, elements, wrap};

const SHAPES: [[&[usize]; 4]; 5] = [
    [&[257], &[257], &[257], &[257]],
    [&[36, 33], &[33], &[36, 1], &[36, 33]],
    [&[64], &[1], &[], &[64]],
    [&[4, 1], &[1, 33], &[33], &[4, 33]],
    [&[2, 3, 5], &[3, 1], &[5], &[2, 3, 5]],
];

fn expected(operation: Operation, dtype: Dtype, [x, y, z]: [Value; 3]) -> Expected {
    match (operation, x, y, z) {
        (Operation::Where, ..) => Expected::Exactly(if x == Value::Int(1) { y } else { z }),
        (Operation::Clamp, Value::Int(x), Value::Int(y), Value::Int(z)) => {
            Expected::Exactly(Value::Int(x.max(y).min(z)))
        }
        (_, Value::Int(x), Value::Int(y), Value::Int(z)) => {
            let product = wrap(Dtype::I64, x) * wrap(Dtype::I64, y);
            Expected::Exactly(Value::Int(wrap(dtype, product + z)))
        }
        (Operation::Clamp, x, y, z) => {
            let (x, y, z) = (x.float(), y.float(), z.float());
            let is_nan = x.is_nan() || y.is_nan() || z.is_nan();
            Expected::Near(if is_nan { f64::NAN } else { x.max(y).min(z) }, 0.0)
        }
        (_, x, y, z) => {
            let (x, y, z) = (x.float(), y.float(), z.float());
            match dtype {
                Dtype::F64 => Expected::Near(x.mul_add(y, z), 0.0),
                _ => Expected::Near(f64::from((x as f32).mul_add(y as f32, z as f32)), 0.0),
            }
        }
    }
}

#[test]
fn functions_of_three_elements_are_right_for_every_type_and_broadcast() {
    let bench = Bench::new();
    for operation in [Operation::Where, Operation::Clamp, Operation::Fma] {
        for (turn, dtype) in Dtype::ALL.into_iter().enumerate() {
            let first = if operation == Operation::Where { Dtype::Bool } else { dtype };
            let Ok(map) = map_of(operation, &[first, dtype, dtype], &Options::default()) else {
                assert_eq!((operation, dtype), (Operation::Fma, Dtype::Bool));
                continue;
            };
            for (i, [a, b, c, shape]) in SHAPES.into_iter().enumerate() {
                let tensor = |dtype: Dtype, shape: &[usize], seed: usize| {
                    let count = shape.iter().product();
                    Tensor::new(dtype, shape, elements(dtype, count, (turn * 31 + seed) as u64))
                };
                let (x, y, z) = (tensor(first, a, i), tensor(dtype, b, i + 40), tensor(dtype, c, i + 80));
                let pair = Arrangement::PAIRS[(turn + i) % 7];
                let got = bench.run(&map, &[&x, &y, &z], shape, pair);
                for (i, got) in got.into_iter().enumerate() {
                    let items = [&x, &y, &z].map(|tensor| tensor.repeated(i, shape));
                    let what = || format!("{operation} of {dtype} {items:?} in {shape:?} {pair:?}");
                    expected(operation, dtype, items).check(dtype, got, &what);
                }
            }
        }
    }
}
