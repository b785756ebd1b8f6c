//! Digests of tensors read from the files, to compare with the device's copies.
//!
//! The files are read from their beginning to their end, in rows, by other code than that which
//! brings them to devices: what both do wrong in the same way is what they share, the formats of
//! `format` and the scales of `scales`, which have tests of their own.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use warpfold::Dtype;
use warpfold_kernels::digest::Digest;

use super::{Checkpoint, Entry, Format, Reading, Storage, format, threads};
use crate::Error;
use crate::error;

/// Representation of a tensor's values on devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) dtype: Dtype,
    /// Set if 1 was added.
    pub(crate) plus_one: bool,
}

impl Held {
    /// Describes the values of the files converted to a type.
    pub(crate) const fn plain(dtype: Dtype) -> Self {
        Self { dtype, plus_one: false }
    }
}

/// Rows of a tensor that a thread digests at once.
struct Chunk<'a> {
    tensor: usize,
    name: &'a str,
    entry: &'a Entry,
    held: Held,
    rows: Range<usize>,
}

/// Elements of a chunk, more or less: what a core's own cache takes.
const CHUNK: usize = 1 << 18;

/// Alignment of chunks in elements: the largest block of the formats.
const ALIGNMENT: usize = 256;

// THRESHOLD: more cores have nothing to read; tested by
// crates/models/src/files/tests.rs::any_number_of_threads_digests_a_file_to_the_same
/// Threads that read at most.
const MOST_THREADS: usize = 32;

impl Checkpoint {
    /// The digests of tensors, all of each, as devices hold them.
    pub(crate) fn digests(&self, tensors: &[(&str, Held)]) -> Result<Vec<u64>, Error> {
        self.digests_by(threads::cores().min(MOST_THREADS), tensors)
    }

    /// The same by so many threads.
    pub(super) fn digests_by(&self, threads: usize, tensors: &[(&str, Held)]) -> Result<Vec<u64>, Error> {
        let mut chunks = Vec::new();
        for (tensor, &(name, held)) in tensors.iter().enumerate() {
            let entry = self.entries.get(name).ok_or_else(|| error::tensor(&self.path, name, "it is missing"))?;
            let (rows, width) = entry.rows_and_width();
            let alone = ALIGNMENT >> width.trailing_zeros().min(ALIGNMENT.ilog2());
            let step = (CHUNK / width.max(1)).max(1).next_multiple_of(alone);
            let is_whole = entry.quantized.as_ref().is_some_and(|matrix| !matrix.is_cut_by_rows());
            let step = if is_whole { rows.max(1) } else { step };
            let parts = (0..rows).step_by(step).map(|start| start..(start + step).min(rows));
            chunks.extend(parts.map(|rows| Chunk { tensor, name, entry, held, rows }));
        }
        chunks.sort_by_key(|chunk| (chunk.entry.file, chunk.entry.start, chunk.rows.start));
        let sums: Vec<_> = tensors.iter().map(|_| AtomicU64::new(0)).collect();
        let next = AtomicUsize::new(0);
        let read = || -> Result<(), Error> {
            let mut bytes = Vec::new();
            while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let digest = self.digest_of(chunk, &mut bytes)?;
                sums[chunk.tensor].fetch_add(digest, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.min(chunks.len())).map(|_| scope.spawn(read)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a read does not panic"))
        })?;
        Ok(sums.into_iter().map(AtomicU64::into_inner).collect())
    }

    fn digest_of(&self, chunk: &Chunk<'_>, bytes: &mut Vec<u8>) -> Result<u64, Error> {
        let Chunk { name, entry, held, rows, .. } = chunk;
        let (_, width) = entry.rows_and_width();
        let bytes_of = |rows: usize| rows * width / entry.format.block_len() * entry.format.block_bytes();
        let (path, _) = &self.files[entry.file];
        bytes.resize(bytes_of(rows.len()), 0);
        self.fill(entry, bytes_of(rows.start), bytes, Reading::ALONE)
            .map_err(|e| error::tensor(path, &entry.stored_name, format!("it cannot be read: {e}")))?;
        let is_stored_so =
            entry.format.dtype() == Some(held.dtype) && !held.plus_one && entry.storage != Storage::PlusOne;
        if let Some(matrix) = &entry.quantized {
            *bytes = self.quantized_bytes(matrix, rows.clone(), 0..width, held.dtype)?;
        } else if !is_stored_so {
            let mut values = entry.format.decode(bytes);
            if entry.format == Format::F8E4M3 {
                self.scales_of(name, entry)?.apply(&mut values, [rows.start, 0], width);
            }
            if entry.storage == Storage::PlusOne {
                values.iter_mut().for_each(|value| *value -= 1.0);
            }
            if held.plus_one {
                values.iter_mut().for_each(|value| *value += 1.0);
            }
            *bytes = format::encode(&values, held.dtype);
        }
        let size = held.dtype.bytes() as usize;
        let Storage::HeadRows(order) = entry.storage else {
            return Ok(Digest::of_bytes(bytes, size, (rows.start * width) as u64));
        };
        let mut places = vec![0; order.head_dim];
        order.sources().into_iter().enumerate().for_each(|(row, source)| places[source] = row);
        let place = |row: usize| row - row % order.head_dim + places[row % order.head_dim];
        let lines = rows.clone().zip(bytes.chunks_exact(width * size));
        let digests = lines.map(|(row, line)| Digest::of_bytes(line, size, (place(row) * width) as u64));
        Ok(digests.fold(0, u64::wrapping_add))
    }
}
