//! Low-rank adapters of a product with weights, a place for each.

use warpfold::{Adapters, Dtype, Tensor};

use super::Loader;
use crate::Error;
use crate::adapter::{AdapterRoom, AdapterWeights};
use crate::error;
use crate::files::encode;

/// Adapters of a product whose results may be several of the files side by side. Of those, each has
/// its own rows of the first matrices; the second ones are blocks along a diagonal.
#[derive(Debug)]
pub(crate) struct Adapted {
    adapters: Adapters,
    /// Names of matrices in the files, and how many columns each gives.
    parts: Vec<(String, usize)>,
    inputs: usize,
    /// The rank that there is room for, of each part.
    rank: usize,
    /// Columns of two parts alternate in groups of eight.
    is_in_turns: bool,
}

impl Adapted {
    /// Room for adapters, if the model is to have them.
    pub(super) fn new(
        loader: &mut Loader<'_>,
        parts: &[(String, usize)],
        inputs: usize,
        is_in_turns: bool,
    ) -> Result<Option<Box<Self>>, Error> {
        let Some(AdapterRoom { adapters: num, rank }) = loader.adapters else { return Ok(None) };
        let columns: usize = parts.iter().map(|(_, columns)| columns).sum();
        let all = parts.len() * rank;
        let down = Tensor::filled(loader.queue, loader.dtype, 0, &[num, all, inputs])?;
        let up = Tensor::filled(loader.queue, Dtype::F32, 0, &[num, columns, all])?;
        loader.loaded_bytes += down.len() as u64 * loader.dtype.bytes() + 4 * up.len() as u64;
        let adapters = Adapters { down, up };
        Ok(Some(Box::new(Self { adapters, parts: parts.to_vec(), inputs, rank, is_in_turns })))
    }

    /// Returns the LoRA terms to add to the rows.
    pub(super) fn run(&self, x: &Tensor, of_rows: &Tensor) -> Result<Tensor, Error> {
        Ok(self.adapters.run(x, of_rows)?)
    }

    /// Returns whether a matrix of this name is one of these.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, _)| part == name)
    }

    /// Compares an adapter's matrices with those that there are here, and says how many of them
    /// belong here.
    pub(crate) fn check(&self, weights: &AdapterWeights) -> Result<usize, Error> {
        let mut found = 0;
        for (name, columns) in &self.parts {
            let Some(pair) = weights.pairs.get(name) else { continue };
            let expected = [[pair.rank, self.inputs], [*columns, pair.rank]];
            if pair.shapes() != expected {
                let reason = format!("its matrices are {:?}, the model's weights need {expected:?}", pair.shapes());
                return Err(error::tensor(&weights.path, name, reason));
            }
            if pair.rank > self.rank {
                let reason = format!("its rank is {}, and there is room for {}", pair.rank, self.rank);
                return Err(error::tensor(&weights.path, name, reason));
            }
            found += 1;
        }
        Ok(found)
    }

    /// Writes an adapter to its place.
    pub(crate) fn write(&mut self, slot: usize, weights: &AdapterWeights) -> Result<(), Error> {
        let all = self.parts.len() * self.rank;
        let columns: usize = self.parts.iter().map(|(_, columns)| columns).sum();
        let mut down = vec![0.0; all * self.inputs];
        let mut up = vec![0.0; columns * all];
        let mut before = 0;
        for (part, (name, columns)) in self.parts.iter().enumerate() {
            if let Some(pair) = weights.pairs.get(name) {
                let first = part * self.rank;
                down[first * self.inputs..][..pair.down.len()].copy_from_slice(&pair.down);
                for (column, line) in pair.up.chunks_exact(pair.rank).enumerate() {
                    let turn = column / 8 * 16 + 8 * part + column % 8;
                    let row = if self.is_in_turns { turn } else { before + column };
                    let line = line.iter().map(|x| x * pair.scale);
                    up[row * all + first..][..pair.rank].iter_mut().zip(line).for_each(|(to, x)| *to = x);
                }
            }
            before += columns;
        }
        let Adapters { down: to_down, up: to_up } = &mut self.adapters;
        for (to, values) in [(to_down, down), (to_up, up)] {
            let bytes = encode(&values, to.dtype());
            let stage = to.queue().device().host_buffer(bytes.len())?;
            copy(to, slot * values.len(), &bytes, stage)?;
        }
        Ok(())
    }
}

fn copy(to: &mut Tensor, first: usize, bytes: &[u8], mut stage: warpfold_device::HostBuffer<u8>) -> Result<(), Error> {
    stage.range_mut(..bytes.len())?.copy_from_slice(bytes);
    to.copy_part_from_pinned(first, stage.view(..bytes.len())?)?;
    to.queue().stream().synchronize()?;
    Ok(())
}
