//! `mbarrier`: phases, counts, states, and what is against its rules.

use warpfold_sim::{FindingKind, Report};

use crate::instructions::asynchronous::harness::{Proof, checked};

/// A barrier for `expected` arrivals, made by thread 0, then `body`.
fn around(expected: u32, body: &str) -> String {
    format!(
        ".shared .align 8 .b64 bar;\n.reg .b64 %state, %other, %place;\n.reg .b32 %a, %v, %n;\n.reg .pred %p, %first, %q;\n\
         mov.u32 %a, bar;\nsetp.eq.u32 %first, %t, 0;\nmad.wide.u32 %place, %t, 4, %out;\n\
         @%first mbarrier.init.shared.b64 [bar], {expected};\nbar.sync 0;\n{body}"
    )
}

#[track_caller]
fn words(threads: u32, body: &str) -> Vec<u32> {
    let proof = Proof { body, threads, input: &[0; 16], output_bytes: threads as usize * 4 };
    proof.output().chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
}

#[track_caller]
fn report(threads: u32, body: &str) -> Report {
    Proof { body, threads, input: &[0; 64], output_bytes: 1024 }.run(&checked()).unwrap().1
}

#[test]
fn a_phase_is_complete_when_all_have_arrived() {
    // Each thread stores, arrives, waits, and loads what its neighbour in the other warp stored.
    let exchange = |wait: &str| {
        around(
            64,
            &format!(
                ".shared .align 4 .b8 tile[256];\nmov.u32 %v, tile;\nmad.lo.u32 %n, %t, 4, %v;\nst.shared.u32 [%n], %t;\n\
                 mbarrier.arrive.shared.b64 %state, [bar];\nLOOP:\n{wait}\n@!%p bra LOOP;\n\
                 xor.b32 %n, %t, 32;\nmad.lo.u32 %n, %n, 4, %v;\nld.shared.u32 %v, [%n];\nst.global.u32 [%place], %v;"
            ),
        )
    };
    let expected: Vec<u32> = (0..64).map(|t| t ^ 32).collect();
    for wait in [
        "mbarrier.try_wait.shared.b64 %p, [bar], %state;",
        "mbarrier.test_wait.shared::cta.b64 %p, [%a], %state;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;",
        "mbarrier.test_wait.parity.acquire.cta.shared.b64 %p, [bar], 0;",
        "mbarrier.try_wait.parity.shared.b64 %p, [bar], 0, 100;",
    ] {
        assert_eq!(words(64, &exchange(wait)), expected, "{wait}");
    }
}

#[test]
fn phases_follow_one_another_with_changing_parity() {
    // A fresh barrier has completed the phase of parity 1 and not that of parity 0.
    let body = around(
        32,
        "mbarrier.test_wait.parity.shared.b64 %p, [bar], 1;\nmbarrier.test_wait.parity.shared.b64 %q, [bar], 0;\n\
         selp.u32 %v, 1, 0, %p;\n@%q or.b32 %v, %v, 2;\nbar.sync 0;\n\
         mbarrier.arrive.shared.b64 _, [bar];\n\
         W0: mbarrier.test_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W0;\nor.b32 %v, %v, 4;\nbar.sync 0;\n\
         mbarrier.test_wait.parity.shared.b64 %p, [bar], 1;\n@%p or.b32 %v, %v, 8;\nbar.sync 0;\n\
         mbarrier.arrive.shared.b64 _, [bar];\n\
         W1: mbarrier.test_wait.parity.shared.b64 %p, [bar], 1;\n@!%p bra W1;\nor.b32 %v, %v, 16;\nst.global.u32 [%place], %v;",
    );
    assert_eq!(words(32, &body), vec![1 | 4 | 16; 32]);
}

#[test]
fn counts_and_drops_are_taken_off() {
    // 40 arrivals: 8 by thread 0 at once, one by each other thread but the last, which drops out
    // with 1.
    let body = around(
        39,
        "setp.eq.u32 %q, %t, 31;\n@%first mbarrier.arrive.shared.b64 _, [bar], 8;\n\
         @%q mbarrier.arrive_drop.shared.b64 _, [bar];\nor.pred %q, %first, %q;\n@!%q mbarrier.arrive.shared.b64 _, [bar];\n\
         W0: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W0;\nbar.sync 0;\n\
         @%first mbarrier.arrive.noComplete.shared.b64 %state, [bar], 5;\nmov.u32 %v, 0;\n\
         @%first mbarrier.pending_count.b64 %v, %state;\nst.global.u32 [%place], %v;\nbar.sync 0;\n\
         @%first mbarrier.arrive.noComplete.shared.b64 %other, [bar], 32;\n@%first mbarrier.pending_count.b64 %n, %other;\n\
         @%first add.u32 %v, %v, %n;\n@%first mbarrier.arrive.shared.b64 _, [bar];\n\
         W1: mbarrier.try_wait.parity.shared.b64 %p, [bar], 1;\n@!%p bra W1;\nst.global.u32 [%place], %v;",
    );
    let found = words(32, &body);
    // One arrival fewer is expected in the second phase: 38 before the first look, 33 before the
    // second.
    assert_eq!(found[0], 38 + 33);
    assert_eq!(found[1..], [0; 31]);
}

#[test]
fn bytes_are_expected_and_completed() {
    let body = around(
        1,
        "mov.u32 %v, 0;\n@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 48;\nbar.sync 0;\n\
         mbarrier.test_wait.parity.shared.b64 %p, [bar], 0;\n@%p or.b32 %v, %v, 1;\nbar.sync 0;\n\
         @%first mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [bar], 32;\nbar.sync 0;\n\
         mbarrier.test_wait.parity.shared.b64 %p, [bar], 0;\n@%p or.b32 %v, %v, 2;\nbar.sync 0;\n\
         @%first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n\
         @%first mbarrier.complete_tx.relaxed.cta.shared::cluster.b64 [bar], 32;\nbar.sync 0;\n\
         mbarrier.test_wait.parity.shared.b64 %p, [bar], 0;\n@%p or.b32 %v, %v, 4;\nst.global.u32 [%place], %v;",
    );
    assert_eq!(words(32, &body), vec![4; 32]);
}

#[test]
fn generic_addresses_reach_a_barrier() {
    let body = around(
        32,
        ".reg .b64 %g;\nmov.u64 %g, bar;\ncvta.shared.u64 %g, %g;\nmbarrier.arrive.b64 %state, [%g];\n\
         W0: mbarrier.try_wait.b64 %p, [%g], %state;\n@!%p bra W0;\nst.global.u32 [%place], %t;",
    );
    assert_eq!(words(32, &body), (0..32).collect::<Vec<_>>());
}

#[test]
fn copies_by_threads_arrive_when_they_have_landed() {
    for (noinc, expected) in [("", 32), (".noinc", 64)] {
        let body = around(
            expected,
            &format!(
                ".shared .align 4 .b8 tile[128];\n.reg .b64 %from;\nmov.u32 %n, tile;\nmad.lo.u32 %n, %t, 4, %n;\n\
                 mad.wide.u32 %from, %t, 4, %in;\ncp.async.ca.shared.global [%n], [%from], 4;\n\
                 cp.async.mbarrier.arrive{noinc}.shared.b64 [bar];\nmbarrier.arrive.shared.b64 _, [bar];\n\
                 W0: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W0;\n\
                 mov.u32 %v, tile;\nsub.u32 %n, 31, %t;\nmad.lo.u32 %n, %n, 4, %v;\nld.shared.u32 %v, [%n];\nst.global.u32 [%place], %v;"
            ),
        );
        let input: Vec<u8> = (100..132u32).flat_map(u32::to_le_bytes).collect();
        let proof = Proof { body: &body, threads: 32, input: &input, output_bytes: 128 };
        let expected: Vec<u8> = (100..132u32).rev().flat_map(u32::to_le_bytes).collect();
        assert_eq!(proof.output(), expected, "{noinc}");
    }
}

/// The one error of a run, which is of this kind and whose rule has this text.
#[track_caller]
fn refused(threads: u32, body: &str, kind: FindingKind, text: &str) {
    let report = report(threads, body);
    let found = report.findings.iter().any(|f| f.kind == kind && f.rule.contains(text));
    assert!(found, "expected {kind:?} '{text}', found {:#?}\n{body}", report.findings);
}

#[test]
fn misuse_is_found() {
    use FindingKind::{Deadlock, InvalidSync, Misaligned, OutOfBounds};
    let bare =
        |body: &str| format!(".shared .align 8 .b64 bar;\n.reg .b64 %state;\n.reg .b32 %v;\n.reg .pred %p;\n{body}");
    let uninitialised = bare("mbarrier.arrive.shared.b64 _, [bar];");
    refused(1, &uninitialised, InvalidSync, "not initialised");
    refused(1, &bare("mbarrier.test_wait.parity.shared.b64 %p, [bar], 0;"), InvalidSync, "not initialised");
    refused(1, &bare("mbarrier.init.shared.b64 [bar], 0;"), InvalidSync, "0 arrivals");
    refused(1, &bare("mbarrier.init.shared.b64 [bar], 1048576;"), InvalidSync, "1048576 arrivals");
    refused(1, &bare("mbarrier.init.shared.b64 [bar+4], 1;"), Misaligned, "8 bytes");
    refused(1, &bare("mbarrier.init.shared.b64 [bar+4096], 1;"), OutOfBounds, "outside shared memory");
    let after =
        "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.inval.shared.b64 [bar];\nmbarrier.arrive.shared.b64 _, [bar];";
    refused(1, &bare(after), InvalidSync, "not valid any more");
    let twice = "mbarrier.init.shared.b64 [bar], 2;\nmbarrier.arrive.shared.b64 _, [bar], 3;";
    refused(1, &bare(twice), InvalidSync, "3 arrival(s) in a phase that waits for 2");
    let completes = "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.noComplete.shared.b64 _, [bar], 1;";
    refused(1, &bare(completes), InvalidSync, ".noComplete completes");
    let overflow = "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048576;";
    refused(1, &bare(overflow), InvalidSync, "tx-count of 1048576");
    refused(1, &around(1, "mbarrier.test_wait.parity.shared.b64 %p, [bar], 2;"), InvalidSync, "0 or 1, not 2");
    refused(1, &around(1, "ld.shared.u32 %v, [bar+4];"), InvalidSync, "other means");
    refused(1, &around(1, "mbarrier.init.shared.b64 [bar], 2;"), InvalidSync, "other means");
    let never = "W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W;";
    refused(
        32,
        &around(3, &format!("@%first mbarrier.arrive.shared.b64 _, [bar];\n{never}")),
        Deadlock,
        "2 of 3 arrivals",
    );
    let short = "@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n";
    refused(32, &around(1, &format!("{short}{never}")), Deadlock, "tx-count 64");
}

#[test]
fn a_barrier_without_a_sync_behind_its_init_is_a_race() {
    let body = ".shared .align 8 .b64 bar;\n.reg .pred %p, %first;\nsetp.eq.u32 %first, %t, 0;\n\
        @%first mbarrier.init.shared.b64 [bar], 64;\nmbarrier.arrive.shared.b64 _, [bar];";
    let report = report(64, body);
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::Race), "{:?}", report.findings);
}

#[test]
fn relaxed_arrivals_order_nothing() {
    let body = |sem: &str| {
        around(
            64,
            &format!(
                ".shared .align 4 .b8 tile[256];\nmov.u32 %v, tile;\nmad.lo.u32 %n, %t, 4, %v;\nst.shared.u32 [%n], %t;\n\
                 mbarrier.arrive.{sem}.cta.shared.b64 %state, [bar];\nL: mbarrier.try_wait.shared.b64 %p, [bar], %state;\n@!%p bra L;\n\
                 xor.b32 %n, %t, 32;\nmad.lo.u32 %n, %n, 4, %v;\nld.shared.u32 %v, [%n];\nst.global.u32 [%place], %v;"
            ),
        )
    };
    assert!(report(64, &body("release")).findings.is_empty());
    assert!(report(64, &body("relaxed")).findings.iter().any(|f| f.kind == FindingKind::Race));
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    for line in [
        "mbarrier.arrive.shared::cluster.b64 %state, [bar];",
        "mbarrier.arrive.shared.b32 _, [bar];",
        "mbarrier.arrive.expect_tx.noComplete.shared.b64 _, [bar], 1;",
        "mbarrier.arrive.noComplete.shared.b64 %state, [bar];",
        "mbarrier.test_wait.shared.b64 %p, [bar], %state, 1;",
        "mbarrier.test_wait.shared::cluster.b64 %p, [bar], %state;",
        "mbarrier.init.shared.b64 [bar];",
        "mbarrier.leave.shared.b64 [bar];",
        "mbarrier.arrive.release.shared.b64 _, [bar];",
        "mbarrier.arrive.cta.shared.b64 _, [bar];",
        "mbarrier.arrive.noComplete.relaxed.cta.shared.b64 _, [bar], 1;",
        "mbarrier.expect_tx.relaxed.shared.b64 [bar], 16;",
        "mbarrier.try_wait.acquire.shared.b64 %p, [bar], %state;",
    ] {
        let body = format!(".shared .align 8 .b64 bar;\n.reg .b64 %state;\n.reg .pred %p;\n{line}");
        let proof = Proof { body: &body, threads: 32, input: &[0; 16], output_bytes: 16 };
        assert!(proof.run(&checked()).is_err(), "accepted: {line}");
    }
}
