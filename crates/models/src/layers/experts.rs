//! Mixtures of experts: a router, and the gated MLPs that it chooses from; each of several devices
//! has some of them.

use warpfold::{ExpertMatrices, ExpertWeights, Experts, Tensor};

use super::adapted::Adapted;
use super::{Gate, Gating, Linear, Loader, Mlp, Shard, sum};
use crate::config::ExpertsConfig;
use crate::{Error, ModelConfig};

/// Names of a mixture's tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertNames {
    /// Name of the mixture in its layer.
    pub(crate) mixture: &'static str,
    pub(crate) parts: ExpertParts,
}

/// Storage of the matrices of experts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpertParts {
    /// Each its own tensor: the names of gate, up and down in an expert.
    Apart([&'static str; 3]),
    /// All experts of a layer in one tensor, with biases: gpt-oss.
    Together,
}

/// The weights of a mixture.
#[derive(Debug)]
pub(crate) struct Mixture {
    router: Linear,
    /// The device's.
    experts: Experts,
    /// The shard, if other devices have further experts, and the index of the first one here.
    shared: Option<(Shard, usize)>,
    common: Option<CommonExpert>,
}

/// An expert that every row has, and what it is weighed by.
#[derive(Debug)]
struct CommonExpert {
    mlp: Mlp,
    /// One column.
    gate: Linear,
}

impl Mixture {
    /// Reads the weights of a layer, whose names begin with `prefix`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        prefix: &str,
        names: ExpertNames,
        config: &ModelConfig,
        of: &ExpertsConfig,
    ) -> Result<Self, Error> {
        let (prefix, hidden) = (format!("{prefix}.{}", names.mixture), config.hidden);
        let &ExpertsConfig { num, inner, chosen, is_normalized, .. } = of;
        let shard = loader.shard.filter(|shard| shard.is_shared());
        let own = shard.map_or(0..num, |shard| shard.experts(num));
        let shapes = [[own.len(), 2 * inner, hidden], [own.len(), hidden, inner]];
        let (router, gate_up, down, biases) = match names.parts {
            ExpertParts::Apart([gate, up, down]) => {
                let router = loader.linear(&[(format!("{prefix}.gate"), num)], hidden, false)?;
                let of = |expert: usize, part: &str| format!("{prefix}.experts.{expert}.{part}");
                let gate_up: Vec<_> = own.clone().flat_map(|e| [gate, up].map(|part| (of(e, part), inner))).collect();
                let down: Vec<_> = own.clone().map(|e| (of(e, down), hidden)).collect();
                let [gate_up, down] = [loader.lines(&gate_up, hidden)?, loader.lines(&down, inner)?];
                (router, gate_up.reshape(&shapes[0])?.into(), down.reshape(&shapes[1])?.into(), None)
            }
            ExpertParts::Together => {
                let router = loader.linear(&[(format!("{prefix}.router"), num)], hidden, true)?;
                let name = |part: &str| format!("{prefix}.experts.{part}_proj");
                // In GGUF, gate and up are two tensors.
                let has_both = loader.checkpoint.has(&format!("{}.weight", name("gate")));
                let gate_up = if has_both { vec![name("gate"), name("up")] } else { vec![name("gate_up")] };
                let names = [gate_up, vec![name("down")]];
                // All as they are stored, or none.
                let stays = names.iter().flatten().all(|name| loader.stays_mxfp4(name));
                let mut of = |names: &[String], shape: [usize; 3]| {
                    let [_, lines, columns] = shape;
                    let of_each = lines / names.len();
                    let (all, own) = (num * of_each, own.start * of_each..own.end * of_each);
                    let bias = loader.biases(names, all, own.clone())?.reshape(&shape[..2])?;
                    let weights: ExpertMatrices = match stays {
                        true => loader.mxfp4_lines_of(names, all, own, columns)?.reshape(&shape)?.into(),
                        false => loader.lines_of(names, all, own, columns)?.reshape(&shape)?.into(),
                    };
                    Ok::<_, Error>((weights, bias))
                };
                let (gate_up, of_gate_up) = of(&names[0], shapes[0])?;
                let (down, of_down) = of(&names[1], shapes[1])?;
                (router, gate_up, down, Some([of_gate_up, of_down]))
            }
        };
        let weights = if is_normalized { ExpertWeights::Normalized } else { ExpertWeights::Share };
        let shared = shard.map(|shard| (shard.clone(), own.start));
        let stored = Experts { gate_up, down, chosen, weights, biases };
        let experts = stored.clone().packed(loader.dtype)?;
        for (before, packed) in [(&stored.gate_up, &experts.gate_up), (&stored.down, &experts.down)] {
            loader.have_been_packed(before, packed);
        }
        let common = of.common.map(|inner| {
            let mlp = Mlp::load(
                loader,
                &format!("{prefix}.shared_expert"),
                &Gating::new(Gate::Silu, loader.dtype),
                [hidden, inner],
            )?;
            let gate = loader.linear(&[(format!("{prefix}.shared_expert_gate"), 1)], hidden, false)?;
            Ok::<_, Error>(CommonExpert { mlp, gate })
        });
        Ok(Self { router, experts, shared, common: common.transpose()? })
    }

    /// The result plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor, adapters: &Tensor) -> Result<Tensor, Error> {
        if let Some(CommonExpert { mlp, gate }) = &self.common {
            let weights = gate.forward(x, adapters)?.broadcast_to(x.shape())?;
            let common = Gating::new(Gate::Sigmoid, x.dtype()).run(&weights, &mlp.forward(x, adapters)?)?;
            return self.add_chosen(x, &sum(residual, &common)?);
        }
        self.add_chosen(x, residual)
    }

    /// The adapters of the expert that every row has.
    pub(crate) fn adapted(&mut self) -> impl Iterator<Item = &mut Adapted> {
        self.common.iter_mut().flat_map(|common| common.mlp.adapted())
    }

    fn add_chosen(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor, Error> {
        let logits = self.router.forward_f32(x)?;
        match &self.shared {
            Some((shard, first)) => shard.add_slots(&self.experts.slots(*first, x, &logits)?, residual),
            None => Ok(self.experts.run(x, &logits, residual)?),
        }
    }
}
