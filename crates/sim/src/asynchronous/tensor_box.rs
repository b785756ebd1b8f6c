//! Pieces of a tensor that one copy moves, and their places in shared memory (PTX ISA, "Tensors";
//! tiled mode, im2col mode, interleave layout, swizzling modes).
//!
//! A copy is a list of rows that are contiguous in both memories. In shared memory the box is
//! dense, innermost dimension first; the swizzle then permutes the 16-byte chunks by their address:
//! bits 4 to 6 are xored with bits 7 to 9 (fewer for the narrower swizzles), so that a box at a
//! multiple of the pattern's period begins with an unpermuted row.

use std::ops::Range;

use crate::tensor_map::{Interleave, MapMode, MapSwizzle, TensorMap};

/// Bytes that the swizzle keeps together.
const CHUNK: u32 = 16;

/// Source or destination of one tensor copy: a map, and coordinates in its tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorBox {
    /// The tensor.
    pub(crate) map: TensorMap,
    /// Coordinates, innermost first.
    pub(crate) at: [i32; 5],
    /// Offsets of the filter, innermost spatial dimension first; im2col mode only.
    pub(crate) offsets: [u16; 3],
}

/// Bytes that are contiguous in global and in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Device address; `None` outside of the tensor.
    pub(crate) global: Option<u64>,
    /// Offset in shared memory.
    pub(crate) shared: u32,
    /// Number of bytes.
    pub(crate) bytes: u32,
}

impl TensorBox {
    /// Bytes of the innermost dimension of the box.
    fn row_bytes(&self) -> u32 {
        match self.map.interleave {
            Interleave::None => {}
            Interleave::Bytes16 => return 16,
            Interleave::Bytes32 => return 32,
        }
        let elements = match &self.map.mode {
            MapMode::Tile { box_dims } => box_dims[0],
            MapMode::Im2col { channels_per_pixel, .. } => *channels_per_pixel,
        };
        elements * self.map.element.bytes()
    }

    /// Number of rows of the box.
    fn rows(&self) -> u32 {
        match &self.map.mode {
            MapMode::Tile { .. } => (1..self.map.dims.len()).map(|d| self.steps(d)).product(),
            MapMode::Im2col { pixels_per_column, channels_per_pixel, .. } => {
                pixels_per_column * self.slices(*channels_per_pixel)
            }
        }
    }

    /// Slices of channels in an interleaved im2col box; one otherwise.
    fn slices(&self, channels: u32) -> u32 {
        match self.map.interleave {
            Interleave::None => 1,
            Interleave::Bytes16 | Interleave::Bytes32 => {
                (channels * self.map.element.bytes()).div_ceil(self.row_bytes())
            }
        }
    }

    /// Elements that a tile takes of a dimension.
    fn steps(&self, dim: usize) -> u32 {
        let MapMode::Tile { box_dims } = &self.map.mode else { return 1 };
        box_dims[dim].div_ceil(self.map.element_strides[dim].max(1))
    }

    /// Bytes that the copy moves, including those out of bounds.
    pub(crate) fn bytes(&self) -> u32 {
        self.row_bytes() * self.rows()
    }

    /// Calls for each piece of the box at an offset of shared memory, in order.
    pub(crate) fn pieces(&self, start: u32, mut each: impl FnMut(Piece)) {
        let row = self.row_bytes();
        let mut to = start;
        self.each_row(|global, inside| {
            // Bytes before and after the tensor's edge are fills.
            for (part, is_inside) in [(0..inside.start, false), (inside.clone(), true), (inside.end..row, false)] {
                let source = is_inside.then_some(global);
                self.chunks(to, part, source, &mut each);
            }
            to += row;
        });
    }

    /// Splits bytes `part` of the row at offset `row` so that no piece crosses a swizzle chunk.
    fn chunks(&self, row: u32, part: Range<u32>, global: Option<u64>, each: &mut impl FnMut(Piece)) {
        let (mut at, end) = (part.start, part.end);
        while at < end {
            let linear = row + at;
            let most = match self.map.swizzle {
                MapSwizzle::None => end - at,
                MapSwizzle::Bytes32 | MapSwizzle::Bytes64 | MapSwizzle::Bytes128 => CHUNK - linear % CHUNK,
            };
            let bytes = most.min(end - at);
            let shared = swizzled(self.map.swizzle, linear);
            each(Piece { global: global.map(|address| address.wrapping_add(at.into())), shared, bytes });
            at += bytes;
        }
    }

    /// Calls for each row of the box: the address of its first byte, even if out of bounds, and its
    /// bytes in the tensor.
    fn each_row(&self, mut each: impl FnMut(u64, Range<u32>)) {
        match &self.map.mode {
            MapMode::Tile { .. } => self.each_tile_row(&mut each),
            MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column } => {
                self.each_pixel((lower, upper), *pixels_per_column, self.slices(*channels_per_pixel), &mut each);
            }
        }
    }

    fn each_tile_row(&self, each: &mut impl FnMut(u64, Range<u32>)) {
        let rank = self.map.dims.len();
        let mut index = [0u32; 5];
        for _ in 0..self.rows() {
            let mut at = self.at;
            for d in 1..rank {
                let step = index[d] * self.map.element_strides[d].max(1);
                at[d] = at[d].wrapping_add(step.cast_signed());
            }
            let (address, inside) = self.row(&at);
            each(address, inside);
            for (d, i) in index.iter_mut().enumerate().take(rank).skip(1) {
                *i += 1;
                if *i < self.steps(d) {
                    break;
                }
                *i = 0;
            }
        }
    }

    /// Address of the row with these coordinates, and the range of its bytes inside the tensor.
    fn row(&self, at: &[i32; 5]) -> (u64, Range<u32>) {
        let (map, row) = (&self.map, self.row_bytes());
        let mut address = map.address;
        let mut is_inside = true;
        for (d, &stride) in map.strides.iter().enumerate() {
            let coordinate = i64::from(at[d + 1]);
            is_inside &= coordinate >= 0 && coordinate.cast_unsigned() < map.dims[d + 1];
            address = address.wrapping_add(stride.wrapping_mul(coordinate.cast_unsigned()));
        }
        let element = i64::from(map.element.bytes());
        let first = i64::from(at[0]) * element;
        address = address.wrapping_add(first.cast_unsigned());
        let length = match map.interleave {
            Interleave::None => i64::try_from(map.dims[0]).unwrap_or(i64::MAX).saturating_mul(element),
            Interleave::Bytes16 | Interleave::Bytes32 => i64::from(row),
        };
        let clamp = |n: i64| u32::try_from(n.clamp(0, row.into())).expect("within a row");
        let inside = if is_inside { clamp(-first)..clamp(length - first) } else { 0..0 };
        (address, if inside.start < inside.end { inside } else { 0..0 })
    }

    /// The pixels of an im2col copy: from the base at the coordinates on through the bounding box,
    /// innermost dimension first, then to the next image, each moved by the filter's offsets.
    fn each_pixel(
        &self,
        (lower, upper): (&[i32], &[i32]),
        pixels: u32,
        slices: u32,
        each: &mut impl FnMut(u64, Range<u32>),
    ) {
        let rank = self.map.dims.len();
        let interleaved = self.map.interleave != Interleave::None;
        // With slices of channels the dimensions are: channels of a slice, space, slices, images.
        let space = rank - 2 - usize::from(interleaved);
        let last = |d: usize| {
            let size = i32::try_from(self.map.dims[d + 1]).unwrap_or(i32::MAX);
            size.saturating_add(upper[d]).saturating_sub(1)
        };
        for slice in 0..slices {
            let mut at = self.at;
            if interleaved {
                at[rank - 2] = at[rank - 2].wrapping_add(slice.cast_signed());
            }
            for _ in 0..pixels {
                let mut moved = at;
                for (d, coordinate) in moved[1..=space].iter_mut().enumerate() {
                    *coordinate = coordinate.wrapping_add(i32::from(self.offsets[d]));
                }
                let (address, inside) = self.row(&moved);
                each(address, inside);
                let mut carries = true;
                for d in 0..space {
                    at[d + 1] = at[d + 1].wrapping_add(self.map.element_strides[d + 1].cast_signed());
                    carries = at[d + 1] > last(d);
                    if !carries {
                        break;
                    }
                    at[d + 1] = lower[d];
                }
                if carries {
                    at[rank - 1] = at[rank - 1].wrapping_add(1);
                }
            }
        }
    }
}

/// Offset of a byte after the swizzle.
fn swizzled(swizzle: MapSwizzle, offset: u32) -> u32 {
    let bits = match swizzle {
        MapSwizzle::None => 0,
        MapSwizzle::Bytes32 => 0x10,
        MapSwizzle::Bytes64 => 0x30,
        MapSwizzle::Bytes128 => 0x70,
    };
    offset ^ (offset >> 3 & bits)
}
