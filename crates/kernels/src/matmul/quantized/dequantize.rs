//! The kernel that writes weights of few bits as a matrix of numbers.

use warpfold_lang::{Global, Lazy, Val, block_idx, kernel, lane_id, params, warp_id, when};

use super::super::simt::divide;
use super::decode::{Decoder, Place, Zeros};
use super::layout::{BLOCK_ROWS, DEPTH, STEPS, num_pieces};
use super::scheme::Scheme;
use crate::elements::store;
use crate::kernel_name::KernelName;
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Threads of a block, which has a piece.
pub(super) const THREADS: u32 = 128;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DequantizeConfig {
    pub(super) dtype: Dtype,
    pub(super) scheme: Scheme,
}

params! {
    /// Parameters of the kernel: packed weights, a matrix, its shape.
    pub(super) struct DequantizeArgs {
        weights: Global<u8>, to: Global<u8>,
        rows: Lazy<u32>, columns: Lazy<u32>,
    }
}

/// A block writes the weights of a piece; rows of the matrix lie side by side.
pub(super) fn kernel_of(config: &DequantizeConfig) -> AnyKernel {
    let DequantizeConfig { dtype, scheme } = *config;
    let body = move |DequantizeArgs { weights, to, rows, columns }: DequantizeArgs| {
        overlap_launches();
        let (rows, columns) = (rows.get(), columns.get());
        let (half, number) = divide(block_idx().x, num_pieces(columns));
        let piece = weights.at(block_idx().x.cast::<i64>() * i64::from(scheme.piece_bytes()));
        let (warp, lane) = (warp_id(), lane_id());
        let row = (half >> 1) * BLOCK_ROWS + (warp * 16 + (half & 1) * 8 + (lane >> 2));
        when(row.lt(rows), || {
            let decoder = Decoder::load(scheme, piece, Place { warp, lane }, Zeros::Signed);
            let first = number * DEPTH + (lane & 3) * 2;
            let line = to.at(row.cast::<i64>() * columns.cast::<i64>() * dtype.bytes() as i64);
            write(&decoder, dtype, [first, columns], line);
        });
    };
    let name = KernelName::new("matmul_dequantize").part(scheme.key()).part(dtype);
    kernel(String::from(name), body).required_block(THREADS).into()
}

/// Writes a thread's weights of a piece to a row, from a column on.
pub(super) fn write(decoder: &Decoder, dtype: Dtype, [first, columns]: [Val<u32>; 2], line: Global<u8>) {
    let bytes = dtype.bytes() as u32;
    let to = line.at(first * bytes);
    for step in 0..STEPS {
        // K is whole steps.
        when((first + 16 * step).lt(columns), || {
            for (i, pair) in (0_u32..).zip(decoder.step(step)) {
                store(dtype, to.at((16 * step + 8 * i) * bytes), &pair, true);
            }
        });
    }
}
