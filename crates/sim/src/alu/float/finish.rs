//! Canonical NaNs, flushing to zero and saturation, before and after an operation.

/// The canonical NaN of `.f32`.
pub(crate) const NAN32: u32 = 0x7fff_ffff;
/// The canonical NaN of `.f16` and `.bf16`.
pub(crate) const NAN16: u16 = 0x7fff;
/// The NaN of an invalid operation of `.f64`.
pub(crate) const NAN64: u64 = 0xfff8_0000_0000_0000;
/// The bit that makes an `.f64` NaN quiet.
pub(crate) const QUIET64: u64 = 0x0008_0000_0000_0000;

/// The bits of a result, any NaN replaced by the canonical one: Rust does not say which NaN an
/// operation gives.
#[inline(always)]
pub(crate) fn canonical(x: f32) -> u32 {
    if x.is_nan() { NAN32 } else { x.to_bits() }
}

/// The bits of a result of `.f64`; a NaN is that of the first NaN among the operands.
#[inline(always)]
pub(crate) fn propagate<const N: usize>(x: f64, operands: [f64; N]) -> u64 {
    let mut nan = NAN64;
    for operand in operands.into_iter().rev() {
        nan = if operand.is_nan() { operand.to_bits() | QUIET64 } else { nan };
    }
    if x.is_nan() { nan } else { x.to_bits() }
}

/// `.ftz`: a subnormal number becomes zero with its sign.
#[inline(always)]
pub(crate) fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// [`flush`] under a flag that is known at run time or at compile time.
#[inline(always)]
pub(crate) fn flush_if(ftz: bool, x: f32) -> f32 {
    if ftz { flush(x) } else { x }
}

/// `.sat`: clamped to [0, 1], NaN and -0 to +0.
#[inline(always)]
pub(crate) fn saturate(x: f32) -> f32 {
    let x = if x > 0.0 { x } else { 0.0 };
    if x > 1.0 { 1.0 } else { x }
}

/// The bits of an `.f32` result under its modifiers.
#[inline(always)]
pub(crate) fn finish(ftz: bool, sat: bool, x: f32) -> u32 {
    let x = flush_if(ftz, x);
    if sat { saturate(x).to_bits() } else { canonical(x) }
}

/// A product under `.ftz`, which flushes operands, and results before they are rounded: one that
/// only rounding lifts to the smallest normal number is zero.
#[inline(always)]
pub(crate) fn finish_product(ftz: bool, a: f32, b: f32) -> u32 {
    let (a, b) = (flush_if(ftz, a), flush_if(ftz, b));
    let product = a * b;
    let is_below = (f64::from(a) * f64::from(b)).abs() < f64::from(f32::MIN_POSITIVE);
    if ftz && is_below { product.to_bits() & 0x8000_0000 } else { canonical(product) }
}
