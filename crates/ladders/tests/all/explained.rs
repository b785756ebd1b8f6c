//! A reduction drawn step by step.

use warpfold_device::{Device, Profile};
use warpfold_ladders::reduce::{Addition, Addressing, Combine, explain};

#[test]
fn what_is_drawn_is_what_the_additions_say() {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(warpfold_device::Checks::Deny).expect("it is virtual");
    for (combine, identity) in [(Combine::Sum, 0.0), (Combine::Maximum, f32::NEG_INFINITY)] {
        for (addressing, len) in Addressing::ALL.into_iter().flat_map(|of| [1, 2, 3, 8, 13, 64].map(|len| (of, len))) {
            let elements: Vec<f32> = (0..len).map(|i| (i * 7 % 11) as f32).collect();
            let mut tile = elements.clone();
            tile.resize(elements.len().next_power_of_two(), identity);
            for step in explain(&device, &elements, addressing, combine).expect("it runs") {
                for Addition { to, from, .. } in &step.additions {
                    assert_eq!(from - to, step.stride);
                    let (a, b) = (tile[*to], tile[*from]);
                    tile[*to] = if combine == Combine::Sum { a + b } else { a.max(b) };
                }
                assert_eq!(tile, step.tile, "{addressing:?} of {len}, stride {}", step.stride);
            }
            let pairs = combine.pairs(&elements);
            assert_eq!((combine.serial(&elements).last(), pairs[pairs.len() - 1][0]), (Some(&tile[0]), tile[0]));
        }
    }
    assert!(explain(&device, &[], Addressing::Naive, Combine::Sum).is_err());
}
