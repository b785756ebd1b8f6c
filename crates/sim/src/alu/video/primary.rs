//! Primary operations, on extended parts of 32-bit registers.

use warpfold_ptx::{Instruction, Opcode};

use super::first_of;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::op::{Handler, LaneOp};

/// A primary operation: sources of 33 bits and sign, a result of 34.
pub(super) trait Primary: 'static {
    fn compute(a: i64, b: i64) -> i64;
}

macro_rules! primary {
    ($($name:ident = |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $name;
        impl Primary for $name {
            #[inline(always)]
            fn compute($a: i64, $b: i64) -> i64 { $body }
        }
    )*};
}

primary! {
    Add = |a, b| a + b;
    Subtract = |a, b| a - b;
    Difference = |a, b| (a - b).abs();
    Minimum = |a, b| a.min(b);
    Maximum = |a, b| a.max(b);
    Average = |a, b| (a + b + i64::from(a + b >= 0)) >> 1;
    LeftClamp = |a, b| left(a, b);
    LeftWrap = |a, b| left(a, b & 31);
    RightClamp = |a, b| a >> b.min(32);
    RightWrap = |a, b| a >> (b & 31);
    Equal = |a, b| i64::from(a == b);
    NotEqual = |a, b| i64::from(a != b);
    Less = |a, b| i64::from(a < b);
    LessOrEqual = |a, b| i64::from(a <= b);
    Greater = |a, b| i64::from(a > b);
    GreaterOrEqual = |a, b| i64::from(a >= b);
}

/// Shifted left by at most 32, of which 34 bits remain: intermediate results have no more.
#[inline(always)]
fn left(a: i64, amount: i64) -> i64 {
    a << amount.min(32) << 30 >> 30
}

/// Makes handlers out of primary operations.
pub(super) trait Shape {
    /// The operation around a primary one.
    type Op<P: Primary>: LaneOp;
}

/// The handler of an instruction's primary operation.
pub(super) fn handler<S: Shape>(d: &Decoder, inst: &Instruction) -> Result<Handler, Error> {
    use Opcode as O;
    Ok(match inst.opcode {
        O::Vadd | O::Vadd2 | O::Vadd4 => d.handler::<S::Op<Add>>(),
        O::Vsub | O::Vsub2 | O::Vsub4 => d.handler::<S::Op<Subtract>>(),
        O::Vabsdiff | O::Vabsdiff2 | O::Vabsdiff4 => d.handler::<S::Op<Difference>>(),
        O::Vmin | O::Vmin2 | O::Vmin4 => d.handler::<S::Op<Minimum>>(),
        O::Vmax | O::Vmax2 | O::Vmax4 => d.handler::<S::Op<Maximum>>(),
        O::Vavrg2 | O::Vavrg4 => d.handler::<S::Op<Average>>(),
        O::Vshl | O::Vshr => match (inst.opcode == O::Vshl, crate::alu::integer::bits::clamps(d, inst)?) {
            (true, true) => d.handler::<S::Op<LeftClamp>>(),
            (true, false) => d.handler::<S::Op<LeftWrap>>(),
            (false, true) => d.handler::<S::Op<RightClamp>>(),
            (false, false) => d.handler::<S::Op<RightWrap>>(),
        },
        O::Vset | O::Vset2 | O::Vset4 => match first_of(inst, &COMPARISONS) {
            Some("eq") => d.handler::<S::Op<Equal>>(),
            Some("ne") => d.handler::<S::Op<NotEqual>>(),
            Some("lt") => d.handler::<S::Op<Less>>(),
            Some("le") => d.handler::<S::Op<LessOrEqual>>(),
            Some("gt") => d.handler::<S::Op<Greater>>(),
            Some(_) => d.handler::<S::Op<GreaterOrEqual>>(),
            None => return Err(d.invalid(inst, "a comparison is missing")),
        },
        _ => return Err(d.unsupported(inst, "not a video instruction")),
    })
}

/// The comparisons of `vset`.
pub(super) const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
