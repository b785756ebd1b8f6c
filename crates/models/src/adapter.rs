//! Low-rank adapters (LoRA) in files, as PEFT writes them: `adapter_config.json` and
//! `adapter_model.safetensors`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use warpfold::Dtype;

use crate::Error;
use crate::config::fields::Fields;
use crate::error;
use crate::files::{Checkpoint, HeadOrder};

/// The adapters that a model has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterRoom {
    /// Adapters at a time.
    pub adapters: usize,
    /// Their rank at most.
    pub rank: usize,
}

impl AdapterRoom {
    // THRESHOLD: higher ranks are refused; tested by
    // crates/models/tests/adapters.rs::adapters_that_are_wrong_are_refused
    /// The highest rank.
    pub const MOST_RANK: usize = 256;
}

impl fmt::Display for AdapterRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { adapters, rank } = self;
        write!(f, "room for {adapters} adapters of a rank up to {rank}")
    }
}

/// The two matrices of an adapter for one matrix of a model.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) rank: usize,
    /// Scale of the product A·B.
    pub(crate) scale: f32,
    /// `[rank, inputs]`.
    pub(crate) down: Vec<f32>,
    /// `[outputs, rank]`.
    pub(crate) up: Vec<f32>,
}

impl Pair {
    pub(crate) fn shapes(&self) -> [[usize; 2]; 2] {
        [[self.rank, self.down.len() / self.rank], [self.up.len() / self.rank, self.rank]]
    }
}

/// The weights of an adapter, on the host.
#[derive(Debug, Clone)]
pub struct AdapterWeights {
    pub(crate) path: PathBuf,
    /// Pairs by the names of the model's matrices, without `.weight`.
    pub(crate) pairs: BTreeMap<String, Pair>,
}

impl AdapterWeights {
    /// Reads a folder of PEFT's.
    ///
    /// # Errors
    /// If a file is missing or is not what it should be, or asks for what is not supported.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let fields = Fields::read(&folder.join("adapter_config.json"))?;
        let refuse = |what: String| Err(error::unsupported(&fields.path, what));
        match fields.text("peft_type")?.as_deref() {
            Some("LORA") => {}
            other => return refuse(format!("an adapter of type {}", other.unwrap_or("that is not named"))),
        }
        for name in ["use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "use_bdlora"] {
            if fields.flag(name)? == Some(true) {
                return refuse(format!("an adapter with {name}"));
            }
        }
        if let Some(bias) = fields.text("bias")?.filter(|bias| bias != "none") {
            return refuse(format!("an adapter with biases ({bias})"));
        }
        let others = [
            "modules_to_save",
            "rank_pattern",
            "alpha_pattern",
            "layer_replication",
            "trainable_token_indices",
            "alora_invocation_tokens",
            "arrow_config",
            "kasa_config",
        ];
        for name in others {
            let is_empty = |value: &serde_json::Value| {
                value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
            };
            if fields.get(name).is_some_and(|value| !is_empty(value)) {
                return refuse(format!("an adapter with {name}"));
            }
        }
        let rank = fields.needed("r", fields.size("r")?)?;
        if !(1..=AdapterRoom::MOST_RANK).contains(&rank) {
            return Err(fields.wrong("r", format!("{rank} is not from 1 to {}", AdapterRoom::MOST_RANK)));
        }
        let alpha = fields.needed("lora_alpha", fields.number("lora_alpha")?)?;
        let root = fields.flag("use_rslora")?.unwrap_or(false);
        let scale = alpha / if root { (rank as f64).sqrt() } else { rank as f64 };
        if !scale.is_finite() {
            return Err(fields.wrong("lora_alpha", format!("{alpha} is no factor")));
        }
        let path = folder.join("adapter_model.safetensors");
        let pairs = pairs(&path, rank, scale as f32)?;
        Ok(Self { path, pairs })
    }

    /// The same weights with the rows of queries and keys in the order of kernels.
    pub(crate) fn in_order(&self, order: Option<HeadOrder>) -> Result<Cow<'_, Self>, Error> {
        let Some(order) = order else { return Ok(Cow::Borrowed(self)) };
        let mut weights = self.clone();
        for (name, pair) in &mut weights.pairs {
            if name.ends_with(".q_proj") || name.ends_with(".k_proj") {
                let reason = || format!("its rows are not those of heads of {}", order.head_dim);
                let ordered = order.ordered(&pair.up, pair.up.len() / pair.rank);
                pair.up = ordered.ok_or_else(|| error::tensor(&self.path, name, reason()))?;
            }
        }
        Ok(Cow::Owned(weights))
    }

    /// The highest rank of its matrices.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.pairs.values().map(|pair| pair.rank).max().unwrap_or(0)
    }
}

fn pairs(path: &Path, rank: usize, scale: f32) -> Result<BTreeMap<String, Pair>, Error> {
    let checkpoint = Checkpoint::open_file(path)?;
    let read = |name: &str| -> Result<Vec<f32>, Error> {
        let shape = checkpoint.shape(name).ok_or_else(|| error::tensor(path, name, "it is missing"))?.to_vec();
        let bytes = checkpoint.read(name, &shape, Dtype::F32)?;
        Ok(bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect())
    };
    let mut pairs = BTreeMap::new();
    let mut found = 0;
    for name in checkpoint.names() {
        found += 1;
        let Some(base) = name.strip_suffix(".lora_A.weight") else {
            if name.ends_with(".lora_B.weight") {
                continue;
            }
            return Err(error::tensor(path, name, "it is none of lora_A.weight and lora_B.weight"));
        };
        let up = format!("{base}.lora_B.weight");
        let shapes = [checkpoint.shape(name), checkpoint.shape(&up)];
        match shapes {
            [Some([r, _]), Some([_, s])] if *r == rank && *s == rank => {}
            [_, None] => return Err(error::tensor(path, &up, "it is missing")),
            _ => {
                let reason = format!("its matrices are {shapes:?}, and their rank is {rank}");
                return Err(error::tensor(path, name, reason));
            }
        }
        let pair = Pair { rank, scale, down: read(name)?, up: read(&up)? };
        let base = base.strip_prefix("base_model.model.").unwrap_or(base);
        pairs.insert(base.to_owned(), pair);
    }
    if pairs.is_empty() || found != 2 * pairs.len() {
        return Err(error::file(path, format!("{found} tensors are no pairs of lora_A.weight and lora_B.weight")));
    }
    Ok(pairs)
}
