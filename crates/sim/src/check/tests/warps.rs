//! Order between the warps of a block: barriers, fences, releases and acquires.

use super::*;

const FLAG: u64 = 1024;

fn store_flag(semantics: Order) -> Step {
    write(50).strong(semantics, Scope::Block).one(0, FLAG)
}

fn load_flag(semantics: Order) -> Step {
    read(51).strong(semantics, Scope::Block).at(|_| FLAG)
}

#[test]
fn a_block_barrier_orders_every_pair_of_warps() {
    let mut rig = Rig::filled(1024);
    for round in 0..4 {
        for warp in 0..32u32 {
            rig.shared(&write(1).warp(warp).at(|lane| (u64::from(warp) * 32 + lane) * 4));
        }
        rig.sync(0);
        for warp in 0..32u32 {
            let from = u64::from((warp + 5 + round) % 32);
            rig.shared(&read(2).warp(warp).at(|lane| (from * 32 + lane) * 4));
        }
        rig.sync(0);
    }
    rig.finds(&[]);
}

#[test]
fn a_missing_second_barrier_in_a_loop_is_found() {
    let mut rig = Rig::filled(64);
    for _ in 0..2 {
        for warp in 0..2u32 {
            rig.shared(&write(1).warp(warp).at(|lane| (u64::from(warp) * 32 + lane) * 4));
        }
        rig.sync(0);
        for warp in 0..2u32 {
            rig.shared(&read(2).warp(warp).at(|lane| (u64::from(1 - warp) * 32 + lane) * 4));
        }
    }
    rig.finds(&[WAR]);
}

#[test]
fn a_named_barrier_orders_only_those_that_take_part() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.barrier(0, 1, 0b011, 0b011);
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
    rig.shared(&read(3).warp(2));
    rig.finds(&[RAW]);
}

#[test]
fn named_barriers_are_transitive() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.barrier(0, 1, 0b011, 0b011);
    rig.barrier(0, 2, 0b110, 0b110);
    rig.shared(&read(2).warp(2));
    rig.finds(&[]);
}

#[test]
fn an_arrival_gives_but_does_not_take() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.shared(&write(2).warp(1).at(|lane| 128 + lane * 4));
    rig.barrier(0, 1, 0b11, 0b10);
    rig.shared(&read(3).warp(1));
    rig.finds(&[]);
    rig.shared(&read(4).at(|lane| 128 + lane * 4));
    rig.finds(&[RAW]);
}

#[test]
fn what_follows_an_arrival_is_not_covered() {
    let mut rig = Rig::filled(64);
    rig.blocks[0].arrive(&rig.launch, 1, 0);
    rig.shared(&write(1));
    rig.blocks[0].arrive(&rig.launch, 1, 1);
    rig.blocks[0].complete(1, 0b10, false, 0);
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn the_same_instruction_before_and_after_an_arrival_is_told_apart() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.blocks[0].arrive(&rig.launch, 1, 0);
    rig.shared(&write(1).at(|lane| 128 + lane * 4));
    rig.blocks[0].arrive(&rig.launch, 1, 1);
    rig.blocks[0].complete(1, 0b10, false, 0);
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
    rig.shared(&read(3).warp(1).at(|lane| 128 + lane * 4));
    rig.finds(&[RAW]);
}

#[test]
fn a_ring_of_stages_with_full_and_empty_barriers_is_clean() {
    let (full, empty) = (1, 3);
    for broken in [false, true] {
        let mut rig = Rig::filled(128);
        for round in 0..6u32 {
            let stage = round % 2;
            let words = move |lane: u64| u64::from(stage) * 128 + lane * 4;
            if round >= 2 && !broken {
                rig.barrier(0, empty + stage, 0b1111, 0b0001);
            }
            rig.shared(&write(1).at(words));
            rig.barrier(0, full + stage, 0b1111, 0b1110);
            for warp in 1..4 {
                rig.shared(&read(2).warp(warp).at(words));
            }
        }
        assert_eq!(!rig.findings.is_empty(), broken, "{:#?}", rig.findings);
    }
}

#[test]
fn one_reader_out_of_many_that_did_not_arrive_is_found() {
    let mut rig = Rig::filled(256);
    rig.barrier(0, 1, 0b11, 0b11);
    for warp in 1..8 {
        rig.shared(&read(1).warp(warp));
    }
    rig.barrier(0, 2, 0b1111_1011, 0b1);
    rig.shared(&write(2));
    rig.finds(&[WAR]);
    assert_eq!(rig.findings.iter().next().unwrap().other.unwrap().warp, 2);
}

#[test]
fn release_and_acquire_order() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
}

#[test]
fn what_follows_a_release_is_not_covered() {
    let mut rig = Rig::filled(64);
    rig.shared(&store_flag(Order::Release));
    rig.shared(&write(1));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn relaxed_accesses_order_only_with_both_fences() {
    for (first, second) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut rig = Rig::filled(64);
        rig.shared(&write(1));
        rig.warp_sync(0, ALL);
        if first {
            rig.fence(0, 0, Scope::Block);
        }
        rig.shared(&store_flag(Order::Relaxed));
        rig.shared(&load_flag(Order::Relaxed).warp(1));
        if second {
            rig.fence(0, 1, Scope::Block);
        }
        rig.shared(&read(2).warp(1));
        if first && second {
            rig.finds(&[]);
        } else {
            rig.finds(&[RAW]);
        }
    }
}

#[test]
fn a_fence_meets_an_acquire_and_a_release_meets_a_fence() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.fence(0, 0, Scope::Gpu);
    rig.shared(&store_flag(Order::Relaxed));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Relaxed).warp(1));
    rig.fence(0, 1, Scope::Gpu);
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
}

#[test]
fn what_lies_between_a_fence_and_its_store_is_not_covered() {
    let mut rig = Rig::filled(64);
    rig.fence(0, 0, Scope::Block);
    rig.shared(&write(1));
    rig.shared(&store_flag(Order::Relaxed));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn release_and_acquire_are_transitive() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&write(52).strong(Order::Release, Scope::Block).warp(1).one(0, FLAG + 4));
    rig.shared(&read(53).strong(Order::Acquire, Scope::Block).warp(2).at(|_| FLAG + 4));
    rig.shared(&read(2).warp(2));
    rig.finds(&[]);
}

#[test]
fn another_flag_orders_nothing() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.shared(&store_flag(Order::Release));
    rig.shared(&read(51).strong(Order::Acquire, Scope::Block).warp(1).at(|_| FLAG + 4));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn a_fence_passes_along_a_named_barrier_to_the_warp_that_stores() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.fence(0, 0, Scope::Block);
    rig.barrier(0, 1, 0b011, 0b011);
    rig.shared(&store_flag(Order::Relaxed).warp(1));
    rig.shared(&load_flag(Order::Acquire).warp(2));
    rig.shared(&read(2).warp(2));
    rig.finds(&[]);
}

#[test]
fn a_strong_read_passes_along_a_named_barrier_to_the_warp_that_fences() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Relaxed).warp(1));
    rig.barrier(0, 1, 0b110, 0b110);
    rig.fence(0, 2, Scope::Block);
    rig.shared(&read(2).warp(2));
    rig.finds(&[]);
}

#[test]
fn a_flag_in_global_memory_orders_shared_memory() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.global(0, &store_flag(Order::Release));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.global(0, &store_flag(Order::Release));
    rig.global(0, &load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[]);
}

#[test]
fn order_from_before_a_block_barrier_stays() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.barrier(0, 1, 0b011, 0b011);
    rig.sync(0);
    rig.shared(&read(2).warp(2));
    rig.finds(&[]);
    rig.shared(&write(3).warp(1).one(0, 0));
    rig.finds(&[WAR]);
}

#[test]
fn a_release_covers_other_lanes_only_once_a_warp_sync_has_gathered_them() {
    for gathered in [false, true] {
        let mut rig = Rig::filled(64);
        rig.shared(&write(1));
        if gathered {
            rig.warp_sync(0, ALL);
        }
        rig.shared(&store_flag(Order::Release));
        rig.shared(&load_flag(Order::Acquire).warp(1));
        rig.shared(&read(2).warp(1).lanes(1));
        rig.finds(&[]);
        rig.shared(&read(2).warp(1));
        rig.finds(if gathered { &[] } else { &[UNGATHERED] });
    }
}

#[test]
fn a_release_by_all_lanes_covers_all_lanes() {
    for semantics in [Order::Release, Order::Relaxed] {
        let mut rig = Rig::filled(64);
        rig.shared(&write(1));
        rig.fence(0, 0, Scope::Block);
        rig.shared(&store_flag(semantics).lanes(ALL));
        rig.shared(&load_flag(Order::Acquire).warp(1));
        rig.shared(&read(2).warp(1));
        rig.finds(&[]);
    }
}

#[test]
fn a_fence_by_all_lanes_covers_those_that_a_warp_sync_gathers_before_the_store() {
    for gathered in [false, true] {
        let mut rig = Rig::filled(64);
        rig.shared(&write(1));
        rig.fence(0, 0, Scope::Block);
        if gathered {
            rig.warp_sync(0, ALL);
        }
        rig.shared(&store_flag(Order::Relaxed));
        rig.shared(&load_flag(Order::Acquire).warp(1));
        rig.shared(&read(2).warp(1));
        rig.finds(if gathered { &[] } else { &[UNGATHERED] });
    }
}

#[test]
fn a_release_covers_lanes_that_a_partial_warp_sync_gathered() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, 0xff);
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.shared(&read(2).warp(1).lanes(0xff));
    rig.finds(&[]);
    rig.shared(&read(2).warp(1).lanes(0x1ff));
    rig.finds(&[UNGATHERED]);
}

#[test]
fn ungathered_lanes_stay_ungathered_along_a_chain() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Acquire).warp(1));
    rig.barrier(0, 1, 0b110, 0b110);
    rig.shared(&read(2).warp(2));
    rig.finds(&[UNGATHERED]);
}

#[test]
fn a_relaxed_store_by_another_warp_ends_what_a_location_carries() {
    for (kind, broken) in [(Kind::Write, true), (Kind::Atomic, false)] {
        let mut rig = Rig::filled(96);
        rig.shared(&write(1).lanes(1));
        rig.shared(&store_flag(Order::Release));
        rig.shared(&step(60, kind, Strength::Strong(Order::Relaxed, Scope::Block)).warp(1).one(0, FLAG));
        rig.shared(&load_flag(Order::Acquire).warp(2));
        rig.shared(&read(2).warp(2).lanes(1));
        rig.finds(if broken { &[RAW] } else { &[] });
    }
}

#[test]
fn a_relaxed_store_carries_on_what_its_own_warp_released() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1).lanes(1));
    rig.shared(&store_flag(Order::Release));
    rig.shared(&store_flag(Order::Relaxed).warp(1));
    rig.shared(&store_flag(Order::Relaxed));
    rig.shared(&load_flag(Order::Acquire).warp(2));
    rig.shared(&read(2).warp(2).lanes(1));
    rig.finds(&[]);
}

#[test]
fn an_acquire_makes_good_for_relaxed_reads_of_its_location_before() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1).lanes(1));
    rig.shared(&store_flag(Order::Release));
    rig.shared(&load_flag(Order::Relaxed).warp(2));
    rig.shared(&store_flag(Order::Relaxed).warp(1));
    rig.shared(&load_flag(Order::Acquire).warp(2));
    rig.shared(&read(2).warp(2).lanes(1));
    rig.finds(&[]);
}

#[test]
fn a_flag_in_shared_memory_hands_on_what_is_known_of_other_blocks() {
    const FLAG: u64 = 4096;
    let flag = |step: Step, semantics, warp| step.strong(semantics, Scope::Block).one(0, 64).warp(warp);
    let (releases, acquires) = (Order::Release, Order::Acquire);
    // A warp stores, tells another one of its block, and that one tells another block.
    let mut rig = Rig::new(2, 64);
    rig.global(0, &write(1).one(0, 8));
    rig.shared(&flag(write(2), releases, 0));
    rig.shared(&flag(read(3), acquires, 1));
    rig.global(0, &write(4).strong(releases, Scope::Gpu).one(0, FLAG).warp(1));
    rig.global(1, &read(5).strong(acquires, Scope::Gpu).one(0, FLAG));
    rig.global(1, &read(6).one(0, 8));
    rig.finds(&[]);
    // And the other way round.
    let mut rig = Rig::new(2, 64);
    rig.global(1, &write(1).one(0, 8));
    rig.global(1, &write(2).strong(releases, Scope::Gpu).one(0, FLAG));
    rig.global(0, &read(3).strong(acquires, Scope::Gpu).one(0, FLAG));
    rig.shared(&flag(write(4), releases, 0));
    rig.shared(&flag(read(5), acquires, 1));
    rig.global(0, &read(6).one(0, 8).warp(1));
    rig.finds(&[]);
}

#[test]
fn an_mbarrier_hands_on_what_is_known_of_other_blocks() {
    const FLAG: u64 = 4096;
    for arrives in [true, false] {
        let mut rig = Rig::new(2, 64);
        rig.global(1, &write(1).one(0, 8));
        rig.global(1, &write(2).strong(Order::Release, Scope::Gpu).one(0, FLAG));
        rig.global(0, &read(3).strong(Order::Acquire, Scope::Gpu).one(0, FLAG));
        if arrives {
            rig.blocks[0].arrive_at_mbarrier(&rig.launch, 0, 1, 64);
        }
        rig.blocks[0].complete_phase(64, true);
        rig.blocks[0].pass_mbarrier(&rig.launch, (1, ALL), 64, true);
        rig.global(0, &read(6).warp(1));
        rig.finds(if arrives { &[] } else { &[RAW] });
    }
}
