//! The kernel of sequences: threads make a few neighbours at a time.

use std::f64::consts::TAU;

use warpfold_lang::{
    Global, Val, WideFloat, block_idx, grid_dim, kernel, params, range, thread_idx, wait_for_dependencies, when,
};

use super::Kind;
use crate::elements::{Compute, store};
use crate::sampling::philox;
use crate::{AnyKernel, Dtype};

/// Threads per block.
pub(super) const BLOCK: u32 = 256;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SequenceConfig {
    pub(super) kind: Kind,
    pub(super) dtype: Dtype,
}

impl SequenceConfig {
    /// Neighbours that a thread makes at a time: as many as four random words are enough for.
    pub(super) fn per_thread(self) -> u32 {
        if self.kind == Kind::Integers || self.dtype == Dtype::F64 { 2 } else { 4 }
    }

    /// What the output's address is a multiple of.
    pub(super) fn alignment(self) -> u64 {
        (u64::from(self.per_thread()) * self.dtype.bytes()).min(16)
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct SequenceArgs {
        output: Global<u8>, len: u64,
        /// Two numbers of the sequence, as bits.
        a: u64, b: u64, seed: u64, draw: u64,
    }
}

fn halves(x: Val<u64>) -> [Val<u32>; 2] {
    [x.cast::<u32>(), (x >> 32).cast::<u32>()]
}

pub(super) fn kernel_of(config: SequenceConfig) -> AnyKernel {
    let SequenceConfig { kind, dtype } = config;
    let per_thread = config.per_thread();
    let body = move |args: SequenceArgs| {
        let SequenceArgs { output, len, .. } = args;
        wait_for_dependencies();
        let stride = grid_dim().x.cast::<u64>() * u64::from(BLOCK);
        let thread = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        range(thread, (len + u64::from(per_thread - 1)) / u64::from(per_thread), stride, |group| {
            let out = Out { output, dtype, first: group * u64::from(per_thread), len };
            match (kind, dtype) {
                (Kind::Floats, _) => {
                    let (start, step) = (args.a.bitcast::<f64>(), args.b.bitcast::<f64>());
                    // Two roundings, as NumPy has them.
                    out.put(&each(per_thread, |i| start + (out.first + i).cast::<f64>() * step));
                }
                (Kind::Whole, _) => {
                    let (start, step) = (args.a.bitcast::<i64>(), args.b.bitcast::<i64>());
                    out.put(&each(per_thread, |i| start + (out.first + i).bitcast::<i64>() * step));
                }
                (Kind::Integers, _) => {
                    let integer = |word: Val<u64>| (args.a + word.mul_hi(args.b)).bitcast::<i64>();
                    out.put(&long_words(args, group).map(integer));
                }
                (Kind::Uniform, Dtype::F64) => {
                    let (low, high) = (args.a.bitcast::<f64>(), args.b.bitcast::<f64>());
                    out.put(&long_words(args, group).map(|word| low + unit_f64(word) * (high - low)));
                }
                (Kind::Uniform, _) => {
                    let [low, high] = [args.a, args.b].map(|x| halves(x)[0].bitcast::<f32>());
                    out.put(&words(args, group).map(|word| low + unit_f32(word) * (high - low)));
                }
                (Kind::Normal, Dtype::F64) => {
                    let (mean, std) = (args.a.bitcast::<f64>(), args.b.bitcast::<f64>());
                    let [u, v] = long_words(args, group).map(unit_f64);
                    out.put(&box_muller(1.0 - u, v).map(|x| mean + x * std));
                }
                (Kind::Normal, _) => {
                    let [mean, std] = [args.a, args.b].map(|x| halves(x)[0].bitcast::<f32>());
                    let [a, b, c, d] = words(args, group);
                    // All 32 bits, so that the tails are long: from 2^-32 up to 1.
                    let radius = |word: Val<u32>| (word.cast::<f32>() + 1.0) * (1.0 / (1_u64 << 32) as f32);
                    let [x, y] = box_muller(radius(a), unit_f32(b));
                    let [z, w] = box_muller(radius(c), unit_f32(d));
                    out.put(&[x, y, z, w].map(|x| mean + x * std));
                }
            }
        });
    };
    let name = match kind {
        Kind::Floats | Kind::Whole => "arange",
        Kind::Uniform => "rand",
        Kind::Normal => "randn",
        Kind::Integers => "randint",
    };
    kernel(format!("{name}_{dtype}"), body).required_block(BLOCK).into()
}

fn each<C: Compute>(n: u32, make: impl Fn(u64) -> Val<C>) -> Vec<Val<C>> {
    (0..u64::from(n)).map(make).collect()
}

/// Where neighbours go.
struct Out {
    output: Global<u8>,
    dtype: Dtype,
    first: Val<u64>,
    len: Val<u64>,
}

impl Out {
    /// Stores as many as there are: together, or one by one at the end.
    fn put<C: Compute>(&self, values: &[Val<C>]) {
        let whole = (self.first + values.len() as u64).le(self.len);
        let at = |i: usize| self.output.at((self.first + i as u64) * self.dtype.bytes());
        when(whole, || store(self.dtype, at(0), values, true));
        when(!whole, || {
            for (i, value) in values.iter().enumerate() {
                when((self.first + i as u64).lt(self.len), || store(self.dtype, at(i), &[*value], false));
            }
        });
    }
}

/// Four random words of 32 bits.
fn words(args: SequenceArgs, group: Val<u64>) -> [Val<u32>; 4] {
    let ([low, high], [first, second]) = (halves(group), halves(args.draw));
    philox([low, high, first, second], halves(args.seed))
}

/// Two random words of 64 bits.
fn long_words(args: SequenceArgs, group: Val<u64>) -> [Val<u64>; 2] {
    let [a, b, c, d] = words(args, group).map(|word| word.cast::<u64>());
    [(b << 32) | a, (d << 32) | c]
}

/// From 0 up to, but not, 1.
fn unit_f32(word: Val<u32>) -> Val<f32> {
    (word >> 8).cast::<f32>() * (1.0 / (1_u32 << 24) as f32)
}

fn unit_f64(word: Val<u64>) -> Val<f64> {
    (word >> 11).cast::<f64>() * (1.0 / (1_u64 << 53) as f64)
}

/// Two independent normal numbers of two uniform ones, the first of which is above 0.
fn box_muller<C: Compute + WideFloat>(u: Val<C>, v: Val<C>) -> [Val<C>; 2] {
    let radius = (u.ln() * Val::constant(C::from_f64(-2.0))).sqrt();
    let (sin, cos) = (v * Val::constant(C::from_f64(TAU))).sin_cos();
    [radius * cos, radius * sin]
}
