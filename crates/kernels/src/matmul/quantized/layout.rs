//! Where codes and scales lie: pieces of 32 rows x 128 steps of K, each without a gap.
//!
//! ```text
//! weights  [blocks of 64 rows] [halves, 2] [pieces along K] bytes of a piece
//! piece    a plane for the codes' low bits, one for their high bits: [warps, 4] [lanes, 32] bits
//!          scales, offsets, halves that are shared:                  [rows, 32] words
//! ```
//!
//! One bulk copy brings one piece or two, and a row of blocks is read from its beginning to its
//! end; there are whole pairs of pieces, so that the last one may hold nothing. Of a block of 64
//! rows, groups of eight go to the halves in turns: row `16 w + 8 h + g` is row `g` of warp `w` in
//! the half `h`, as the left factor of WGMMA has its rows (PTX ISA, "Register Fragments" of
//! `wgmma.mma_async`). Where a gate and what it multiplies come in groups of eight, one thread has
//! both.
//!
//! A lane has the codes of `mma`'s left factor: of row `lane / 4`, in each step of 16, those at `2
//! c`, `2 c + 1`, `2 c + 8` and `2 c + 9` with `c = lane mod 4`. They are the four bytes of a word,
//! and fields of few bits of several steps share their bytes. A plane of `b` bits gives a lane `b`
//! words, in accesses of up to 16 bytes that lie side by side over the lanes.

use warpfold_lang::Val;

use super::scheme::{Offset, Scale, Scheme};

/// Steps of K of a piece.
pub(crate) const DEPTH: u32 = 128;

/// Rows of a block.
pub(crate) const BLOCK_ROWS: u32 = 64;

/// Rows of a piece.
pub(crate) const PIECE_ROWS: u32 = BLOCK_ROWS / 2;

/// Steps of the tensor cores in a piece.
pub(super) const STEPS: u32 = DEPTH / 16;

/// The shape of packed weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PackedShape {
    /// Rows: outputs of the product.
    pub rows: u64,
    /// Columns: steps of K.
    pub columns: u64,
}

impl PackedShape {
    /// Blocks of rows.
    pub(super) const fn blocks(self) -> u64 {
        self.rows.div_ceil(BLOCK_ROWS as u64)
    }

    /// Pieces along K: whole pairs, which one copy brings together.
    pub(super) const fn pieces(self) -> u64 {
        self.columns.div_ceil(2 * DEPTH as u64) * 2
    }

    /// Bytes of the weights.
    #[must_use]
    pub const fn bytes(self, scheme: Scheme) -> u64 {
        self.blocks() * 2 * self.pieces() * scheme.piece_bytes() as u64
    }
}

/// A list of words for each row of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowWords {
    /// Its first byte in the piece.
    pub(super) start: u32,
    /// Words of a row; none where the scheme has no such list.
    pub(super) words: u32,
}

/// The parts of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PieceLayout {
    /// The first byte of each plane.
    pub(super) planes: [u32; 2],
    pub(super) scales: RowWords,
    pub(super) offsets: RowWords,
    /// The half that scales are multiplied by, then that of offsets.
    pub(super) shared: RowWords,
    pub(super) bytes: u32,
}

impl Scheme {
    pub(super) const fn piece(self) -> PieceLayout {
        let planes = self.planes();
        let codes = PIECE_ROWS * DEPTH / 8;
        let high = codes * planes[0];
        let end = if planes.len() > 1 { high + codes * planes[1] } else { high };
        // Lists of 3 words are none: groups are a power of two.
        let scale_words = match self.scale {
            Scale::Half => words_of(2 * self.groups()),
            Scale::Byte | Scale::SignedByte | Scale::Exponent => words_of(self.groups()),
        };
        let offset_words = match self.offset {
            Offset::None => 0,
            Offset::Half => words_of(2 * self.groups()),
            Offset::Byte | Offset::Zero => words_of(self.groups()),
        };
        let scales = RowWords { start: end, words: scale_words };
        let offsets = RowWords { start: scales.end(), words: offset_words };
        let shared = RowWords { start: offsets.end(), words: if self.has_shared() { 1 } else { 0 } };
        PieceLayout { planes: [0, high], scales, offsets, shared, bytes: shared.end() }
    }

    /// The first byte of a piece's scales.
    pub(crate) const fn scales_at(self) -> u32 {
        self.piece().scales.start
    }

    /// Bytes of a piece: a multiple of 128.
    pub(super) const fn piece_bytes(self) -> u32 {
        self.piece().bytes
    }
}

impl RowWords {
    const fn end(self) -> u32 {
        self.start + 4 * PIECE_ROWS * self.words
    }
}

const fn words_of(bytes: u32) -> u32 {
    bytes.div_ceil(4)
}

/// Pieces along K of matrices with so many columns.
pub(super) fn num_pieces(columns: Val<u32>) -> Val<u32> {
    (columns + (2 * DEPTH - 1)) / (2 * DEPTH) * 2
}

/// Words of one access of a lane to a plane of so many bits.
pub(super) const fn access_words(bits: u32) -> u32 {
    if bits < 4 { bits } else { 4 }
}
