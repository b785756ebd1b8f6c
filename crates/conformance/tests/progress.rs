//! Forward progress and determinism: kernels that end only if every waiting part of the machine
//! gets its turn.

use warpfold_conformance::corpus::{Case, Folder, run, verdict};
use warpfold_sim::{Arch, Checks, Launch, Memory, Options, Program};

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

/// Counts in memory for ever, which is progress.
const ENDLESS: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry endless(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
again:
    atom.global.add.u32 %r1, [%rd1], 1;
    bra again;
}
";

/// Two warps that wake one another at a barrier for ever.
const TURNS: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry endless(.param .u64 out)
{
again:
    bar.sync 0;
    bra again;
}
";

/// What is found when a kernel without end is launched with so many threads.
fn found_without_end(text: &str, threads: u32) -> Vec<String> {
    let memory = Memory::new(1 << 20);
    let out = memory.allocate(4, "out").unwrap();
    let program = Program::load(&memory, text, Arch::SM_80).unwrap();
    let launch = Launch {
        kernel: "endless".to_owned(),
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: out.to_le_bytes().to_vec(),
        cooperative: false,
        programmatic: false,
    };
    let report = program.launch(&memory, &launch, &Options { limit: 1 << 20, ..Options::default() }).unwrap();
    assert!(report.aborted);
    report.findings.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_launch_that_goes_on_beyond_its_limit_counts_as_endless() {
    let expected = "more than 1048576 warp instructions, the limit of a launch, were executed, the last of them in the \
                    loop of lines 11 to 12";
    assert_eq!(found_without_end(ENDLESS, 32), [expected]);
}

#[test]
fn warps_that_wake_one_another_for_ever_reach_the_limit() {
    let found = found_without_end(TURNS, 64);
    assert!(found.len() == 1 && found[0].starts_with("more than 1048576 warp instructions"), "{found:?}");
}

#[test]
fn denied_findings_are_an_error_with_all_of_them() {
    let case = Case::named(Folder::Fault, "two_warps_store_one_word").unwrap();
    let report = run(&case, 1, Checks::All).unwrap().report;
    let denied = run(&case, 1, Checks::Deny).unwrap_err().to_string();
    assert!(report.has_errors() && report.findings.iter().all(|finding| denied.contains(&finding.to_string())));
    let clean = Case::named(Folder::Pass, "reverse_in_place").unwrap();
    assert!(run(&clean, 1, Checks::Deny).is_ok());
}
