//! Programmatic launches: what they do before `griddepcontrol.wait`.

use super::*;
use crate::check::findings::Side;

const READ: Rule = Rule::EarlyRead;
const WRITE: Rule = Rule::EarlyWrite;
const OVERWRITE: Rule = Rule::EarlyOverwrite;

/// Launches of one stream, one after the other, each of blocks with two warps.
struct Launches {
    device: DeviceCheck,
    rig: Rig,
}

impl Launches {
    fn new(blocks: u32) -> Self {
        let mut device = DeviceCheck::default();
        let rig = Rig::of(device.begin(true, || {}), blocks, 64);
        Self { device, rig }
    }

    /// The launch is over, and a programmatic one begins.
    fn next(&mut self) {
        let Self { device, rig } = self;
        let past = std::mem::replace(&mut rig.launch, device.begin(true, || {}));
        rig.launch.overlap(past.into_past(rig.blocks.len() as u64));
        for (index, block) in (0..).zip(&mut rig.blocks) {
            *block = BlockCheck::new(4096, 0);
            block.begin(&rig.launch, index, 64);
        }
    }

    fn wait(&mut self, block: usize, warp: u32, lanes: u32) {
        self.rig.blocks[block].wait_for_dependencies(&self.rig.launch, 77, warp, lanes);
    }

    fn trigger(&mut self, block: usize) {
        self.rig.blocks[block].launch_dependents(&self.rig.launch);
    }

    /// A bulk copy by the first thread from the start of the allocation, told of by the mbarrier at
    /// 64.
    fn bulk_load(&mut self, bytes: u64) {
        let Rig { launch, blocks, shadow, findings } = &mut self.rig;
        let access = Access { mask: 1, bytes: 16, ..read(5).access };
        blocks[0].proxy_global_access(launch, shadow, &access, (BASE, bytes), findings, true);
        let by = Side { instr: 5, block: 0, warp: 0, lane: 0 };
        blocks[0].copy_lands_for(by, Kind::Write, (128, 128 + bytes as u32), 64);
        blocks[0].complete_phase(64, true);
    }
}

/// Runs the accesses of one launch, then those of a programmatic one that never waits.
#[track_caller]
fn finds_between(first: &[Step], then: &[Step], expected: &[Rule]) {
    let mut all = Launches::new(1);
    all.trigger(0);
    first.iter().for_each(|step| all.rig.global(0, step));
    all.next();
    then.iter().for_each(|step| all.rig.global(0, step));
    all.rig.finds(expected);
}

#[test]
fn what_the_launch_before_wrote_must_not_be_read_or_overwritten_before_the_wait() {
    finds_between(&[write(1)], &[read(2)], &[READ]);
    finds_between(&[write(1)], &[write(2)], &[WRITE]);
    finds_between(&[write(1)], &[atomic(2).one(3, 12)], &[WRITE]);
    finds_between(&[atomic(1).one(3, 12)], &[read(2).bytes(16).at(|lane| lane * 16)], &[READ]);
}

#[test]
fn what_the_launch_before_did_not_touch_may_be_accessed_at_any_time() {
    finds_between(&[write(1)], &[read(2).at(|lane| 128 + lane * 4), write(3).at(|lane| 256 + lane * 4)], &[]);
    finds_between(&[read(1)], &[read(2)], &[]);
}

#[test]
fn bytes_of_one_word_are_told_apart() {
    let byte = |instr, at| write(instr).bytes(1).one(0, at);
    finds_between(&[byte(1, 5)], &[read(2).bytes(1).one(0, 6), byte(3, 4)], &[]);
    finds_between(&[byte(1, 5)], &[read(2).bytes(2).one(0, 4)], &[READ]);
}

#[test]
fn bytes_that_two_blocks_wrote_are_told_apart() {
    let mut all = Launches::new(2);
    all.rig.global(0, &write(1).bytes(1).one(0, 4));
    all.rig.global(1, &write(1).bytes(1).one(0, 5));
    all.next();
    all.rig.global(0, &read(2).bytes(2).one(0, 6));
    all.rig.finds(&[]);
    all.rig.global(0, &read(3).bytes(1).one(0, 5));
    all.rig.finds(&[READ]);
}

#[test]
fn what_the_launch_before_may_still_read_must_not_be_overwritten() {
    finds_between(&[read(1)], &[write(2)], &[OVERWRITE]);
    finds_between(&[read(1)], &[read(2), atomic(3).one(0, 0)], &[]);
    finds_between(&[read(1)], &[atomic(3).one(0, 0)], &[OVERWRITE]);
}

#[test]
fn reads_are_over_before_dependents_begin() {
    for (early, triggers, expected) in [(true, 2, [].as_slice()), (false, 1, &[]), (false, 2, &[OVERWRITE])] {
        let mut all = Launches::new(2);
        if early {
            all.rig.global(0, &read(1));
        }
        (0..triggers).for_each(|block| all.trigger(block));
        if !early {
            all.rig.global(0, &read(1));
        }
        all.next();
        all.rig.global(1, &write(2));
        all.rig.finds(expected);
    }
}

#[test]
fn reads_that_a_later_block_waits_for_before_it_lets_dependents_begin_are_over() {
    let mut all = Launches::new(2);
    all.trigger(0);
    all.rig.global(0, &read(1));
    all.rig.gather(0);
    all.rig.global(0, &write(2).one(0, 512).strong(Order::Release, Scope::Gpu));
    all.rig.global(1, &read(3).one(0, 512).strong(Order::Acquire, Scope::Gpu));
    all.trigger(1);
    all.next();
    all.rig.global(1, &write(4));
    all.rig.finds(&[]);
}

#[test]
fn a_wait_orders_what_its_thread_does_later() {
    let mut all = Launches::new(1);
    all.rig.global(0, &write(1));
    all.next();
    all.wait(0, 0, ALL);
    all.rig.global(0, &read(2));
    all.rig.finds(&[]);
    all.next();
    all.wait(0, 0, 1);
    all.rig.global(0, &write(1).one(0, 0));
    all.rig.finds(&[]);
}

#[test]
fn a_wait_by_one_thread_orders_others_only_through_a_synchronisation() {
    let mut all = Launches::new(1);
    all.rig.global(0, &write(1));
    all.next();
    all.wait(0, 0, 1);
    all.rig.warp_sync(0, ALL);
    all.rig.global(0, &read(2));
    all.rig.finds(&[]);
    all.rig.global(0, &read(3).warp(1).lanes(0xff));
    all.rig.finds(&[READ]);
    all.rig.sync(0);
    all.rig.global(0, &read(4).warp(1));
    all.rig.finds(&[READ]);
}

#[test]
fn a_wait_by_one_lane_does_not_order_the_others_of_its_warp() {
    let mut all = Launches::new(1);
    all.rig.global(0, &write(1));
    all.next();
    all.wait(0, 0, 1);
    all.rig.global(0, &read(2));
    all.rig.finds(&[READ]);
    assert_eq!(all.rig.findings.iter().map(|found| found.count).sum::<u64>(), 31);
}

#[test]
fn a_wait_passes_on_through_the_mbarrier_of_a_copy_behind_it() {
    for waits in [true, false] {
        let mut all = Launches::new(1);
        all.rig.global(0, &write(1).at(|lane| 512 + lane * 4));
        all.next();
        if waits {
            all.wait(0, 0, 1);
        }
        all.bulk_load(64);
        all.rig.finds(&[]);
        all.rig.blocks[0].pass_mbarrier(&all.rig.launch, (1, ALL), 64, true);
        all.rig.global(0, &write(2).warp(1).at(|lane| 512 + lane * 4));
        all.rig.finds(if waits { &[] } else { &[WRITE] });
    }
}

#[test]
fn a_copy_counts_where_it_begins() {
    let mut all = Launches::new(1);
    all.rig.global(0, &write(1).one(0, 60));
    all.next();
    all.bulk_load(48);
    all.rig.finds(&[]);
    all.bulk_load(64);
    all.rig.finds(&[READ]);
}

#[test]
fn a_wait_in_another_block_counts_for_threads_that_have_learnt_of_others() {
    let mut all = Launches::new(2);
    all.rig.global(0, &write(1));
    all.next();
    all.wait(0, 0, ALL);
    all.rig.global(0, &write(2).one(0, 512).strong(Order::Release, Scope::Gpu));
    all.rig.global(1, &read(3).one(0, 512).strong(Order::Acquire, Scope::Gpu));
    all.rig.global(1, &read(4));
    all.rig.finds(&[]);
}

#[test]
fn flags_of_the_launch_before_order_what_lies_before_them() {
    for acquires in [true, false] {
        let mut all = Launches::new(1);
        all.rig.global(0, &write(1));
        all.rig.gather(0);
        all.rig.global(0, &write(2).one(0, 512).strong(Order::Release, Scope::Gpu));
        all.rig.global(0, &write(3).at(|lane| 1024 + lane * 4));
        all.next();
        if acquires {
            all.rig.global(0, &read(4).one(0, 512).strong(Order::Acquire, Scope::Gpu));
        }
        all.rig.global(0, &read(5));
        all.rig.finds(if acquires { &[] } else { &[READ] });
        all.rig.global(0, &read(6).at(|lane| 1024 + lane * 4));
        all.rig.finds(if acquires { &[READ] } else { &[READ, READ] });
    }
}

#[test]
fn what_a_launch_without_a_wait_may_overlap_stays_open_for_the_next() {
    for waits in [true, false] {
        let mut all = Launches::new(1);
        all.rig.global(0, &write(1));
        all.next();
        if waits {
            all.wait(0, 1, 1);
        }
        all.rig.global(0, &write(2).warp(1).one(0, 512));
        all.next();
        all.rig.global(0, &read(3));
        all.rig.finds(if waits { &[] } else { &[READ] });
        all.rig.global(0, &read(4).one(0, 512));
        all.rig.finds(if waits { &[READ] } else { &[READ, READ] });
    }
}

#[test]
fn a_launch_that_lets_dependents_begin_before_it_waits_leaves_open_what_it_waits_for() {
    for first in [true, false] {
        let mut all = Launches::new(1);
        all.rig.global(0, &write(1));
        all.next();
        if first {
            all.trigger(0);
        }
        all.wait(0, 0, ALL);
        all.trigger(0);
        all.rig.global(0, &read(2));
        all.next();
        all.rig.global(0, &read(3));
        all.rig.finds(if first { &[READ] } else { &[] });
    }
}

#[test]
fn a_launch_whose_numbers_began_anew_overlaps_nothing() {
    let mut all = Launches::new(1);
    all.rig.global(0, &write(1));
    let Launches { rig, .. } = &mut all;
    let mut other = DeviceCheck::default();
    let past = std::mem::replace(&mut rig.launch, other.begin(true, || {}));
    rig.launch.overlap(past.into_past(1));
    rig.blocks[0] = BlockCheck::new(4096, 0);
    rig.blocks[0].begin(&rig.launch, 0, 64);
    rig.global(0, &write(2));
    rig.finds(&[]);
}
