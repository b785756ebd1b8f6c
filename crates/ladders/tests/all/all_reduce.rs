//! A sum over several devices, from rank 0 to one shot.

use warpfold_device::{Device, Profile};
use warpfold_ladders::all_reduce::{Counts, Instance, RUNGS, rung};

#[test]
fn every_way_gives_the_sum_on_every_device() {
    for devices in [1, 2, 3, 4, 8] {
        let mut instance = Instance::open(&Device::virtual_peers(Profile::H200, devices), 70).expect("data");
        for rung in RUNGS.iter().filter(|rung| !rung.powers_of_two || devices.is_power_of_two()) {
            let counts = instance.run(rung).expect("it runs");
            assert!(counts.is_right && counts.is_same, "{} on {devices}: {counts:?}", rung.name);
        }
    }
}

#[test]
fn steps_and_bytes_are_those_of_the_textbook() {
    let mut instance = Instance::open(&Device::virtual_peers(Profile::H200, 8), 1024).expect("data");
    let bytes = 4096;
    let mut counts = |name| instance.run(rung(name).expect("a rung")).expect("it runs");
    let of = |counts: &Counts| (counts.steps, counts.total_bytes(), counts.busiest_device());
    assert_eq!(of(&counts("through_rank_0")), (14, 14 * bytes, 7 * bytes));
    assert_eq!(of(&counts("tree")), (6, 14 * bytes, 3 * bytes));
    assert_eq!(of(&counts("ring")), (14, 14 * bytes, 14 * bytes / 8));
    assert_eq!(of(&counts("halving_doubling")), (6, 14 * bytes, 14 * bytes / 8));
    assert_eq!(of(&counts("one_shot")), (1, 56 * bytes, 7 * bytes));
    assert!(counts("one_shot").is_in_order);
}
