//! Fence-SC order between blocks, and what fences and acquires of single lanes count for.

use super::*;

const FLAG: u64 = 4096;
const OTHER: u64 = 8192;
const UNSHARED: Rule = Rule::UnsharedAcquire;

fn relaxed(step: Step, at: u64) -> Step {
    step.strong(Order::Relaxed, Scope::Gpu).one(0, at)
}

fn fence(rig: &mut Rig, block: usize, scope: Scope, kind: FenceKind) {
    rig.blocks[block].fence(&rig.launch, (0, ALL), scope, kind);
}

/// Block 0 stores and fences, then `first` at the flag; block 1 `second` there, and fences.
fn told_apart(first: &Step, second: &Step, scopes: [Scope; 2], kinds: [FenceKind; 2]) -> Rig {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1).one(0, 8));
    fence(&mut rig, 0, scopes[0], kinds[0]);
    rig.global(0, first);
    rig.global(1, second);
    fence(&mut rig, 1, scopes[1], kinds[1]);
    rig.global(1, &read(4).one(0, 8));
    rig
}

#[test]
fn a_fence_sc_before_a_read_that_a_write_overtook_comes_before_the_writers() {
    use FenceKind::{Both, Sequential};
    let (cta, gpu) = (Scope::Block, Scope::Gpu);
    for kinds in [[Sequential; 2], [Both, Sequential], [Sequential, Both]] {
        for scopes in [[gpu; 2], [cta, gpu], [gpu, cta]] {
            let rig = told_apart(&relaxed(read(2), FLAG), &relaxed(write(3), FLAG), scopes, kinds);
            rig.finds(if (kinds, scopes) == ([Sequential; 2], [gpu; 2]) { &[] } else { &[RAW] });
        }
    }
}

#[test]
fn a_fence_sc_before_a_write_that_another_overtook_comes_before_the_others() {
    let kinds = [FenceKind::Sequential; 2];
    told_apart(&relaxed(write(2), FLAG), &relaxed(write(3), FLAG), [Scope::Gpu; 2], kinds).finds(&[]);
    told_apart(&relaxed(write(2), FLAG), &relaxed(write(3), OTHER), [Scope::Gpu; 2], kinds).finds(&[RAW]);
}

#[test]
fn a_write_overtakes_no_read_that_comes_after_it() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1).one(0, 8));
    rig.global(1, &relaxed(write(3), FLAG));
    fence(&mut rig, 0, Scope::Gpu, FenceKind::Sequential);
    rig.global(0, &relaxed(read(2), FLAG));
    fence(&mut rig, 1, Scope::Gpu, FenceKind::Sequential);
    rig.global(1, &read(4).one(0, 8));
    rig.finds(&[RAW]);
}

#[test]
fn what_is_done_behind_the_earlier_fence_is_not_ordered() {
    let mut rig = Rig::new(2, 32);
    fence(&mut rig, 0, Scope::Gpu, FenceKind::Sequential);
    rig.global(0, &write(1).one(0, 8));
    rig.global(0, &relaxed(read(2), FLAG));
    rig.global(1, &relaxed(write(3), FLAG));
    fence(&mut rig, 1, Scope::Gpu, FenceKind::Sequential);
    rig.global(1, &read(4).one(0, 8));
    rig.finds(&[RAW]);
}

#[test]
fn barriers_pass_on_what_fences_cover_and_what_writes_have_overtaken() {
    for barriers in [false, true] {
        let mut rig = Rig::new(2, 64);
        let sync = |rig: &mut Rig, block| {
            if barriers {
                rig.sync(block)
            }
        };
        rig.global(0, &write(1).one(0, 8));
        fence(&mut rig, 0, Scope::Gpu, FenceKind::Sequential);
        sync(&mut rig, 0);
        rig.global(0, &relaxed(read(2), FLAG).warp(1));
        rig.global(1, &relaxed(write(3), FLAG).warp(1));
        sync(&mut rig, 1);
        fence(&mut rig, 1, Scope::Gpu, FenceKind::Sequential);
        rig.global(1, &read(4).one(0, 8));
        rig.finds(if barriers { &[] } else { &[RAW] });
    }
}

/// What barriers hand on once multiplied by the warps at each of them: forty would never end.
#[test]
fn barriers_after_strong_writes_hand_on_each_write_once() {
    let mut rig = Rig::new(2, 256);
    rig.global(0, &write(1).one(0, 8));
    fence(&mut rig, 0, Scope::Gpu, FenceKind::Sequential);
    rig.global(0, &relaxed(read(2), FLAG));
    for warp in 0..8 {
        rig.global(1, &relaxed(write(3), FLAG).warp(warp));
    }
    for _ in 0..40 {
        rig.sync(1);
    }
    fence(&mut rig, 1, Scope::Gpu, FenceKind::Sequential);
    rig.global(1, &read(4).one(0, 8));
    rig.finds(&[]);
}

#[test]
fn many_fences_at_one_location_lose_no_order() {
    let mut rig = Rig::new(2, 32);
    for round in 0..100 {
        rig.global(0, &write(1).one(0, 8 * round));
        fence(&mut rig, 0, Scope::Gpu, FenceKind::Sequential);
        rig.global(0, &relaxed(read(2), FLAG));
    }
    rig.global(1, &relaxed(write(3), FLAG));
    fence(&mut rig, 1, Scope::Gpu, FenceKind::Sequential);
    for round in 0..100 {
        rig.global(1, &read(4).one(0, 8 * round));
    }
    rig.finds(&[]);
}

/// Block 0 stores and releases a flag.
fn released() -> Rig {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &write(2).strong(Order::Release, Scope::Gpu).one(0, FLAG));
    rig
}

#[test]
fn a_lane_acquires_for_itself_until_a_warp_sync() {
    let acquire = read(3).strong(Order::Acquire, Scope::Gpu).one(5, FLAG);
    let mut rig = released();
    rig.global(1, &acquire);
    rig.global(1, &read(4).one(5, 8));
    rig.finds(&[]);
    rig.global(1, &read(5).one(6, 8));
    rig.finds(&[UNSHARED]);
    for (lanes, expected) in [(0b10_0001, &[UNSHARED][..]), (0b110_0000, &[]), (ALL, &[])] {
        let mut rig = released();
        rig.global(1, &acquire);
        rig.blocks[1].warp_sync(0, lanes);
        rig.global(1, &read(5).one(6, 8));
        rig.finds(expected);
    }
    let mut rig = released();
    rig.global(1, &acquire);
    rig.sync(1);
    rig.global(1, &read(5).one(6, 8));
    rig.finds(&[]);
}

#[test]
fn lanes_that_acquire_one_after_the_other_know_what_each_acquired() {
    let mut rig = Rig::new(3, 32);
    for block in 0..2 {
        let own = u64::from(block) * 4;
        rig.global(block as usize, &write(1).one(0, own));
        rig.global(block as usize, &write(2).strong(Order::Release, Scope::Gpu).one(0, FLAG + own));
        rig.global(2, &read(3).strong(Order::Acquire, Scope::Gpu).one(block, FLAG + own));
    }
    rig.global(2, &read(4).lanes(0b11));
    rig.finds(&[]);
    rig.global(2, &read(5).lanes(0b11).at(|lane| (1 - lane.min(1)) * 4));
    rig.finds(&[UNSHARED]);
}

#[test]
fn a_fence_counts_for_the_lanes_that_have_read() {
    let mut rig = released();
    rig.global(1, &relaxed(read(3), FLAG).one(3, FLAG));
    // Another lane's fence acquires nothing, and takes nothing away.
    rig.blocks[1].fence(&rig.launch, (0, 1 << 5), Scope::Gpu, FenceKind::Both);
    rig.blocks[1].fence(&rig.launch, (0, 1 << 3), Scope::Gpu, FenceKind::Both);
    rig.global(1, &read(4).one(3, 8));
    rig.finds(&[]);
    rig.global(1, &read(5).one(5, 8));
    rig.finds(&[UNSHARED]);
}

#[test]
fn a_lane_passes_on_only_what_it_knows_itself() {
    for (lane, expected) in [(5, &[][..]), (6, &[RAW])] {
        let mut rig = released();
        rig.global(1, &read(3).strong(Order::Acquire, Scope::Gpu).one(5, FLAG));
        rig.global(1, &write(4).strong(Order::Release, Scope::Gpu).one(lane, OTHER));
        rig.global(2, &read(5).strong(Order::Acquire, Scope::Gpu).lanes(ALL).at(|_| OTHER));
        rig.global(2, &read(6));
        rig.finds(expected);
    }
}

/// Three blocks and what each does in turn, by block.
fn three(steps: &[(usize, Option<Step>)]) -> Rig {
    let mut rig = Rig::new(3, 32);
    for (block, step) in steps {
        match step {
            Some(step) => rig.global(*block, step),
            None => fence(&mut rig, *block, Scope::Gpu, FenceKind::Sequential),
        }
    }
    rig
}

#[test]
fn a_strong_read_of_a_write_comes_after_the_fences_that_the_write_overtook() {
    let (stores, fences) = ((0, Some(write(1).one(0, 8))), |block| (block, None));
    let (looks, writes) = ((0, Some(relaxed(read(2), FLAG))), (1, Some(relaxed(write(3), FLAG))));
    let sees = (2, Some(relaxed(read(4), FLAG)));
    let reads = (2, Some(read(5).one(0, 8)));
    let told = [&stores, &fences(0), &looks, &writes, &sees, &fences(2), &reads].map(Clone::clone);
    three(&told).finds(&[]);
    // Who reads before the write has observed nothing.
    let untold = [&stores, &fences(0), &looks, &sees, &writes, &fences(2), &reads].map(Clone::clone);
    three(&untold).finds(&[RAW]);
    // Nor does the order of a write and a fence that came first say anything.
    let before = [&stores, &fences(0), &writes, &looks, &sees, &fences(2), &reads].map(Clone::clone);
    three(&before).finds(&[RAW]);
}

#[test]
fn an_access_behind_another_blocks_fence_is_left_for_that_fence() {
    let acquired = |strength: Order| {
        three(&[
            (0, Some(write(1).one(0, 8))),
            (0, None),
            (0, Some(write(2).strong(Order::Release, Scope::Gpu).one(0, FLAG))),
            (1, Some(read(3).strong(strength, Scope::Gpu).one(0, FLAG))),
            (1, Some(relaxed(read(4), OTHER))),
            (2, Some(relaxed(write(5), OTHER))),
            (2, None),
            (2, Some(read(6).one(0, 8))),
        ])
    };
    acquired(Order::Acquire).finds(&[]);
    acquired(Order::Relaxed).finds(&[RAW]);
}

#[test]
fn a_write_before_another_blocks_fence_has_overtaken_for_that_fence() {
    let released = |strength: Order| {
        three(&[
            (0, Some(write(1).one(0, 8))),
            (0, None),
            (0, Some(relaxed(read(2), OTHER))),
            (1, Some(relaxed(write(3), OTHER))),
            (1, Some(write(4).strong(strength, Scope::Gpu).one(0, FLAG))),
            (2, Some(read(5).strong(Order::Acquire, Scope::Gpu).one(0, FLAG))),
            (2, None),
            (2, Some(read(6).one(0, 8))),
        ])
    };
    released(Order::Release).finds(&[]);
    released(Order::Relaxed).finds(&[RAW]);
}

#[test]
fn fences_of_warps_of_one_block_are_ordered_through_a_third_warp() {
    let shared = |step: Step, warp| step.strong(Order::Relaxed, Scope::Block).one(0, 64).warp(warp);
    for sees_the_write in [true, false] {
        let mut rig = Rig::filled(96);
        let fence = |rig: &mut Rig, warp| {
            rig.blocks[0].fence(&rig.launch, (warp, ALL), Scope::Block, FenceKind::Sequential);
        };
        rig.shared(&write(1).one(0, 8));
        fence(&mut rig, 0);
        rig.shared(&shared(read(2), 0));
        let (writes, sees) = (shared(write(3), 1), shared(read(4), 2));
        let [first, second] = if sees_the_write { [writes, sees] } else { [sees, writes] };
        rig.shared(&first);
        rig.shared(&second);
        fence(&mut rig, 2);
        rig.shared(&read(5).one(0, 8).warp(2));
        rig.finds(if sees_the_write { &[] } else { &[RAW] });
    }
}
