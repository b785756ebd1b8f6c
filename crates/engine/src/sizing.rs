//! Number of cache blocks: arithmetic with every term, and a dry run that must agree with it.
//!
//! Device blocks are what is left of the usable memory over the bytes of a block; one of them is
//! the null block. Host blocks are the bytes for swapping over the same. A model runs
//! [`largest_batch`] once without a cache, as vLLM's `determine_num_available_blocks` does, and
//! [`Sizing::check_peak`] compares what it took with what was computed.

use std::fmt;

use crate::batch::{Batch, SampleRow};
use crate::block::NULL_BLOCK;
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::model::Limits;

/// Keys and values of one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    /// Layers that have a cache.
    pub layers: u64,
    /// Heads of keys, and of values.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
}

impl KvShape {
    /// Bytes of a position over all layers: a key and a value each.
    #[must_use]
    pub fn bytes_per_token(self) -> u64 {
        2 * self.layers * self.kv_heads * self.head_dim * self.element_bytes
    }
}

/// The terms of a device's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Free before anything of ours is there.
    pub free_bytes: u64,
    /// The share of it that may be used (`--memory`).
    pub share: f64,
    /// Weights.
    pub weight_bytes: u64,
    /// Everything else that the largest step needs (`--budget` decides).
    pub activation_bytes: u64,
    /// States of running sequences, `--max-seqs` of them.
    pub state_bytes: u64,
    /// Left alone: the driver's own, graphs, fragmentation.
    pub reserve_bytes: u64,
    /// Bytes of the cache, whatever the other terms are (`--kv-bytes`).
    pub kv_bytes: Option<u64>,
    /// Host memory for swapping (`--swap-bytes`).
    pub swap_bytes: u64,
}

impl Default for Memory {
    fn default() -> Self {
        let none = 0;
        Self {
            free_bytes: none,
            share: 0.9,
            weight_bytes: none,
            activation_bytes: none,
            state_bytes: none,
            reserve_bytes: 512 << 20,
            kv_bytes: None,
            swap_bytes: none,
        }
    }
}

/// The sizes of both pools, and how they came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    /// The terms.
    pub memory: Memory,
    /// Positions in a block.
    pub block_size: usize,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of the device's cache.
    pub cache_bytes: u64,
    /// Blocks on the device, the null block not counted.
    pub num_blocks: usize,
    /// Blocks on the host, the unused null block not counted.
    pub num_host_blocks: usize,
}

impl Sizing {
    /// Computes the sizes; the cache must hold one sequence of `longest` positions.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] with the missing bytes and the flags that give them.
    pub fn new(memory: Memory, bytes_per_token: u64, block_size: usize, longest: usize) -> Result<Self, Error> {
        let block_bytes = bytes_per_token * block_size as u64;
        let blocks_of = |bytes: u64| usize::try_from(bytes / block_bytes).unwrap_or(usize::MAX).saturating_sub(1);
        let usable = (memory.free_bytes as f64 * memory.share) as u64;
        let taken = memory.weight_bytes + memory.activation_bytes + memory.state_bytes + memory.reserve_bytes;
        let cache_bytes = memory.kv_bytes.unwrap_or(usable.saturating_sub(taken));
        let least = (longest.div_ceil(block_size) as u64 + 1) * block_bytes;
        let have = memory.kv_bytes.unwrap_or(usable);
        let need = if memory.kv_bytes.is_some() { least } else { taken + least };
        if need > have {
            return Err(too_little(&memory, usable, least, longest, need - have));
        }
        let num_blocks = blocks_of(cache_bytes);
        let num_host_blocks = blocks_of(memory.swap_bytes);
        Ok(Self { memory, block_size, block_bytes, cache_bytes, num_blocks, num_host_blocks })
    }

    /// Returns the number of sequences of this length that fit at the same time.
    #[must_use]
    pub fn sequences_of(&self, len: usize) -> usize {
        self.num_blocks / len.div_ceil(self.block_size).max(1)
    }

    /// Compares what a dry run of the largest step took, weights left out, with what was computed.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] if it took more than what was computed and the reserve.
    pub fn check_peak(&self, measured_bytes: u64) -> Result<(), Error> {
        let (computed, reserve) = (self.memory.activation_bytes, self.memory.reserve_bytes);
        let Some(missing_bytes) = measured_bytes.checked_sub(computed + reserve).filter(|m| *m > 0) else {
            return Ok(());
        };
        let reason = format!(
            "the largest step took {measured_bytes} bytes, {computed} were computed and {reserve} are in reserve"
        );
        Err(ErrorKind::Memory { missing_bytes, reason, advice: "lower --budget or --max-seqs" }.into())
    }
}

fn too_little(memory: &Memory, usable: u64, least: u64, longest: usize, missing_bytes: u64) -> Error {
    let needs = format!("a sequence of {longest} tokens needs {least}");
    let (reason, advice) = match memory.kv_bytes {
        Some(given) => (format!("--kv-bytes gives {given}, {needs}"), "raise --kv-bytes, or lower --max-len"),
        None => {
            let Memory { free_bytes, share, weight_bytes, activation_bytes, state_bytes, reserve_bytes, .. } = memory;
            let states = match state_bytes {
                0 => String::new(),
                bytes => format!("states of sequences {bytes}, "),
            };
            let terms = format!(
                "{usable} are usable ({share} of {free_bytes} free), weights take {weight_bytes}, the largest step \
                 {activation_bytes}, {states}the reserve {reserve_bytes}, {needs}"
            );
            let advice = match state_bytes {
                0 => "raise --memory, or lower --budget or --max-len",
                _ => "raise --memory, or lower --max-seqs, --budget or --max-len",
            };
            (terms, advice)
        }
    };
    ErrorKind::Memory { missing_bytes, reason, advice }.into()
}

impl fmt::Display for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = &self.memory;
        let mut line = |name: &str, bytes: u64| writeln!(f, "{name:<34}{bytes:>16} bytes");
        if memory.kv_bytes.is_none() {
            line("free", memory.free_bytes)?;
            line("usable", (memory.free_bytes as f64 * memory.share) as u64)?;
            line("- weights", memory.weight_bytes)?;
            line("- largest step", memory.activation_bytes)?;
            if memory.state_bytes > 0 {
                line("- states of sequences", memory.state_bytes)?;
            }
            line("- reserve", memory.reserve_bytes)?;
            line("= cache", self.cache_bytes)?;
        } else {
            line("cache", self.cache_bytes)?;
            if memory.state_bytes > 0 {
                line("states of sequences", memory.state_bytes)?;
            }
        }
        line(&format!("a block of {} positions", self.block_size), self.block_bytes)?;
        line("host memory for swapping", memory.swap_bytes)?;
        writeln!(f, "{} blocks on the device, {} on the host", self.num_blocks, self.num_host_blocks)?;
        if memory.state_bytes > 0 {
            writeln!(f, "no prefix cache: the model keeps a state of each sequence, not of each block")?;
        }
        let fit = |len| self.sequences_of(len);
        writeln!(f, "room for {} sequences of 512 tokens, or {} of 2048", fit(512), fit(2048))
    }
}

/// The largest step that the settings allow, for a dry run: all rows write to the null block, and
/// read it.
#[must_use]
pub fn largest_batch(config: &Config, limits: &Limits) -> Batch {
    let index = |value: usize| u32::try_from(value).expect("positions and rows have 32 bits");
    let num = config.max_seqs.min(config.budget);
    let ends: Vec<usize> = (1..=num).map(|s| s * config.budget / num).collect();
    let mut batch = Batch { step: 0, block_size: config.block_size, cu_q: vec![0], ..Batch::default() };
    let longest = config.longest(limits);
    batch.table_width = longest.div_ceil(config.block_size);
    let mut start = 0;
    for (id, end) in ends.into_iter().enumerate() {
        let rows = (end - start).min(longest);
        batch.ids.resize(batch.ids.len() + rows, 0);
        batch.positions.extend((longest - rows..longest).map(index));
        batch.slots.resize(batch.slots.len() + rows, NULL_BLOCK);
        batch.cu_q.push(index(batch.ids.len()));
        batch.kv_lens.push(index(longest));
        batch.sequences.push(id as u64);
        let (row, position) = (index(batch.ids.len() - 1), index(longest));
        batch.samples.push(SampleRow { row, position, ..SampleRow::default() });
        start = end;
    }
    batch.tables = vec![NULL_BLOCK; num * batch.table_width];
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Llama 3.1 8B in bf16.
    const KV: KvShape = KvShape { layers: 32, kv_heads: 8, head_dim: 128, element_bytes: 2 };

    fn memory() -> Memory {
        Memory {
            free_bytes: 80 * GIB,
            weight_bytes: 15 * GIB,
            activation_bytes: GIB,
            swap_bytes: GIB,
            ..Memory::default()
        }
    }

    #[test]
    fn blocks_are_what_is_left_over_their_bytes_less_the_null_block() {
        assert_eq!(KV.bytes_per_token(), 128 << 10);
        let sizing = Sizing::new(memory(), KV.bytes_per_token(), 16, 4096).expect("there is room");
        assert_eq!(sizing.block_bytes, 2 << 20);
        assert_eq!(sizing.cache_bytes, 72 * GIB - 16 * GIB - GIB / 2);
        assert_eq!((sizing.num_blocks, sizing.num_host_blocks), (28_416 - 1, 512 - 1));
        assert_eq!((sizing.sequences_of(512), sizing.sequences_of(2048)), (887, 221));
        let expected = "free                                   85899345920 bytes
usable                                 77309411328 bytes
- weights                              16106127360 bytes
- largest step                          1073741824 bytes
- reserve                                536870912 bytes
= cache                                59592671232 bytes
a block of 16 positions                    2097152 bytes
host memory for swapping                1073741824 bytes
28415 blocks on the device, 511 on the host
room for 887 sequences of 512 tokens, or 221 of 2048
";
        assert_eq!(sizing.to_string(), expected);
    }

    #[test]
    fn states_of_sequences_are_taken_from_the_cache_and_told() {
        let sizing = |state_bytes| {
            let memory = Memory { state_bytes, ..memory() };
            Sizing::new(memory, KV.bytes_per_token(), 16, 4096)
        };
        let (without, with) = (sizing(0).expect("there is room"), sizing(2 * GIB).expect("there is room"));
        assert_eq!(without.num_blocks - with.num_blocks, 1024);
        let text = with.to_string();
        assert!(text.contains("- states of sequences                   2147483648 bytes\n"), "{text}");
        assert!(text.contains("no prefix cache: the model keeps a state"), "{text}");
        let error = sizing(60 * GIB).expect_err("there is no room").to_string();
        assert!(
            error.contains("states of sequences 64424509440, the reserve") && error.contains("--max-seqs"),
            "{error}"
        );
    }

    #[test]
    fn too_little_memory_is_an_error_in_bytes_with_the_flags_that_help() {
        let small = Memory { free_bytes: 18 * GIB, ..memory() };
        let error = Sizing::new(small, KV.bytes_per_token(), 16, 4096).expect_err("there is no room").to_string();
        let expected = "824180736 bytes of device memory are missing for the KV cache: 17394617548 are usable (0.9 of \
                        19327352832 free), weights take 16106127360, the largest step 1073741824, the reserve \
                        536870912, a sequence of 4096 tokens needs 538968064; raise --memory, or lower --budget or \
                        --max-len";
        assert_eq!(
            error,
            expected.replace(
                "824180736",
                &(16_106_127_360_u64 + 1_073_741_824 + 536_870_912 + 538_968_064 - 17_394_617_548).to_string()
            )
        );
        let given = Memory { kv_bytes: Some(1000), ..memory() };
        let error = Sizing::new(given, 100, 1, 10).expect_err("eleven blocks do not fit").to_string();
        let expected = "100 bytes of device memory are missing for the KV cache: --kv-bytes gives 1000, a sequence of \
                        10 tokens needs 1100; raise --kv-bytes, or lower --max-len";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_dry_run_may_take_what_was_computed_and_no_more() {
        let sizing = Sizing::new(memory(), KV.bytes_per_token(), 16, 4096).expect("there is room");
        sizing.check_peak(GIB + GIB / 2).expect("the reserve covers it");
        let error = sizing.check_peak(GIB + GIB / 2 + 7).expect_err("it is more").to_string();
        assert!(error.starts_with("7 bytes of device memory are missing"), "{error}");
    }

    #[test]
    fn the_largest_batch_spends_the_budget_on_all_sequences() {
        let limits = Limits { vocab: 10, max_len: 64, eos: vec![], hidden: 1, kv_bytes_per_token: 1, state_bytes: 0 };
        let config = Config { budget: 50, max_seqs: 4, ..Config::default() };
        let batch = largest_batch(&config, &limits);
        assert_eq!(batch.cu_q, [0, 12, 25, 37, 50]);
        assert_eq!((batch.num_rows(), batch.samples.len(), batch.table_width), (50, 4, 4));
        assert_eq!(batch.positions[49], 63);
    }
}
