//! Forward progress and determinism: kernels that end only if every waiting part of the machine
//! gets its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpfold_conformance::corpus::{Case, Folder, run, verdict};
use warpfold_sim::{Arch, Checks, Error, Launch, Memory, Options, Program};

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

/// Block 1 waits for block 2, which runs behind block 0 on another host thread.
const BEHIND_A_PRINT: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[2] = {46, 0};
.visible .entry behind(.param .u64 flag)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [flag];
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 bra wait;
    setp.eq.u32 %p1, %r1, 2;
    @%p1 st.release.gpu.global.u32 [%rd1], 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra done;
    cvta.global.u64 %rd2, text;
    {
    .param .b64 p0;
    .param .b64 p1;
    .param .b32 r0;
    st.param.b64 [p0], %rd2;
    st.param.b64 [p1], 0;
    call.uni (r0), vprintf, (p0, p1);
    }
    bra done;
wait:
    ld.acquire.gpu.global.u32 %r2, [%rd1];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra wait;
done:
    ret;
}
"#;

#[test]
fn a_host_thread_that_the_host_holds_up_is_no_deadlock() {
    let memory = Memory::new(1 << 20);
    let flag = memory.allocate(4, "flag").unwrap();
    memory.fill(flag, 0, 4).unwrap();
    let program = Program::load(&memory, BEHIND_A_PRINT, Arch::SM_80).unwrap();
    let launch = Launch {
        kernel: "behind".to_owned(),
        grid: [3, 1, 1],
        block: [1, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: flag.to_le_bytes().to_vec(),
        cooperative: true,
        programmatic: false,
    };
    let held = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&held);
    let output = Arc::new(move |text: &str| {
        assert_eq!(text, ".");
        seen.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
    });
    let options = Options { workers: Some(2), patience: 10_000, output: Some(output), ..Options::default() };
    let report = program.launch(&memory, &launch, &options).unwrap();
    assert!(!report.aborted, "{:?}", report.findings);
    assert!(held.load(Ordering::Relaxed));
}

/// What is found when a kernel without end is launched with so many threads.
fn found_without_end(text: &str, threads: u32, options: &Options) -> Vec<String> {
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
    let report = program.launch(&memory, &launch, options).unwrap();
    assert!(report.aborted);
    report.findings.into_iter().map(|finding| finding.rule).collect()
}

fn limited() -> Options {
    Options { limit: 1 << 20, ..Options::default() }
}

#[test]
fn a_launch_ends_soon_after_the_host_says_so() {
    let stop = Arc::new(AtomicBool::new(false));
    let later = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        later.store(true, Ordering::Relaxed);
    });
    let found = found_without_end(ENDLESS, 32, &Options { stop: Some(stop), ..Options::default() });
    assert!(found.len() == 1 && found[0].starts_with("the launch's time is over: 0 of 1 blocks"), "{found:?}");
}

#[test]
fn a_launch_that_goes_on_beyond_its_limit_counts_as_endless() {
    let expected = "more than 1048576 warp instructions, the limit of a launch, were executed, the last of them in the \
                    loop of lines 11 to 12";
    assert_eq!(found_without_end(ENDLESS, 32, &limited()), [expected]);
}

#[test]
fn warps_that_wake_one_another_for_ever_reach_the_limit() {
    let found = found_without_end(TURNS, 64, &limited());
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

#[test]
fn a_host_ends_a_launch_by_a_flag() {
    let memory = Memory::new(1 << 20);
    let out = memory.allocate(4, "out").unwrap();
    let program = Program::load(&memory, ENDLESS, Arch::SM_80).unwrap();
    let launch = first_of("endless", 1, out);
    let stop = Some(Arc::new(AtomicBool::new(true)));
    let report = program.launch(&memory, &launch, &Options { stop, ..Options::default() }).unwrap();
    let rules: Vec<_> = report.findings.into_iter().map(|finding| finding.rule).collect();
    let expected = "the launch's time is over: 0 of 1 blocks are done, and instructions were executed, the last of them \
                    in the loop of lines 11 to 12";
    assert_eq!(rules, [expected]);
}

/// A launch of one parameter, an address.
fn first_of(kernel: &str, blocks: u32, address: u64) -> Launch {
    Launch {
        kernel: kernel.to_owned(),
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: address.to_le_bytes().to_vec(),
        cooperative: false,
        programmatic: false,
    }
}

/// The block that draws the first number stores its own.
const FIRST: &str = "
.version 8.0
.target sm_80
.address_size 64
.tex .u32 picture;
.visible .entry first(.param .u64 p) {
    .reg .u64 %p; .reg .u32 %old, %block; .reg .pred %is;
    ld.param.u64 %p, [p];
    mov.u32 %block, %ctaid.x;
    add.u32 %block, %block, 1;
    atom.global.cas.b32 %old, [%p], 0, %block;
    ret;
}
.visible .entry draws(.param .u64 p) {
    .reg .f32 %f<5>;
    tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [picture, {%f4}];
    ret;
}
";

fn block_that_comes_first(seed: u64) -> u32 {
    let memory = Memory::new(1 << 20);
    let word = memory.allocate(4, "word").unwrap();
    memory.fill(word, 0, 4).unwrap();
    let program = Program::load(&memory, FIRST, Arch::SM_80).unwrap();
    let options = Options { seed, workers: Some(1), ..Options::default() };
    program.launch(&memory, &first_of("first", 16, word), &options).unwrap();
    let mut bytes = [0; 4];
    memory.read(word, &mut bytes).unwrap();
    u32::from_le_bytes(bytes) - 1
}

#[test]
fn a_seed_varies_which_block_comes_first() {
    assert_eq!(block_that_comes_first(0), 0);
    let first: Vec<u32> = (1..20).map(block_that_comes_first).collect();
    assert_eq!(first, (1..20).map(block_that_comes_first).collect::<Vec<u32>>());
    assert!(first.iter().any(|&block| block != first[0]), "{first:?}");
}

#[test]
fn a_kernel_with_textures_refuses_itself_alone() {
    let memory = Memory::new(1 << 20);
    let word = memory.allocate(4, "word").unwrap();
    memory.fill(word, 0, 4).unwrap();
    let program = Program::load(&memory, FIRST, Arch::SM_80).unwrap();
    assert!(program.launch(&memory, &first_of("first", 1, word), &Options::default()).is_ok());
    let refused = program.launch(&memory, &first_of("draws", 1, word), &Options::default());
    assert!(matches!(refused, Err(Error::Unsupported { line: 16, .. })), "{refused:?}");
}

#[test]
fn a_store_to_a_protected_buffer_is_found() {
    let memory = Memory::new(1 << 20);
    let word = memory.allocate(8, "word").unwrap();
    memory.fill(word, 0, 4).unwrap();
    memory.protect(word).unwrap();
    assert_eq!(memory.first_unwritten(word, 8), Ok(Some(word + 4)));
    let program = Program::load(&memory, FIRST, Arch::SM_80).unwrap();
    let options = Options { checks: Checks::All, ..Options::default() };
    let report = program.launch(&memory, &first_of("first", 1, word), &options).unwrap();
    let rules: Vec<_> = report.findings.into_iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["writes an argument that was passed to be read only"]);
    assert_eq!(memory.first_unwritten(word, 8), Ok(Some(word + 4)));
}
