//! The options of the engine, and the sizes of its cache.

use std::hash::{BuildHasher, RandomState};

use clap::Args;
use warpfold_engine::sizing::{Memory, Sizing};
use warpfold_engine::{Allocator, Config, Model, Policy, Speculation};
use warpfold_models::Steps;

use super::PlacedModel;
use crate::failure::Failure;

/// Options of the engine. None of these changes an answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct EngineOptions {
    /// Most rows (tokens) per step.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    pub(crate) budget: usize,
    /// Most sequences that run at the same time.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_seqs: usize,
    /// Longest sequence, if less than the model's.
    #[arg(long, value_name = "N")]
    pub(crate) max_len: Option<usize>,
    /// Tokens per block of the KV cache.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) block_size: usize,
    /// Number of KV cache blocks. Default: as many as can be needed.
    #[arg(long, value_name = "N", conflicts_with = "kv_bytes")]
    pub(crate) kv_blocks: Option<usize>,
    /// Size of the KV cache in bytes, instead of --kv-blocks.
    #[arg(long, value_name = "B")]
    pub(crate) kv_bytes: Option<u64>,
    /// Share of the device's free memory to use.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, allow_negative_numbers = true)]
    pub(crate) memory: f64,
    /// Bytes of host memory for the KV cache of preempted requests; at 0 they are recomputed.
    #[arg(long, value_name = "B", default_value_t = 0)]
    pub(crate) swap_bytes: u64,
    /// Number of tensor-parallel devices: the one that --device names and those after it, or those
    /// of its list (`--device cuda:0,cuda:1`). An answer is the same for every number of them;
    /// without this option one device adds in another order, and last bits of logprobs may differ.
    #[arg(long, visible_alias = "devices", value_name = "N")]
    pub(crate) tensor_parallel: Option<usize>,
    /// Scheduling policy: static, orca, vllm-v0 or continuous.
    #[arg(long, value_name = "P", default_value = "continuous")]
    pub(crate) policy: Policy,
    /// Disable prefix caching. Models that keep a state of each sequence (Qwen3-Next, Qwen3.5) have
    /// none.
    #[arg(long)]
    pub(crate) no_prefix_cache: bool,
    /// Tokens to draft per step and verify in the next, by prompt lookup or by the model of
    /// --draft; 0 disables speculation. Default: 4 with --draft, else 0.
    #[arg(long, value_name = "N")]
    pub(crate) speculate: Option<usize>,
    /// Model that drafts: a smaller one with the same tokens, on the first device.
    #[arg(long, value_name = "MODEL")]
    pub(crate) draft: Option<String>,
    /// Disable overlap: do not prepare a step while the previous one runs.
    #[arg(long)]
    pub(crate) no_overlap: bool,
    /// Skip the warm-up: do not compile kernels and capture steps before the first request, which
    /// then waits for what it needs. The virtual GPU compiles nothing, and is never warmed up.
    #[arg(long)]
    pub(crate) no_warm_up: bool,
    /// Probability that a running request is preempted at the start of a step, to test that answers
    /// stay the same.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) inject_preemptions: f64,
}

/// The sequences that the cache must have room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// One sequence of this length, at least.
    pub(crate) longest: usize,
    /// Blocks beyond which more are of no use.
    pub(crate) enough_blocks: usize,
    /// Free bytes of the device, before the weights were there.
    pub(crate) free_bytes: u64,
}

/// Guesses of so many tokens.
fn guesses(num_drafts: usize) -> Speculation {
    Speculation { num_drafts, ..Speculation::default() }
}

impl EngineOptions {
    /// Returns the steps to warm up for: sequences of up to `max_len` positions.
    pub(crate) fn steps(&self, max_len: usize) -> Option<Steps> {
        let Self { budget, max_seqs, block_size, .. } = *self;
        let longest = self.max_len.map_or(max_len, |len| len.min(max_len));
        (!self.no_warm_up).then_some(Steps { budget, max_seqs, longest, block_size })
    }

    /// Tokens to draft, if speculation is on.
    fn num_drafts(&self) -> Option<usize> {
        let default = self.draft.as_ref().map_or(0, |_| Speculation::default().num_drafts);
        Some(self.speculate.unwrap_or(default)).filter(|num| *num > 0)
    }

    /// The engine's settings for a model. Without `--kv-blocks` and `--kv-bytes` the cache holds
    /// what is enough, or as much of it as the device has room for; the sizes say all of the room.
    pub(crate) fn config(&self, model: &PlacedModel, room: Room) -> Result<(Config, Sizing), Failure> {
        let mut config = Config {
            policy: self.policy,
            block_size: self.block_size.max(1),
            budget: self.budget,
            max_seqs: self.max_seqs,
            max_len: self.max_len,
            inject_preemptions: self.inject_preemptions,
            overlap: !self.no_overlap,
            speculation: self.num_drafts().map(guesses),
            seed: RandomState::new().hash_one(0),
            ..Config::default()
        };
        if self.no_prefix_cache {
            config.allocator = Allocator::Naive;
        }
        if self.block_size == 0 {
            return Err(Failure::usage("--block-size: 0 is not positive"));
        }
        if !(self.memory > 0.0 && self.memory <= 1.0) {
            return Err(Failure::usage(format!("--memory: {} is not a share above 0 and up to 1", self.memory)));
        }
        if self.draft.is_some() && config.speculation.is_none() {
            return Err(Failure::usage("--draft: --speculate 0 asks it for nothing"));
        }
        // The draft has as many blocks.
        let of_draft = model.draft_limits().map_or(0, |limits| limits.kv_bytes_per_token);
        let bytes_per_token = model.limits().kv_bytes_per_token + of_draft;
        let block_bytes = bytes_per_token * config.block_size as u64;
        let memory = Memory {
            free_bytes: room.free_bytes,
            share: self.memory,
            weight_bytes: model.weight_bytes(),
            activation_bytes: model.activation_bytes(config.budget, config.max_seqs)?,
            state_bytes: model.limits().state_bytes * config.max_seqs as u64,
            // The null block is one more.
            kv_bytes: self
                .kv_blocks
                .map(|blocks| (blocks as u64).saturating_add(1).saturating_mul(block_bytes))
                .or(self.kv_bytes),
            // A block lies on the host once for each device.
            swap_bytes: self.swap_bytes / model.num_devices() as u64,
            ..Memory::default()
        };
        // Blocks that are given are taken as they are: the engine says what does not fit.
        let longest = if self.kv_blocks.is_some() { 0 } else { room.longest };
        let sizing = Sizing::new(memory, bytes_per_token, config.block_size, longest)?;
        config.num_blocks = match memory.kv_bytes {
            None => sizing.num_blocks.min(room.enough_blocks),
            Some(_) => sizing.num_blocks,
        };
        config.num_host_blocks = sizing.num_host_blocks;
        Ok((config, sizing))
    }
}
