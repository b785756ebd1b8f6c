//! What the CUDA side answers, with and without a GPU.

use warpfold_device::{ComputeCapability, Device, ErrorKind, Profile};

#[test]
fn without_a_driver_or_a_gpu_the_error_says_so() {
    match Device::cuda(0) {
        Ok(device) => println!("ran on {device}: nothing to refuse"),
        Err(e) => {
            println!("no GPU here: {e}");
            let expected = matches!(
                e.kind(),
                ErrorKind::NoDriver { .. }
                    | ErrorKind::DriverTooOld { .. }
                    | ErrorKind::NoDevice { asked: 0, found: 0 }
                    | ErrorKind::UnsupportedArchitecture { .. }
            );
            assert!(expected, "{e:?}");
        }
    }
}

#[test]
fn a_gpu_that_does_not_exist_is_refused_by_number_or_for_want_of_a_driver() {
    let e = Device::cuda(4096).expect_err("no machine has so many");
    match e.kind() {
        ErrorKind::NoDevice { asked, found } => {
            assert_eq!(*asked, 4096);
            assert_eq!(
                e.to_string(),
                format!("no device cuda:4096: the driver has {found} device(s), numbered from 0")
            );
        }
        ErrorKind::NoDriver { reason } => assert_eq!(
            e.to_string(),
            format!("no NVIDIA driver: {reason}; install the driver, or use the virtual GPU (`virtual`)")
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_best_device_says_why_it_is_a_virtual_one() {
    let best = Device::best();
    assert_eq!(best.fallback_reason().is_some(), best.is_virtual(), "{:?}", best.fallback_reason());
    assert_eq!(best.fallback_reason(), best.clone().fallback_reason());
    if let Some(reason) = best.fallback_reason() {
        assert_eq!(Device::cuda(0).expect_err("no GPU can be used"), *reason);
    }
    assert_eq!(Device::virtual_gpu(Profile::H200).fallback_reason(), None, "it was asked for");
}

#[test]
fn compute_capabilities_are_ordered_and_printed_as_nvidia_writes_them() {
    let of = |profile: Profile| profile.limits().compute_capability;
    assert_eq!((of(Profile::A100).to_string(), of(Profile::H200).to_string()), ("8.0".to_owned(), "9.0".to_owned()));
    assert!(of(Profile::A100) < ComputeCapability::new(8, 6) && ComputeCapability::new(8, 9) < of(Profile::H200));
}
