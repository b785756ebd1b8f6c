//! Packing on the host, once, when weights are loaded.

use std::num::NonZero;
use std::thread;

use super::layout::{BLOCK_ROWS, DEPTH, PIECE_ROWS, PackedShape, RowWords, STEPS, access_words};
use super::scheme::{Offset, Scale, Scheme};

/// The codes of 128 neighbours of a row, and what their groups share.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Codes, or places in a table.
    pub codes: [u8; Self::LEN],
    /// The scale of each group: the bits of an `f16`, or a byte.
    pub scales: [u16; 8],
    /// The offset of each group, likewise.
    pub offsets: [u16; 8],
    /// The `f16`s that bytes among scales and among offsets are multiplied by.
    pub shared: [u16; 2],
}

impl Piece {
    /// Neighbours along K of a piece.
    pub const LEN: usize = DEPTH as usize;
}

impl Default for Piece {
    fn default() -> Self {
        Self { codes: [0; DEPTH as usize], scales: [0; 8], offsets: [0; 8], shared: [0; 2] }
    }
}

impl Scheme {
    /// The bytes of weights as kernels read them. `read` gives the piece with a number of a row,
    /// and is called by several threads; where the last piece of a row reaches beyond it, the rest
    /// is as it was given, zeros.
    ///
    /// ```
    /// use warpfold_kernels::matmul::quantized::{PackedShape, Scheme};
    ///
    /// let shape = PackedShape { rows: 64, columns: 128 };
    /// let bytes = Scheme::symmetric(4, 8).pack(shape, |row, piece, to| to.codes[piece] = row as u8 & 15);
    /// assert_eq!(bytes.len() as u64, shape.bytes(Scheme::symmetric(4, 8)));
    /// ```
    #[must_use]
    pub fn pack(self, shape: PackedShape, read: impl Fn(usize, usize, &mut Piece) + Sync) -> Vec<u8> {
        let mut packed = vec![0; shape.bytes(self) as usize];
        let block_bytes = 2 * shape.pieces() as usize * self.piece_bytes() as usize;
        if block_bytes == 0 {
            return packed;
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let blocks_each = (shape.blocks() as usize).div_ceil(threads).max(1);
        let read = &read;
        let pack_part = move |(part, bytes): (usize, &mut [u8])| {
            for (i, block) in bytes.chunks_mut(block_bytes).enumerate() {
                self.pack_block(block, part * blocks_each + i, shape, read);
            }
        };
        let parts = packed.chunks_mut(blocks_each * block_bytes).enumerate();
        if threads == 1 {
            parts.for_each(pack_part);
        } else {
            thread::scope(|scope| parts.for_each(|part| drop(scope.spawn(move || pack_part(part)))));
        }
        packed
    }

    fn pack_block(
        self,
        bytes: &mut [u8],
        block: usize,
        shape: PackedShape,
        read: &(impl Fn(usize, usize, &mut Piece) + Sync),
    ) {
        let first = block * BLOCK_ROWS as usize;
        let rows = (shape.rows as usize - first).min(BLOCK_ROWS as usize);
        let pieces = bytes.chunks_exact_mut(self.piece_bytes() as usize).enumerate();
        for (i, to) in pieces {
            let (half, number) = (i / shape.pieces() as usize, i % shape.pieces() as usize);
            for row in 0..PIECE_ROWS as usize {
                let in_block = row / 8 * 16 + half * 8 + row % 8;
                // The last one of a pair may be beyond the row.
                if in_block < rows && number * Piece::LEN < shape.columns as usize {
                    let mut piece = Piece::default();
                    read(first + in_block, number, &mut piece);
                    self.pack_row(to, row as u32, &piece);
                }
            }
        }
    }

    fn pack_row(self, to: &mut [u8], row: u32, piece: &Piece) {
        let layout = self.piece();
        let mut shift = 0;
        for (start, bits) in layout.planes.into_iter().zip(self.planes()) {
            for quad in 0..4 {
                let lane = row % 8 * 4 + quad;
                let mut words = [0_u32; 8];
                for step in 0..STEPS {
                    let at = |i: u32| (16 * step + 2 * quad + i) as usize;
                    let codes = u32::from_le_bytes([at(0), at(1), at(8), at(9)].map(|i| piece.codes[i]));
                    let fields = (codes >> shift) & (((1 << bits) - 1) * 0x0101_0101);
                    let (word, place) = (step * bits / 8, step % (8 / bits));
                    words[word as usize] |= if self.table.is_some() {
                        // One after the other.
                        (0..4).fold(0, |word, i| word | (fields >> (8 * i) & 255) << (16 * place + bits * i))
                    } else {
                        fields << (bits * place)
                    };
                }
                let access = access_words(*bits);
                for (i, word) in (0..*bits).zip(words) {
                    let warp = row / 8 * bits / access;
                    let place = ((warp + i / access) * 32 + lane) * access + i % access;
                    put(to, start + 4 * place, word);
                }
            }
            shift += bits;
        }
        let halves = |words: RowWords, values: &[u16]| {
            let pairs =
                values.chunks(2).map(|pair| pair.iter().rev().fold(0, |word, half| word << 16 | u32::from(*half)));
            (words, pairs.collect::<Vec<_>>())
        };
        let bytes = |words: RowWords, values: &[u16]| {
            let fours =
                values.chunks(4).map(|four| four.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte & 255)));
            (words, fours.collect::<Vec<_>>())
        };
        let groups = self.groups() as usize;
        let scales = match self.scale {
            Scale::Half => halves(layout.scales, &piece.scales[..groups]),
            Scale::Byte | Scale::SignedByte | Scale::Exponent => bytes(layout.scales, &piece.scales[..groups]),
        };
        let offsets = match self.offset {
            Offset::None => (layout.offsets, Vec::new()),
            Offset::Half => halves(layout.offsets, &piece.offsets[..groups]),
            Offset::Byte | Offset::Zero => bytes(layout.offsets, &piece.offsets[..groups]),
        };
        for (words, values) in [scales, offsets, halves(layout.shared, &piece.shared)] {
            for (i, value) in (0..words.words).zip(values) {
                put(to, words.start + 4 * (row * words.words + i), value);
            }
        }
    }
}

fn put(to: &mut [u8], at: u32, word: u32) {
    to[at as usize..at as usize + 4].copy_from_slice(&word.to_le_bytes());
}
