//! What allocating costs.

use warpfold_device::{Device, Profile};
use warpfold_ladders::allocation::{compare, requests};

#[test]
fn a_pool_allocates_once_per_size_and_a_workspace_once() {
    let device = Device::virtual_gpu(Profile::H200);
    let requests = requests(1000);
    let sizes: std::collections::BTreeSet<_> = requests.iter().map(|bytes| bytes.next_power_of_two()).collect();
    let [malloc, pool, workspace] = compare(&device, &requests).expect("the device has memory");
    let counts = [&malloc, &pool, &workspace].map(|outcome| (outcome.ok, outcome.allocations, outcome.frees));
    let kinds = sizes.len() as u64;
    assert_eq!(counts, [(true, 1000, 1000), (true, kinds, kinds), (true, 1, 1)]);
    let most = *requests.iter().max().expect("there are some") as u64;
    assert_eq!((malloc.peak_bytes, workspace.peak_bytes), (most, most));
    assert_eq!(pool.peak_bytes, sizes.iter().sum::<usize>() as u64);
}
