//! Products of matrices that do not lie as tensor cores want them.

use half::{bf16, f16};
use warpfold::{Device, Dtype, Matmul, Profile, Tensor, TensorElement};

/// Large enough that copies of the factors are worth it, and no row begins at a multiple of 16
/// bytes.
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

/// A tensor of such numbers.
fn tensor<T: TensorElement>(device: &Device, of: fn(i32) -> T, seed: usize, shape: &[usize]) -> Tensor {
    let elements: Vec<T> = (0..shape.iter().product()).map(|i| of(number(seed, i))).collect();
    Tensor::from_slice(&elements, shape, device).unwrap()
}

#[track_caller]
fn check<T: TensorElement>(of: fn(i32) -> T, matmul: &Matmul) {
    let device = Device::virtual_gpu(Profile::H200);
    let [m, n, k] = SIZES;
    let (a, b) = (tensor(&device, of, 1, &[m, k]), tensor(&device, of, 2, &[k, n]));
    drop(device.take_reports());
    let product = matmul.run(&a, &b).unwrap().cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
    for (position, expected) in expected() {
        assert_eq!(product[position], f64::from(expected), "at {position}");
    }
    let kernels: Vec<_> = device.take_reports().into_iter().map(|report| report.kernel).collect();
    assert!(kernels.iter().any(|kernel| kernel.contains("wgmma")), "{kernels:?}");
}

/// A product of a row or a column by the kernels for vectors, and by tiles where they are asked
/// for: exact, so the same.
#[track_caller]
fn check_vector<T: TensorElement>(of: fn(i32) -> T, left: &[usize], right: &[usize], is_turned: bool) {
    let device = Device::virtual_gpu(Profile::H200);
    let a = tensor(&device, of, 1, left);
    let b = if is_turned {
        let turned: Vec<usize> = right.iter().rev().copied().collect();
        tensor(&device, of, 2, &turned).reverse_axes().unwrap()
    } else {
        tensor(&device, of, 2, right)
    };
    drop(device.take_reports());
    let product = Matmul::new().run(&a, &b).unwrap();
    let kernels: Vec<_> = device.take_reports().into_iter().map(|report| report.kernel).collect();
    assert!(kernels.iter().all(|kernel| kernel.contains("gemv")), "{left:?} {right:?}: {kernels:?}");
    let by_tiles = Matmul::new().batch_invariant().run(&a, &b).unwrap();
    assert_eq!(product.shape(), by_tiles.shape(), "{left:?} {right:?}");
    let numbers = |tensor: &Tensor| tensor.cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(numbers(&product), numbers(&by_tiles), "{left:?} {right:?}");
}

#[test]
fn one_row_or_column_is_multiplied_as_a_vector() {
    for is_turned in [false, true] {
        check_vector(|number| bf16::from_f32(number as f32), &[1, 37], &[37, 19], is_turned);
        check_vector(|number| number as f32, &[37], &[37, 19], is_turned);
        check_vector(f64::from, &[19, 37], &[37, 1], is_turned);
        check_vector(|number| f16::from_f32(number as f32), &[1, 37], &[37, 1], is_turned);
    }
    check_vector(|number| number as f32, &[19, 37], &[37], false);
    check_vector(|number| number as f32, &[37], &[37], false);
}

#[test]
fn factors_are_copied_so_that_tensor_cores_can_take_them() {
    let wide = Matmul::new().dtype(Dtype::F32);
    check(|number| bf16::from_f32(number as f32), &wide);
    check(|number| f16::from_f32(number as f32), &wide);
    check(|number| number as i8, &Matmul::new());
    check(|number| number as f32, &Matmul::new().tf32());
}
