//! The rungs of the matrix product, on every device at hand.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_ladders::gemm::{LADDER, row_len};
use warpfold_ladders::ladder::pack;

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped
/// index shows.
fn element(seed: usize, i: usize) -> f32 {
    ((i * 7919 + seed * 104_729) % 17) as f32 - 8.0
}

/// A matrix in rows that are filled up with zeros.
fn matrix(seed: usize, rows: usize, columns: usize) -> Vec<f32> {
    let len = row_len(columns);
    (0..rows * len).map(|i| if i % len < columns { element(seed, i) } else { 0.0 }).collect()
}

fn reference(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f32> {
    let dot = |i: usize, j: usize| {
        (0..k).map(|l| f64::from(a[i * row_len(k) + l]) * f64::from(b[l * row_len(n) + j])).sum::<f64>()
    };
    (0..m * n).map(|ij| dot(ij / n, ij % n) as f32).collect()
}

#[test]
fn the_product_is_exact_for_whole_numbers_at_any_size() {
    let sizes = [(1, 1, 1), (1, 33, 7), (31, 32, 33), (64, 17, 40), (33, 65, 1), (129, 130, 19), (3, 257, 9)];
    for device in Device::all() {
        println!("on {device}");
        for (m, n, k) in sizes {
            let (a, b) = (matrix(1, m, k), matrix(2, k, n));
            let expected = reference(&a, &b, (m, n, k));
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            for rung in LADDER.rungs {
                let mut c = device.alloc::<f32>(m * row_len(n)).unwrap();
                c.fill_bytes(0xff).unwrap();
                let [launch] = rung.launches else { panic!("{} is several launches", rung.name) };
                let function = launch.kernel(Dtype::F32, 0).prepare(&device).unwrap();
                let arguments = Arguments::new().input(&a).input(&b).output(&mut c);
                let arguments = arguments.value(m as u32).value(n as u32).value(k as u32);
                let config = (launch.config)(pack([m, n, k]));
                device.default_stream().launch_raw(&function, config, &arguments).unwrap();
                drop(arguments);
                let rows = c.download().unwrap();
                let found: Vec<f32> = rows.chunks(row_len(n)).flat_map(|row| row[..n].to_vec()).collect();
                assert_eq!(found, expected, "{} of {m} x {n} x {k} on {device}", rung.name);
            }
        }
    }
}
