//! Tensor parallelism: which part of a layer a device has, and how partial sums become one.
//!
//! Heads and the columns of an MLP are split over the devices: products whose results are heads or
//! such columns give those of the device (their bits do not depend on how many there are beside
//! them), and products over them give partial sums. Those are cut into [`parts`](Shard::parts) over
//! K, eight where K has them, whatever the number of devices, and the parts are added in one
//! balanced tree: so the bits are those of one device.
//!
//! Experts are split whole. Every device routes all rows and multiplies those of its experts; what
//! a row's slots give is brought together, each from the device that has it, and added in the order
//! of slots: the bits of one device again.

use std::ops::Range;
use std::sync::Arc;

use warpfold::{Dtype, ExpertSlots, Tensor};
use warpfold_collectives::{Combine, Communicator, Reduce};
use warpfold_kernels::operations::{Operation, Options};

use super::Norm;
use crate::error::ErrorKind;
use crate::{Error, ExpertsConfig, ModelConfig};

/// Parts that the sums of a product are cut into at most.
pub(crate) const PARTS: usize = 8;

/// A device's place among those that share a model.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    /// Communicator with the other devices; none where steps are planned and not run.
    link: Option<Arc<Communicator>>,
    rank: usize,
    count: usize,
    /// Devices that have the same heads of keys and values.
    kv_copies: usize,
}

impl Shard {
    /// Devices that share a model at most.
    pub(super) const MOST: usize = PARTS;

    /// The place of a rank, if the sizes of the model can be split so.
    pub(crate) fn new(link: Communicator, config: &ModelConfig) -> Result<Self, Error> {
        let place = Self { rank: link.rank(), ..Self::outline(link.size(), config)? };
        Ok(Self { link: Some(Arc::new(link)), ..place })
    }

    /// The first place of so many, of a model that is planned and not run.
    pub(crate) fn outline(count: usize, config: &ModelConfig) -> Result<Self, Error> {
        check(config, count)?;
        Ok(Self { link: None, rank: 0, count, kv_copies: count.div_ceil(config.num_kv_heads) })
    }

    /// Returns the communicator with the other devices.
    pub(crate) fn communicator(&self) -> Option<&Communicator> {
        self.link.as_deref()
    }

    /// Returns whether this is the first rank, which draws.
    pub(crate) fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// The sizes of what the device has.
    pub(crate) fn config(&self, config: &ModelConfig) -> ModelConfig {
        let count = self.count;
        ModelConfig {
            num_heads: config.num_heads / count,
            num_kv_heads: config.num_kv_heads * self.kv_copies / count,
            intermediate: config.intermediate / count,
            ..config.clone()
        }
    }

    /// The device's lines of a tensor of which it has `own`: how many there are on all devices, and
    /// which are its.
    pub(crate) fn lines(&self, name: &str, own: usize) -> (usize, Range<usize>) {
        let is_kv = name.ends_with("k_proj") || name.ends_with("v_proj");
        let copies = if is_kv { self.kv_copies } else { 1 };
        let start = self.rank / copies * own;
        (self.count / copies * own, start..start + own)
    }

    /// The device's part of a vocabulary, where it can be split.
    pub(crate) fn vocab(&self, vocab: usize) -> Option<Range<usize>> {
        let own = vocab / self.count;
        let start = self.rank * own;
        (self.count > 1 && own * self.count == vocab).then(|| start..start + own)
    }

    /// The device's experts.
    pub(super) fn experts(&self, experts: usize) -> Range<usize> {
        let own = experts / self.count;
        self.rank * own..(self.rank + 1) * own
    }

    /// Parts of the device's `own` columns of K.
    pub(crate) fn parts(&self, own: usize) -> usize {
        parts_of(own * self.count) / self.count
    }

    /// Returns whether other devices hold parts of the sums.
    pub(super) const fn is_shared(&self) -> bool {
        self.count > 1
    }

    /// The logits of the whole vocabulary, of the parts that each device has. Only the first one
    /// gets them.
    pub(crate) fn gather(&self, own: &Tensor) -> Result<Tensor, Error> {
        let [rows, columns] = [own.shape()[0], own.shape()[1]];
        let all = self.all(own)?;
        match self.rank {
            0 => Ok(all.transpose(0, 1)?.reshape(&[rows, self.count * columns])?),
            _ => Ok(all.slice(0, ..1)?.reshape(&[rows, columns])?),
        }
    }

    /// The norm of rows whose columns lie on all devices: the device's columns of it.
    pub(super) fn norm(&self, norm: &Norm, own: &Tensor, of_keys: bool) -> Result<Tensor, Error> {
        let [rows, columns] = [own.shape()[0], own.shape()[1]];
        let copies = if of_keys { self.kv_copies } else { 1 };
        let parts = self.count / copies;
        // Neighbours have the same keys.
        let all = self.all(&own.contiguous()?)?.reshape(&[parts, copies * rows, columns])?.slice(1, ..rows)?;
        let normed = norm.forward(&all.transpose(0, 1)?.reshape(&[rows, parts * columns])?)?;
        let start = self.rank / copies * columns;
        Ok(normed.slice(1, start..start + columns)?)
    }

    /// The tensors of all devices: `[devices, rows, columns]`.
    fn all(&self, own: &Tensor) -> Result<Tensor, Error> {
        let shape = [self.count, own.shape()[0], own.shape()[1]];
        let mut all = Tensor::uninitialized(own.queue(), own.dtype(), &shape)?;
        if let Some(link) = &self.link {
            link.all_gather(own.queue().stream(), own.device_bytes()?, all.device_bytes_mut()?)?;
        }
        Ok(all)
    }

    /// The sums of all devices, plus a bias and a residual, in the type of `x`, the rows of the
    /// product. `sums` are those of this device, `[rows, outputs]` in `f32`.
    pub(super) fn add(
        &self,
        sums: &Tensor,
        x: &Tensor,
        bias: Option<&Tensor>,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, Error> {
        // A bias comes first, so that the order is that of one product.
        let dtype = if bias.is_some() { Dtype::F32 } else { x.dtype() };
        let around = residual.filter(|_| bias.is_none()).map(Tensor::contiguous).transpose()?;
        let mut sum = Tensor::uninitialized(x.queue(), dtype, sums.shape())?;
        if let Some(link) = &self.link {
            let around = around.as_ref().map(Tensor::device_bytes).transpose()?;
            let stream = x.queue().stream();
            link.sum_parts(stream, 1, sums.device_bytes()?, around, dtype, sum.device_bytes_mut()?)?;
        }
        let Some(bias) = bias else { return Ok(sum) };
        let wide = |tensor: &Tensor| tensor.cast(Dtype::F32);
        let mut sum = sum.elementwise(Operation::Add, &[&wide(bias)?], &Options::default())?;
        if let Some(residual) = residual {
            sum = sum.elementwise(Operation::Add, &[&wide(residual)?], &Options::default())?;
        }
        Ok(sum.cast(x.dtype())?)
    }

    /// The residual plus what the experts of all devices give, slot by slot. Each device adds some
    /// of the rows, and all of those that are no equal parts for all.
    pub(super) fn add_slots(&self, own: &ExpertSlots, residual: &Tensor) -> Result<Tensor, Error> {
        let (queue, stream) = (residual.queue(), residual.queue().stream());
        let &[rows, chosen, hidden] = own.results.shape() else { unreachable!("rows of slots of elements") };
        let (part, scattered) = (rows / self.count, rows / self.count * self.count);
        // Sums of bits: those of the other devices are zero.
        let bits = Combine::of(Reduce::Sum, Dtype::U32);
        let slots = |len: usize| Tensor::uninitialized(queue, Dtype::F32, &[len, chosen, hidden]);
        let sum = |results: Tensor, rows: Range<usize>| -> Result<Tensor, Error> {
            let shares = own.shares.slice(0, rows.clone())?;
            Ok(ExpertSlots { results, shares }.sum(&residual.slice(0, rows)?)?)
        };
        let mut sums = Vec::new();
        // THRESHOLD: fewer rows than devices are added on all of them; tested by
        // crates/models/tests/parallel.rs::experts_are_split_and_answers_stay_alike
        if part > 0 {
            let mut mine = slots(part)?;
            if let Some(link) = &self.link {
                let all = own.results.slice(0, ..scattered)?;
                link.reduce_scatter_with(stream, &bits, all.device_bytes()?, mine.device_bytes_mut()?)?;
            }
            let mine = sum(mine, self.rank * part..(self.rank + 1) * part)?;
            let mut all = Tensor::uninitialized(queue, mine.dtype(), &[scattered, hidden])?;
            if let Some(link) = &self.link {
                link.all_gather(stream, mine.device_bytes()?, all.device_bytes_mut()?)?;
            }
            sums.push(all);
        }
        if scattered < rows {
            let mut all = slots(rows - scattered)?;
            if let Some(link) = &self.link {
                let rest = own.results.slice(0, scattered..)?;
                link.all_reduce_with(stream, &bits, rest.device_bytes()?, all.device_bytes_mut()?)?;
            }
            sums.push(sum(all, scattered..rows)?);
        }
        Ok(if sums.len() == 1 { sums.remove(0) } else { Tensor::cat(&sums, 0)? })
    }
}

/// Eight, or as many as divide the sums.
pub(crate) fn parts_of(len: usize) -> usize {
    (0..=PARTS.ilog2()).rev().map(|i| 1 << i).find(|parts| len.is_multiple_of(*parts)).unwrap_or(1)
}

/// Checks that a model can be split over `count` devices.
pub(crate) fn check(config: &ModelConfig, count: usize) -> Result<(), Error> {
    let refused = |what: &'static str, found: usize| ErrorKind::Split { count, what, found }.into();
    if let Some(delta) = &config.delta {
        return Err(refused("gated delta nets, which are on one device", delta.num_layers()));
    }
    if count == 0 || !PARTS.is_multiple_of(count) {
        return Err(refused("parts of a sum", PARTS));
    }
    let is_dense = |experts: &ExpertsConfig| !experts.dense_layers.is_empty();
    let intermediate = if config.experts.as_ref().is_none_or(is_dense) { config.intermediate } else { 0 };
    if let Some(experts) = config.experts.as_ref().filter(|experts| !experts.num.is_multiple_of(count)) {
        return Err(refused("experts", experts.num));
    }
    let (heads, kv_heads) = (config.num_heads, config.num_kv_heads);
    if !heads.is_multiple_of(count) {
        return Err(refused("heads of queries", heads));
    }
    if !kv_heads.is_multiple_of(count) && !count.is_multiple_of(kv_heads) {
        return Err(refused("heads of keys and values", kv_heads));
    }
    let sums = [("elements of all queries", config.query_len()), ("elements inside of an MLP", intermediate)];
    match sums.into_iter().find(|(_, len)| !parts_of(*len).is_multiple_of(count)) {
        Some((what, len)) => Err(refused(what, len)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_cut_into_eight_parts_or_as_many_as_divide_them() {
        assert_eq!([4096, 576, 12, 6, 7].map(parts_of), [8, 8, 4, 2, 1]);
    }
}
