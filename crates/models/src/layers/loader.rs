//! Weights from files to the device.

use warpfold::{Dtype, Queue, Tensor};

use super::{Linear, Norm};
use crate::Error;
use crate::files::Checkpoint;

/// Brings the tensors of a checkpoint to a device, in the element type that the model computes in.
pub(crate) struct Loader<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) queue: &'a Queue,
    pub(crate) dtype: Dtype,
    /// Told the bytes that were read of the files, and those of all weights there.
    pub(crate) progress: &'a mut dyn FnMut(u64, u64),
    /// Bytes that were read.
    pub(crate) read_bytes: u64,
    /// Bytes on the device.
    pub(crate) loaded_bytes: u64,
}

impl Loader<'_> {
    fn read(&mut self, name: &str, shape: &[usize], dtype: Dtype) -> Result<Vec<u8>, Error> {
        let bytes = self.checkpoint.read(name, shape, dtype)?;
        self.read_bytes += self.checkpoint.num_bytes_of(name);
        (self.progress)(self.read_bytes, self.checkpoint.num_bytes());
        Ok(bytes)
    }

    fn upload(&mut self, dtype: Dtype, bytes: &[u8], shape: &[usize]) -> Result<Tensor, Error> {
        self.loaded_bytes += bytes.len() as u64;
        Ok(Tensor::from_bytes(self.queue, dtype, bytes, shape)?)
    }

    /// A matrix.
    pub(crate) fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Tensor, Error> {
        let bytes = self.read(name, &shape, self.dtype)?;
        self.upload(self.dtype, &bytes, &shape)
    }

    /// Matrices one below the other: their names without `.weight`, and how many lines each has.
    pub(crate) fn lines(&mut self, parts: &[(String, usize)], columns: usize) -> Result<Tensor, Error> {
        let mut bytes = Vec::new();
        for (name, lines) in parts {
            bytes.append(&mut self.read(&format!("{name}.weight"), &[*lines, columns], self.dtype)?);
        }
        let lines = parts.iter().map(|(_, lines)| lines).sum();
        self.upload(self.dtype, &bytes, &[lines, columns])
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
