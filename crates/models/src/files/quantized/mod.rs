//! Matrices that several tensors of a file make up: codes of few bits, and what groups share.
//!
//! A weight is `scale · (code - zero)`, or `scale · table[code]`. `recognize` finds the tensors of
//! each format and compares their shapes before anything is read; here they become numbers. The
//! formats are those of AutoAWQ, GPTQModel, compressed-tensors, ModelOpt and bitsandbytes; a format
//! that changes nothing but names and the places of codes needs no line here.

mod recognize;
mod stored;

use std::ops::Range;

use warpfold_kernels::Dtype;
use warpfold_kernels::matmul::quantized::Scheme;

use super::{Checkpoint, Entry, Format, Storage, format, threads};
use crate::Error;
use crate::error;

pub(crate) use recognize::Quantization;
pub(crate) use stored::QuantizedRows;

/// The values of e2m1, by their codes. Minus zero is zero, as devices that keep the codes have it.
const E2M1: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Rows that are decoded together, so that what lies side by side in a transposed matrix is read
/// together.
const TILE_ROWS: usize = 64;

/// A matrix in several tensors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantized {
    codes: Plane,
    numbers: Numbers,
    zeros: Zeros,
    scales: Scales,
    /// Rows that have scales of their own: all, or 1.
    scale_rows: usize,
    /// Scales of a row.
    groups: usize,
    /// Neighbours of a row that share one.
    group: usize,
    /// The group of each column, where those are no neighbours.
    order: Option<Entry>,
    /// Rows of the tensors are columns of the matrix.
    is_transposed: bool,
    /// Storage scheme on devices that support it, if requested.
    pub(super) scheme: Option<Scheme>,
}

/// Codes in the units of a tensor, as a matrix.
#[derive(Debug, Clone, PartialEq)]
struct Plane {
    entry: Entry,
    bits: usize,
    /// Codes of a unit are in one column instead of one row.
    is_down: bool,
    /// Positions of the codes in a unit, if not from its lowest bits upwards.
    places: Option<&'static [usize]>,
    /// XOR mask of the codes: the sign of bytes.
    flip: u8,
    /// Units side by side.
    width: usize,
}

impl Plane {
    /// Codes of a unit.
    fn per_unit(&self) -> usize {
        8 * self.entry.format.block_bytes() / self.bits
    }

    /// The code of a row and a column of the tensor's own matrix.
    fn code(&self, bytes: &[u8], [row, column]: [usize; 2]) -> u8 {
        let per = self.per_unit();
        let (unit, place) = match self.is_down {
            true => (row / per * self.width + column, row % per),
            false => (row * self.width + column / per, column % per),
        };
        // Codes have 2, 4 or 8 bits, so that none lies in two bytes.
        let bit = self.places.map_or(place, |places| places[place]) * self.bits;
        let byte = bytes[unit * self.entry.format.block_bytes() + bit / 8];
        (byte >> (bit % 8) & (0xff >> (8 - self.bits))) ^ self.flip
    }
}

/// Values of the codes.
#[derive(Debug, Clone, PartialEq)]
enum Numbers {
    Themselves,
    E2m1,
    /// Values that the file says.
    Table(Entry),
}

/// Zero points, which are subtracted from codes.
#[derive(Debug, Clone, PartialEq)]
enum Zeros {
    All(u8),
    /// Codes of the same bits, to which something is added.
    Each {
        codes: Plane,
        plus: u8,
    },
}

/// Storage of the scales of groups.
#[derive(Debug, Clone, PartialEq)]
enum Scales {
    Floats(Entry),
    /// `2^(byte - 127)`.
    Exponents(Entry),
    /// Floats that are multiplied by one, or divided by it.
    Shared {
        floats: Entry,
        by: Entry,
        is_divided: bool,
    },
    /// Codes of 8 bits: places in a table, times a scale for some of them, plus a number.
    Nested {
        codes: Entry,
        table: Entry,
        scales: Entry,
        block: usize,
        plus: f32,
    },
}

impl Quantized {
    /// The tensors that the matrix consists of.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let numbers = match &self.numbers {
            Numbers::Table(table) => Some(table),
            Numbers::Themselves | Numbers::E2m1 => None,
        };
        let zeros = match &self.zeros {
            Zeros::Each { codes, .. } => Some(&codes.entry),
            Zeros::All(_) => None,
        };
        let scales = match &self.scales {
            Scales::Floats(entry) | Scales::Exponents(entry) => vec![entry],
            Scales::Shared { floats, by, .. } => vec![floats, by],
            Scales::Nested { codes, table, scales, .. } => vec![codes, table, scales],
        };
        [Some(&self.codes.entry), numbers, zeros, self.order.as_ref()].into_iter().flatten().chain(scales)
    }

    /// Bytes in the files.
    pub(super) fn num_bytes(&self) -> usize {
        self.entries().map(Entry::num_bytes).sum()
    }
}

/// Parts of a matrix that are read before its values: those of some rows, where they lie apart.
struct Read {
    /// The first row that is there.
    first: usize,
    codes: Vec<u8>,
    zeros: Vec<u8>,
    scales: Vec<f32>,
    table: Option<[f32; 16]>,
    order: Option<Vec<usize>>,
}

impl Checkpoint {
    fn bytes_of(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        let (path, _) = &self.files[entry.file];
        let mut bytes = vec![0; entry.num_bytes()];
        self.fill(entry, 0, &mut bytes, self.reading)
            .map_err(|e| error::tensor(path, &entry.stored_name, format!("it cannot be read: {e}")))?;
        Ok(bytes)
    }

    fn floats_of(&self, entry: &Entry) -> Result<Vec<f32>, Error> {
        Ok(entry.format.decode(&self.bytes_of(entry)?))
    }

    fn scales_of_groups(&self, scales: &Scales) -> Result<Vec<f32>, Error> {
        Ok(match scales {
            Scales::Floats(entry) => self.floats_of(entry)?,
            Scales::Exponents(entry) => {
                // 2^-127 is the one that is subnormal.
                let scale = |byte: u8| f32::from_bits(if byte == 0 { 1 << 22 } else { u32::from(byte) << 23 });
                self.bytes_of(entry)?.into_iter().map(scale).collect()
            }
            Scales::Shared { floats, by, is_divided } => {
                let by = self.floats_of(by)?[0];
                let all = self.floats_of(floats)?;
                all.into_iter().map(|scale| if *is_divided { scale / by } else { scale * by }).collect()
            }
            Scales::Nested { codes, table, scales, block, plus } => {
                let (table, scales) = (self.floats_of(table)?, self.floats_of(scales)?);
                let codes = self.bytes_of(codes)?.into_iter().enumerate();
                codes.map(|(i, code)| table[usize::from(code)] * scales[i / block] + plus).collect()
            }
        })
    }

    fn order_of(&self, entry: &Entry, groups: usize) -> Result<Vec<usize>, Error> {
        let (path, _) = &self.files[entry.file];
        let of = |(column, word): (usize, &[u8])| {
            let group = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let known = usize::try_from(group).ok().filter(|group| *group < groups);
            let reason = || format!("column {column} is of group {group}, and there are {groups}");
            known.ok_or_else(|| error::tensor(path, &entry.stored_name, reason()))
        };
        self.bytes_of(entry)?.chunks_exact(4).enumerate().map(of).collect()
    }

    /// What a matrix is made of, for some of its rows.
    fn read_of(&self, matrix: &Quantized, rows: &Range<usize>) -> Result<Read, Error> {
        let mut codes = matrix.codes.entry.clone();
        if matrix.is_cut_by_rows() {
            codes.cut_rows(rows);
        }
        Ok(Read { codes: self.bytes_of(&codes)?, ..self.read_beside_codes(matrix, rows)? })
    }

    /// The same without the codes, which are most of it.
    fn read_beside_codes(&self, matrix: &Quantized, rows: &Range<usize>) -> Result<Read, Error> {
        let mut scales = matrix.scales.clone();
        let is_cut = matrix.is_cut_by_rows();
        if is_cut {
            match &mut scales {
                Scales::Floats(entry) | Scales::Exponents(entry) | Scales::Shared { floats: entry, .. } => {
                    entry.cut_rows(rows);
                }
                Scales::Nested { .. } => {}
            }
        }
        Ok(Read {
            first: if is_cut { rows.start } else { 0 },
            codes: Vec::new(),
            zeros: match &matrix.zeros {
                Zeros::Each { codes, .. } => self.bytes_of(&codes.entry)?,
                Zeros::All(_) => Vec::new(),
            },
            scales: self.scales_of_groups(&scales)?,
            table: match &matrix.numbers {
                Numbers::Themselves => None,
                Numbers::E2m1 => Some(E2M1),
                Numbers::Table(entry) => self.floats_of(entry)?.try_into().ok(),
            },
            order: matrix.order.as_ref().map(|order| self.order_of(order, matrix.groups)).transpose()?,
        })
    }

    /// Values of rows of a quantized matrix, and of some of its columns, as little-endian bytes of
    /// `dtype`.
    pub(super) fn quantized_bytes(
        &self,
        matrix: &Quantized,
        rows: Range<usize>,
        columns: Range<usize>,
        dtype: Dtype,
    ) -> Result<Vec<u8>, Error> {
        let read = self.read_of(matrix, &rows)?;
        let row_bytes = columns.len() * dtype.bytes() as usize;
        let mut bytes = vec![0; rows.len() * row_bytes];
        threads::share(threads::cores(), &mut bytes, TILE_ROWS * row_bytes, |tile, bytes| {
            let mut values = vec![0.0; TILE_ROWS * columns.len()];
            for (i, bytes) in bytes.chunks_mut((TILE_ROWS * row_bytes).max(1)).enumerate() {
                let values = &mut values[..bytes.len() / dtype.bytes() as usize];
                matrix.decode(&read, rows.start + (tile + i) * TILE_ROWS, columns.clone(), values);
                format::encode_into(values, dtype, bytes);
            }
            Ok::<_, Error>(())
        })?;
        Ok(bytes)
    }
}

impl Quantized {
    /// Writes the values of a tile of rows, from `first` on.
    fn decode(&self, read: &Read, first: usize, columns: Range<usize>, values: &mut [f32]) {
        let width = columns.len();
        if self.is_transposed {
            for (i, column) in columns.enumerate() {
                for row in 0..values.len() / width {
                    values[row * width + i] = self.value(read, first + row, column);
                }
            }
            return;
        }
        for (row, values) in values.chunks_mut(width.max(1)).enumerate() {
            match &read.table {
                Some(table) if self.has_pairs(&columns) => {
                    self.decode_pairs(read, table, first + row, columns.start, values);
                }
                _ => values.iter_mut().zip(columns.clone()).for_each(|(x, c)| *x = self.value(read, first + row, c)),
            }
        }
    }

    /// Returns whether rows of codes and of scales lie apart in their tensors.
    pub(super) fn is_cut_by_rows(&self) -> bool {
        let has_scales = self.scale_rows > 1 && !matches!(self.scales, Scales::Nested { .. });
        let is_matrix = self.codes.entry.shape.len() == 2 && !self.codes.is_down;
        has_scales && is_matrix && !self.is_transposed && matches!(self.zeros, Zeros::All(_))
    }

    /// Returns whether bytes of these columns hold two codes each, the low half first, that share a
    /// scale.
    fn has_pairs(&self, columns: &Range<usize>) -> bool {
        let Plane { ref entry, bits, is_down, places, flip, .. } = self.codes;
        let is_plain = bits == 4 && entry.format.block_bytes() == 1 && !is_down && places.is_none() && flip == 0;
        let is_even = [columns.start, columns.end, self.group].iter().all(|n| n.is_multiple_of(2));
        is_plain && is_even && self.order.is_none()
    }

    /// Returns whether bytes hold two codes of MXFP4 each, rows side by side, and all scales are
    /// numbers.
    pub(super) fn is_plain_mxfp4(&self) -> bool {
        let is_of_powers = matches!(self.numbers, Numbers::E2m1) && matches!(self.scales, Scales::Exponents(_));
        let width = self.groups * self.group;
        is_of_powers && self.scheme.is_some() && self.is_cut_by_rows() && self.has_pairs(&(0..width))
    }

    /// Writes the values of a row whose bytes hold two codes each.
    fn decode_pairs(&self, read: &Read, table: &[f32; 16], row: usize, start: usize, values: &mut [f32]) {
        let bytes = &read.codes[(row - read.first) * self.codes.width + start / 2..];
        for (i, (pair, byte)) in values.as_chunks_mut::<2>().0.iter_mut().zip(bytes).enumerate() {
            let scale = self.scale(read, row, (start + 2 * i) / self.group);
            *pair = [byte & 15, byte >> 4].map(|code| scale * table[usize::from(code)]);
        }
    }

    /// Returns the position in the tensors of a row and a column.
    fn place(&self, row: usize, column: usize) -> [usize; 2] {
        if self.is_transposed { [column, row] } else { [row, column] }
    }

    fn scale(&self, read: &Read, row: usize, group: usize) -> f32 {
        let row = if self.scale_rows == 1 { 0 } else { row - read.first };
        match self.is_transposed {
            true => read.scales[group * self.scale_rows + row],
            false => read.scales[row * self.groups + group],
        }
    }

    fn zero(&self, read: &Read, row: usize, group: usize) -> u8 {
        match &self.zeros {
            Zeros::All(zero) => *zero,
            Zeros::Each { codes, plus } => {
                let at = if self.scale_rows == 1 { [0, group] } else { self.place(row, group) };
                codes.code(&read.zeros, at).wrapping_add(*plus) & (0xff >> (8 - self.codes.bits))
            }
        }
    }

    fn value(&self, read: &Read, row: usize, column: usize) -> f32 {
        let group = read.order.as_ref().map_or_else(|| column / self.group, |order| order[column]);
        let code = self.codes.code(&read.codes, self.place(row - read.first, column));
        let scale = self.scale(read, row, group);
        match &read.table {
            Some(table) => scale * table[usize::from(code)],
            None => scale * (f32::from(code) - f32::from(self.zero(read, row, group))),
        }
    }
}

/// The entry of a quantized matrix.
fn entry_of(matrix: Quantized, shape: [usize; 2]) -> Entry {
    let Entry { file, ref stored_name, start, .. } = matrix.codes.entry;
    Entry {
        file,
        stored_name: stored_name.clone(),
        shape: shape.to_vec(),
        format: Format::Quantized,
        start,
        storage: Storage::Plain,
        made_of: None,
        quantized: Some(Box::new(matrix)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
