//! The multifunction unit (`MUFU`): the approximate functions of `.f32`, bit-identical to an H200.
//!
//! The fraction's first bits choose a segment and its three coefficients in [`tables`], the others
//! are the distance in it; the square of the distance is truncated; the sum is truncated (S.
//! Oberman and M. Siu, "A high-performance area-efficient multifunction interpolator", ARITH-17,
//! 2005). How the square is truncated is known from the envytools project, which describes the
//! unit of 2006; the coefficients are found from measurements, and agree with the unit wherever
//! its hashes were compared. Subnormal numbers are zero here, before and after; the instructions
//! of PTX scale where they must ([`super::approx`], [`super::divide`]). `CALIBRATION.md`,
//! "Approximate functions", has the proof.
//!
//! Everything is selection and integers: the same on every host.

mod tables;

use self::tables::{LOGARITHM, POWER, RECIPROCAL, RECIPROCAL_ROOT, ROOT, Segment, TANGENT, TANGENT_OCTAVES, WAVE};
use super::finish::NAN32;

/// Infinity.
const INFINITE: u32 = 0x7f80_0000;
/// The sign.
const SIGN: u32 = 0x8000_0000;

/// Half of the square of a 17-bit number, over 2^18: each partial product is truncated.
#[inline(always)]
fn square(x: u32) -> u32 {
    let mut sum = 0;
    for bit in 0..17 {
        sum += (x >> (18 - bit)) & 0u32.wrapping_sub(x >> bit & 1);
    }
    sum >> 1
}

/// `A + B x + C x^2`, with the coefficients of a segment.
#[inline(always)]
fn interpolate(table: &[Segment], segment: u32, x: u32, square: u32) -> i64 {
    let (a, b, c) = table[segment as usize];
    a + i64::from(b) * i64::from(x) + i64::from(c) * i64::from(square)
}

/// The lower 23 bits (the fraction) and the biased exponent.
#[inline(always)]
fn parts(x: u32) -> (u32, i32) {
    (x & 0x7f_ffff, (x >> 23 & 0xff) as i32)
}

/// A positive number from a significand of 24 bits (or 2^24) and a biased exponent; zero if it is
/// below the normal numbers.
#[inline(always)]
fn assemble(significand: i64, exponent: i32) -> u32 {
    let bits = (exponent << 23) + (significand as i32 - (1 << 23));
    if bits < 1 << 23 { 0 } else { bits as u32 }
}

/// A number of at most 2^63 units of 2^-`scale`, truncated.
#[inline(always)]
fn normalise(magnitude: i64, scale: i32) -> u32 {
    let leading = magnitude.leading_zeros() as i32;
    // The leading bit moves to bit 63.
    let significand = ((magnitude as u64) << (leading & 63)) >> 40;
    if magnitude == 0 { 0 } else { ((126 + 64 - leading - scale) as u32) << 23 | significand as u32 & 0x7f_ffff }
}

/// `MUFU.RCP`
#[inline(always)]
pub(super) fn reciprocal(x: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    let at = fraction & 0xffff;
    let value = interpolate(&RECIPROCAL, fraction >> 16, at, square(at << 1)) >> 15;
    let finite = assemble(value, 253 - exponent);
    let result = if exponent == 0 { INFINITE } else { finite };
    let result = if exponent == 255 { 0 } else { result };
    if exponent == 255 && fraction != 0 { NAN32 } else { result | x & SIGN }
}

/// `MUFU.RSQ`
#[inline(always)]
pub(super) fn reciprocal_root(x: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    let unbiased = exponent - 127;
    let wide = fraction | ((unbiased & 1) as u32) << 23;
    let at = wide & 0x1_ffff;
    let value = interpolate(&RECIPROCAL_ROOT, wide >> 17, at, square(at)) >> 16;
    let value = if wide == 0 { 1 << 24 } else { value };
    let finite = assemble(value, 126 - (unbiased >> 1));
    let result = if exponent == 255 { 0 } else { finite };
    let result = if x & SIGN != 0 || exponent == 255 && fraction != 0 { NAN32 } else { result };
    if exponent == 0 { INFINITE | x & SIGN } else { result }
}

/// `MUFU.SQRT`
#[inline(always)]
pub(super) fn root(x: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    let unbiased = exponent - 127;
    let wide = fraction | ((unbiased & 1) as u32) << 23;
    let at = wide & 0x1_ffff;
    let value = interpolate(&ROOT, wide >> 17, at, square(at)) >> 17;
    let finite = assemble(value, 127 + (unbiased >> 1));
    let result = if exponent == 255 { INFINITE } else { finite };
    let result = if x & SIGN != 0 || exponent == 255 && fraction != 0 { NAN32 } else { result };
    if exponent == 0 { x & SIGN } else { result }
}

/// A magnitude below 2^8 in units of 2^-23, truncated.
#[inline(always)]
fn fixed(fraction: u32, exponent: i32) -> u32 {
    let significand = fraction | 1 << 23;
    let left = (exponent - 127).clamp(0, 7);
    let right = (127 - exponent).clamp(0, 31);
    significand << left >> right
}

/// `MUFU.EX2`
#[inline(always)]
pub(super) fn power_of_two(x: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    let magnitude = if exponent == 0 { 0 } else { fixed(fraction, exponent) };
    let signed = if x & SIGN == 0 { magnitude as i32 } else { !(magnitude as i32) };
    let signed = if magnitude & 0x7f_ffff == 0 && x & SIGN != 0 { -(magnitude as i32) } else { signed };
    let (whole, part) = (signed >> 23, signed as u32 & 0x7f_ffff);
    let at = part & 0x1_ffff;
    let value = interpolate(&POWER, part >> 17, at, square(at)) >> 15;
    let finite = assemble(value, (127 + whole).clamp(-1, 255));
    let beyond = if x & SIGN == 0 { INFINITE } else { 0 };
    let result = if exponent >= 127 + 7 || finite > INFINITE { beyond } else { finite };
    if exponent == 255 && fraction != 0 { NAN32 } else { result }
}

/// `MUFU.LG2`
#[inline(always)]
pub(super) fn logarithm(x: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    let at = fraction & 0x1_ffff;
    let part = interpolate(&LOGARITHM, fraction >> 17, at, square(at)) >> 2;
    let part = if fraction == 0 && exponent == 127 { 0 } else { part };
    let sum = part + (i64::from(exponent - 127) << 36);
    let finite = if sum < 0 { normalise(!sum, 36) | SIGN } else { normalise(sum, 36) };
    let result = if exponent == 255 { INFINITE } else { finite };
    let result = if x & SIGN != 0 || exponent == 255 && fraction != 0 { NAN32 } else { result };
    if exponent == 0 { INFINITE | SIGN } else { result }
}

/// `MUFU.SIN` and, a quarter further on, `MUFU.COS`; the argument is in revolutions.
#[inline(always)]
fn wave(x: u32, quarters: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    // Quarters of a revolution, with 23 bits after the point; whole revolutions drop out.
    let significand = u64::from(fraction | 1 << 23);
    let shift = exponent - 127 + 2;
    let scaled = if shift >= 0 { significand << shift.min(40) } else { significand >> (-shift).min(40) } as u32;
    let scaled = if exponent == 0 || shift > 25 { 0 } else { scaled };
    let quarter = (scaled >> 23).wrapping_add(quarters);
    let part = if quarter & 1 != 0 { !scaled } else { scaled } & 0x7f_ffff;
    let at = part & 0x1_ffff;
    let value = interpolate(&WAVE, part >> 17, at, square(at));
    let sign = (quarter >> 1 & 1) << 31 ^ if quarters == 0 { x & SIGN } else { 0 };
    let result = normalise(value, 37) | sign;
    if exponent == 255 { NAN32 } else { result }
}

/// `MUFU.SIN`
#[inline(always)]
pub(super) fn sine(x: u32) -> u32 {
    wave(x, 0)
}

/// `MUFU.COS`
#[inline(always)]
pub(super) fn cosine(x: u32) -> u32 {
    wave(x, 1)
}

/// `MUFU.TANH`
#[inline(always)]
pub(super) fn tangent(x: u32) -> u32 {
    let (fraction, exponent) = parts(x);
    let octave = (exponent - 119).clamp(0, 10) as usize;
    let (first, bits, scale) = TANGENT_OCTAVES[octave];
    let at = (fraction & (0x7f_ffff >> bits)) >> (6 - bits);
    let value = interpolate(&TANGENT, first + (fraction >> (23 - bits)), at, square(at));
    let between = normalise(value, scale).min(ONE);
    let result = if exponent < 119 { x & !SIGN } else { between };
    let result = if exponent >= 130 { ONE } else { result };
    if exponent == 255 && fraction != 0 { NAN32 } else { result | x & SIGN }
}

/// The bits of 1.
const ONE: u32 = 0x3f80_0000;
