//! Weights from files to the device.

use warpfold::{Dtype, Queue, Tensor};
use warpfold_device::HostBuffer;

use super::{Linear, Norm, Shard};
use crate::Error;
use crate::files::{Checkpoint, Part};

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
}

/// Bytes of pinned memory that are copied at once.
const STAGE_BYTES: usize = 32 << 20;

impl Loader<'_> {
    fn read(&mut self, name: &str, shape: &[usize], dtype: Dtype) -> Result<Vec<u8>, Error> {
        self.read_part(name, shape, &Part::Whole, dtype)
    }

    fn read_part(&mut self, name: &str, shape: &[usize], part: &Part, dtype: Dtype) -> Result<Vec<u8>, Error> {
        let bytes = self.checkpoint.read_part(name, shape, part, dtype)?;
        self.read_bytes += self.checkpoint.num_bytes_of(name, part);
        (self.progress)(self.read_bytes, self.checkpoint.num_bytes());
        Ok(bytes)
    }

    /// Tensors one after the other as one of this shape: what is stored as it is wanted goes
    /// through pinned memory.
    fn joined(&mut self, parts: &[(String, Vec<usize>, Part)], shape: &[usize]) -> Result<Tensor, Error> {
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
        let mut done = 0;
        for stored in &stored {
            for first in (0..stored.len).step_by(STAGE_BYTES) {
                let len = STAGE_BYTES.min(stored.len - first);
                self.stages.swap(0, 1);
                let stage = &mut self.stages[0];
                if stage.len() < len {
                    *stage = self.queue.device().host_buffer(len.next_power_of_two())?;
                }
                // Waits for the copy before the last one.
                stored.read(first, stage.range_mut(..len)?)?;
                tensor.copy_part_from_pinned(done / size, stage.view(..len)?)?;
                done += len;
                self.read_bytes += len as u64;
                (self.progress)(self.read_bytes, self.checkpoint.num_bytes());
            }
        }
        self.loaded_bytes += done as u64;
        Ok(tensor)
    }

    fn upload(&mut self, dtype: Dtype, bytes: &[u8], shape: &[usize]) -> Result<Tensor, Error> {
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
        let lines = (0..parts).flat_map(|part| (0..outputs).map(move |line| (part, line)));
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
