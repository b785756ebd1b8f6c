//! Products of matrices that do not lie as tensor cores want them.

use half::{bf16, f16};
use warpfold::{Device, Dtype, Matmul, Profile, Tensor, TensorElement};

/// Large enough that copies of the factors are worth it, and no row begins at a multiple of 16 bytes.
const SIZES: [usize; 3] = [641, 643, 655];

fn number(seed: usize, i: usize) -> i32 {
    ((i * 7919 + seed * 104_729) % 7) as i32 - 3
}

/// Some elements of the exact product.
fn expected() -> Vec<(usize, i32)> {
    let [m, n, k] = SIZES;
    let sum = |row: usize, column: usize| (0..k).map(|l| number(1, row * k + l) * number(2, l * n + column)).sum();
    (0..m * n).step_by(397).map(|position| (position, sum(position / n, position % n))).collect()
}

#[track_caller]
fn check<T: TensorElement>(of: fn(i32) -> T, matmul: &Matmul) {
    let device = Device::virtual_gpu(Profile::H200);
    let [m, n, k] = SIZES;
    let tensor = |seed: usize, rows: usize, columns: usize| {
        let elements: Vec<T> = (0..rows * columns).map(|i| of(number(seed, i))).collect();
        Tensor::from_slice(&device, &elements, &[rows, columns]).unwrap()
    };
    let (a, b) = (tensor(1, m, k), tensor(2, k, n));
    drop(device.take_reports());
    let product = matmul.run(&a, &b).unwrap().cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
    for (position, expected) in expected() {
        assert_eq!(product[position], f64::from(expected), "at {position}");
    }
    let kernels: Vec<_> = device.take_reports().into_iter().map(|report| report.kernel).collect();
    assert!(kernels.iter().any(|kernel| kernel.contains("wgmma")), "{kernels:?}");
}

#[test]
fn factors_are_copied_so_that_tensor_cores_can_take_them() {
    let wide = Matmul::new().dtype(Dtype::F32);
    check(|number| bf16::from_f32(number as f32), &wide);
    check(|number| f16::from_f32(number as f32), &wide);
    check(|number| number as i8, &Matmul::new());
    check(|number| number as f32, &Matmul::new().tf32());
}
