//! Products with weights of few bits: `c = epilogue(x Wᵀ)`, where `W` lies as it is stored.
//!
//! Contract: `W` is `n` x `k` codes with scales ([`Scheme`]), laid out by [`Scheme::pack`]. A
//! weight is `scale · (code - zero) + offset` in `f32`, rounded once to the type of the rows. The
//! bits of the result are those of the batch-invariant product ([`Problem`](super::Problem)) with
//! `W` as a matrix of such weights, whatever the number of rows: K is summed in the same steps of
//! 16, in order.
//!
//! Start with [`Scheme`] and [`Problem`]. `layout` and `pack` say where codes lie, `decode` brings
//! a thread's codes to weights. Up to [`Quantized::MOST_ROWS`] rows go to one WGMMA kernel
//! (`kernel`, and `stream`, its main loop): weights are its left factor, from registers, rows its
//! columns. More rows, other
//! devices and `f32` go to the product of matrices, with the weights in scratch memory
//! (`dequantize`), so that there is no device and no size without an answer. [`GatherRows`] brings
//! rows of `W` by index, as embeddings need them.

mod decode;
mod dequantize;
mod family;
mod gather;
mod kernel;
mod layout;
mod pack;
mod scheme;
mod stream;

pub use family::{Dequantize, Problem, Quantized};
pub use gather::{GatherProblem, GatherRows};
pub use layout::PackedShape;
pub use pack::Piece;
pub use scheme::{Offset, Scale, Scheme};

pub(super) use family::shipped;
pub(crate) use layout::{BLOCK_ROWS, DEPTH, PIECE_ROWS};
pub(crate) use stream::{Begin, Pieces, Stages, Stream, THREADS};
