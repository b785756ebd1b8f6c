//! Devices, tensors, and how results are compared.

use warpfold::{Attended, Device, Dtype, Profile, Queue, Tensor};
use warpfold_device::{Checks, Severity};

use crate::attention::reference::Sizes;

pub(crate) fn device() -> Device {
    device_of(Profile::H200)
}

pub(crate) fn device_of(profile: Profile) -> Device {
    let device = Device::virtual_gpu(profile);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

/// Runs a test on each device with the types whose kernels differ: on CUDA cores, and on tensor
/// cores with and without WGMMA.
pub(crate) fn on_every_device(mut test: impl FnMut(Device, &[Dtype])) {
    test(device(), &[Dtype::F32, Dtype::F16]);
    test(device_of(Profile::A100), &[Dtype::F16]);
}

#[track_caller]
pub(crate) fn is_clean(device: &Device) {
    for report in device.take_reports() {
        let findings: Vec<_> = report.report.findings.iter().filter(|f| f.severity > Severity::Info).collect();
        assert!(findings.is_empty(), "{}: {findings:?}", report.kernel);
    }
}

/// Numbers from -1 to 1.
pub(crate) fn random(seed: usize, i: usize) -> f32 {
    let z = (i as u64).wrapping_add((seed as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ z >> 32) as u32 >> 8) as f32 / 8_388_608.0 - 1.0
}

pub(crate) fn numbers(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| random(seed, i)).collect()
}

pub(crate) fn tensor(device: &Device, seed: usize, dtype: Dtype, shape: &[usize]) -> Tensor {
    let len = shape.iter().product();
    if dtype == Dtype::F8E4M3 {
        // Magnitudes up to 1.875, either sign.
        let bytes: Vec<u8> =
            numbers(seed, len).iter().map(|x| (x.abs() * 63.0) as u8 | u8::from(*x < 0.0) << 7).collect();
        return Tensor::from_bytes(&Queue::of(device), dtype, &bytes, shape).unwrap();
    }
    Tensor::from_slice(&numbers(seed, len), shape, device).unwrap().cast(dtype).unwrap()
}

pub(crate) fn ints(device: &Device, list: &[i32]) -> Tensor {
    Tensor::from_slice(list, &[list.len()], device).unwrap()
}

/// What a tensor holds.
pub(crate) fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(Dtype::F32).unwrap().to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// How far a result may be from the one in `f64`: rounding of the products' sums and of the result.
pub(crate) fn tolerance(dtype: Dtype, sizes: Sizes) -> f64 {
    let of_sums = 2_f64.powi(-20) * (4.0 + (sizes.dim as f64).sqrt() + (sizes.keys as f64).sqrt());
    let of_result = match dtype {
        Dtype::F16 => 2_f64.powi(-11),
        Dtype::Bf16 => 2_f64.powi(-8),
        _ => 0.0,
    };
    of_sums + of_result
}

#[track_caller]
pub(crate) fn close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_close = found == expected || (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(is_close, "{what}: element {i} is {found}, not {expected}");
    }
}

/// Compares results and log-sum-exp.
#[track_caller]
pub(crate) fn agrees(what: &str, attended: &Attended, (results, lse): &(Vec<f64>, Vec<f64>), sizes: Sizes) {
    let dtype = attended.output.dtype();
    close(what, &values(&attended.output), results, tolerance(dtype, sizes));
    close(&format!("{what}: log-sum-exp"), &values(&attended.lse), lse, tolerance(Dtype::F32, sizes));
}

/// The same bits, of results and log-sum-exp.
#[track_caller]
pub(crate) fn same(what: &str, left: &Attended, right: &Attended) {
    assert_eq!(left.output.shape(), right.output.shape(), "{what}");
    assert!(left.output.to_bytes().unwrap() == right.output.to_bytes().unwrap(), "{what}: results differ");
    assert!(left.lse.to_bytes().unwrap() == right.lse.to_bytes().unwrap(), "{what}: log-sum-exp differs");
}
