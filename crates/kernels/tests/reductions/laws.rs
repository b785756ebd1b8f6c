//! The laws of every monoid, in one thread: the identity on both sides, associativity, and the same
//! fold whatever the input is split into, by `lift`, `push` and `push_all`. Bit for bit where no
//! rounding is involved.

use warpfold_device::LaunchConfig;
use warpfold_kernels::Dtype;
use warpfold_kernels::attention::state::AttentionMonoid;
use warpfold_kernels::elements::{Compute, Place, Run, Sink, Source};
use warpfold_kernels::fold::{
    ArgExtreme, Both, Count, Counted, Extreme, LogSumExp, Monoid, OnlineSoftmax, Position, Product, ReproducibleSum,
    Sum, TopK, Variance, Welford,
};
use warpfold_lang::{Global, Kernel, Val, kernel};

use crate::reductions::bench::Bench;
use crate::reductions::host::{Value, decode, encode, values};

/// Items of a fold.
const LEN: usize = 8;
/// Ways to fold all of them, then ways to fold the first alone.
const WAYS: usize = 11;
const ALONE: usize = 4;

fn laws<M: Monoid>(
    monoid: M,
    source: &Source<M::Item>,
    sink: &Sink<M::Output>,
) -> Kernel<(Global<u8>, Global<u8>, Global<u8>)> {
    let (source, sink) = (source.clone(), sink.clone());
    kernel("laws", move |input: Global<u8>, first: Global<u8>, second: Global<u8>| {
        let at = |i: usize| Position::new(Val::constant(i as u64), 0);
        let items = source.load(&[Place { pointer: input, run: Run::Narrow }], LEN as u32);
        let lifted: Vec<_> = items.iter().enumerate().map(|(i, item)| monoid.lift(*item, at(i))).collect();
        let identity = monoid.identity();
        let combine = |a, b| monoid.combine(a, b);
        let fold = |range: &[M::Acc]| range.iter().copied().reduce(combine).unwrap();
        let push = |acc, range: std::ops::Range<usize>| range.fold(acc, |acc, i| monoid.push(acc, items[i], at(i)));
        let all = fold(&lifted);
        let quarters: Vec<_> = lifted.chunks(2).map(fold).collect();
        let halves: Vec<_> = quarters.chunks(2).map(fold).collect();
        let by_four = |acc, i: usize| monoid.push_all(acc, &items[i..i + 4], at(i));
        let swapped = if M::COMMUTES { combine(halves[1], halves[0]) } else { all };
        let ways: [M::Acc; WAYS] = [
            all,
            combine(identity, all),
            combine(all, identity),
            lifted.iter().rev().copied().reduce(|right, left| combine(left, right)).unwrap(),
            fold(&halves),
            push(identity, 0..LEN),
            monoid.push_all(identity, &items, at(0)),
            by_four(by_four(identity, 0), 4),
            combine(by_four(identity, 0), by_four(identity, 4)),
            combine(push(identity, 0..3), push(identity, 3..LEN)),
            swapped,
        ];
        let alone: [M::Acc; ALONE] =
            [lifted[0], combine(identity, lifted[0]), combine(lifted[0], identity), push(identity, 0..1)];
        let counts = std::iter::repeat_n(LEN, WAYS).chain(std::iter::repeat_n(1, ALONE));
        for ((acc, count), i) in ways.into_iter().chain(alone).zip(counts).zip(0..) {
            let result = monoid.finish(acc, Val::constant(count as u64));
            sink.store_at(&[first, second][..sink.dtypes().len()], Val::constant(i), result);
        }
    })
}

struct Laws {
    bench: Bench,
}

impl Laws {
    /// Folds the items in every way; what `same` says of the first way and each other must hold.
    #[track_caller]
    fn check<M: Monoid>(
        &mut self,
        monoid: M,
        (source, sink): (Source<M::Item>, Sink<M::Output>),
        items: &[f64],
        same: impl Fn(Value, Value) -> bool,
    ) {
        let from = source.dtypes()[0];
        let device = &self.bench.device;
        let input = device.upload(&encode(from, &values(from, items))).unwrap();
        let lens: Vec<_> = sink.lens().iter().map(|len| *len as usize).collect();
        let sizes = sink.dtypes().iter().zip(&lens).map(|(d, len)| (WAYS + ALONE) * len * d.bytes() as usize);
        let mut outputs: Vec<_> = sizes.map(|size| device.alloc::<u8>(size).unwrap()).collect();
        outputs.resize_with(2, || device.alloc::<u8>(1).unwrap());
        let [first, second] = &mut outputs[..] else { unreachable!("two outputs") };
        let kernel = laws(monoid, &source, &sink);
        device.launch(&kernel, LaunchConfig::new(1, 1), (&input, &mut *first, &mut *second)).unwrap();
        for ((dtype, output), len) in sink.dtypes().iter().zip(&outputs).zip(lens) {
            let results = decode(*dtype, &output.download().unwrap());
            let (all, alone) = results.split_at(WAYS * len);
            for group in [all, alone] {
                let ways: Vec<_> = group.chunks(len).collect();
                for (i, way) in ways.iter().enumerate() {
                    let is_same = way.iter().zip(ways[0]).all(|(a, b)| same(*b, *a));
                    assert!(is_same, "{from} {items:?}: way {i} gives {way:?}, not {:?}", ways[0]);
                }
            }
        }
    }
}

/// The same bits; NaN is NaN.
fn exactly(a: Value, b: Value) -> bool {
    a == b
}

/// As close as a few roundings leave them.
fn nearly(relative: f64) -> impl Fn(Value, Value) -> bool {
    move |a, b| {
        let (a, b) = (a.float(), b.float());
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= relative * a.abs().max(b.abs())
    }
}

fn plain<C: Compute>(dtype: Dtype) -> (Source<Val<C>>, Sink<Val<C>>) {
    (Source::input(dtype), Sink::output(dtype))
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
const INTEGERS: [[f64; LEN]; 4] = [
    [3.0, -4.0, 5.0, 5.0, 0.0, -1.0, 7.0, -9.0],
    [2147483647.0, 2147483647.0, -2147483648.0, -2147483648.0, 1.0, -1.0, 65536.0, 65537.0],
    [-2147483648.0; LEN],
    [0.0; LEN],
];
const FLOATS: [[f64; LEN]; 6] = [
    [1.5, -2.25, 4.0, 0.5, 4.0, -8.0, 1.0, 0.125],
    [INF, 1.0, 3.0, -1.0, 2.0, 0.5, INF, 7.0],
    [-1.0, -INF, 0.5, -INF, 3.0, 2.0, 1.0, -INF],
    [-INF; LEN],
    [1.0, NAN, 9.0, NAN, 9.0, -4.0, INF, 2.0],
    [NAN, NAN, -INF, NAN, NAN, INF, NAN, NAN],
];
/// For what has no cancellation.
const POSITIVE: [[f64; LEN]; 3] = [
    [1.5, 2.25, 4.0, 0.5, 3.3, 8.1, 1.0, 0.125],
    [1e9, 1e9, 1e9, 1e9, 1.25e9, 1e9, 1.5e9, 1e9],
    [0.1, 0.3, 30.0, 20.0, 80.0, 0.7, 0.2, 10.0],
];

fn laws_of() -> Laws {
    Laws { bench: Bench::new() }
}

#[test]
fn integers_fold_to_the_same_bits_in_every_way() {
    let laws = &mut laws_of();
    for items in &INTEGERS {
        laws.check(Sum::<i32>::new(), plain(Dtype::I32), items, exactly);
        laws.check(Product::<i32>::new(), plain(Dtype::I32), items, exactly);
        laws.check(Extreme::<i32>::max(), plain(Dtype::I32), items, exactly);
        laws.check(Extreme::<i32>::min().ignoring_nan(), plain(Dtype::I32), items, exactly);
        laws.check(Sum::<i64>::new(), plain(Dtype::I64), items, exactly);
        let both = (Source::input(Dtype::I32), Sink::output(Dtype::I32).zip(Sink::output(Dtype::I32)));
        laws.check(Both(Extreme::<i32>::min(), Sum::<i32>::new()), both, items, exactly);
        let counted = Sink::output(Dtype::I32).zip(Sink::<Val<u64>>::output(Dtype::U64));
        laws.check(Counted(Sum::<i32>::new()), (Source::input(Dtype::I32), counted), items, exactly);
        for arg in [ArgExtreme::<i32>::max(), ArgExtreme::min(), ArgExtreme::max().last(), ArgExtreme::min().last()] {
            laws.check(arg, (Source::input(Dtype::I32), Sink::output(Dtype::I64)), items, exactly);
        }
        let lists = Sink::<[Val<i32>; 4]>::list(Dtype::I32, 4).zip(Sink::<[Val<u64>; 4]>::list(Dtype::I64, 4));
        let lists = lists.after(|list: [(Val<i32>, Val<u64>); 4]| (list.map(|e| e.0), list.map(|e| e.1)));
        laws.check(TopK::<i32, 4>::new(), (Source::input(Dtype::I32), lists), items, |a, b| {
            // Entries of a list of one item are of no use behind it.
            a == b || b == Value::Int(-1)
        });
    }
    let small = [3.0, -4.0, 5.0, 5.0, 0.0, -1.0, 120.0, -128.0];
    laws.check(Count, (Source::input(Dtype::I8), Sink::output(Dtype::I64)), &small, exactly);
    for arg in [ArgExtreme::<i32>::max(), ArgExtreme::min(), ArgExtreme::max().last(), ArgExtreme::min().last()] {
        for items in [small, [-128.0; LEN], [127.0; LEN]] {
            laws.check(arg, (Source::input(Dtype::I8), Sink::output(Dtype::I64)), &items, exactly);
        }
    }
}

#[test]
fn floats_are_compared_to_the_same_result_in_every_way() {
    let laws = &mut laws_of();
    for items in &FLOATS {
        for extreme in [Extreme::max(), Extreme::min()] {
            laws.check::<Extreme<f32>>(extreme, plain(Dtype::F32), items, exactly);
            laws.check(extreme.ignoring_nan(), plain(Dtype::F32), items, exactly);
        }
        laws.check(Extreme::<f64>::max(), plain(Dtype::F64), items, exactly);
        for arg in [ArgExtreme::<f32>::max(), ArgExtreme::min(), ArgExtreme::max().last(), ArgExtreme::min().last()] {
            for arg in [arg, arg.ignoring_nan()] {
                laws.check(arg, (Source::input(Dtype::F32), Sink::output(Dtype::I64)), items, exactly);
            }
        }
        laws.check(ArgExtreme::<f64>::max(), (Source::input(Dtype::F64), Sink::output(Dtype::I64)), items, exactly);
    }
}

#[test]
fn reproducible_sums_have_the_same_bits_in_every_way() {
    let laws = &mut laws_of();
    let wide = [1e30, 1.0, -1e30, 1e-30, 3e7, -7e-12, 0.1, 1e-44];
    for items in FLOATS.iter().chain(&POSITIVE).chain([&wide]) {
        laws.check(ReproducibleSum::<f32>::new(), plain(Dtype::F32), items, exactly);
        laws.check(ReproducibleSum::<f64>::new(), plain(Dtype::F64), items, exactly);
    }
}

#[test]
fn rounding_is_all_that_tells_the_ways_of_other_floats_apart() {
    let laws = &mut laws_of();
    let (single, double) = (nearly(16.0 * f64::from(f32::EPSILON)), nearly(16.0 * f64::EPSILON));
    for items in FLOATS.iter().chain(&POSITIVE) {
        laws.check(Sum::<f32>::new(), plain(Dtype::F32), items, &single);
        laws.check(Sum::<f64>::new(), plain(Dtype::F64), items, &double);
        laws.check(Product::<f64>::new(), plain(Dtype::F64), items, &double);
        laws.check(LogSumExp::<f32>::new(), plain(Dtype::F32), items, &single);
        laws.check(LogSumExp::<f64>::new(), plain(Dtype::F64), items, &double);
        for is_single in [false, true] {
            let moments = Sink::<Val<f64>>::output(Dtype::F64).zip(Sink::<Val<f64>>::output(Dtype::F64));
            let within = if is_single { &nearly(1e-5) } else { &nearly(1e-12) as &dyn Fn(Value, Value) -> bool };
            laws.check(Variance { ddof: 0, is_single }, (Source::input(Dtype::F64), moments), items, within);
        }
    }
    // Of an item score and values; of an accumulator columns, and the logarithm of the sum.
    let scored = || Source::<Val<f32>>::input(Dtype::F32).map(|x| (x, [x * 0.5, x * x * 0.125]));
    let attended = || {
        let columns = Sink::<[Val<f32>; 2]>::list(Dtype::F32, 2);
        columns.zip(Sink::<Val<f32>>::output(Dtype::F32))
    };
    let finite = FLOATS.iter().chain(&POSITIVE).filter(|items| items.iter().all(|x| x.abs() < 1e6));
    for items in finite {
        laws.check(AttentionMonoid::<2>, (scored(), attended()), items, nearly(1e-5));
    }
    let pair = || Sink::<Val<f32>>::output(Dtype::F32).zip(Sink::<Val<f32>>::output(Dtype::F32));
    for items in &POSITIVE {
        laws.check(OnlineSoftmax, (Source::input(Dtype::F32), pair()), items, &single);
        laws.check(Welford, (Source::input(Dtype::F32), pair()), items, nearly(1e-4));
    }
}
