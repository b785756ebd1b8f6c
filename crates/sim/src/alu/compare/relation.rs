//! The comparison operators, reduced to five tests.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use super::view::{Bf16, F16, Flushed, Short, View};
use crate::Error;
use crate::alu::{is_float, wrong_type};
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op, test2};

/// A test that a handler performs. Every operator is one of them, perhaps with its sources
/// exchanged or its result negated: `gtu(a, b)` is the negation of `less_or_equal(a, b)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    Less,
    LessOrEqual,
    /// Not equal, and neither is a NaN.
    Distinct,
    /// Neither is a NaN.
    Ordered,
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relation {
    pub test: Test,
    /// The sources are exchanged.
    pub exchanged: bool,
    /// The result is negated.
    pub negated: bool,
}

/// The comparison operator of `set` and `setp`, the first modifier, for a source type (PTX ISA,
/// "Comparisons").
pub(super) fn relation(d: &Decoder, inst: &Instruction, ty: T) -> Result<Relation, Error> {
    let name = inst.modifiers.first().map_or("", |name| name.as_str());
    let (test, exchanged, negated) = match name {
        "eq" => (Test::Equal, false, false),
        "ne" if is_float(ty) => (Test::Distinct, false, false),
        "ne" | "neu" => (Test::Equal, false, true),
        "lt" | "lo" => (Test::Less, false, false),
        "le" | "ls" => (Test::LessOrEqual, false, false),
        "gt" | "hi" => (Test::Less, true, false),
        "ge" | "hs" => (Test::LessOrEqual, true, false),
        "equ" => (Test::Distinct, false, true),
        "ltu" => (Test::LessOrEqual, true, true),
        "leu" => (Test::Less, true, true),
        "gtu" => (Test::LessOrEqual, false, true),
        "geu" => (Test::Less, false, true),
        "num" => (Test::Ordered, false, false),
        "nan" => (Test::Ordered, false, true),
        other => return Err(d.invalid(inst, format!("'{other}' is not a comparison operator"))),
    };
    let fits = match name {
        "eq" | "ne" => true,
        "lt" | "le" | "gt" | "ge" => !matches!(ty, T::B16 | T::B32 | T::B64),
        "lo" | "ls" | "hi" | "hs" => matches!(ty, T::U16 | T::U32 | T::U64),
        _ => is_float(ty),
    };
    if fits {
        Ok(Relation { test, exchanged, negated })
    } else {
        Err(d.invalid(inst, format!("type .{} has no comparison .{name}", ty.name())))
    }
}

macro_rules! tests {
    ($($name:ident = |$a:ident, $b:ident| $body:expr;)*) => {$(
        /// Sets predicate `dst` to the test, and `dst2` to its negation.
        struct $name<V>(PhantomData<V>);
        impl<V: View> LaneOp for $name<V> {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder chose registers of the view's width, and predicates of the
                // frame.
                unsafe {
                    let holds = test2::<V, V>(m, op, |$a, $b| $body);
                    m.set_predicate(op.dst, holds, mask);
                    m.set_predicate(op.dst2, !holds, mask);
                }
            }
        }
    )*};
}

tests! {
    Equal = |a, b| a.equal(b);
    Less = |a, b| a.less(b);
    LessOrEqual = |a, b| a.less_or_equal(b);
    Distinct = |a, b| a.ordered(b) & !a.equal(b);
    Ordered = |a, b| a.ordered(b);
}

fn of_view<V: View>(d: &Decoder, test: Test) -> Handler {
    match test {
        Test::Equal => d.handler::<Equal<V>>(),
        Test::Less => d.handler::<Less<V>>(),
        Test::LessOrEqual => d.handler::<LessOrEqual<V>>(),
        Test::Distinct => d.handler::<Distinct<V>>(),
        Test::Ordered => d.handler::<Ordered<V>>(),
    }
}

/// The handler of a test for a source type; for packed types it tests the lower half, or the upper
/// one.
pub(super) fn handler(d: &Decoder, inst: &Instruction, test: Test, ty: T, upper: bool) -> Result<Handler, Error> {
    let flush = inst.has("ftz");
    if flush && !matches!(ty, T::F16 | T::F16x2 | T::F32) {
        return Err(d.invalid(inst, format!("type .{} has no .ftz", ty.name())));
    }
    Ok(match (ty, upper, flush) {
        (T::B16 | T::U16, ..) => of_view::<Short<false>>(d, test),
        (T::S16, ..) => of_view::<Short<true>>(d, test),
        (T::B32 | T::U32, ..) => of_view::<u32>(d, test),
        (T::S32, ..) => of_view::<i32>(d, test),
        (T::B64 | T::U64, ..) => of_view::<u64>(d, test),
        (T::S64, ..) => of_view::<i64>(d, test),
        (T::F32, _, false) => of_view::<f32>(d, test),
        (T::F32, _, true) => of_view::<Flushed>(d, test),
        (T::F64, ..) => of_view::<f64>(d, test),
        (T::F16 | T::F16x2, false, false) => of_view::<F16<false, false>>(d, test),
        (T::F16 | T::F16x2, false, true) => of_view::<F16<false, true>>(d, test),
        (T::F16 | T::F16x2, true, false) => of_view::<F16<true, false>>(d, test),
        (T::F16 | T::F16x2, true, true) => of_view::<F16<true, true>>(d, test),
        (T::Bf16 | T::Bf16x2, false, _) => of_view::<Bf16<false>>(d, test),
        (T::Bf16 | T::Bf16x2, true, _) => of_view::<Bf16<true>>(d, test),
        _ => return Err(wrong_type(d, inst, ty)),
    })
}
