//! `st.async` and `red.async`: values that threads send into the shared memory of peers, whose
//! mbarriers tell of them.

use warpfold_sim::{Arch, FindingKind};

use crate::instructions::cluster::harness::{SYNC, Sizes, launch, run, text};

const FOUR: Sizes = Sizes { grid: [8, 1, 1], block: [64, 1, 1], cluster: [4, 1, 1] };

/// Makes a barrier for `bytes` bytes at the end of `tile`, in each block, and tells the cluster of
/// it.
fn barrier(bytes: u32) -> String {
    format!(
        "mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %p0, %thread, 0;
         @%p0 mbarrier.init.shared.b64 [tile+4088], 1;
         @%p0 fence.mbarrier_init.release.cluster;
         @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [tile+4088], {bytes};
         {SYNC}"
    )
}

const WAIT: &str = "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [tile+4088], 0; @!%p1 bra W;\n";

/// Rank and thread of each number that 8 blocks of 64 threads leave in clusters of 4.
fn threads() -> impl Iterator<Item = (u32, u32)> {
    (0..8).flat_map(|block| (0..64).map(move |thread| (block % 4, thread)))
}

/// The `k`-th word that a thread sends.
fn word(rank: u32, thread: u32, k: u32) -> u32 {
    (rank * 64 + thread) * 1009 + k * 77
}

#[test]
fn stores_of_every_type_and_width_arrive_at_the_peer() {
    for (ty, count, element) in [
        ("b32", 1, 4),
        ("u32", 2, 4),
        ("s32", 4, 4),
        ("f32", 4, 4),
        ("b64", 1, 8),
        ("u64", 2, 8),
        ("s64", 1, 8),
        ("f64", 2, 8),
    ] {
        let bytes = element * count;
        let (prefix, bits) = if element == 8 { ("%e", "b64") } else { ("%v", "b32") };
        let names: Vec<_> = (0..count).map(|k| format!("{prefix}{k}")).collect();
        let (vector, value) = if count == 1 {
            (String::new(), names[0].clone())
        } else {
            (format!(".v{count}"), format!("{{{}}}", names.join(", ")))
        };
        let mut fill = format!(".reg .{bits} {prefix}<4>; .reg .b32 %w<4>;\n");
        for k in 0..bytes / 4 {
            fill += &format!("mad.lo.u32 %w{k}, %r5, 1009, {};\n", k * 77);
        }
        for k in 0..count {
            fill += &match element {
                8 => format!("mov.b64 %e{k}, {{%w{}, %w{}}};\n", 2 * k, 2 * k + 1),
                _ => format!("mov.b32 %v{k}, %w{k};\n"),
            };
        }
        for (space, address, bar, map) in [
            (
                ".weak.shared::cluster",
                "%r3",
                "%r4+8",
                "mapa.shared::cluster.u32 %r3, %r2, %r1; mapa.shared::cluster.u32 %r4, tile+4080, %r1;",
            ),
            (
                "",
                "%d3",
                "%d4",
                "cvt.u64.u32 %d0, %r2; cvta.shared.u64 %d0, %d0; mapa.u64 %d3, %d0, %r1;
                 mov.u64 %d0, tile; add.u64 %d0, %d0, 4088; cvta.shared.u64 %d0, %d0; mapa.u64 %d4, %d0, %r1;",
            ),
        ] {
            let mut read = String::new();
            for k in 0..bytes / 4 {
                read += &format!("ld.shared.u32 %r6, [%r2+{}]; mad.lo.u32 %result, %result, 31, %r6;\n", 4 * k);
            }
            let body = format!(
                "{} add.u32 %r1, %rank, 1; and.b32 %r1, %r1, 3;
                 mov.u32 %r2, tile; mad.lo.u32 %r2, %thread, {bytes}, %r2; {map}
                 mad.lo.u32 %r5, %rank, 64, %thread; {fill}
                 st.async{space}.mbarrier::complete_tx::bytes{vector}.{ty} [{address}], {value}, [{bar}];
                 {WAIT} {read} {SYNC}",
                barrier(64 * bytes)
            );
            for ((rank, thread), value) in threads().zip(run(&body, FOUR)) {
                let words = (0..bytes / 4).map(|k| word((rank + 3) % 4, thread, k));
                let expected = words.fold(0u32, |all, word| all.wrapping_mul(31).wrapping_add(word));
                assert_eq!(value, expected, "rank {rank}, thread {thread}: {body}");
            }
        }
    }
}

#[test]
fn reductions_of_a_cluster_meet_in_one_block() {
    // What the threads of three blocks send to the first one, which starts with `start` in each of
    // four places.
    let sent = |thread: u32, rank: u32| rank * 1000 + thread * 37;
    let all =
        |place: u32| (1..4).flat_map(move |rank| (0..64).filter(move |t| t % 4 == place).map(move |t| sent(t, rank)));
    let fold = |place, start: u32, f: &dyn Fn(u32, u32) -> u32| all(place).fold(start, f);
    type Case<'a> = (&'a str, u32, &'a dyn Fn(u32) -> u32);
    let signed = |place| all(place).map(|v| (v << 20).cast_signed()).min().expect("some").min(5).cast_unsigned();
    let cases: [Case<'_>; 10] = [
        ("add.u32", 7, &|p| fold(p, 7, &|a, b| a + b)),
        ("add.s32", 7, &|p| fold(p, 7, &|a, b| a + b)),
        ("min.u32", 500, &|p| fold(p, 500, &|a, b| a.min(b))),
        ("max.u32", 500, &|p| fold(p, 500, &|a, b| a.max(b))),
        ("min.s32", 5, &signed),
        ("and.b32", u32::MAX, &|p| fold(p, u32::MAX, &|a, b| a & b)),
        ("or.b32", 1 << 30, &|p| fold(p, 1 << 30, &|a, b| a | b)),
        ("xor.b32", 1 << 30, &|p| fold(p, 1 << 30, &|a, b| a ^ b)),
        // 48 steps each: up to the bound and around, and down to zero and around.
        ("inc.u32", 20, &|_| (20 + 48) % 31),
        ("dec.u32", 20, &|_| 30 - (48 - 21)),
    ];
    for (op, start, expected) in cases {
        let value = match op {
            "inc.u32" | "dec.u32" => "mov.u32 %r5, 30;",
            "min.s32" => "shl.b32 %r5, %r5, 20;",
            _ => "",
        };
        let body = format!(
            "and.b32 %r1, %thread, 3; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 4, %r2;
             setp.lt.u32 %p2, %thread, 4; @%p2 st.shared.u32 [%r2], {start}; {}
             mapa.shared::cluster.u32 %r3, %r2, 0; mapa.shared::cluster.u32 %r4, tile+4088, 0;
             mul.lo.u32 %r5, %rank, 1000; mad.lo.u32 %r5, %thread, 37, %r5; {value}
             setp.ne.u32 %p3, %rank, 0;
             @%p3 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op} [%r3], %r5, [%r4];
             @%p3 bra DONE;
             {WAIT} ld.shared.u32 %result, [%r2];
             DONE: {SYNC}",
            barrier(3 * 64 * 4)
        );
        for ((rank, thread), value) in threads().zip(run(&body, FOUR)) {
            let expected = if rank == 0 { expected(thread % 4) } else { 0 };
            assert_eq!(value, expected, "rank {rank}, thread {thread}: {op}");
        }
    }
}

#[test]
fn a_sum_of_64_bits_carries_into_its_upper_half() {
    for ty in ["u64", "s64"] {
        let body = format!(
            "mov.u64 %d5, 0xfffffff0; setp.eq.u32 %p2, %thread, 0; @%p2 st.shared.u64 [tile], %d5; {}
             mov.u64 %d0, tile; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, 0; add.u64 %d0, %d0, 4088; mapa.u64 %d2, %d0, 0;
             cvt.u64.u32 %d5, %thread; setp.ne.u32 %p3, %rank, 0;
             @%p3 red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.{ty} [%d1], %d5, [%d2];
             @%p3 bra DONE;
             {WAIT} ld.shared.u32 %result, [tile]; ld.shared.u32 %r6, [tile+4]; mad.lo.u32 %result, %r6, 1000000, %result;
             DONE: {SYNC}",
            barrier(3 * 64 * 8)
        );
        let sum = 0xffff_fff0u64 + 3 * (63 * 64 / 2);
        let expected = (sum >> 32) as u32 * 1_000_000 + sum as u32;
        for ((rank, thread), value) in threads().zip(run(&body, FOUR)) {
            assert_eq!(value, if rank == 0 { expected } else { 0 }, "rank {rank}, thread {thread}: {ty}");
        }
    }
}

/// What is found where all threads of two blocks execute `send`, with the own `tile` in `%r1` and
/// the peer's in `%r2`.
fn findings(send: &str, cluster: u32) -> Vec<FindingKind> {
    let body = format!(
        "{} xor.b32 %r0, %rank, 1; mapa.shared::cluster.u32 %r1, tile, %rank; mapa.shared::cluster.u32 %r2, tile, %r0;
         @%p0 {send} {SYNC}",
        barrier(0)
    );
    let sizes = Sizes::row(2, 32, cluster);
    let (_, report) = launch(&text("sm_90a", "", &body), Arch::SM_90A, sizes).unwrap_or_else(|e| panic!("{send}: {e}"));
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn what_the_isa_leaves_undefined_is_found() {
    let st = "st.async.shared::cluster.mbarrier::complete_tx::bytes";
    let red = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add";
    use FindingKind::{InvalidSync, Misaligned, OutOfBounds};
    for (send, cluster, kind) in [
        (format!("{st}.b32 [%r1], 5, [%r1+4088];"), 1, InvalidSync),
        (format!("{st}.b32 [%r2], 5, [%r1+4088];"), 2, InvalidSync),
        (format!("{red}.u32 [%r1], 5, [%r1+4088];"), 2, InvalidSync),
        (format!("{st}.b64 [%r2+4], 5, [%r2+4088];"), 2, Misaligned),
        (format!("{st}.b32 [%r2+4096], 5, [%r2+4088];"), 2, OutOfBounds),
        (format!("{st}.b32 [%r2], 5, [%r2+4084];"), 2, Misaligned),
    ] {
        let found = findings(&send, cluster);
        assert!(!found.is_empty() && found.iter().all(|other| *other == kind), "{send}: {found:?}");
    }
}
