//! Weights from files to the device.

use warpfold::{Dtype, Queue, Tensor};
use warpfold_device::HostBuffer;

use super::{Linear, Norm, Shard};
use crate::Error;
use crate::files::{Checkpoint, Part, Stored};

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
    /// Whether tensors get their sizes alone, and no file is read.
    pub(crate) is_outline: bool,
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
        let (shard, none, is_outline) = (None, 0, false);
        Ok(Self { checkpoint, queue, dtype, shard, progress, read_bytes: none, loaded_bytes: none, stages, is_outline })
    }
}

/// Bytes of pinned memory that are copied at once.
const STAGE_BYTES: usize = 32 << 20;

impl Loader<'_> {
    fn read(&mut self, name: &str, shape: &[usize], dtype: Dtype) -> Result<Vec<u8>, Error> {
        self.read_part(name, shape, &Part::Whole, dtype)
    }

    fn read_part(&mut self, name: &str, shape: &[usize], part: &Part, dtype: Dtype) -> Result<Vec<u8>, Error> {
        if self.is_outline {
            return Ok(Vec::new());
        }
        let bytes = self.checkpoint.read_part(name, shape, part, dtype)?;
        self.read_bytes += self.checkpoint.num_bytes_of(name, part);
        (self.progress)(self.read_bytes, self.checkpoint.num_bytes());
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
        let size = self.dtype.bytes() as usize;
        let all: usize = stored.iter().map(|stored| stored.len).sum();
        // Those that are not read yet, and how much of the first of them is.
        let (mut rest, mut first) = (&stored[..], 0);
        for copied in (0..all).step_by(STAGE_BYTES) {
            let room = STAGE_BYTES.min(all - copied);
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
            Stored::read_all(&mut pieces)?;
            tensor.copy_part_from_pinned(copied / size, self.stages[0].view(..room)?)?;
            self.read_bytes += room as u64;
            (self.progress)(self.read_bytes, self.checkpoint.num_bytes());
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

    /// A matrix.
    pub(crate) fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Tensor, Error> {
        self.joined(&[(name.to_owned(), shape.to_vec(), Part::Whole)], &shape)
    }

    /// Matrices one below the other: their names without `.weight`, and how many lines each has.
    pub(crate) fn lines(&mut self, parts: &[(String, usize)], columns: usize) -> Result<Tensor, Error> {
        let of = |(name, lines): &(String, usize)| (format!("{name}.weight"), vec![*lines, columns], Part::Whole);
        let lines = parts.iter().map(|(_, lines)| lines).sum();
        self.joined(&parts.iter().map(of).collect::<Vec<_>>(), &[lines, columns])
    }

    /// As [`Loader::linear`], of which a device has some columns of each.
    pub(crate) fn columns(
        &mut self,
        parts: &[(String, usize)],
        inputs: usize,
        has_bias: bool,
    ) -> Result<Linear, Error> {
        let Some(shard) = self.shard else { return self.linear(parts, inputs, has_bias) };
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for (name, own) in parts {
            let (all, lines) = shard.lines(name, *own);
            let part = Part::Rows(lines);
            weights.push((format!("{name}.weight"), vec![all, inputs], part.clone()));
            if has_bias {
                biases.append(&mut self.read_part(&format!("{name}.bias"), &[all], &part, self.dtype)?);
            }
        }
        let outputs = parts.iter().map(|(_, own)| own).sum();
        let weight = self.joined(&weights, &[outputs, inputs])?;
        let bias = has_bias.then(|| self.upload(self.dtype, &biases, &[outputs])).transpose()?;
        Linear::new(&weight, bias)
    }

    /// One product of a gate and of what it multiplies: `own` columns of each, eight of the one and
    /// eight of the other in turns.
    pub(crate) fn gated(&mut self, names: [String; 2], own: usize, inputs: usize) -> Result<Linear, Error> {
        let both = names.map(|name| {
            let (all, lines) = self.shard.map_or((own, 0..own), |shard| shard.lines(&name, own));
            (format!("{name}.weight"), vec![all, inputs], lines.start)
        });
        let group = |(name, shape, start): &(String, Vec<usize>, usize), i: usize| {
            (name.clone(), shape.clone(), Part::Rows(start + 8 * i..start + 8 * i + 8))
        };
        let groups: Vec<_> = (0..own / 8).flat_map(|i| [group(&both[0], i), group(&both[1], i)]).collect();
        Linear::new(&self.joined(&groups, &[2 * own, inputs])?, None)
    }

    /// One product whose sums go over what other devices have, too: of its `inputs` a device has
    /// some.
    pub(crate) fn sums(&mut self, name: &str, outputs: usize, inputs: usize, has_bias: bool) -> Result<Linear, Error> {
        let Some(shard) = self.shard else {
            return self.linear(&[(name.to_owned(), outputs)], inputs, has_bias);
        };
        let (all, columns) = shard.lines(name, inputs);
        let weight = format!("{name}.weight");
        let bytes = self.read_part(&weight, &[outputs, all], &Part::Columns(columns), self.dtype)?;
        let parts = shard.parts(inputs);
        // [outputs, parts, inputs of a part] as [parts, outputs, inputs of a part].
        let width = inputs / parts * self.dtype.bytes() as usize;
        let piece = |part: usize, line: usize| &bytes[(line * parts + part) * width..][..width];
        let outputs_read = if self.is_outline { 0 } else { outputs };
        let lines = (0..parts).flat_map(|part| (0..outputs_read).map(move |line| (part, line)));
        let bytes: Vec<u8> = lines.flat_map(|(part, line)| piece(part, line)).copied().collect();
        let weight = self.upload(self.dtype, &bytes, &[parts, outputs, inputs / parts])?.transpose(1, 2)?;
        let bias = match has_bias {
            true => {
                let bytes = self.read(&format!("{name}.bias"), &[outputs], self.dtype)?;
                Some(self.upload(self.dtype, &bytes, &[outputs])?)
            }
            false => None,
        };
        Ok(Linear { weight, bias, shard: Some(shard.clone()) })
    }

    /// One product of several, whose results lie side by side: their names without `.weight`, and
    /// how many columns each gives.
    pub(crate) fn linear(&mut self, parts: &[(String, usize)], inputs: usize, has_bias: bool) -> Result<Linear, Error> {
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        let weight = self.lines(parts, inputs)?;
        if !has_bias {
            return Linear::new(&weight, None);
        }
        let mut bytes = Vec::new();
        for (name, outputs) in parts {
            bytes.append(&mut self.read(&format!("{name}.bias"), &[*outputs], self.dtype)?);
        }
        let bias = self.upload(self.dtype, &bytes, &[outputs])?;
        Linear::new(&weight, Some(bias))
    }

    /// The scales of a norm, in `f32`.
    pub(crate) fn norm(&mut self, name: &str, len: usize, eps: f64) -> Result<Norm, Error> {
        let bytes = self.read(&format!("{name}.weight"), &[len], Dtype::F32)?;
        Ok(Norm::new(self.upload(Dtype::F32, &bytes, &[len])?, eps))
    }

    /// The scales of a norm that multiplies by 1 and what the file says.
    pub(crate) fn norm_plus_one(&mut self, name: &str, len: usize, eps: f64) -> Result<Norm, Error> {
        let bytes = self.read(&format!("{name}.weight"), &[len], Dtype::F32)?;
        let plus_one = |word: &[u8]| 1.0 + f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let bytes: Vec<u8> = bytes.chunks_exact(4).flat_map(|word| plus_one(word).to_le_bytes()).collect();
        Ok(Norm::new(self.upload(Dtype::F32, &bytes, &[len])?, eps))
    }
}
