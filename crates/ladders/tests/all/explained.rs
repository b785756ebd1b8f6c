//! A reduction drawn step by step.

use warpfold_device::{Device, Profile};
use warpfold_ladders::reduce::{Addition, Addressing, explain};

#[test]
fn what_is_drawn_is_what_the_additions_say() {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(warpfold_device::Checks::Deny).expect("it is virtual");
    for addressing in Addressing::ALL {
        for len in [1, 2, 3, 8, 13, 64] {
            let elements: Vec<f32> = (0..len).map(|i| (i * 7 % 11) as f32).collect();
            let mut tile = elements.clone();
            tile.resize(elements.len().next_power_of_two(), 0.0);
            for step in explain(&device, &elements, addressing).expect("it runs") {
                for Addition { to, from, .. } in &step.additions {
                    assert_eq!(from - to, step.stride);
                    tile[*to] += tile[*from];
                }
                assert_eq!(tile, step.tile, "{addressing:?} of {len}, stride {}", step.stride);
            }
            assert_eq!(tile[0], elements.iter().sum::<f32>());
        }
    }
    assert!(explain(&device, &[], Addressing::Naive).is_err());
}
