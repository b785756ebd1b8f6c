//! Seeds: other orders in which copies land.

use warpfold_sim::{Checks, FindingKind, Options};

use crate::instructions::asynchronous::harness::{Proof, bytes};

/// Two bulk loads towards one barrier, two copies by threads, a store; thread 0 looks at the words
/// early if it is told so.
fn body(early: &str) -> String {
    format!(
        ".shared .align 128 .b8 tile[1024];\n.shared .align 8 .b64 bar;\n.reg .b64 %place, %from;\n.reg .b32 %a, %v, %n;\n\
         .reg .pred %p, %first;\nsetp.eq.u32 %first, %t, 0;\nmad.wide.u32 %place, %t, 4, %out;\nmad.wide.u32 %from, %t, 4, %in;\n\
         mov.u32 %a, tile;\nmad.lo.u32 %n, %t, 4, %a;\n\
         @%first mbarrier.init.shared.b64 [bar], 1;\n\
         st.shared.u32 [%n], 1;\nst.shared.u32 [%n+128], 1;\nst.shared.u32 [%n+256], 1;\nfence.proxy.async;\nbar.sync 0;\n\
         @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n\
         @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 128, [bar];\n\
         @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+128], [%in+128], 128, [bar];\n\
         cp.async.ca.shared.global [%n+256], [%from+256], 4;\n\
         {early}\n\
         cp.async.wait_all;\nW: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W;\n\
         ld.shared.u32 %v, [%n];\nst.global.u32 [%place], %v;\nld.shared.u32 %v, [%n+128];\nst.global.u32 [%place+128], %v;\n\
         ld.shared.u32 %v, [%n+256];\nst.global.u32 [%place+256], %v;"
    )
}

const LOOK: &str = "ld.shared.u32 %v, [%n];\nst.global.u32 [%place+384], %v;\nld.shared.u32 %v, [%n+128];\nst.global.u32 [%place+512], %v;\n\
    ld.shared.u32 %v, [%n+256];\nst.global.u32 [%place+640], %v;";

fn run(body: &str, seed: u64) -> (Vec<u8>, bool) {
    let input = bytes(384, 11);
    let proof = Proof { body, threads: 32, input: &input, output_bytes: 768 };
    let options = Options { checks: Checks::All, workers: Some(1), seed, ..Options::default() };
    let (output, report) = proof.run(&options).unwrap();
    let only_waits = report.findings.iter().all(|f| f.kind == FindingKind::MissingWait);
    assert!(only_waits, "{:#?}", report.findings);
    (output, report.findings.is_empty())
}

#[test]
fn a_kernel_that_waits_gives_the_same_for_every_seed() {
    let body = body("");
    for seed in 0..20 {
        let (output, is_clean) = run(&body, seed);
        assert!(is_clean);
        assert_eq!(output[..384], bytes(384, 11), "seed {seed}");
    }
}

#[test]
fn a_kernel_that_does_not_wait_sees_what_the_seed_draws() {
    let body = body(LOOK);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let (output, is_clean) = run(&body, seed);
        assert!(!is_clean);
        assert_eq!(output, run(&body, seed).0, "seed {seed} gives the same twice");
        let old = |at: usize| output[at..at + 4] == [1, 0, 0, 0];
        seen.insert([old(384), old(512), old(640)]);
    }
    // As late as possible nothing has landed; other seeds land the one or the other early.
    let (latest, _) = run(&body, 0);
    assert!([384, 512, 640].into_iter().all(|at| latest[at..at + 4] == [1, 0, 0, 0]));
    assert!(seen.len() >= 5, "{seen:?}");
}
