//! What happens when numbers and room run out, and when workers share the shadow.

use super::*;

#[test]
fn a_block_that_runs_out_of_records_says_so_once_forgets_and_goes_on() {
    let mut rig = Rig::filled(64);
    rig.shared(&write(1));
    for _ in 0..crate::check::order::block::MAX_CONTEXTS {
        rig.shared(&read(2).at(|lane| 256 + lane * 4));
        rig.warp_sync(0, ALL);
    }
    rig.shared(&read(3).warp(1));
    rig.finds(&[Rule::BlockForgets]);
    rig.shared(&write(4));
    rig.finds(&[WAR, Rule::BlockForgets]);
}

#[test]
fn numbering_that_starts_anew_loses_no_order_and_no_race() {
    let mut rig = Rig::filled(64);
    for _ in 0..1_200_000 {
        rig.shared(&write(1).one(0, 0));
        rig.sync(0);
    }
    rig.finds(&[]);
    rig.shared(&write(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn numbering_that_starts_anew_at_a_barrier_keeps_named_barriers_working() {
    let mut rig = Rig::filled(96);
    for _ in 0..400_000 {
        rig.shared(&write(1));
        rig.barrier(0, 1, 0b011, 0b011);
        rig.shared(&read(2).warp(1));
        rig.sync(0);
    }
    rig.finds(&[]);
    rig.shared(&write(1));
    rig.shared(&read(2).warp(1));
    rig.finds(&[RAW]);
}

#[test]
fn every_word_of_a_block_may_be_split() {
    let mut rig = Rig::new(1, 64);
    rig.blocks[0] = BlockCheck::new(64 << 10, 0);
    let Rig { launch, blocks, .. } = &mut rig;
    blocks[0].begin(launch, 0, 64);
    for word in 0..16_384u64 {
        for byte in 0..4u32 {
            rig.shared(&write(1 + byte).warp(byte % 2).bytes(1).one(byte, word * 4 + u64::from(byte)));
        }
    }
    rig.finds(&[]);
    rig.shared(&read(9).warp(1).bytes(1).one(0, 4 * 16_383));
    rig.finds(&[RAW]);
}

#[test]
fn when_records_run_out_in_a_launch_it_says_so_once_and_invents_nothing() {
    let mut device = DeviceCheck::default();
    let mut rig = Rig::of(device.begin(true, || {}), 1, 32);
    while rig.launch.batch().is_some() {}
    for block in 0..3 {
        let Rig { launch, blocks, .. } = &mut rig;
        blocks[0].begin(launch, block, 32);
        // The first block still has what it took; the others have nothing.
        for instr in 0..300 {
            let at = u64::from(block) * 1024;
            rig.global(0, &write(instr).at(|lane| at + lane * 4));
            rig.warp_sync(0, ALL);
            rig.global(0, &read(instr).bytes(2).at(|lane| at + lane * 2));
            rig.warp_sync(0, ALL);
        }
    }
    rig.global(0, &write(1).at(|lane| 2048 + lane * 4));
    rig.finds(&[]);
    device.end(&rig.launch, &mut rig.findings);
    rig.finds(&[Rule::RecordsExhausted]);
}

#[test]
fn a_launch_that_saves_records_says_so_once() {
    for is_generous in [true, false] {
        let mut device = DeviceCheck::default();
        let mut rig = Rig::of(device.begin(true, || {}), 1, 64);
        while !is_generous && rig.launch.is_generous() {
            rig.launch.batch();
        }
        let Rig { launch, blocks, .. } = &mut rig;
        blocks[0].begin(launch, 0, 64);
        for _ in 0..3 {
            rig.global(0, &write(1));
            rig.warp_sync(0, ALL);
        }
        rig.finds(&[]);
        device.end(&rig.launch, &mut rig.findings);
        rig.finds(if is_generous { &[] } else { &[Rule::TimesCoarsened] });
    }
}

#[test]
fn an_order_of_blocks_with_too_many_parts_is_told_once_and_invents_nothing() {
    let mut device = DeviceCheck::default();
    let mut rig = Rig::of(device.begin(true, || {}), 1, 32);
    let count = step(50, Kind::Atomic, Strength::Strong(Order::AcqRel, Scope::Gpu)).one(0, BYTES - 4);
    for block in 0..1000 {
        let Rig { launch, blocks, .. } = &mut rig;
        blocks[0].begin(launch, block, 32);
        // Blocks differ in how often they release.
        for round in 0..u64::from(block % 7) {
            rig.global(0, &write(1).one(0, u64::from(block) * 32 + round * 4));
            rig.global(0, &count);
        }
    }
    rig.finds(&[]);
    device.end(&rig.launch, &mut rig.findings);
    rig.finds(&[Rule::OrderCoarsened]);
}

#[test]
fn a_new_numbering_of_the_device_forgets_races_and_keeps_what_was_written() {
    let mut device = DeviceCheck::default();
    let launch = device.begin(true, || panic!("the first launch has nothing to forget"));
    while launch.batch().is_some() {}
    let mut rig = Rig::of(launch, 1, 32);
    rig.shadow = GlobalShadow::new(BASE, BYTES);
    rig.global(0, &write(1));
    device.end(&rig.launch, &mut Findings::default());
    let mut forgot = false;
    let launch = device.begin(true, || {
        forgot = true;
        rig.shadow.forget();
    });
    assert!(forgot);
    let mut next = Rig::of(launch, 1, 32);
    std::mem::swap(&mut next.shadow, &mut rig.shadow);
    next.global(0, &read(2));
    next.finds(&[]);
    next.global(0, &read(3).at(|lane| 128 + lane * 4));
    next.finds(&[Rule::Uninitialized]);
}

#[test]
fn launches_that_overlap_take_each_other_as_ordered() {
    let mut device = DeviceCheck::default();
    let mut one = Rig::of(device.begin(true, || {}), 2, 32);
    let mut two = Rig::of(device.begin(true, || {}), 2, 32);
    for step in [write(1), read(2), atomic(3), write(4).bytes(1).at(|lane| lane * 4)] {
        for rig in [&mut one, &mut two] {
            let Rig { launch, blocks, .. } = rig;
            blocks[0].begin(launch, 0, 32);
        }
        one.global(0, &step);
        std::mem::swap(&mut one.shadow, &mut two.shadow);
        two.global(0, &step);
        two.global(0, &step.clone().lanes(0x0f0f));
        std::mem::swap(&mut one.shadow, &mut two.shadow);
        one.global(0, &step);
    }
    one.finds(&[]);
    two.finds(&[]);
    two.global(0, &write(5));
    two.global(1, &write(5));
    two.finds(&[WAW]);
}

#[test]
fn a_block_with_more_records_than_a_batch_does_not_take_its_own_for_anothers() {
    let mut rig = Rig::new(2, 1024);
    for round in 0..40 {
        for block in 0..2usize {
            let at = block as u64 * 8192;
            for warp in 0..32u32 {
                let words = move |lane: u64| at + ((u64::from(warp) * 32 + lane) * 4 + round * 4) % 4096;
                rig.global(block, &read(round as u32).warp(warp).at(words));
                rig.global(block, &write(100 + round as u32).warp(warp).at(words));
            }
            rig.sync(block);
        }
    }
    rig.finds(&[]);
}

#[test]
fn workers_that_race_on_the_shadow_invent_nothing() {
    let launch = DeviceCheck::default().begin(true, || {});
    let shadow = GlobalShadow::new(BASE, BYTES);
    let run = |worker: u32| {
        let mut findings = Findings::default();
        let mut check = BlockCheck::new(0, 0);
        for round in 0..2000u32 {
            check.begin(&launch, round * 2 + worker, 32);
            let byte = u64::from(worker);
            let steps = [
                write(1).bytes(1).at(move |lane| BASE + (u64::from(round) * 128 + lane * 4) % BYTES + byte * 2),
                read(2).bytes(1).at(move |lane| BASE + (u64::from(round) * 128 + lane * 4) % BYTES + byte * 2),
                atomic(3).at(|_| BASE + BYTES - 4).lanes(0),
            ];
            for step in &steps {
                check.global_access(&launch, &shadow, &step.access, &step.addresses, None, &mut findings);
            }
        }
        findings
    };
    let mut findings = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let mut findings = run(0);
        findings.merge(other.join().unwrap());
        findings
    });
    findings.merge(Findings::default());
    // Blocks of one worker meet at the same bytes every 512 rounds; none of them reads what nobody
    // wrote.
    assert!(findings.iter().all(|found| found.rule != Rule::Uninitialized), "{findings:#?}");
    for found in findings.iter() {
        let (this, other) = (found.this.block, found.other.unwrap().block);
        assert_eq!(this % 2, other % 2, "{found:?}");
    }
}

#[test]
fn limits_are_told_apart_from_one_another_and_from_races() {
    let side = Side { instr: 0, block: 0, warp: 0, lane: 0 };
    let rules = [WAR, Rule::RecordsExhausted, Rule::TimesCoarsened, Rule::OrderCoarsened, Rule::BlockForgets];
    let mut all = Findings::default();
    for rule in rules {
        for instr in 0..3 {
            let this = if rule == WAR { side } else { Side { instr, ..side } };
            all.add(Found { rule, space: Space::Global, address: 0, this, other: None, count: 1 });
        }
    }
    let found: Vec<_> = all.iter().map(|found| (found.rule, found.count)).collect();
    assert_eq!(found, rules.map(|rule| (rule, 3)));
}

#[test]
fn merged_findings_add_up_and_keep_the_worst_example() {
    let side = |block| Side { instr: 1, block, warp: 0, lane: 0 };
    let found = |rule, block| Found {
        rule,
        space: Space::Global,
        address: 0,
        this: side(block),
        other: Some(side(0)),
        count: 1,
    };
    let mut all = Findings::default();
    all.add(found(Rule::SameValue, 1));
    let mut more = Findings::default();
    more.add(found(WAW, 5));
    more.add(found(Rule::SameValue, 6));
    let mut last = Findings::default();
    last.add(found(WAW, 3));
    all.merge(more);
    all.merge(last);
    let merged: Vec<_> = all.iter().map(|found| (found.severity(), found.this.block, found.count)).collect();
    assert_eq!(merged, [(Severity::Error, 3, 4)]);
}

#[test]
fn the_shadow_of_shared_memory_stays_below_its_budget() {
    for bytes in [0u32, 100, 48 << 10, 227 << 10] {
        let shadow = crate::check::shared::shadow::SharedShadow::new(bytes, 0);
        let most = (bytes as usize + 3) * 8 + (96 << 10);
        assert!(shadow.footprint() <= most, "{bytes}: {} of {most}", shadow.footprint());
    }
}
