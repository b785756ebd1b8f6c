//! Element types of candle by ours.

use candle_core::bail;
use warpfold_kernels::Dtype;

/// The type whose elements have the same bits.
#[cfg_attr(not(feature = "candle-cuda"), expect(dead_code, reason = "storages of the CPU carry their types"))]
pub(super) fn of_candle(dtype: candle_core::DType) -> candle_core::Result<Dtype> {
    use candle_core::DType as Theirs;
    Ok(match dtype {
        Theirs::U8 => Dtype::U8,
        Theirs::U32 => Dtype::U32,
        Theirs::I16 => Dtype::I16,
        Theirs::I32 => Dtype::I32,
        Theirs::I64 => Dtype::I64,
        Theirs::BF16 => Dtype::Bf16,
        Theirs::F16 => Dtype::F16,
        Theirs::F32 => Dtype::F32,
        Theirs::F64 => Dtype::F64,
        other => return not_taken(&format!("{other:?}")),
    })
}

/// No tensor of ours has such elements.
pub(super) fn not_taken<T>(dtype: &str) -> candle_core::Result<T> {
    bail!("warpfold takes no elements of candle's type {dtype}")
}

/// No tensor of candle has such elements.
pub(super) fn not_given<T>(dtype: Dtype) -> candle_core::Result<T> {
    bail!("candle has no elements of type {dtype}: cast first")
}
