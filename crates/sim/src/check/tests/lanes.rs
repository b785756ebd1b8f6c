//! Shared memory: lanes of one warp.

use super::*;

const LOW: u32 = 0xffff;
const HIGH: u32 = !LOW;

#[test]
fn two_lanes_of_one_store_with_different_values_are_an_error() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1).lanes(3).at(|_| 8).values(u128::from, 0));
    rig.finds(&[Rule::LanesCollide]);
}

#[test]
fn two_lanes_of_one_store_with_the_same_value_are_told_apart_from_races() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1).at(|_| 8).values(|_| 5, 0));
    rig.finds(&[Rule::SameValueOfLanes]);
}

#[test]
fn lanes_of_one_store_that_overlap_in_part_of_the_warp_are_found() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1).at(|lane| if lane == 20 { 12 } else { lane * 4 }).values(u128::from, 0));
    rig.finds(&[Rule::LanesCollide]);
    let found = *rig.findings.iter().next().unwrap();
    assert_eq!((found.this.lane, found.other.unwrap().lane, found.count), (20, 3, 1));
}

#[test]
fn lanes_that_store_neighbouring_bytes_do_not_race() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1).bytes(1).at(|lane| lane));
    rig.shared(&write(2).bytes(2).at(|lane| 64 + lane * 2));
    rig.shared(&read(3).bytes(1).at(|lane| lane));
    rig.finds(&[]);
}

#[test]
fn a_lane_knows_what_it_did_itself() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1));
    rig.shared(&read(2));
    rig.shared(&write(3));
    rig.shared(&write(4).bytes(1).at(|lane| lane * 4 + 1));
    rig.shared(&read(5));
    rig.finds(&[]);
}

#[test]
fn lanes_that_exchange_without_a_warp_sync_are_a_warning() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1));
    rig.shared(&read(2).at(|lane| (lane ^ 1) * 4));
    rig.finds(&[LOCKSTEP]);
}

#[test]
fn the_unrolled_last_warp_is_clean_only_with_warp_syncs() {
    for synchronised in [false, true] {
        let mut rig = Rig::filled(32);
        for (instr, stride) in (1..).zip([16u64, 8, 4, 2, 1]) {
            rig.shared(&read(instr * 10).at(|lane| lane * 4));
            rig.shared(&read(instr * 10 + 1).at(|lane| (lane + stride) * 4));
            if synchronised {
                rig.warp_sync(0, ALL);
            }
            rig.shared(&write(instr * 10 + 2));
            if synchronised {
                rig.warp_sync(0, ALL);
            }
        }
        assert_eq!(rig.findings.is_empty(), synchronised);
        assert!(rig.findings.iter().all(|found| found.severity() == Severity::Warning));
    }
}

#[test]
fn a_loop_that_stores_elsewhere_each_time_needs_a_warp_sync() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1));
    rig.shared(&write(1).at(|lane| (lane + 1) * 4).values(u128::from, 0));
    rig.finds(&[LOCKSTEP]);
}

#[test]
fn a_partial_warp_sync_orders_only_the_lanes_it_names() {
    let swapped = |lane: u64| (lane ^ 1) * 4;
    let mut rig = Rig::filled(32);
    rig.shared(&write(1));
    rig.warp_sync(0, LOW);
    rig.shared(&read(2).lanes(LOW).at(swapped));
    rig.finds(&[]);
    rig.shared(&read(3).lanes(HIGH).at(swapped));
    rig.finds(&[LOCKSTEP]);
}

#[test]
fn partial_warp_syncs_are_transitive() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1).one(0, 0));
    rig.warp_sync(0, 0b011);
    rig.warp_sync(0, 0b110);
    rig.shared(&read(2).one(2, 0));
    rig.finds(&[]);
    rig.shared(&read(3).one(3, 0));
    rig.finds(&[LOCKSTEP]);
}

#[test]
fn partial_warp_syncs_in_the_other_order_are_not() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(1).one(0, 0));
    rig.warp_sync(0, 0b110);
    rig.warp_sync(0, 0b011);
    rig.shared(&read(2).one(2, 0));
    rig.finds(&[LOCKSTEP]);
}

#[test]
fn a_sync_before_the_write_orders_nothing() {
    let mut rig = Rig::filled(32);
    rig.shared(&write(7));
    rig.warp_sync(0, ALL);
    rig.shared(&write(1));
    rig.shared(&read(2).at(|lane| (lane ^ 1) * 4));
    rig.finds(&[LOCKSTEP]);
}

#[test]
fn all_lanes_of_a_short_warp_make_a_full_sync() {
    let mut rig = Rig::new(1, 40);
    rig.shared(&write(1).warp(1).lanes(0xff));
    rig.warp_sync(1, 0xff);
    rig.shared(&read(2).warp(1).lanes(0xff).at(|lane| (lane ^ 1) * 4));
    rig.finds(&[]);
}

#[test]
fn a_block_barrier_orders_lanes() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.sync(0);
    rig.shared(&read(2).at(|lane| (31 - lane) * 4));
    rig.finds(&[]);
}

#[test]
fn a_named_barrier_orders_lanes_of_the_warps_that_wait() {
    let mut rig = Rig::filled(96);
    rig.shared(&write(1));
    rig.barrier(0, 1, 0b11, 0b11);
    rig.shared(&read(2).at(|lane| (31 - lane) * 4));
    rig.finds(&[]);
}

#[test]
fn a_warp_sync_orders_no_other_warp() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.warp_sync(0, ALL);
    rig.warp_sync(1, ALL);
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn a_lock_passed_between_lanes_orders_them() {
    let mut rig = Rig::filled(32);
    for lane in 0..3 {
        rig.shared(&atomic(1).strong(Order::Acquire, Scope::Block).one(lane, 64));
        rig.shared(&read(2).one(lane, 0));
        rig.shared(&write(3).one(lane, 0));
        rig.shared(&atomic(4).strong(Order::Release, Scope::Block).one(lane, 64));
    }
    rig.finds(&[]);
}

#[test]
fn a_relaxed_lock_passed_between_lanes_does_not_order_them() {
    let mut rig = Rig::filled(32);
    for lane in 0..2 {
        rig.shared(&atomic(1).one(lane, 64));
        rig.shared(&write(3).one(lane, 0));
        rig.shared(&atomic(4).one(lane, 64));
    }
    rig.finds(&[LOCKSTEP]);
}
