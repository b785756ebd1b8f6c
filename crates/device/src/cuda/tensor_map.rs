//! Encoding of tensor maps by the driver.

use cudarc::driver::sys;
use warpfold_sim::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap, TensorType};

use super::driver::{self, error};
use crate::{Error, ErrorKind};

const fn element(element: TensorType) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Type;
    match element {
        TensorType::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorType::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorType::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorType::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorType::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorType::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorType::F32Ftz => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
        TensorType::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorType::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorType::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        TensorType::Tf32Ftz => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    }
}

const fn interleave(interleave: Interleave) -> sys::CUtensorMapInterleave {
    use sys::CUtensorMapInterleave as To;
    match interleave {
        Interleave::None => To::CU_TENSOR_MAP_INTERLEAVE_NONE,
        Interleave::Bytes16 => To::CU_TENSOR_MAP_INTERLEAVE_16B,
        Interleave::Bytes32 => To::CU_TENSOR_MAP_INTERLEAVE_32B,
    }
}

const fn swizzle(swizzle: MapSwizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle as To;
    match swizzle {
        MapSwizzle::None => To::CU_TENSOR_MAP_SWIZZLE_NONE,
        MapSwizzle::Bytes32 => To::CU_TENSOR_MAP_SWIZZLE_32B,
        MapSwizzle::Bytes64 => To::CU_TENSOR_MAP_SWIZZLE_64B,
        MapSwizzle::Bytes128 => To::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

const fn promotion(promotion: L2Promotion) -> sys::CUtensorMapL2promotion {
    use sys::CUtensorMapL2promotion as To;
    match promotion {
        L2Promotion::None => To::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        L2Promotion::Bytes64 => To::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        L2Promotion::Bytes128 => To::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        L2Promotion::Bytes256 => To::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}

const fn fill(fill: Fill) -> sys::CUtensorMapFloatOOBfill {
    use sys::CUtensorMapFloatOOBfill as To;
    match fill {
        Fill::Zero => To::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        Fill::NanRequestZeroFma => To::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    }
}

/// A map aligned to 64 bytes, as the driver requires.
#[repr(C, align(64))]
struct Aligned(sys::CUtensorMap);

/// Encodes a map that was checked.
pub(super) fn encode(map: &TensorMap) -> Result<[u8; 128], Error> {
    if !driver::has(c"cuTensorMapEncodeTiled") {
        let (what, device) = ("a tensor map", "an older driver".to_owned());
        return Err(ErrorKind::WrongKindOfDevice { what, needed: "drivers from CUDA 12.0 on", device }.into());
    }
    let mut encoded = Aligned(sys::CUtensorMap { opaque: [0; 16] });
    let rank = map.dims.len() as u32;
    let address = map.address as *mut std::ffi::c_void;
    // The driver reads as many strides as there are dimensions but one; of a vector that is none,
    // and still wants a pointer.
    let mut strides = map.strides.clone();
    strides.push(0);
    let result = match &map.mode {
        // SAFETY: each array has as many elements as the rank says, and the destination is aligned;
        // the address is only written into the map.
        MapMode::Tile { box_dims } => unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut encoded.0,
                element(map.element),
                rank,
                address,
                map.dims.as_ptr(),
                strides.as_ptr(),
                box_dims.as_ptr(),
                map.element_strides.as_ptr(),
                interleave(map.interleave),
                swizzle(map.swizzle),
                promotion(map.l2_promotion),
                fill(map.fill),
            )
        },
        // SAFETY: as above; corners have one element a spatial dimension.
        MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column } => unsafe {
            sys::cuTensorMapEncodeIm2col(
                &raw mut encoded.0,
                element(map.element),
                rank,
                address,
                map.dims.as_ptr(),
                strides.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                *channels_per_pixel,
                *pixels_per_column,
                map.element_strides.as_ptr(),
                interleave(map.interleave),
                swizzle(map.swizzle),
                promotion(map.l2_promotion),
                fill(map.fill),
            )
        },
    };
    result.result().map_err(|e| error("encoding a tensor map", e))?;
    correct_im2col(map, &mut encoded.0);
    let mut bytes = [0; 128];
    for (to, word) in bytes.chunks_exact_mut(8).zip(encoded.0.opaque) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

/// NOTE: drivers up to CUDA 13.1 set bit 21 of the second word of im2col maps of tensors below 128
/// KiB, which makes loads wrong; CUTLASS clears it
/// (`include/cute/atom/copy_traits_sm90_im2col.hpp`), and so is done here.
fn correct_im2col(map: &TensorMap, encoded: &mut sys::CUtensorMap) {
    let (start, end) = map.extent();
    let is_small = end - start < 131_072;
    let is_affected = driver::version().is_ok_and(|version| (version.major, version.minor) <= (13, 1));
    if is_small && is_affected && matches!(map.mode, MapMode::Im2col { .. }) {
        encoded.opaque[1] &= !(1 << 21);
    }
}
