//! Functions of two elements.

use warpfold_lang::{Integer, Val, WideFloat, vars, while_loop};

use super::Operation;
use super::table::Function;
use crate::elements::Compute;

type Two<C> = Function<(Val<C>, Val<C>), C>;

pub(super) fn of_bool(operation: Operation) -> Option<Two<u32>> {
    use Operation as O;
    Some(match operation {
        O::Add | O::Or | O::Maximum | O::Fmax => Function::Number(|(x, y)| x | y),
        O::Mul | O::And | O::Minimum | O::Fmin => Function::Number(|(x, y)| x & y),
        O::Xor => Function::Number(|(x, y)| x ^ y),
        other => return comparison(other),
    })
}

pub(super) fn of_integers<C: Compute + Integer>(operation: Operation) -> Option<Two<C>> {
    use Operation as O;
    Some(match operation {
        O::Div => Function::Number(|(x, y)| divide(x, y)),
        O::Rem => Function::Number(|(x, y)| remainder(x, y)),
        O::Pow => Function::Number(|(x, y)| power(x, y)),
        O::And => Function::Number(|(x, y)| x & y),
        O::Or => Function::Number(|(x, y)| x | y),
        O::Xor => Function::Number(|(x, y)| x ^ y),
        O::Shl => Function::Number(|(x, y)| x << amount(y)),
        O::Shr => Function::Number(|(x, y)| x >> amount(y)),
        other => return of_numbers(other),
    })
}

pub(super) fn of_floats<C: Compute + WideFloat>(operation: Operation) -> Option<Two<C>> {
    use Operation as O;
    Some(match operation {
        O::Div => Function::Number(|(x, y)| x / y),
        O::Rem => Function::Number(|(x, y)| x.fmod(y)),
        O::Pow => Function::Number(|(x, y)| x.pow(y)),
        other => return of_numbers(other),
    })
}

fn of_numbers<C: Compute>(operation: Operation) -> Option<Two<C>> {
    use Operation as O;
    Some(match operation {
        O::Add => Function::Number(|(x, y)| x + y),
        O::Sub => Function::Number(|(x, y)| x - y),
        O::Mul => Function::Number(|(x, y)| x * y),
        O::Maximum => Function::Number(|(x, y)| x.max_nan(y)),
        O::Minimum => Function::Number(|(x, y)| x.min_nan(y)),
        O::Fmax => Function::Number(|(x, y)| x.max(y)),
        O::Fmin => Function::Number(|(x, y)| x.min(y)),
        other => return comparison(other),
    })
}

fn comparison<C: Compute>(operation: Operation) -> Option<Two<C>> {
    use Operation as O;
    Some(match operation {
        O::Eq => Function::Truth(|(x, y)| x.eq(y)),
        O::Ne => Function::Truth(|(x, y)| x.ne(y)),
        O::Lt => Function::Truth(|(x, y)| x.lt(y)),
        O::Le => Function::Truth(|(x, y)| x.le(y)),
        O::Gt => Function::Truth(|(x, y)| x.gt(y)),
        O::Ge => Function::Truth(|(x, y)| x.ge(y)),
        _ => return None,
    })
}

/// 1, 0 and -1, which is the largest number without a sign.
fn units<C: Compute + Integer>() -> [Val<C>; 3] {
    [Val::constant(C::ONE), Val::constant(C::ZERO), Val::constant(C::from_bits(u64::MAX))]
}

/// Whether a divisor is one that the instruction is not asked about (PTX ISA, `div`): zero, or -1.
fn is_special<C: Compute + Integer>(divisor: Val<C>) -> [Val<bool>; 2] {
    let [_, zero, minus_one] = units::<C>();
    [divisor.eq(zero), if C::TYPE.is_signed() { divisor.eq(minus_one) } else { Val::constant(false) }]
}

fn divide<C: Compute + Integer>(x: Val<C>, y: Val<C>) -> Val<C> {
    let ([one, zero, _], [by_zero, by_minus_one]) = (units::<C>(), is_special(y));
    let quotient = x / (by_zero | by_minus_one).select(one, y);
    by_zero.select(zero, by_minus_one.select(zero - x, quotient))
}

fn remainder<C: Compute + Integer>(x: Val<C>, y: Val<C>) -> Val<C> {
    let ([one, zero, _], [by_zero, by_minus_one]) = (units::<C>(), is_special(y));
    let is_special = by_zero | by_minus_one;
    is_special.select(zero, x % is_special.select(one, y))
}

/// The product of the squares that the exponent's bits choose.
fn power<C: Compute + Integer>(x: Val<C>, y: Val<C>) -> Val<C> {
    let [one, zero, minus_one] = units::<C>();
    let state = vars((one, x, y));
    while_loop(
        || state.get().2.gt(zero),
        || {
            let (product, square, rest) = state.get();
            let is_odd = (rest & one).ne(zero);
            state.set((is_odd.select(product * square, product), square * square, rest >> 1));
        },
    );
    let product = state.get().0;
    if !C::TYPE.is_signed() {
        return product;
    }
    // 1 / x, cut towards zero, to a positive power.
    let is_odd = (y & one).ne(zero);
    let of_minus_one = x.eq(minus_one).select(is_odd.select(minus_one, one), zero);
    y.lt(zero).select(x.eq(one).select(one, of_minus_one), product)
}

/// As many bits as shift everything away, for amounts that no shift has.
fn amount<C: Compute + Integer>(y: Val<C>) -> Val<u32> {
    if C::DTYPE.bytes() == 4 { y.cast::<u32>() } else { y.cast::<u64>().min(64).cast::<u32>() }
}
