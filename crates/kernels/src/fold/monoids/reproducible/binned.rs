//! What binned summation needs to know about a float.

use warpfold_lang::{Val, WideFloat};

use crate::elements::Compute;

/// A float whose sums can be binned.
pub trait Binned: Compute + WideFloat {
    /// Exponents a bin.
    const WIDTH: u32;
    /// The lowest top that is told apart: four bins below it, the unit is smaller than any number.
    const LOWEST_TOP: i32;
    /// Added to a smaller number it leaves no bits after the point, and its own bits count up with
    /// the number.
    const ROUNDER: f64;

    /// `2^exponent`, for a normal number.
    fn power_of_two(exponent: Val<i32>) -> Val<Self>;

    /// The exponent of a finite magnitude as it is stored, and that of 1.
    fn exponent(magnitude: Val<Self>) -> (Val<i32>, i32);

    /// How many last places numbers lie above `rounder`, all together; it is the number that all
    /// were rounded by.
    fn sum_of_places(rounded: &[Val<Self>], rounder: Self) -> Val<i64>;

    /// The factor that brings the top to 2^WIDTH.
    fn scale(top: Val<i32>) -> Val<Self> {
        let width = Self::WIDTH.cast_signed();
        Self::power_of_two(top.mul_add(-width, width))
    }

    /// The lowest top above a finite magnitude.
    fn top_of(magnitude: Val<Self>) -> Val<i32> {
        /// Enough to make every numerator positive.
        const LIFT: i32 = 64;
        let width = Self::WIDTH.cast_signed();
        let (exponent, of_one) = Self::exponent(magnitude);
        // The magnitude is below 2^(exponent + 1); divided by the width and rounded up.
        let tops = (exponent + (LIFT * width - of_one + width)).cast::<u32>() / Self::WIDTH;
        (tops.cast::<i32>() - LIFT).max(Self::LOWEST_TOP)
    }
}

impl Binned for f32 {
    const WIDTH: u32 = 22;
    const LOWEST_TOP: i32 = -4;
    const ROUNDER: f64 = 1.5 * (1_u32 << 23) as f64;

    fn power_of_two(exponent: Val<i32>) -> Val<Self> {
        ((exponent + 127) << 23).bitcast()
    }

    fn exponent(magnitude: Val<Self>) -> (Val<i32>, i32) {
        (magnitude.bitcast::<i32>() >> 23, 127)
    }

    fn sum_of_places(rounded: &[Val<Self>], rounder: Self) -> Val<i64> {
        // Up to 2^8 numbers of 2^22 places: the sum of their bits wraps, and the difference does
        // not.
        let bits = rounded.iter().map(|x| x.bitcast::<i32>()).reduce(|a, b| a + b).expect("there is an item");
        let of_rounder = rounder.to_bits().cast_signed().wrapping_mul(rounded.len() as i32);
        (bits - of_rounder).cast()
    }
}

impl Binned for f64 {
    const WIDTH: u32 = 28;
    const LOWEST_TOP: i32 = -35;
    const ROUNDER: f64 = 1.5 * (1_u64 << 52) as f64;

    fn power_of_two(exponent: Val<i32>) -> Val<Self> {
        ((exponent + 1023).cast::<i64>() << 52).bitcast()
    }

    fn exponent(magnitude: Val<Self>) -> (Val<i32>, i32) {
        ((magnitude.bitcast::<i64>() >> 52).cast(), 1023)
    }

    fn sum_of_places(rounded: &[Val<Self>], rounder: Self) -> Val<i64> {
        let bits = rounded.iter().map(|x| x.bitcast::<i64>()).reduce(|a, b| a + b).expect("there is an item");
        bits - rounder.to_bits().cast_signed().wrapping_mul(rounded.len() as i64)
    }
}
