//! `cp.async.bulk`, its groups and barriers, and proxy fences.

use warpfold_sim::{FindingKind, Options, Report, Severity};

use crate::instructions::asynchronous::harness::{Proof, bytes, checked};

/// Thread 0 makes a barrier for one arrival; then `body`.
fn with_barrier(body: &str) -> String {
    format!(
        ".shared .align 128 .b8 tile[1024];\n.shared .align 8 .b64 bar;\n\
         .reg .b64 %place, %from;\n.reg .b32 %a, %v, %n;\n.reg .pred %p, %first;\n\
         setp.eq.u32 %first, %t, 0;\nmad.wide.u32 %place, %t, 4, %out;\nmov.u32 %a, tile;\nmad.lo.u32 %n, %t, 4, %a;\n\
         @%first mbarrier.init.shared.b64 [bar], 1;\n@%first fence.mbarrier_init.release.cluster;\nbar.sync 0;\n{body}"
    )
}

const WAIT: &str = "L: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra L;\n";
const SHOW: &str = "ld.shared.u32 %v, [%n];\nst.global.u32 [%place], %v;\n";

#[test]
fn a_load_lands_when_its_barrier_has_all_its_bytes() {
    let input = bytes(512, 1);
    for space in ["shared::cluster", "shared::cta"] {
        let load = format!(
            "@%first cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes [tile], [%in], 256, [bar];\n\
             @%first cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile+256], [%in+256], 256, [bar], %from;\n"
        );
        for body in [
            format!("@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n{load}{WAIT}{SHOW}"),
            format!("{load}@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n{WAIT}{SHOW}"),
        ] {
            let body = with_barrier(&body);
            let proof = Proof { body: &body, threads: 128, input: &input, output_bytes: 512 };
            assert_eq!(proof.output(), input);
            let (_, report) = proof.run(&Options { workers: Some(1), ..Options::default() }).unwrap();
            let c = report.counters;
            assert_eq!((c.global_load_requests, c.global_load_sectors, c.global_load_bytes), (2, 16, 512));
        }
    }
}

#[test]
fn a_store_writes_at_the_wait_for_its_group() {
    let body = with_barrier(
        "st.shared.u32 [%n], %t;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n\
         @!%first bra END;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 512;\ncp.async.bulk.commit_group;\n\
         cp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;\nEND:",
    );
    let proof = Proof { body: &body, threads: 128, input: &[0; 16], output_bytes: 512 };
    assert_eq!(proof.output(), (0..128u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
    let (_, report) = proof.run(&Options { workers: Some(1), ..Options::default() }).unwrap();
    assert_eq!((report.counters.global_store_sectors, report.counters.global_store_bytes), (16, 512));
}

#[track_caller]
fn report(body: &str) -> Report {
    let input = bytes(1024, 3);
    Proof { body: &with_barrier(body), threads: 128, input: &input, output_bytes: 1024 }.run(&checked()).unwrap().1
}

#[track_caller]
fn check(body: &str, kind: FindingKind, severity: Severity, text: &str) {
    let report = report(body);
    let matches = |f: &&warpfold_sim::Finding| f.kind == kind && f.severity == severity && f.rule.contains(text);
    assert!(report.findings.iter().any(|f| matches(&f)), "expected {kind:?} '{text}': {:#?}\n{body}", report.findings);
}

const LOAD: &str = "@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n\
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 512, [bar];\n";

#[test]
fn threads_that_have_not_waited_must_not_touch_the_bytes() {
    use FindingKind::MissingWait;
    assert!(report(&format!("{LOAD}{WAIT}{SHOW}")).findings.is_empty());
    check(&format!("{LOAD}bar.sync 0;\n{SHOW}{WAIT}"), MissingWait, Severity::Error, "still writing");
    check(&format!("{LOAD}bar.sync 0;\nst.shared.u32 [%n], 0;\n{WAIT}"), MissingWait, Severity::Error, "still writing");
    // Only the first warp waits; the others read what has landed, and do not know it.
    let some = format!("setp.ge.u32 %p, %t, 32;\n{LOAD}@%p bra READ;\n{WAIT}READ:\n{SHOW}");
    check(&some, MissingWait, Severity::Error, "still writing");
    // A barrier behind the wait tells them.
    let told = format!("setp.ge.u32 %p, %t, 32;\n{LOAD}@%p bra READ;\n{WAIT}READ:\nbar.sync 0;\n{SHOW}");
    assert!(report(&told).findings.is_empty());
    check(LOAD, MissingWait, Severity::Error, "has landed");
}

const FILL: &str = "st.shared.u32 [%n], %t;\n";
const STORE: &str = "@%first cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 512;\n";
const COMMIT: &str = "@%first cp.async.bulk.commit_group;\n";
const FENCE: &str = "fence.proxy.async.shared::cta;\n";
const DONE: &str = "@%first cp.async.bulk.wait_group 0;\n";

#[test]
fn what_a_store_reads_must_be_fenced_ordered_and_left_alone() {
    use FindingKind::{MissingProxyFence, MissingWait, Race};
    use Severity::{Error, Warning};
    let clean = |body: String| assert!(report(&body).findings.is_empty(), "{:#?}", report(&body).findings);
    clean(format!("{FILL}{FENCE}bar.sync 0;\n{STORE}{COMMIT}{DONE}"));
    // The thread that begins the copy may make the fence, too.
    clean(format!("{FILL}bar.sync 0;\n{FENCE}{STORE}{COMMIT}{DONE}"));
    clean(format!(
        "{FILL}{FENCE}bar.sync 0;\n{STORE}{COMMIT}@%first cp.async.bulk.wait_group.read 0;\nbar.sync 0;\n{FILL}"
    ));
    check(
        &format!("{FILL}bar.sync 0;\n{STORE}{COMMIT}{DONE}"),
        MissingProxyFence,
        Error,
        "the generic proxy has written",
    );
    check(&format!("{FILL}{FENCE}{STORE}{COMMIT}{DONE}bar.sync 0;\n"), Race, Error, "another thread reads");
    check(&format!("{FILL}{FENCE}bar.sync 0;\n{STORE}{COMMIT}"), MissingWait, Error, "exits while");
    check(&format!("{FILL}{FENCE}bar.sync 0;\n{STORE}{DONE}"), MissingWait, Error, "exits while");
    let reused = format!("{FILL}{FENCE}bar.sync 0;\n{STORE}{COMMIT}bar.sync 0;\n{FILL}{DONE}");
    check(&reused, MissingWait, Error, "still be reading");
    let unordered = format!("{FILL}{FENCE}bar.sync 0;\n{STORE}{COMMIT}{DONE}{FILL}");
    check(&unordered, Race, Error, "another thread reads");
    // What was ordinarily read may be overwritten only behind a fence.
    let over = format!("{FILL}bar.sync 0;\n{SHOW}bar.sync 0;\n{LOAD}{WAIT}");
    check(&over, MissingProxyFence, Warning, "overwrites");
    clean(format!("{FILL}bar.sync 0;\n{SHOW}{FENCE}bar.sync 0;\n{LOAD}{WAIT}"));
}

#[test]
fn a_store_reads_as_late_as_its_wait_allows() {
    let body = with_barrier(
        "st.shared.u32 [%n], 1;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n\
         @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 512;\n@%first cp.async.bulk.commit_group;\n\
         bar.sync 0;\nst.shared.u32 [%n], 2;\nbar.sync 0;\n@%first cp.async.bulk.wait_group 0;",
    );
    let proof = Proof { body: &body, threads: 128, input: &[0; 16], output_bytes: 512 };
    let (output, _) = proof.run(&checked()).unwrap();
    assert_eq!(output, [2u32; 128].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
}

#[test]
fn places_and_sizes_against_the_rules_are_found() {
    use FindingKind::{Misaligned, OutOfBounds};
    let load = |to: &str, from: &str, bytes: u32| {
        format!(
            "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{from}], {bytes}, [bar];"
        )
    };
    check(&load("tile+8", "%in", 64), Misaligned, Severity::Error, "16 bytes");
    check(&load("tile", "%in+8", 64), Misaligned, Severity::Error, "multiples of 16");
    check(&load("tile", "%in", 40), Misaligned, Severity::Error, "multiples of 16");
    check(&load("tile", "%in+1008", 32), OutOfBounds, Severity::Error, "outside every allocation");
    check(&load("tile+1024", "%in", 64), OutOfBounds, Severity::Error, "outside every shared variable");
    check(
        "@%first cp.async.bulk.global.shared::cta.bulk_group [%out+1008], [tile], 32;",
        OutOfBounds,
        Severity::Error,
        "outside",
    );
}

/// Reductions into global memory, with the reference of each.
#[test]
fn reductions_combine_element_by_element() {
    let input: Vec<u8> = [5u32, 0xffff_fff0, 7, 0x8000_0000].into_iter().flat_map(u32::to_le_bytes).collect();
    let old = 0xa5a5_a5a5u32;
    let cases: [(&str, fn(u32, u32) -> u32); 9] = [
        ("add.u32", u32::wrapping_add),
        ("min.u32", u32::min),
        ("max.u32", u32::max),
        ("min.s32", |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned()),
        ("max.s32", |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned()),
        ("and.b32", |a, b| a & b),
        ("xor.b32", |a, b| a ^ b),
        ("inc.u32", |a, b| if a >= b { 0 } else { a + 1 }),
        ("dec.u32", |a, b| if a == 0 || a > b { b } else { a - 1 }),
    ];
    for (name, reference) in cases {
        let body = with_barrier(&format!(
            "@!%first bra END;\n.reg .b32 %w<4>;\nld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%in];\nst.shared.v4.u32 [tile], {{%w0, %w1, %w2, %w3}};\n\
             fence.proxy.async.shared::cta;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%out], [tile], 16;\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:"
        ));
        let proof = Proof { body: &body, threads: 32, input: &input, output_bytes: 16 };
        let expected: Vec<u8> = input
            .chunks(4)
            .flat_map(|new| reference(old, u32::from_le_bytes(new.try_into().unwrap())).to_le_bytes())
            .collect();
        assert_eq!(proof.output(), expected, "{name}");
    }
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    for line in [
        "cp.async.bulk.shared::cluster.global.bulk_group [tile], [%in], 16;",
        "cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [%out], [tile], 16, [bar];",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%in], 16, [bar], %n;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%out], [tile], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.and.u32 [%out], [tile], 16;",
        "cp.async.bulk.tensor.2d.1d.global.shared::cta.bulk_group [%in, {%n, %n}], [tile];",
        "cp.async.bulk.wait_group -1;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [tile], 16, [bar], %in;",
    ] {
        let body = with_barrier(line);
        let proof = Proof { body: &body, threads: 32, input: &[0; 16], output_bytes: 16 };
        assert!(proof.run(&checked()).is_err(), "accepted: {line}");
    }
}
