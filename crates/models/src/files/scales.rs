//! Scales of 8-bit floats, stored in a tensor of their own.
//!
//! `X.weight` has `X.weight_scale_inv` (DeepSeek's and Qwen's fp8, a scale a block) or
//! `X.weight_scale` (compressed-tensors, fbgemm: a scale for all, or for each row). Blocks have a
//! power of two of rows and of columns, which the shapes say.

use super::{Checkpoint, Entry};
use crate::Error;
use crate::error;

/// The scales of a matrix.
#[derive(Debug)]
pub(super) struct Scales {
    values: Vec<f32>,
    /// Scales side by side.
    columns: usize,
    /// Rows and columns that share one.
    block: [usize; 2],
}

impl Scales {
    /// Multiplies values of rows of `width`, the first of which is that of this row and column.
    pub(super) fn apply(&self, values: &mut [f32], [first_row, first_column]: [usize; 2], width: usize) {
        let [rows, columns] = self.block;
        for (row, mut line) in (first_row..).zip(values.chunks_mut(width.max(1))) {
            let scales = &self.values[row / rows * self.columns..][..self.columns];
            let mut column = first_column;
            while !line.is_empty() {
                let end = (column / columns + 1) * columns;
                let (piece, rest) = line.split_at_mut((end - column).min(line.len()));
                piece.iter_mut().for_each(|value| *value *= scales[column / columns]);
                (column, line) = (end, rest);
            }
        }
    }
}

impl Checkpoint {
    /// The scales of an 8-bit tensor.
    pub(super) fn scales_of(&self, name: &str, entry: &Entry) -> Result<Scales, Error> {
        let wrong = |reason: String| error::tensor(&self.files[entry.file].0, &entry.stored_name, reason);
        let names = ["_scale_inv", "_scale"].map(|end| format!("{name}{end}"));
        let Some(of) = names.iter().find_map(|name| self.entries.get(name)) else {
            return Err(wrong(format!("it has 8 bits, and its scales {} or {} are missing", names[0], names[1])));
        };
        let ([rows, columns], scales) =
            ([entry.shape.first(), entry.shape.get(1)].map(|n| *n.unwrap_or(&1)), &of.shape);
        let block = match scales[..] {
            _ if of.len() == 1 => Some([rows, columns]),
            [n] | [n, 1] if n == rows => Some([1, columns]),
            [down, right] => block_of(rows, down).zip(block_of(columns, right)).map(<[usize; 2]>::from),
            _ => None,
        };
        let block = block.filter(|_| entry.shape.len() <= 2 && of.format.dtype().is_some()).ok_or_else(|| {
            wrong(format!("its scales {} have shape {scales:?}, which does not fit {:?}", of.stored_name, entry.shape))
        })?;
        let mut bytes = vec![0; of.num_bytes()];
        let (path, file) = &self.files[of.file];
        file.read_at(of.start, &mut bytes)
            .map_err(|e| error::tensor(path, &of.stored_name, format!("it cannot be read: {e}")))?;
        let block = block.map(|len| len.max(1));
        Ok(Scales { values: of.format.decode(&bytes), columns: columns.div_ceil(block[1]), block })
    }
}

/// The power of two of which `num` blocks cover `len`; all of it, where there is one block.
fn block_of(len: usize, num: usize) -> Option<usize> {
    if num == 1 {
        return Some(len);
    }
    (0..usize::BITS - 1).map(|bits| 1 << bits).find(|block| len.div_ceil(*block) == num)
}
