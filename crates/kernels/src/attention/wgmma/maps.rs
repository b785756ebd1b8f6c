//! Tensor maps of queries, keys and values, where TMA can read them.

use warpfold_device::{MapSwizzle, TensorLayout};
use warpfold_lang::Swizzle;

use super::super::config::{padded, swizzle};
use super::super::problem::{Keys, Problem, Queries};
use super::tile::WgmmaTile;

/// The maps of queries, and of keys and values with how many keys a box has.
#[derive(Debug)]
pub(in crate::attention) struct Maps {
    pub(in crate::attention) queries: Option<TensorLayout>,
    pub(in crate::attention) keys: Option<([TensorLayout; 2], u32)>,
}

/// What TMA can read of a problem (CUDA driver API, `cuTensorMapEncodeTiled`): elements side by
/// side, other strides multiples of 16 bytes.
pub(in crate::attention) fn maps(problem: &Problem, tile: WgmmaTile) -> Maps {
    let Problem { heads, kv_heads, head_dim, value_dim, .. } = *problem;
    let group = problem.group();
    let aligned = problem.alignment >= 16;
    // Memory's order: the innermost dimension first.
    let queries = match &problem.queries {
        Queries::Dense { batch, len, strides: [b, h, s, e], .. } => {
            (*e == 1).then_some([(heads, *h), (*len, *s), (*batch, *b)])
        }
        Queries::Packed { total, strides: [s, h, e], .. } => (*e == 1).then_some([(heads, *h), (*total, *s), (1, 0)]),
    };
    let is_even = 64_u64.is_multiple_of(group);
    let queries = queries.filter(|_| aligned && is_even && problem.dtype.bytes() == 2);
    let queries = queries.and_then(|dims| layout(head_dim, dims, [group as u32, 64 / group as u32]));
    let box_keys = match problem.keys {
        // The largest power of two that pages are multiples of.
        Keys::Paged { page, .. } => (1 << page.trailing_zeros().min(7)).min(tile.keys),
        Keys::Dense { .. } | Keys::Padded { .. } | Keys::Packed { .. } => tile.keys,
    };
    let of_keys = |dim: u64, strides: &[i64; 4]| {
        let [first, head, position, element] = *strides;
        let sizes = match problem.keys {
            Keys::Dense { len, .. } | Keys::Padded { len, .. } => [len, kv_heads, problem.batch()],
            Keys::Packed { total, .. } => [total, kv_heads, 1],
            Keys::Paged { page, pages, .. } => [page, kv_heads, pages],
        };
        let dims = [(sizes[0], position), (sizes[1], head), (sizes[2], first)];
        (element == 1).then_some(dims).and_then(|dims| layout(dim, dims, [box_keys, 1]))
    };
    let [k_strides, v_strides] = problem.keys.strides();
    let keys = of_keys(head_dim, k_strides).zip(of_keys(value_dim, v_strides));
    let is_possible = aligned && problem.kv_dtype.bytes() == 2 && box_keys >= 8 && problem.max_keys() > 0;
    Maps { queries, keys: keys.filter(|_| is_possible).map(|(k, v)| ([k, v], box_keys)) }
}

/// A map of 16-bit elements, with boxes of one panel.
fn layout(dim: u64, outer: [(u64, i64); 3], boxes: [u32; 2]) -> Option<TensorLayout> {
    let is_fine = |(size, stride): &(u64, i64)| *size == 1 || (*stride > 0 && stride % 8 == 0 && *stride < (1 << 39));
    if outer.iter().any(|(size, _)| *size == 0) || !outer.iter().all(is_fine) {
        return None;
    }
    let swizzle = swizzle(padded(dim as u32));
    let dims = [&[dim][..], &outer.map(|(size, _)| size)].concat();
    // Where there is one of a dimension, any stride does that the rules allow.
    let strides = outer.map(|(size, stride)| if size == 1 { 8 } else { stride as u64 });
    let map_swizzle = match swizzle {
        Swizzle::Bytes32 => MapSwizzle::Bytes32,
        Swizzle::Bytes64 => MapSwizzle::Bytes64,
        Swizzle::Bytes128 => MapSwizzle::Bytes128,
    };
    Some(TensorLayout::tiled(&dims, &strides, &[swizzle.bytes() / 2, boxes[0], boxes[1], 1], map_swizzle))
}
