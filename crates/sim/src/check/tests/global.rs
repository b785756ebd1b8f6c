//! Global memory: what the shadow remembers, and which bytes were written.

use super::*;
use crate::check::access::Pattern;

#[test]
fn blocks_that_write_and_read_one_word_race() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1));
    rig.global(1, &read(2));
    rig.finds(&[RAW]);
    let found = *rig.findings.iter().next().unwrap();
    assert_eq!(found.other, Some(Side { instr: 1, block: 0, warp: 0, lane: 0 }));
    assert_eq!(found.this, Side { instr: 2, block: 1, warp: 0, lane: 0 });
    assert_eq!((found.address, found.space, found.count), (BASE, Space::Global, 32));
    let mut rig = Rig::new(2, 32);
    rig.global(0, &read(1));
    rig.global(1, &write(2));
    rig.finds(&[WAR]);
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1));
    rig.global(1, &write(2));
    rig.finds(&[WAW]);
}

#[test]
fn blocks_that_write_the_same_value_are_a_warning() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1).values(|_| 3, 0));
    rig.global(1, &write(1).values(|_| 3, 3));
    rig.finds(&[Rule::SameValue]);
}

#[test]
fn a_block_does_not_race_with_itself_across_its_barriers() {
    let mut rig = Rig::new(1, 64);
    for step in [write(1), read(2).warp(1), write(3), atomic(4).warp(1), read(5).at(|lane| lane * 8)] {
        rig.global(0, &step);
        rig.sync(0);
    }
    rig.finds(&[]);
}

#[test]
fn blocks_may_read_the_same_words() {
    let mut rig = Rig::new(4, 32);
    for block in 0..4 {
        rig.global(block, &read(1));
        rig.global(block, &read(2).bytes(2).at(|lane| lane * 2));
        rig.global(block, &read(3).at(|_| 16));
    }
    rig.finds(&[]);
}

#[test]
fn a_reader_is_not_forgotten_when_the_writing_block_reads_too() {
    // Which block it was is known only where blocks can be ordered at all.
    for (orders_blocks, other) in [(true, Some((1, 0))), (false, None)] {
        let mut rig = Rig::of(DeviceCheck::default().begin(orders_blocks, || {}), 2, 32);
        rig.global(0, &read(1));
        rig.global(1, &read(2));
        rig.global(1, &write(3));
        rig.finds(&[WAR]);
        let found = rig.findings.iter().next().unwrap();
        assert_eq!(found.other.map(|other| (other.instr, other.block)), other);
    }
}

#[test]
fn blocks_at_different_words_do_not_race() {
    let mut rig = Rig::new(32, 32);
    for block in 0..32 {
        let words = move |lane: u64| (block as u64 * 32 + lane) * 4;
        rig.global(block, &read(1).at(words));
        rig.global(block, &write(2).at(words));
    }
    rig.finds(&[]);
}

#[test]
fn every_shape_of_access_meets_every_other() {
    let shapes = [
        read(1),
        read(1).bytes(16).at(|lane| lane * 16),
        read(1).bytes(2).at(|lane| lane * 2),
        read(1).bytes(1).at(|lane| lane),
        read(1).bytes(1).at(|lane| lane * 3),
        read(1).at(|lane| (31 - lane) * 4),
        read(1).at(|_| 4),
        read(1).lanes(0b1010),
        read(1).bytes(2).lanes(0x7f).at(|lane| 2 + lane * 2),
    ];
    let as_write = |shape: &Step| {
        let mut step = shape.clone().warp(1);
        step.access.kind = Kind::Write;
        if step.addresses[0] == step.addresses[1] {
            // Lanes of one store at one address would collide.
            step.access.mask = 1;
        }
        step
    };
    for (i, a) in shapes.iter().enumerate() {
        for (j, b) in shapes.iter().enumerate() {
            let touched = |step: &Step| -> Vec<u64> {
                let Step { access, addresses, .. } = step;
                let bytes = u64::from(access.bytes);
                access.lanes().flat_map(|lane| (0..bytes).map(move |k| addresses[lane as usize] + k)).collect()
            };
            let (ours, theirs) = (touched(a), touched(b));
            let meet = ours.iter().any(|byte| theirs.contains(byte));
            for (first, second) in [(as_write(a), b.clone()), (a.clone(), as_write(b)), (as_write(a), as_write(b))] {
                let mut rig = Rig::new(2, 64);
                rig.global(0, &first);
                rig.global(1, &second);
                assert_eq!(!rig.findings.is_empty(), meet, "{i} then {j}: {:#?}", rig.findings);
                for found in rig.findings.iter() {
                    let address = found.address - BASE;
                    assert!(ours.contains(&address) && theirs.contains(&address), "{i} then {j}: {found:?}");
                    let (this, other) = (found.this, found.other.unwrap());
                    for (side, step) in [(this, &second), (other, &first)] {
                        if step.access.bytes < 4
                            && Pattern::of(step.access.mask, &step.addresses, step.access.bytes) == Pattern::Scattered
                        {
                            // Of scattered parts of a word the last lane is named.
                            continue;
                        }
                        let at = step.addresses[side.lane as usize];
                        assert!((at..at + u64::from(step.access.bytes)).contains(&address), "{i} then {j}: {found:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn blocks_may_share_a_word_by_different_bytes() {
    let mut rig = Rig::new(4, 32);
    for _ in 0..2 {
        for block in 0..4 {
            let byte = block as u64;
            rig.global(block, &write(1).bytes(1).at(|lane| lane * 4 + byte));
            rig.global(block, &read(2).bytes(1).at(|lane| lane * 4 + byte));
        }
    }
    rig.finds(&[]);
    rig.global(3, &write(3).bytes(1).at(|lane| lane * 4 + 1));
    rig.finds(&[WAW]);
    assert_eq!(rig.findings.iter().next().unwrap().other.unwrap().block, 1);
}

#[test]
fn a_word_shared_by_bytes_races_with_a_whole_read() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1).bytes(2).one(0, 0));
    rig.global(1, &write(1).bytes(2).one(0, 2));
    rig.global(2, &read(2).one(0, 0));
    rig.finds(&[RAW]);
}

#[test]
fn a_row_of_halves_that_ends_inside_a_word_meets_the_next_row_cleanly() {
    let mut rig = Rig::new(2, 32);
    let row = |block: u64| move |lane: u64| (block * 31 + lane) * 2;
    for block in 0..2u64 {
        rig.global(block as usize, &write(1).bytes(2).lanes(ALL >> 1).at(row(block)));
    }
    for block in 0..2u64 {
        rig.global(block as usize, &read(2).bytes(2).lanes(ALL >> 1).at(row(block)));
    }
    rig.finds(&[]);
}

#[test]
fn atomics_of_blocks_do_not_race() {
    let mut rig = Rig::new(8, 32);
    for block in 0..8 {
        rig.global(block, &atomic(1).at(|_| 0));
        rig.global(block, &atomic(2).at(|lane| lane % 5 * 4));
        rig.global(block, &atomic(3).bytes(8).at(|lane| 64 + lane % 3 * 8));
        rig.global(block, &atomic(4).bytes(2).at(|lane| 128 + lane % 3 * 2));
    }
    rig.finds(&[]);
}

#[test]
fn a_plain_access_races_with_the_atomic_of_another_block() {
    let steps = [(atomic(1), read(2), RAW), (atomic(1), write(2), WAW), (read(1), atomic(2), WAR)];
    for (first, second, rule) in steps {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &first);
        rig.global(1, &second);
        rig.finds(&[rule]);
    }
}

#[test]
fn an_atomic_of_another_block_races_with_what_comes_before_it_in_its_own() {
    for (plain, rule) in [(read(2), WAR), (write(2), WAW)] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &atomic(1));
        rig.global(1, &atomic(1));
        rig.global(1, &plain);
        rig.finds(&[]);
        rig.global(0, &atomic(1));
        rig.finds(&[rule]);
    }
}

#[test]
fn a_strong_store_of_another_block_is_remembered_behind_the_own_one() {
    let store = write(1).strong(Order::Relaxed, Scope::Gpu);
    for (plain, rule) in [(read(2), RAW), (write(2), WAW)] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &store);
        rig.global(1, &store);
        rig.global(1, &plain);
        rig.finds(&[rule]);
    }
}

#[test]
fn atomics_of_block_scope_do_not_exclude_one_another_across_blocks() {
    let mut rig = Rig::new(2, 32);
    let narrow = atomic(1).strong(Order::Relaxed, Scope::Block);
    rig.global(0, &narrow);
    rig.global(0, &narrow.clone().warp(1));
    rig.finds(&[]);
    rig.global(1, &narrow);
    rig.finds(&[Rule::InsufficientScope]);
}

#[test]
fn a_kernel_boundary_orders_everything() {
    let mut device = DeviceCheck::default();
    let mut rig = Rig::of(device.begin(true, || {}), 2, 32);
    rig.global(0, &write(1));
    rig.global(0, &read(2).at(|lane| 256 + lane * 4));
    rig.global(0, &write(5).bytes(1).at(|lane| 512 + lane * 4));
    rig.global(1, &write(5).bytes(1).at(|lane| 513 + lane * 4));
    device.end(&rig.launch, &mut rig.findings);
    let mut next = Rig::of(device.begin(true, || {}), 2, 32);
    std::mem::swap(&mut next.shadow, &mut rig.shadow);
    next.global(1, &read(3));
    next.global(1, &write(4).at(|lane| 256 + lane * 4));
    next.global(0, &write(6).bytes(1).at(|lane| 513 + lane * 4));
    next.finds(&[]);
    rig.finds(&[]);
}

#[test]
fn bytes_that_nobody_wrote_are_reported_exactly() {
    let mut rig = Rig::new(1, 32);
    rig.shadow = GlobalShadow::new(BASE, BYTES);
    rig.shadow.mark_written(BASE + 5, 2);
    rig.global(0, &read(1).bytes(1).one(0, 5));
    rig.global(0, &read(1).bytes(2).one(0, 6).lanes(0));
    rig.finds(&[]);
    rig.global(0, &read(2).bytes(2).one(3, 4));
    rig.finds(&[Rule::Uninitialized]);
    let found = *rig.findings.iter().next().unwrap();
    assert_eq!((found.address, found.this.lane), (BASE + 4, 3));
}

#[test]
fn what_the_device_writes_counts_as_written_for_the_next_launch_too() {
    let mut rig = Rig::new(1, 32);
    rig.shadow = GlobalShadow::new(BASE, BYTES);
    rig.global(0, &write(1));
    rig.global(0, &write(2).bytes(1).at(|lane| 200 + lane));
    rig.global(0, &read(3));
    rig.global(0, &read(4).bytes(1).at(|lane| 200 + lane));
    rig.shadow.forget();
    rig.global(0, &read(3));
    rig.finds(&[]);
    assert_eq!(rig.shadow.first_unwritten(BASE, 128), None);
    assert_eq!(rig.shadow.first_unwritten(BASE, 129), Some(BASE + 128));
}

#[test]
fn host_writes_of_any_extent_mark_exactly_their_bytes() {
    let bytes = 3 * 32768 + 10;
    for (start, end) in [(0, bytes), (1, 40_000), (32_768, 65_536), (32_770, 98_311), (98_304, bytes), (7, 9)] {
        let shadow = GlobalShadow::new(BASE, bytes);
        shadow.mark_written(BASE + start, end - start);
        assert_eq!(shadow.first_unwritten(BASE + start, end - start), None);
        if start > 0 {
            assert_eq!(shadow.first_unwritten(BASE + start - 1, 1), Some(BASE + start - 1));
        }
        if end < bytes {
            assert_eq!(shadow.first_unwritten(BASE + end, 1), Some(BASE + end));
        }
    }
    let shadow = GlobalShadow::new(BASE, bytes);
    shadow.mark_written(BASE + 3, 1);
    shadow.mark_all_written();
    assert_eq!(shadow.first_unwritten(BASE, bytes), None);
}

#[test]
fn an_atomic_on_unwritten_memory_reads_it() {
    let mut rig = Rig::new(1, 32);
    rig.shadow = GlobalShadow::new(BASE, BYTES);
    rig.global(0, &atomic(1).at(|_| 0));
    rig.finds(&[Rule::Uninitialized]);
}
