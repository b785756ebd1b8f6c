//! The kernel of heads that are not normed: a thread some elements of a head.

use warpfold_lang::{Global, Strided, Val, block_idx, kernel, params, thread_idx, when, when_else};

use super::Pairs;
use super::turn::{HeadTurn, Line, Tables, position, rounded};
use crate::elements::{load, store};
use crate::kernel_name::KernelName;
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Threads of a block.
pub(super) const BLOCK: u32 = 256;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct UnitsConfig {
    pub(super) turn: HeadTurn,
    pub(super) dtype: Dtype,
    /// The write of keys and values.
    pub(super) write: Option<WriteConfig>,
    /// The types of tables and positions.
    pub(super) rotary: Option<(Dtype, Option<Dtype>)>,
    pub(super) queries: Option<QueryConfig>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WriteConfig {
    pub(super) value_dim: u32,
    pub(super) cache: Dtype,
    pub(super) slots: Dtype,
    /// Whether keys and values are divided by a scale.
    pub(super) scaled: [bool; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct QueryConfig {
    pub(super) in_place: bool,
    /// Dimensions of queries before heads: tokens, or batch and positions.
    pub(super) token_dims: usize,
    /// Whether elements of a head are not contiguous.
    pub(super) strided: bool,
}

params! {
    /// Parameters of the kernel.
    pub(super) struct UnitArgs {
        /// Tokens, or batch and positions; heads, elements.
        queries: Option<Strided<4>>, results: Option<Strided<4>>,
        /// Tokens, heads, elements.
        keys: Option<Strided<3>>, values: Option<Strided<3>>,
        /// Pages, tokens of a page, heads, elements.
        k_pages: Option<Strided<4>>, v_pages: Option<Strided<4>>,
        /// Of the tokens, and how many the pages have.
        slots: Option<Global<u8>>, num_slots: u32,
        /// What keys and values are divided by.
        scales: [f32; 2],
        /// As the tokens.
        positions: Option<Strided<2>>,
        /// Rows or tokens; pairs.
        cosines: Option<Strided<3>>, sines: Option<Strided<3>>,
        /// Units of work: of all tokens, of a token, and of a token up to the end of keys, of
        /// values.
        units: u32, of_token: u32, keys_end: u32, values_end: u32,
    }
}

impl UnitsConfig {
    fn name(&self) -> KernelName {
        let Self { turn: HeadTurn { pairs, head_dim, rotary_dim, width }, dtype, write, rotary, queries } = *self;
        let pairs = if pairs == Pairs::Halves { "halves" } else { "interleaved" };
        let mut name = KernelName::new("heads").part(dtype).part(head_dim).part(width);
        if let Some((table, positions)) = rotary {
            name = name.part(pairs).part(rotary_dim).part(table);
            name = name.option(positions.map(|dtype| format!("by_{dtype}")));
        }
        if let Some(WriteConfig { value_dim, cache, slots, scaled }) = write {
            name = name.part("to").part(cache).part(slots).part(value_dim);
            name = name.part_if(scaled[0], "scaled_k").part_if(scaled[1], "scaled_v");
        }
        if let Some(QueryConfig { in_place, token_dims, strided }) = queries {
            name = name.part(if in_place { "queries_in_place" } else { "queries" }).part(token_dims);
            name = name.part_if(strided, "strided");
        }
        name
    }
}

pub(super) fn kernel_of(config: &UnitsConfig) -> AnyKernel {
    let config = *config;
    let body = move |args: UnitArgs| {
        overlap_launches();
        // Contract: a thread for each unit of work, those of a token side by side.
        let i = block_idx().x * BLOCK + thread_idx().x;
        when(i.lt(args.units), || {
            let (unit, token) = (i % args.of_token, i / args.of_token);
            let tokens = match config.queries {
                Some(QueryConfig { token_dims: 2, .. }) => args.queries.unravel::<2>(token).to_vec(),
                _ => vec![token],
            };
            let work = Work { config, args, tokens };
            let Some(write) = config.write else { return work.queries(unit) };
            when_else(
                unit.lt(args.keys_end),
                || work.keys(write, unit),
                || {
                    when(unit.lt(args.values_end), || work.values(write, unit - args.keys_end));
                    if config.queries.is_some() {
                        when(unit.ge(args.values_end), || work.queries(unit - args.values_end));
                    }
                },
            );
        });
    };
    kernel(config.name(), body).required_block(BLOCK).into()
}

/// What a thread has to do.
struct Work {
    config: UnitsConfig,
    args: UnitArgs,
    /// The index of the token.
    tokens: Vec<Val<u32>>,
}

impl Work {
    /// A head of the token.
    fn head<const RANK: usize>(&self, tensor: Strided<RANK>, head: Val<u32>) -> Line {
        let index = self.tokens.iter().copied().chain([head]);
        let dtype = self.config.dtype;
        Line { memory: tensor.at(dtype.bytes(), index), dtype, stride: Val::constant(1) }
    }

    fn head_of_queries(&self, tensor: Strided<4>, head: Val<u32>) -> Line {
        let line = self.head(tensor, head);
        match self.config.queries {
            Some(QueryConfig { strided: true, token_dims, .. }) => {
                Line { stride: tensor.stride(token_dims + 1), ..line }
            }
            _ => line,
        }
    }

    /// The row of each table that the token is turned by; without rotary elements no table is
    /// looked at, and a head takes its place.
    fn tables(&self, head: Line) -> Tables {
        let Some((table, positions)) = self.config.rotary else { return Tables { cos: head, sin: head } };
        let of_list = |dtype: Dtype| {
            let place = match self.tokens[..] {
                [token] => self.args.positions.base().at(token.mul_wide(dtype.bytes() as u32)),
                _ => self.args.positions.at(dtype.bytes(), self.tokens.iter().copied()),
            };
            position(dtype, place, self.args.cosines.size(0))
        };
        let row = positions.map(of_list);
        let line = |tensor: Strided<3>| {
            let memory = match row {
                Some(row) => tensor.at(table.bytes(), [row]),
                None => tensor.at(table.bytes(), self.tokens.iter().copied()),
            };
            Line { memory, dtype: table, stride: Val::constant(1) }
        };
        Tables { cos: line(self.args.cosines), sin: line(self.args.sines) }
    }

    /// Runs `body` with the head's place in the pool, if the token has one.
    fn when_kept(&self, write: WriteConfig, pages: Strided<4>, head: Val<u32>, body: impl FnOnce(Line)) {
        let place = self.args.slots.at(self.tokens[0].mul_wide(write.slots.bytes() as u32));
        let slot = load::<i64, _>(write.slots, place, 1, false)[0].bitcast::<u64>();
        // A negative slot has become larger than any.
        when(slot.lt(self.args.num_slots.cast::<u64>()), || {
            let (slot, page) = (slot.cast::<u32>(), pages.size(1));
            let memory = pages.at(write.cache.bytes(), [slot / page, slot % page, head]);
            body(Line { memory, dtype: write.cache, stride: Val::constant(1) });
        });
    }

    fn store(&self, to: Line, column: Val<u32>, values: &[Val<f32>], scale: Option<Val<f32>>) {
        let of_type = |value: Val<f32>| match to.dtype == self.config.dtype {
            true => value,
            false => rounded(self.config.dtype, value),
        };
        let scaled = |value: Val<f32>| scale.map_or(value, |scale| value / scale);
        let values: Vec<Val<f32>> = values.iter().map(|value| scaled(of_type(*value))).collect();
        store(to.dtype, to.at(column), &values, self.config.turn.width > 1);
    }

    fn keys(&self, write: WriteConfig, unit: Val<u32>) {
        let turn = self.config.turn;
        let (head, unit) = (unit / turn.units(), unit % turn.units());
        let scale = write.scaled[0].then(|| self.args.scales.at(0));
        self.when_kept(write, self.args.k_pages, head, |to| {
            let from = self.head(self.args.keys, head);
            turn.each(unit, from, self.tables(from), |column, values| self.store(to, column, values, scale));
        });
    }

    fn values(&self, write: WriteConfig, unit: Val<u32>) {
        let width = self.config.turn.width;
        let units = write.value_dim / width;
        let (head, column) = (unit / units, unit % units * width);
        let scale = write.scaled[1].then(|| self.args.scales.at(1));
        self.when_kept(write, self.args.v_pages, head, |to| {
            let from = self.head(self.args.values, head);
            self.store(to, column, &from.load(column, width), scale);
        });
    }

    fn queries(&self, unit: Val<u32>) {
        let turn = self.config.turn;
        let (head, unit) = (unit / turn.units(), unit % turn.units());
        let to = self.head_of_queries(self.args.results, head);
        let in_place = self.config.queries.is_some_and(|queries| queries.in_place);
        let from = if in_place { to } else { self.head_of_queries(self.args.queries, head) };
        turn.each(unit, from, self.tables(from), |column, values| self.store(to, column, values, None));
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(super) fn kernels() -> Vec<AnyKernel> {
    let of = |(pairs, rotary_dim, width), dtype, rotary| UnitsConfig {
        turn: HeadTurn { pairs, head_dim: 128, rotary_dim, width },
        dtype,
        write: None,
        rotary,
        queries: Some(QueryConfig { in_place: false, token_dims: 2, strided: false }),
    };
    let to = |cache, scaled| Some(WriteConfig { value_dim: 128, cache, slots: Dtype::I64, scaled: [scaled; 2] });
    let listed = Some((Dtype::F32, Some(Dtype::I64)));
    let (turned, kept) = ((Pairs::Halves, 128, 8), |width| (Pairs::Halves, 0, width));
    let in_place = Some(QueryConfig { in_place: true, token_dims: 1, strided: false });
    let configs = [
        of(turned, Dtype::Bf16, listed),
        of((Pairs::Interleaved, 64, 4), Dtype::F32, Some((Dtype::F32, None))),
        UnitsConfig { write: to(Dtype::Bf16, false), queries: in_place, ..of(turned, Dtype::Bf16, listed) },
        UnitsConfig { write: to(Dtype::F8E4M3, true), queries: None, ..of(kept(8), Dtype::F16, None) },
        UnitsConfig { write: to(Dtype::F32, false), queries: None, ..of(kept(4), Dtype::F32, None) },
    ];
    configs.iter().map(kernel_of).collect()
}
