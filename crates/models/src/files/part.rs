//! Reading tensors, and parts of them: what one of several devices needs is read, and no more.

use std::ops::Range;

use warpfold::Dtype;
use warpfold_kernels::matmul::quantized::Scheme;

use super::{Blocks, Checkpoint, Entry, Format, Reading, Storage, format, threads};
use crate::Error;
use crate::error;

/// The part of a tensor to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// These of its rows: its outermost axis.
    Rows(Range<usize>),
    /// These of the columns of a matrix.
    Columns(Range<usize>),
}

impl Checkpoint {
    /// The values of a part of a tensor of this shape, as little-endian bytes of `dtype` (`f32`,
    /// `f16` or `bf16`).
    pub(crate) fn read_part(&self, name: &str, shape: &[usize], part: &Part, dtype: Dtype) -> Result<Vec<u8>, Error> {
        let (entry, place, is_of_blocks, bytes) = self.read_stored(name, shape, part)?;
        if let Some(matrix) = &entry.quantized {
            let bytes = self.quantized_bytes(matrix, place.rows.clone(), place.columns.clone(), dtype)?;
            return self.ordered(entry, &place, bytes);
        }
        if is_of_blocks && entry.format.dtype() == Some(dtype) && entry.storage != Storage::PlusOne {
            return self.ordered(entry, &place, bytes);
        }
        let mut values = entry.format.decode(&bytes);
        if entry.format == Format::F8E4M3 {
            let first = [place.rows.start, place.columns.start];
            self.scales_of(name, entry)?.apply(&mut values, first, place.columns.len());
        }
        if !is_of_blocks {
            let cut = |row: usize| values[row * place.width..][place.columns.clone()].iter().copied();
            values = place.rows.clone().flat_map(cut).collect();
        }
        if entry.storage == Storage::PlusOne {
            values.iter_mut().for_each(|value| *value -= 1.0);
        }
        self.ordered(entry, &place, format::encode(&values, dtype))
    }

    /// The rows of a part in the order of kernels. Whole rows move, so that blocks of quantized
    /// values stay whole; a part has whole heads.
    fn ordered(&self, entry: &Entry, place: &Place, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Storage::HeadRows(order) = entry.storage else { return Ok(bytes) };
        let whole = || place.rows.start.is_multiple_of(order.head_dim).then_some(place.rows.len());
        whole().and_then(|rows| order.ordered(&bytes, rows)).ok_or_else(|| {
            let reason = format!("its rows are not those of heads of {}", order.head_dim);
            error::tensor(&self.files[entry.file].0, &entry.stored_name, reason)
        })
    }

    /// The codes that a tensor of this shape consists of, if it does and they are as they are
    /// wanted.
    pub(crate) fn coded(&self, name: &str, shape: &[usize]) -> Option<Coded> {
        self.entries.get(name).filter(|entry| entry.shape == shape)?.coded()
    }

    /// The bytes of a part of whole blocks.
    pub(crate) fn read_blocks(&self, name: &str, shape: &[usize], part: &Part) -> Result<Vec<u8>, Error> {
        let (entry, place, _, bytes) = self.read_stored(name, shape, part)?;
        self.ordered(entry, &place, bytes)
    }

    /// The bytes of a part as they are stored, if it has whole blocks, and else of the whole
    /// tensor: where the part lies, and which of both it is.
    fn read_stored(&self, name: &str, shape: &[usize], part: &Part) -> Result<(&Entry, Place, bool, Vec<u8>), Error> {
        let Some(entry) = self.entries.get(name) else {
            return Err(error::tensor(&self.path, name, format!("it is missing; its shape would be {shape:?}")));
        };
        let wrong = |reason: String| error::tensor(&self.files[entry.file].0, &entry.stored_name, reason);
        if entry.shape != shape {
            return Err(wrong(format!("its shape is {:?}, not {shape:?}", entry.shape)));
        }
        if entry.format.is_integer() {
            return Err(wrong("its values are integers, and nothing says what they stand for".to_owned()));
        }
        let place = Place::of(entry, part);
        let is_of_blocks = place.is_of_blocks(entry.format.block_len());
        let read = if is_of_blocks { place.clone() } else { Place::of(entry, &Part::Whole) };
        let bytes = self.read_place(entry, &read).map_err(|e| wrong(format!("it cannot be read: {e}")))?;
        Ok((entry, place, is_of_blocks, bytes))
    }

    /// Locates a part of a tensor in its file, if it is contiguous there and each element can be
    /// converted by itself.
    pub(crate) fn stored(&self, name: &str, shape: &[usize], part: &Part, dtype: Dtype) -> Option<Stored<'_>> {
        let entry = self.entries.get(name).filter(|entry| entry.shape == shape && entry.storage == Storage::Plain)?;
        let (place, block) = (Place::of(entry, part), entry.format.block_len());
        let is_alone = entry.format.dtype().is_some() || matches!(entry.format, Format::Blocks(_));
        let is_whole_rows = place.columns.len() == place.width && place.is_of_blocks(block);
        let start = place.rows.start * place.width / block * entry.format.block_bytes();
        let len = place.rows.len() * place.width * dtype.bytes() as usize;
        (is_alone && is_whole_rows).then_some(Stored { of: self, entry, start, dtype, len })
    }

    /// Bytes in the file of a part of a tensor; none of a tensor that is not there.
    pub(crate) fn num_bytes_of(&self, name: &str, part: &Part) -> u64 {
        self.entries.get(name).map_or(0, |entry| {
            let place = Place::of(entry, part);
            let len = (place.rows.len() * place.columns.len()) as u64;
            if entry.quantized.is_some() {
                return entry.num_bytes() as u64 * len / (entry.len() as u64).max(1);
            }
            len / entry.format.block_len() as u64 * entry.format.block_bytes() as u64
        })
    }

    fn read_place(&self, entry: &Entry, place: &Place) -> std::io::Result<Vec<u8>> {
        let bytes_of = |elements: usize| elements / entry.format.block_len() * entry.format.block_bytes();
        let first = |row: usize| bytes_of(row * place.width + place.columns.start);
        let mut bytes = vec![0; bytes_of(place.rows.len() * place.columns.len())];
        if place.columns.len() == place.width {
            self.fill(entry, first(place.rows.start), &mut bytes, self.reading)?;
        } else {
            let pieces = bytes.chunks_exact_mut(bytes_of(place.columns.len()).max(1));
            let mut read = |(row, piece): (usize, &mut [u8])| self.fill(entry, first(row), piece, Reading::ALONE);
            place.rows.clone().zip(pieces).try_for_each(&mut read)?;
        }
        Ok(bytes)
    }
}

/// Weights of few bits that devices can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coded {
    Blocks(Blocks),
    /// Quantized values of several tensors.
    Quantized(Scheme),
}

impl Coded {
    /// Returns the storage scheme on a device.
    pub(crate) const fn scheme(self) -> Scheme {
        match self {
            Self::Blocks(blocks) => blocks.scheme(),
            Self::Quantized(scheme) => scheme,
        }
    }
}

impl Entry {
    pub(super) fn coded(&self) -> Option<Coded> {
        match self.format {
            Format::Blocks(blocks) if self.storage != Storage::PlusOne => Some(Coded::Blocks(blocks)),
            _ if self.storage != Storage::Plain => None,
            _ => self.quantized.as_ref().and_then(|matrix| matrix.scheme).map(Coded::Quantized),
        }
    }
}

/// Values in a file that are read as they are, or converted one by one to a type.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    of: &'a Checkpoint,
    entry: &'a Entry,
    /// Their first byte in the tensor.
    start: usize,
    dtype: Dtype,
    /// Bytes of the values in their type.
    pub(crate) len: usize,
}

/// A piece of stored values that is to be read: from which of its bytes on, and where to.
pub(crate) type Piece<'a, 'b> = (&'a Stored<'a>, usize, &'b mut [u8]);

impl Stored<'_> {
    /// Reads pieces: a large one by several threads, and so many small ones that they are large
    /// together.
    pub(crate) fn read_all(pieces: &mut [Piece<'_, '_>], reading: Reading) -> Result<(), Error> {
        let read = |pieces: &mut [Piece<'_, '_>]| pieces.iter_mut().try_for_each(|(of, first, to)| of.read(*first, to));
        let is_large = |len: usize| len >= reading.large_bytes;
        let all = pieces.iter().map(|(.., to)| to.len()).sum();
        if pieces.len() < reading.threads || !is_large(all) || pieces.iter().any(|(.., to)| is_large(to.len())) {
            return read(pieces);
        }
        threads::share(reading.threads, pieces, 1, |_, pieces| read(pieces))
    }

    /// Reads the bytes from `first` on.
    pub(crate) fn read(&self, first: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let (path, _) = &self.of.files[self.entry.file];
        let is_plain = self.entry.format.dtype() == Some(self.dtype);
        let read = match is_plain {
            true => self.of.fill(self.entry, self.start + first, bytes, self.of.reading),
            false => self.read_converted(first, bytes),
        };
        read.map_err(|e| error::tensor(path, &self.entry.stored_name, format!("it cannot be read: {e}")))
    }

    /// Reads and converts by as many threads as there are cores.
    fn read_converted(&self, first: usize, bytes: &mut [u8]) -> std::io::Result<()> {
        let (format, size) = (self.entry.format, self.dtype.bytes() as usize);
        let [len, block_bytes] = [format.block_len(), format.block_bytes()];
        threads::share(threads::cores(), bytes, format::UNIT * size, |unit, to| {
            let (mut stored, mut values) = (Vec::new(), Vec::new());
            let mut start = first / size + unit * format::UNIT;
            for to in to.chunks_mut(format::UNIT * size) {
                let elements = start..start + to.len() / size;
                let blocks = format.covering(&elements);
                stored.resize(blocks.len() * block_bytes, 0);
                values.resize(blocks.len() * len, 0.0);
                self.of.fill(self.entry, self.start + blocks.start * block_bytes, &mut stored, Reading::ALONE)?;
                format.decode_into(&stored, &mut values);
                format::encode_into(&values[start - blocks.start * len..], self.dtype, to);
                start = elements.end;
            }
            Ok(())
        })
    }
}

/// Location of a part in a tensor, as a matrix of its outermost axis and the rest.
#[derive(Debug, Clone)]
struct Place {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Columns of the whole.
    width: usize,
}

impl Place {
    fn of(entry: &Entry, part: &Part) -> Self {
        let (rows, width) = entry.rows_and_width();
        match part {
            Part::Whole => Self { rows: 0..rows, columns: 0..width, width },
            Part::Rows(range) => Self { rows: range.clone(), columns: 0..width, width },
            Part::Columns(range) => Self { rows: 0..rows, columns: range.clone(), width },
        }
    }

    /// Returns whether the pieces of all rows are aligned to blocks of `len` elements.
    fn is_of_blocks(&self, len: usize) -> bool {
        let (is_even, columns) = (|at: usize| at.is_multiple_of(len), &self.columns);
        if columns.len() == self.width {
            return is_even(self.rows.start * self.width) && is_even(self.rows.len() * self.width);
        }
        is_even(self.width) && is_even(columns.start) && is_even(columns.end)
    }
}
