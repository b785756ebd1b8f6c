//! Each step of an engine, as the pages of `ladder serving` and `replay` play it.

use std::collections::BTreeMap;
#[cfg(feature = "engine")]
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
#[cfg(feature = "engine")]
use warpfold_engine::OnTrace;
use warpfold_engine::{BlockId, Config, PrefixChange, RequestId, SequenceId, SequenceTrace, StepTrace};

/// Requests of a page that plays their steps: more would make it too large for a browser.
pub(crate) const MOST_REQUESTS: u32 = 16;

/// Blocks that follow one another: the first, how many, and the holders of each.
type Run = (BlockId, u32, u32);

/// A sequence as the page has it: request, sequence, positions computed, tokens, and its blocks.
type Row = (u64, SequenceId, usize, usize, Vec<Run>);

/// Data of one engine for the animation on the page.
#[derive(Debug, Serialize)]
pub(crate) struct Theatre {
    name: String,
    block_size: usize,
    num_blocks: usize,
    /// Request and sequence.
    owners: Vec<(u64, SequenceId)>,
    steps: Vec<Step>,
    /// All steps, of which the page has the first ones.
    num_steps: u64,
    /// Texts of the tokens of a sequence, by its number: from which step on, and what they are. A
    /// beam may go on with the tokens of another one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tokens: BTreeMap<SequenceId, Vec<(usize, Vec<String>)>>,
    /// The tokens themselves.
    #[serde(skip)]
    #[cfg(feature = "engine")]
    ids: BTreeMap<SequenceId, Vec<(usize, Vec<u32>)>>,
}

// THRESHOLD: a page has the first steps of a longer run; tested by
// crates/cli/tests/program/theatre.rs::a_page_of_generate_has_block_tables_with_their_tokens
/// Steps of an engine on a page: more would make it too large for a browser.
pub(crate) const MOST_STEPS: usize = 300;

/// The first steps of an engine, as it makes them.
#[cfg(feature = "engine")]
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedEngine(Arc<Mutex<(Vec<StepTrace>, u64)>>);

#[cfg(feature = "engine")]
impl WatchedEngine {
    /// The function that an engine calls.
    pub(crate) fn on_trace(&self) -> OnTrace {
        let seen = self.clone();
        Box::new(move |trace| {
            let mut seen = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
            seen.1 += 1;
            if seen.0.len() < MOST_STEPS {
                seen.0.push(trace.clone());
            }
        })
    }

    /// The animation of what was seen.
    pub(crate) fn theatre(&self, config: &Config) -> Theatre {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Theatre { num_steps: seen.1, ..Theatre::of(config.policy.name().to_owned(), config, &seen.0) }
    }
}

#[derive(Debug, Serialize)]
struct Step {
    /// Its end, where steps take time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// Sequence, first position, and how many.
    rows: Vec<(SequenceId, usize, usize)>,
    padding: usize,
    free: usize,
    admitted: Vec<(u64, usize)>,
    preempted: Vec<(u64, bool)>,
    /// What the prefix cache entered and evicted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prefixes: Vec<String>,
    running: Vec<Row>,
    swapped: Vec<Row>,
    waiting: Vec<u64>,
    /// Why the first of them waits.
    wait: Option<String>,
}

impl Theatre {
    pub(crate) fn of(name: String, config: &Config, traces: &[StepTrace]) -> Self {
        let sequences = traces.iter().flat_map(|trace| trace.running.iter().chain(&trace.swapped));
        let mut owners: BTreeMap<SequenceId, u64> = sequences.map(|of| (of.id, of.request.0)).collect();
        // A sequence that began and ended in one step is in no queue after it; its request has its number.
        for (id, _, _) in traces.iter().flat_map(|trace| &trace.rows) {
            owners.entry(*id).or_insert(*id);
        }
        Self {
            name,
            block_size: config.block_size,
            num_blocks: config.num_blocks,
            owners: owners.into_iter().map(|(id, request)| (request, id)).collect(),
            steps: traces.iter().map(Step::from).collect(),
            num_steps: traces.len() as u64,
            tokens: BTreeMap::new(),
            #[cfg(feature = "engine")]
            ids: ids(traces),
        }
    }

    /// All steps of the engine.
    #[cfg(feature = "engine")]
    pub(crate) fn num_steps(&self) -> u64 {
        self.num_steps
    }

    /// With the texts of tokens.
    #[cfg(feature = "engine")]
    pub(crate) fn with_tokens(mut self, text: impl Fn(u32) -> String) -> Self {
        let texts = |ids: &Vec<u32>| ids.iter().map(|id| text(*id)).collect();
        let of = |versions: &Vec<_>| versions.iter().map(|(from, ids)| (*from, texts(ids))).collect();
        self.tokens = self.ids.iter().map(|(id, versions)| (*id, of(versions))).collect();
        self
    }

    /// The first of `num_steps` steps, each with its end.
    pub(crate) fn timed(name: String, config: &Config, traces: &[(Duration, StepTrace)], num_steps: u64) -> Self {
        let (ends, traces): (Vec<_>, Vec<_>) = traces.iter().cloned().unzip();
        let mut theatre = Self::of(name, config, &traces);
        for (step, end) in theatre.steps.iter_mut().zip(ends) {
            step.seconds = Some(end.as_secs_f64());
        }
        Self { num_steps: num_steps.max(traces.len() as u64), ..theatre }
    }
}

/// The tokens of each sequence: versions, each from its step on. One that only grows has one.
#[cfg(feature = "engine")]
fn ids(traces: &[StepTrace]) -> BTreeMap<SequenceId, Vec<(usize, Vec<u32>)>> {
    let mut ids: BTreeMap<SequenceId, Vec<(usize, Vec<u32>)>> = BTreeMap::new();
    for (step, trace) in traces.iter().enumerate() {
        for of in trace.running.iter().chain(&trace.swapped) {
            let versions = ids.entry(of.id).or_default();
            match versions.last_mut() {
                Some((_, last)) if of.tokens.starts_with(last) => last.clone_from(&of.tokens),
                _ => versions.push((step, of.tokens.clone())),
            }
        }
    }
    ids
}

/// The blocks of a table as runs.
fn runs(table: &[(BlockId, u32)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (block, refs) in table {
        match runs.last_mut() {
            Some((first, num, of)) if *first + *num == *block && of == refs => *num += 1,
            _ => runs.push((*block, 1, *refs)),
        }
    }
    runs
}

impl From<&StepTrace> for Step {
    fn from(trace: &StepTrace) -> Self {
        let told = |change: &PrefixChange| match change {
            PrefixChange::Entered { block, .. } => format!("block {block} can be hit"),
            PrefixChange::Evicted { block, .. } => format!("block {block} is evicted"),
        };
        let row = |of: &SequenceTrace| (of.request.0, of.id, of.computed, of.len, runs(&of.table));
        Self {
            seconds: None,
            rows: trace.rows.clone(),
            padding: trace.padding,
            free: trace.num_free,
            admitted: trace.admitted.iter().map(|(RequestId(id), hits)| (*id, *hits)).collect(),
            preempted: trace.preempted.iter().map(|(RequestId(id), is_swap)| (*id, *is_swap)).collect(),
            prefixes: trace.prefixes.iter().map(told).collect(),
            running: trace.running.iter().map(row).collect(),
            swapped: trace.swapped.iter().map(row).collect(),
            waiting: trace.waiting.iter().map(|RequestId(id)| *id).collect(),
            wait: trace.wait.map(|wait| wait.to_string()),
        }
    }
}
