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
    pub(in crate::attention) keys: Option<MappedKeys>,
}

/// Where TMA reads keys and, unless they have to be transposed, values.
#[derive(Debug)]
pub(in crate::attention) struct MappedKeys {
    pub(in crate::attention) keys: TensorLayout,
    pub(in crate::attention) values: Option<TensorLayout>,
    /// Keys of a box.
    pub(in crate::attention) of_box: u32,
}

/// What TMA can read of a problem (CUDA driver API, `cuTensorMapEncodeTiled`): elements side by
/// side, other strides multiples of 16 bytes.
pub(in crate::attention) fn maps(problem: &Problem, tile: WgmmaTile) -> Maps {
    let Problem { heads, head_dim, .. } = *problem;
    let group = problem.group();
    let aligned = problem.alignment >= 16;
    let bytes = u64::from(tile.element_bytes);
    // Memory's order: the innermost dimension first.
    let queries = match &problem.queries {
        Queries::Dense { batch, len, strides: [b, h, s, e], .. } => {
            (*e == 1).then_some([(heads, *h), (*len, *s), (*batch, *b)])
        }
        Queries::Packed { total, strides: [s, h, e], .. } => (*e == 1).then_some([(heads, *h), (*total, *s), (1, 0)]),
    };
    let is_even = 64_u64.is_multiple_of(group);
    let queries = queries.filter(|_| aligned && is_even && problem.dtype.bytes() == bytes);
    let queries = queries.and_then(|dims| layout((head_dim, bytes), dims, [group as u32, 64 / group as u32]));
    // 8-bit values are transposed by threads.
    let keys = mapped_keys(problem, (bytes, tile.keys), bytes > 1);
    Maps { queries, keys }
}

/// What TMA can read of keys and, if they are asked for, values, of elements of so many bytes, in
/// tiles of so many keys.
pub(in crate::attention) fn mapped_keys(
    problem: &Problem,
    (bytes, tile_keys): (u64, u32),
    with_values: bool,
) -> Option<MappedKeys> {
    let Problem { kv_heads, head_dim, value_dim, .. } = *problem;
    let box_keys = match problem.keys {
        // The largest power of two that pages are multiples of.
        Keys::Paged { page, .. } => (1 << page.trailing_zeros().min(7)).min(tile_keys),
        Keys::Dense { .. } | Keys::Padded { .. } | Keys::Packed { .. } => tile_keys,
    };
    let of_keys = |dim: u64, strides: &[i64; 4]| {
        let [first, head, position, element] = *strides;
        let sizes = match problem.keys {
            Keys::Dense { len, .. } | Keys::Padded { len, .. } => [len, kv_heads, problem.batch()],
            Keys::Packed { total, .. } => [total, kv_heads, 1],
            Keys::Paged { page, pages, .. } => [page, kv_heads, pages],
        };
        let dims = [(sizes[0], position), (sizes[1], head), (sizes[2], first)];
        (element == 1).then_some(dims).and_then(|dims| layout((dim, bytes), dims, [box_keys, 1]))
    };
    let [k_strides, v_strides] = problem.keys.strides();
    let (keys, values) = (of_keys(head_dim, k_strides), of_keys(value_dim, v_strides));
    let is_possible = problem.alignment >= 16
        && problem.kv_dtype.bytes() == bytes
        && box_keys >= 8
        && problem.max_keys() > 0
        && (!with_values || values.is_some());
    keys.filter(|_| is_possible).map(|keys| MappedKeys {
        keys,
        values: values.filter(|_| with_values),
        of_box: box_keys,
    })
}

/// A map of elements of so many bytes, with boxes of one panel.
fn layout((dim, bytes): (u64, u64), outer: [(u64, i64); 3], boxes: [u32; 2]) -> Option<TensorLayout> {
    // Strides are multiples of 16 bytes.
    let of_piece = 16 / bytes as i64;
    let is_fine =
        |(size, stride): &(u64, i64)| *size == 1 || (*stride > 0 && stride % of_piece == 0 && *stride < (1 << 39));
    if outer.iter().any(|(size, _)| *size == 0) || !outer.iter().all(is_fine) {
        return None;
    }
    let swizzle = swizzle(bytes as u32 * padded(dim as u32));
    let dims = [&[dim][..], &outer.map(|(size, _)| size)].concat();
    // Where there is one of a dimension, any stride does that the rules allow.
    let strides = outer.map(|(size, stride)| if size == 1 { of_piece as u64 } else { stride as u64 });
    let map_swizzle = match swizzle {
        Swizzle::Bytes32 => MapSwizzle::Bytes32,
        Swizzle::Bytes64 => MapSwizzle::Bytes64,
        Swizzle::Bytes128 => MapSwizzle::Bytes128,
    };
    Some(TensorLayout::tiled(&dims, &strides, &[swizzle.bytes() / bytes as u32, boxes[0], boxes[1], 1], map_swizzle))
}
