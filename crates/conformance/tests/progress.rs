//! Forward progress and determinism: kernels that end only if every waiting part of the machine gets its turn.

use warpfold_conformance::corpus::{Case, Folder, run, verdict};
use warpfold_sim::Checks;

/// The kernel leaves its expected values, with and without checks.
#[track_caller]
fn check(name: &str, workers: usize) {
    let case = Case::named(Folder::Pass, name).unwrap();
    for checks in [Checks::None, Checks::All] {
        let outcome = run(&case, workers, checks).unwrap();
        assert!(!outcome.report.aborted, "{name}, {workers} workers, {checks:?}: {:?}", outcome.report.findings);
        assert_eq!(verdict(&case, &outcome), Vec::<String>::new(), "{name}, {workers} workers, {checks:?}");
    }
}

#[test]
fn lanes_of_one_warp_pass_a_lock_round() {
    check("lock_in_one_warp", 1);
}

#[test]
fn a_lane_that_left_a_spinning_loop_does_not_wait_for_those_that_spin() {
    check("lock_in_one_warp_unfriendly", 1);
}

#[test]
fn a_lane_may_spin_on_what_another_lane_of_its_warp_stores() {
    check("producer_lane_consumer_lane", 1);
}

#[test]
fn a_warp_may_spin_on_what_another_warp_of_its_block_stores() {
    check("flag_between_warps", 1);
}

#[test]
fn a_lane_that_waits_long_still_meets_its_warp_at_the_barrier() {
    check("leader_spins_before_barrier", 1);
}

#[test]
fn lanes_of_one_warp_wait_for_one_another_in_any_order() {
    check("lanes_take_turns", 1);
    check("consumer_lane_after_producer_lane", 1);
}

#[test]
fn a_block_may_wait_for_blocks_before_it() {
    for workers in [1, 2, 4] {
        check("decoupled_lookback", workers);
    }
}

#[test]
fn blocks_of_a_cooperative_grid_may_wait_for_one_another_on_one_worker() {
    check("grid_barrier", 1);
}

#[test]
fn blocks_of_a_cooperative_grid_may_wait_for_one_another_on_two_workers() {
    check("grid_barrier", 2);
}

#[test]
fn lanes_of_several_blocks_pass_a_lock_round() {
    for workers in [1, 2, 4] {
        check("lock_between_blocks", workers);
    }
}

#[test]
fn two_runs_by_one_worker_give_identical_reports_and_memory() {
    for folder in [Folder::Pass, Folder::Fault] {
        for case in Case::all(folder).unwrap() {
            for checks in [Checks::None, Checks::All] {
                let first = run(&case, 1, checks).unwrap();
                let second = run(&case, 1, checks).unwrap();
                assert_eq!(first, second, "{}, {checks:?}", case.name);
            }
        }
    }
}
