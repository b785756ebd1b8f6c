//! Configuration of an engine.

use std::time::Duration;

use crate::error::{Error, config};
use crate::model::Limits;

/// Scheduling policy: the choice of requests for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Waits until a batch is full or a time is over, pads its prompts to the longest, and keeps
    /// every slot until its last sequence has ended. The baseline to beat.
    Static,
    /// Chooses anew at each iteration, prefills and decodes together, each prompt as a whole.
    Orca,
    /// Runs either prefills or decodes in a step, with a watermark for admission.
    VllmV0,
    /// Hands out a budget of tokens, to running sequences first, and cuts prompts where it ends.
    #[default]
    Continuous,
}

impl Policy {
    /// All of them, from the oldest idea to the newest.
    pub const ALL: [Self; 4] = [Self::Static, Self::Orca, Self::VllmV0, Self::Continuous];

    /// The name that options have for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Orca => "orca",
            Self::VllmV0 => "vllm-v0",
            Self::Continuous => "continuous",
        }
    }
}

impl std::str::FromStr for Policy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| config("--policy", format!("{name:?} is not static, orca, vllm-v0 or continuous")))
    }
}

/// Allocation of blocks to sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allocator {
    /// Neighbouring blocks for the longest that the sequence may become, when it starts. Nothing is
    /// shared.
    Contiguous,
    /// A block when it is needed, the one freed last.
    Naive,
    /// The same, and full blocks of a known prefix are found again.
    #[default]
    PrefixCaching,
    /// A block when it is needed, and nothing is shared. Models that keep a
    /// [state](Limits::state_bytes) of a sequence get this instead of the two above.
    Unshared,
}

/// Treatment of the blocks of a preempted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preemption {
    /// Swaps groups of several sequences, and single ones longer than `swap_above`; recomputes the
    /// others.
    #[default]
    Auto,
    /// Forgets them, and computes them again.
    Recompute,
    /// Copies them to the host; recomputes when the host has no room.
    Swap,
}

/// Guesses of next tokens from the text so far: what followed the last occurrence of its last
/// tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speculation {
    /// Tokens that must match, at least.
    pub min_match: usize,
    /// Tokens that are compared, at most.
    pub max_match: usize,
    /// Tokens that are guessed, at most.
    pub num_drafts: usize,
}

impl Default for Speculation {
    fn default() -> Self {
        Self { min_match: 2, max_match: 4, num_drafts: 4 }
    }
}

/// The settings of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Scheduling policy.
    pub policy: Policy,
    /// Allocation of blocks to sequences.
    pub allocator: Allocator,
    /// Positions in a block.
    pub block_size: usize,
    /// Blocks on the device, the null block not counted.
    pub num_blocks: usize,
    /// Blocks on the host, for swapping.
    pub num_host_blocks: usize,
    /// Rows of a step, at most.
    pub budget: usize,
    /// Sequences that run at a time, at most.
    pub max_seqs: usize,
    /// The longest sequence, if less than the model's.
    pub max_len: Option<usize>,
    /// The share of blocks that admission leaves free while something runs.
    pub watermark: f64,
    /// Treatment of the blocks of a preempted request.
    pub preemption: Preemption,
    /// A single sequence with more computed tokens than this is swapped rather than recomputed
    /// under
    /// [`Preemption::Auto`]: where copying both ways costs less than prefilling.
    pub swap_above: usize,
    /// The probability that a running group is preempted at the beginning of a step, to see that
    /// answers stay.
    pub inject_preemptions: f64,
    /// The key of injected preemptions and of seeds that requests do not give. A server draws it
    /// when it starts.
    pub seed: u64,
    /// Guesses of next tokens; answers are the same without.
    pub speculation: Option<Speculation>,
    /// Without it every step computes all positions again: the ladder's first rung.
    pub kv_cache: bool,
    /// Prepares a step while the one before runs, if the model [can](crate::Model::overlaps).
    /// Answers are the same. It takes turns without it where the next step depends on what was
    /// drawn (penalties, constraints, beams, guesses), and when [`Config::trace`] is asked for.
    pub overlap: bool,
    /// Time that the first request of a static batch waits for others.
    pub static_wait: Duration,
    /// Keeps what each step did, for [`crate::Engine::trace`].
    pub trace: bool,
    /// Compares all pools, tables and queues after each step.
    pub check: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            allocator: Allocator::default(),
            block_size: 16,
            num_blocks: 1024,
            num_host_blocks: 0,
            budget: 8192,
            max_seqs: 256,
            max_len: None,
            watermark: 0.01,
            preemption: Preemption::default(),
            swap_above: 512,
            inject_preemptions: 0.0,
            seed: 0,
            speculation: None,
            kv_cache: true,
            overlap: true,
            static_wait: Duration::ZERO,
            trace: false,
            check: cfg!(debug_assertions),
        }
    }
}

impl Config {
    /// The same settings, with the allocator that a model of these limits can do with.
    pub(crate) fn for_limits(mut self, limits: &Limits) -> Self {
        if limits.state_bytes > 0 && self.allocator != Allocator::Contiguous {
            self.allocator = Allocator::Unshared;
        }
        self
    }

    /// Blocks that admission leaves free while something runs.
    #[must_use]
    pub fn watermark_blocks(&self) -> usize {
        (self.watermark * self.num_blocks as f64) as usize
    }

    /// The longest sequence that the settings allow a model of these limits: what one sequence
    /// alone can hold.
    #[must_use]
    pub fn longest(&self, limits: &Limits) -> usize {
        let in_cache = (self.num_blocks - self.watermark_blocks()) * self.block_size;
        self.max_len.unwrap_or(limits.max_len).min(limits.max_len).min(in_cache)
    }

    /// Compares the settings with one another and with the model.
    ///
    /// # Errors
    /// The first option that the engine cannot run with.
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let check =
            |is_right: bool, option, reason: String| is_right.then_some(()).ok_or_else(|| config(option, reason));
        let positive = |value: usize, option| check(value > 0, option, "0 is not positive".to_owned());
        positive(self.block_size, "--block-size")?;
        positive(self.num_blocks, "--kv-blocks")?;
        positive(self.budget, "--budget")?;
        positive(self.max_seqs, "--max-seqs")?;
        positive(self.max_len.unwrap_or(1), "--max-len")?;
        let slots = (self.num_blocks.max(self.num_host_blocks) + 1).checked_mul(self.block_size);
        let is_small = slots.is_some_and(|s| u32::try_from(s).is_ok());
        check(is_small, "--kv-blocks", "the cache has more than 2^32 slots".to_owned())?;
        let share =
            |value: f64, option| check((0.0..=1.0).contains(&value), option, format!("{value} is not in 0 to 1"));
        share(self.inject_preemptions, "--inject-preemptions")?;
        let is_below_one = (0.0..1.0).contains(&self.watermark);
        check(is_below_one, "--watermark", format!("{} is not from 0 to below 1", self.watermark))?;
        let longest = self.longest(limits);
        let allowed = self.max_len.unwrap_or(usize::MAX).min(limits.max_len);
        check(allowed > 1, "--max-len", "a prompt and an answer have two positions at least".to_owned())?;
        check(longest > 1, "--kv-blocks", "the cache has no room for two positions".to_owned())?;
        let reason = || {
            let (policy, budget) = (self.policy.name(), self.budget);
            format!(
                "{budget} is less than the longest sequence, {longest}, and policy {policy} runs prompts whole: raise --budget, or lower --max-len"
            )
        };
        check(self.policy == Policy::Continuous && self.kv_cache || self.budget >= longest, "--budget", reason())?;
        let is_plain = self.kv_cache || self.allocator != Allocator::PrefixCaching && self.speculation.is_none();
        check(is_plain, "--no-kv-cache", "there is no prefix and no guess without a cache".to_owned())?;
        let is_guess = |s: Speculation| s.num_drafts > 0 && s.min_match > 0 && s.min_match <= s.max_match;
        check(self.speculation.is_none_or(is_guess), "--speculate", "no token is matched, or none guessed".to_owned())?;
        let can_swap = self.preemption != Preemption::Swap || self.num_host_blocks > 0;
        check(can_swap, "--swap-bytes", "there is no host block to swap to".to_owned())?;
        let has_no_state = limits.state_bytes == 0;
        let state = "the model keeps a state of each sequence";
        check(has_no_state || self.num_host_blocks == 0, "--swap-bytes", format!("{state}, which is not swapped"))?;
        let is_told = has_no_state || self.speculation.is_none();
        check(is_told, "--speculate", format!("{state}, which cannot go back from a wrong guess"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { vocab: 10, max_len: 100, eos: vec![], hidden: 1, kv_bytes_per_token: 1, state_bytes: 0 }
    }

    #[track_caller]
    fn refuses(config: Config, option: &str) {
        let error = config.validate(&limits()).expect_err("an option is wrong").to_string();
        assert!(error.starts_with(option), "{error}");
    }

    #[test]
    fn wrong_settings_name_their_option() {
        let base = Config::default;
        base().validate(&limits()).expect("the defaults are right");
        refuses(Config { block_size: 0, ..base() }, "--block-size");
        refuses(Config { num_blocks: 0, ..base() }, "--kv-blocks");
        refuses(Config { budget: 0, ..base() }, "--budget");
        refuses(Config { budget: 99, policy: Policy::VllmV0, ..base() }, "--budget");
        refuses(Config { watermark: 1.0, ..base() }, "--watermark");
        refuses(Config { max_len: Some(1), ..base() }, "--max-len");
        refuses(Config { block_size: 1, num_blocks: 1, ..base() }, "--kv-blocks");
        refuses(Config { inject_preemptions: 1.5, ..base() }, "--inject-preemptions");
        refuses(Config { preemption: Preemption::Swap, ..base() }, "--swap-bytes");
        refuses(Config { kv_cache: false, ..base() }, "--no-kv-cache");
        let speculation = Some(Speculation { num_drafts: 0, ..Speculation::default() });
        refuses(Config { speculation, ..base() }, "--speculate");
    }

    #[test]
    fn a_state_is_neither_swapped_nor_guessed_for() {
        let limits = Limits { state_bytes: 8, ..limits() };
        Config::default().validate(&limits).expect("the defaults are right");
        let speculation = Some(Speculation::default());
        for (config, option) in [
            (Config { num_host_blocks: 4, ..Config::default() }, "--swap-bytes: the model keeps a state"),
            (Config { speculation, ..Config::default() }, "--speculate: the model keeps a state"),
        ] {
            let error = config.validate(&limits).expect_err("a state is in the way").to_string();
            assert!(error.starts_with(option), "{error}");
        }
    }

    #[test]
    fn names_of_policies_lead_back_to_them() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse::<Policy>().expect("a name"), policy);
        }
        assert!("v1".parse::<Policy>().expect_err("no name").to_string().contains("\"v1\" is not static"));
    }
}
