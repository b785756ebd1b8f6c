//! Weights in files: names, shapes, element formats, and their values when they are asked for.
//!
//! [`Checkpoint::open`] reads headers alone and compares every offset with the length of its file,
//! so that a truncated or hostile file is refused before anything of its size is allocated.
//! `safetensors` and `gguf` read the two kinds of files; `format` turns stored elements into numbers,
//! `blocks` those of few bits, which devices may keep as they are, `quantized` those of several tensors; `part` reads what one of several devices needs, `scales` what 8-bit floats are multiplied by,
//! `digest` reads all again, to compare what devices hold with it.
//! Names are those of Hugging Face; tensors of GGUF files are given theirs. Deliberately absent:
//! memory maps, which would need `unsafe` and would fault where another process truncates a file.

mod blocks;
mod digest;
mod format;
pub(crate) mod gguf;
mod part;
mod quantized;
mod safetensors;
mod scales;
mod threads;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use warpfold::Dtype;
use warpfold_kernels::matmul::quantized::PackedShape;

use crate::Error;
use crate::error;

pub(crate) use blocks::Blocks;
pub(crate) use digest::Held;
pub(crate) use format::{Format, encode};
pub(crate) use part::{Coded, Part, Stored};
#[cfg(test)]
pub(crate) use quantized::tests::formats as formats_of_fixtures;
pub(crate) use quantized::{Quantization, QuantizedRows};

/// The tensors of a model.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// The folder, or the one file.
    path: PathBuf,
    files: Vec<(PathBuf, Content)>,
    entries: BTreeMap<String, Entry>,
    pub(crate) reading: Reading,
}

/// From which sizes on weights are read in another way; the tests of loading make them small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Threads that read one tensor, or the pieces of one matrix.
    pub(crate) threads: usize,
    /// Bytes from which on several threads read.
    pub(crate) large_bytes: usize,
    /// Bytes of pinned memory that are copied at once.
    pub(crate) stage_bytes: usize,
}

impl Reading {
    /// One thread, whatever the size.
    pub(crate) const ALONE: Self = Self { threads: 1, large_bytes: usize::MAX, stage_bytes: 0 };

    /// Default settings of reads.
    pub(crate) const SHIPPED: Self = Self { threads: 4, large_bytes: 4 << 20, stage_bytes: 32 << 20 };
}

/// Content of a file: on disk, or in the program.
#[derive(Debug)]
enum Content {
    File(File),
    Memory(&'static [u8]),
}

impl Content {
    /// Fills `bytes` from the byte `start` on. Any number of threads may call this at once: the
    /// read names its position, and the file's own is never moved.
    fn read_at(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => read_exact_at(file, start, bytes),
            Self::Memory(all) => {
                let mut rest = usize::try_from(start).ok().and_then(|start| all.get(start..)).unwrap_or_default();
                rest.read_exact(bytes)
            }
        }
    }

    /// The same by several threads: one alone copies from the page cache slower than a GPU takes
    /// it.
    fn read_at_once(&self, start: u64, bytes: &mut [u8], reading: Reading) -> io::Result<()> {
        if bytes.len() < reading.large_bytes {
            return self.read_at(start, bytes);
        }
        threads::share(reading.threads, bytes, 1, |first, bytes| self.read_at(start + first as u64, bytes))
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, start: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut start: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        // It moves the file's position, too, which nothing here reads.
        match file.seek_read(bytes, start) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => (start, bytes) = (start + read as u64, &mut bytes[read..]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Index of the file.
    pub(crate) file: usize,
    /// Its name there.
    pub(crate) stored_name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) format: Format,
    /// Its first byte in the file.
    pub(crate) start: u64,
    pub(crate) storage: Storage,
    /// The format in the file of numbers that become blocks as they are read.
    made_of: Option<Format>,
    /// The tensors that it is made of, if those are several.
    quantized: Option<Box<quantized::Quantized>>,
}

/// Difference of stored values from those of Hugging Face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Not at all.
    Plain,
    /// Rows of each head in another order than the rotation takes them.
    HeadRows(HeadOrder),
    /// 1 was added: llama.cpp stores Gemma's norms so.
    PlusOne,
}

/// Order of the rows of each head in a file. Kernels turn all of a head, by pairs of its halves;
/// those that are not to turn have the angle 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadOrder {
    pub(crate) head_dim: usize,
    /// The first rows of a head, which turn.
    pub(crate) rotated: usize,
    /// Pairs that turn are adjacent (llama.cpp, GLM), not `rotated / 2` apart.
    pub(crate) has_adjacent_pairs: bool,
}

impl HeadOrder {
    /// Number in the file of each row of a head.
    pub(crate) fn sources(self) -> Vec<usize> {
        let Self { head_dim, rotated, has_adjacent_pairs } = self;
        let source = |row: usize| {
            let (half, pair) = (row / (head_dim / 2), row % (head_dim / 2));
            match pair.checked_sub(rotated / 2) {
                Some(still) => rotated + half * (head_dim - rotated) / 2 + still,
                None if has_adjacent_pairs => 2 * pair + half,
                None => half * rotated / 2 + pair,
            }
        };
        (0..head_dim).map(source).collect()
    }

    /// Rows of whole heads in the order of kernels; nothing of parts of heads.
    pub(crate) fn ordered<T: Copy>(self, values: &[T], rows: usize) -> Option<Vec<T>> {
        let is_whole = self.head_dim > 0 && rows > 0 && rows.is_multiple_of(self.head_dim);
        let (sources, row_len) = (self.sources(), values.len() / rows.max(1));
        let rows = (0..rows).step_by(self.head_dim.max(1)).flat_map(|head| sources.iter().map(move |row| head + row));
        is_whole.then(|| rows.flat_map(|row| values[row * row_len..][..row_len].iter().copied()).collect())
    }
}

impl Entry {
    /// Rows and columns of a matrix of its outermost axis and the rest.
    fn rows_and_width(&self) -> (usize, usize) {
        match &self.shape[..] {
            [] => (1, 1),
            [rows, rest @ ..] => (*rows, rest.iter().product()),
        }
    }

    /// Returns whether this is MXFP4 of all experts of a layer, which devices can keep.
    fn is_kept_of_experts(&self, name: &str) -> bool {
        let part = name.split_once(EXPERTS).map_or("", |(_, part)| part);
        let is_mxfp4 = match &self.quantized {
            Some(matrix) => matrix.is_plain_mxfp4(),
            None => self.format == Format::Blocks(Blocks::Mxfp4),
        };
        // A number is that of one expert.
        is_mxfp4 && part.starts_with(|c: char| c.is_ascii_alphabetic())
    }

    /// Leaves these of its rows.
    fn cut_rows(&mut self, rows: &Range<usize>) {
        let (_, width) = self.rows_and_width();
        let row_bytes = width / self.format.block_len() * self.format.block_bytes();
        self.start += (rows.start * row_bytes) as u64;
        self.shape[0] = rows.len();
    }

    /// Elements.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes in the file.
    fn num_bytes(&self) -> usize {
        let own = || self.len() / self.format.block_len() * self.format.block_bytes();
        self.quantized.as_ref().map_or_else(own, |matrix| matrix.num_bytes())
    }
}

impl Checkpoint {
    fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), files: Vec::new(), entries: BTreeMap::new(), reading: Reading::SHIPPED }
    }

    /// The safetensors files of a folder.
    pub(crate) fn open_folder(folder: &Path) -> Result<Self, Error> {
        let mut checkpoint = Self::empty(folder);
        for path in safetensors::files_of(folder)? {
            let (file, len) = open(&path)?;
            let entries = safetensors::entries(&path, &file, len, checkpoint.files.len())?;
            checkpoint.add(path, Content::File(file), len, entries)?;
        }
        Ok(checkpoint)
    }

    /// One safetensors file.
    pub(crate) fn open_file(path: &Path) -> Result<Self, Error> {
        let mut checkpoint = Self::empty(path);
        let (file, len) = open(path)?;
        let entries = safetensors::entries(path, &file, len, 0)?;
        checkpoint.add(path.to_owned(), Content::File(file), len, entries)?;
        Ok(checkpoint)
    }

    /// The names of all tensors, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The shape of a tensor, if it is there.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| &entry.shape[..])
    }

    /// A safetensors file that is part of the program; `path` stands for it in messages.
    pub(crate) fn of_memory(path: &Path, bytes: &'static [u8]) -> Result<Self, Error> {
        let mut checkpoint = Self::empty(path);
        let len = bytes.len() as u64;
        let entries = safetensors::entries(path, bytes, len, 0)?;
        checkpoint.add(path.to_owned(), Content::Memory(bytes), len, entries)?;
        Ok(checkpoint)
    }

    /// The tensors of a GGUF file, by the names that Hugging Face has for them.
    pub(crate) fn of_gguf(header: gguf::Header) -> Result<Self, Error> {
        let gguf::Header { path, file, len, entries, .. } = header;
        let mut checkpoint = Self::empty(&path);
        checkpoint.add(path, Content::File(file), len, entries)?;
        Ok(checkpoint)
    }

    fn add(&mut self, path: PathBuf, file: Content, len: u64, entries: Vec<(String, Entry)>) -> Result<(), Error> {
        for (name, entry) in entries {
            let end = entry.start.checked_add(entry.num_bytes() as u64);
            if end.is_none_or(|end| end > len) {
                let reason = format!("it ends at byte {end:?} of a file of {len} bytes");
                return Err(error::tensor(&path, &entry.stored_name, reason));
            }
            if self.entries.insert(name, entry.clone()).is_some() {
                return Err(error::tensor(&path, &entry.stored_name, "it is there twice"));
            }
        }
        self.files.push((path, file));
        Ok(())
    }

    /// The folder, or the one file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of all tensors in the files.
    pub(crate) fn num_bytes(&self) -> u64 {
        self.entries.values().map(|entry| entry.num_bytes() as u64).sum()
    }

    /// The elements of all tensors.
    pub(crate) fn num_elements(&self) -> u64 {
        self.entries.values().map(|entry| entry.len() as u64).sum()
    }

    /// The elements of all tensors of blocks, and the bytes of those on a device that leaves them
    /// as they are.
    pub(crate) fn packed_elements_and_bytes(&self) -> [u64; 2] {
        let of = |(name, entry): (&String, &Entry)| {
            if name.contains(EXPERTS) {
                let is_kept = entry.is_kept_of_experts(name);
                return if is_kept { [entry.len(), entry.num_bytes()].map(|n| n as u64) } else { [0; 2] };
            }
            let Some(scheme) = entry.coded().map(Coded::scheme) else { return [0; 2] };
            let (rows, width) = entry.rows_and_width();
            let shape = PackedShape { rows: rows as u64, columns: width as u64 };
            [entry.len() as u64, shape.bytes(scheme)]
        };
        self.entries.iter().map(of).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
    }

    /// The elements of a tensor; none of one that is not there.
    pub(crate) fn num_elements_of(&self, name: &str) -> u64 {
        self.entries.get(name).map_or(0, |entry| entry.len() as u64)
    }

    /// Returns whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns the storage format of a tensor, if it is there.
    pub(crate) fn format(&self, name: &str) -> Option<Format> {
        self.entries.get(name).map(|entry| entry.format)
    }

    /// Takes the tensors of the half of a model that reads and writes, under the names that they
    /// have where there is no other half.
    pub(crate) fn text_half(mut self) -> Result<Self, Error> {
        let prefixes = [
            ("language_model.model.", "model."),
            ("language_model.lm_head.", "lm_head."),
            ("model.language_model.", "model."),
        ];
        if !self.entries.keys().any(|name| name.contains("language_model.")) {
            return Ok(self);
        }
        for (name, entry) in std::mem::take(&mut self.entries) {
            let renamed = prefixes.iter().find_map(|(from, to)| Some(format!("{to}{}", name.strip_prefix(from)?)));
            let is_head = name.starts_with("lm_head.");
            if let Some(name) = renamed.or_else(|| is_head.then_some(name))
                && self.entries.insert(name.clone(), entry).is_some()
            {
                return Err(error::tensor(&self.path, &name, "it is there twice"));
            }
        }
        Ok(self)
    }

    /// Names tensors as those of a model with a head where they stand without one, as those of
    /// embedding models do.
    pub(crate) fn under_model(mut self) -> Self {
        if self.has("embed_tokens.weight") && !self.has("model.embed_tokens.weight") {
            let of = |(name, entry): (String, Entry)| match name.starts_with("lm_head.") {
                true => (name, entry),
                false => (format!("model.{name}"), entry),
            };
            self.entries = std::mem::take(&mut self.entries).into_iter().map(of).collect();
        }
        self
    }

    /// Joins all axes of a tensor but the last, or but the first of a list of them: matrices one
    /// below the other become one.
    pub(crate) fn join_axes(&mut self, name: &str, is_list: bool) {
        if let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.quantized.is_none()) {
            let last = if is_list { 1 } else { entry.shape.last().copied().unwrap_or(1) };
            let rows = entry.len() / last.max(1);
            entry.shape = if is_list { vec![rows] } else { vec![rows, last] };
        }
    }

    /// Cuts a matrix into others, one below the other: their names, and how many rows each has.
    pub(crate) fn cut(&mut self, name: &str, parts: &[(String, usize)]) -> Result<(), Error> {
        let Some(entry) = self.entries.remove(name) else {
            return Err(error::tensor(&self.path, name, "it is missing"));
        };
        let (rows, width) = entry.rows_and_width();
        let wrong = |reason: String| Err(error::tensor(&self.files[entry.file].0, &entry.stored_name, reason));
        let all: usize = parts.iter().map(|(_, rows)| rows).sum();
        if entry.shape.len() != 2 || rows != all {
            return wrong(format!("its shape is {:?}, not {all} rows", entry.shape));
        }
        if entry.format.dtype().is_none() && !matches!(entry.format, Format::Blocks(_)) {
            return wrong("it is quantized, and such a tensor is not cut into its matrices".to_owned());
        }
        let mut start = entry.start;
        for (name, rows) in parts {
            let part = Entry { shape: vec![*rows, width], start, ..entry.clone() };
            start += part.num_bytes() as u64;
            if self.entries.insert(name.clone(), part).is_some() {
                return wrong(format!("{name} is there, too"));
            }
        }
        Ok(())
    }

    /// Rounds the matrices of layers to blocks as they are read; those of experts, and what is
    /// stored in few bits, stay as they are. Returns how many are rounded.
    pub(crate) fn quantize(&mut self, blocks: Blocks) -> usize {
        let mut num = 0;
        for (name, entry) in &mut self.entries {
            let is_product = name.contains(".layers.") && name.ends_with("_proj.weight") && !name.contains(EXPERTS);
            let is_whole = entry.shape.len() == 2 && entry.shape[1].is_multiple_of(blocks.len());
            if is_product && is_whole && entry.format.dtype().is_some() {
                entry.made_of = Some(entry.format);
                entry.format = Format::Blocks(blocks);
                num += 1;
            }
        }
        num
    }

    /// Fills `bytes` with those of a tensor from its byte `start` on: with whole blocks, where its
    /// numbers become blocks.
    fn fill(&self, entry: &Entry, start: usize, bytes: &mut [u8], reading: Reading) -> io::Result<()> {
        let (_, file) = &self.files[entry.file];
        let (Some(source), Format::Blocks(blocks)) = (entry.made_of, entry.format) else {
            return file.read_at_once(entry.start + start as u64, bytes, reading);
        };
        let (block_bytes, source_bytes) = (blocks.bytes(), blocks.len() * source.block_bytes());
        let threads = if bytes.len() < reading.large_bytes { 1 } else { threads::cores() };
        threads::share(threads, bytes, block_bytes, |first, to| {
            let mut stored = vec![0; to.len() / block_bytes * source_bytes];
            let first = (start / block_bytes + first) * source_bytes;
            file.read_at(entry.start + first as u64, &mut stored)?;
            blocks.encode(&source.decode(&stored), to);
            Ok(())
        })
    }

    /// Says that a tensor is stored in another way than it is to be used.
    pub(crate) fn set_storage(&mut self, name: &str, storage: Storage) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.storage = storage;
        }
    }

    /// The values of a tensor of this shape, as little-endian bytes of `dtype` (`f32`, `f16` or
    /// `bf16`).
    pub(crate) fn read(&self, name: &str, shape: &[usize], dtype: Dtype) -> Result<Vec<u8>, Error> {
        self.read_part(name, shape, &Part::Whole, dtype)
    }
}

/// What names of matrices of experts have.
const EXPERTS: &str = ".experts.";

/// A file and its length.
fn open(path: &Path) -> Result<(File, u64), Error> {
    // Looked at first: opening a pipe waits for who writes to it.
    if !std::fs::metadata(path).map_err(error::read(path))?.is_file() {
        return Err(error::file(path, "it is not a file"));
    }
    let file = File::open(path).map_err(error::read(path))?;
    let len = file.metadata().map_err(error::read(path))?.len();
    Ok((file, len))
}

// THRESHOLD: longer files are not read; tested by
// crates/models/src/files/tests.rs::what_is_no_file_or_too_large_for_its_kind_is_not_read
/// Bytes that a file beside the weights has at most: five times the largest tokenizer.
const MOST_BYTES: u64 = 256 << 20;

/// The bytes of a file beside the weights: configurations, tokenizers, templates, indices.
pub(crate) fn read_small(path: &Path) -> Result<Vec<u8>, Error> {
    read_at_most(path, MOST_BYTES)
}

fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let (file, len) = open(path)?;
    if len > most {
        return Err(error::file(path, format!("it has {len} bytes, and {most} at most are read of such a file")));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(error::read(path))?;
    Ok(bytes)
}

/// The same of a text.
pub(crate) fn read_small_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read_small(path)?).map_err(|_| error::file(path, "it is not UTF-8"))
}

/// The number of elements of a shape from a file, if it is one.
fn checked_len(shape: &[u64]) -> Option<(Vec<usize>, usize)> {
    let sizes: Vec<usize> = shape.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<_>>()?;
    let len = sizes.iter().try_fold(1_usize, |len, size| len.checked_mul(*size))?;
    // Their bytes are counted in `usize` as well, 8 an element at most.
    (len <= isize::MAX as usize / 8).then_some((sizes, len))
}

#[cfg(test)]
mod tests;
