//! Where tensor cores read shared memory by `ldmatrix`, no two rows of a matrix meet in a bank.

use warpfold::{Attention, Dtype, Profile};

use crate::support::{device_of, tensor};

#[test]
fn neither_copies_nor_fragments_of_queries_keys_and_values_meet_in_a_bank() {
    let device = device_of(Profile::A100);
    for [dim, value_dim] in [[64, 64], [128, 128], [256, 256], [96, 80], [40, 160], [16, 32]] {
        let of = |seed, heads, len, dim| tensor(&device, seed, Dtype::Bf16, &[1, heads, len, dim]);
        let (q, k, v) = (of(1, 2, 70, dim), of(2, 1, 150, dim), of(3, 1, 150, value_dim));
        drop(device.take_reports());
        Attention::new().causal().run(&q, &k, &v).unwrap();
        let reports = device.take_reports();
        let report = reports.iter().find(|report| report.kernel.starts_with("attention_mma")).expect("its kernel");
        let counters = &report.report.counters;
        assert!(counters.shared_load_requests > 0 && counters.shared_store_requests > 0, "{counters:?}");
        assert_eq!(
            (counters.shared_load_bank_conflicts, counters.shared_store_bank_conflicts),
            (0, 0),
            "{dim} and {value_dim}"
        );
    }
}
