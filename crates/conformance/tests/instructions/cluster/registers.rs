//! Special registers of clusters, and the instructions that tell one thread from others.

use warpfold_sim::Arch;

use crate::instructions::cluster::harness::{Sizes, launch, run, text};

/// Coordinates of a linear index.
fn coordinates(linear: u32, extent: [u32; 3]) -> [u32; 3] {
    [linear % extent[0], linear / extent[0] % extent[1], linear / (extent[0] * extent[1])]
}

fn linear(at: [u32; 3], extent: [u32; 3]) -> u32 {
    (at[2] * extent[1] + at[1]) * extent[0] + at[0]
}

#[track_caller]
fn check(register: &str, expected: impl Fn([u32; 3], Sizes) -> u32) {
    for (grid, cluster) in
        [([4, 6, 2], [2, 3, 2]), ([8, 1, 1], [8, 1, 1]), ([2, 4, 6], [1, 4, 2]), ([3, 2, 1], [1, 1, 1])]
    {
        let sizes = Sizes { grid, block: [33, 1, 1], cluster };
        let values = run(&format!("mov.u32 %result, {register};"), sizes);
        for (i, value) in (0u32..).zip(&values) {
            let block = coordinates(i / 33, grid);
            assert_eq!(*value, expected(block, sizes), "{register} of block {block:?} with {sizes:?}");
        }
    }
}

#[test]
fn special_registers_tell_where_a_block_stands() {
    for (axis, name) in (0..3).zip(["x", "y", "z"]) {
        check(&format!("%clusterid.{name}"), |block, sizes| block[axis] / sizes.cluster[axis]);
        check(&format!("%nclusterid.{name}"), |_, sizes| sizes.grid[axis] / sizes.cluster[axis]);
        check(&format!("%cluster_ctaid.{name}"), |block, sizes| block[axis] % sizes.cluster[axis]);
        check(&format!("%cluster_nctaid.{name}"), |_, sizes| sizes.cluster[axis]);
    }
    check("%cluster_nctarank", |_, sizes| sizes.cluster.iter().product());
    check("%cluster_ctarank", |block, sizes| {
        linear([0, 1, 2].map(|axis| block[axis] % sizes.cluster[axis]), sizes.cluster)
    });
}

#[test]
fn a_cluster_is_explicit_if_the_launch_or_the_kernel_gave_its_size() {
    let body = "mov.pred %p0, %is_explicit_cluster; selp.u32 %result, 1, 0, %p0;";
    for (directives, cluster, explicit) in [
        ("", 1, 0),
        ("", 2, 1),
        (".reqnctapercluster 1", 1, 1),
        (".reqnctapercluster 4", 1, 1),
        (".maxclusterrank 4", 4, 1),
    ] {
        let (values, _) = launch(&text("sm_90", directives, body), Arch::SM_90A, Sizes::row(4, 32, cluster)).unwrap();
        assert!(values.iter().all(|value| *value == explicit), "{directives} launched with {cluster}");
    }
}

#[test]
fn the_lowest_lane_of_the_members_is_elected() {
    for members in [u32::MAX, 0xffff_0000, 0x8000_0000, 0x0001_0100, 1] {
        let body = format!(
            "mov.u32 %r0, %lanemask_eq; and.b32 %r0, %r0, {members}; setp.eq.u32 %p0, %r0, 0;
             @%p0 bra OTHERS;
             elect.sync %r1|%p1, {members};
             selp.u32 %result, 64, 0, %p1; or.b32 %result, %result, %r1;
             OTHERS:"
        );
        let leader = members.trailing_zeros();
        for (lane, value) in (0u32..).zip(run(&body, Sizes::row(1, 32, 1))) {
            let expected = if (members >> lane) & 1 == 0 { 0 } else { leader | (u32::from(lane == leader) * 64) };
            assert_eq!(value, expected, "lane {lane} of {members:#x}");
        }
    }
}

#[test]
fn a_launch_that_depends_on_nothing_need_not_wait() {
    let body = "griddepcontrol.wait; nanosleep.u32 20; griddepcontrol.launch_dependents; add.u32 %result, %thread, 1;";
    let values = run(body, Sizes::row(2, 32, 2));
    assert!((0u32..).zip(&values).all(|(i, value)| *value == i % 32 + 1));
}

#[test]
fn registers_move_between_warpgroups_through_the_pool() {
    let body = "shr.u32 %r0, %thread, 7; setp.eq.u32 %p0, %r0, 0;
        @%p0 bra GIVE;
        setmaxnreg.inc.sync.aligned.u32 240;
        bra DONE;
        GIVE:
        setmaxnreg.dec.sync.aligned.u32 24;
        DONE: mov.u32 %result, 5;";
    for directives in [".reqntid 384 .minnctapersm 1", ".maxntid 384 .minnctapersm 1", ".maxnreg 168"] {
        let text = text("sm_90a", directives, body);
        let (values, report) = launch(&text, Arch::SM_90A, Sizes::row(2, 384, 1)).unwrap();
        assert!(report.findings.is_empty(), "{directives}: {:?}", report.findings);
        assert!(values.iter().all(|value| *value == 5));
    }
    // Where ptxas would drop it, it does nothing, and a note says so.
    let (_, report) = launch(&text("sm_90a", ".reqntid 384", body), Arch::SM_90A, Sizes::row(1, 384, 1)).unwrap();
    assert!(report.findings.iter().all(|finding| finding.rule.starts_with("setmaxnreg is ignored")), "{report:?}");
    assert_eq!(report.findings.len(), 2);
}
