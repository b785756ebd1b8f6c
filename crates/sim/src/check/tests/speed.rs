//! What the common accesses cost; printed, not judged:
//! `cargo test --release check::tests::speed -- --nocapture`.

use std::time::Instant;

use super::*;

const ROUNDS: u32 = 200;
const BATCHES: u32 = 100;

/// A barrier is part of each round of eight accesses to shared memory.
#[test]
fn the_cost_of_common_accesses_is_printed_in_release_builds() {
    if cfg!(debug_assertions) {
        return;
    }
    let shared: [(&str, Step); 8] = [
        ("shared write, contiguous", write(1)),
        ("shared read, contiguous", read(2)),
        ("shared read, 16 bytes", read(2).bytes(16).at(|lane| lane * 16)),
        ("shared read, uniform", read(3).at(|_| 0)),
        ("shared read, prefix of 8", read(4).lanes(0xff)),
        ("shared read, stride of 2 words", read(5).at(|lane| lane * 8)),
        ("shared atomic, scattered", atomic(6).at(|lane| lane * 37 % 64 * 4)),
        ("shared read, 2 bytes", read(7).bytes(2).at(|lane| lane * 2)),
    ];
    for (name, step) in &shared {
        let mut rig = Rig::filled(256);
        let steps: Vec<Step> = (0..8).map(|warp| of_warp(step, warp)).collect();
        fastest(name, || {
            for _ in 0..ROUNDS {
                for Step { access, addresses, .. } in &steps {
                    let offsets = &addresses.map(|at| at as u32);
                    rig.blocks[0].shared_access(access, offsets, None, &mut rig.findings);
                }
                rig.sync(0);
            }
        });
        rig.finds(&[]);
    }
    let mut rig = Rig::filled(256);
    fastest("block barrier, by warp", || (0..ROUNDS).for_each(|_| rig.sync(0)));
    let mut rig = Rig::filled(256);
    fastest("warp sync", || (0..ROUNDS * 8).for_each(|i| rig.warp_sync(i % 8, ALL)));
    let global: [(&str, Step); 7] = [
        ("global read, contiguous", read(1)),
        ("global write, contiguous", write(2)),
        ("global read, 16 bytes", read(3).bytes(16).at(|lane| lane * 16)),
        ("global read, 2 bytes", read(4).bytes(2).at(|lane| lane * 2)),
        ("global read, stride of 2 words", read(5).at(|lane| lane * 8)),
        ("global atomic, uniform", atomic(6).at(|_| 0)),
        ("global atomic, scattered", atomic(6).at(|lane| lane * 37 % 64 * 4)),
    ];
    for (name, step) in &global {
        let mut rig = Rig::new(1, 256);
        let steps: Vec<Step> = (0..8).map(|warp| of_warp(step, warp)).collect();
        fastest(name, || {
            for _ in 0..ROUNDS {
                for Step { access, addresses, .. } in &steps {
                    let addresses = &addresses.map(|at| at + BASE);
                    rig.blocks[0].global_access(&rig.launch, &rig.shadow, access, addresses, None, &mut rig.findings);
                }
            }
        });
        rig.finds(&[]);
    }
    for (name, waits) in [("global read, before any wait", false), ("global read, after a wait", true)] {
        let mut rig = Rig::new(1, 32);
        let mut device = DeviceCheck::default();
        rig.launch = device.begin(true, || {});
        rig.global(0, &write(1).at(|lane| 4096 + lane * 4));
        let past = std::mem::replace(&mut rig.launch, device.begin(true, || {}));
        rig.launch.overlap(past.into_past(1));
        rig.blocks[0].begin(&rig.launch, 0, 32);
        if waits {
            rig.blocks[0].wait_for_dependencies(&rig.launch, 1, 0, ALL);
        }
        let Step { access, addresses, .. } = read(2);
        let addresses = &addresses.map(|at| at + BASE);
        fastest(name, || {
            for _ in 0..ROUNDS * 8 {
                rig.blocks[0].global_access(&rig.launch, &rig.shadow, &access, addresses, None, &mut rig.findings);
            }
        });
        rig.finds(&[]);
    }
    for (name, step) in [("global read, of older launches", read(1)), ("global write, of older launches", write(2))] {
        let mut device = DeviceCheck::default();
        let mut rig = Rig::new(1, 32);
        rig.shadow = GlobalShadow::new(BASE, 128 * u64::from(ROUNDS) * 8);
        rig.shadow.mark_all_written();
        fastest(name, || {
            rig.launch = device.begin(true, || {});
            rig.blocks[0] = BlockCheck::new(0, 0);
            rig.blocks[0].begin(&rig.launch, 0, 32);
            for at in 0..u64::from(ROUNDS) * 8 {
                let addresses = &step.addresses.map(|address| BASE + at * 128 + address);
                rig.blocks[0].global_access(&rig.launch, &rig.shadow, &step.access, addresses, None, &mut rig.findings);
            }
            device.end(&rig.launch, &mut rig.findings);
        });
        rig.finds(&[]);
    }
}

/// The step by another warp; stores go to words of its own.
fn of_warp(step: &Step, warp: u32) -> Step {
    let mut step = step.clone();
    step.access.warp = warp;
    if step.access.kind == Kind::Write {
        step.addresses = step.addresses.map(|at| at + u64::from(warp) * 128);
    }
    step
}

/// Prints the best of some batches of eight accesses a round.
fn fastest(name: &str, mut batch: impl FnMut()) {
    let best = (0..BATCHES)
        .map(|_| {
            let time = Instant::now();
            batch();
            time.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:32} {:6.1} ns", best * 1e9 / f64::from(ROUNDS * 8));
}
