//! Tensor maps for kernels of others: what `cuTensorMapEncodeTiled` would give them.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpfold_sim::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap, TensorType};

use crate::errors::raise;

/// The types in the order of PTX's `tensormap.replace`, which is how Triton numbers them.
const ELEMENTS: [TensorType; 13] = [
    TensorType::U8,
    TensorType::U16,
    TensorType::U32,
    TensorType::I32,
    TensorType::U64,
    TensorType::I64,
    TensorType::F16,
    TensorType::F32,
    TensorType::F32Ftz,
    TensorType::F64,
    TensorType::Bf16,
    TensorType::Tf32,
    TensorType::Tf32Ftz,
];

/// The swizzles in the same order.
const SWIZZLES: [MapSwizzle; 4] = [MapSwizzle::None, MapSwizzle::Bytes32, MapSwizzle::Bytes64, MapSwizzle::Bytes128];

/// The 128 bytes of a tiled tensor map. Sizes stand innermost first, strides are in bytes and leave
/// out the innermost; elements and swizzles have the numbers of `tensormap.replace`.
#[pyfunction]
#[pyo3(signature = (element, address, dims, strides, box_dims, *, swizzle, fills_nan))]
#[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
pub(crate) fn encode_tensor_map<'py>(
    py: Python<'py>,
    element: usize,
    address: u64,
    dims: Vec<u64>,
    strides: Vec<u64>,
    box_dims: Vec<u32>,
    swizzle: usize,
    fills_nan: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let unknown = |what: &str, number: usize| {
        raise(py, "ArgumentError", &format!("the virtual GPU has no tensor maps with {what} {number}"))
    };
    let map = TensorMap {
        element: *ELEMENTS.get(element).ok_or_else(|| unknown("elements of type", element))?,
        address,
        element_strides: vec![1; dims.len()],
        dims,
        strides,
        mode: MapMode::Tile { box_dims },
        interleave: Interleave::None,
        swizzle: *SWIZZLES.get(swizzle).ok_or_else(|| unknown("swizzle", swizzle))?,
        l2_promotion: L2Promotion::Bytes128,
        fill: if fills_nan { Fill::NanRequestZeroFma } else { Fill::Zero },
    };
    let bytes = map.encode().map_err(|error| raise(py, "ArgumentError", &format!("no tensor map: {error}")))?;
    Ok(PyBytes::new(py, &bytes))
}
