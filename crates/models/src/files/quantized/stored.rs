//! Quantized matrices that devices keep as they are stored: those whose weights are exactly what a
//! [`Scheme`] of the kernels says.

use std::ops::Range;

use half::f16;
use warpfold_kernels::matmul::quantized::{Offset, Piece, Scheme};

use super::{Numbers, Quantized, Read, Scales, Zeros};
use crate::Error;
use crate::error;
use crate::files::{Blocks, Checkpoint, Entry};

/// Rows of a quantized matrix, as pieces of its scheme.
pub(crate) struct QuantizedRows {
    matrix: Quantized,
    read: Read,
    first: usize,
    width: usize,
}

impl QuantizedRows {
    /// The piece with a number of a row; what is beyond the row stays as it is.
    pub(crate) fn piece(&self, row: usize, number: usize, piece: &mut Piece) {
        let Self { matrix, read, first, width } = self;
        let (row, columns) = (first + row, number * Piece::LEN..(number * Piece::LEN + Piece::LEN).min(*width));
        for (code, column) in piece.codes.iter_mut().zip(columns.clone()) {
            *code = matrix.codes.code(&read.codes, matrix.place(row - read.first, column));
        }
        let group = matrix.group.min(Piece::LEN);
        let both = piece.scales.iter_mut().zip(&mut piece.offsets);
        for ((to, zero), column) in both.zip(columns.step_by(group)) {
            // Nobody reads it where all have the same.
            *zero = matrix.zero(read, row, column / matrix.group).into();
            let scale = matrix.scale(read, row, column / matrix.group);
            *to = match matrix.scales {
                Scales::Exponents(_) => (scale.to_bits() >> 23) as u16,
                _ => f16::from_f32(scale).to_bits(),
            };
        }
    }
}

impl Checkpoint {
    /// Finds out which quantized matrices devices can keep. What cannot be read is none of them,
    /// and is an error when it is loaded.
    pub(crate) fn find_schemes(&mut self) {
        let scheme = |name: &String| {
            let entry = &self.entries[name];
            let matrix = entry.quantized.as_ref()?;
            Some((name.clone(), self.scheme_of(matrix, entry.rows_and_width()).ok().flatten()?))
        };
        for (name, scheme) in self.entries.keys().filter_map(scheme).collect::<Vec<_>>() {
            let matrix = self.entries.get_mut(&name).and_then(|entry| entry.quantized.as_mut());
            matrix.into_iter().for_each(|matrix| matrix.scheme = Some(scheme));
        }
    }

    fn scheme_of(&self, matrix: &Quantized, (rows, width): (usize, usize)) -> Result<Option<Scheme>, Error> {
        let group = match matrix.group {
            group @ (16 | 32 | 64) => group,
            group if group.is_multiple_of(Piece::LEN) || matrix.groups == 1 => Piece::LEN,
            _ => return Ok(None),
        };
        if !width.is_multiple_of(16) {
            return Ok(None);
        }
        if let (Numbers::E2m1, Scales::Exponents(_)) = (&matrix.numbers, &matrix.scales) {
            let is_known = self.scales_of_groups(&matrix.scales)?.iter().all(|scale| scale.is_finite());
            return Ok((group == 32 && is_known).then_some(Blocks::Mxfp4.scheme()));
        }
        let read = self.read_beside_codes(matrix, &(0..rows))?;
        // Most files list the groups of columns that are neighbours all the same.
        if read.order.iter().flatten().enumerate().any(|(column, group)| column / matrix.group != *group) {
            return Ok(None);
        }
        let all = || (0..rows).flat_map(|row| (0..matrix.groups).map(move |group| (row, group)));
        match (&matrix.numbers, &matrix.scales) {
            (Numbers::Themselves, Scales::Floats(_)) => {
                let zero = matrix.zero(&read, 0, 0);
                let is_exact = read.scales.iter().all(|scale| f16::from_f32(*scale).to_f32() == *scale);
                let has_one_zero = matches!(matrix.zeros, Zeros::All(_))
                    || all().all(|(row, group)| matrix.zero(&read, row, group) == zero);
                let bits = matrix.codes.bits as u32;
                let (zero, offset) = if has_one_zero { (zero, Offset::None) } else { (0, Offset::Zero) };
                let scheme = Scheme { group: group as u32, offset, ..Scheme::symmetric(bits, zero) };
                Ok(is_exact.then_some(scheme))
            }
            _ => Ok(None),
        }
    }

    /// Codes and scales of rows of [experts in MXFP4](Self::is_mxfp4): two codes in a byte, the low
    /// half first.
    pub(crate) fn mxfp4_rows(&self, name: &str, shape: &[usize], rows: &Range<usize>) -> Result<[Vec<u8>; 2], Error> {
        let wrong = |reason: String| error::tensor(&self.path, name, reason);
        let entry = self.entries.get(name).ok_or_else(|| wrong("it is missing".to_owned()))?;
        if entry.shape != shape {
            return Err(wrong(format!("its shape is {:?}, not {shape:?}", entry.shape)));
        }
        let of_rows = |entry: &Entry| {
            let mut entry = entry.clone();
            entry.cut_rows(rows);
            self.bytes_of(&entry)
        };
        let [codes, scales] = match entry.quantized.as_deref() {
            Some(Quantized { codes, scales: Scales::Exponents(scales), .. }) => {
                [of_rows(&codes.entry)?, of_rows(scales)?]
            }
            _ => Blocks::codes_and_scales_of_mxfp4(&of_rows(entry)?),
        };
        if scales.contains(&u8::MAX) {
            return Err(wrong("one of its scales is no number".to_owned()));
        }
        Ok([codes, scales])
    }

    /// Returns whether a matrix has all experts of a layer in MXFP4, which devices can keep.
    pub(crate) fn is_mxfp4(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.is_kept_of_experts(name))
    }

    /// Rows of a matrix that devices keep.
    pub(crate) fn quantized_rows(&self, name: &str, rows: Range<usize>) -> Result<Option<QuantizedRows>, Error> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        let Some(matrix) = entry.quantized.as_deref() else { return Ok(None) };
        let (_, width) = entry.rows_and_width();
        let read = self.read_of(matrix, &rows)?;
        Ok(Some(QuantizedRows { matrix: matrix.clone(), read, first: rows.start, width }))
    }
}
