//! Order between blocks.

use super::*;

const FLAG: u64 = 4096;

fn store_flag(semantics: Order, scope: Scope) -> Step {
    write(50).strong(semantics, scope).one(0, FLAG)
}

fn load_flag(semantics: Order, scope: Scope) -> Step {
    read(51).strong(semantics, scope).at(|_| FLAG)
}

#[test]
fn release_and_acquire_order_blocks() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(1, &read(2));
    rig.global(1, &write(3));
    rig.finds(&[]);
}

#[test]
fn what_follows_the_release_is_not_covered() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(0, &write(1).at(|lane| 256 + lane * 4));
    rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(1, &read(2));
    rig.finds(&[]);
    rig.global(1, &read(2).at(|lane| 256 + lane * 4));
    rig.finds(&[RAW]);
}

#[test]
fn relaxed_accesses_order_blocks_only_with_both_fences() {
    for (first, second) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &write(1));
        rig.gather(0);
        if first {
            rig.fence(0, 0, Scope::Gpu);
        }
        rig.global(0, &store_flag(Order::Relaxed, Scope::Gpu));
        rig.global(1, &load_flag(Order::Relaxed, Scope::Gpu));
        if second {
            rig.fence(1, 0, Scope::System);
        }
        rig.global(1, &read(2));
        if first && second {
            rig.finds(&[]);
        } else {
            rig.finds(&[RAW]);
        }
    }
}

#[test]
fn block_scope_anywhere_in_the_chain_is_called_insufficient() {
    let (gpu, cta) = (Scope::Gpu, Scope::Block);
    for scopes in [[cta, gpu], [gpu, cta], [cta, cta]] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &write(1));
        rig.fence(0, 0, scopes[0]);
        rig.global(0, &store_flag(Order::Relaxed, gpu));
        rig.global(1, &load_flag(Order::Relaxed, gpu));
        rig.fence(1, 0, scopes[1]);
        rig.global(1, &read(2));
        rig.finds(&[Rule::InsufficientScope]);
    }
}

#[test]
fn a_wide_fence_after_a_narrow_one_makes_good() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.fence(0, 0, Scope::Block);
    rig.fence(0, 0, Scope::Gpu);
    rig.global(0, &store_flag(Order::Relaxed, Scope::Gpu));
    rig.global(1, &load_flag(Order::Relaxed, Scope::Gpu));
    rig.fence(1, 0, Scope::Block);
    rig.fence(1, 0, Scope::Gpu);
    rig.global(1, &read(2));
    rig.finds(&[]);
}

#[test]
fn order_between_blocks_is_transitive() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(1, &write(52).strong(Order::Release, Scope::Gpu).one(0, FLAG + 4));
    rig.global(2, &read(53).strong(Order::Acquire, Scope::Gpu).at(|_| FLAG + 4));
    rig.global(2, &read(2));
    rig.finds(&[]);
}

#[test]
fn a_later_block_that_did_not_acquire_races() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1));
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(2, &read(2));
    rig.finds(&[RAW]);
}

/// What may be left out of the last-block pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Omit {
    Nothing,
    BarrierBefore,
    FenceBefore,
    FenceAfter,
    BarrierAfter,
}

/// Every block of two warps writes its part, takes a ticket, and the last one reads all parts.
fn last_block(omit: Omit) -> Rig {
    const BLOCKS: usize = 4;
    let mut rig = Rig::new(BLOCKS as u32, 64);
    let part = |block: usize, warp: u32| move |lane: u64| (block as u64 * 64 + u64::from(warp) * 32 + lane) * 4;
    for block in 0..BLOCKS {
        for warp in 0..2 {
            rig.global(block, &write(1).warp(warp).at(part(block, warp)));
        }
        if omit != Omit::BarrierBefore {
            rig.sync(block);
        }
        if omit != Omit::FenceBefore {
            rig.fence(block, 0, Scope::Gpu);
        }
        rig.global(block, &atomic(2).one(0, FLAG));
        if block == BLOCKS - 1 {
            if omit != Omit::FenceAfter {
                rig.fence(block, 0, Scope::Gpu);
            }
            if omit != Omit::BarrierAfter {
                rig.sync(block);
            }
            for other in 0..BLOCKS {
                for warp in 0..2 {
                    rig.global(block, &read(3).warp(warp).at(part(other, 1 - warp)));
                }
            }
        }
    }
    rig
}

#[test]
fn the_last_block_pattern_is_clean() {
    last_block(Omit::Nothing).finds(&[]);
}

#[test]
fn the_last_block_pattern_needs_each_of_its_fences_and_barriers() {
    for omit in [Omit::BarrierBefore, Omit::FenceBefore, Omit::BarrierAfter] {
        let rig = last_block(omit);
        assert!(rig.findings.iter().any(|found| found.severity() == Severity::Error), "{omit:?}");
    }
}

#[test]
fn an_acquire_that_lacks_before_a_barrier_is_a_warning_of_its_own() {
    let rig = last_block(Omit::FenceAfter);
    assert!(!rig.findings.is_empty());
    assert!(rig.findings.iter().all(|found| found.rule == Rule::MissingAcquire), "{:?}", rig.findings);
}

#[test]
fn a_fence_by_every_thread_before_the_barrier_covers_their_writes() {
    let mut rig = Rig::new(2, 64);
    for warp in 0..2u32 {
        rig.global(0, &write(1).warp(warp).at(|lane| (u64::from(warp) * 32 + lane) * 4));
        rig.fence(0, warp, Scope::Gpu);
    }
    rig.sync(0);
    rig.global(0, &atomic(2).one(0, FLAG));
    rig.global(1, &atomic(2).one(0, FLAG));
    rig.sync(1);
    for warp in 0..2 {
        rig.fence(1, warp, Scope::Gpu);
    }
    rig.global(1, &read(3).bytes(8).at(|lane| lane * 8));
    rig.global(1, &read(4).warp(1).bytes(8).at(|lane| lane * 8));
    rig.finds(&[]);
}

/// All blocks count up at one location and wait until all have.
fn grid_barrier(rig: &mut Rig) {
    for block in 0..rig.blocks.len() {
        rig.sync(block);
        rig.fence(block, 0, Scope::Gpu);
        rig.global(block, &atomic(60).one(0, FLAG));
    }
    for block in 0..rig.blocks.len() {
        rig.global(block, &read(61).strong(Order::Relaxed, Scope::Gpu).one(0, FLAG));
        rig.fence(block, 0, Scope::Gpu);
        rig.sync(block);
    }
}

#[test]
fn a_grid_barrier_made_of_atomics_orders_all_blocks() {
    for barriers in [false, true] {
        let mut rig = Rig::new(5, 64);
        for round in 0..4u64 {
            for block in 0..5u64 {
                for warp in 0..2u32 {
                    let from = ((block + round) % 5 * 64 + u64::from(warp) * 32) * 4;
                    rig.global(block as usize, &read(1).warp(warp).at(|lane| from + lane * 4));
                    rig.global(block as usize, &write(2).warp(1 - warp).at(|lane| 32768 + from + lane * 4));
                }
            }
            if barriers {
                grid_barrier(&mut rig);
            }
            for block in 0..5u64 {
                let own = block * 256;
                rig.global(block as usize, &write(3).bytes(8).at(|lane| own + lane * 8));
                rig.global(block as usize, &read(4).warp(1).bytes(8).at(|lane| 32768 + own + lane * 8));
            }
            if barriers {
                grid_barrier(&mut rig);
            }
        }
        assert_eq!(rig.findings.is_empty(), barriers, "{:#?}", rig.findings);
    }
}

#[test]
fn a_look_back_over_many_blocks_is_clean_and_cheap() {
    const BLOCKS: u64 = 20_000;
    let mut rig = Rig::new(1, 32);
    rig.shadow = GlobalShadow::new(BASE, BLOCKS * 8);
    rig.shadow.mark_all_written();
    for block in 0..BLOCKS {
        let Rig { launch, blocks, .. } = &mut rig;
        blocks[0].begin(launch, block as u32, 32);
        if block > 0 {
            rig.global(0, &read(1).strong(Order::Acquire, Scope::Gpu).one(0, (block - 1) * 8));
            rig.global(0, &read(2).one(0, block / 2 * 8 + 4));
        }
        rig.global(0, &write(3).one(0, block * 8 + 4));
        rig.global(0, &write(4).strong(Order::Release, Scope::Gpu).one(0, block * 8));
    }
    rig.finds(&[]);
    let Rig { launch, blocks, .. } = &mut rig;
    blocks[0].begin(launch, BLOCKS as u32, 32);
    rig.global(0, &read(2).one(0, 4));
    rig.finds(&[RAW]);
}

#[test]
fn without_ordering_instructions_the_bookkeeping_is_off_but_races_are_found() {
    let mut rig = Rig::of(DeviceCheck::default().begin(false, || {}), 2, 64);
    rig.global(0, &write(1));
    rig.sync(0);
    rig.global(0, &write(1).warp(1).at(|lane| 256 + lane * 4));
    rig.finds(&[]);
    rig.global(1, &read(2).at(|lane| 256 + lane * 4));
    rig.finds(&[RAW]);
}

#[test]
fn a_write_at_two_times_is_covered_only_as_far_as_released() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1).bytes(2).at(|lane| lane * 4));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(0, &write(1).bytes(2).at(|lane| lane * 4 + 2));
    rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(1, &read(2).bytes(2).at(|lane| lane * 4));
    rig.finds(&[]);
    rig.global(1, &read(3).bytes(2).at(|lane| lane * 4 + 2));
    rig.finds(&[RAW]);
}

#[test]
fn a_relaxed_store_by_another_block_ends_what_a_location_carries() {
    for (kind, broken) in [(Kind::Write, true), (Kind::Atomic, false)] {
        let mut rig = Rig::new(3, 32);
        rig.global(0, &write(1));
        rig.gather(0);
        rig.global(0, &store_flag(Order::Release, Scope::Gpu));
        rig.global(1, &step(60, kind, Strength::Strong(Order::Relaxed, Scope::Gpu)).one(0, FLAG));
        rig.global(2, &load_flag(Order::Acquire, Scope::Gpu));
        rig.global(2, &read(2));
        rig.finds(if broken { &[RAW] } else { &[] });
    }
}

#[test]
fn a_store_that_releases_replaces_what_another_block_released() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(1, &write(2).at(|lane| 256 + lane * 4));
    rig.gather(1);
    rig.fence(1, 0, Scope::Gpu);
    rig.global(1, &store_flag(Order::Relaxed, Scope::Gpu));
    rig.global(2, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(2, &read(3).at(|lane| 256 + lane * 4));
    rig.finds(&[]);
    rig.global(2, &read(3));
    rig.finds(&[RAW]);
}

#[test]
fn a_relaxed_store_carries_on_what_its_own_block_released() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(1, &store_flag(Order::Relaxed, Scope::Gpu));
    rig.global(0, &store_flag(Order::Relaxed, Scope::Gpu));
    rig.global(2, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(2, &read(2));
    rig.finds(&[]);
}

#[test]
fn an_acquire_makes_good_for_relaxed_reads_of_its_location_before() {
    let mut rig = Rig::new(3, 32);
    rig.global(0, &write(1));
    rig.gather(0);
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(2, &load_flag(Order::Relaxed, Scope::Gpu));
    rig.global(1, &store_flag(Order::Relaxed, Scope::Gpu));
    rig.global(2, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(2, &read(2));
    rig.finds(&[]);
}

#[test]
fn a_release_covers_other_lanes_only_once_something_has_gathered_them() {
    let gathered: [Option<fn(&mut Rig)>; 3] = [None, Some(|rig| rig.gather(0)), Some(|rig| rig.sync(0))];
    for gather in gathered {
        for semantics in [Order::Release, Order::Relaxed] {
            let mut rig = Rig::new(2, 64);
            rig.global(0, &write(1));
            if let Some(gather) = gather {
                gather(&mut rig);
            }
            rig.blocks[0].fence(&rig.launch, (0, 1), Scope::Gpu, FenceKind::Both);
            rig.global(0, &store_flag(semantics, Scope::Gpu));
            rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
            rig.global(1, &read(2).lanes(1));
            rig.finds(&[]);
            rig.global(1, &read(2));
            rig.finds(if gather.is_some() { &[] } else { &[UNGATHERED] });
        }
    }
}

#[test]
fn a_fence_by_all_lanes_covers_those_that_a_warp_sync_gathers_before_the_store() {
    for gathered in [false, true] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &write(1));
        rig.fence(0, 0, Scope::Gpu);
        if gathered {
            rig.gather(0);
        }
        rig.global(0, &store_flag(Order::Relaxed, Scope::Gpu));
        rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
        rig.global(1, &read(2));
        rig.finds(if gathered { &[] } else { &[UNGATHERED] });
    }
}

#[test]
fn a_release_by_all_lanes_covers_all_lanes() {
    for semantics in [Order::Release, Order::Relaxed] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &write(1));
        rig.fence(0, 0, Scope::Gpu);
        rig.global(0, &store_flag(semantics, Scope::Gpu).lanes(ALL));
        rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
        rig.global(1, &read(2));
        rig.finds(&[]);
    }
}

#[test]
fn lanes_that_are_not_known_exactly_count_as_gathered() {
    // Each lane stores a byte of a word and the first releases its own; the word remembers the last
    // lane.
    let mut rig = Rig::new(2, 32);
    for lane in 0..4 {
        rig.global(0, &write(1).bytes(1).one(lane, u64::from(lane)));
    }
    rig.global(0, &store_flag(Order::Release, Scope::Gpu));
    rig.global(1, &load_flag(Order::Acquire, Scope::Gpu));
    rig.global(1, &read(2).bytes(1).one(0, 0));
    rig.finds(&[]);
    // Two blocks read by different lanes, and each releases by the lane that read.
    let mut rig = Rig::new(3, 32);
    for block in 0..2u32 {
        rig.global(block as usize, &read(1).one(block, 0));
        rig.global(block as usize, &store_flag(Order::Release, Scope::Gpu).one(block, FLAG + u64::from(block) * 4));
        rig.global(2, &load_flag(Order::Acquire, Scope::Gpu).one(0, FLAG + u64::from(block) * 4));
    }
    rig.global(2, &write(2).one(0, 0));
    rig.finds(&[]);
}

/// A relaxed atomic on the flag by lane 0.
fn ticket(instr: u32) -> Step {
    atomic(instr).one(0, FLAG)
}

#[test]
fn a_store_comes_after_the_atomics_that_its_threads_atomic_has_observed() {
    let mut rig = Rig::new(4, 64);
    for block in 0..4 {
        rig.global(block, &ticket(1));
    }
    rig.global(3, &write(2).one(0, FLAG));
    rig.finds(&[]);
}

#[test]
fn a_store_before_the_other_atomics_races_with_them() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &ticket(1));
    rig.global(1, &ticket(1));
    rig.global(0, &write(2).one(0, FLAG));
    rig.finds(&[WAW]);
}

#[test]
fn a_store_comes_after_the_strong_store_that_its_threads_read_has_observed() {
    for reads in [false, true] {
        let mut rig = Rig::new(2, 32);
        rig.global(0, &store_flag(Order::Relaxed, Scope::Gpu));
        if reads {
            rig.global(1, &load_flag(Order::Relaxed, Scope::Gpu));
        }
        rig.global(1, &write(2).one(0, FLAG));
        rig.finds(if reads { &[] } else { &[WAW] });
    }
}

#[test]
fn what_came_before_an_observed_write_is_not_ordered() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &write(1));
    rig.global(0, &ticket(2));
    rig.global(1, &ticket(2));
    rig.global(1, &read(3));
    rig.finds(&[RAW]);
}

#[test]
fn observation_passes_through_atomics_but_not_through_stores() {
    for builds in [false, true] {
        let mut rig = Rig::new(3, 32);
        rig.global(0, &ticket(1));
        rig.global(1, &if builds { ticket(2) } else { store_flag(Order::Relaxed, Scope::Gpu) });
        rig.global(2, &load_flag(Order::Relaxed, Scope::Gpu));
        rig.global(2, &write(3).one(0, FLAG));
        rig.finds(if builds { &[] } else { &[WAW] });
    }
}

#[test]
fn an_observation_is_passed_on_by_a_release() {
    for releases in [false, true] {
        let mut rig = Rig::new(3, 32);
        rig.global(0, &ticket(1));
        rig.global(1, &ticket(1));
        let semantics = if releases { Order::Release } else { Order::Relaxed };
        rig.global(1, &write(2).strong(semantics, Scope::Gpu).one(0, FLAG + 4));
        rig.global(2, &read(3).strong(Order::Acquire, Scope::Gpu).one(0, FLAG + 4));
        rig.global(2, &write(4).one(0, FLAG));
        rig.finds(if releases { &[] } else { &[WAW] });
    }
}

#[test]
fn a_narrow_atomic_observes_nothing_of_another_block() {
    let mut rig = Rig::new(2, 32);
    rig.global(0, &ticket(1));
    rig.global(1, &ticket(2).strong(Order::Relaxed, Scope::Block));
    rig.global(1, &write(3).one(0, FLAG));
    assert!(rig.findings.iter().any(|found| found.this.instr == 3), "{:?}", rig.findings);
}
