//! Pictures of batching: the engine serves a small job under several policies, and what each step
//! ran is drawn. The ladder `serving` gives the bars.

use std::collections::BTreeMap;

use warpfold_engine::ladder::{climb, mixed_job, rungs};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Config, Engine, Limits, Model, Policy, Request, SequenceId, StepTrace};
use warpfold_report::{SlotChart, SlotState, bars_svg, slots_svg};

use crate::failure::Failure;
use crate::ladder::serving;

/// The pictures that need the engine.
pub(super) const FILES: [&str; 6] = [
    "batching.svg",
    "batching-equal.svg",
    "chunked-prefill.svg",
    "serving-steps.svg",
    "serving-first-token.svg",
    "serving-wait.svg",
];

/// Tokens of a prompt, and of its answer.
type Job = &'static [(usize, usize)];

/// Requests of mixed lengths, the fourth with a long prompt.
const MIXED: Job = &[(3, 7), (2, 2), (4, 3), (12, 3), (2, 4), (3, 2)];
const EQUAL: Job = &[(4, 3), (4, 3), (4, 3), (4, 3), (4, 3), (4, 3)];

/// Requests that run together.
const SLOTS: usize = 3;

pub(super) fn draw(file: &str) -> Result<String, Failure> {
    const WIDE: usize = 64;
    let fixed = ("static", "a batch ends with its longest answer", Policy::Static, WIDE);
    let each = ("iteration-level (orca)", "who ends leaves its slot at once", Policy::Orca, WIDE);
    match file {
        "batching.svg" => {
            charts("Six requests, three slots: static batches, and a decision per step", MIXED, &[fixed, each])
        }
        "batching-equal.svg" => {
            let fixed = (fixed.0, "equal lengths: no slot is ever held for nothing", fixed.2, fixed.3);
            charts(
                "Equal prompts and answers: static batches are as good",
                EQUAL,
                &[fixed, (each.0, "the same steps", each.2, each.3)],
            )
        }
        "chunked-prefill.svg" => charts(
            "The long prompt of request 4: who waits for it",
            MIXED,
            &[
                (each.0, "prompt and tokens in one step", Policy::Orca, WIDE),
                ("vllm-v0", "a step is prefill or decode: decodes stand still", Policy::VllmV0, WIDE),
                ("chunked (continuous)", "at most 6 rows per step: the prompt is cut", Policy::Continuous, 6),
            ],
        ),
        _ => bars(file),
    }
}

fn charts(title: &str, job: Job, policies: &[(&str, &str, Policy, usize)]) -> Result<String, Failure> {
    let chart = |&(name, told, policy, budget)| {
        let traces = traces(job, policy, budget)?;
        Ok(chart(name, told, job, policy, &traces))
    };
    Ok(slots_svg(title, &policies.iter().map(chart).collect::<Result<Vec<_>, Failure>>()?))
}

/// Runs a job and returns the trace of each step.
fn traces(job: Job, policy: Policy, budget: usize) -> Result<Vec<StepTrace>, Failure> {
    let config = Config {
        policy,
        budget,
        max_seqs: SLOTS,
        block_size: 4,
        num_blocks: 64,
        max_len: Some(32),
        trace: true,
        ..Config::default()
    };
    let mut engine = Engine::new(Scripted::new(100, 64), config)?;
    for (first, (prompt, answer)) in (1_u32..).zip(job) {
        let prompt = (0..*prompt as u32).map(|token| 1 + (7 * first + token) % 90).collect();
        engine.add(Request { max_tokens: Some(*answer), ignore_eos: true, seed: Some(1), ..Request::new(prompt) })?;
    }
    let mut traces = Vec::new();
    while !engine.is_idle() {
        engine.step()?;
        traces.extend(engine.trace().cloned());
    }
    Ok(traces)
}

/// Slots of the steps: a sequence has the first one that is free from its first row to its last.
fn chart(name: &str, told: &str, job: Job, policy: Policy, traces: &[StepTrace]) -> SlotChart {
    let mut spans: BTreeMap<SequenceId, (usize, usize)> = BTreeMap::new();
    for (step, trace) in traces.iter().enumerate() {
        for (id, _, _) in &trace.rows {
            spans.entry(*id).or_insert((step, step)).1 = step;
        }
    }
    let mut slots = vec![vec![SlotState::Free; traces.len()]; SLOTS];
    let mut until = [0; SLOTS];
    let mut order: Vec<_> = spans.iter().collect();
    order.sort_by_key(|(id, (first, _))| (*first, **id));
    let mut total = 0;
    let done: Vec<usize> = traces
        .iter()
        .map(|trace| {
            total += rows_of(trace);
            total
        })
        .collect();
    let mut longest = 0;
    for (request, (id, (first, last))) in (1_u64..).zip(order) {
        let slot = until.iter().position(|until| *until <= *first).expect("no more run than there are slots");
        until[slot] = last + 1;
        let prompt = job[request as usize - 1].0;
        let mut before = None;
        for step in *first..=*last {
            let state = match traces[step].rows.iter().find(|(of, _, _)| of == id) {
                None => SlotState::Gap,
                Some((_, start, _)) if *start < prompt => SlotState::Prompt(request),
                Some(_) if step == *last => SlotState::Last(request),
                Some(_) => SlotState::Token(request),
            };
            slots[slot][step] = state;
            let gives = traces[step].rows.iter().any(|(of, start, num)| of == id && start + num >= prompt);
            if gives {
                longest = longest.max(before.map_or(0, |before| done[step] - before));
                before = Some(done[step]);
            }
        }
    }
    for states in &mut slots {
        for (step, state) in states.iter_mut().enumerate().filter(|(_, state)| **state == SlotState::Free) {
            if policy == Policy::Static || !traces[step].waiting.is_empty() {
                *state = SlotState::Gap;
            }
        }
    }
    SlotChart {
        name: name.to_owned(),
        told: format!("{told}; longest wait {longest} rows"),
        slots,
        rows: traces.iter().map(rows_of).collect(),
    }
}

fn rows_of(trace: &StepTrace) -> usize {
    trace.padding + trace.rows.iter().map(|(_, _, num)| num).sum::<usize>()
}

/// A bar for each rung of the ladder `serving`, with 64 requests.
fn bars(file: &str) -> Result<String, Failure> {
    let (all, model) = (rungs(&serving::base(16)), || Scripted::new(64, serving::MAX_LEN));
    let limits = Limits { max_len: serving::MAX_LEN, ..model().limits() };
    let outcomes = climb(model, &mixed_job(&limits, 64, serving::SEED), &all)?;
    let (title, of): (_, fn(&warpfold_engine::ladder::Outcome) -> f64) = match file {
        "serving-steps.svg" => ("serving, 64 requests: steps", |outcome| outcome.steps as f64),
        "serving-first-token.svg" => {
            ("serving, 64 requests: most steps to a first token", |outcome| outcome.steps_to_first_token.1 as f64)
        }
        _ => ("serving, 64 requests: most rows from one token of an answer to the next", |outcome| {
            outcome.longest_wait_rows as f64
        }),
    };
    let values: Vec<_> = outcomes.iter().map(|outcome| (outcome.name, of(outcome))).collect();
    Ok(bars_svg(title, &values))
}
