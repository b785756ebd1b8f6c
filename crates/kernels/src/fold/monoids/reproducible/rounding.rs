//! From bins to the nearest float.

use warpfold_lang::{Registers, Val};

use super::{Binned, Bins, NUM_BINS};

/// The float nearest to what bins hold, ties to even.
///
/// The sum of the bins has more bits than a register: up to 63 + 3 · 28. The leading 64 of them
/// decide, with one more that says whether anything follows. Where the result is subnormal, nothing
/// follows: either the unit is not below the smallest number, or no item was rounded.
pub(super) fn round<T: Binned>(top: Val<i32>, bins: Bins) -> Val<T> {
    let is_negative = carried::<T>(bins)[0].lt(0);
    let magnitudes = bins.map(|bin| is_negative.select(-bin, bin));
    let digits = carried::<T>(magnitudes).map(|digit| digit.cast::<u64>());
    // `high`:`low` times the unit of the last bin that went in.
    let width = T::WIDTH;
    let (mut high, mut low) = (Val::constant(0_u64), digits[0]);
    let mut unit = (top - 1) * width.cast_signed();
    let mut rest = Val::constant(0_u64);
    for digit in &digits[1..] {
        let has_room = high.lt(1_u64 << (63 - width));
        let shifted = ((high << width) | (low >> (64 - width)), (low << width) | *digit);
        (high, low) = Registers::select(has_room, shifted, (high, low));
        unit = has_room.select(unit - width.cast_signed(), unit);
        rest = has_room.select(rest, rest | *digit);
    }
    let is_short = high.eq(0);
    (high, low) = Registers::select(is_short, (low, Val::constant(0)), (high, low));
    let exponent = is_short.select(unit, unit + 64);
    let shift = high.clz();
    let leading = (high << shift) | (low >> (Val::constant(64) - shift));
    rest |= low << shift;
    let sticky = rest.ne(0).cast::<u64>();
    let exponent = exponent - shift.cast::<i32>();
    // In two steps, as the power of two may be below the smallest number.
    let half = exponent >> 1;
    let value = (leading | sticky).cast::<T>() * T::power_of_two(half) * T::power_of_two(exponent - half);
    is_negative.select(-value, value)
}

/// The same sum with digits from 0 to below 2^WIDTH after the first, which has the sign.
fn carried<T: Binned>(bins: Bins) -> Bins {
    let mut digits = bins;
    for k in (1..NUM_BINS).rev() {
        digits[k - 1] += digits[k] >> T::WIDTH;
        digits[k] &= (1_i64 << T::WIDTH) - 1;
    }
    digits
}
