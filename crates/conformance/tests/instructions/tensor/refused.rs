//! What sm_90a does not have is refused with a typed error, never skipped.

use warpfold_sim::{Checks, Error};

use crate::instructions::tensor::harness::Proof;

#[track_caller]
fn refused(line: &str) {
    let names = (0..8).map(|i| (format!("r{i}"), 32)).chain((0..8).map(|i| (format!("w{i}"), 64)));
    let proof = Proof { lines: line.into(), outputs: names.collect(), shared: vec![0; 512], ..Proof::default() };
    match proof.try_run(Checks::None) {
        Err(Error::Unsupported { .. } | Error::Invalid { .. }) => {}
        other => panic!("`{line}` gave {other:?}"),
    }
}

#[test]
fn forms_of_mma_that_do_not_exist_are_refused() {
    for line in [
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1}, {r0,r1}, {r0,r1,r2,r3,r4,r5,r6,r7};",
        "mma.sync.aligned.m8n8k4.row.f32.f16.f16.f32 {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1}, {r0,r1}, {r0,r1,r2,r3,r4,r5,r6,r7};",
        "mma.sync.aligned.m16n8k8.row.col.rz.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1}, {r0}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {r0,r1}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r0,r1,r2}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0}, {r0,r1,r2,r3};",
        "mma.sync.m16n8k16.row.col.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k16.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k32.row.col.f32.tf32.tf32.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s4.s32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.or.popc {r0,r1,r2,r3}, {r0,r1}, {r0}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32 {r0,r1,r2,r3}, {r0,r1}, {r0}, {r0,r1,r2,r3};",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3}, r0, {0,0}, r0, {0,0};",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1}, {r0,r1}, {r0,r1,r2,r3}, r0, 0;",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1}, {r0,r1}, {r0,r1,r2,r3}, r0, 0;",
    ] {
        refused(line);
    }
}

#[test]
fn forms_of_ldmatrix_and_stmatrix_that_do_not_exist_are_refused() {
    for line in [
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0,r1}, [%tile];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {r0}, [%tile];",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {r0,r1,r2}, [%tile];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0}, [%tile];",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {r0}, [%in];",
        "ldmatrix.sync.m8n8.x1.shared.b16 {r0}, [%tile];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {r0}, [%tile];",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%tile], {r0};",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%tile], {r0,r1};",
        "movmatrix.sync.aligned.m8n8.b16 r0, r1;",
        "movmatrix.sync.aligned.m8n8.trans.b8 r0, r1;",
    ] {
        refused(line);
    }
}

#[test]
fn forms_of_wgmma_that_do_not_exist_are_refused() {
    for line in [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {r0,r1,r2}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {r0,r1}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 2;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {r0,r1,r2,r3}, {r0,r1,r2,r3}, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {r0,r1,r2,r3}, w0, w1, 1, 1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.xor.popc {r0,r1,r2,r3}, w0, w1, 1;",
        "wgmma.mma_async.sync.aligned.m64n8k64.s32.s4.s4 {r0,r1,r2,r3}, w0, w1, 1;",
        "wgmma.mma_async.sync.aligned.satfinite.m64n8k16.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.m64n8k16.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {w4,w5,w6,w7}, w0, w1, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {r0,r1,r2,r3}, w0, w1, r4, 0, 1, 1, 1, 0, 0;",
        "wgmma.wait_group.sync.aligned 8;",
        "wgmma.wait_group.sync.aligned r0;",
        "wgmma.wait_group.sync.aligned;",
        "wgmma.commit_group.sync;",
        "wgmma.fence.aligned;",
        "wgmma.arrive.sync.aligned;",
    ] {
        refused(line);
    }
}

#[test]
fn forms_of_wmma_that_do_not_exist_are_refused() {
    for line in [
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f32 {r0,r1,r2,r3,r4,r5,r6,r7}, [%tile];",
        "wmma.load.a.sync.aligned.row.m16n16k8.shared.f16 {r0,r1,r2,r3}, [%tile];",
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {r0,r1,r2,r3}, [%tile];",
        "wmma.load.a.sync.aligned.m16n16k16.shared.f16 {r0,r1,r2,r3,r4,r5,r6,r7}, [%tile];",
        "wmma.load.a.sync.aligned.col.m8n8k32.shared.s4 {r0}, [%tile];",
        "wmma.load.d.sync.aligned.row.m16n16k16.shared.f32 {r0,r1,r2,r3,r4,r5,r6,r7}, [%tile];",
        "wmma.load.a.sync.aligned.row.m16n16k16.local.f16 {r0,r1,r2,r3,r4,r5,r6,r7}, [%tile];",
        "wmma.load.a.aligned.row.m16n16k16.shared.f16 {r0,r1,r2,r3,r4,r5,r6,r7}, [%tile];",
        "wmma.store.c.sync.aligned.row.m16n16k16.shared.f32 [%tile], {r0,r1,r2,r3,r4,r5,r6,r7};",
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.bf16 [%tile], {r0,r1,r2,r3};",
        "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1}, {r0,r1}, {r0,r1,r2,r3,r4,r5,r6,r7};",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f16.bf16.bf16.f16 {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1,r2,r3};",
        "wmma.mma.sync.aligned.col.col.m8n8k32.s32.s4.s4.s32 {r0,r1}, {r0}, {r0}, {r0,r1};",
        "wmma.mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32 {r0,r1}, {r0}, {r0}, {r0,r1};",
        "wmma.mma.or.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {r0,r1}, {r0}, {r0}, {r0,r1};",
        "wmma.mma.sync.aligned.row.m16n16k16.f32.f32 {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3,r4,r5,r6,r7};",
    ] {
        refused(line);
    }
}
