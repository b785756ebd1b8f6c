//! A sum over several devices, from rank 0 to one shot.

use warpfold_device::{Device, Profile};
use warpfold_ladders::all_reduce::{Counts, Instance, NCCL, RUNGS, rung};

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

#[test]
fn a_large_vector_is_added_in_parts_and_timed_calls_change_nothing() {
    let mut instance = Instance::open(&Device::virtual_peers(Profile::H200, 2), 1 << 18).expect("data");
    let one_shot = rung("one_shot").expect("a rung");
    instance.reduce(one_shot, 2).expect("it runs");
    let counts = instance.run(one_shot).expect("it runs");
    assert!(counts.is_right && counts.is_in_order, "{counts:?}");
    assert_eq!((counts.steps, counts.links), (2, vec![vec![0, 1 << 20], vec![1 << 20, 0]]));
}

#[test]
fn nccl_that_is_not_there_is_an_error_that_names_the_place() {
    let mut instance = Instance::open(&Device::virtual_peers(Profile::H200, 2), 8).expect("data");
    let error = instance.load_nccl(&["/nowhere/libnccl.so.2".into()]).expect_err("not on virtual GPUs").to_string();
    // Where NCCL is installed it is found by its name.
    assert!(error.contains("/nowhere/libnccl.so.2") || error.contains("CUDA GPU"), "{error}");
    assert!(instance.run(&NCCL).expect_err("it is not loaded").to_string().contains("it was not loaded"));
}
