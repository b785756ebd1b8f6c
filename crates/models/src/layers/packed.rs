//! Weights of few bits from files to the device, as they are.

use std::ops::Range;

use warpfold::PackedWeights;
use warpfold_kernels::matmul::quantized::{PackedShape, Piece};

use super::loader::{Lines, Loader};
use crate::Error;
use crate::files::{Blocks, Coded, Held, Part, QuantizedRows};
use crate::weights::View;

/// Rows of a matrix of the files.
struct Rows {
    source: Source,
    num: usize,
}

/// The table that rows are read from.
enum Source {
    /// Nothing: no file is read.
    Outline,
    Blocks(Blocks, Vec<u8>),
    Quantized(Box<QuantizedRows>),
}

impl Rows {
    fn piece(&self, row: usize, number: usize, to: &mut Piece) {
        match &self.source {
            Source::Outline => {}
            Source::Blocks(blocks, bytes) => {
                let len = bytes.len() / self.num.max(1);
                blocks.piece(&bytes[row * len..][..len], number, to);
            }
            Source::Quantized(rows) => rows.piece(row, number, to),
        }
    }
}

impl Loader<'_> {
    /// The codes that lines consist of, if devices keep them and they are there as they are wanted.
    fn coded(&self, Lines { name, all, .. }: &Lines, columns: usize) -> Option<Coded> {
        self.checkpoint.coded(name, &[*all, columns]).filter(|_| self.is_packed)
    }

    fn read_rows(&mut self, Lines { name, all, own }: &Lines, columns: usize, coded: Coded) -> Result<Rows, Error> {
        self.read_source(name, [*all, columns], &Part::Rows(own.clone()), own.clone(), coded)
    }

    fn read_source(
        &mut self,
        name: &str,
        shape: [usize; 2],
        part: &Part,
        rows: Range<usize>,
        coded: Coded,
    ) -> Result<Rows, Error> {
        let num = rows.len();
        if self.is_outline {
            return Ok(Rows { source: Source::Outline, num });
        }
        let source = match coded {
            Coded::Blocks(blocks) => Source::Blocks(blocks, self.checkpoint.read_blocks(name, &shape, part)?),
            Coded::Quantized(_) => {
                let rows = self.checkpoint.quantized_rows(name, rows)?;
                rows.map_or(Source::Outline, |rows| Source::Quantized(Box::new(rows)))
            }
        };
        self.tell(self.checkpoint.num_bytes_of(name, part));
        Ok(Rows { source, num })
    }

    /// Rows of equal blocks in an order, as one matrix.
    fn pack(
        &mut self,
        coded: Coded,
        [rows, columns]: [usize; 2],
        row: impl for<'a> Fn(usize) -> (usize, usize) + Sync,
        parts: &[Rows],
    ) -> Result<PackedWeights, Error> {
        let (scheme, shape) = (coded.scheme(), PackedShape { rows: rows as u64, columns: columns as u64 });
        let bytes = if self.is_outline {
            Vec::new()
        } else {
            scheme.pack(shape, |number, piece, to| {
                let (part, row) = row(number);
                parts[part].piece(row, piece, to);
            })
        };
        let packed = PackedWeights::new(self.queue, &bytes, scheme, [rows, columns])?;
        self.loaded_bytes += bytes.len() as u64;
        Ok(packed)
    }

    /// Rows of matrices of the files, one below the other, if all of them can stay as they are.
    pub(super) fn packed_rows(&mut self, parts: &[Lines], columns: usize) -> Result<Option<PackedWeights>, Error> {
        let blocks: Option<Vec<_>> = parts.iter().map(|part| self.coded(part, columns)).collect();
        let Some(blocks) = blocks else { return Ok(None) };
        let mut all = Vec::new();
        let mut rest: Vec<_> = blocks.into_iter().zip(parts).collect();
        while let Some((first, _)) = rest.first().copied() {
            let same = rest.iter().take_while(|(blocks, _)| *blocks == first).count();
            let own: Vec<_> = rest.drain(..same).map(|(_, lines)| lines).collect();
            let read = own.iter().map(|lines| self.read_rows(lines, columns, first)).collect::<Result<Vec<_>, _>>()?;
            let place = |mut row: usize| {
                let mut part = 0;
                while row >= read[part].num {
                    (row, part) = (row - read[part].num, part + 1);
                }
                (part, row)
            };
            let rows = read.iter().map(|rows| rows.num).sum();
            let packed = self.pack(first, [rows, columns], place, &read)?;
            let mut row = 0;
            for Lines { name, own, .. } in own {
                let view = View::of_rows(&packed, self.dtype, row..row + own.len());
                self.note(name, Held::plain(self.dtype), view, own.start * columns, &[columns, 1]);
                row += own.len();
            }
            all.push(packed);
        }
        Ok(Some(PackedWeights::stacked(&all)?))
    }

    /// Rows of a gate and of what it multiplies, eight of each in turns, if they can stay as they
    /// are.
    pub(super) fn packed_in_turns(
        &mut self,
        both: &[Lines; 2],
        columns: usize,
    ) -> Result<Option<PackedWeights>, Error> {
        let [gate, up] = both.each_ref().map(|lines| self.coded(lines, columns));
        let Some(blocks) = gate.filter(|_| gate == up) else { return Ok(None) };
        let read = [self.read_rows(&both[0], columns, blocks)?, self.read_rows(&both[1], columns, blocks)?];
        let place = |row: usize| (row / 8 % 2, row / 16 * 8 + row % 8);
        let packed = self.pack(blocks, [2 * both[0].own.len(), columns], place, &read)?;
        for (i, Lines { name, own, .. }) in both.iter().enumerate() {
            let view = View::of_turns(&packed, self.dtype, i);
            self.note(name, Held::plain(self.dtype), view, own.start * columns, &[8 * columns, 0, 1]);
        }
        Ok(Some(packed))
    }

    /// The device's columns of a matrix as the file has them, where they are whole blocks.
    pub(super) fn packed_columns(
        &mut self,
        Lines { name, all, own }: &Lines,
        outputs: usize,
    ) -> Result<Option<PackedWeights>, Error> {
        let shape = [outputs, *all];
        let coded = self.checkpoint.coded(name, &shape).filter(|_| self.is_packed);
        // Columns of several tensors are converted.
        let is_whole = |coded: &Coded| matches!(coded, Coded::Blocks(blocks) if own.len().is_multiple_of(blocks.len()));
        let Some(coded) = coded.filter(is_whole) else { return Ok(None) };
        let rows = self.read_source(name, shape, &Part::Columns(own.clone()), 0..outputs, coded)?;
        let packed = self.pack(coded, [outputs, own.len()], |row| (0, row), &[rows])?;
        let view = View::of_rows(&packed, self.dtype, 0..outputs);
        self.note(name, Held::plain(self.dtype), view, own.start, &[*all, 1]);
        Ok(Some(packed))
    }
}
