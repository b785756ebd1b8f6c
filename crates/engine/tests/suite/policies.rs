//! What each policy runs in a step, seen in traces.

use std::time::Duration;

use warpfold_engine::{Config, Policy, Preemption, Request, StepTrace, Wait};

use super::{engine, fixed, run, small};

/// How many rows each sequence has in each step.
fn rows(traces: &[StepTrace]) -> Vec<Vec<usize>> {
    traces.iter().map(|t| t.rows.iter().map(|(_, _, num)| *num).collect()).collect()
}

fn with(policy: Policy) -> Config {
    Config { policy, ..small() }
}

#[test]
fn a_static_batch_pads_prompts_and_keeps_every_slot_until_its_last_sequence_ends() {
    let mut engine = engine(Config { max_seqs: 2, ..with(Policy::Static) });
    let (_, traces) = run(&mut engine, vec![fixed(3, 1, 4), fixed(5, 2, 2), fixed(4, 3, 2)]);
    assert_eq!(rows(&traces), [vec![3, 5], vec![1, 1], vec![1], vec![1], vec![4], vec![1]]);
    let padding: Vec<_> = traces.iter().map(|t| t.padding).collect();
    assert_eq!(padding, [2, 0, 1, 1, 0, 0]);
    assert_eq!(traces[2].running.len(), 2, "the ended one keeps its blocks");
}

#[test]
fn an_answer_that_has_ended_cannot_be_given_up_though_its_slot_is_kept() {
    let mut engine = engine(with(Policy::Static));
    let [short, long] = [1, 3].map(|new| engine.add(fixed(3, 1, new)).expect("the request is right"));
    engine.step().expect("the model runs");
    assert!(!engine.abort(short) && engine.metrics().now.used_blocks == 2);
    assert!(engine.abort(long));
    engine.step().expect("the model runs");
    assert!(engine.is_idle() && engine.metrics().now.used_blocks == 0);
}

#[test]
fn a_static_batch_starts_when_it_is_full_or_a_time_is_over() {
    let config = Config { max_seqs: 2, static_wait: Duration::from_millis(10), ..with(Policy::Static) };
    let mut engine = engine(config);
    engine.add(fixed(3, 1, 1)).expect("the request is right");
    engine.set_time(Duration::from_millis(9));
    assert!(engine.step().expect("the model runs").is_empty());
    engine.set_time(Duration::from_millis(10));
    assert_eq!(engine.step().expect("the model runs").len(), 1);
    engine.add(fixed(3, 1, 1)).expect("the request is right");
    assert!(engine.step().expect("the model runs").is_empty());
    engine.add(fixed(3, 1, 1)).expect("the request is right");
    assert_eq!(engine.step().expect("the model runs").len(), 2, "a full batch waits for nothing");
    engine.add(fixed(3, 1, 1)).expect("the request is right");
    assert_eq!(engine.run_to_end().expect("the model runs").len(), 1, "no others are to come");
}

/// Why the first request that waits does so, step by step.
fn waits(config: Config, requests: Vec<Request>) -> Vec<Option<Wait>> {
    let mut engine = engine(config);
    let (_, traces) = run(&mut engine, requests);
    traces.iter().map(|trace| trace.wait).collect()
}

#[test]
fn a_trace_says_why_a_request_waits() {
    let two = || vec![fixed(3, 1, 2), fixed(5, 2, 1)];
    let seats = waits(Config { max_seqs: 1, ..with(Policy::Orca) }, two());
    assert_eq!(seats[0], Some(Wait::Seats { needed: 1, free: 0 }));
    let budget = waits(Config { budget: 7, max_len: Some(6), ..with(Policy::Orca) }, two());
    assert_eq!(budget[0], Some(Wait::Budget { needed: 5, left: 4 }));
    let chunks = waits(Config { budget: 3, max_seqs: 3, ..with(Policy::Continuous) }, two());
    assert_eq!(chunks[0], Some(Wait::Budget { needed: 1, left: 0 }));
    let blocks = waits(Config { num_blocks: 2, ..with(Policy::Orca) }, two());
    assert!(matches!(blocks[0], Some(Wait::Blocks { needed: 2, free: 1, .. })), "{blocks:?}");
    let batch = waits(Config { max_seqs: 1, ..with(Policy::Static) }, two());
    assert_eq!(batch[1], Some(Wait::Batch));
    for all in [seats, budget, chunks, blocks, batch] {
        assert_eq!(all[all.len() - 1], None, "at last nobody waits");
    }
    assert_eq!(Wait::Blocks { needed: 2, free: 1, kept: 1 }.to_string(), "blocks: 2 needed, 1 free, 1 kept");
}

#[test]
fn orca_runs_whole_prompts_beside_decodes() {
    let mut engine = engine(Config { budget: 96, max_seqs: 2, ..with(Policy::Orca) });
    let (_, traces) = run(&mut engine, vec![fixed(3, 1, 2), fixed(5, 2, 4), fixed(4, 3, 2)]);
    assert_eq!(rows(&traces), [vec![3, 5], vec![1, 1], vec![1, 4], vec![1, 1]]);
}

#[test]
fn vllm_v0_runs_prefills_or_decodes() {
    let mut engine = engine(Config { max_seqs: 2, ..with(Policy::VllmV0) });
    let (_, traces) = run(&mut engine, vec![fixed(3, 1, 2), fixed(5, 2, 4), fixed(4, 3, 2)]);
    assert_eq!(rows(&traces), [vec![3, 5], vec![1, 1], vec![4], vec![1, 1], vec![1]]);
}

#[test]
fn continuous_batching_cuts_prompts_where_the_budget_ends() {
    let mut engine = engine(Config { budget: 8, ..with(Policy::Continuous) });
    let (_, traces) = run(&mut engine, vec![fixed(3, 1, 4), fixed(12, 2, 2), fixed(4, 3, 1)]);
    assert_eq!(rows(&traces), [vec![3, 5], vec![1, 7], vec![1, 1, 4], vec![1]]);
}

#[test]
fn a_budget_of_one_row_serves_requests_in_turn() {
    let mut engine = engine(Config { budget: 1, ..with(Policy::Continuous) });
    let (_, traces) = run(&mut engine, vec![fixed(3, 1, 2), fixed(2, 2, 2)]);
    assert!(rows(&traces).iter().all(|r| *r == [1]));
    assert_eq!(traces.len(), 4 + 3);
}

#[test]
fn a_prompt_is_admitted_only_if_all_of_it_fits() {
    let mut engine = engine(Config { num_blocks: 10, budget: 8, ..with(Policy::Continuous) });
    let (_, traces) = run(&mut engine, vec![fixed(8, 1, 12), fixed(36, 2, 1)]);
    let begins = traces.iter().position(|t| t.rows.iter().any(|(id, _, _)| *id == 2));
    assert_eq!(begins, Some(12), "there was room for its first chunk from the second step on");
}

#[test]
fn lower_numbers_run_first_and_are_preempted_last() {
    let mut engine = engine(Config { max_seqs: 1, ..with(Policy::Continuous) });
    let low = Request { priority: 1, ..fixed(3, 1, 2) };
    let (_, traces) = run(&mut engine, vec![low.clone(), fixed(3, 2, 2)]);
    assert_eq!(traces[0].rows[0].0, 2);
    let mut engine = super::engine(Config { num_blocks: 12, ..with(Policy::Continuous) });
    let (_, traces) = run(&mut engine, vec![Request { priority: 1, ..fixed(10, 1, 25) }, fixed(11, 3, 20)]);
    let waits: Vec<_> = traces.iter().filter_map(|t| t.waiting.first()).collect();
    assert!(!waits.is_empty() && waits.iter().all(|id| id.0 == 1), "the other one came later but goes first");
}

#[test]
fn a_preempted_request_goes_on_before_those_that_came_later() {
    let config = Config { num_blocks: 12, preemption: Preemption::Recompute, ..with(Policy::Continuous) };
    let mut engine = engine(config);
    let (_, traces) = run(&mut engine, vec![fixed(10, 1, 25), fixed(11, 2, 20), fixed(12, 3, 24)]);
    let preempted = traces.iter().find(|t| t.waiting.first().is_some_and(|id| id.0 == 2)).expect("one is preempted");
    assert_eq!(preempted.waiting.iter().map(|id| id.0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn nothing_is_admitted_while_a_group_is_swapped_out() {
    for policy in [Policy::VllmV0, Policy::Continuous] {
        let config = Config { num_blocks: 12, num_host_blocks: 20, preemption: Preemption::Swap, ..with(policy) };
        let mut engine = engine(config);
        let (_, traces) = run(&mut engine, vec![fixed(10, 1, 25), fixed(11, 2, 20), fixed(1, 3, 4)]);
        let out = traces.iter().filter(|t| !t.swapped.is_empty());
        let admitted = |t: &&StepTrace| t.rows.iter().any(|(id, start, _)| *id == 3 && *start == 0);
        assert!(out.clone().count() > 0);
        assert_eq!(out.filter(admitted).count(), 0, "{policy:?}");
    }
}

#[test]
fn vllm_v0_swaps_groups_and_recomputes_single_sequences() {
    let config = Config { num_blocks: 16, num_host_blocks: 20, ..with(Policy::VllmV0) };
    let mut engine = engine(config);
    run(&mut engine, vec![fixed(10, 1, 40), fixed(11, 2, 40)]);
    let metrics = engine.metrics();
    assert!(metrics.preempted_by_recompute > 0 && metrics.preempted_by_swap == 0, "{metrics:?}");
    run(&mut engine, vec![fixed(10, 1, 25), Request { n: 2, ..fixed(11, 2, 20) }]);
    assert!(engine.metrics().preempted_by_swap > 0);
}

#[test]
fn the_watermark_keeps_blocks_free_for_what_runs() {
    let config = Config { num_blocks: 20, watermark: 0.25, ..with(Policy::VllmV0) };
    let mut engine = engine(config);
    // 8 blocks and 8 more would leave 4, less than the watermark of 5.
    let (_, traces) = run(&mut engine, vec![fixed(32, 1, 3), fixed(32, 2, 3)]);
    assert_eq!(rows(&traces), [vec![32], vec![1], vec![1], vec![32], vec![1], vec![1]]);
}
