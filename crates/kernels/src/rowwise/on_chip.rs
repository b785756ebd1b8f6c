//! The kernel that holds rows in registers: each element is read once, and each result written once.

use warpfold_lang::{Array, Global, Val, block_idx, kernel, thread_idx, when};

use super::{Columns, Held, RowOperator, RowWise};
use crate::elements::{Place, Run};
use crate::fold::geometry::{MAX_INPUTS, WORDS, Words};
use crate::row::Team;
use crate::{AnyKernel, Dtype};

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnChip {
    /// Threads a block.
    pub block: u32,
    /// Blocks a cluster, which share a row; 1 without clusters.
    pub cluster: u32,
    /// Threads a row, a power of two: up to 32, the block, or the cluster.
    pub lanes: u32,
    /// Groups of neighbours that a thread holds.
    pub groups: u32,
    /// Items a group; it divides the row's length.
    pub vector: u32,
    /// Whether the row has every group of every thread.
    pub exact: bool,
    /// How neighbours of the row inputs lie.
    pub runs: [Run; MAX_INPUTS],
    /// How neighbours of the vectors along the row lie.
    pub column_runs: [Run; MAX_INPUTS],
    /// Whether the vectors along the row are loaded together with it.
    pub early_columns: bool,
    /// Whether results can be stored as wide as can be.
    pub wide_out: bool,
    /// Kept dimensions.
    pub kept: usize,
    /// Whether positions have 32 bits.
    pub small: bool,
}

impl OnChip {
    pub(super) const fn team(&self) -> Team {
        if self.cluster > 1 {
            return Team::Cluster { blocks: self.cluster, threads: self.block };
        }
        match self.lanes {
            32 => Team::Warp,
            lanes if lanes < 32 => Team::Lanes(lanes),
            threads => Team::Block(threads),
        }
    }

    /// Rows a block, where it has whole ones.
    pub(super) const fn rows(&self) -> u32 {
        if self.cluster > 1 { 1 } else { self.block / self.lanes }
    }
}

/// The places `i` elements behind these addresses.
pub(super) fn places(bases: &[Global<u8>], dtypes: &[Dtype], runs: &[Run], i: Val<u64>) -> Vec<Place> {
    let place = |((base, dtype), run): ((&Global<u8>, &Dtype), &Run)| Place {
        pointer: if *run == Run::Same { *base } else { base.at(i * dtype.bytes()) },
        run: *run,
    };
    bases.iter().zip(dtypes).zip(runs).map(place).collect()
}

pub(super) fn kernel_of<O: RowOperator>(rowwise: &RowWise<O>, shape: &OnChip) -> AnyKernel {
    let RowWise { operator, source, columns, sink, stats, .. } = rowwise.clone();
    let OnChip {
        cluster, lanes, groups, vector, exact, runs, column_runs, early_columns, wide_out, kept, small, ..
    } = *shape;
    let (team, rows_a_block) = (shape.team(), shape.rows());
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     col0: Global<u8>,
                     col1: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     stat0: Global<u8>,
                     stat1: Global<u8>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has a block for `block / lanes` rows, or a cluster for each row.
        team.begin();
        let words = Words(words);
        let inputs = &[in0, in1][..source.dtypes().len()];
        let column_inputs = &[col0, col1][..columns.dtypes().len()];
        let outputs = &[out0, out1][..sink.dtypes().len()];
        let own = if rows_a_block == 1 { Val::constant(0) } else { thread_idx().x >> lanes.ilog2() };
        let block_of_rows = if cluster > 1 { block_idx().x >> cluster.ilog2() } else { block_idx().x };
        let row = block_of_rows.cast::<u64>() * u64::from(rows_a_block) + own.cast::<u64>();
        let is_row = if rows_a_block == 1 { Val::constant(true) } else { row.lt(words.results()) };
        // Threads beyond the last row compute it as well, so that the lanes of a warp stay together.
        let row = if rows_a_block == 1 { row } else { row.min(words.results() - 1) };
        let len = words.len().cast::<u32>();
        // Load
        let offsets = words.kept(kept).offsets(row, inputs.len(), small);
        let bases: Vec<_> = (inputs.iter().zip(offsets).zip(source.dtypes()))
            .map(|((input, offset), dtype)| input.at(offset * dtype.bytes()))
            .collect();
        let positions: Vec<Val<u32>> = (0..groups).map(|g| (team.thread() + g * lanes) * vector).collect();
        let has = (!exact).then(|| positions.iter().map(|i| i.lt(len)).collect::<Vec<_>>());
        // What the row does not have is read from its end, and passed over.
        let from = |i: &Val<u32>| if exact { *i } else { i.min(len - vector) }.cast::<u64>();
        let items =
            positions.iter().flat_map(|i| source.load(&places(&bases, source.dtypes(), &runs, from(i)), vector));
        let items: Vec<_> = items.collect();
        let along =
            |i: &Val<u32>| columns.load(&places(column_inputs, columns.dtypes(), &column_runs, from(i)), vector);
        // Early, so that they come together with the row, where registers last; else from the cache when they are used.
        let early: Option<Vec<Vec<_>>> = early_columns.then(|| positions.iter().map(along).collect());
        let group_of = |group: usize| early.as_ref().map_or_else(|| along(&positions[group]), |all| all[group].clone());
        let held = Held { items, vector: vector as usize, positions: positions.clone(), has, len, team };
        // Compute
        team.gather();
        let (results, row_stats) = operator.on_chip(&held, &Columns { load: &group_of });
        // Store
        let first = row * words.len();
        for (group, results) in results.items.chunks(vector as usize).enumerate() {
            let is_there = held.has.as_ref().map_or(is_row, |has| has[group] & is_row);
            when(is_there, || {
                let i = first + held.positions[group].cast::<u64>();
                let to: Vec<_> =
                    outputs.iter().zip(sink.dtypes()).map(|(output, dtype)| output.at(i * dtype.bytes())).collect();
                sink.store(&to, results, wide_out);
            });
        }
        if !stats.dtypes().is_empty() {
            let stat_outputs = &[stat0, stat1][..stats.dtypes().len()];
            when(is_row & team.thread().eq(0), || stats.store_at(stat_outputs, row, row_stats));
        }
    };
    let exactly = if exact { "" } else { "_part" };
    let by = if cluster > 1 { format!("{cluster}x{}", shape.block) } else { lanes.to_string() };
    let kernel = kernel(format!("{}_on_chip_{by}x{groups}x{vector}{exactly}", rowwise.name), body);
    let kernel = kernel.required_block(shape.block);
    if cluster > 1 { kernel.cluster(cluster).into() } else { kernel.into() }
}
