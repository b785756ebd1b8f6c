//! MXFP4: weights of 4 bits (e2m1), 32 neighbours with one power of two in 8 bits (OCP
//! Microscaling Formats specification 1.0), as gpt-oss stores its experts.
//!
//! Rows lie side by side without gaps: of codes, two in a byte and the low half first, and of
//! scales. Every such weight is a `bf16`.

use half::f16;
use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Val, block_idx, kernel, params, thread_idx, when};

use super::{BLOCK, Kernel};
use crate::elements::{load, store};
use crate::kernel_name::KernelName;
use crate::overlap::overlap_launches;
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Weights of a thread.
const EACH: u64 = 8;

/// The family that writes MXFP4 as numbers. Inputs: codes and scales. Output: as many numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mxfp4Numbers;

impl Mxfp4Numbers {
    /// Neighbours that share a scale.
    pub const GROUP: u64 = 32;
}

/// A row of weights in memory.
#[derive(Clone, Copy)]
pub(super) enum Line {
    Plain(Global<u8>),
    Mxfp4 { codes: Global<u8>, scales: Global<u8> },
}

impl Line {
    /// Loads `width` neighbours from the `i`-th on, rounded to a type.
    pub(super) fn load(self, dtype: Dtype, i: Val<u32>, width: u32) -> Vec<Val<f32>> {
        match self {
            Self::Plain(line) => load(dtype, line.at(i.mul_wide(dtype.bytes() as u32)), width, width > 1),
            Self::Mxfp4 { codes, scales } => {
                let codes = codes.at((i >> 1).cast::<u64>());
                let word = match width {
                    8 => codes.reinterpret::<u32>().get(),
                    4 => codes.reinterpret::<u16>().get().cast(),
                    _ => unreachable!("{width} codes are not loaded at once"),
                };
                let scale = scales.at((i >> 5).cast::<u64>()).get();
                numbers(word, scale, width).into_iter().map(|x| rounded(dtype, x)).collect()
            }
        }
    }
}

/// The numbers of the lower codes of a word that share a scale.
fn numbers(word: Val<u32>, scale: Val<u8>, width: u32) -> Vec<Val<f32>> {
    let exponent = scale.cast::<u32>();
    // 2^(exponent - 127), of which the lowest is subnormal.
    let scale: Val<f32> = exponent.eq(0).select(Val::constant(1_u32 << 22), exponent << 23).bitcast();
    let number = |i: u32| {
        // The exponent's and the fraction's bits of an f32, whose exponents are 126 lower.
        let place = 4 * i;
        let magnitude = (if place < 22 { word << (22 - place) } else { word >> (place - 22) }) & (7 << 22);
        let sign = (word << (28 - place)) & (1 << 31);
        let small: Val<f32> = (magnitude | sign).bitcast();
        // Zeros lose their sign, as in matrices that a host decodes.
        (small * f32::from_bits((127 + 126) << 23)).mul_add(scale, 0.0)
    };
    (0..width).map(number).collect()
}

fn rounded(dtype: Dtype, number: Val<f32>) -> Val<f32> {
    // bf16 and f32 have all of them.
    if dtype == Dtype::F16 { number.cast::<f16>().cast() } else { number }
}

params! {
    /// Parameters of the kernel.
    struct NumbersArgs {
        codes: Global<u32>, scales: Global<u8>, to: Global<u8>,
        /// Numbers, by eights.
        count: u64,
    }
}

/// A thread writes eight numbers.
pub(super) fn kernel_of(dtype: Dtype) -> AnyKernel {
    let body = move |args: NumbersArgs| {
        let NumbersArgs { codes, scales, to, count } = args;
        overlap_launches();
        let i = block_idx().x.mul_wide(BLOCK) + thread_idx().x.cast::<u64>();
        when(i.lt(count), || {
            let scale = scales.at(i / (Mxfp4Numbers::GROUP / EACH)).get();
            let numbers = numbers(codes.at(i).get(), scale, EACH as u32);
            store(dtype, to.at(i * (EACH * dtype.bytes())), &numbers, true);
        });
    };
    kernel(String::from(KernelName::new("experts_mxfp4_numbers").part(dtype)), body).required_block(BLOCK).into()
}

impl Family for Mxfp4Numbers {
    /// Their count, a multiple of [`Mxfp4Numbers::GROUP`], and their type: `f32`, `f16` or `bf16`.
    type Problem = (u64, Dtype);

    fn plan(&self, problem: &(u64, Dtype), planner: &Planner<'_>) -> Result<Plan, Error> {
        let (len, dtype) = *problem;
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(ErrorKind::Unsupported { op: "numbers of MXFP4".to_owned(), dtype }.into());
        }
        if !len.is_multiple_of(Mxfp4Numbers::GROUP) {
            let reason = format!("{len} numbers are not in groups of {}", Mxfp4Numbers::GROUP);
            return Err(ErrorKind::Operand { operator: "numbers of MXFP4", reason }.into());
        }
        let plan = Plan::new("numbers")
            .choice(format_args!("{len} numbers of MXFP4"))
            .input(OperandSpec::new("the codes", len / 2, 4))
            .input(OperandSpec::new("the scales", len / Mxfp4Numbers::GROUP, 1))
            .output(OperandSpec::new("the numbers", len * dtype.bytes(), 16));
        if len == 0 {
            return Ok(plan);
        }
        let count = len / EACH;
        let args = NumbersArgs::<Planned> {
            codes: Operand::Input(0),
            scales: Operand::Input(1),
            to: Operand::Output(0),
            count,
        };
        let launch = LaunchConfig::new(grid_size(count.div_ceil(BLOCK.into()))?, BLOCK);
        Ok(plan.step(Step::new(planner.kernel(Kernel::Mxfp4Numbers(dtype), Kernel::make), launch).with(args)?))
    }
}
