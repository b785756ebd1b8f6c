//! What the ISA does not have, or only for later targets, is refused with a typed error.

use warpfold_sim::{Arch, Error};

use crate::instructions::cluster::harness::{Sizes, launch, text};

#[track_caller]
fn refused(target: &str, line: &str) {
    match launch(&text(target, ".maxnreg 128", line), Arch::SM_90A, Sizes::row(4, 128, 1)) {
        Err(Error::Unsupported { .. } | Error::Invalid { .. }) => {}
        other => panic!("`{line}` for {target} gave {other:?}"),
    }
}

#[test]
fn what_needs_a_later_target_is_refused() {
    for line in [
        "barrier.cluster.arrive;",
        "barrier.cluster.wait;",
        "mapa.shared::cluster.u32 %r1, tile, 0;",
        "getctarank.shared::cluster.u32 %r1, tile;",
        "ld.shared::cluster.u32 %r1, [tile];",
        "atom.shared::cluster.add.u32 %r1, [%r2], 1;",
        "cvta.shared::cluster.u64 %d0, %d0;",
        "isspacep.shared::cluster %p0, %d0;",
        "griddepcontrol.wait;",
        "setmaxnreg.dec.sync.aligned.u32 40;",
        "elect.sync %r1|%p0, -1;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r2, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];",
    ] {
        refused("sm_80", line);
    }
    refused("sm_90", "setmaxnreg.dec.sync.aligned.u32 40;");
}

#[test]
fn forms_that_the_isa_does_not_have_are_refused() {
    for line in [
        "barrier.cluster;",
        "barrier.cluster.arrive.acquire;",
        "barrier.cluster.wait.release;",
        "barrier.cluster.wait.relaxed;",
        "barrier.cluster.arrive.wait;",
        "barrier.cluster.arrive 0;",
        "mapa.shared::cluster.b32 %r1, tile, 0;",
        "mapa.shared::cta.u32 %r1, tile, 0;",
        "mapa.u32 %r1, %r2, 0;",
        "mapa.shared::cluster.u32 %r1, tile;",
        "getctarank.shared::cluster.u16 %r1, tile;",
        "griddepcontrol.launch;",
        "griddepcontrol.wait.launch_dependents;",
        "setmaxnreg.dec.sync.aligned.u32 20;",
        "setmaxnreg.dec.sync.aligned.u32 41;",
        "setmaxnreg.inc.sync.aligned.u32 264;",
        "setmaxnreg.inc.sync.aligned.u32 %r1;",
        "setmaxnreg.inc.dec.sync.aligned.u32 40;",
        "setmaxnreg.inc.aligned.u32 40;",
        "elect.sync %r1, -1;",
        "st.async.shared::cluster.b32 [%r1], %r2, [%r3];",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r1], %r2, [%r3];",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%r1], {%d1, %d2, %d3, %d4}, [%r3];",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r1], %r2, [%r3];",
        "st.async.release.gpu.global.b32 [%d1], %r2;",
        "red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.f32 [%r1], %f2, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.and.b64 [%r1], %d2, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.u64 [%r1], %d2, [%r3];",
        "multimem.red.relaxed.gpu.global.add.u32 [%d1], %r1;",
        "fence.acquire.sync_restrict::shared::cta.cluster;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.gpu;",
    ] {
        refused("sm_90a", line);
    }
}
