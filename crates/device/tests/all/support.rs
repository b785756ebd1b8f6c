//! What tests on every device share.

use warpfold_device::{Device, Error};

/// A kernel `scale`.
pub(crate) const PTX: &str = include_str!("../ptx/scale.ptx");

/// Runs a test on every device, and says on which.
#[track_caller]
pub(crate) fn on_every_device(test: impl Fn(&Device) -> Result<(), Error>) {
    for device in Device::all() {
        println!("on {device}");
        test(&device).unwrap_or_else(|e| panic!("on {device}: {e}"));
    }
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, text: &str) {
    assert_eq!(result.expect_err("refused").to_string(), text);
}
