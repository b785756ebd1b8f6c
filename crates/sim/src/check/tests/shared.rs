//! Shared memory: what the shadow remembers of words and bytes.

use super::*;

#[test]
fn a_read_of_what_another_warp_wrote_races() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn a_write_over_what_another_warp_read_races() {
    let mut rig = Rig::filled(64);
    rig.shared(&read(1));
    rig.shared(&write(2).warp(1));
    rig.finds(&[WAR]);
}

#[test]
fn a_write_over_what_another_warp_wrote_races() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.shared(&write(2).warp(1));
    rig.finds(&[WAW]);
}

#[test]
fn the_same_value_written_by_two_warps_is_a_warning() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1).values(|_| 7, 0));
    rig.shared(&write(1).warp(1).values(|_| 7, 7));
    rig.finds(&[Rule::SameValue]);
    rig.shared(&write(1).warp(1).values(|_| 8, 7));
    rig.finds(&[Rule::SameValue]);
    rig.shared(&write(1).values(|_| 9, 8));
    rig.finds(&[WAW]);
}

#[test]
fn reads_do_not_race_with_reads() {
    let mut rig = Rig::filled(1024);
    for warp in 0..32 {
        rig.shared(&read(1).warp(warp));
        rig.shared(&read(2).warp(warp).at(|_| 64));
        rig.shared(&read(3).warp(warp).at(|lane| lane * 36));
    }
    rig.finds(&[]);
}

#[test]
fn a_finding_names_both_sides_and_the_address() {
    let mut rig = Rig::filled(128);
    rig.shared(&write(11).warp(2).lanes(0b1000).at(|_| 0x40));
    rig.shared(&read(12).warp(3).lanes(0b10_0000).at(|_| 0x40));
    let found = *rig.findings.iter().next().unwrap();
    assert_eq!(found.this, Side { instr: 12, block: 0, warp: 3, lane: 5 });
    assert_eq!(found.other, Some(Side { instr: 11, block: 0, warp: 2, lane: 3 }));
    assert_eq!((found.space, found.address, found.count), (Space::Shared, 0x40, 1));
}

#[test]
fn a_pair_of_instructions_is_reported_once_with_a_count() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.shared(&read(2).warp(1));
    rig.shared(&read(3).warp(1));
    let counts: Vec<_> = rig.findings.iter().map(|found| found.count).collect();
    assert_eq!(counts, [32, 32]);
}

#[test]
fn a_reader_is_remembered_behind_later_readers_of_other_warps() {
    for writer in 0..3 {
        let mut rig = Rig::filled(96);
        for warp in 0..3 {
            rig.shared(&read(1).warp(warp));
        }
        rig.shared(&write(2).warp(writer));
        rig.finds(&[WAR]);
    }
}

#[test]
fn wide_accesses_cover_all_their_words() {
    for bytes in [8, 16] {
        for word in 0..u64::from(bytes) / 4 {
            let mut rig = Rig::filled(64);
            rig.shared(&write(1).bytes(bytes).at(|lane| lane * u64::from(bytes)));
            rig.shared(&read(2).warp(1).one(9, 5 * u64::from(bytes) + word * 4));
            rig.finds(&[RAW]);
            assert_eq!(rig.findings.iter().next().unwrap().other.unwrap().lane, 5);
        }
    }
}

#[test]
fn every_shape_of_access_is_checked_and_recorded() {
    let shapes: [(&str, Step, Step); 5] = [
        ("contiguous", write(1), read(2)),
        ("prefix", write(1).lanes(0xff), read(2).lanes(0xff)),
        ("scattered", write(1).at(|lane| lane * 8 % 124), read(2).at(|lane| lane * 8 % 124)),
        ("uniform", write(1).lanes(1), read(2).at(|_| 0)),
        ("holes", write(1).lanes(0x5555_5555), read(2).lanes(0x5555_5555)),
    ];
    for (name, write, read) in shapes {
        let mut rig = Rig::filled(64);
        rig.shared(&write.clone().lanes(write.access.mask & 0xffff));
        rig.shared(&read.clone().warp(1));
        assert!(rig.findings.iter().any(|found| found.rule == RAW && found.severity() == Severity::Error), "{name}");
        let mut rig = Rig::filled(64);
        rig.shared(&read);
        rig.shared(&write.clone().lanes(write.access.mask & 0xffff).warp(1));
        assert!(rig.findings.iter().any(|found| found.rule == WAR && found.severity() == Severity::Error), "{name}");
    }
}

#[test]
fn neighbouring_bytes_of_one_word_do_not_race() {
    for bytes in [1, 2] {
        let mut rig = Rig::filled(64);
        let step = u64::from(bytes);
        rig.shared(&write(1).bytes(bytes).at(|lane| lane * 2 * step));
        rig.shared(&write(2).warp(1).bytes(bytes).at(|lane| (lane * 2 + 1) * step));
        rig.shared(&read(3).bytes(bytes).at(|lane| lane * 2 * step));
        rig.finds(&[]);
    }
}

#[test]
fn one_shared_byte_is_enough_for_a_race() {
    for byte in 0..4 {
        let mut rig = Rig::filled(64);
        rig.shared(&write(1).bytes(1).one(0, 8 + byte));
        rig.shared(&read(2).warp(1).one(0, 8));
        rig.finds(&[RAW]);
        assert_eq!(rig.findings.iter().next().unwrap().address, 8 + byte);
    }
}

#[test]
fn a_word_written_whole_races_with_a_byte_of_it() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    rig.shared(&write(2).warp(1).bytes(1).one(3, 18));
    rig.finds(&[WAW]);
    assert_eq!(rig.findings.iter().next().unwrap().other.unwrap().lane, 4);
}

#[test]
fn a_split_word_is_whole_again_after_a_barrier() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1).bytes(1).one(0, 8));
    rig.sync(0);
    rig.shared(&read(2).warp(1));
    rig.shared(&read(3));
    rig.finds(&[]);
    rig.shared(&write(4));
    rig.finds(&[WAR]);
}

#[test]
fn unwritten_bytes_are_reported_exactly() {
    let mut rig = Rig::new(1, 32);
    rig.shared(&write(1).bytes(1).one(0, 5));
    rig.shared(&read(2).bytes(1).one(0, 5));
    rig.finds(&[]);
    rig.shared(&read(3).bytes(2).one(0, 4));
    rig.finds(&[Rule::Uninitialized]);
    assert_eq!(rig.findings.iter().next().unwrap().address, 4);
}

#[test]
fn an_atomic_on_unwritten_memory_reads_it() {
    let mut rig = Rig::new(1, 32);
    rig.shared(&atomic(1).at(|_| 0));
    rig.finds(&[Rule::Uninitialized]);
}

#[test]
fn a_contiguous_read_finds_the_one_unwritten_word() {
    let mut rig = Rig::new(1, 32);
    rig.shared(&write(1).lanes(!(1 << 17)));
    rig.shared(&read(2));
    rig.finds(&[Rule::Uninitialized]);
    let found = *rig.findings.iter().next().unwrap();
    assert_eq!((found.address, found.this.lane, found.count), (68, 17, 1));
}

#[test]
fn the_next_block_starts_with_unwritten_memory_and_no_records() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    let Rig { launch, blocks, .. } = &mut rig;
    blocks[0].begin(launch, 7, 64);
    rig.shared(&write(2).warp(1));
    rig.finds(&[]);
    rig.shared(&read(3).warp(1).at(|lane| 128 + lane * 4));
    rig.finds(&[Rule::Uninitialized]);
    assert_eq!(rig.findings.iter().next().unwrap().this.block, 7);
}

#[test]
fn atomics_do_not_race_with_atomics() {
    let mut rig = Rig::filled(1024);
    for warp in 0..32 {
        rig.shared(&atomic(1).warp(warp).at(|_| 0));
        rig.shared(&atomic(2).warp(warp).at(|lane| lane % 4 * 4));
    }
    rig.finds(&[]);
}

#[test]
fn strong_accesses_do_not_race_with_one_another() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1).strong(Order::Relaxed, Scope::System));
    rig.shared(&read(2).strong(Order::Relaxed, Scope::Block).warp(1));
    rig.shared(&write(3).strong(Order::Relaxed, Scope::Block).warp(1));
    rig.shared(&atomic(4));
    rig.finds(&[]);
}

#[test]
fn a_plain_access_races_with_an_unordered_atomic() {
    let mut rig = Rig::filled(64);
    rig.shared(&atomic(1).at(|_| 0));
    rig.shared(&read(2).warp(1).at(|_| 0));
    rig.finds(&[RAW]);
    let mut rig = Rig::filled(64);
    rig.shared(&read(1).at(|_| 0));
    rig.shared(&atomic(2).warp(1).at(|_| 0));
    rig.finds(&[WAR]);
    let mut rig = Rig::filled(64);
    rig.shared(&atomic(1).at(|_| 0));
    rig.shared(&write(2).warp(1).one(0, 0));
    rig.finds(&[WAW]);
}

#[test]
fn a_strong_store_of_another_warp_is_remembered_behind_the_own_one() {
    let store = write(1).strong(Order::Relaxed, Scope::Block);
    let mut rig = Rig::filled(64);
    rig.shared(&store.clone().warp(1).one(0, 0));
    rig.shared(&store.one(0, 0));
    rig.shared(&read(2).one(0, 0));
    rig.finds(&[RAW]);
}

#[test]
fn an_atomic_of_another_warp_races_with_what_comes_before_it_in_its_own() {
    let mut rig = Rig::filled(64);
    rig.shared(&atomic(1).warp(1).at(|_| 0));
    rig.shared(&atomic(1).one(0, 0));
    rig.shared(&read(2).one(0, 0));
    rig.finds(&[]);
    rig.shared(&atomic(1).warp(1).at(|_| 0));
    rig.finds(&[WAR]);
}

#[test]
fn atomics_then_a_barrier_then_plain_reads_are_fine() {
    let mut rig = Rig::filled(64);
    for warp in 0..2 {
        rig.shared(&atomic(1).warp(warp).at(|lane| lane % 7 * 4));
    }
    rig.sync(0);
    for warp in 0..2 {
        rig.shared(&read(2).warp(warp));
    }
    rig.finds(&[]);
}

#[test]
fn a_store_comes_after_the_strong_writes_that_its_thread_has_observed() {
    let (cta, relaxed) = (Scope::Block, Order::Relaxed);
    for observes in [false, true] {
        let mut rig = Rig::filled(64);
        rig.shared(&write(1).strong(relaxed, cta).one(0, 0));
        if observes {
            rig.shared(&read(2).strong(relaxed, cta).warp(1).one(0, 0));
        }
        rig.shared(&write(3).warp(1).one(0, 0));
        rig.finds(if observes { &[] } else { &[WAW] });
    }
}

#[test]
fn a_store_comes_after_the_atomics_that_its_threads_atomic_built_on() {
    for lane in [0, 1] {
        let mut rig = Rig::filled(96);
        for warp in 0..3 {
            rig.shared(&atomic(1).warp(warp).one(0, 0));
        }
        rig.shared(&write(2).warp(2).one(lane, 0));
        assert_eq!(rig.findings.is_empty(), lane == 0, "{:?}", rig.findings);
    }
}
