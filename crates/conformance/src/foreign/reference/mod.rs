//! References: for each reference name of a case, a function that computes the outputs
//! independently and compares.
//!
//! Nothing here uses the simulator's arithmetic. Integers are Rust's, float functions the f64 ones
//! of the platform, roundings and half precision a soft-float library's.

mod algorithms;
mod atomics;
mod calls;
mod floats;
mod halves;
mod integers;
mod rows;
mod sums;
mod synchronisation;
mod tensor_cores;
mod warps;

use super::expect::Outcome;
use super::run::Run;

/// Judges the outputs of a run.
pub type Reference = fn(&Run<'_>) -> Outcome;

/// The reference of this name.
#[must_use]
pub fn find(name: &str) -> Option<Reference> {
    REFERENCES.iter().find(|(n, _)| *n == name).map(|&(_, reference)| reference)
}

/// Every reference by its name in the list of cases.
pub const REFERENCES: &[(&str, Reference)] = &[
    ("nothing", |_| Ok(())),
    ("vector_add", sums::vector_add),
    ("block_sums_i32", sums::block_sums_i32),
    ("total_i32", sums::total_i32),
    ("single_pass_i32", sums::single_pass_i32),
    ("total_f32", sums::total_f32),
    ("scan_inclusive", sums::scan_inclusive),
    ("argmax", sums::argmax),
    ("softmax_rows", rows::softmax),
    ("layer_norm", rows::layer_norm_scaled),
    ("triton_layer_norm", rows::layer_norm_triton),
    ("sgemv", rows::sgemv),
    ("sgemm", rows::sgemm),
    ("transpose", rows::transpose),
    ("column_sums", rows::column_sums),
    ("gelu", rows::gelu),
    ("noinline_calls", calls::noinline_calls),
    ("recursion", calls::recursion),
    ("function_pointers", calls::function_pointers),
    ("virtual_calls", calls::virtual_calls),
    ("switch_tree", calls::switch_tree),
    ("indexed_branch", calls::indexed_branch),
    ("by_value", calls::by_value),
    ("by_value_written", calls::by_value_written),
    ("scalars", calls::scalars),
    ("tables", calls::tables),
    ("globals", calls::globals),
    ("all_ones", calls::all_ones),
    ("clamp", calls::clamp),
    ("philox", algorithms::philox),
    ("sort", algorithms::sort),
    ("insertion_sort", algorithms::insertion_sort),
    ("most_frequent_digit", algorithms::most_frequent_digit),
    ("bitonic_sort", algorithms::bitonic_sort),
    ("mandelbrot", algorithms::mandelbrot),
    ("life", algorithms::life),
    ("thread_ids", algorithms::thread_ids),
    ("atomic_i32", atomics::atomic_i32),
    ("atomic_i64", atomics::atomic_i64),
    ("atomic_float", atomics::atomic_float),
    ("cas_u16", atomics::cas_u16),
    ("cas_u128", atomics::cas_u128),
    ("vector_atomics", atomics::vector_atomics),
    ("scopes", atomics::scopes),
    ("scoped_legacy", atomics::scoped_legacy),
    ("histogram", atomics::histogram),
    ("triton_histogram", atomics::triton_histogram),
    ("count_above", atomics::count_above),
    ("grid_sync", synchronisation::grid_sync),
    ("spin_lock", synchronisation::spin_lock),
    ("cluster_row_sum", synchronisation::cluster_row_sum),
    ("producer_consumer", synchronisation::producer_consumer),
    ("ticket_lock", synchronisation::ticket_lock),
    ("barrier_reductions", synchronisation::barrier_reductions),
    ("named_barriers", synchronisation::named_barriers),
    ("half_block_reverse", synchronisation::half_block_reverse),
    ("shuffles", warps::shuffles),
    ("votes", warps::votes),
    ("reductions", warps::reductions),
    ("tiled", warps::tiled),
    ("wide_tiles", warps::wide_tiles),
    ("tile_scan", warps::tile_scan),
    ("filter_positive", warps::filter_positive),
    ("aggregated_atomic", warps::aggregated_atomic),
    ("labelled", warps::labelled),
    ("f16_ops", halves::f16_ops),
    ("bf16_ops", halves::bf16_ops),
    ("f16x2_dot", halves::f16x2_dot),
    ("half_conversions", halves::half_conversions),
    ("f16_add", halves::f16_add),
    ("bf16_scale_add", halves::bf16_scale_add),
    ("int128_ops", integers::int128_ops),
    ("divisions", integers::divisions),
    ("bits", integers::bits),
    ("packed", integers::packed),
    ("float_to_integer", floats::float_to_integer),
    ("integer_to_float", floats::integer_to_float),
    ("float_functions", floats::float_functions),
    ("float_functions_fast", floats::float_functions_fast),
    ("float_fast", floats::float_fast),
    ("float_roundings", floats::float_roundings),
    ("double_functions", floats::double_functions),
    ("double_erf", floats::double_erf),
    ("double_large_angles", floats::double_large_angles),
    ("double_roundings", floats::double_roundings),
    ("triton_matmul", tensor_cores::triton_matmul),
    ("triton_attention", tensor_cores::triton_attention),
    ("one_tile", tensor_cores::one_tile),
    ("every_fourth_plus_one", tensor_cores::every_fourth_plus_one),
    ("reversed", tensor_cores::reversed),
    ("cluster_neighbour", tensor_cores::cluster_neighbour),
    ("plus_one", tensor_cores::plus_one),
    ("ones", tensor_cores::ones),
];

/// The error function from a series of positive terms: no cancellation.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for k in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * k + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Row `k` of a buffer that holds one row of `n` elements a question.
fn row<T>(all: &[T], k: usize, n: usize) -> &[T] {
    &all[k * n..][..n]
}
