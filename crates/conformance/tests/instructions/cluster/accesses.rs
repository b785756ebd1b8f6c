//! Addresses in the shared memory of peers, and what loads, stores, atomics and barriers make of
//! them.

use warpfold_sim::Arch;

use crate::instructions::cluster::harness::{SYNC, Sizes, launch, run, text};

const FOUR: Sizes = Sizes { grid: [8, 1, 1], block: [64, 1, 1], cluster: [4, 1, 1] };

/// Rank and thread of each number that 8 blocks of 64 threads leave in clusters of 4.
fn threads() -> impl Iterator<Item = (u32, u32)> {
    (0..8).flat_map(|block| (0..64).map(move |thread| (block % 4, thread)))
}

#[track_caller]
fn check(body: &str, expected: impl Fn(u32, u32) -> u32) {
    let values = run(&format!("mov.u32 %rank, %cluster_ctarank;\n{body}"), FOUR);
    for ((rank, thread), value) in threads().zip(values) {
        assert_eq!(value, expected(rank, thread), "rank {rank}, thread {thread}: {body}");
    }
}

#[test]
fn a_mapped_address_names_its_block_and_keeps_its_place() {
    for map in [
        "mapa.shared::cluster.u32 %r1, tile, %r0; getctarank.shared::cluster.u32 %result, %r1;",
        "mapa.shared::cluster.u32 %r1, tile+8, 3; mapa.shared::cluster.u32 %r1, %r1, %r0; getctarank.shared::cluster.u32 %result, %r1;",
        "mov.u64 %d0, tile; mapa.shared::cluster.u64 %d1, %d0, %r0; getctarank.shared::cluster.u64 %result, %d1;",
        "mov.u64 %d0, tile; cvta.shared::cta.u64 %d0, %d0; mapa.u64 %d1, %d0, %r0; getctarank.u64 %result, %d1;",
        "mov.u64 %d0, tile; mapa.shared::cluster.u64 %d1, %d0, %r0; cvta.shared::cluster.u64 %d1, %d1; getctarank.u64 %result, %d1;",
    ] {
        check(&format!("and.b32 %r0, %thread, 3;\n{map}"), |_, thread| thread % 4);
    }
    check("getctarank.shared::cluster.u32 %result, tile;", |rank, _| rank);
    check("mov.u64 %d0, tile+4; getctarank.shared::cluster.u64 %result, %d0;", |rank, _| rank);
}

#[test]
fn bits_of_the_rank_that_arithmetic_flips_lead_to_a_peer() {
    check("mov.u32 %r1, tile; xor.b32 %r1, %r1, 0x1000000; getctarank.shared::cluster.u32 %result, %r1;", |rank, _| {
        rank ^ 1
    });
    let flipped = "and.b32 %r0, %thread, 3; shl.b32 %r0, %r0, 24; mov.u32 %r1, tile; xor.b32 %r1, %r1, %r0;";
    check(&format!("{flipped} getctarank.shared::cluster.u32 %result, %r1;"), |rank, thread| rank ^ (thread % 4));
    let of_a_peer = "mapa.shared::cluster.u32 %r1, tile, 2; xor.b32 %r1, %r1, 0x1000000;";
    check(&format!("{of_a_peer} getctarank.shared::cluster.u32 %result, %r1;"), |_, _| 3);
    let store = "shl.b32 %r2, %thread, 2; add.u32 %r1, %r1, %r2; st.shared::cluster.u32 [%r1], %rank;";
    let load = "mov.u32 %r1, tile; add.u32 %r1, %r1, %r2; ld.shared.u32 %result, [%r1];";
    let body = format!("mov.u32 %r1, tile; xor.b32 %r1, %r1, 0x3000000; {SYNC} {store} {SYNC} {load}");
    check(&body, |rank, _| rank ^ 3);
}

#[test]
fn a_generic_address_of_a_peer_lies_in_the_cluster_but_not_in_the_block() {
    let body = "and.b32 %r0, %thread, 3;
        mov.u64 %d0, tile; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r0;
        isspacep.shared::cta %p0, %d1; selp.u32 %result, 1, 0, %p0;
        isspacep.shared::cluster %p0, %d1; selp.u32 %r1, 2, 0, %p0; or.b32 %result, %result, %r1;
        isspacep.shared %p0, %d0; selp.u32 %r1, 4, 0, %p0; or.b32 %result, %result, %r1;
        isspacep.global %p0, %d1; selp.u32 %r1, 8, 0, %p0; or.b32 %result, %result, %r1;
        ld.param.u64 %d2, [output];
        isspacep.shared::cluster %p0, %d2; selp.u32 %r1, 16, 0, %p0; or.b32 %result, %result, %r1;";
    check(body, |rank, thread| 2 + 4 + u32::from(thread % 4 == rank));
}

#[test]
fn accesses_of_every_width_reach_a_peer() {
    for (ty, vector, bytes) in [
        ("u8", "", 1),
        ("u16", "", 2),
        ("b32", "", 4),
        ("b64", "", 8),
        ("u32", ".v2", 8),
        ("u32", ".v4", 16),
        ("u64", ".v2", 16),
    ] {
        let (value, merge) = match (ty, vector) {
            ("b64", "") => ("%d5", "cvt.u64.u32 %d5, %r6;"),
            ("u64", _) => ("{%d5, %d6}", "cvt.u64.u32 %d5, %r6; mov.u64 %d6, 9;"),
            (_, ".v2") => ("{%r6, %r7}", "mov.u32 %r7, 9;"),
            (_, ".v4") => ("{%r6, %r7, %r8, %r9}", "mov.u32 %r7, 9; mov.u32 %r8, 9; mov.u32 %r9, 9;"),
            _ => ("%r6", ""),
        };
        let back = if ty.ends_with("64") { "cvt.u32.u64 %result, %d5;" } else { "mov.u32 %result, %r6;" };
        for (space, to_address) in [
            (
                ".shared::cluster",
                "mov.u32 %r2, tile; mad.lo.u32 %r2, %thread, SIZE, %r2; mapa.shared::cluster.u32 %r3, %r2, %r1;",
            ),
            (
                "",
                "mov.u64 %d0, tile; cvta.shared.u64 %d0, %d0; mad.wide.u32 %d0, %thread, SIZE, %d0; mapa.u64 %d3, %d0, %r1;",
            ),
        ] {
            let register = if space.is_empty() { "%d3" } else { "%r3" };
            let to_address = to_address.replace("SIZE", &bytes.to_string());
            let body = format!(
                "{SYNC} add.u32 %r1, %rank, 1; and.b32 %r1, %r1, 3;
                 {to_address}
                 mul.lo.u32 %r6, %rank, 64; xor.b32 %r6, %r6, %thread; and.b32 %r6, %r6, 255; {merge}
                 st{space}{vector}.{ty} [{register}], {value};
                 {SYNC} mov.u32 %r6, 0;
                 ld{space}{vector}.{ty} {value}, [{register}]; {back} {SYNC}"
            );
            // Everybody reads back what it left with its neighbour.
            check(&body, |rank, thread| ((rank * 64) ^ thread) & 255);
            let own = body.replace(
                &format!("ld{space}{vector}.{ty} {value}, [{register}];"),
                &format!(
                    "mov.u32 %r2, tile; mad.lo.u32 %r2, %thread, {bytes}, %r2; ld.shared{vector}.{ty} {value}, [%r2];"
                ),
            );
            // And finds what the one before left with it.
            check(&own, |rank, thread| (((rank + 3) % 4 * 64) ^ thread) & 255);
        }
    }
}

#[test]
fn what_copies_of_threads_have_brought_is_there_for_the_block_and_its_peers() {
    let bring = "mad.lo.u32 %r1, %thread, 16, 0;\nmov.u32 %r2, tile;\nadd.u32 %r1, %r1, %r2;\n\
                 cp.async.cg.shared.global [%r1], [%out], 16, 0;\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
                 ld.shared.u32 %r3, [%r1];";
    let peer = "and.b32 %r0, %thread, 3;\nmapa.shared::cluster.u32 %r1, %r1, %r0;\nld.shared::cluster.u32 %r4, [%r1];";
    check(&format!("{bring}\n{SYNC}\n{peer}\nor.b32 %result, %r3, %r4;\n{SYNC}"), |_, _| 0);
}

#[test]
fn an_address_mapped_into_the_own_block_is_one_of_its_own() {
    let body = format!(
        "mov.u32 %r2, tile; mad.lo.u32 %r2, %thread, 4, %r2; mapa.shared::cluster.u32 %r3, %r2, %rank;
         add.u32 %r4, %thread, 3; {SYNC}
         st.shared.u32 [%r3], %r4; ld.shared::cluster.u32 %r5, [%r2]; ld.shared.u32 %r6, [%r3+0];
         atom.shared.add.u32 %r7, [%r2], 1; add.u32 %result, %r5, %r6; add.u32 %result, %result, %r7;"
    );
    check(&body, |_, thread| 3 * (thread + 3));
}

#[test]
fn atomics_of_a_whole_cluster_meet_in_one_block() {
    for (op, ty, start, value, expected) in [
        ("add", "u32", 5, "1", 5 + 256),
        ("max", "s32", 0, "%thread", 63),
        ("min", "u32", 900, "%thread", 0),
        ("or", "b32", 0, "%r9", 0b1111),
        ("xor", "b32", 77, "%thread", 77),
        ("and", "b32", 255, "%r8", 255 & !0b1111),
        ("inc", "u32", 0, "1000", 256),
    ] {
        for (atomic, address) in [
            (format!("atom.shared::cluster.{op}.{ty} %r5, [%r3], {value};"), ""),
            (format!("red.relaxed.cluster.shared::cluster.{op}.{ty} [%r3], {value};"), ""),
            (format!("atom.acq_rel.cluster.{op}.{ty} %r5, [%d3], {value};"), "mapa.u64 %d3, %d0, 2;"),
        ] {
            if op == "inc" && atomic.starts_with("red") {
                continue;
            }
            let body = format!(
                "mov.u64 %d0, tile; cvta.shared.u64 %d0, %d0; {address} mapa.shared::cluster.u32 %r3, tile, 2;
                 mov.u32 %r9, 1; shl.b32 %r9, %r9, %rank; not.b32 %r8, %r9;
                 setp.eq.u32 %p0, %thread, 0; @%p0 st.shared.u32 [tile], {start};
                 {SYNC} {atomic} {SYNC}
                 ld.shared::cluster.u32 %result, [%r3]; {SYNC}"
            );
            check(&body, |_, _| expected);
        }
    }
}

#[test]
fn a_phase_is_over_when_all_have_arrived_and_then_the_next_begins() {
    // Each round every block adds what its neighbour had in the round before; arriving and waiting
    // lie apart.
    let round = "add.u32 %r5, %r5, 1;
        st.shared.u32 [%r2], %r5;
        barrier.cluster.arrive.release;
        add.u32 %r6, %r6, 0;
        barrier.cluster.wait.acquire;
        ld.shared::cluster.u32 %r7, [%r3];
        add.u32 %r5, %r5, %r7;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;\n";
    let body = format!(
        "mov.u32 %r2, tile; mad.lo.u32 %r2, %thread, 4, %r2; xor.b32 %r1, %rank, 1;
         mapa.shared::cluster.u32 %r3, %r2, %r1; mov.u32 %r5, %rank; mov.u32 %r6, 0;
         {} mov.u32 %result, %r5;",
        round.repeat(3)
    );
    check(&body, |rank, _| {
        let (mut own, mut other) = (rank, rank ^ 1);
        for _ in 0..3 {
            (own, other) = (own + other + 2, own + other + 2);
        }
        own
    });
}

#[test]
fn exited_threads_do_not_hold_up_the_barrier_of_the_cluster() {
    // Of rank 1 all threads leave at once; of rank 2 a warp does.
    let body = format!(
        "setp.eq.u32 %p0, %rank, 1; @%p0 exit;
         setp.eq.u32 %p0, %rank, 2; setp.ge.and.u32 %p0, %thread, 32, %p0; @%p0 exit;
         {SYNC}{SYNC} add.u32 %result, %thread, 1;"
    );
    let body = format!("mov.u32 %rank, %cluster_ctarank;\n{body}");
    let (values, report) = launch(&text("sm_90", "", &body), Arch::SM_90A, FOUR).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    for ((rank, thread), value) in threads().zip(values) {
        let exited = rank == 1 || (rank == 2 && thread >= 32);
        assert_eq!(value, if exited { 0xa5a5_a5a5 } else { thread + 1 }, "rank {rank}, thread {thread}");
    }
}

#[test]
fn requests_to_peers_are_counted_apart_from_those_to_banks() {
    let body = format!(
        "mov.u32 %rank, %cluster_ctarank; mov.u32 %r2, tile; mad.lo.u32 %r2, %thread, 4, %r2; xor.b32 %r1, %rank, 1;
         st.shared.u32 [%r2], 1; mapa.shared::cluster.u32 %r3, %r2, %r1; {SYNC}
         ld.shared::cluster.u32 %result, [%r3]; ld.shared::cluster.u32 %r4, [%r2]; {SYNC}"
    );
    let (_, report) = launch(&text("sm_90", "", &body), Arch::SM_90A, FOUR).unwrap();
    let warps = 8 * 2;
    assert_eq!(report.counters.distributed_requests, warps);
    assert_eq!((report.counters.shared_load_requests, report.counters.shared_store_requests), (warps, warps));
    assert_eq!(report.counters.barriers, 4 * warps);
}
