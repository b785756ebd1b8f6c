//! The rungs of the matrix product, on every device at hand.

use warpfold_device::Device;
use warpfold_ladders::gemm::{LADDER, ladder, row_len};
use warpfold_ladders::ladder::pack;

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped index shows.
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
    let rungs = [
        ladder::naive,
        ladder::shared,
        ladder::tile_1d,
        ladder::tile_2d,
        ladder::vec4,
        ladder::warp_tile,
        ladder::double_buffer,
        ladder::cp_async,
        ladder::no_conflicts,
    ];
    assert_eq!(rungs.len(), LADDER.rungs.len());
    for device in Device::all() {
        println!("on {device}");
        for (m, n, k) in sizes {
            let (a, b) = (matrix(1, m, k), matrix(2, k, n));
            let expected = reference(&a, &b, (m, n, k));
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            for (kernel, rung) in rungs.iter().zip(LADDER.rungs) {
                let mut c = device.alloc::<f32>(m * row_len(n)).unwrap();
                c.fill_bytes(0xff).unwrap();
                let config = (rung.launches[0].config)(pack([m, n, k]));
                device.launch(&kernel(), config, (&a, &b, &mut c, m as u32, n as u32, k as u32)).unwrap();
                let rows = c.download().unwrap();
                let found: Vec<f32> = rows.chunks(row_len(n)).flat_map(|row| row[..n].to_vec()).collect();
                assert_eq!(found, expected, "{} of {m} x {n} x {k} on {device}", rung.name);
            }
        }
    }
}
