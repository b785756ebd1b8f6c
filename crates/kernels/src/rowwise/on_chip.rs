//! The kernel that holds rows on chip, in registers or in shared memory: each element is read once, and each result written
//! once.

use std::rc::Rc;

use warpfold_lang::{
    Array, Global, Shared, Val, block_idx, dynamic_shared, kernel, thread_idx, wait_for_dependencies, when,
};

use super::held::{At, Groups, Items, Of};
use super::ring::{Ring, Rows, Tiling};
use super::stage::{GRAIN, Piece, Span, bring};
use super::{Columns, Held, RowOperator, RowWise};
use crate::elements::{Origin, Place, Run};
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
    /// Items a group; it divides the row's length.
    pub vector: u32,
    /// Where rows are.
    pub home: Home,
    /// How neighbours of the row inputs lie.
    pub runs: [Run; MAX_INPUTS],
    /// How neighbours of the vectors along the row lie.
    pub column_runs: [Run; MAX_INPUTS],
    /// Whether results can be stored as wide as can be.
    pub wide_out: bool,
    /// Kept dimensions.
    pub kept: usize,
    /// Whether positions have 32 bits.
    pub small: bool,
}

/// Where a row is on chip.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Home {
    /// In the registers of up to a cluster, converted to what is computed in.
    Registers {
        /// Groups of neighbours that a thread holds.
        groups: u32,
        /// Whether the row has every group of every thread.
        exact: bool,
        /// Whether the vectors along the row are loaded together with it.
        early_columns: bool,
    },
    /// In the shared memory of a block, as it is in the memory of the device.
    Shared {
        /// Groups that a thread reads before it uses the first.
        unroll: u32,
        /// Blocks that are to be on a multiprocessor together.
        blocks: u32,
        /// How rows come there.
        way: Way,
        /// Bytes of shared memory.
        bytes: u32,
    },
}

/// How rows come to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// A block has one row, and waits for all of it.
    AtOnce {
        /// Whether rows begin and end at multiples of 16 bytes.
        is_whole: bool,
    },
    /// A block has a few rows, which go through a ring of so many tiles; they begin and end at multiples of 16 bytes.
    Ring(u32),
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

    /// Shared memory a block, beside what the kernel declares.
    pub(super) const fn shared_bytes(&self) -> u32 {
        match self.home {
            Home::Registers { .. } => 0,
            Home::Shared { bytes, .. } => bytes,
        }
    }

    /// As part of a kernel's name.
    fn key(&self) -> String {
        let Self { block, cluster, lanes, vector, .. } = *self;
        let by = if cluster > 1 { format!("{cluster}x{block}") } else { lanes.to_string() };
        match self.home {
            Home::Registers { groups, exact: true, .. } => format!("on_chip_{by}x{groups}x{vector}"),
            Home::Registers { groups, exact: false, .. } => format!("on_chip_{by}x{groups}x{vector}_part"),
            Home::Shared { unroll, blocks, way, .. } => {
                let way = match way {
                    Way::AtOnce { is_whole: true } => String::new(),
                    Way::AtOnce { is_whole: false } => "_part".to_owned(),
                    Way::Ring(slots) => format!("_ring{slots}"),
                };
                format!("in_shared_{by}x{unroll}x{vector}_{blocks}{way}")
            }
        }
    }

    /// Rows a block, where it has whole ones.
    pub(super) const fn rows(&self) -> u32 {
        if self.cluster > 1 { 1 } else { self.block / self.lanes }
    }
}

/// The places so many elements behind these addresses, and then so many more.
pub(super) fn places(bases: &[Global<u8>], dtypes: &[Dtype], runs: &[Run], (i, more): (Val<u64>, u32)) -> Vec<Place> {
    let place = |((base, dtype), run): ((&Global<u8>, &Dtype), &Run)| Place {
        pointer: if *run == Run::Same { *base } else { base.at(i * dtype.bytes()).at(u64::from(more) * dtype.bytes()) },
        run: *run,
    };
    bases.iter().zip(dtypes).zip(runs).map(place).collect()
}

pub(super) fn kernel_of<O: RowOperator>(rowwise: &RowWise<O>, shape: &OnChip) -> AnyKernel {
    let RowWise { operator, source, columns, sink, stats, .. } = rowwise.clone();
    let OnChip { block, cluster, lanes, vector, runs, column_runs, wide_out, kept, small, .. } = *shape;
    let (team, rows_a_block, home) = (shape.team(), shape.rows(), shape.home.clone());
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
        wait_for_dependencies();
        let words = Words(words);
        let inputs = &[in0, in1][..source.dtypes().len()];
        let column_inputs = [col0, col1][..columns.dtypes().len()].to_vec();
        let outputs = &[out0, out1][..sink.dtypes().len()];
        let bases = {
            let (inputs, dtypes) = (inputs.to_vec(), source.dtypes().to_vec());
            move |row| words.kept(kept).places(row, &inputs, &dtypes, small)
        };
        let of = || Of { len: words.len().cast::<u32>(), team };
        let along = columns.clone();
        let column_group =
            move |i: (Val<u64>, u32)| along.load(&places(&column_inputs, along.dtypes(), &column_runs, i), vector);
        let finish = |row: Val<u64>, is_row: Val<bool>, items, columns, groups| {
            // Compute
            team.gather();
            let (results, row_stats) = operator.on_chip(&Held { items, groups }, &Columns(columns));
            // Store
            let first = row * words.len();
            results.for_each(|(position, more), has, results| {
                let is_there = has.map_or(is_row, |has| has & is_row);
                when(is_there, || {
                    let i = first + position.cast::<u64>();
                    let place = |(output, dtype): (&Global<u8>, &Dtype)| {
                        output.at(i * dtype.bytes()).at(u64::from(more) * dtype.bytes())
                    };
                    let to: Vec<_> = outputs.iter().zip(sink.dtypes()).map(place).collect();
                    sink.store(&to, results, wide_out);
                });
            });
            if !stats.dtypes().is_empty() {
                let stat_outputs = &[stat0, stat1][..stats.dtypes().len()];
                when(is_row & team.thread().eq(0), || stats.store_at(stat_outputs, row, row_stats));
            }
        };
        // Load
        match home {
            Home::Registers { groups, exact, early_columns } => {
                let own = if rows_a_block == 1 { Val::constant(0) } else { thread_idx().x >> lanes.ilog2() };
                let block_of_rows = if cluster > 1 { block_idx().x >> cluster.ilog2() } else { block_idx().x };
                let row = block_of_rows.cast::<u64>() * u64::from(rows_a_block) + own.cast::<u64>();
                let is_row = if rows_a_block == 1 { Val::constant(true) } else { row.lt(words.results()) };
                // Threads beyond the last row compute it as well, so that the lanes of a warp stay together.
                let row = if rows_a_block == 1 { row } else { row.min(words.results() - 1) };
                let of = of();
                let (len, bases) = (of.len, bases(row));
                // Each behind the first by what is known while recording, so that one register serves all addresses.
                let (mine, step) = (team.thread() * vector, lanes * vector);
                let positions: Vec<Val<u32>> = (0..groups).map(|g| mine + g * step).collect();
                let has = (!exact).then(|| positions.iter().map(|i| i.lt(len)).collect::<Vec<_>>());
                // What the row does not have is read from its end, and passed over.
                let from = move |i: Val<u32>| if exact { i } else { i.min(len - vector) }.cast::<u64>();
                let of_group = |g: u32| if exact { (from(mine), g * step) } else { (from(positions[g as usize]), 0) };
                let group = |g| source.load(&places(&bases, source.dtypes(), &runs, of_group(g)), vector);
                let items = Items::Kept((0..groups).map(group).collect());
                // Early, so that they come together with the row, where registers last; else from the cache when they are used.
                let columns = if early_columns {
                    Items::Kept((0..groups).map(|g| column_group(of_group(g))).collect())
                } else {
                    Items::Again(Rc::new(move |at: At| column_group((from(at.position), 0))))
                };
                finish(row, is_row, items, columns, Groups::Fixed { positions, step, has, of });
            }
            Home::Shared { unroll, way, bytes, .. } => {
                let of = of();
                let (len, room) = (of.len, dynamic_shared::<u8>(bytes));
                let columns =
                    Items::Again(Rc::new(move |at: At| column_group((at.position.cast(), 0))) as Rc<dyn Fn(_) -> _>);
                let all = source.dtypes().iter().copied().enumerate();
                let staged: Vec<_> = all.filter(|(input, _)| runs[*input] != Run::Same).collect();
                // What is read of a row that begins there, the staged inputs from these places.
                let items = |bases: Vec<Global<u8>>, places: Vec<(usize, Shared<u8>)>| {
                    let source = source.clone();
                    let load = move |at: At| {
                        let mut origins: Vec<_> = (bases.iter().zip(runs))
                            .map(|(base, run)| Origin::Global(Place { pointer: *base, run }))
                            .collect();
                        for (input, place) in &places {
                            let pointer = place.at(at.place * source.dtypes()[*input].bytes() as u32);
                            origins[*input] = Origin::Shared { pointer, wide: runs[*input] == Run::Wide };
                        }
                        source.load_from(&origins, vector)
                    };
                    Items::Again(Rc::new(load) as Rc<dyn Fn(_) -> _>)
                };
                match way {
                    Way::AtOnce { is_whole } => {
                        let row = block_idx().x.cast();
                        let bases = bases(row);
                        let pieces = pieces(&bases, &staged, room, len, is_whole);
                        let places = staged.iter().map(|(input, _)| *input).zip(bring(&pieces, block)).collect();
                        let walk = Rc::new(Span { len, threads: block, vector, unroll });
                        finish(row, Val::constant(true), items(bases, places), columns, Groups::Walked { walk, of });
                    }
                    Way::Ring(slots) => {
                        let tiling = Tiling { slots, threads: block, vector, unroll };
                        let staged = Ring::staged(tiling, &staged, room);
                        let places: Vec<_> = staged.iter().map(|staged| (staged.input, staged.to)).collect();
                        let rows = Rows { bases: Box::new(bases.clone()), len, rows: words.results(), staged };
                        Ring::begin(tiling, rows).for_each_row(|row, walk| {
                            let items = items(bases(row), places);
                            finish(row, Val::constant(true), items, columns, Groups::Walked { walk, of });
                        });
                    }
                }
            }
        }
    };
    let kernel = kernel(format!("{}_{}", rowwise.name, shape.key()), body).required_block(block);
    let kernel = match shape.home {
        Home::Shared { blocks, .. } => kernel.min_blocks(blocks),
        Home::Registers { .. } => kernel,
    };
    if cluster > 1 { kernel.cluster(cluster).into() } else { kernel.into() }
}

/// Each of these inputs of a row.
fn pieces(
    bases: &[Global<u8>],
    staged: &[(usize, Dtype)],
    mut room: Shared<u8>,
    len: Val<u32>,
    is_whole: bool,
) -> Vec<Piece> {
    let piece = |(input, dtype): &(usize, Dtype)| {
        let piece = Piece { dtype: *dtype, from: bases[*input], to: room, len, is_whole };
        let beside = if is_whole { 0 } else { GRAIN };
        room = room.at(((len * dtype.bytes() as u32 + (GRAIN - 1)) & !(GRAIN - 1)) + beside);
        piece
    };
    staged.iter().map(piece).collect()
}
