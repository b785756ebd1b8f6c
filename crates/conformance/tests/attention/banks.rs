//! No two lanes that access shared memory meet in a bank: neither copies of queries, keys and
//! values, nor fragments, weights and states.

use warpfold::{Attention, Device, Dtype, Profile};

use crate::attention::support::{device, device_of, tensor};

/// Attends with `len` queries of two heads, and looks at the kernels whose name begins so.
#[track_caller]
fn check(
    device: &Device,
    kernel: &str,
    [q, kv]: [Dtype; 2],
    [len, keys]: [usize; 2],
    [dim, value_dim]: [usize; 2],
    options: &Attention<'_>,
) {
    let of = |seed, dtype, heads, len, dim| tensor(device, seed, dtype, &[1, heads, len, dim]);
    let (q, k, v) = (of(1, q, 2, len, dim), of(2, kv, 1, keys, dim), of(3, kv, 1, keys, value_dim));
    drop(device.take_reports());
    options.run(&q, &k, &v).unwrap();
    let reports = device.take_reports();
    let launches: Vec<_> = reports.iter().filter(|report| report.kernel.starts_with("attention")).collect();
    let what = format!("{} over {}, {len} over {keys}, {dim} and {value_dim}", q.dtype(), k.dtype());
    assert!(launches[0].kernel.starts_with(kernel), "{what}: {}", launches[0].kernel);
    for launch in launches {
        let counters = &launch.report.counters;
        let conflicts = [counters.shared_load_bank_conflicts, counters.shared_store_bank_conflicts];
        assert_eq!(conflicts, [0, 0], "{what}: {}", launch.kernel);
        if launch.kernel.starts_with("attention_mma") {
            assert!(counters.shared_load_requests > 0 && counters.shared_store_requests > 0, "{what}: {counters:?}");
        }
    }
}

const DIMS: [[usize; 2]; 6] = [[64, 64], [128, 128], [256, 256], [96, 80], [40, 160], [16, 32]];

#[test]
fn neither_copies_nor_fragments_of_queries_keys_and_values_meet_in_a_bank() {
    let device = device_of(Profile::A100);
    let causal = Attention::new().causal();
    for dims in DIMS {
        check(&device, "attention_mma", [Dtype::Bf16; 2], [70, 150], dims, &causal);
        check(&device, "attention_mma", [Dtype::Bf16, Dtype::F8E4M3], [70, 150], dims, &causal);
    }
}

#[test]
fn copies_for_wgmma_by_threads_converted_or_transposed_meet_in_no_bank() {
    let device = device();
    if !device.limits().has_wgmma {
        println!("skipped: no WGMMA");
        return;
    }
    let causal = Attention::new().causal();
    for dims in DIMS {
        let narrow = Dtype::F8E4M3;
        check(&device, "attention_wgmma", [Dtype::Bf16, narrow], [70, 150], dims, &causal);
        let products = causal.clone().products(narrow);
        check(&device, "attention_wgmma", [narrow; 2], [70, 150], dims, &products);
    }
    // Few queries over 8 bits, which are converted in registers.
    for (dims, len) in [([64, 64], 1), ([128, 128], 5), ([256, 256], 9), ([96, 80], 4), ([16, 32], 16)] {
        check(&device, "attention_swapped", [Dtype::Bf16, Dtype::F8E4M3], [len, 1150], dims, &causal);
    }
    // Elements one by one.
    for dims in [[12, 12], [33, 7], [100, 72]] {
        check(&device, "attention_wgmma", [Dtype::F16; 2], [40, 150], dims, &causal);
    }
}

#[test]
fn states_of_segments_that_wait_in_shared_memory_meet_in_no_bank() {
    let device = device();
    if !device.limits().has_wgmma {
        println!("skipped: no WGMMA");
        return;
    }
    for dims in [[64, 64], [128, 128], [40, 80]] {
        check(&device, "attention_wgmma", [Dtype::F16; 2], [130, 1100], dims, &Attention::new());
    }
}

#[test]
fn on_cuda_cores_neither_keys_nor_values_nor_weights_meet_in_a_bank() {
    let device = device();
    for dims in [[64, 64], [128, 128], [256, 256], [96, 80], [7, 33]] {
        check(&device, "attention_simt", [Dtype::F32; 2], [40, 70], dims, &Attention::new().causal());
    }
}
