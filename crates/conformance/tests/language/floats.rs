//! Floats of every width: correctly rounded operations bit for bit, conversions, comparisons with
//! NaN, packed pairs.

use half::{bf16, f16};
use warpfold_lang::{Bf16x2, F16x2, Rounding, Val};

use crate::language::harness::{check, check_one, to_bf16, to_f16};

const F64: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    3.5,
    -0.5,
    0.1,
    1e-3,
    255.0,
    256.5,
    -129.0,
    65504.0,
    65519.0,
    65520.0,
    1e5,
    3e9,
    -3e9,
    1e19,
    1.000_976_5,
    1.003_9,
    3.4e38,
    1e-40,
    f64::MAX,
    f64::MIN_POSITIVE,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// The same values in another type.
fn values<T>(from: fn(f64) -> T) -> Vec<T> {
    F64.iter().map(|value| from(*value)).collect()
}

/// The number of two; the other one if one is NaN. The sign of a zero is not promised.
fn pick(a: f64, b: f64, first: bool) -> f64 {
    if a.is_nan() || (!b.is_nan() && !first) { b } else { a }
}

macro_rules! floats {
    ($($rust:ident $from:expr, $to:expr;)*) => {$(
        #[test]
        fn $rust() {
            let (from, to): (fn(f64) -> $rust, fn($rust) -> f64) = ($from, $to);
            let values = values(from);
            let both = (&values[..], &values[..]);
            // One operation in f64, rounded once more, is correctly rounded for the narrower types
            // (53 >= 2 * 24 + 2).
            check("add", both, |a, b| a + b, |a, b| Some(from(to(a) + to(b))));
            check("sub", both, |a, b| a - b, |a, b| Some(from(to(a) - to(b))));
            check("mul", both, |a, b| a * b, |a, b| Some(from(to(a) * to(b))));
            check("div", both, |a, b| a / b, |a, b| Some(from(to(a) / to(b))));
            let unequal = |a: $rust, b: $rust| to(a) != to(b);
            check("min", both, |a, b| a.min(b), |a, b| unequal(a, b).then(|| from(pick(to(a), to(b), to(a) < to(b)))));
            check("max", both, |a, b| a.max(b), |a, b| unequal(a, b).then(|| from(pick(to(a), to(b), to(a) > to(b)))));
            let nan = |a: $rust, b: $rust| to(a).is_nan() || to(b).is_nan();
            check("min_nan", both, |a, b| a.min_nan(b), |a, b| {
                unequal(a, b).then(|| from(if nan(a, b) { f64::NAN } else { to(a).min(to(b)) }))
            });
            check("max_nan", both, |a, b| a.max_nan(b), |a, b| {
                unequal(a, b).then(|| from(if nan(a, b) { f64::NAN } else { to(a).max(to(b)) }))
            });
            check("eq", both, |a, b| a.eq(b).cast::<u32>(), |a, b| Some(u32::from(to(a) == to(b))));
            check("ne", both, |a, b| a.ne(b).cast::<u32>(), |a, b| Some(u32::from(to(a) != to(b))));
            check("lt", both, |a, b| a.lt(b).cast::<u32>(), |a, b| Some(u32::from(to(a) < to(b))));
            check("le", both, |a, b| a.le(b).cast::<u32>(), |a, b| Some(u32::from(to(a) <= to(b))));
            check("gt", both, |a, b| a.gt(b).cast::<u32>(), |a, b| Some(u32::from(to(a) > to(b))));
            check("ge", both, |a, b| a.ge(b).cast::<u32>(), |a, b| Some(u32::from(to(a) >= to(b))));
            check_one("is_nan", &values, |a| a.is_nan().cast::<u32>(), |a: $rust| Some(u32::from(to(a).is_nan())));
            check_one("is_inf", &values, |a| a.is_inf().cast::<u32>(), |a: $rust| Some(u32::from(to(a).is_infinite())));
            check_one("is_finite", &values, |a| a.is_finite().cast::<u32>(), |a: $rust| {
                Some(u32::from(to(a).is_finite()))
            });
            check_one("sign", &values, |a| a.sign(), |a: $rust| {
                Some(from(if to(a) == 0.0 || to(a).is_nan() { to(a) } else { to(a).signum() }))
            });
            check_one("neg", &values, |a| -a, |a: $rust| Some(-a));
            check_one("abs", &values, |a| a.abs(), |a: $rust| Some(from(to(a).abs())));
            check_one("floor", &values, |a| a.round(Rounding::Down), |a: $rust| Some(from(to(a).floor())));
            check_one("ceil", &values, |a| a.round(Rounding::Up), |a: $rust| Some(from(to(a).ceil())));
            check_one("trunc", &values, |a| a.round(Rounding::Zero), |a: $rust| Some(from(to(a).trunc())));
            check_one("even", &values, |a| a.round(Rounding::NearestEven), |a: $rust| {
                Some(from(to(a).round_ties_even()))
            });
            check_one("cast_f16", &values, |a| a.cast::<f16>(), |a: $rust| Some(to_f16(to(a))));
            check_one("cast_bf16", &values, |a| a.cast::<bf16>(), |a: $rust| Some(to_bf16(to(a))));
            check_one("cast_f32", &values, |a| a.cast::<f32>(), |a: $rust| Some(to(a) as f32));
            check_one("cast_f64", &values, |a| a.cast::<f64>(), |a: $rust| Some(to(a)));
            macro_rules! integers {
                ($a:ident: $name:ident) => {
                    check_one("cast", &values, |a| a.cast::<$name>(), |$a: $rust| {
                        (!to($a).is_nan()).then(|| to($a) as $name)
                    });
                };
            }
            integers!(a: u8);
            integers!(a: u16);
            integers!(a: u32);
            integers!(a: u64);
            integers!(a: i8);
            integers!(a: i16);
            integers!(a: i32);
            integers!(a: i64);
            check_one("up", &values, |a| a.cast_rounded::<i32>(Rounding::Up), |a: $rust| {
                (!to(a).is_nan()).then(|| to(a).ceil() as i32)
            });
        }
    )*};
}

floats! {
    f16 to_f16, f16::to_f64;
    bf16 to_bf16, bf16::to_f64;
    f32 |x| x as f32, f64::from;
    f64 |x| x, |x| x;
}

#[test]
fn fused_operations_round_once() {
    let singles = values(|x| x as f32);
    check("fma", (&singles, &singles), |a, b| a.mul_add(b, 0.1_f32), |a, b| Some(a.mul_add(b, 0.1)));
    check("fma", (F64, F64), |a, b| a.mul_add(b, 0.1_f64), |a, b| Some(a.mul_add(b, 0.1)));
    check("unfused", (&singles, &singles), |a, b| a * b + 0.1_f32, |a, b| Some(a * b + 0.1));
}

#[test]
fn roots_and_reciprocals_are_correctly_rounded() {
    let singles = values(|x| x as f32);
    check_one("sqrt", &singles, |a| a.sqrt(), |a: f32| Some(a.sqrt()));
    check_one("recip", &singles, |a| a.recip(), |a: f32| Some(1.0 / a));
    check_one("sqrt", F64, |a| a.sqrt(), |a: f64| Some(a.sqrt()));
    check_one("recip", F64, |a| a.recip(), |a: f64| Some(1.0 / a));
    check("copysign", (&singles, &singles), |a, b| a.copysign(b), |a, b| (!a.is_nan()).then(|| a.copysign(b)));
}

#[test]
fn integers_beyond_the_precision_of_f32_round_to_bf16_once() {
    // Just above a tie of bf16, by less than f32 can tell.
    let values = [0x0180_0001, 0x0101_0001, 0x0101_0000, 0x4080_0001, -0x0101_0001, i32::MAX, i32::MIN];
    check_one("cast", &values, |a| a.cast::<bf16>(), |a: i32| Some(to_bf16(f64::from(a))));
}

#[test]
fn pairs_compute_in_both_halves() {
    macro_rules! pairs {
        ($pair:ident $half:ident $from:ident) => {
            let halves: Vec<$half> = values($from);
            let bits: Vec<u32> = halves.windows(2).map(|pair| $pair([pair[0], pair[1]]).to_bits()).collect();
            let sum = |a: Val<u32>, b: Val<u32>| {
                (a.bitcast::<$pair>() + b.bitcast::<$pair>().max($pair([$half::ONE; 2]))).bitcast::<u32>()
            };
            // As two operations on halves, which have their own test.
            let halves_sum = |a: Val<u32>, b: Val<u32>| {
                let (a, b) = (a.bitcast::<$pair>().unpack(), b.bitcast::<$pair>().unpack());
                let sums = [0, 1].map(|i| a[i] + b[i].max($half::ONE));
                Val::<$pair>::pack(sums[0], sums[1]).bitcast::<u32>()
            };
            check("pair", (&bits, &bits), move |a, b| sum(a, b) ^ halves_sum(a, b), |_, _| Some(0));
            check_one(
                "to_f32",
                &bits,
                |a| a.bitcast::<$pair>().to_f32()[1],
                |a: u32| Some($pair::from_bits(a).0[1].to_f32()),
            );
            check(
                "from_f32",
                (&[1.003_9_f32, 65519.0], &[-7.0_f32, 0.1]),
                |a, b| Val::<$pair>::from_f32(a, b).bitcast::<u32>(),
                |a, b| Some($pair([$half::from_f32(a), $half::from_f32(b)]).to_bits()),
            );
        };
    }
    pairs!(F16x2 f16 to_f16);
    pairs!(Bf16x2 bf16 to_bf16);
}

#[test]
fn functions_are_close_to_their_definition() {
    // Each argument makes a kernel of its own, which a driver takes some time to compile.
    let arguments: Vec<f32> = (-400..400).step_by(25).map(|i| i as f32 / 32.0).collect();
    // The bounds have their own test in the language's crate; here nothing but a few parts in a
    // million.
    let close = |name: &str, f: fn(Val<f32>) -> Val<f32>, reference: fn(f64) -> f64| {
        let tolerant = move |x: Val<f32>, exact: Val<f32>| {
            let result = f(x);
            let error = (result - exact).abs();
            (error.le(exact.abs() * 2e-6) | result.eq(exact) | (result.is_nan() & exact.is_nan())).cast::<u32>()
        };
        for x in &arguments {
            let exact = reference(f64::from(*x)) as f32;
            check(name, (&[*x], &[exact]), tolerant, |_, _| Some(1));
        }
    };
    close("exp", Val::exp, f64::exp);
    close("ln", Val::ln, f64::ln);
    close("tanh", Val::tanh, f64::tanh);
    close("sigmoid", Val::sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
    close("exp2", Val::exp2, f64::exp2);
}
