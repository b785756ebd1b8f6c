//! Functions of one element.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use warpfold_lang::{Integer, Rounding, Val, WideFloat};

use super::Operation;
use super::table::Function;
use crate::elements::Compute;

pub(super) fn of_bool(operation: Operation) -> Option<Function<Val<u32>, u32>> {
    Some(match operation {
        Operation::Not => Function::Truth(|x| x.eq(0)),
        Operation::Copy | Operation::Cast => Function::Number(|x| x),
        _ => return None,
    })
}

pub(super) fn of_integers<C: Compute + Integer>(operation: Operation) -> Option<Function<Val<C>, C>> {
    use Operation as O;
    Some(match operation {
        O::Abs => Function::Number(|x| x.lt(Val::constant(C::ZERO)).select(Val::constant(C::ZERO) - x, x)),
        O::Neg => Function::Number(|x| Val::constant(C::ZERO) - x),
        O::Relu => Function::Number(|x| x.max(Val::constant(C::ZERO))),
        O::Sign => Function::Number(sign),
        O::Square => Function::Number(|x| x * x),
        O::Not => Function::Number(|x| !x),
        O::Floor | O::Ceil | O::Round | O::Trunc | O::Copy | O::Cast => Function::Number(|x| x),
        O::IsNan | O::IsInf => Function::Truth(|x| x.ne(x)),
        O::IsFinite => Function::Truth(|x| x.eq(x)),
        _ => return None,
    })
}

pub(super) fn of_floats<C: Compute + WideFloat>(operation: Operation) -> Option<Function<Val<C>, C>> {
    use Operation as O;
    Some(match operation {
        O::Abs => Function::Number(Val::abs),
        O::Neg => Function::Number(|x| -x),
        O::Exp => Function::Number(Val::exp),
        O::Exp2 => Function::Number(Val::exp2),
        O::Expm1 => Function::Number(Val::expm1),
        O::Log => Function::Number(Val::ln),
        O::Log2 => Function::Number(Val::log2),
        O::Log10 => Function::Number(Val::log10),
        O::Log1p => Function::Number(Val::log1p),
        O::Sqrt => Function::Number(Val::sqrt),
        O::Rsqrt => Function::Number(rsqrt),
        O::Recip => Function::Number(Val::recip),
        O::Tanh => Function::Number(Val::tanh),
        O::Sigmoid => Function::Number(Val::sigmoid),
        O::Relu => Function::Number(|x| x.max_nan(Val::constant(C::ZERO))),
        O::Gelu => Function::Number(gelu),
        O::GeluTanh => Function::Number(gelu_tanh),
        O::Silu => Function::Number(|x| x * x.sigmoid()),
        O::Erf => Function::Number(Val::erf),
        O::Sin => Function::Number(Val::sin),
        O::Cos => Function::Number(Val::cos),
        O::Tan => Function::Number(Val::tan),
        O::Floor => Function::Number(|x| x.round(Rounding::Down)),
        O::Ceil => Function::Number(|x| x.round(Rounding::Up)),
        O::Round => Function::Number(|x| x.round(Rounding::NearestEven)),
        O::Trunc => Function::Number(|x| x.round(Rounding::Zero)),
        O::Sign => Function::Number(sign),
        O::Square => Function::Number(|x| x * x),
        O::IsNan => Function::Truth(Val::is_nan),
        O::IsInf => Function::Truth(|x| x.abs().eq(Val::constant(C::HIGHEST))),
        O::IsFinite => Function::Truth(|x| x.abs().lt(Val::constant(C::HIGHEST))),
        O::Copy | O::Cast => Function::Number(|x| x),
        _ => return None,
    })
}

fn sign<C: Compute>(x: Val<C>) -> Val<C> {
    let (zero, one) = (Val::constant(C::ZERO), Val::constant(C::ONE));
    // What is neither above nor below zero is zero or NaN, and stays.
    x.gt(zero).select(one, x.lt(zero).select(zero - one, x))
}

/// The instruction for `f64` promises nothing; two roundings do.
fn rsqrt<C: Compute + WideFloat>(x: Val<C>) -> Val<C> {
    if C::DTYPE == crate::Dtype::F64 { x.sqrt().recip() } else { x.rsqrt() }
}

fn real<C: Compute>(value: f64) -> Val<C> {
    Val::constant(C::from_f64(value))
}

fn gelu<C: Compute + WideFloat>(x: Val<C>) -> Val<C> {
    let share = (x * real::<C>(FRAC_1_SQRT_2)).erf() + real::<C>(1.0);
    of_share(x, share)
}

fn gelu_tanh<C: Compute + WideFloat>(x: Val<C>) -> Val<C> {
    let cube = x * x * x;
    let angle = cube.mul_add(real::<C>(0.044_715), x) * real::<C>(FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
    of_share(x, angle.tanh() + real::<C>(1.0))
}

/// `x * share / 2`; nothing of minus infinity is minus zero, as it is of every large negative
/// number.
fn of_share<C: Compute + WideFloat>(x: Val<C>, share: Val<C>) -> Val<C> {
    let product = x * real::<C>(0.5) * share;
    share.eq(real::<C>(0.0)).select(real::<C>(-0.0), product)
}
