//! Applies a recorded function to every pair of two lists on every device, and compares with a
//! reference.

use half::{bf16, f16};
use rustc_apfloat::ieee::{BFloat, Double, Half};
use rustc_apfloat::{Float, FloatConvert};
use warpfold_device::{Device, LaunchConfig, Profile};
use warpfold_lang::{Global, Param, Scalar, Val, block_dim, block_idx, kernel, thread_idx, when};

/// A type that kernels compute with and buffers hold.
pub(crate) trait Value: warpfold_lang::Element + warpfold_device::Element + Param {}

impl<T: warpfold_lang::Element + warpfold_device::Element + Param> Value for T {}

/// Every pair of an element of `left` and one of `right`.
fn pairs<A: Copy, B: Copy>(left: &[A], right: &[B]) -> (Vec<A>, Vec<B>) {
    left.iter().flat_map(|a| right.iter().map(|b| (*a, *b))).unzip()
}

/// Compares bit for bit, any NaN being as good as another; where the reference is `None`, anything
/// will do.
#[track_caller]
pub(crate) fn check<A: Value, B: Value, R: Value>(
    name: &str,
    (left, right): (&[A], &[B]),
    f: impl Fn(Val<A>, Val<B>) -> Val<R> + Copy + Send + Sync + 'static,
    reference: impl Fn(A, B) -> Option<R>,
) {
    check_pairs(name, &Device::all(), pairs(left, right), f, reference);
}

/// The same for given pairs, on these devices.
#[track_caller]
pub(crate) fn check_pairs<A: Value, B: Value, R: Value>(
    name: &str,
    devices: &[Device],
    (left, right): (Vec<A>, Vec<B>),
    f: impl Fn(Val<A>, Val<B>) -> Val<R> + Copy + Send + Sync + 'static,
    reference: impl Fn(A, B) -> Option<R>,
) {
    let apply = kernel(name, move |a: Global<A>, b: Global<B>, out: Global<R>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || out.at(i).set(f(a.at(i).get(), b.at(i).get())));
    });
    let len = left.len();
    for device in devices {
        let run = || {
            let (a, b) = (device.upload(&left)?, device.upload(&right)?);
            let mut out = device.alloc::<R>(len)?;
            device.launch(&apply, LaunchConfig::for_elements(len, 128), (&a, &b, &mut out, len as u32))?;
            out.download()
        };
        let results = run().unwrap_or_else(|error| panic!("{name} on {device}: {error}"));
        for ((a, b), result) in left.iter().zip(&right).zip(results) {
            let Some(expected) = reference(*a, *b) else { continue };
            let is_nan = |x: &R| x.ne(x);
            let both_nan = is_nan(&expected) && is_nan(&result);
            assert!(
                both_nan || Scalar::to_bits(expected) == Scalar::to_bits(result),
                "{name}({a:?}, {b:?}) on {device} is {result:?}, expected {expected:?}"
            );
        }
    }
}

/// The same for functions of one argument.
#[track_caller]
pub(crate) fn check_one<A: Value, R: Value>(
    name: &str,
    arguments: &[A],
    f: impl Fn(Val<A>) -> Val<R> + Copy + Send + Sync + 'static,
    reference: impl Fn(A) -> Option<R>,
) {
    check(name, (arguments, &[0_u32]), move |a, _: Val<u32>| f(a), |a, _| reference(a));
}

/// [`check_one`] on every device at hand and, for what old architectures compute in another way, on
/// a virtual A100.
#[track_caller]
pub(crate) fn check_old_and_new<A: Value, R: Value>(
    name: &str,
    arguments: &[A],
    f: impl Fn(Val<A>) -> Val<R> + Copy + Send + Sync + 'static,
    reference: impl Fn(A) -> Option<R>,
) {
    let mut devices = Device::all();
    devices.push(Device::virtual_gpu(Profile::A100));
    check_pairs(name, &devices, pairs(arguments, &[0_u32]), move |a, _: Val<u32>| f(a), |a, _| reference(a));
}

/// A number rounded once to f16. (`half` drops bits before it rounds an f64.)
pub(crate) fn to_f16(value: f64) -> f16 {
    let narrow: Half = Double::from_bits(value.to_bits().into()).convert(&mut false).value;
    f16::from_bits(narrow.to_bits() as u16)
}

/// A number rounded once to bf16.
pub(crate) fn to_bf16(value: f64) -> bf16 {
    let narrow: BFloat = Double::from_bits(value.to_bits().into()).convert(&mut false).value;
    bf16::from_bits(narrow.to_bits() as u16)
}
