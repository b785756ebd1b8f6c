//! What kernels for rows on chip record: load, compute, store.

use std::rc::Rc;

use warpfold_lang::{
    AnyRegisters, Global, Shared, Val, block_idx, dynamic_shared, params, sync_threads, thread_idx, when,
};

use super::family::Code;
use super::on_chip::{OnChip, RowPartition, RowStorage, StoreVia};
use super::on_chip_row::{GroupCoord, Groups, Items, RowExtent};
use super::partition::{Partition, RegisterGroups, Staged};
use super::smem_load::{COPY_BYTES, RowCopy, StridedLoop, load_rows};
use super::{Columns, Cost, OnChipRow};
use crate::Dtype;
use crate::elements::{Destination, Origin, Place, Run};
use crate::fold::geometry::WORDS;
use crate::walk::Walk;

params! {
    /// Parameters of the kernels of row operators.
    pub(super) struct RowArgs {
        inputs: [Global<u8>; 2], outputs: [Global<u8>; 2], stats: [Global<u8>; 2],
        /// Vectors along the row.
        columns: [Global<u8>; 2],
        /// Statistics between the two launches for long rows.
        spilled: [Global<u8>; 2],
        rows: u64,
        /// Items of a row.
        len: u64,
        /// The dimensions of rows.
        kept: [u64; WORDS],
    }
}

/// What a kernel for rows on chip is given.
pub(super) struct Memory {
    pub(super) inputs: Vec<Global<u8>>,
    pub(super) columns: Vec<Global<u8>>,
    pub(super) outputs: Vec<Global<u8>>,
    pub(super) stats: Vec<Global<u8>>,
    pub(super) rows: Val<u64>,
    /// Items of a row.
    pub(super) len: Val<u64>,
    /// The dimensions of rows.
    pub(super) kept: Walk<WORDS>,
}

/// A kernel while it is recorded.
pub(super) struct Body<'a> {
    pub(super) code: &'a Code,
    pub(super) shape: &'a OnChip,
    pub(super) memory: Memory,
}

/// What a thread has of a row.
struct Loaded {
    row: Val<u64>,
    /// Whether there is such a row.
    is_row: Val<bool>,
    items: Items<AnyRegisters>,
    columns: Items<AnyRegisters>,
    groups: Groups,
}

/// An input in shared memory, by its number.
type InSmem = (usize, Shared<u8>);

/// The elements at a position after these addresses, and an offset after it that is known while
/// recording.
pub(super) fn places(bases: &[Global<u8>], dtypes: &[Dtype], runs: &[Run], (i, offset): (Val<u64>, u32)) -> Vec<Place> {
    let place = |((base, dtype), run): ((&Global<u8>, &Dtype), &Run)| {
        let at = || base.at(i * dtype.bytes()).at(u64::from(offset) * dtype.bytes());
        Place { pointer: if *run == Run::Same { *base } else { at() }, run: *run }
    };
    bases.iter().zip(dtypes).zip(runs).map(place).collect()
}

impl Body<'_> {
    pub(super) fn record(&self) {
        match self.shape.storage {
            RowStorage::Registers { groups, exact, early_columns } => self.in_registers(groups, exact, early_columns),
            RowStorage::Partitioned(partition) => self.partitioned(partition),
            RowStorage::Smem { unroll, smem_bytes, .. } => self.in_smem(unroll, smem_bytes),
        }
    }

    fn in_registers(&self, groups: u32, exact: bool, early_columns: bool) {
        let OnChip { threads_per_row, vector, runs, .. } = *self.shape;
        let (team, memory, source) = (self.shape.team(), &self.memory, &self.code.source);
        let rows = self.shape.rows_per_block();
        let slot = if rows == 1 { Val::constant(0) } else { thread_idx().x >> threads_per_row.ilog2() };
        let row = self.team_idx().cast::<u64>() * u64::from(rows) + slot.cast::<u64>();
        let is_row = if rows == 1 { Val::constant(true) } else { row.lt(memory.rows) };
        // Threads beyond the last row compute it as well, so that the lanes of a warp stay
        // together.
        let row = if rows == 1 { row } else { row.min(memory.rows - 1) };
        let extent = self.extent();
        let (len, bases) = (extent.len, self.bases(row));
        // Offsets from the first group are constants, so that one register serves all addresses.
        let (first, step) = (team.thread() * vector, threads_per_row * vector);
        let positions: Vec<Val<u32>> = (0..groups).map(|g| first + g * step).collect();
        let has = (!exact).then(|| positions.iter().map(|i| i.lt(len)).collect::<Vec<_>>());
        // Groups that the row does not have are read from its end, and ignored.
        let from = move |i: Val<u32>| if exact { i } else { i.min(len - vector) }.cast::<u64>();
        let of_group = |g: u32| if exact { (from(first), g * step) } else { (from(positions[g as usize]), 0) };
        let group = |g| source.load(&places(&bases, source.dtypes(), &runs, of_group(g)), vector);
        let items = Items::Materialized((0..groups).map(group).collect());
        if self.shape.needs_barrier() {
            sync_threads();
        }
        // Early, so that they arrive together with the row, where registers suffice; else from the
        // cache when they are used.
        let column_group = self.column_group();
        let columns = if early_columns {
            Items::Materialized((0..groups).map(|g| column_group(of_group(g))).collect())
        } else {
            Items::Lazy(Rc::new(move |coord: GroupCoord| column_group((from(coord.position()), 0))))
        };
        let groups = Groups::Unrolled { positions, step, has, extent };
        self.finish(Loaded { row, is_row, items, columns, groups }, |coord| self.destinations(row, coord));
    }

    fn partitioned(&self, partition: RowPartition) {
        let OnChip { block, vector, .. } = *self.shape;
        let RowPartition { groups, register_groups, smem_bytes, store_via, .. } = partition;
        let row = self.team_idx().cast::<u64>();
        let (extent, bases) = (self.extent(), self.bases(row));
        // By two groups 1 % less for softmax of 65,536 bf16, by one up to 7 % less for norms with
        // vectors along the row.
        let unroll = if self.code.cost == Cost::Heavy { 1 } else { 2 };
        let partition = Rc::new(Partition::new(self.shape, partition, unroll, extent.len));
        let mut smem = dynamic_shared::<u8>(smem_bytes);
        let staged = self.staged().into_iter().map(|(input, dtype)| {
            let staged = Staged { row: bases[input], smem, dtype };
            smem = smem.at(block * (groups - register_groups) * vector * dtype.bytes() as u32);
            (input, staged)
        });
        let staged: Vec<_> = staged.collect();
        let in_registers = partition.load(&staged.iter().map(|(_, staged)| *staged).collect::<Vec<_>>());
        let in_smem = staged.iter().map(|(input, staged)| (*input, staged.smem)).collect();
        let items = self.items(bases, in_smem, in_registers);
        let groups = Groups::Looped { groups: partition.clone(), extent };
        let loaded = Loaded { row, is_row: Val::constant(true), items, columns: self.lazy_columns(), groups };
        if store_via != StoreVia::Tma {
            return self.finish(loaded, |coord| self.destinations(row, coord));
        }
        let outputs = self.memory.outputs.iter().zip(self.code.sink.dtypes());
        let first = row * self.memory.len;
        let result = |((output, dtype), (_, staged)): ((&Global<u8>, &Dtype), &(usize, Staged))| Staged {
            row: output.at(first * dtype.bytes()),
            smem: staged.smem,
            dtype: *dtype,
        };
        let results: Vec<_> = outputs.zip(&staged).map(result).collect();
        let destination = |coord: GroupCoord, result: &Staged| {
            Destination::Shared(result.smem.at(coord.smem_idx * result.dtype.bytes() as u32))
        };
        self.finish(loaded, |coord| results.iter().map(|result| destination(coord, result)).collect());
        partition.store_by_tma(&results);
    }

    fn in_smem(&self, unroll: u32, smem_bytes: u32) {
        let OnChip { block, vector, .. } = *self.shape;
        let row = block_idx().x.cast();
        let (extent, bases, staged) = (self.extent(), self.bases(row), self.staged());
        let copies = row_copies(&bases, &staged, dynamic_shared::<u8>(smem_bytes), extent.len);
        let in_smem = staged.iter().map(|(input, _)| *input).zip(load_rows(&copies, block)).collect();
        let groups = Rc::new(StridedLoop { len: extent.len, threads: block, vector, unroll });
        let groups = Groups::Looped { groups, extent };
        let (items, columns) = (self.items(bases, in_smem, RegisterGroups::new()), self.lazy_columns());
        let loaded = Loaded { row, is_row: Val::constant(true), items, columns, groups };
        self.finish(loaded, |coord| self.destinations(row, coord));
    }

    /// Computes what has been loaded, and stores each group's results there.
    fn finish(&self, loaded: Loaded, destinations: impl Fn(GroupCoord) -> Vec<Destination>) {
        let Code { operator, sink, stats, .. } = self.code;
        let Loaded { row, is_row, items, columns, groups } = loaded;
        let team = self.shape.team();
        team.gather();
        let (results, row_stats) = operator.on_chip(&OnChipRow { items, groups }, &Columns(columns));
        results.for_each(|coord, has, results| {
            let is_there = has.map_or(is_row, |has| has & is_row);
            when(is_there, || sink.store_to(&destinations(coord), results, self.shape.wide_out));
        });
        if !stats.dtypes().is_empty() {
            when(is_row & team.thread().eq(0), || stats.store_at(&self.memory.stats, row, row_stats));
        }
    }

    /// Where a group's results are in global memory.
    fn destinations(&self, row: Val<u64>, coord: GroupCoord) -> Vec<Destination> {
        let i = row * self.memory.len + coord.base.cast::<u64>();
        let destination = |(output, dtype): (&Global<u8>, &Dtype)| {
            Destination::Global(output.at(i * dtype.bytes()).at(u64::from(coord.offset) * dtype.bytes()))
        };
        self.memory.outputs.iter().zip(self.code.sink.dtypes()).map(destination).collect()
    }

    /// The number of the cluster, or of the block without clusters.
    fn team_idx(&self) -> Val<u32> {
        let cluster = self.shape.cluster;
        if cluster > 1 { block_idx().x >> cluster.ilog2() } else { block_idx().x }
    }

    fn extent(&self) -> RowExtent {
        RowExtent { len: self.memory.len.cast::<u32>(), team: self.shape.team() }
    }

    /// Where a row of each input begins.
    fn bases(&self, row: Val<u64>) -> Vec<Global<u8>> {
        self.memory.kept.places(row, &self.memory.inputs, self.code.source.dtypes(), self.shape.small)
    }

    /// The inputs that have more than one element along the row.
    fn staged(&self) -> Vec<(usize, Dtype)> {
        let all = self.code.source.dtypes().iter().copied().enumerate();
        all.filter(|(input, _)| self.shape.runs[*input] != Run::Same).collect()
    }

    /// The items of a row that begins there, of staged inputs from shared memory or registers.
    fn items(&self, bases: Vec<Global<u8>>, in_smem: Vec<InSmem>, in_registers: RegisterGroups) -> Items<AnyRegisters> {
        let OnChip { runs, vector, .. } = *self.shape;
        let source = self.code.source.clone();
        Items::Lazy(Rc::new(move |coord: GroupCoord| {
            let global = |(base, run): (&Global<u8>, Run)| Origin::Global(Place { pointer: *base, run });
            let mut origins: Vec<_> = bases.iter().zip(runs).map(global).collect();
            let Some(number) = coord.register_idx else {
                for (input, smem) in &in_smem {
                    let pointer = smem.at(coord.smem_idx * source.dtypes()[*input].bytes() as u32);
                    origins[*input] = Origin::Shared { pointer, wide: runs[*input] == Run::Wide };
                }
                return source.load_from(&origins, vector);
            };
            // All inputs in registers have items of the same size.
            let num_words = in_registers[number][0].len();
            let of_word = |i: usize| {
                for ((input, _), words) in in_smem.iter().zip(&in_registers[number]) {
                    origins[*input] = Origin::Word(words[i]);
                }
                source.load_from(&origins, vector / num_words as u32)
            };
            (0..num_words).flat_map(of_word).collect()
        }))
    }

    /// A group of the vectors along the row.
    fn column_group(&self) -> impl Fn((Val<u64>, u32)) -> Vec<AnyRegisters> + 'static {
        let OnChip { column_runs, vector, .. } = *self.shape;
        let (along, columns) = (self.code.columns.clone(), self.memory.columns.clone());
        move |i| along.load(&places(&columns, along.dtypes(), &column_runs, i), vector)
    }

    /// The vectors along the row, loaded where they are used.
    fn lazy_columns(&self) -> Items<AnyRegisters> {
        let column_group = self.column_group();
        Items::Lazy(Rc::new(move |coord: GroupCoord| column_group((coord.base.cast(), coord.offset))))
    }
}

/// The copies of these inputs of a row, one after the other in shared memory.
fn row_copies(bases: &[Global<u8>], staged: &[(usize, Dtype)], mut smem: Shared<u8>, len: Val<u32>) -> Vec<RowCopy> {
    let copy = |(input, dtype): &(usize, Dtype)| {
        let copy = RowCopy { dtype: *dtype, from: bases[*input], to: smem, len };
        smem = smem.at(((len * dtype.bytes() as u32 + (COPY_BYTES - 1)) & !(COPY_BYTES - 1)) + COPY_BYTES);
        copy
    };
    staged.iter().map(copy).collect()
}
