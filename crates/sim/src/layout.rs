//! Layout: sizes and offsets of variables and parameters.

use warpfold_ptx::{Immediate, Initializer, ScalarType as T, Variable};

use crate::Error;

/// Size and offset of a kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name.
    pub name: String,
    /// Offset in the parameter bytes.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Its alignment.
    pub align: u32,
}

/// An error about a variable.
pub(crate) fn invalid_variable(v: &Variable, reason: &str) -> Error {
    Error::Invalid { line: v.span.line, text: v.name.to_string(), reason: reason.to_owned() }
}

/// Size of a variable; `None` if it is only known at the launch.
pub(crate) fn bytes_of(v: &Variable) -> Option<u64> {
    let element = u64::from(v.ty.bytes()) * u64::from(v.vector);
    let known: Option<Vec<u64>> = v.dims.iter().copied().collect();
    match known {
        Some(dims) => dims.iter().try_fold(element, |all, d| all.checked_mul(*d)),
        None => match &v.init {
            // The size of `name[] = { … }` is that of its list.
            Some(Initializer::List(list)) => {
                let inner = v.dims.iter().skip(1).map(|d| d.unwrap_or(1));
                inner.chain([list.len() as u64]).try_fold(element, u64::checked_mul)
            }
            _ => None,
        },
    }
}

// THRESHOLD: larger variables are refused; tested by
// crates/cli/tests/program/bad_input.rs::variables_larger_than_any_device
/// Bytes that the variables of a space may take together: far more than any device has, far less
/// than `u32` can count.
const LARGEST_SPACE: u32 = 1 << 28;

/// Start and end of `bytes` bytes at a multiple of `align`, at or after `end`; `None` if that is
/// too far.
pub(crate) fn place(end: u32, align: u32, bytes: u32) -> Option<(u32, u32)> {
    let start = end.checked_next_multiple_of(align)?;
    let end = start.checked_add(bytes).filter(|&end| end <= LARGEST_SPACE)?;
    Some((start, end))
}

/// The bits of a literal as a value of a type: numbers become floats of that type, others are
/// truncated to its width.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "literals are cut to their type")]
pub(crate) fn literal_bits(value: Immediate, ty: T) -> u128 {
    let bits = match (value, ty) {
        (Immediate::Int(n), T::F32) => u128::from((n as f32).to_bits()),
        (Immediate::Int(n), T::F64) => u128::from((n as f64).to_bits()),
        (Immediate::Int(n), _) => n as u128,
        (Immediate::F32(b), T::F64) => u128::from(f64::from(f32::from_bits(b)).to_bits()),
        (Immediate::F32(b), _) => u128::from(b),
        (Immediate::F64(b), T::F32) => u128::from((f64::from_bits(b) as f32).to_bits()),
        (Immediate::F64(b), _) => u128::from(b),
    };
    bits & (u128::MAX >> (128 - ty.bits().clamp(1, 128)))
}

/// Places kernel parameters one after the other, each aligned.
pub(crate) fn parameters(params: &[Variable]) -> Result<Vec<ParamInfo>, Error> {
    let mut end = 0;
    params
        .iter()
        .map(|v| {
            let bytes = bytes_of(v)
                .and_then(|b| u32::try_from(b).ok())
                .ok_or_else(|| invalid_variable(v, "the size of a parameter must be known"))?;
            let align = v.align.unwrap_or(v.ty.bytes() * v.vector).max(1);
            let (offset, next) = place(end, align, bytes).ok_or_else(|| invalid_variable(v, "it is too large"))?;
            end = next;
            Ok(ParamInfo { name: v.name.to_string(), offset, bytes, align })
        })
        .collect()
}

/// The name for placing a `.global` or `.const` variable of a function: not a name of the text,
/// since other functions and scopes may have a variable with the same name.
pub(crate) fn static_name(v: &Variable) -> String {
    format!("{}@{}:{}", v.name, v.span.line, v.span.column)
}
