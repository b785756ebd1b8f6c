//! Words that several blocks read before another writes them.

use std::sync::atomic::Ordering;

use super::*;
use crate::check::global::shadow::Cell;

const FLAG: u64 = 4096;

fn release(block: u64) -> Step {
    write(50).strong(Order::Release, Scope::Gpu).one(0, FLAG + block * 4)
}

fn acquire(block: u64) -> Step {
    read(51).strong(Order::Acquire, Scope::Gpu).at(|_| FLAG + block * 4)
}

/// All but the last block read; those in `announced` release, and the last block acquires from them
/// and writes.
fn overwritten(blocks: usize, announced: impl Fn(usize) -> bool, reader: impl Fn(usize) -> Step, writer: &Step) -> Rig {
    let mut rig = Rig::new(blocks as u32, 32);
    let last = blocks - 1;
    for block in 0..last {
        rig.global(block, &reader(block));
        rig.gather(block);
        if announced(block) {
            rig.global(block, &release(block as u64));
        }
    }
    for block in (0..last).filter(|&block| announced(block)) {
        rig.global(last, &acquire(block as u64));
    }
    rig.global(last, writer);
    rig
}

#[test]
fn each_of_several_readers_counts_once_the_writer_has_acquired() {
    for missing in 0..4 {
        overwritten(5, |block| block != missing, |_| read(1), &write(2)).finds(&[WAR]);
    }
    overwritten(5, |_| true, |_| read(1), &write(2)).finds(&[]);
}

#[test]
fn each_of_several_readers_counts_for_every_shape_of_write() {
    let atomic = atomic(2);
    let strong = write(2).strong(Order::Relaxed, Scope::Gpu);
    let bytes = write(2).bytes(1).at(|lane| lane * 4);
    let scattered = write(2).at(|lane| (31 - lane) * 4);
    for writer in [atomic, strong, bytes, scattered] {
        overwritten(4, |block| block == 2, |_| read(1), &writer).finds(&[WAR]);
        overwritten(4, |_| true, |_| read(1), &writer).finds(&[]);
    }
}

#[test]
fn each_of_several_readers_counts_for_every_shape_of_read() {
    let shapes: [fn() -> Step; 4] = [
        || read(1).at(|lane| (31 - lane) * 4),
        || read(1).bytes(2).at(|lane| lane * 2),
        || read(1).bytes(1).at(|lane| lane * 4),
        || read(1).at(|_| 0),
    ];
    for shape in shapes {
        overwritten(4, |block| block == 2, |_| shape(), &write(2)).finds(&[WAR]);
        overwritten(4, |_| true, |_| shape(), &write(2)).finds(&[]);
    }
}

#[test]
fn readers_with_different_histories_are_kept_apart() {
    // Block 0 reads all words, block 1 the even ones, and only block 1 releases.
    let reader = |block| if block == 0 { read(1) } else { read(2).lanes(0x5555_5555) };
    let rig = overwritten(3, |block| block == 1, reader, &write(3));
    assert_eq!(rig.findings.iter().map(|found| found.count).sum::<u64>(), 32);
    let rig = overwritten(3, |block| block == 0, reader, &write(3));
    assert_eq!(rig.findings.iter().map(|found| found.count).sum::<u64>(), 16);
}

#[test]
fn a_reader_that_knows_the_one_before_stands_for_it() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &read(1));
    rig.global(0, &release(0));
    rig.global(1, &acquire(0));
    rig.global(1, &read(1));
    rig.global(1, &release(1));
    rig.global(2, &acquire(1));
    rig.global(2, &write(2));
    rig.finds(&[]);
}

#[test]
fn a_strong_reader_does_not_stand_for_a_plain_one() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &read(1).one(0, 0));
    rig.global(0, &release(0));
    rig.global(1, &acquire(0));
    rig.global(1, &read(3).strong(Order::Relaxed, Scope::Gpu).one(0, 0));
    rig.global(2, &atomic(2).one(0, 0));
    rig.finds(&[WAR]);
}

#[test]
fn blocks_that_take_turns_reading_need_no_more_numbers_than_blocks_that_read_once() {
    let mut rig = Rig::new(3, 64);
    let begin = rig.launch.batch().unwrap().start;
    for _ in 0..20_000 {
        for block in 0..2 {
            for warp in 0..2 {
                rig.global(block, &read(1 + warp).warp(warp));
            }
        }
    }
    let end = rig.launch.batch().unwrap().start;
    assert!(end - begin <= 1024, "{}", end - begin);
    rig.global(0, &release(0));
    rig.global(2, &acquire(0));
    rig.global(2, &write(3));
    rig.finds(&[WAR]);
}

#[test]
fn blocks_that_read_again_after_each_release_are_in_a_list_once() {
    let mut rig = Rig::new(3, 32);
    for _ in 0..1000 {
        for block in 0..2 {
            rig.global(block, &read(1));
            rig.global(block, &release(block as u64));
        }
    }
    let list = Cell(rig.shadow.cell(0).load(Ordering::Relaxed)).reader();
    assert!((2..=64).contains(&rig.launch.readers(list).unwrap().count));
    rig.global(2, &acquire(0));
    rig.global(2, &acquire(1));
    rig.global(2, &write(2));
    rig.finds(&[]);
}

#[test]
fn many_blocks_reading_one_word_are_all_remembered_and_cheap() {
    let mut rig = Rig::new(1, 32);
    let begin = std::time::Instant::now();
    let num = 20_000;
    for block in 0..num {
        let Rig { launch, blocks, .. } = &mut rig;
        blocks[0].begin(launch, block, 32);
        rig.global(0, &read(1));
        if block != 7 {
            rig.global(0, &step(50, Kind::Atomic, Strength::Strong(Order::Release, Scope::Gpu)).one(0, FLAG));
        }
    }
    let Rig { launch, blocks, .. } = &mut rig;
    blocks[0].begin(launch, num, 32);
    rig.global(0, &acquire(0));
    rig.global(0, &write(2));
    rig.finds(&[WAR]);
    let found = rig.findings.iter().next().unwrap();
    assert_eq!(found.other.map(|other| other.block), Some(7));
    assert!(cfg!(debug_assertions) || begin.elapsed().as_secs() < 10);
}

#[test]
fn a_reader_outlives_the_strong_reads_of_those_who_poll() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &read(1).one(0, 0));
    for _ in 0..100 {
        rig.global(1, &read(3).strong(Order::Relaxed, Scope::Gpu).one(0, 0));
    }
    rig.global(1, &release(1));
    rig.global(2, &acquire(1));
    rig.global(2, &write(2).one(0, 0));
    rig.finds(&[WAR]);
}
