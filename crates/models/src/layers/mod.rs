//! Building blocks of architectures: linear layers, norms, attention over the paged cache, gated
//! MLPs, mixtures of experts.

mod adapted;
mod attention;
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
pub(crate) use attention::SelfAttention;
pub(crate) use embedding::Embedding;
pub(crate) use experts::{ExpertNames, Mixture};
pub(crate) use linear::Linear;
pub(crate) use loader::Loader;
pub(crate) use mlp::{Gate, Gating, Mlp};
pub(crate) use norm::Norm;
pub(crate) use shard::{PARTS, Shard, check as check_split, parts_of};
pub(crate) use step::{Angles, Step, StepShape};
