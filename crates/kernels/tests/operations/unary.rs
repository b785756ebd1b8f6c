//! Functions of one element.

use warpfold_kernels::operations::{Number, Operation, Options, map_of};
use warpfold_kernels::{Dtype, ErrorKind};

use crate::operations::bench::{Arrangement, Bench, Tensor};
use crate::operations::bound::Expected;
use crate::operations::special::erf;
use crate::operations::value::{Value, elements, round, wrap};

/// The functions of one element, but for those that options choose.
fn operations() -> impl Iterator<Item = Operation> {
    let chosen = [Operation::Scale, Operation::Cast];
    Operation::ALL.iter().copied().filter(move |operation| operation.inputs() == 1 && !chosen.contains(operation))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn gelu_tanh(x: f64) -> f64 {
    let share = 1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh();
    if share == 0.0 { 0.0 } else { 0.5 * x * share }
}

/// The function in `f64`, and how many units it may be off; none for what is exact.
fn of_float(operation: Operation, dtype: Dtype, x: f64) -> Option<Expected> {
    use Operation as O;
    // The host's own error function is off by about 1e-15.
    let of_host = if dtype == Dtype::F64 { 10.0 } else { 0.0 };
    let exactly = |y: f64| Expected::Exactly(Value::Float(y));
    let truth = |is: bool| Expected::Exactly(Value::truth(is));
    Some(match operation {
        O::Abs => exactly(x.abs()),
        O::Neg => exactly(-x),
        O::Sqrt => Expected::Near(x.sqrt(), 0.0),
        O::Recip => Expected::Near(1.0 / x, 0.0),
        O::Relu => Expected::Near(if x.is_nan() { x } else { x.max(0.0) }, 0.0),
        O::Floor => exactly(x.floor()),
        O::Ceil => exactly(x.ceil()),
        O::Round => exactly(x.round_ties_even()),
        O::Trunc => exactly(x.trunc()),
        O::Sign => exactly(if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        O::Square => Expected::Near(x * x, 0.0),
        O::Copy => exactly(x),
        O::IsNan => truth(x.is_nan()),
        O::IsInf => truth(x.is_infinite()),
        O::IsFinite => truth(x.is_finite()),
        O::Exp => Expected::Near(x.exp(), 6.0),
        O::Exp2 => Expected::Near(x.exp2(), 3.0),
        O::Expm1 => Expected::Near(x.exp_m1(), 3.0),
        O::Log => Expected::Near(x.ln(), 2.0),
        O::Log2 => Expected::Near(x.log2(), 2.0),
        O::Log10 => Expected::Near(x.log10(), 2.0),
        O::Log1p => Expected::Near(x.ln_1p(), 3.0),
        O::Rsqrt => Expected::Near(1.0 / x.sqrt(), 3.0),
        O::Tanh => Expected::Near(x.tanh(), 5.0),
        O::Sigmoid if x < -86.0 => return None,
        O::Sigmoid => Expected::Near(sigmoid(x), 9.0),
        O::Silu if x < -86.0 => return None,
        O::Silu => Expected::Near(x * sigmoid(x), 10.0),
        O::Erf => Expected::Near(erf(x), 4.0 + of_host),
        O::Sin => Expected::Near(x.sin(), 3.0),
        O::Cos => Expected::Near(x.cos(), 3.0),
        O::Tan => Expected::Near(x.tan(), 4.0),
        // 1 + erf cancels for negative numbers: their error is one of `x`.
        O::Gelu | O::GeluTanh if x < -0.5 => return None,
        O::Gelu => Expected::Near(0.5 * x * (1.0 + erf(x / 2.0_f64.sqrt())), 6.0 + of_host),
        O::GeluTanh => Expected::Near(gelu_tanh(x), 8.0),
        _ => return None,
    })
}

fn of_integer(operation: Operation, dtype: Dtype, i: i128) -> Option<Value> {
    use Operation as O;
    Some(Value::Int(match operation {
        O::Not if dtype == Dtype::Bool => i128::from(i == 0),
        O::Copy => i,
        _ if dtype == Dtype::Bool => return None,
        O::Abs => wrap(dtype, i.abs()),
        O::Neg => wrap(dtype, -i),
        O::Relu => i.max(0),
        O::Sign => i.signum(),
        O::Square => wrap(dtype, wrap(Dtype::I64, i) * wrap(Dtype::I64, i)),
        O::Not => wrap(dtype, !i),
        O::Floor | O::Ceil | O::Round | O::Trunc => i,
        O::IsNan | O::IsInf => 0,
        O::IsFinite => 1,
        _ => return None,
    }))
}

#[test]
fn functions_of_one_element_are_right_for_every_type_and_layout() {
    let bench = Bench::new();
    let sizes: [&[usize]; 12] =
        [&[0], &[1], &[31], &[32], &[33], &[255], &[256], &[257], &[1023], &[1024], &[1025], &[3, 5, 7]];
    let mut turn = 0;
    for operation in operations() {
        for dtype in Dtype::ALL {
            let Ok(map) = map_of(operation, &[dtype], &Options::default()) else {
                let is_missing = match dtype {
                    Dtype::Bool => of_integer(operation, dtype, 1).is_none(),
                    _ if dtype.is_float() => operation == Operation::Not,
                    _ => of_integer(operation, dtype, 1).is_none(),
                };
                assert!(is_missing, "{operation} of {dtype}");
                continue;
            };
            turn += 1;
            let shapes = [&[300][..], &[36, 33], sizes[turn % 12], sizes[(turn + 5) % 12], &[2, 17, 20]];
            for (i, shape) in shapes.into_iter().enumerate() {
                let count = shape.iter().product();
                let input = Tensor::new(dtype, shape, elements(dtype, count, (turn * 5 + i) as u64));
                let pair = Arrangement::PAIRS[if i == 0 { 0 } else { (turn + i * 3) % 7 }];
                let got = bench.run(&map, &[&input], shape, pair);
                for (x, got) in input.values.iter().zip(got) {
                    let expected = match x {
                        Value::Int(i) => Some(Expected::Exactly(of_integer(operation, dtype, *i).unwrap())),
                        Value::Float(x) => of_float(operation, dtype, *x),
                    };
                    let Some(expected) = expected else { continue };
                    // What is computed saturates in 8 bits.
                    let expected = match expected {
                        Expected::Exactly(Value::Float(y)) if operation != Operation::Copy => {
                            Expected::Exactly(Value::Float(round(dtype, y)))
                        }
                        other => other,
                    };
                    let what = || format!("{operation} of {dtype} {x:?} in {shape:?} {pair:?}");
                    expected.check(map.outputs()[0], got, &what);
                }
            }
        }
    }
}

#[test]
fn what_cancels_or_vanishes_is_off_by_units_of_its_argument() {
    let bench = Bench::new();
    for dtype in [Dtype::F32, Dtype::F64] {
        let xs: Vec<f64> = (0..2000).map(|i| round(dtype, -f64::from(i) / 20.0)).chain([f64::NEG_INFINITY]).collect();
        let input = Tensor::new(dtype, &[2001], xs.iter().map(|x| Value::Float(*x)).collect());
        let epsilon = if dtype == Dtype::F64 { f64::EPSILON } else { f32::EPSILON.into() };
        type Reference = fn(f64) -> f64;
        let functions: [(Operation, Reference); 4] = [
            (Operation::Gelu, |x| if x < -1e9 { 0.0 } else { 0.5 * x * (1.0 + erf(x / 2.0_f64.sqrt())) }),
            (Operation::GeluTanh, |x| if x < -1e9 { 0.0 } else { gelu_tanh(x) }),
            (Operation::Sigmoid, sigmoid),
            (Operation::Silu, |x| x * sigmoid(x)),
        ];
        for (operation, function) in functions {
            let Ok(map) = map_of(operation, &[dtype], &Options::default()) else { continue };
            let got = bench.run(&map, &[&input], &[2001], Arrangement::PAIRS[0]);
            for (x, got) in xs.iter().zip(got) {
                let (y, got) = (function(*x), got.float());
                let is_near = (got - y).abs() <= 4.0 * epsilon * x.abs().clamp(1.0, 100.0);
                assert!(is_near || (y.is_nan() && got.is_nan()), "{operation} of {dtype} {x}: {got}, expected {y}");
            }
        }
    }
}

#[test]
fn a_number_of_the_host_scales_and_fills() {
    let bench = Bench::new();
    let shape = [5, 41];
    for dtype in Dtype::ALL {
        let options = |alpha: Number, beta: Number| Options { dtype: Some(dtype), alpha, beta };
        for (number, int) in [(Number::from(3_u8), 3_i128), (Number::from(-2_i8), -2), (Number::from(true), 1)] {
            let map = map_of(Operation::Fill, &[], &options(number, Number::Integer(0))).unwrap();
            let pair = Arrangement::PAIRS[int.unsigned_abs() as usize];
            for got in bench.run(&map, &[], &shape, pair) {
                let expected = if dtype.is_float() { Value::Float(int as f64) } else { Value::Int(wrap(dtype, int)) };
                assert!(got.is(expected), "fill of {dtype} with {number:?}: {got:?}");
            }
        }
        let chosen = Options { alpha: Number::Float(2.0), beta: Number::Integer(3), ..Options::default() };
        if dtype == Dtype::Bool {
            let error = map_of(Operation::Scale, &[dtype], &chosen).unwrap_err();
            assert_eq!(error.to_string(), "scale does not take elements of type bool");
            continue;
        }
        for number in [0.5, -2.5, f64::INFINITY, f64::NAN].map(Number::Float) {
            for (option, chosen) in
                [("alpha", Options { alpha: number, ..chosen }), ("beta", Options { beta: number, ..chosen })]
            {
                let expected = format!("scale needs an option '{option}' that is a whole number for integers");
                let error = map_of(Operation::Scale, &[dtype], &chosen).err().map(|error| error.to_string());
                assert_eq!(error, (!dtype.is_float()).then_some(expected), "{number:?}");
            }
        }
        let input = Tensor::new(dtype, &shape, elements(dtype, 205, 77));
        let map = map_of(Operation::Scale, &[dtype], &chosen).unwrap();
        let other = map_of(Operation::Scale, &[dtype], &Options { beta: Number::Float(-1.0), ..chosen }).unwrap();
        for (map, addend) in [(map, 3), (other, -1)] {
            for (x, got) in input.values.iter().zip(bench.run(&map, &[&input], &shape, Arrangement::PAIRS[1])) {
                let expected = match x {
                    Value::Int(i) => Expected::Exactly(Value::Int(wrap(dtype, 2 * i + addend))),
                    Value::Float(x) => {
                        let doubled = if dtype == Dtype::F64 { 2.0 * x } else { f64::from(2.0 * *x as f32) };
                        Expected::Near(doubled + addend as f64, 0.0)
                    }
                };
                expected.check(dtype, got, &|| format!("scale of {dtype} {x:?}"));
            }
        }
    }
    let large = map_of(
        Operation::Fill,
        &[],
        &Options { dtype: Some(Dtype::U64), alpha: Number::from(u64::MAX - 1), ..Options::default() },
    );
    assert_eq!(bench.run(&large.unwrap(), &[], &[3], Arrangement::PAIRS[0]), [Value::Int(i128::from(u64::MAX) - 1); 3]);
}

#[test]
fn what_has_no_value_for_a_type_is_refused_by_name() {
    let refused = |operation, dtypes: &[Dtype]| map_of(operation, dtypes, &Options::default()).unwrap_err();
    for operation in [Operation::Exp, Operation::Sqrt, Operation::Recip, Operation::Sigmoid, Operation::Sin] {
        for dtype in [Dtype::I32, Dtype::U8, Dtype::Bool] {
            let op = operation.name().to_owned();
            assert_eq!(refused(operation, &[dtype]).kind(), &ErrorKind::Unsupported { op, dtype });
        }
    }
    assert_eq!(refused(Operation::Not, &[Dtype::F32]).to_string(), "not does not take elements of type f32");
    assert_eq!(refused(Operation::Neg, &[Dtype::Bool]).to_string(), "neg does not take elements of type bool");
    assert_eq!(refused(Operation::Cast, &[Dtype::F32]).to_string(), "cast needs the option 'dtype'");
    assert_eq!(refused(Operation::Exp, &[Dtype::F32; 2]).to_string(), "exp takes 1 input(s), not 2");
    assert_eq!("frobnicate".parse::<Operation>().unwrap_err().to_string(), "unknown operation 'frobnicate'");
    for operation in Operation::ALL {
        assert_eq!(operation.name().parse::<Operation>(), Ok(*operation));
    }
}
