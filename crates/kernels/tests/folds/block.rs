//! Every level of the fold, for every monoid, on every device at hand.

use warpfold_device::{Device, LaunchConfig};
use warpfold_kernels::fold::{ArgExtreme, Extreme, Monoid, Position, Product, Sum, fold_block};
use warpfold_lang::{Element, Global, Kernel, Val, block_idx, kernel, thread_idx, when};

use crate::folds::affine::{Affine, affine};

/// Threads a block: one warp, and numbers of warps that are and are not powers of two.
const THREADS: [u32; 6] = [32, 64, 96, 256, 992, 1024];

/// A block folds its `threads` elements.
fn fold_kernel<M, T: Element, O: Element>(monoid: M, threads: u32) -> Kernel<(Global<T>, Global<O>)>
where
    M: Monoid<Item = Val<T>, Output = Val<O>>,
{
    let body = move |input: Global<T>, output: Global<O>| {
        let i = block_idx().x * threads + thread_idx().x;
        let acc = monoid.lift(input.at(i).get(), Position::new(thread_idx().x.cast(), 0));
        let acc = fold_block(monoid, acc, threads);
        let result = monoid.finish(acc, Val::constant(u64::from(threads)));
        when(thread_idx().x.eq(0), || output.at(block_idx().x).set(result));
    };
    kernel("fold", body).required_block(threads)
}

/// Folds two blocks of `element`s on every device and compares with `expected` of each block.
#[track_caller]
fn check<M, T, O>(monoid: M, element: impl Fn(usize) -> T, expected: impl Fn(&[T]) -> O)
where
    T: Element + warpfold_device::Element,
    O: Element + warpfold_device::Element,
    M: Monoid<Item = Val<T>, Output = Val<O>>,
{
    for device in Device::all() {
        println!("on {device}");
        for threads in THREADS {
            let elements: Vec<_> = (0..2 * threads as usize).map(&element).collect();
            let input = device.upload(&elements).unwrap();
            let mut output = device.alloc::<O>(2).unwrap();
            device.launch(&fold_kernel(monoid, threads), LaunchConfig::new(2, threads), (&input, &mut output)).unwrap();
            let blocks: Vec<_> = elements.chunks(threads as usize).map(&expected).collect();
            assert_eq!(output.download().unwrap(), blocks, "{threads} threads on {device}");
        }
    }
}

/// Scattered whole numbers.
fn scattered(i: usize) -> i32 {
    ((i as i32).wrapping_mul(1_103_515_245).wrapping_add(12_345) >> 8) % 10_007
}

#[test]
fn integers_fold_to_their_sum_product_and_extremes() {
    check(Sum::<i32>::new(), scattered, |block| block.iter().sum());
    check(Product::<i32>::new(), |i| scattered(i) | 1, |block| block.iter().fold(1, |a: i32, b| a.wrapping_mul(*b)));
    check(Extreme::<i32>::max(), scattered, |block| *block.iter().max().unwrap());
    check(Extreme::<i32>::min(), scattered, |block| *block.iter().min().unwrap());
}

#[test]
fn floats_fold_to_their_sum_and_extremes() {
    let element = |i| scattered(i) as f32;
    check(Sum::<f32>::new(), element, |block| block.iter().sum());
    check(Extreme::<f32>::max(), element, |block| block.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    check(Extreme::<f32>::min(), element, |block| block.iter().copied().fold(f32::INFINITY, f32::min));
}

#[test]
fn extremes_pass_over_nan_where_that_is_asked_for() {
    let element = |i: usize| if i.is_multiple_of(3) { f32::NAN } else { scattered(i) as f32 };
    let (max, min) = (Extreme::<f32>::max().ignoring_nan(), Extreme::<f32>::min().ignoring_nan());
    check(max, element, |block| block.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    check(min, element, |block| block.iter().copied().fold(f32::INFINITY, f32::min));
}

#[test]
fn arg_max_is_the_first_position_of_the_largest() {
    let first_largest = |block: &[i32]| {
        let largest = block.iter().max().unwrap();
        block.iter().position(|element| element == largest).unwrap() as u64
    };
    check(ArgExtreme::<i32>::max(), scattered, first_largest);
    check(ArgExtreme::<i32>::max(), |i| scattered(i) % 5, first_largest);
    check(ArgExtreme::<i32>::max(), |_| 7, first_largest);
}

#[test]
fn a_combine_that_does_not_commute_is_folded_in_order() {
    let element = |i| scattered(i) as u32 | 1;
    check(Affine, element, affine);
}

/// One thread: `combine` with the identity on either side, and both ways to bracket three elements.
fn laws<M, T: Element, O: Element>(monoid: M) -> Kernel<(Global<T>, Global<O>)>
where
    M: Monoid<Item = Val<T>, Output = Val<O>>,
{
    kernel("laws", move |input: Global<T>, output: Global<O>| {
        let [a, b, c] =
            [0_u32, 1, 2].map(|i| monoid.lift(input.at(i).get(), Position::new(Val::constant(u64::from(i)), 0)));
        let results = [
            a,
            monoid.combine(monoid.identity(), a),
            monoid.combine(a, monoid.identity()),
            monoid.combine(monoid.combine(a, b), c),
            monoid.combine(a, monoid.combine(b, c)),
        ];
        for (i, acc) in (0_u32..).zip(results) {
            output.at(i).set(monoid.finish(acc, Val::constant(3)));
        }
    })
}

#[track_caller]
fn check_laws<M, T, O>(monoid: M, elements: [T; 3])
where
    T: Element + warpfold_device::Element,
    O: Element + warpfold_device::Element,
    M: Monoid<Item = Val<T>, Output = Val<O>>,
{
    for device in Device::all() {
        println!("on {device}");
        let input = device.upload(&elements).unwrap();
        let mut output = device.alloc::<O>(5).unwrap();
        device.launch(&laws(monoid), LaunchConfig::new(1, 1), (&input, &mut output)).unwrap();
        let [a, left, right, first, last] = output.download().unwrap()[..] else { unreachable!("five were stored") };
        assert!(left == a && right == a, "identity: {a:?}, {left:?}, {right:?} on {device}");
        assert_eq!(first, last, "associativity on {device}");
    }
}

#[test]
fn monoids_keep_their_laws() {
    for elements in [[3, -4, 5], [i32::MAX, i32::MAX, i32::MIN], [0, 0, -1]] {
        check_laws(Sum::<i32>::new(), elements);
        check_laws(Product::<i32>::new(), elements);
        check_laws(Extreme::<i32>::max(), elements);
        check_laws(Extreme::<i32>::min(), elements);
        check_laws(ArgExtreme::<i32>::max(), elements);
        check_laws(Affine, elements.map(|element: i32| element as u32));
    }
    for elements in [[1.5_f32, -2.25, 4.0], [f32::INFINITY, 1.0, f32::MAX], [-1.0, f32::NEG_INFINITY, 0.5]] {
        check_laws(Extreme::<f32>::max(), elements);
        check_laws(Extreme::<f32>::min(), elements);
        check_laws(ArgExtreme::<f32>::max(), elements);
    }
    check_laws(Sum::<f32>::new(), [1.5, -2.25, 4.0]);
    check_laws(Product::<f32>::new(), [1.5, -2.25, 4.0]);
}

#[test]
#[should_panic(expected = "a block folds whole warps, up to 32, not 100 threads")]
fn a_block_that_is_not_whole_warps_is_refused() {
    let target = Device::all()[0].target();
    drop(fold_kernel(Sum::<i32>::new(), 100).build(&target));
}
