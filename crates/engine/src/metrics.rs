//! Counters since the start, and what is there now, as a server reports them.

use crate::request::Finish;
use crate::scheduler::Scheduler;

/// Counters since the engine started. All but the last group only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Steps that ran rows.
    pub steps: u64,
    /// Steps that were prepared while the previous one ran.
    pub overlapped_steps: u64,
    /// Tokens that they drew for answers that the step before had ended.
    pub discarded_tokens: u64,
    /// Rows of sequences that they ran.
    pub rows: u64,
    /// Rows of padding that they ran.
    pub padding_rows: u64,
    /// Tokens that were drawn.
    pub generation_tokens: u64,
    /// Preempted groups whose blocks were forgotten.
    pub preempted_by_recompute: u64,
    /// Preempted groups whose blocks were copied to the host.
    pub preempted_by_swap: u64,
    /// Blocks copied to the host.
    pub swapped_out_blocks: u64,
    /// Blocks copied from the host.
    pub swapped_in_blocks: u64,
    /// Blocks copied because a holder wrote to what others hold.
    pub copied_blocks: u64,
    /// Tokens that were looked for in the prefix cache.
    pub prefix_queries: u64,
    /// Tokens that were found there and not run.
    pub prefix_hits: u64,
    /// Tokens that were guessed.
    pub drafts: u64,
    /// Guesses that were right.
    pub accepted_drafts: u64,
    /// Answers that ended at a token or text.
    pub finished_stop: u64,
    /// Answers that ended at their length.
    pub finished_length: u64,
    /// Answers whose constraint gave up.
    pub finished_error: u64,
    /// Requests that were given up by their user.
    pub aborted: u64,
    /// Requests that ended because the model failed.
    pub failed: u64,
    /// Current values.
    pub now: Gauges,
}

/// Values at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Groups that run.
    pub running: usize,
    /// Groups that wait.
    pub waiting: usize,
    /// Groups whose blocks are on the host.
    pub swapped: usize,
    /// Blocks of the device that somebody holds.
    pub used_blocks: usize,
    /// Blocks of the device.
    pub num_blocks: usize,
    /// Blocks of the device that hold a prefix that can be hit, held or free.
    pub cached_blocks: usize,
    /// Blocks of the host that somebody holds.
    pub used_host_blocks: usize,
    /// Slots in held blocks that no computed position fills: what is reserved or will never be
    /// used.
    pub unfilled_slots: usize,
    /// Free slots that the next group cannot have because they do not lie side by side.
    pub external_slots: usize,
    /// Presence of weights and cache.
    pub residence: Residence,
}

/// A model's share of its memory: it sleeps while a part is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Residence {
    /// Both: it is awake.
    #[default]
    Awake,
    /// It has weights and no cache.
    WithWeights,
    /// It has neither.
    WithoutWeights,
}

/// A part of a step, for those who take its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Deciding who runs.
    Plan,
    /// Filling the batch.
    Assemble,
    /// Handing it to the model.
    Submit,
    /// Waiting for the model.
    Wait,
    /// Applying its answers, and text.
    Commit,
}

impl Metrics {
    pub(crate) fn count_finish(&mut self, finish: Finish) {
        match finish {
            Finish::StopToken(_) | Finish::StopText(_) | Finish::Constraint | Finish::Pooled => self.finished_stop += 1,
            Finish::ConstraintFailed => self.finished_error += 1,
            Finish::Length => self.finished_length += 1,
        }
    }
}

impl Gauges {
    pub(crate) fn of(scheduler: &Scheduler, external_slots: usize, residence: Residence) -> Self {
        let used_blocks = scheduler.pool.num_used();
        // A shared block is filled as far as its longest holder has filled it.
        let mut filled = vec![0; scheduler.pool.num_blocks() + 1];
        let block_size = scheduler.config.block_size;
        for seq in scheduler.running.iter().flat_map(|g| &g.seqs) {
            for (i, id) in seq.table.blocks.iter().enumerate() {
                let here = seq.computed.saturating_sub(i * block_size).min(block_size);
                filled[*id as usize] = here.max(filled[*id as usize]);
            }
        }
        Self {
            running: scheduler.running.len(),
            waiting: scheduler.waiting.len(),
            swapped: scheduler.swapped.len(),
            used_blocks,
            num_blocks: scheduler.pool.num_blocks(),
            cached_blocks: scheduler.pool.num_indexed(),
            used_host_blocks: scheduler.host.num_used(),
            unfilled_slots: used_blocks * block_size - filled.iter().sum::<usize>(),
            external_slots,
            residence,
        }
    }
}
