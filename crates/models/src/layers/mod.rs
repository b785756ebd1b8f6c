//! Building blocks of architectures: linear layers, norms, attention over the paged cache, gated
//! delta nets, gated MLPs, mixtures of experts.

mod adapted;
mod attention;
mod delta;
mod embedding;
mod experts;
mod linear;
mod loader;
mod mlp;
mod norm;
mod packed;
mod shard;
mod step;

pub(crate) use adapted::Adapted;
pub(crate) use attention::{QueryKeyNorms, SelfAttention, rows_of_head};
pub(crate) use delta::{BY_KEY, GatedDelta, part_of_key, rows_of_part};
pub(crate) use embedding::Embedding;
pub(crate) use experts::{ExpertNames, ExpertParts, Mixture};
pub(crate) use linear::Linear;
pub(crate) use loader::Loader;
pub(crate) use mlp::{Gate, Gating, Mlp};
pub(crate) use norm::Norm;
pub(crate) use shard::{PARTS, Shard, check as check_split, parts_of};
pub(crate) use step::{Angles, KeptLayers, Step, StepShape};

use warpfold::Tensor;
use warpfold_kernels::operations::{Number, Operation, Options};

use crate::Error;

/// Multiplies rows by a factor.
pub(crate) fn scale(x: &mut Tensor, factor: f64) -> Result<(), Error> {
    if factor == 1.0 {
        return Ok(());
    }
    let options = Options { alpha: Number::from(factor), ..Options::default() };
    Ok(x.elementwise_in_place(Operation::Scale, &[], &options)?)
}

/// Returns the rows times a factor.
pub(crate) fn scaled(mut x: Tensor, factor: f64) -> Result<Tensor, Error> {
    scale(&mut x, factor)?;
    Ok(x)
}

/// The sum of two lists of rows.
pub(crate) fn sum(x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
    Ok(x.elementwise(Operation::Add, &[y], &Options::default())?)
}
