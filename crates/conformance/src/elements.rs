//! Elements of several types as bytes: what benches that time every kernel of a problem compare.

use warpfold_kernels::Dtype;

/// Floats of 16 and 32 bits, whole numbers of 32; bytes of any other type as whole numbers with
/// signs.
#[must_use]
pub fn values_of(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::Bf16 => bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        Dtype::F16 => bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::I32 => bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32).collect(),
        _ => bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
    }
}

/// Returns whether two results differ by rounding only, measured by the largest element.
#[must_use]
pub fn are_close(dtype: Dtype, left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (values_of(dtype, left), values_of(dtype, right));
    let scale = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    left.iter().zip(&right).all(|(left, right)| (left - right).abs() <= 0.02 * scale)
}
