//! Weights from files to the device.

use std::borrow::Cow;
use std::ops::Range;

use warpfold::{Dtype, ExpertMatrices, Mxfp4, Queue, Tensor};
use warpfold_device::HostBuffer;

use super::adapted::Adapted;
use super::linear::Weight;
use super::shard::parts_of;
use super::{Embedding, Linear, Norm, Shard};
use crate::Error;
use crate::adapter::AdapterRoom;
use crate::files::{Checkpoint, Format, Held, Part, Stored};
use crate::weights::{Mxfp4Part, Placed, View};

/// Brings the tensors of a checkpoint to a device, in the element type that the model computes in.
pub(crate) struct Loader<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) queue: &'a Queue,
    pub(crate) dtype: Dtype,
    /// The device's place, if several share the model. Sizes are then those of what it has.
    pub(crate) shard: Option<&'a Shard>,
    /// Told the bytes that were read of the files, and those of all weights there.
    pub(crate) progress: &'a mut dyn FnMut(u64, u64),
    /// Bytes that were read.
    pub(crate) read_bytes: u64,
    /// Bytes on the device.
    pub(crate) loaded_bytes: u64,
    /// Pinned memory that bytes of files go through: one part is read while the one before is
    /// copied.
    pub(crate) stages: [HostBuffer<u8>; 2],
    /// Only allocates tensors and reads no file.
    pub(crate) is_outline: bool,
    /// Addresses of the loaded tensors, if they are requested.
    pub(crate) placed: Option<Vec<Placed>>,
    /// Quantized weights stay packed where kernels can multiply them.
    pub(crate) is_packed: bool,
    /// Adapters that there is to be room for.
    pub(crate) adapters: Option<AdapterRoom>,
}

impl<'a> Loader<'a> {
    /// For all of a model.
    pub(crate) fn new(
        checkpoint: &'a Checkpoint,
        queue: &'a Queue,
        dtype: Dtype,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let stages = [queue.device().host_buffer(0)?, queue.device().host_buffer(0)?];
        Ok(Self {
            checkpoint,
            queue,
            dtype,
            shard: None,
            progress,
            read_bytes: 0,
            loaded_bytes: 0,
            stages,
            is_outline: false,
            placed: None,
            is_packed: false,
            adapters: None,
        })
    }
}

impl Loader<'_> {
    /// Notes where elements of a tensor lie: as those of a view, the first of which is the one with
    /// the number `first` there, the others by a stride for each axis.
    pub(super) fn note(&mut self, name: &str, held: Held, view: View, first: usize, strides: &[usize]) {
        let strides = strides.iter().map(|stride| *stride as isize).collect();
        if let Some(placed) = self.placed.as_mut().filter(|_| !self.is_outline) {
            placed.push(Placed { name: name.to_owned(), held, view, first: first as u64, strides });
        }
    }

    /// Notes that elements of matrices of experts lie in packed ones now.
    pub(super) fn have_been_packed(&mut self, before: &ExpertMatrices, packed: &ExpertMatrices) {
        let ExpertMatrices::Packed(packed) = packed else { return };
        self.loaded_bytes = self.loaded_bytes + packed.num_bytes() - before.num_bytes();
        for placed in self.placed.iter_mut().flatten() {
            if let Some(view) = placed.view.of_packed(before, packed) {
                placed.view = view;
            }
        }
    }

    /// Tells that so many more bytes of the files were read.
    pub(super) fn tell(&mut self, bytes: u64) {
        self.read_bytes += bytes;
        (self.progress)(self.read_bytes, self.checkpoint.num_bytes());
    }

    fn read_part(&mut self, name: &str, shape: &[usize], part: &Part, dtype: Dtype) -> Result<Vec<u8>, Error> {
        if self.is_outline {
            return Ok(Vec::new());
        }
        let bytes = self.checkpoint.read_part(name, shape, part, dtype)?;
        self.tell(self.checkpoint.num_bytes_of(name, part));
        Ok(bytes)
    }

    /// Tensors one after the other as one of this shape: what is stored as it is wanted goes
    /// through pinned memory.
    fn joined(&mut self, parts: &[(String, Vec<usize>, Part)], shape: &[usize]) -> Result<Tensor, Error> {
        if self.is_outline {
            return Ok(Tensor::uninitialized(self.queue, self.dtype, shape)?);
        }
        let stored =
            |(name, shape, part): &(String, Vec<usize>, Part)| self.checkpoint.stored(name, shape, part, self.dtype);
        let Some(stored) = parts.iter().map(stored).collect::<Option<Vec<_>>>() else {
            let mut bytes = Vec::new();
            for (name, shape, part) in parts {
                bytes.append(&mut self.read_part(name, shape, part, self.dtype)?);
            }
            return self.upload(self.dtype, &bytes, shape);
        };
        let mut tensor = Tensor::uninitialized(self.queue, self.dtype, shape)?;
        let (size, reading) = (self.dtype.bytes() as usize, self.checkpoint.reading);
        let all: usize = stored.iter().map(|stored| stored.len).sum();
        let num_bytes: u64 = parts.iter().map(|(name, _, part)| self.checkpoint.num_bytes_of(name, part)).sum();
        let read_by = |copied: usize| (u128::from(num_bytes) * copied as u128 / all as u128) as u64;
        // Those that are not read yet, and how much of the first of them is.
        let (mut rest, mut first) = (&stored[..], 0);
        for copied in (0..all).step_by(reading.stage_bytes) {
            let room = reading.stage_bytes.min(all - copied);
            self.stages.swap(0, 1);
            if self.stages[0].len() < room {
                self.stages[0] = self.queue.device().host_buffer(room.next_power_of_two())?;
            }
            // Waits for the copy before the last one.
            let mut bytes = self.stages[0].range_mut(..room)?;
            let mut pieces = Vec::new();
            while let ([stored, others @ ..], false) = (rest, bytes.is_empty()) {
                let len = bytes.len().min(stored.len - first);
                let (piece, more) = bytes.split_at_mut(len);
                pieces.push((stored, first, piece));
                (bytes, first) = (more, first + len);
                if first == stored.len {
                    (rest, first) = (others, 0);
                }
            }
            Stored::read_all(&mut pieces, reading)?;
            tensor.copy_part_from_pinned(copied / size, self.stages[0].view(..room)?)?;
            self.tell(read_by(copied + room) - read_by(copied));
        }
        self.loaded_bytes += all as u64;
        Ok(tensor)
    }

    fn upload(&mut self, dtype: Dtype, bytes: &[u8], shape: &[usize]) -> Result<Tensor, Error> {
        if self.is_outline {
            return Ok(Tensor::uninitialized(self.queue, dtype, shape)?);
        }
        self.loaded_bytes += bytes.len() as u64;
        Ok(Tensor::from_bytes(self.queue, dtype, bytes, shape)?)
    }

    /// Rows of matrices of the files, one below the other as one.
    fn rows(&mut self, parts: &[Lines], columns: usize) -> Result<Tensor, Error> {
        let of = |Lines { name, all, own }: &Lines| (name.clone(), vec![*all, columns], Part::Rows(own.clone()));
        let num_rows = parts.iter().map(|part| part.own.len()).sum();
        let tensor = self.joined(&parts.iter().map(of).collect::<Vec<_>>(), &[num_rows, columns])?;
        let mut row = 0;
        for Lines { name, own, .. } in parts {
            self.note(
                name,
                Held::plain(self.dtype),
                View::Tensor(tensor.slice(0, row..row + own.len())?),
                own.start * columns,
                &[columns, 1],
            );
            row += own.len();
        }
        Ok(tensor)
    }

    /// Elements of vectors of the files, one after the other as one.
    fn vectors(&mut self, parts: &[Lines]) -> Result<Tensor, Error> {
        let mut bytes = Vec::new();
        for Lines { name, all, own } in parts {
            bytes.append(&mut self.read_part(name, &[*all], &Part::Rows(own.clone()), self.dtype)?);
        }
        let len = parts.iter().map(|part| part.own.len()).sum();
        let tensor = self.upload(self.dtype, &bytes, &[len])?;
        let mut at = 0;
        for Lines { name, own, .. } in parts {
            self.note(
                name,
                Held::plain(self.dtype),
                View::Tensor(tensor.slice(0, at..at + own.len())?),
                own.start,
                &[1],
            );
            at += own.len();
        }
        Ok(tensor)
    }

    /// Rows of matrices of the files, one below the other, as they are stored where that is wanted.
    fn weight(&mut self, parts: &[Lines], columns: usize) -> Result<Weight, Error> {
        match self.packed_rows(parts, columns)? {
            Some(packed) => Ok(Weight::Packed(packed)),
            None => self.rows(parts, columns).map(Weight::Plain),
        }
    }

    /// A matrix whose rows stand for tokens.
    pub(crate) fn embedding(&mut self, name: &str, [lines, columns]: [usize; 2]) -> Result<Embedding, Error> {
        let weight = self.weight(&[Lines::all(name.to_owned(), lines)], columns)?;
        Ok(Embedding::new(weight, self.dtype))
    }

    /// Matrices one below the other: their names without `.weight`, and how many lines each has.
    pub(crate) fn lines(&mut self, parts: &[(String, usize)], columns: usize) -> Result<Tensor, Error> {
        let of = |(name, lines): &(String, usize)| Lines::all(format!("{name}.weight"), *lines);
        self.rows(&parts.iter().map(of).collect::<Vec<_>>(), columns)
    }

    /// Rows of matrices of so many in all, one of each in turns, whose names stand without
    /// `.weight`.
    pub(crate) fn lines_of(
        &mut self,
        names: &[String],
        all: usize,
        own: Range<usize>,
        columns: usize,
    ) -> Result<Tensor, Error> {
        if let [name] = names {
            return self.rows(&[Lines { name: format!("{name}.weight"), all, own }], columns);
        }
        self.in_single_turns(names, "weight", [all, columns], own)
    }

    /// Elements of biases of so many in all, one of each in turns, whose names stand without
    /// `.bias`.
    pub(crate) fn biases(&mut self, names: &[String], all: usize, own: Range<usize>) -> Result<Tensor, Error> {
        if let [name] = names {
            return self.vectors(&[Lines { name: format!("{name}.bias"), all, own }]);
        }
        self.in_single_turns(names, "bias", [all, 1], own)
    }

    fn in_single_turns(
        &mut self,
        names: &[String],
        kind: &str,
        shape: [usize; 2],
        own: Range<usize>,
    ) -> Result<Tensor, Error> {
        let [all, columns] = shape;
        let stored = if kind == "bias" { vec![all] } else { shape.to_vec() };
        let mut read = Vec::new();
        for name in names {
            read.push(self.read_part(&format!("{name}.{kind}"), &stored, &Part::Rows(own.clone()), self.dtype)?);
        }
        let bytes = turned(&read, columns * self.dtype.bytes() as usize);
        let tensor = self.upload(self.dtype, &bytes, &[own.len(), names.len(), columns])?;
        for (i, name) in names.iter().enumerate() {
            let view = View::Tensor(tensor.slice(1, i..i + 1)?);
            self.note(&format!("{name}.{kind}"), Held::plain(self.dtype), view, own.start * columns, &[columns, 0, 1]);
        }
        Ok(tensor)
    }

    /// Returns whether a matrix, whose name stands without `.weight`, stays MXFP4 on the device.
    pub(crate) fn stays_mxfp4(&self, name: &str) -> bool {
        self.is_packed && self.checkpoint.is_mxfp4(&format!("{name}.weight"))
    }

    /// Variant of [`Loader::lines_of`] for weights that stay MXFP4.
    pub(crate) fn mxfp4_lines_of(
        &mut self,
        names: &[String],
        all: usize,
        own: Range<usize>,
        columns: usize,
    ) -> Result<Mxfp4, Error> {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for name in if self.is_outline { &[] } else { names } {
            let name = format!("{name}.weight");
            let [of_codes, of_scales] = self.checkpoint.mxfp4_rows(&name, &[all, columns], &own)?;
            codes.push(of_codes);
            scales.push(of_scales);
            self.tell(self.checkpoint.num_bytes_of(&name, &Part::Rows(own.clone())));
        }
        let rows = names.len() * own.len();
        let codes = self.upload(Dtype::U8, &turned(&codes, columns / 2), &[rows, columns / 2])?;
        let scales = self.upload(Dtype::U8, &turned(&scales, columns / 32), &[rows, columns / 32])?;
        let weights = Mxfp4::new(codes, scales)?;
        for (i, name) in names.iter().enumerate() {
            let (part, strides) = match names.len() {
                1 => (Mxfp4Part::All, &[columns, 1][..]),
                _ => (Mxfp4Part::Turns(i), &[columns, 0, 1][..]),
            };
            let view = View::Mxfp4 { weights: weights.clone(), dtype: self.dtype, part };
            self.note(&format!("{name}.weight"), Held::plain(self.dtype), view, own.start * columns, strides);
        }
        Ok(weights)
    }

    /// The device's share of a vector, one element a head.
    pub(crate) fn by_heads(&mut self, name: &str, own: usize) -> Result<Tensor, Error> {
        self.vectors(&[Lines::of(self.shard, name, own)])
    }

    /// Variant of [`Loader::linear`] for a device's share of the columns of each matrix.
    pub(crate) fn columns(
        &mut self,
        parts: &[(String, usize)],
        inputs: usize,
        has_bias: bool,
    ) -> Result<Linear, Error> {
        let of = |(name, own): &(String, usize)| Lines::of(self.shard, name, *own);
        let lines: Vec<_> = parts.iter().map(of).collect();
        let linear = self.side_by_side(&lines, inputs, has_bias)?;
        Ok(Linear { adapted: Adapted::new(self, parts, inputs, false)?, ..linear })
    }

    /// One product of several, whose results lie side by side: their names without `.weight`, and
    /// how many columns each gives.
    pub(crate) fn linear(&mut self, parts: &[(String, usize)], inputs: usize, has_bias: bool) -> Result<Linear, Error> {
        let parts: Vec<_> = parts.iter().map(|(name, own)| Lines::all(name.clone(), *own)).collect();
        self.side_by_side(&parts, inputs, has_bias)
    }

    fn side_by_side(&mut self, parts: &[Lines], inputs: usize, has_bias: bool) -> Result<Linear, Error> {
        let of = |kind: &str| parts.iter().map(|part| part.named(kind)).collect::<Vec<_>>();
        let weight = self.weight(&of("weight"), inputs)?;
        let bias = has_bias.then(|| self.vectors(&of("bias"))).transpose()?;
        Linear::new(weight, bias)
    }

    /// One product of a gate and of what it multiplies: `own` columns of each, eight of the one and
    /// eight of the other in turns.
    pub(crate) fn gated(&mut self, names: [String; 2], own: usize, inputs: usize) -> Result<Linear, Error> {
        let linear = self.in_turns(&names, own, inputs)?;
        Ok(Linear { adapted: Adapted::new(self, &names.map(|name| (name, own)), inputs, true)?, ..linear })
    }

    fn in_turns(&mut self, names: &[String; 2], own: usize, inputs: usize) -> Result<Linear, Error> {
        let both = names.each_ref().map(|name| Lines::of(self.shard, name, own).named("weight"));
        if let Some(packed) = self.packed_in_turns(&both, inputs)? {
            return Linear::new(Weight::Packed(packed), None);
        }
        let group = |Lines { name, all, own }: &Lines, i: usize| {
            let start = own.start + 8 * i;
            (name.clone(), vec![*all, inputs], Part::Rows(start..start + 8))
        };
        let groups: Vec<_> = (0..own / 8).flat_map(|i| [group(&both[0], i), group(&both[1], i)]).collect();
        let weight = match self.is_quantized(&both) {
            true => self.interleaved(&both, inputs)?,
            false => self.joined(&groups, &[2 * own, inputs])?,
        };
        let in_turns = weight.reshape(&[own / 8, 2, 8 * inputs])?;
        for (i, Lines { name, own, .. }) in both.iter().enumerate() {
            self.note(
                name,
                Held::plain(self.dtype),
                View::Tensor(in_turns.slice(1, i..i + 1)?),
                own.start * inputs,
                &[8 * inputs, 0, 1],
            );
        }
        Linear::new(Weight::Plain(weight), None)
    }

    /// Returns whether a matrix consists of several tensors that are read together.
    fn is_quantized(&self, both: &[Lines; 2]) -> bool {
        let is_so = |lines: &Lines| self.checkpoint.format(&lines.name) == Some(Format::Quantized);
        both.iter().any(is_so) && !self.is_outline
    }

    /// Rows of two matrices, eight of the one and eight of the other in turns.
    fn interleaved(&mut self, both: &[Lines; 2], columns: usize) -> Result<Tensor, Error> {
        let own = both[0].own.len();
        let [gate, up] = both.each_ref().map(|Lines { name, all, own }| {
            self.read_part(name, &[*all, columns], &Part::Rows(own.clone()), self.dtype)
        });
        let eight = 8 * columns * self.dtype.bytes() as usize;
        let (gate, up) = (gate?, up?);
        let turns = gate.chunks_exact(eight).zip(up.chunks_exact(eight));
        let bytes: Vec<u8> = turns.flat_map(|(gate, up)| [gate, up]).flatten().copied().collect();
        self.upload(self.dtype, &bytes, &[2 * own, columns])
    }

    /// One product whose sums go over what other devices may have, too: of its `inputs` a device
    /// has some.
    pub(crate) fn sums(&mut self, name: &str, outputs: usize, inputs: usize, has_bias: bool) -> Result<Linear, Error> {
        let Some(shard) = self.shard.filter(|shard| shard.is_shared()) else {
            let parts = [(name.to_owned(), outputs)];
            let linear = self.linear(&parts, inputs, has_bias)?;
            let adapted = Adapted::new(self, &parts, inputs, false)?;
            return Ok(Linear { parts: parts_of(inputs), adapted, ..linear });
        };
        let columns = Lines::of(Some(shard), name, inputs).named("weight");
        let weight = match self.packed_columns(&columns, outputs)? {
            Some(packed) => Weight::Packed(packed),
            None => {
                let Lines { name: weight, all, own } = columns;
                let bytes = self.read_part(&weight, &[outputs, all], &Part::Columns(own.clone()), self.dtype)?;
                let tensor = self.upload(self.dtype, &bytes, &[outputs, inputs])?;
                self.note(&weight, Held::plain(self.dtype), View::Tensor(tensor.clone()), own.start, &[all, 1]);
                Weight::Plain(tensor)
            }
        };
        let bias = has_bias.then(|| self.vectors(&[Lines::all(format!("{name}.bias"), outputs)])).transpose()?;
        Ok(Linear { parts: shard.parts(inputs), shard: Some(shard.clone()), ..Linear::new(weight, bias)? })
    }

    /// The scales of a norm, in `f32`.
    pub(crate) fn norm(&mut self, name: &str, len: usize, eps: f64) -> Result<Norm, Error> {
        self.scales(name, len, eps, false)
    }

    /// The scales of a norm that multiplies by 1 and what the file says.
    pub(crate) fn norm_plus_one(&mut self, name: &str, len: usize, eps: f64) -> Result<Norm, Error> {
        self.scales(name, len, eps, true)
    }

    fn scales(&mut self, name: &str, len: usize, eps: f64, plus_one: bool) -> Result<Norm, Error> {
        Ok(Norm::new(self.numbers_of(&format!("{name}.weight"), &[len], plus_one)?, eps))
    }

    /// All elements of a tensor, in `f32`.
    pub(crate) fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        self.numbers_of(name, shape, false)
    }

    fn numbers_of(&mut self, name: &str, shape: &[usize], plus_one: bool) -> Result<Tensor, Error> {
        let mut bytes = self.read_part(name, shape, &Part::Whole, Dtype::F32)?;
        if plus_one {
            let sum = |word: &[u8]| 1.0 + f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            bytes = bytes.chunks_exact(4).flat_map(|word| sum(word).to_le_bytes()).collect();
        }
        let tensor = self.upload(Dtype::F32, &bytes, shape)?;
        let strides: Vec<usize> = (1..=shape.len()).map(|axis| shape[axis..].iter().product()).collect();
        self.note(name, Held { dtype: Dtype::F32, plus_one }, View::Tensor(tensor.clone()), 0, &strides);
        Ok(tensor)
    }
}

/// Rows of so many bytes of matrices, one of each in turns.
fn turned(parts: &[Vec<u8>], row_bytes: usize) -> Cow<'_, [u8]> {
    match parts {
        [] => Cow::Borrowed(&[]),
        [one] => Cow::Borrowed(one),
        [first, ..] => {
            let rows = (0..first.len()).step_by(row_bytes.max(1));
            rows.flat_map(|row| parts.iter().flat_map(move |part| &part[row..row + row_bytes])).copied().collect()
        }
    }
}

/// Lines of a tensor of the files.
pub(super) struct Lines {
    pub(super) name: String,
    /// Number over all devices.
    pub(super) all: usize,
    /// Range of this device.
    pub(super) own: Range<usize>,
}

impl Lines {
    /// All of them.
    fn all(name: String, lines: usize) -> Self {
        Self { name, all: lines, own: 0..lines }
    }

    /// The device's share of so many lines.
    fn of(shard: Option<&Shard>, name: &str, lines: usize) -> Self {
        let (all, own) = shard.map_or((lines, 0..lines), |shard| shard.lines(name, lines));
        Self { name: name.to_owned(), all, own }
    }

    /// The same of a tensor whose name goes on so.
    fn named(&self, kind: &str) -> Self {
        Self { name: format!("{}.{kind}", self.name), all: self.all, own: self.own.clone() }
    }
}
