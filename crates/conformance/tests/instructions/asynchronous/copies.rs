//! `cp.async` and its groups.

use warpfold_sim::{FindingKind, Options, Severity};

use crate::instructions::asynchronous::harness::{Proof, bytes, checked};

/// Each of 64 threads copies `size` bytes, with whatever follows the size, and stores 16 bytes of
/// shared memory.
fn copy_body(mnemonic: &str, size: u32, tail: &str, setup: &str) -> String {
    format!(
        ".shared .align 16 .b8 tile[1024];\n.reg .b32 %to, %zero, %v<4>, %n;\n.reg .b64 %from, %place, %policy;\n.reg .pred %p;\n\
         mov.u32 %to, tile;\nmad.lo.u32 %to, %t, 16, %to;\nmov.u32 %zero, 0xeeeeeeee;\n\
         st.shared.v4.u32 [%to], {{%zero, %zero, %zero, %zero}};\n\
         mad.wide.u32 %from, %t, 16, %in;\n{setup}\n\
         {mnemonic} [%to], [%from], {size}{tail};\n\
         cp.async.commit_group;\ncp.async.wait_group 0;\n\
         ld.shared.v4.u32 {{%v0, %v1, %v2, %v3}}, [%to];\n\
         mad.wide.u32 %place, %t, 16, %out;\nst.global.v4.u32 [%place], {{%v0, %v1, %v2, %v3}};"
    )
}

/// What the threads should store if thread `t` copies `size` bytes of which it reads `read(t)`.
fn expected(input: &[u8], size: usize, read: impl Fn(usize) -> usize) -> Vec<u8> {
    let element = |t: usize| {
        (0..16).map(move |b| (t, b)).map(|(t, b)| match b {
            b if b >= size => 0xee,
            b if b < read(t) => input[t * 16 + b],
            _ => 0,
        })
    };
    (0..64).flat_map(element).collect()
}

#[test]
fn copies_of_every_size_move_their_bytes_and_no_more() {
    let input = bytes(1024, 1);
    for (mnemonic, size) in [
        ("cp.async.ca.shared.global", 4),
        ("cp.async.ca.shared::cta.global", 8),
        ("cp.async.ca.shared.global.L2::64B", 16),
        ("cp.async.cg.shared.global", 16),
        ("cp.async.cg.shared.global.L2::128B", 16),
        ("cp.async.cg.shared::cta.global.L2::256B", 16),
    ] {
        let body = copy_body(mnemonic, size, "", "");
        let proof = Proof { body: &body, threads: 64, input: &input, output_bytes: 1024 };
        assert_eq!(proof.output(), expected(&input, size as usize, |_| size as usize), "{mnemonic} {size}");
    }
    let setup = "createpolicy.fractional.L2::evict_last.b64 %policy, 0.25;";
    let body = copy_body("cp.async.cg.shared.global.L2::cache_hint", 16, ", %policy", setup);
    let proof = Proof { body: &body, threads: 64, input: &input, output_bytes: 1024 };
    assert_eq!(proof.output(), expected(&input, 16, |_| 16));
}

#[test]
fn what_is_not_read_is_zero() {
    let input = bytes(1024, 2);
    for size in [4, 8, 16] {
        let setup = format!("rem.u32 %n, %t, {};", size + 1);
        let body = copy_body("cp.async.ca.shared.global", size, ", %n", &setup);
        let proof = Proof { body: &body, threads: 64, input: &input, output_bytes: 1024 };
        assert_eq!(proof.output(), expected(&input, size as usize, |t| t % (size as usize + 1)), "{size}");

        let body = copy_body("cp.async.ca.shared.global", size, ", %p", "and.b32 %n, %t, 1;\nsetp.eq.u32 %p, %n, 0;");
        let proof = Proof { body: &body, threads: 64, input: &input, output_bytes: 1024 };
        assert_eq!(proof.output(), expected(&input, size as usize, |t| if t % 2 == 0 { 0 } else { size as usize }));
    }
}

#[test]
fn a_source_that_is_ignored_may_lie_anywhere() {
    let input = bytes(1024, 3);
    for (setup, tail) in
        [("mov.u64 %from, 16;\nmov.u32 %n, 0;", ", %n"), ("mov.u64 %from, 16;\nsetp.eq.u32 %p, 0, 0;", ", %p")]
    {
        let body = copy_body("cp.async.cg.shared.global", 16, tail, setup);
        let proof = Proof { body: &body, threads: 64, input: &input, output_bytes: 1024 };
        assert_eq!(proof.output(), vec![0; 1024]);
        let (_, report) = proof.run(&checked()).unwrap();
        assert_eq!(report.counters.global_load_sectors, 0);
    }
}

#[test]
fn sectors_and_wavefronts_are_those_of_loads_and_stores_of_the_same_width() {
    let input = bytes(1024, 4);
    for (size, sectors, wavefronts) in [(4, 32, 4), (8, 32, 4), (16, 32, 4)] {
        let body = copy_body("cp.async.ca.shared.global", size, "", "");
        let proof = Proof { body: &body, threads: 64, input: &input, output_bytes: 1024 };
        let (_, report) = proof.run(&Options { workers: Some(1), ..Options::default() }).unwrap();
        let c = report.counters;
        assert_eq!(c.global_load_sectors, sectors, "{size}");
        assert_eq!((c.global_load_requests, c.global_load_bytes), (2, 64 * u64::from(size)));
        // The other stores are the 16-byte fills in front, four wavefronts for each of two warps.
        assert_eq!(c.shared_store_wavefronts - 8, 2 * wavefronts, "{size}");
    }
}

/// Three groups of one word; then a wait that leaves `keep` groups, and a look at all three words.
fn groups_body(keep: u32) -> String {
    let mut body = String::from(
        ".shared .align 16 .b8 tile[384];\n.reg .b32 %to, %v<3>;\n.reg .b64 %from, %place;\n\
         mov.u32 %to, tile;\nmad.lo.u32 %to, %t, 4, %to;\nmad.wide.u32 %from, %t, 4, %in;\n\
         st.shared.u32 [%to], 7;\nst.shared.u32 [%to+128], 7;\nst.shared.u32 [%to+256], 7;\n",
    );
    for n in 0..3 {
        let at = n * 128;
        body += &format!("cp.async.ca.shared.global [%to+{at}], [%from+{at}], 4;\ncp.async.commit_group;\n");
    }
    body += &format!("cp.async.wait_group {keep};\nmad.wide.u32 %place, %t, 4, %out;\n");
    for n in 0..3 {
        let at = n * 128;
        body += &format!("ld.shared.u32 %v{n}, [%to+{at}];\nst.global.u32 [%place+{at}], %v{n};\n");
    }
    body
}

#[test]
fn a_wait_lands_the_groups_that_it_covers_and_no_others() {
    let input = bytes(384, 5);
    for keep in 0..4 {
        let body = groups_body(keep);
        let proof = Proof { body: &body, threads: 32, input: &input, output_bytes: 384 };
        let (output, report) = proof.run(&checked()).unwrap();
        let landed = 3 - keep.min(3) as usize;
        assert_eq!(output[..landed * 128], input[..landed * 128], "wait_group {keep}");
        assert!(output[landed * 128..].chunks(4).all(|word| word == [7, 0, 0, 0]), "wait_group {keep}");
        let early = report.findings.iter().filter(|f| f.severity == Severity::Error).count();
        assert_eq!(early, 3 - landed, "one finding for each word read too early: {:?}", report.findings);
        assert!(report.findings.iter().all(|f| f.kind == FindingKind::MissingWait));
    }
}

#[test]
fn wait_all_covers_what_was_not_committed() {
    let input = bytes(128, 6);
    let body = ".shared .align 16 .b8 tile[128];\n.reg .b32 %to, %v;\n.reg .b64 %from, %place;\n\
         mov.u32 %to, tile;\nmad.lo.u32 %to, %t, 4, %to;\nmad.wide.u32 %from, %t, 4, %in;\n\
         cp.async.ca.shared.global [%to], [%from], 4;\ncp.async.wait_all;\n\
         ld.shared.u32 %v, [%to];\nmad.wide.u32 %place, %t, 4, %out;\nst.global.u32 [%place], %v;";
    let proof = Proof { body, threads: 32, input: &input, output_bytes: 128 };
    assert_eq!(proof.output(), input);
    // Without the commit, a wait for groups covers nothing.
    let uncommitted = body.replace("cp.async.wait_all", "cp.async.wait_group 0");
    let proof = Proof { body: &uncommitted, ..proof };
    let (output, report) = proof.run(&checked()).unwrap();
    assert_ne!(output, input);
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::MissingWait && f.severity == Severity::Error));
    assert!(report.findings.iter().any(|f| f.rule.contains("without a commit")), "{:?}", report.findings);
}

#[test]
fn lanes_count_their_own_groups() {
    // Odd lanes commit once more, in front, so that one group of theirs is empty.
    let input = bytes(256, 7);
    let body = ".shared .align 16 .b8 tile[256];\n.reg .b32 %to, %v, %n;\n.reg .b64 %from, %place;\n.reg .pred %odd;\n\
         mov.u32 %to, tile;\nmad.lo.u32 %to, %t, 4, %to;\nmad.wide.u32 %from, %t, 4, %in;\n\
         and.b32 %n, %t, 1;\nsetp.eq.u32 %odd, %n, 1;\n\
         cp.async.ca.shared.global [%to], [%from], 4;\n@!%odd cp.async.commit_group;\n\
         cp.async.ca.shared.global [%to+128], [%from+128], 4;\ncp.async.commit_group;\n\
         cp.async.wait_group 1;\n\
         ld.shared.u32 %v, [%to];\nmad.wide.u32 %place, %t, 4, %out;\nst.global.u32 [%place], %v;\ncp.async.wait_all;";
    let proof = Proof { body, threads: 32, input: &input, output_bytes: 128 };
    let (_, report) = proof.run(&checked()).unwrap();
    let early: Vec<_> = report.findings.iter().filter(|f| f.severity == Severity::Error).collect();
    // The even lanes' first groups are covered; the odd lanes have one group, which the wait
    // leaves.
    assert_eq!(early.len(), 1, "{:?}", report.findings);
    assert_eq!(early[0].access.thread[0] % 2, 1);
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    for line in [
        "cp.async.cg.shared.global [%to], [%in], 8;",
        "cp.async.ca.shared.global [%to], [%in], 12;",
        "cp.async.ca.global.shared [%in], [%to], 4;",
        "cp.async.ca.shared.global.L3::64B [%to], [%in], 4;",
        "cp.async.ca.cg.shared.global [%to], [%in], 16;",
        "cp.async.wait_group -1;",
    ] {
        let body = format!(".reg .b32 %to;\nmov.u32 %to, 0;\n{line}");
        let proof = Proof { body: &body, threads: 32, input: &[0; 16], output_bytes: 16 };
        assert!(proof.run(&checked()).is_err(), "accepted: {line}");
    }
}
