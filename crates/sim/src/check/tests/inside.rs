//! Races in global memory between the threads of one block.

use super::*;

/// Lane `l` at word `31 - l`.
fn mirrored(step: Step) -> Step {
    step.at(|lane| (31 - lane) * 4)
}

#[test]
fn warps_of_one_block_race_in_global_memory_until_a_barrier() {
    for syncs in [false, true] {
        for (first, second, rule) in
            [(write(1), read(2), RAW), (read(1), write(2), WAR), (write(1), write(2), WAW), (atomic(1), read(2), RAW)]
        {
            let mut rig = Rig::new(1, 64);
            rig.global(0, &first);
            if syncs {
                rig.sync(0);
            }
            rig.global(0, &second.warp(1));
            rig.finds(if syncs { &[] } else { std::slice::from_ref(&rule) });
        }
    }
}

#[test]
fn lanes_of_one_warp_need_a_warp_sync_in_global_memory() {
    for syncs in [false, true] {
        let mut rig = Rig::new(1, 32);
        rig.global(0, &write(1));
        if syncs {
            rig.warp_sync(0, ALL);
        }
        rig.global(0, &mirrored(read(2)));
        rig.finds(if syncs { &[] } else { &[LOCKSTEP] });
    }
}

#[test]
fn a_thread_does_not_race_with_itself_in_global_memory() {
    for bytes in [1, 2, 4, 8, 16] {
        let mut rig = Rig::new(1, 64);
        for warp in 0..2 {
            let at = move |lane| u64::from(warp) * 512 + lane * u64::from(bytes);
            for _ in 0..3 {
                rig.global(0, &read(1).bytes(bytes).warp(warp).at(at));
                rig.global(0, &write(2).bytes(bytes).warp(warp).at(at));
            }
        }
        rig.finds(&[]);
    }
}

#[test]
fn lanes_of_one_store_collide_in_global_memory() {
    for bytes in [1, 4, 8] {
        let store = write(1).bytes(bytes).at(|_| 0);
        let mut rig = Rig::new(1, 32);
        rig.global(0, &store.clone().values(u128::from, 99));
        rig.finds(&[Rule::LanesCollide]);
        let mut rig = Rig::new(1, 32);
        rig.global(0, &store.values(|_| 5, 99));
        rig.finds(&[Rule::SameValueOfLanes]);
    }
}

#[test]
fn pairs_of_lanes_collide_among_scattered_ones() {
    let mut rig = Rig::new(1, 32);
    rig.global(0, &write(1).at(|lane| lane / 2 * 4).values(u128::from, 99));
    rig.finds(&[Rule::LanesCollide]);
}

#[test]
fn warps_that_store_the_same_value_are_told_apart_from_races() {
    let mut rig = Rig::new(1, 64);
    rig.global(0, &write(1).values(|_| 5, 0));
    rig.global(0, &write(1).warp(1).values(|_| 5, 5));
    rig.finds(&[Rule::SameValue]);
}

#[test]
fn a_fence_orders_nothing_inside_a_block_by_itself() {
    let mut rig = Rig::new(1, 64);
    rig.global(0, &write(1));
    rig.fence(0, 0, Scope::Gpu);
    rig.fence(0, 1, Scope::Gpu);
    rig.global(0, &read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn a_flag_orders_the_warps_of_a_block_in_global_memory() {
    let (flag, cta) = (4096, Scope::Block);
    for semantics in [[Order::Release, Order::Acquire], [Order::Relaxed, Order::Relaxed]] {
        let mut rig = Rig::new(1, 64);
        rig.global(0, &write(1));
        rig.warp_sync(0, ALL);
        rig.global(0, &write(2).strong(semantics[0], cta).one(0, flag));
        rig.global(0, &read(3).strong(semantics[1], cta).warp(1).at(|_| flag));
        rig.global(0, &read(4).warp(1));
        rig.finds(if semantics[0] == Order::Release { &[] } else { &[RAW] });
    }
}

#[test]
fn what_a_release_inside_a_block_does_not_cover_still_races() {
    let (flag, cta) = (4096, Scope::Block);
    let mut rig = Rig::new(1, 64);
    rig.warp_sync(0, ALL);
    rig.global(0, &write(2).strong(Order::Release, cta).one(0, flag));
    rig.global(0, &write(1));
    rig.global(0, &read(3).strong(Order::Acquire, cta).warp(1).one(0, flag));
    rig.global(0, &read(4).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn order_that_comes_back_through_another_block_counts() {
    let gpu = Scope::Gpu;
    let mut rig = Rig::new(2, 64);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &write(2).strong(Order::Release, gpu).one(0, 4096));
    rig.global(1, &read(3).strong(Order::Acquire, gpu).one(0, 4096));
    rig.global(1, &write(4).strong(Order::Release, gpu).one(0, 8192));
    rig.global(0, &read(5).strong(Order::Acquire, gpu).warp(1).at(|_| 8192));
    rig.global(0, &read(6).warp(1));
    rig.finds(&[]);
}

#[test]
fn a_store_inside_a_block_comes_after_what_its_thread_has_observed() {
    for observes in [false, true] {
        let relaxed = |step: Step| step.strong(Order::Relaxed, Scope::Gpu).one(0, 0);
        let mut rig = Rig::new(1, 64);
        rig.global(0, &relaxed(write(1)));
        if observes {
            rig.global(0, &relaxed(read(2).warp(1)));
        }
        rig.global(0, &write(3).warp(1).one(0, 0));
        rig.finds(if observes { &[] } else { &[WAW] });
    }
}

#[test]
fn accesses_before_a_barrier_are_told_from_those_after_by_the_same_instruction() {
    let mut rig = Rig::new(1, 64);
    rig.global(0, &read(1));
    rig.sync(0);
    rig.global(0, &read(1).at(|lane| 512 + lane * 4));
    rig.global(0, &write(2).warp(1));
    rig.finds(&[]);
    rig.global(0, &write(2).warp(1).at(|lane| 512 + lane * 4));
    rig.finds(&[WAR]);
}

#[test]
fn a_named_barrier_of_two_warps_orders_them_and_no_third_one() {
    let mut rig = Rig::new(1, 96);
    rig.global(0, &write(1));
    rig.barrier(0, 1, 0b011, 0b011);
    rig.global(0, &read(2).warp(1));
    rig.finds(&[]);
    rig.global(0, &read(3).warp(2));
    rig.finds(&[RAW]);
}

#[test]
fn parts_of_words_race_inside_a_block_byte_by_byte() {
    let byte = |step: Step, warp: u64| step.bytes(1).warp(warp as u32).at(move |lane| lane * 2 + warp);
    let mut rig = Rig::new(1, 64);
    rig.global(0, &byte(write(1), 0));
    rig.global(0, &byte(write(1), 1));
    rig.finds(&[]);
    rig.global(0, &byte(read(2), 0));
    rig.global(0, &byte(read(3), 1));
    rig.finds(&[]);
    rig.global(0, &byte(write(4), 0).warp(1));
    assert!(!rig.findings.is_empty());
}

#[test]
fn a_uniform_read_of_what_one_lane_wrote_needs_a_warp_sync() {
    for syncs in [false, true] {
        let mut rig = Rig::new(1, 32);
        rig.global(0, &write(1).one(0, 0));
        if syncs {
            rig.warp_sync(0, ALL);
        }
        rig.global(0, &read(2).at(|_| 0));
        rig.finds(if syncs { &[] } else { &[LOCKSTEP] });
    }
}

#[test]
fn races_inside_a_block_and_between_blocks_are_both_found_at_one_word() {
    let mut rig = Rig::new(2, 64);
    rig.global(0, &write(1));
    rig.global(0, &write(2).warp(1));
    rig.global(1, &write(3));
    assert_eq!(rig.findings.iter().count(), 2, "{:?}", rig.findings);
}

#[test]
fn a_warps_read_does_not_hide_another_warps_read_before_its_write() {
    let shifted = |step: Step| step.at(|lane| 128 + lane * 4);
    let orders_blocks = [false, true];
    for (one, other) in [(read(1), read(2)), (shifted(read(1)), shifted(read(2)))] {
        for (syncs, orders_blocks) in orders_blocks.map(|orders| [(false, orders), (true, orders)]).concat() {
            let mut rig = Rig::of(DeviceCheck::default().begin(orders_blocks, || {}), 1, 96);
            rig.global(0, &one);
            rig.global(0, &other.clone().warp(1));
            rig.global(0, &one.clone().warp(2));
            if syncs {
                rig.sync(0);
            }
            let write = Step { addresses: other.addresses, ..write(3) };
            rig.global(0, &write.warp(2));
            rig.finds(if syncs { &[] } else { &[WAR] });
        }
    }
}

#[test]
fn a_lanes_read_does_not_hide_that_of_another_lane_by_another_instruction() {
    for syncs in [false, true] {
        let mut rig = Rig::new(1, 64);
        rig.global(0, &read(1).at(|lane| lane * 4 + 4));
        rig.global(0, &read(2));
        if syncs {
            rig.warp_sync(0, ALL);
        }
        rig.global(0, &write(3));
        rig.finds(if syncs { &[] } else { &[LOCKSTEP] });
    }
}

#[test]
fn each_warp_that_read_counts_where_named_barriers_order_some() {
    for missing in 0..3 {
        let mut rig = Rig::new(1, 128);
        rig.barrier(0, 2, 0b11, 0b11);
        for warp in 0..3 {
            rig.global(0, &read(1 + warp).warp(warp));
        }
        let told = (0b111 & !(1 << missing)) | 0b1000;
        rig.barrier(0, 1, told, told);
        rig.global(0, &write(5).warp(3));
        rig.finds(&[WAR]);
    }
}

#[test]
fn bytes_of_one_word_that_two_warps_read_are_both_remembered() {
    for (lanes, expected) in [(1, &[WAR][..]), (0b1110, &[LOCKSTEP])] {
        let mut rig = Rig::new(1, 64);
        rig.global(0, &read(1).bytes(1).one(31, 0));
        rig.global(0, &read(2).bytes(1).warp(1).lanes(0b111).at(|lane| lane + 1));
        rig.global(0, &write(3).bytes(1).warp(1).lanes(lanes).at(|lane| lane));
        rig.finds(expected);
    }
}

#[test]
fn lanes_of_one_warp_that_touch_the_same_byte_of_a_word_are_told_apart() {
    let byte = |step: Step, lane: u32| step.bytes(1).one(lane, 2);
    let kinds = [(write(1), read(2)), (read(1), write(2)), (write(1), write(2))];
    for (first, second) in kinds {
        let mut rig = Rig::new(1, 32);
        rig.global(0, &write(9).bytes(1).at(|lane| lane % 4));
        rig.sync(0);
        let before = rig.findings.iter().count();
        rig.global(0, &byte(first.clone(), 3));
        rig.global(0, &byte(second.clone(), 3));
        assert_eq!(rig.findings.iter().count(), before, "{:?}", rig.findings);
        rig.global(0, &byte(second, 4));
        assert_eq!(rig.findings.iter().count(), before + 1, "{:?}", rig.findings);
    }
}

#[test]
fn words_that_warps_read_by_turns_need_few_numbers() {
    let mut rig = Rig::new(1, 256);
    let begin = rig.launch.batch().unwrap().start;
    for _ in 0..1000 {
        for warp in 0..8 {
            rig.global(0, &read(1).warp(warp));
            rig.global(0, &read(2).warp(warp).at(|lane| lane * 37 % 32 * 4));
        }
    }
    let end = rig.launch.batch().unwrap().start;
    assert!(end - begin <= 2048, "{}", end - begin);
    rig.sync(0);
    rig.global(0, &write(3));
    rig.finds(&[]);
}

#[test]
fn lanes_that_store_sums_rounded_apart_may_leave_either() {
    let cases: [(fn(u32) -> u128, Rule); 3] = [
        (|lane| (1.5f32.to_bits() + lane % 2).into(), Rule::NearValue),
        (|lane| (1.5f32.to_bits() + lane % 2 * 64).into(), Rule::LanesCollide),
        (|lane| (lane % 2 + 1).into(), Rule::LanesCollide),
    ];
    for (stored, rule) in cases {
        let store = write(1).lanes(0b11).at(|_| 0).values(stored, 99);
        let mut rig = Rig::filled(32);
        rig.global(0, &store);
        rig.finds(&[rule]);
        let mut rig = Rig::filled(32);
        rig.shared(&store);
        rig.finds(&[rule]);
    }
}

#[test]
fn who_reads_a_value_that_is_stored_again_is_in_no_worse_race_than_the_stores() {
    let same = |step: Step| step.values(|_| 5, 5);
    let mut rig = Rig::filled(64);
    for warp in 0..2 {
        rig.global(0, &same(write(1)).warp(warp));
        rig.global(0, &read(2).warp(warp));
        rig.shared(&same(write(3)).warp(warp));
        rig.shared(&read(4).warp(warp));
    }
    rig.finds(&[Rule::SameValue, Rule::SameValue]);
}

#[test]
fn a_lane_that_stores_what_it_and_a_later_copy_of_it_have_loaded_is_in_no_race() {
    for bytes in [4, 8] {
        let mut rig = Rig::new(1, 32);
        rig.global(0, &read(1).bytes(bytes).at(|lane| lane % 16 * 8));
        rig.global(0, &write(2).bytes(bytes).lanes(0xffff).at(|lane| lane * 8));
        rig.finds(&[]);
    }
}
