//! Folds at every level: of a block, of tensors, of segments, and scans.

mod affine;
mod block;
mod replay;
mod scan;
mod segments;
mod tensors;

use warpfold_device::{Checks, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{KernelCache, Plan, Planner, TensorSpec};

/// The devices at hand; the virtual one checks.
fn devices() -> impl Iterator<Item = Device> {
    Device::all().into_iter().inspect(|device| {
        println!("on {device}");
        if device.is_virtual() {
            device.configure(|options| options.checks = Checks::All).unwrap();
        }
    })
}

/// Whether long inputs are tried in every way, and not in some.
fn tries_all() -> bool {
    std::env::var_os("WARPFOLD_ALL_TESTS").is_some()
}

/// What problems know of a tensor.
fn spec(dtype: Dtype, layout: &Layout, address: u64) -> TensorSpec {
    TensorSpec::new(dtype, layout.clone(), address)
}

/// What `plan` makes of a planner for a device that keeps its kernels here.
fn planned(device: &Device, kernels: &KernelCache, plan: impl FnOnce(&Planner<'_>) -> Plan) -> Plan {
    plan(&Planner::new(&device.target(), device.limits(), kernels))
}

/// Asserts that no launch on a device had findings.
#[track_caller]
fn clean(device: &Device) {
    for report in device.take_reports() {
        assert!(report.report.findings.is_empty(), "{}: {:?}", report.kernel, report.report.findings);
    }
}
