//! The matrix product, on every device at hand.

use warpfold_device::Device;
use warpfold_kernels::gemm::{launch_config, shared};

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped index shows.
fn element(seed: usize, i: usize) -> f32 {
    ((i * 7919 + seed * 104_729) % 17) as f32 - 8.0
}

fn reference(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f32> {
    let dot = |i: usize, j: usize| (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum::<f64>();
    (0..m * n).map(|ij| dot(ij / n, ij % n) as f32).collect()
}

#[test]
fn the_product_is_exact_for_whole_numbers_at_any_size() {
    let sizes = [(1, 1, 1), (1, 33, 7), (31, 32, 33), (32, 32, 32), (64, 17, 40), (33, 65, 0), (100, 70, 129)];
    for device in Device::all() {
        println!("on {device}");
        for (m, n, k) in sizes {
            let a: Vec<f32> = (0..m * k).map(|i| element(1, i)).collect();
            let b: Vec<f32> = (0..k * n).map(|i| element(2, i)).collect();
            let (on_device_a, on_device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut c = device.alloc::<f32>(m * n).unwrap();
            c.fill_bytes(0xff).unwrap();
            let arguments = (&on_device_a, &on_device_b, &mut c, m as u32, n as u32, k as u32);
            device.launch(&shared(), launch_config(m as u32, n as u32), arguments).unwrap();
            assert_eq!(c.download().unwrap(), reference(&a, &b, (m, n, k)), "{m} x {n} x {k} on {device}");
        }
    }
}
