//! What one access or one lane must not hide: a thread's own strong access the weak one before it,
//! a lane's acquire that the others did not, a strong access the size of another one.

use super::*;

const FLAG: u64 = 1024;

fn release() -> Step {
    write(50).strong(Order::Release, Scope::Block).one(0, FLAG)
}

fn acquire() -> Step {
    read(51).strong(Order::Acquire, Scope::Block).warp(1)
}

/// A block whose warp 0 has stored and released, lane 0 for all of them.
fn released() -> Rig {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.shared(&release());
    rig
}

#[test]
fn what_one_lane_acquires_the_others_do_not_know() {
    let mut rig = released();
    rig.shared(&acquire().one(3, FLAG));
    rig.shared(&read(2).warp(1).one(3, 16));
    rig.finds(&[]);
    rig.shared(&read(2).warp(1).one(4, 16));
    rig.finds(&[Rule::UnsharedAcquire]);
}

#[test]
fn a_warp_sync_passes_on_what_one_lane_has_acquired() {
    for (synced, expected) in [(ALL, &[][..]), (0b11000, &[]), (0b10100, &[Rule::UnsharedAcquire])] {
        let mut rig = released();
        rig.shared(&acquire().one(3, FLAG));
        rig.warp_sync(1, synced);
        rig.shared(&read(2).warp(1).one(4, 16));
        rig.finds(expected);
    }
}

#[test]
fn lanes_that_acquire_one_after_the_other_all_know() {
    let mut rig = released();
    (0..32).for_each(|lane| rig.shared(&acquire().one(lane, FLAG)));
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
}

#[test]
fn a_lane_releases_what_it_has_acquired_itself_and_a_barrier_what_any_lane_has() {
    let mut rig = released();
    rig.shared(&acquire().one(3, FLAG));
    rig.barrier(0, 1, 0b10, 0b10);
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
}

#[test]
fn a_threads_own_atomic_does_not_hide_the_store_before_it() {
    let counter = |step: Step| step.one(0, 8);
    let mut rig = Rig::filled(64);
    rig.shared(&counter(write(1)));
    rig.shared(&counter(atomic(2)));
    rig.finds(&[]);
    rig.shared(&counter(atomic(2)).warp(1));
    rig.finds(&[WAW]);

    let mut rig = Rig::new(2, 32);
    rig.global(0, &counter(write(1)));
    rig.global(0, &counter(atomic(2)));
    rig.global(0, &counter(atomic(2)));
    rig.finds(&[]);
    rig.global(1, &counter(atomic(2)));
    rig.finds(&[WAW]);
}

#[test]
fn a_threads_own_strong_read_does_not_hide_the_plain_one_before_it() {
    let mut rig = Rig::filled(64);
    let strong = |step: Step| step.strong(Order::Relaxed, Scope::Block).one(0, 8);
    rig.shared(&read(1).one(0, 8));
    rig.shared(&strong(read(2)));
    rig.shared(&strong(write(3)).warp(1));
    rig.finds(&[WAR]);
}

#[test]
fn atomics_behind_a_store_that_a_release_covers_are_clean() {
    let counter = |step: Step| step.one(0, 8);
    let mut rig = Rig::new(2, 32);
    rig.global(0, &counter(write(1)));
    rig.global(0, &counter(atomic(2)));
    rig.global(0, &write(50).strong(Order::Release, Scope::Gpu).one(0, FLAG));
    rig.global(1, &read(51).strong(Order::Acquire, Scope::Gpu).one(0, FLAG));
    rig.global(1, &counter(atomic(2)));
    rig.global(1, &counter(read(3)));
    rig.finds(&[]);
}

#[test]
fn strong_accesses_of_different_sizes_race_and_atomics_do_not() {
    let strong = |step: Step, bytes| step.strong(Order::Relaxed, Scope::Gpu).bytes(bytes).one(0, 8);
    for (second, expected) in [
        (strong(read(2), 8), &[][..]),
        (strong(read(2), 4), &[Rule::MixedSizes]),
        (strong(read(2), 2), &[Rule::MixedSizes]),
        (strong(write(2), 4), &[Rule::MixedSizes]),
    ] {
        let mut rig = Rig::filled(64);
        rig.shared(&strong(write(1), 8));
        rig.shared(&second.clone().warp(1));
        rig.finds(expected);
        let mut rig = Rig::new(2, 32);
        rig.global(0, &strong(write(1), 8));
        rig.global(1, &second);
        rig.finds(expected);
        let mut rig = Rig::new(1, 64);
        rig.global(0, &strong(write(1), 8));
        rig.global(0, &second.warp(1));
        rig.finds(expected);
    }
    let mut rig = Rig::new(2, 32);
    rig.global(0, &atomic(1).bytes(8).one(0, 8));
    rig.global(1, &atomic(2).bytes(4).one(0, 8));
    rig.finds(&[]);
}

#[test]
fn a_barrier_with_a_count_does_not_speak_for_warps_that_have_ended() {
    for (gone, expected) in [(0b001, &[RAW][..]), (0, &[])] {
        let mut rig = Rig::filled(96);
        rig.shared(&write(1));
        rig.blocks[0].arrive(&rig.launch, 2, 1);
        rig.blocks[0].arrive(&rig.launch, 2, 2);
        rig.blocks[0].complete(2, 0b110, true, gone);
        rig.shared(&read(2).warp(2));
        rig.finds(expected);
    }
}

#[test]
fn a_fence_that_came_first_orders_what_it_covers_before_the_later_one() {
    for kind in [FenceKind::Both, FenceKind::Sequential] {
        let mut rig = Rig::filled(64);
        let strong = |step: Step| step.strong(Order::Relaxed, Scope::Block).one(0, FLAG);
        rig.shared(&write(1).one(0, 8));
        rig.blocks[0].fence(&rig.launch, (0, 1), Scope::Block, kind);
        rig.shared(&strong(read(2)));
        rig.shared(&strong(write(3)).warp(1));
        rig.blocks[0].fence(&rig.launch, (1, 1), Scope::Block, kind);
        rig.shared(&read(4).warp(1).one(0, 8));
        rig.finds(if kind == FenceKind::Sequential { &[] } else { &[RAW] });
    }
}

#[test]
fn a_fence_of_one_direction_orders_in_that_one() {
    use FenceKind::{Acquire, Both, Release};
    for (first, second, expected) in
        [(Both, Both, &[][..]), (Release, Acquire, &[]), (Acquire, Acquire, &[RAW]), (Release, Release, &[RAW])]
    {
        let strong = |step: Step| step.strong(Order::Relaxed, Scope::Gpu).one(0, FLAG);
        let mut rig = Rig::filled(64);
        rig.shared(&write(1).one(0, 8));
        rig.blocks[0].fence(&rig.launch, (0, 1), Scope::Gpu, first);
        rig.shared(&strong(write(2)));
        rig.shared(&strong(read(3)).warp(1));
        rig.blocks[0].fence(&rig.launch, (1, 1), Scope::Gpu, second);
        rig.shared(&read(4).warp(1).one(0, 8));
        rig.finds(expected);
        let mut rig = Rig::new(2, 32);
        rig.global(0, &write(1).one(0, 8));
        rig.blocks[0].fence(&rig.launch, (0, 1), Scope::Gpu, first);
        rig.global(0, &strong(write(2)));
        rig.global(1, &strong(read(3)));
        rig.blocks[1].fence(&rig.launch, (0, 1), Scope::Gpu, second);
        rig.global(1, &read(4).one(0, 8));
        rig.finds(expected);
    }
}
