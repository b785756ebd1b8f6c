//! Blocks as the traces show them: growth, forks, copy-on-write, prefixes, swaps.

use warpfold_engine::{Allocator, Config, Preemption, Request, Sampling, StepTrace};

use super::{engine, fixed, run, small};

/// Tables of the running sequences, with references.
fn tables(trace: &StepTrace) -> Vec<Vec<(u32, u32)>> {
    trace.running.iter().map(|s| s.table.clone()).collect()
}

#[test]
fn two_answers_to_seven_tokens_share_blocks_of_four_until_they_differ() {
    let mut engine = engine(small());
    let request = Request { n: 2, seed: Some(1), sampling: Sampling::default(), ..fixed(7, 1, 4) };
    let (answers, traces) = run(&mut engine, vec![request]);
    // The prompt runs once; then both hold its two blocks.
    assert_eq!(traces[0].rows, [(1, 0, 7)]);
    assert_eq!(tables(&traces[0]), [[(1, 2), (2, 2)], [(1, 2), (2, 2)]]);
    // Position 7 goes to the second block: the first writer copies it, the other one is alone in it
    // then.
    assert_eq!(traces[1].moves.copies, [(2, 3)]);
    assert_eq!(tables(&traces[1]), [[(1, 2), (3, 1)], [(1, 2), (2, 1)]]);
    // Position 8 begins a block of each.
    assert!(traces[2].moves.copies.is_empty());
    assert_eq!(tables(&traces[2]), [[(1, 2), (3, 1), (4, 1)], [(1, 2), (2, 1), (5, 1)]]);
    assert_eq!(traces.len(), 4);
    assert_eq!(traces[3].num_free, 64);
    let text = traces[1].to_string();
    let expected = "step 2: 2 rows, 61 blocks free\n  run      sequence 1: positions 7..8\n  run      sequence 2: \
                    positions 7..8\n  copy     2→3\n  enter    block 3: entry 2, key (entry 1, [29 36 43 \
                    30])\n  enter    block 2: entry 3, key (entry 1, [29 36 43 6])\n  running  1/1: 8 of 9 \
                    computed, blocks [1(2) 3(1)]\n  running  1/2: 8 of 9 computed, blocks [1(2) 2(1)]\n  swapped  \
                    []\n  waiting  []\n";
    assert_eq!(text, expected);
    assert_ne!(answers[0][0].ids(), answers[0][1].ids());
}

#[test]
fn a_full_hit_runs_the_last_token_alone_and_writes_nothing() {
    let mut engine = engine(small());
    let (first, _) = run(&mut engine, vec![fixed(16, 1, 3)]);
    let (second, traces) = run(&mut engine, vec![fixed(16, 1, 3)]);
    assert_eq!(traces[0].rows, [(2, 15, 1)]);
    assert_eq!(first[0][0].tokens, second[0][0].tokens);
    assert_eq!(engine.metrics().prefix_hits, 15);
}

#[test]
fn a_longer_prompt_runs_what_comes_after_the_known_blocks() {
    let mut engine = engine(small());
    run(&mut engine, vec![fixed(18, 1, 3)]);
    let (_, traces) = run(&mut engine, vec![fixed(30, 1, 3)]);
    // 18 + 2 tokens were computed; the answer's tokens are not those of the longer prompt.
    assert_eq!(traces[0].rows, [(2, 16, 14)]);
}

#[test]
fn salts_and_other_beginnings_share_nothing() {
    let mut engine = engine(small());
    run(&mut engine, vec![fixed(16, 1, 3)]);
    let (_, traces) = run(&mut engine, vec![Request { salt: "b".into(), ..fixed(16, 1, 3) }]);
    assert_eq!(traces[0].rows[0].1, 0);
    let (_, traces) = run(&mut engine, vec![fixed(16, 2, 3)]);
    assert_eq!(traces[0].rows[0].1, 0);
}

#[test]
fn running_requests_share_a_prefix_that_is_computed() {
    let mut engine = engine(small());
    engine.add(fixed(16, 1, 8)).expect("the request is right");
    engine.step().expect("the model runs");
    engine.add(fixed(16, 1, 8)).expect("the request is right");
    engine.step().expect("the model runs");
    let trace = engine.trace().expect("there is a trace").clone();
    assert_eq!(tables(&trace)[1], [(1, 2), (2, 2), (3, 2), (4, 2)]);
}

#[test]
fn the_least_recently_used_prefix_is_evicted_first() {
    let mut engine = engine(Config { num_blocks: 9, ..small() });
    run(&mut engine, vec![fixed(9, 1, 1)]);
    run(&mut engine, vec![fixed(9, 2, 1)]);
    run(&mut engine, vec![fixed(9, 1, 1)]);
    assert_eq!(engine.metrics().prefix_hits, 8);
    // Four blocks hold prefixes, five do not; this takes seven.
    run(&mut engine, vec![fixed(27, 3, 1)]);
    let (_, traces) = run(&mut engine, vec![fixed(9, 1, 1)]);
    assert_eq!(traces[0].rows[0].1, 8, "the one that was used last is still there");
    let (_, traces) = run(&mut engine, vec![fixed(9, 2, 1)]);
    assert_eq!(traces[0].rows[0].1, 0, "the other one is not");
}

#[test]
fn a_cleared_cache_hits_nothing() {
    let mut engine = engine(small());
    run(&mut engine, vec![fixed(16, 1, 3)]);
    assert_eq!(engine.metrics().now.cached_blocks, 4);
    engine.clear_prefix_cache();
    assert_eq!(engine.metrics().now.cached_blocks, 0);
    let (_, traces) = run(&mut engine, vec![fixed(16, 1, 3)]);
    assert_eq!(traces[0].rows[0].1, 0);
}

#[test]
fn a_swapped_group_comes_back_with_what_it_shares() {
    let config = Config { preemption: Preemption::Swap, num_host_blocks: 64, num_blocks: 16, ..small() };
    let mut engine = engine(config);
    let two = Request { n: 2, seed: Some(1), sampling: Sampling::default(), ..fixed(11, 3, 20) };
    let (_, traces) = run(&mut engine, vec![fixed(10, 1, 25), two]);
    let metrics = engine.metrics();
    assert!(metrics.preempted_by_swap > 0 && metrics.preempted_by_recompute == 0, "{metrics:?}");
    assert_eq!(metrics.swapped_in_blocks, metrics.swapped_out_blocks);
    let swapped = traces.iter().find(|t| t.swapped.len() == 2).expect("both sequences are out at a time");
    assert_eq!(swapped.swapped[0].table[0], swapped.swapped[1].table[0], "the first block is shared");
    assert_eq!(swapped.swapped[0].table[0].1, 2);
    assert_eq!(engine.model().num_rerun(), 0, "nothing is computed twice");
}

#[test]
fn a_full_host_falls_back_to_recompute() {
    let config = Config { preemption: Preemption::Swap, num_host_blocks: 1, num_blocks: 12, ..small() };
    let mut engine = engine(config);
    run(&mut engine, vec![fixed(10, 1, 25), fixed(11, 3, 20)]);
    assert!(engine.metrics().preempted_by_recompute > 0);
    assert_eq!(engine.metrics().preempted_by_swap, 0);
}

#[test]
fn a_recomputed_group_finds_its_own_prefix_and_forks_again() {
    let config = Config { preemption: Preemption::Recompute, num_blocks: 16, ..small() };
    let mut engine = engine(config);
    let two = Request { n: 2, seed: Some(1), sampling: Sampling::default(), ..fixed(11, 3, 20) };
    let (_, traces) = run(&mut engine, vec![fixed(10, 1, 25), two]);
    assert!(engine.metrics().preempted_by_recompute > 0);
    let preempted = traces.iter().rposition(|t| !t.waiting.is_empty()).expect("a group waits");
    let later = traces[preempted..].iter().rfind(|t| t.running.len() == 2).expect("both answers run").running.clone();
    assert_eq!(later[0].table[..2], later[1].table[..2], "the prompt's whole blocks are shared again");
}

#[test]
fn contiguous_blocks_are_reserved_for_the_longest_answer_and_follow_one_another() {
    let config = Config { allocator: Allocator::Contiguous, num_blocks: 20, ..small() };
    let mut engine = engine(config);
    let (_, traces) = run(&mut engine, vec![fixed(5, 1, 20), fixed(5, 2, 3), fixed(5, 3, 30), fixed(5, 4, 7)]);
    assert_eq!(tables(&traces[0]).iter().map(Vec::len).collect::<Vec<_>>(), [7, 2, 9]);
    for sequence in traces.iter().flat_map(|t| &t.running) {
        assert!(sequence.table.windows(2).all(|w| w[0].0 + 1 == w[1].0));
    }
    // The short one's two blocks are free, with two at the end: four, but not three in a row.
    assert!(traces.iter().any(|t| t.external_slots == 16), "external fragmentation is seen");
    assert_eq!(engine.model().num_rerun(), 0);
}

#[test]
fn nothing_is_computed_twice_and_no_copy_is_made_without_a_reason() {
    let mut engine = engine(small());
    let (_, traces) = run(&mut engine, (0..8).map(|i| fixed(9 + i, i, 12)).collect());
    let rows: usize = traces.iter().flat_map(|t| &t.rows).map(|(_, _, num)| num).sum();
    assert_eq!(rows, (0..8).map(|i| 9 + i + 11).sum::<usize>());
    assert_eq!((engine.model().num_rerun(), engine.metrics().copied_blocks), (0, 0));
}
