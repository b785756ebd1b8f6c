//! What files say, read by other code than that of the library: one element at a time.

use half::{bf16, f16};
use warpfold::Dtype;

use super::written::{Kind, Scales, Tensor};

/// Appends an element in a type.
fn push(bytes: &mut Vec<u8>, value: f32, dtype: Dtype) {
    match dtype {
        Dtype::F32 => bytes.extend(value.to_le_bytes()),
        Dtype::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
        Dtype::Bf16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
        other => panic!("nobody computes in {other}"),
    }
}

/// All elements of a tensor as Hugging Face means them, as bytes of a type; with `plus_one` as they
/// are once 1 is added.
pub(super) fn elements(tensor: &Tensor, dtype: Dtype, plus_one: bool) -> Vec<u8> {
    let file = std::fs::read(&tensor.file).expect("the file is there");
    let scales = tensor.scales.as_ref().map(|scales| (scales, std::fs::read(&scales.file).expect("a file")));
    let (rows, width) = (tensor.shape[0], tensor.shape[1..].iter().product::<usize>());
    let mut all = Vec::with_capacity(rows * width * dtype.bytes() as usize);
    for row in 0..rows {
        // Rotations of llama.cpp turn neighbours, those of Hugging Face halves of a head.
        let stored_row = tensor.paired_heads.map_or(row, |heads| {
            let dim = rows / heads;
            let (head, at) = (row / dim, row % dim);
            if at < dim / 2 { head * dim + 2 * at } else { head * dim + 2 * (at - dim / 2) + 1 }
        });
        for column in 0..width {
            let mut value = stored(tensor.kind, &file[tensor.start..], stored_row * width + column);
            if let Some((scales, bytes)) = &scales {
                value *= scale(scales, &bytes[scales.start..], row, column);
            }
            if tensor.is_plus_one {
                value -= 1.0;
            }
            if plus_one {
                value += 1.0;
            }
            push(&mut all, value, dtype);
        }
    }
    all
}

fn scale(scales: &Scales, bytes: &[u8], row: usize, column: usize) -> f32 {
    let at = (row / scales.block[0]) * scales.shape[1] + column / scales.block[1];
    f32::from_le_bytes(bytes[4 * at..][..4].try_into().expect("four bytes"))
}

fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// The element with this number of a list in a format of `ggml-quants.c`, or of floats.
fn stored(kind: Kind, bytes: &[u8], number: usize) -> f32 {
    let (block, i) = (&bytes[number / kind.block_len() * kind.block_bytes()..], number % kind.block_len());
    let nibble = |bytes: &[u8], i: usize| f32::from(if i < 16 { bytes[i] & 0xf } else { bytes[i - 16] >> 4 });
    match kind {
        Kind::F32 => f32::from_le_bytes(block[..4].try_into().expect("four bytes")),
        Kind::F16 => half_at(block, 0),
        Kind::Bf16 => f32::from_bits(u32::from(u16::from_le_bytes([block[0], block[1]])) << 16),
        Kind::F8 => {
            let (sign, exponent, fraction) = (block[0] >> 7, i32::from(block[0] >> 3 & 15), f32::from(block[0] & 7));
            let size = if exponent == 0 { fraction / 512.0 } else { (1.0 + fraction / 8.0) * 2_f32.powi(exponent - 7) };
            if sign == 1 { -size } else { size }
        }
        Kind::Q8_0 => half_at(block, 0) * f32::from(block[2 + i] as i8),
        Kind::Q4_0 => half_at(block, 0) * (nibble(&block[2..], i) - 8.0),
        Kind::Q4_1 => half_at(block, 0) * nibble(&block[4..], i) + half_at(block, 2),
        Kind::Q5_0 => {
            let fifth = block[2 + i / 8] >> (i % 8) & 1;
            half_at(block, 0) * (nibble(&block[6..], i) + f32::from(fifth) * 16.0 - 16.0)
        }
        Kind::Q4K => {
            let (group, q) = (i / 32, block[16 + 32 * (i / 64) + i % 32]);
            let q = if group % 2 == 0 { q & 0xf } else { q >> 4 };
            let six = &block[4..16];
            let (scale, least) = if group < 4 {
                (six[group] & 63, six[group + 4] & 63)
            } else {
                let low = six[group + 4];
                ((low & 0xf) | (six[group - 4] >> 6) << 4, (low >> 4) | (six[group] >> 6) << 4)
            };
            half_at(block, 0) * f32::from(scale) * f32::from(q) - half_at(block, 2) * f32::from(least)
        }
        Kind::Q6K => {
            let (half, quarter, l) = (i / 128, i % 128 / 32, i % 32);
            let low = block[64 * half + 32 * (quarter % 2) + l];
            let low = if quarter < 2 { low & 0xf } else { low >> 4 };
            let high = block[128 + 32 * half + l] >> (2 * quarter) & 3;
            let group = block[192 + 8 * half + 2 * quarter + l / 16] as i8;
            half_at(block, 208) * f32::from(group) * (f32::from(low | high << 4) - 32.0)
        }
    }
}
