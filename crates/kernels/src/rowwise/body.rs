//! What a kernel does that holds rows on chip: load, compute, store.

use std::rc::Rc;

use warpfold_lang::{AnyRegisters, Global, Shared, Val, block_idx, dynamic_shared, thread_idx, when};

use super::family::Code;
use super::held::{At, Groups, Items, Of};
use super::on_chip::{Dealing, Home, OnChip, Way};
use super::pieces::{self, Kept, Pieces};
use super::stage::{GRAIN, Piece, Span, bring};
use super::{Columns, Cost, Held};
use crate::Dtype;
use crate::elements::{Destination, Origin, Place, Run};
use crate::fold::geometry::Words;

/// The kernel's parameters.
pub(super) struct Memory {
    pub(super) inputs: Vec<Global<u8>>,
    pub(super) columns: Vec<Global<u8>>,
    pub(super) outputs: Vec<Global<u8>>,
    pub(super) stats: Vec<Global<u8>>,
    pub(super) words: Words,
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
type InShared = (usize, Shared<u8>);

/// The places so many elements behind these addresses, and then so many more.
pub(super) fn places(bases: &[Global<u8>], dtypes: &[Dtype], runs: &[Run], (i, more): (Val<u64>, u32)) -> Vec<Place> {
    let place = |((base, dtype), run): ((&Global<u8>, &Dtype), &Run)| Place {
        pointer: if *run == Run::Same { *base } else { base.at(i * dtype.bytes()).at(u64::from(more) * dtype.bytes()) },
        run: *run,
    };
    bases.iter().zip(dtypes).zip(runs).map(place).collect()
}

impl Body<'_> {
    pub(super) fn record(&self) {
        match self.shape.home {
            Home::Registers { groups, exact, early_columns } => self.in_registers(groups, exact, early_columns),
            Home::Pieces(dealing) => self.in_pieces(dealing),
            Home::Shared { unroll, bytes, .. } => self.in_shared(unroll, bytes),
        }
    }

    fn in_registers(&self, groups: u32, exact: bool, early_columns: bool) {
        let OnChip { lanes, vector, runs, .. } = *self.shape;
        let (team, words, source) = (self.shape.team(), self.memory.words, &self.code.source);
        let rows_a_block = self.shape.rows();
        let own = if rows_a_block == 1 { Val::constant(0) } else { thread_idx().x >> lanes.ilog2() };
        let row = self.number().cast::<u64>() * u64::from(rows_a_block) + own.cast::<u64>();
        let is_row = if rows_a_block == 1 { Val::constant(true) } else { row.lt(words.results()) };
        // Threads beyond the last row compute it as well, so that the lanes of a warp stay together.
        let row = if rows_a_block == 1 { row } else { row.min(words.results() - 1) };
        let of = self.of();
        let (len, bases) = (of.len, self.bases(row));
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
        let column_group = self.column_group();
        let columns = if early_columns {
            Items::Kept((0..groups).map(|g| column_group(of_group(g))).collect())
        } else {
            Items::Again(Rc::new(move |at: At| column_group((from(at.position()), 0))))
        };
        let groups = Groups::Fixed { positions, step, has, of };
        self.finish(Loaded { row, is_row, items, columns, groups }, |at| self.destinations(row, at));
    }

    fn in_pieces(&self, dealing: Dealing) {
        let OnChip { block, vector, .. } = *self.shape;
        let Dealing { groups, kept, bytes, way, .. } = dealing;
        let row = self.number().cast::<u64>();
        let (of, bases) = (self.of(), self.bases(row));
        // By two groups 1 % less for softmax of 65,536 bf16, by one up to 7 % less for norms with vectors along the row.
        let unroll = if self.code.cost == Cost::Heavy { 1 } else { 2 };
        let pieces = Rc::new(Pieces::new(self.shape, dealing, unroll, of.len));
        let mut room = dynamic_shared::<u8>(bytes);
        let staged = self.staged().into_iter().map(|(input, dtype)| {
            let staged = pieces::Staged { row: bases[input], room, dtype };
            room = room.at(block * (groups - kept) * vector * dtype.bytes() as u32);
            (input, staged)
        });
        let staged: Vec<_> = staged.collect();
        let kept = pieces.bring(&staged.iter().map(|(_, staged)| *staged).collect::<Vec<_>>());
        let places = staged.iter().map(|(input, staged)| (*input, staged.room)).collect();
        let items = self.items(bases, places, kept);
        let loaded = Loaded {
            row,
            is_row: Val::constant(true),
            items,
            columns: self.columns_again(),
            groups: Groups::Walked { walk: pieces.clone(), of },
        };
        if way != Way::Copies {
            return self.finish(loaded, |at| self.destinations(row, at));
        }
        let outputs = self.memory.outputs.iter().zip(self.code.sink.dtypes());
        let first = row * self.memory.words.len();
        let results: Vec<_> = (outputs.zip(&staged))
            .map(|((output, dtype), (_, staged))| pieces::Staged {
                row: output.at(first * dtype.bytes()),
                room: staged.room,
                dtype: *dtype,
            })
            .collect();
        let destination = |at: At, result: &pieces::Staged| {
            Destination::Shared(result.room.at(at.place * result.dtype.bytes() as u32))
        };
        self.finish(loaded, |at| results.iter().map(|result| destination(at, result)).collect());
        pieces.take_away(&results);
    }

    fn in_shared(&self, unroll: u32, bytes: u32) {
        let OnChip { block, vector, .. } = *self.shape;
        let row = block_idx().x.cast();
        let (of, bases, staged) = (self.of(), self.bases(row), self.staged());
        let whole = whole(&bases, &staged, dynamic_shared::<u8>(bytes), of.len);
        let places = staged.iter().map(|(input, _)| *input).zip(bring(&whole, block)).collect();
        let walk = Rc::new(Span { len: of.len, threads: block, vector, unroll });
        let groups = Groups::Walked { walk, of };
        let (items, columns) = (self.items(bases, places, Kept::new()), self.columns_again());
        let loaded = Loaded { row, is_row: Val::constant(true), items, columns, groups };
        self.finish(loaded, |at| self.destinations(row, at));
    }

    /// Computes what has been loaded, and stores each group's results there.
    fn finish(&self, loaded: Loaded, destinations: impl Fn(At) -> Vec<Destination>) {
        let Code { operator, sink, stats, .. } = self.code;
        let Loaded { row, is_row, items, columns, groups } = loaded;
        let team = self.shape.team();
        team.gather();
        let (results, row_stats) = operator.on_chip(&Held { items, groups }, &Columns(columns));
        results.for_each(|at, has, results| {
            let is_there = has.map_or(is_row, |has| has & is_row);
            when(is_there, || sink.store_to(&destinations(at), results, self.shape.wide_out));
        });
        if !stats.dtypes().is_empty() {
            when(is_row & team.thread().eq(0), || stats.store_at(&self.memory.stats, row, row_stats));
        }
    }

    /// Where a group's results are in the memory of the device.
    fn destinations(&self, row: Val<u64>, at: At) -> Vec<Destination> {
        let i = row * self.memory.words.len() + at.first.cast::<u64>();
        let place = |(output, dtype): (&Global<u8>, &Dtype)| {
            Destination::Global(output.at(i * dtype.bytes()).at(u64::from(at.more) * dtype.bytes()))
        };
        self.memory.outputs.iter().zip(self.code.sink.dtypes()).map(place).collect()
    }

    /// The number of the cluster, or of the block where it is alone.
    fn number(&self) -> Val<u32> {
        let cluster = self.shape.cluster;
        if cluster > 1 { block_idx().x >> cluster.ilog2() } else { block_idx().x }
    }

    fn of(&self) -> Of {
        Of { len: self.memory.words.len().cast::<u32>(), team: self.shape.team() }
    }

    /// Where a row of each input begins.
    fn bases(&self, row: Val<u64>) -> Vec<Global<u8>> {
        let Memory { inputs, words, .. } = &self.memory;
        words.kept(self.shape.kept).places(row, inputs, self.code.source.dtypes(), self.shape.small)
    }

    /// The inputs that have more than one element along the row.
    fn staged(&self) -> Vec<(usize, Dtype)> {
        let all = self.code.source.dtypes().iter().copied().enumerate();
        all.filter(|(input, _)| self.shape.runs[*input] != Run::Same).collect()
    }

    /// What is read of a row that begins there, the staged inputs from these places or these registers.
    fn items(&self, bases: Vec<Global<u8>>, places: Vec<InShared>, kept: Kept) -> Items<AnyRegisters> {
        let OnChip { runs, vector, .. } = *self.shape;
        let source = self.code.source.clone();
        Items::Again(Rc::new(move |at: At| {
            let global = |(base, run): (&Global<u8>, Run)| Origin::Global(Place { pointer: *base, run });
            let mut origins: Vec<_> = bases.iter().zip(runs).map(global).collect();
            let Some(number) = at.kept else {
                for (input, place) in &places {
                    let pointer = place.at(at.place * source.dtypes()[*input].bytes() as u32);
                    origins[*input] = Origin::Shared { pointer, wide: runs[*input] == Run::Wide };
                }
                return source.load_from(&origins, vector);
            };
            // All inputs in registers have items of the same size.
            let num_words = kept[number][0].len();
            let of_word = |i: usize| {
                for ((input, _), words) in places.iter().zip(&kept[number]) {
                    origins[*input] = Origin::Word(words[i]);
                }
                source.load_from(&origins, vector / num_words as u32)
            };
            (0..num_words).flat_map(of_word).collect()
        }))
    }

    /// A group of the vectors along the row, so far behind a position.
    fn column_group(&self) -> impl Fn((Val<u64>, u32)) -> Vec<AnyRegisters> + 'static {
        let OnChip { column_runs, vector, .. } = *self.shape;
        let (along, columns) = (self.code.columns.clone(), self.memory.columns.clone());
        move |i| along.load(&places(&columns, along.dtypes(), &column_runs, i), vector)
    }

    /// The vectors along the row, loaded where they are used.
    fn columns_again(&self) -> Items<AnyRegisters> {
        let column_group = self.column_group();
        Items::Again(Rc::new(move |at: At| column_group((at.first.cast(), at.more))))
    }
}

/// Each of these inputs of a row, whole.
fn whole(bases: &[Global<u8>], staged: &[(usize, Dtype)], mut room: Shared<u8>, len: Val<u32>) -> Vec<Piece> {
    let piece = |(input, dtype): &(usize, Dtype)| {
        let piece = Piece { dtype: *dtype, from: bases[*input], to: room, len };
        room = room.at(((len * dtype.bytes() as u32 + (GRAIN - 1)) & !(GRAIN - 1)) + GRAIN);
        piece
    };
    staged.iter().map(piece).collect()
}
