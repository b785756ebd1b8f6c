//! `wgmma` is asynchronous: when it takes effect, and what is found where its rules are broken.
//!
//! The harness stores the accumulators, for which ptxas injects a wait where there is none.

use warpfold_sim::{Checks, FindingKind};

use super::{Form, M, form, matrix};
use crate::instructions::tensor::harness::Proof;
use crate::instructions::tensor::number::Ty;
use crate::instructions::tensor::shared_matrix::Major;

/// A product of ones, whose accumulators start at 5: each is 21 afterwards.
fn ones() -> (Form, Proof) {
    let form = form((Ty::Bf16, Ty::Bf16, Ty::F32), 8, [Major::K; 2], [8; 2], false);
    let proof = form.proof(&matrix(M, 16, || 1.0), &matrix(16, 8, || 1.0), &matrix(M, 8, || 5.0));
    (form, proof)
}

/// What the accumulators hold after the lines.
#[track_caller]
fn sum_after(lines: impl Fn(&Form) -> String) -> f64 {
    let (form, mut proof) = ones();
    proof.lines = form.prologue() + "wgmma.fence.sync.aligned;\n" + &lines(&form);
    let outcome = proof.try_run(Checks::None).unwrap_or_else(|error| panic!("{error}"));
    let found = form.read(&outcome.values);
    let first = Ty::F32.decode(found[0][0]);
    assert!(found.iter().flatten().all(|bits| Ty::F32.decode(*bits) == first), "all accumulators are alike");
    first
}

const COMMIT: &str = "wgmma.commit_group.sync.aligned;\n";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;\n";

#[test]
fn accumulators_have_changed_at_the_wait_that_covers_them_or_when_they_are_touched() {
    assert_eq!(sum_after(|f| f.line() + COMMIT + WAIT), 21.0);
    assert_eq!(sum_after(|f| f.line() + COMMIT), 21.0, "waited for when they are stored");
    assert_eq!(sum_after(|f| f.line() + "mov.b32 d3, d3;\n" + COMMIT + WAIT), 21.0, "and when they are written");
    assert_eq!(sum_after(|f| f.line() + &f.line() + COMMIT + WAIT), 37.0, "a group of two");
}

#[test]
fn operands_are_read_as_late_as_they_may_be() {
    let all = "shl.b32 %at, %tid, 2;\nadd.u32 %at, %at, %tile;\nmov.b32 %word, 0x40004000;\n".to_owned()
        + &(0..16).map(|i| format!("st.shared.b32 [%at+{}], %word;\n", i * 512)).collect::<String>()
        + "bar.sync 0;\n";
    assert_eq!(sum_after(|f| f.line() + COMMIT + &all + WAIT), 37.0, "A was 1 when issued and is 2 at the wait");
    assert_eq!(sum_after(|f| f.line() + COMMIT + WAIT + "bar.sync 0;\n" + &all), 21.0);
}

#[test]
fn scale_d_is_taken_when_the_instruction_is_issued() {
    let flip = "setp.ne.u32 %adds, 0, 0;\n";
    assert_eq!(sum_after(|f| f.line() + flip + COMMIT + WAIT), 21.0);
    assert_eq!(sum_after(|f| flip.to_owned() + &f.line() + COMMIT + WAIT), 16.0);
    assert_eq!(sum_after(|f| f.line().replace("%adds", "0") + COMMIT + WAIT), 16.0, "a literal");
    assert_eq!(sum_after(|f| f.line().replace("%adds", "1") + COMMIT + WAIT), 21.0, "a literal");
    assert_eq!(sum_after(|f| f.line().replace("%adds", "!%adds") + COMMIT + WAIT), 16.0);
}

#[test]
fn descriptors_beyond_shared_memory_are_found() {
    let (form, mut proof) = ones();
    for units_beyond in [0x240, 0x3000] {
        let beyond = format!("add.u64 %db, %db, {units_beyond:#x};\nwgmma.fence.sync.aligned;\n");
        proof.lines = form.prologue() + &beyond + &form.line() + COMMIT + WAIT;
        for checks in [Checks::None, Checks::All] {
            let report = proof.try_run(checks).expect("it runs").report;
            assert!(report.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds), "{:?}", report.findings);
        }
    }
}

const FENCE: &str = "wgmma.fence.sync.aligned;\n";

/// What the checks find in the lines, as `severity: kind`.
#[track_caller]
fn findings(lines: impl Fn(&Form) -> String) -> Vec<String> {
    let (form, mut proof) = ones();
    proof.lines = form.prologue() + &lines(&form);
    let report = proof.try_run(Checks::All).unwrap_or_else(|error| panic!("{error}")).report;
    let mut kinds: Vec<String> =
        report.findings.iter().map(|f| format!("{}: {}", f.severity.name(), f.kind.name())).collect();
    kinds.dedup();
    kinds
}

#[test]
fn an_early_touch_of_a_register_in_flight_is_found() {
    let read = "mov.b32 %word, d2;\n";
    let write = "mov.b32 d3, 0;\n";
    let product = |f: &Form| FENCE.to_owned() + &f.line();
    assert_eq!(findings(|f| product(f) + COMMIT + WAIT + read + write), [""; 0]);
    for touch in [read, write] {
        assert_eq!(findings(|f| product(f) + COMMIT + touch + WAIT), ["warning: missing_wait"]);
        assert_eq!(findings(|f| product(f) + touch + COMMIT + WAIT), ["warning: missing_wait"]);
    }
    let guarded = "setp.eq.u32 %more, %tid, 200;\n@%more mov.b32 d3, 0;\n";
    assert_eq!(findings(|f| product(f) + COMMIT + guarded + WAIT), [""; 0], "no lane touches it");
    let one_stays = "wgmma.wait_group.sync.aligned 1;\n";
    assert_eq!(findings(|f| product(f) + COMMIT + one_stays + read + WAIT), ["warning: missing_wait"]);
    assert_eq!(findings(|f| product(f) + COMMIT), ["warning: missing_wait"]);
    assert_eq!(findings(product), ["warning: missing_wait"]);
}

#[test]
fn a_missing_fence_is_found() {
    let write = "mov.b32 d3, 0;\n";
    let read = "mov.b32 %word, d3;\n";
    let rest = |f: &Form| f.line() + COMMIT + WAIT;
    assert_eq!(findings(|f| rest(f)), ["error: invalid_sync"]);
    assert_eq!(findings(|f| FENCE.to_owned() + &rest(f) + &rest(f)), [""; 0], "of one shape");
    assert_eq!(findings(|f| FENCE.to_owned() + &rest(f) + write + &rest(f)), ["error: invalid_sync"]);
    assert_eq!(findings(|f| FENCE.to_owned() + &rest(f) + read + &rest(f)), ["warning: invalid_sync"]);
    assert_eq!(findings(|f| FENCE.to_owned() + &rest(f) + write + FENCE + &rest(f)), [""; 0]);
    let wider = |f: &Form| {
        let accumulators = "{d0, d1, d2, d3, e0, e1, e2, e3}";
        f.line().replace("m64n8", "m64n16").replace("{d0, d1, d2, d3}", accumulators)
    };
    let more = "mov.b32 e0, 0;\nmov.b32 e1, 0;\nmov.b32 e2, 0;\nmov.b32 e3, 0;\n";
    let two = |f: &Form, between: &str| {
        let first = format!(".reg .b32 e<4>;\nsub.u64 %db, %da, 0;\n{more}{FENCE}");
        first + &f.line() + between + &wider(f) + COMMIT + WAIT
    };
    assert_eq!(findings(|f| two(f, "")), ["error: invalid_sync"], "of two shapes");
    assert_eq!(findings(|f| two(f, FENCE)), [""; 0]);
}

#[test]
fn a_warpgroup_that_does_not_act_together_is_found() {
    let product = |f: &Form| FENCE.to_owned() + &f.line() + COMMIT + WAIT;
    let one_warp = "setp.ge.u32 %more, %tid, 32;\n@%more bra $end;\n";
    assert_eq!(findings(|f| one_warp.to_owned() + &product(f) + "$end:\n"), ["error: invalid_sync"]);
    let own = "shr.u32 %at, %tid, 5;\nshl.b32 %at, %at, 3;\ncvt.u64.u32 %offset, %at;\nadd.u64 %db, %db, %offset;\n";
    let found = findings(|f| own.replace("%db, %db", "%da, %da") + &product(f));
    assert!(found.contains(&"error: invalid_sync".to_owned()), "{found:?}");
    let two_ways = |f: &Form| {
        let way = product(f);
        format!("setp.ge.u32 %more, %tid, 64;\n@%more bra $other;\n{way}bra $end;\n$other:\n{way}$end:\n")
    };
    assert_eq!(findings(two_ways), ["error: invalid_sync"]);
    let (form, mut proof) = ones();
    proof.warps = 3;
    proof.inputs.iter_mut().for_each(|register| register.values.truncate(96));
    proof.lines = form.prologue() + &product(&form);
    let report = proof.try_run(Checks::All).expect("it runs").report;
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::InvalidSync), "three warps are no warpgroup");
}

#[test]
fn a_number_that_is_no_descriptor_is_found() {
    let product = |f: &Form| FENCE.to_owned() + &f.line() + COMMIT + WAIT;
    assert_eq!(findings(|f| "or.b64 %da, %da, 0x8000;\n".to_owned() + &product(f)), ["error: misaligned"]);
    let by_lane = "cvt.u64.u32 %offset, %tid;\nand.b64 %offset, %offset, 1;\nadd.u64 %da, %da, %offset;\n";
    let found = findings(|f| by_lane.to_owned() + &product(f));
    assert!(found.contains(&"error: invalid_sync".to_owned()), "{found:?}");
}

#[test]
fn misuse_of_operands_in_shared_memory_is_found() {
    let product = |f: &Form| FENCE.to_owned() + &f.line();
    let store = "mov.b32 %word, 0x3f803f80;\nst.shared.b32 [%tile], %word;\n";
    let order = "fence.proxy.async;\nbar.sync 0;\n";
    let one = "setp.ne.u32 %more, %tid, 0;\n@%more bra $stored;\n".to_owned() + store + "$stored:\n";
    let after = |between: &str| findings(|f| one.clone() + between + &product(f) + COMMIT + WAIT);
    assert_eq!(after(order), [""; 0]);
    assert_eq!(after("bar.sync 0;\n"), ["error: missing_proxy_fence"]);
    let found = after("");
    assert!(
        found.iter().any(|f| f == "error: race") || found.iter().any(|f| f == "error: missing_proxy_fence"),
        "{found:?}"
    );
    let early = findings(|f| product(f) + COMMIT + "bar.sync 0;\n" + &one + WAIT);
    assert!(early.contains(&"error: missing_wait".to_owned()), "{early:?}");
    assert_eq!(findings(|f| product(f) + COMMIT + WAIT + "bar.sync 0;\n" + &one), [""; 0]);
    let beyond = findings(|f| format!("add.u64 %db, %db, {};\n", 1024 >> 4) + &product(f) + COMMIT + WAIT);
    assert!(beyond.contains(&"error: out_of_bounds".to_owned()), "{beyond:?}");
}
