//! Folds at every level: of a block, of tensors, of segments, and scans.

mod affine;
mod block;
mod replay;
mod scan;
mod segments;
mod tensors;

use warpfold_device::{Checks, Device};

/// The devices at hand; the virtual one checks.
fn devices() -> impl Iterator<Item = Device> {
    Device::all().into_iter().inspect(|device| {
        println!("on {device}");
        if device.is_virtual() {
            device.configure(|options| options.checks = Checks::All).unwrap();
        }
    })
}
