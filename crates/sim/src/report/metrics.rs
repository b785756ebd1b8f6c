//! Names of NVIDIA's profiler metrics for the counters of a report.

/// Counters by their names in [`Counters`](super::Counters), with the metric of Nsight Compute that
/// counts the same on hardware; a counter of two metrics is their sum.
///
/// Those of instructions count PTX here and machine code there, which ptxas makes of it: they are
/// alike, not equal. Those of memory are equal wherever ptxas keeps the accesses as they are
/// written.
pub const METRICS: &[(&str, &str)] = &[
    ("warp_instructions", "smsp__inst_executed.sum"),
    ("thread_instructions", "smsp__thread_inst_executed.sum"),
    ("predicated_on_thread_instructions", "smsp__thread_inst_executed_pred_on.sum"),
    ("branches", "smsp__inst_executed_op_branch.sum"),
    ("divergent_branches", "smsp__sass_branch_targets_threads_divergent.sum"),
    ("shared_load_requests", "smsp__inst_executed_op_shared_ld.sum"),
    ("shared_load_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    ("shared_load_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
    ("shared_store_requests", "smsp__inst_executed_op_shared_st.sum"),
    ("shared_store_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    ("shared_store_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"),
    ("global_load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"),
    ("global_load_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    ("global_load_bytes", "smsp__sass_data_bytes_mem_global_op_ld.sum"),
    ("global_store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"),
    ("global_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
    ("global_store_bytes", "smsp__sass_data_bytes_mem_global_op_st.sum"),
    ("l1_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum + l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
    (
        "l1_hit_sectors",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum + l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_hit.sum",
    ),
    (
        "local_requests",
        "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum + l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    ),
    (
        "global_atomics",
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum + l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    ),
    ("shared_atomics", "smsp__inst_executed_op_shared_atom.sum"),
    ("shared_atomic_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::METRICS;
    use crate::Counters;

    #[test]
    fn each_counter_stands_in_the_table_once() {
        // Counters without a hardware metric.
        let without = ["barriers", "distributed_requests", "warp_syncs"];
        let names: BTreeSet<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), METRICS.len());
        let debug = format!("{:?}", Counters::default());
        let fields = debug.trim_start_matches("Counters {").trim_end_matches('}').split(',');
        let fields: BTreeSet<&str> = fields.filter_map(|field| Some(field.split_once(':')?.0.trim())).collect();
        let expected: BTreeSet<&str> = names.iter().copied().chain(without).collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_documents_have_the_same_table() {
        let page = include_str!("../../../../docs/findings.md");
        for (counter, metric) in METRICS {
            let row = format!("| `{counter}` | `{metric}` |\n");
            assert!(page.contains(&row), "{row}");
        }
    }
}
