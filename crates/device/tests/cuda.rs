//! What the CUDA side answers, with and without a GPU.

use warpfold_device::{Device, ErrorKind};

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
