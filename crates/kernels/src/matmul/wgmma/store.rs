//! How a warpgroup stores its tile: by threads, or through shared memory by TMA.

use half::{bf16, f16};
use warpfold_lang::{
    HalfOfPair, Multiplicand, NamedBarrier, Swizzle, TensorMap, Tiles, Val, bulk_commit, bulk_wait_read, fence_async,
    sync_warpgroup, thread_idx, tiles, warpgroup_idx, when,
};

use super::consume::Pairs;
use super::dsmem_reduce::DsmemReduce;
use super::kernel::{Block, WgmmaProductConfig};
use super::source::Factor;
use crate::Dtype;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::args::WgmmaArgs;
use crate::matmul::epilogue_writer::EpilogueWriter;
use crate::matmul::gate::{self, Gate};
use crate::matmul::operand_major::OperandMajor;
use crate::matmul::tile_scheduler::TileWork;

/// How a warpgroup stores its rows.
pub(super) struct Store<S> {
    first: Val<u32>,
    exchange: Option<DsmemReduce<S>>,
    copied: Option<Copied>,
}

impl<S: Accumulator> Store<S> {
    /// For the warpgroup whose first row is `first`.
    pub(super) fn new<T: Multiplicand>(block: &Block<'_, T>, first: Val<u32>) -> Self {
        let WgmmaProductConfig { tile, copied, .. } = *block.config;
        let exchange = (tile.split > 1).then(|| DsmemReduce::new(tile));
        Self { first, exchange, copied: copied.map(|dtype| Copied::new(dtype, block.config, &block.a)) }
    }

    /// The end of a piece of work, whose inputs are on their way from here on.
    pub(super) fn writer<'a, T>(&self, block: &Block<'a, T>, work: &TileWork) -> EpilogueWriter<'a, S> {
        let WgmmaProductConfig { tile, rows, epilogue, .. } = block.config;
        let bytes = epilogue.result_bytes() as i64;
        let WgmmaArgs { sizes, part_stride, end: outputs, .. } = block.args;
        let outputs = outputs.result_at(work.part.cast::<i64>() * part_stride.get() * bytes);
        // After a block's rows come those of the next, or the same again.
        let (end, is_cut) = (sizes.m.get(), tile.cluster > 1 && *rows < tile.rows() || tile.eight_rows);
        let end = if is_cut { end.min(work.row + *rows) } else { end };
        let columns = sizes.n.get();
        let columns = if epilogue.gate().is_some() { columns >> 1 } else { columns };
        EpilogueWriter::new(epilogue, outputs, [end, columns], work.position)
    }

    /// Stores the sums of a piece of work.
    pub(super) fn put<T>(
        &self,
        block: &Block<'_, T>,
        writer: &EpilogueWriter<'_, S>,
        pairs: &Pairs<S>,
        work: &TileWork,
    ) {
        let im2col = block.config.im2col;
        let first = self.first;
        let gate = block.config.epilogue.gate();
        let column = if gate.is_some() { work.column >> 1 } else { work.column };
        let put = |pairs: Pairs<S>| match (&self.copied, im2col) {
            (None, Some(im2col)) if im2col.has_planes => {
                let WgmmaArgs { sizes, height, width, .. } = block.args;
                let pixels = height.get().cast::<u32>() * width.get().cast::<u32>();
                let (at, sizes) = ([work.row + first, work.column], [sizes.m.get(), sizes.n.get()]);
                store_planes(writer, pairs, at, sizes, pixels);
            }
            (None, _) => {
                let Some(gate) = gate else {
                    for (down, right, pair) in pairs {
                        writer.store_row(&pair, work.row + first + down, column + right);
                    }
                    return;
                };
                for (down, right, sums) in both_of(&pairs) {
                    // Computed where it is stored: tensor cores would wait for what stands between.
                    writer.store_row_of(|| gated(gate, sums), work.row + first + down, column + right);
                }
            }
            (Some(copied), _) => {
                copied.store(block.config, block.args.c, writer, pairs, (work, column), first);
            }
        };
        match &self.exchange {
            Some(exchange) => exchange.fold(pairs, put),
            None => put(pairs.clone()),
        }
    }

    /// Waits until the last copy has read shared memory, which ends with the block.
    pub(super) fn end(&self) {
        self.copied.iter().for_each(|_| when(is_copying(), || bulk_wait_read(0)));
    }
}

/// A pair of columns of gates, and of those that they are multiplied with.
type Both<S> = [[Val<S>; 2]; 2];

/// The pairs of every other group of eight columns, of gates, with those of the group after it, and
/// the place of their results. A thread has two rows of each group.
fn both_of<S: Accumulator>(pairs: &Pairs<S>) -> Vec<(Val<u32>, Val<u32>, Both<S>)> {
    let halves = (0_u32..).zip(pairs.chunks_exact(4));
    let both = halves.flat_map(|(i, both)| {
        [0, 1].map(|row| {
            let ((down, right, gates), (.., others)) = (both[row], both[2 + row]);
            (down, right - i * gate::COLUMNS, [gates, others])
        })
    });
    both.collect()
}

fn gated<S: Accumulator>(gate: Gate, [gates, others]: Both<S>) -> [Val<S>; 2] {
    [0, 1].map(|j| gate.apply(gates[j], others[j]))
}

/// Stores the results of pixels of image after image, each of whose channels is a plane of
/// `pixels`.
fn store_planes<S: Accumulator>(
    writer: &EpilogueWriter<'_, S>,
    pairs: Pairs<S>,
    [row, column]: [Val<u32>; 2],
    [m, n]: [Val<u32>; 2],
    pixels: Val<u32>,
) {
    // A thread has two rows. Between the pixels of two images lie the planes of the other channels.
    let other_planes = pixels * (n - 1);
    let places: Vec<_> = pairs.iter().take(2).map(|(down, ..)| row + *down).collect();
    let places: Vec<_> = places.into_iter().map(|row| (row, row / pixels * other_planes + row)).collect();
    for (i, (_, right, pair)) in pairs.into_iter().enumerate() {
        let (row, place) = places[i % 2];
        for (column, value) in [column + right, column + right + 1].into_iter().zip(pair) {
            when(row.lt(m) & column.lt(n), || writer.store_inside(&[value], place, column));
        }
    }
}

/// Results of halves that copies store: a tile of shared memory for each warpgroup that multiplies,
/// which a block with one tile keeps where rows of the left factor were.
enum Copied {
    F16(Tiles<f16>),
    Bf16(Tiles<bf16>),
}

impl Copied {
    fn new<T: Multiplicand>(dtype: Dtype, config: &WgmmaProductConfig, a: &Factor<T>) -> Self {
        match dtype {
            Dtype::F16 => Self::F16(Self::tiles(config, a)),
            Dtype::Bf16 => Self::Bf16(Self::tiles(config, a)),
            dtype => unreachable!("no plan has copies store {dtype}"),
        }
    }

    fn tiles<T: Multiplicand, H: HalfOfPair>(config: &WgmmaProductConfig, a: &Factor<T>) -> Tiles<H> {
        let (tile, columns) = (config.tile, config.result_columns());
        let swizzle = match config.result_panel() {
            Some(16) => Swizzle::Bytes32,
            Some(32) => Swizzle::Bytes64,
            _ => Swizzle::Bytes128,
        };
        if tile.once {
            a.lend(tile.consumers, 64, columns, swizzle)
        } else {
            tiles(tile.consumers, 64, columns, swizzle)
        }
    }

    fn store<S: Accumulator>(
        &self,
        config: &WgmmaProductConfig,
        c: TensorMap<bf16>,
        writer: &EpilogueWriter<'_, S>,
        pairs: Pairs<S>,
        place: (&TileWork, Val<u32>),
        first: Val<u32>,
    ) {
        match self {
            Self::F16(tiles) => store_halves(*tiles, config, c, writer, pairs, place, first),
            Self::Bf16(tiles) => store_halves(*tiles, config, c, writer, pairs, place, first),
        }
    }
}

/// Whether this thread starts its warpgroup's copies.
fn is_copying() -> Val<bool> {
    (thread_idx().x & 127).eq(0)
}

/// The named barrier of all warpgroups that multiply: one that none of them has for itself.
const OF_CONSUMERS: u32 = 15;

fn store_halves<S: Accumulator, H: HalfOfPair>(
    tiles: Tiles<H>,
    config: &WgmmaProductConfig,
    c: TensorMap<bf16>,
    writer: &EpilogueWriter<'_, S>,
    pairs: Pairs<S>,
    (work, column): (&TileWork, Val<u32>),
    first: Val<u32>,
) {
    let &WgmmaProductConfig { tile: shape, is_batch, majors, .. } = config;
    let tile = tiles.at(warpgroup_idx() - 1);
    if shape.once {
        // Other warps may still read rows that lie there, unless each has its own rows there before
        // and after.
        let is_own = shape.consumers == 1 && config.result_panel() == Some(64) && majors[0] == OperandMajor::K;
        if !is_own {
            NamedBarrier { id: OF_CONSUMERS, threads: 128 * shape.consumers }.sync();
        }
    } else {
        when(is_copying(), || bulk_wait_read(0));
        sync_warpgroup();
    }
    let word = |(row, right, pair): (Val<u32>, Val<u32>, [Val<S>; 2])| {
        let [left, right] = writer.pair(pair, work.row + first + row, column + right);
        Val::<H::Pair>::from_f32(left.cast::<f32>(), right.cast::<f32>())
    };
    match config.epilogue.gate() {
        None => tile.store_pairs(&pairs.into_iter().map(word).collect::<Vec<_>>()),
        // Some columns after the others: what gates compute takes registers that sums leave.
        // Without a branch, which every tile takes, ptxas computes all at once and spills.
        Some(gate) => {
            for (i, pieces) in (0_u32..).zip(both_of(&pairs).chunks_exact(4)) {
                when(writer.has_column(column), || {
                    let words = pieces.iter().map(|(row, right, both)| word((*row, *right, gated(gate, *both))));
                    tile.store_pairs_from(16 * i, &words.collect::<Vec<_>>());
                });
            }
        }
    }
    fence_async();
    sync_warpgroup();
    when(is_copying(), || {
        let [outer, middle, inner] = work.position.each;
        for (right, panel) in tile.panels() {
            let (panel, column, row) = (panel.reinterpret::<bf16>(), column + right, work.row + first);
            if is_batch { c.store(panel, [column, row, inner, middle, outer]) } else { c.store(panel, [column, row]) }
        }
        bulk_commit();
    });
}
