//! Functions of two elements.

use warpfold_kernels::operations::{Operation, Options, map_of};
use warpfold_kernels::{Dtype, ErrorKind};

use crate::operations::bench::{Arrangement, Bench, Tensor};
use crate::operations::bound::Expected;
use crate::operations::value::{Value, elements, range, wrap};

fn operations() -> impl Iterator<Item = Operation> {
    Operation::ALL.iter().copied().filter(|operation| operation.inputs() == 2)
}

fn of_floats(operation: Operation, x: f64, y: f64) -> Option<Expected> {
    use Operation as O;
    let truth = |is: bool| Expected::Exactly(Value::truth(is));
    let or_nan = |z: f64| Expected::Near(if x.is_nan() || y.is_nan() { f64::NAN } else { z }, 0.0);
    Some(match operation {
        O::Add => Expected::Near(x + y, 0.0),
        O::Sub => Expected::Near(x - y, 0.0),
        O::Mul => Expected::Near(x * y, 0.0),
        O::Div => Expected::Near(x / y, 0.0),
        O::Rem => Expected::Near(x % y, 0.0),
        O::Pow => Expected::Near(x.powf(y), 3.0),
        O::Maximum => or_nan(x.max(y)),
        O::Minimum => or_nan(x.min(y)),
        O::Fmax => Expected::Near(x.max(y), 0.0),
        O::Fmin => Expected::Near(x.min(y), 0.0),
        O::Eq => truth(x == y),
        O::Ne => truth(x != y),
        O::Lt => truth(x < y),
        O::Le => truth(x <= y),
        O::Gt => truth(x > y),
        O::Ge => truth(x >= y),
        _ => return None,
    })
}

fn of_integers(operation: Operation, dtype: Dtype, x: i128, y: i128) -> Option<i128> {
    use Operation as O;
    let bits = 8 * dtype.bytes() as i128;
    let power = || {
        let product = |a: i128, b: i128| wrap(dtype, wrap(Dtype::I64, a) * wrap(Dtype::I64, b));
        let (mut result, mut square, mut rest) = (1, x, y);
        while rest > 0 {
            result = if rest & 1 == 1 { product(result, square) } else { result };
            (square, rest) = (product(square, square), rest >> 1);
        }
        result
    };
    if dtype == Dtype::Bool {
        return Some(match operation {
            O::Add | O::Or | O::Maximum | O::Fmax => x | y,
            O::Mul | O::And | O::Minimum | O::Fmin => x & y,
            O::Xor => x ^ y,
            O::Sub | O::Div | O::Rem | O::Pow | O::Shl | O::Shr => return None,
            other => return of_integers(other, Dtype::U8, x, y),
        });
    }
    Some(match operation {
        O::Add => wrap(dtype, x + y),
        O::Sub => wrap(dtype, x - y),
        O::Mul => wrap(dtype, wrap(Dtype::I64, x) * wrap(Dtype::I64, y)),
        O::Div => {
            if y == 0 {
                0
            } else {
                wrap(dtype, x / y)
            }
        }
        O::Rem => {
            if y == 0 {
                0
            } else {
                x % y
            }
        }
        O::Pow if y < 0 => match x {
            1 => 1,
            -1 => {
                if y % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        },
        O::Pow => power(),
        O::Maximum | O::Fmax => x.max(y),
        O::Minimum | O::Fmin => x.min(y),
        O::And => x & y,
        O::Or => x | y,
        O::Xor => x ^ y,
        O::Shl => {
            if (0..bits).contains(&y) {
                wrap(dtype, x << y)
            } else {
                0
            }
        }
        O::Shr => {
            if (0..bits).contains(&y) {
                x >> y
            } else {
                -i128::from(x < 0)
            }
        }
        O::Eq => (x == y).into(),
        O::Ne => (x != y).into(),
        O::Lt => (x < y).into(),
        O::Le => (x <= y).into(),
        O::Gt => (x > y).into(),
        O::Ge => (x >= y).into(),
        _ => return None,
    })
}

/// Pairs of shapes and what they broadcast to.
const SHAPES: [[&[usize]; 3]; 8] = [
    [&[300], &[300], &[300]],
    [&[36, 33], &[36, 33], &[36, 33]],
    [&[36, 32], &[32], &[36, 32]],
    [&[9, 31], &[9, 1], &[9, 31]],
    [&[1], &[257], &[257]],
    [&[], &[1024], &[1024]],
    [&[3, 1, 20], &[5, 1], &[3, 5, 20]],
    [&[0], &[1], &[0]],
];

#[test]
fn functions_of_two_elements_are_right_for_every_type_layout_and_broadcast() {
    let bench = Bench::new();
    let mut turn = 0;
    for operation in operations() {
        for dtype in Dtype::ALL {
            let Ok(map) = map_of(operation, &[dtype; 2], &Options::default()) else {
                use Operation as O;
                let of_integers_only = [O::And, O::Or, O::Xor, O::Shl, O::Shr];
                let is_missing = match dtype {
                    _ if dtype.is_float() => of_integers_only.contains(&operation),
                    _ => of_integers(operation, dtype, 1, 1).is_none(),
                };
                assert!(is_missing, "{operation} of {dtype}");
                continue;
            };
            turn += 1;
            for (i, [a, b, shape]) in [SHAPES[0], SHAPES[1], SHAPES[2 + turn % 6]].into_iter().enumerate() {
                let tensor = |shape: &[usize], seed: usize| {
                    let count = shape.iter().product();
                    Tensor::new(dtype, shape, elements(dtype, count, (turn * 7 + seed) as u64))
                };
                let (x, y) = (tensor(a, i), tensor(b, i + 100));
                let pair = Arrangement::PAIRS[(turn + i * 3) % 7];
                let got = bench.run(&map, &[&x, &y], shape, pair);
                assert_eq!(got.len(), shape.iter().product::<usize>());
                for (i, got) in got.into_iter().enumerate() {
                    let (x, y) = (x.repeated(i, shape), y.repeated(i, shape));
                    let expected = match (x, y) {
                        (Value::Int(x), Value::Int(y)) => {
                            of_integers(operation, dtype, x, y).map(|z| Expected::Exactly(Value::Int(z)))
                        }
                        (x, y) => of_floats(operation, x.float(), y.float()),
                    };
                    let what = || format!("{operation} of {dtype} {x:?} and {y:?} in {shape:?} {pair:?}");
                    expected.unwrap_or_else(|| panic!("{}", what())).check(map.outputs()[0], got, &what);
                }
            }
        }
    }
}

#[test]
fn integers_divide_at_their_limits() {
    let bench = Bench::new();
    for dtype in Dtype::ALL.into_iter().filter(|dtype| dtype.is_integer()) {
        let (low, high) = range(dtype);
        let all: Vec<i128> = [low, low + 1, -1, 0, 1, 2, high - 1, high].map(|i| wrap(dtype, i)).to_vec();
        let column = Tensor::new(dtype, &[8, 1], all.iter().map(|i| Value::Int(*i)).collect());
        let row = Tensor::new(dtype, &[8], column.values.clone());
        for operation in [Operation::Div, Operation::Rem, Operation::Pow, Operation::Shl, Operation::Shr] {
            let map = map_of(operation, &[dtype; 2], &Options::default()).unwrap();
            let got = bench.run(&map, &[&column, &row], &[8, 8], Arrangement::PAIRS[0]);
            for (i, got) in got.into_iter().enumerate() {
                let (x, y) = (all[i / 8], all[i % 8]);
                let expected = Value::Int(of_integers(operation, dtype, x, y).unwrap());
                assert_eq!(got, expected, "{operation} of {dtype} {x} and {y}");
            }
        }
    }
}

#[test]
fn elements_of_two_types_are_refused_with_both_names() {
    for operation in operations() {
        let error = map_of(operation, &[Dtype::F32, Dtype::F64], &Options::default()).unwrap_err();
        let operand = format!("input 1 of {operation}");
        let expected = ErrorKind::DtypeMismatch { operand, found: Dtype::F64, expected: Dtype::F32 };
        assert_eq!(error.kind(), &expected);
    }
    let error = map_of(Operation::Where, &[Dtype::U8, Dtype::F32, Dtype::F32], &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "input 0 of where has elements of type u8, not bool: cast one of them");
    let error = map_of(Operation::Shl, &[Dtype::F16; 2], &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "shl does not take elements of type f16");
}

#[test]
fn a_result_may_have_another_type() {
    let bench = Bench::new();
    let options = Options { dtype: Some(Dtype::I8), ..Options::default() };
    let map = map_of(Operation::Mul, &[Dtype::F32; 2], &options).unwrap();
    let tensor = |x: [f64; 4]| Tensor::new(Dtype::F32, &[4], x.map(Value::Float).to_vec());
    let (x, y) = (tensor([1.5, -20.0, 3.0, f64::NAN]), tensor([1.5, 20.0, -0.3, 1.0]));
    let got = bench.run(&map, &[&x, &y], &[4], Arrangement::PAIRS[0]);
    assert_eq!(got, [2, -128, 0, 0].map(Value::Int));
}
