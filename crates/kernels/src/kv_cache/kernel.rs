//! The kernel that writes to a cache: a thread some elements of a head.

use half::{bf16, f16};
use warpfold_lang::{Array, Global, Val, block_idx, kernel, thread_idx, when, when_else};

use crate::elements::{load, store};
use crate::overlap::overlap_launches;
use crate::rotary::{BLOCK, Dealing, Line, Pairs, Tables, position};
use crate::{AnyKernel, Dtype};

/// Keys, values, slots, positions, cosines, sines.
pub(super) const MAX_INPUTS: usize = 6;
const SIZES: usize = 7;
const STRIDES: usize = 14;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) dealing: Dealing,
    pub(super) value_dim: u32,
    pub(super) dtype: Dtype,
    pub(super) cache: Dtype,
    pub(super) slots: Dtype,
    /// Whether keys and values are divided by a scale.
    pub(super) scaled: [bool; 2],
    /// The types of tables and positions.
    pub(super) rotary: Option<(Dtype, Dtype)>,
    /// Whether queries are turned, too.
    pub(super) queries: bool,
}

impl Config {
    fn name(&self) -> String {
        let Self { dealing, value_dim, dtype, cache, slots, scaled, rotary, queries } = *self;
        let Dealing { pairs, head_dim, rotary_dim, width } = dealing;
        let pairs = if pairs == Pairs::Halves { "halves" } else { "interleaved" };
        let rotary = rotary.map(|(table, positions)| format!("_{pairs}_{rotary_dim}_{table}_{positions}"));
        let scaled = [("_scaled_k", scaled[0]), ("_scaled_v", scaled[1]), ("_queries", queries)];
        let options: String = scaled.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        let rotary = rotary.unwrap_or_default();
        format!("kv_cache_{dtype}_{cache}_{slots}_{head_dim}_{value_dim}_{width}{rotary}{options}")
    }
}

/// Rounds to a type of 16 bits.
fn rounded(dtype: Dtype, value: Val<f32>) -> Val<f32> {
    match dtype {
        Dtype::F16 => value.cast::<f16>().cast(),
        Dtype::Bf16 => value.cast::<bf16>().cast(),
        _ => value,
    }
}

pub(super) fn kernel_of(config: &Config) -> AnyKernel {
    let config = *config;
    let body = move |k: Global<u8>,
                     v: Global<u8>,
                     slots: Global<u8>,
                     positions: Global<u8>,
                     cos: Global<u8>,
                     sin: Global<u8>,
                     k_pages: Global<u8>,
                     v_pages: Global<u8>,
                     queries: Global<u8>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, STRIDES>,
                     scales: Array<f32, 2>| {
        overlap_launches();
        // Contract: a thread for each unit of work, those of a token side by side.
        let [units, of_token, keys_end, values_end, num_slots, page, rows] = std::array::from_fn(|i| sizes.at(i));
        let i = block_idx().x * BLOCK + thread_idx().x;
        when(i.lt(units), || {
            let (unit, token) = (i % of_token, i / of_token);
            let write = Write { config, token, page, num_slots, slots, strides };
            let tables = || match config.rotary {
                None => None,
                Some((table, list)) => {
                    let row = position(list, positions.at(token.mul_wide(list.bytes() as u32)), rows);
                    let line = |memory: Global<u8>, stride: usize| Line {
                        memory: memory.at(row * strides.at(stride) * table.bytes() as i64),
                        dtype: table,
                        stride: Val::constant(1),
                    };
                    Some(Tables { cos: line(cos, 12), sin: line(sin, 13) })
                }
            };
            let turned = config.dealing.units();
            when_else(
                unit.lt(keys_end),
                || write.keys((k, k_pages), unit / turned, unit % turned, tables(), scales.at(0)),
                || {
                    when(unit.lt(values_end), || {
                        let (units, i) = (config.value_dim / config.dealing.width, unit - keys_end);
                        write.values((v, v_pages), i / units, i % units, scales.at(1));
                    });
                    if config.queries {
                        when(unit.ge(values_end), || {
                            let i = unit - values_end;
                            write.queries(queries, i / turned, i % turned, tables());
                        });
                    }
                },
            );
        });
    };
    kernel(config.name(), body).required_block(BLOCK).into()
}

/// What a thread writes.
struct Write {
    config: Config,
    token: Val<u32>,
    page: Val<u32>,
    num_slots: Val<u32>,
    slots: Global<u8>,
    strides: Array<i64, STRIDES>,
}

impl Write {
    /// A head of the token; `first` is the place of its strides.
    fn head(&self, memory: Global<u8>, first: usize, head: Val<u32>) -> Line {
        let of = |index: Val<u32>, stride: usize| index.cast::<i64>() * self.strides.at(stride);
        let index = of(self.token, first) + of(head, first + 1);
        let dtype = self.config.dtype;
        Line { memory: memory.at(index * dtype.bytes() as i64), dtype, stride: Val::constant(1) }
    }

    /// Runs `body` with the head's place in the pool, if the token has one.
    fn when_kept(&self, pages: Global<u8>, first: usize, head: Val<u32>, body: impl FnOnce(Line)) {
        let dtype = self.config.slots;
        let slot = load::<i64, _>(dtype, self.slots.at(self.token.mul_wide(dtype.bytes() as u32)), 1, false)[0];
        // A negative slot has become larger than any.
        when(slot.bitcast::<u64>().lt(self.num_slots.cast::<u64>()), || {
            let slot = slot.bitcast::<u64>().cast::<u32>();
            let of = |index: Val<u32>, stride: usize| index.cast::<i64>() * self.strides.at(stride);
            let index = of(slot / self.page, first) + of(slot % self.page, first + 1) + of(head, first + 2);
            let dtype = self.config.cache;
            body(Line { memory: pages.at(index * dtype.bytes() as i64), dtype, stride: Val::constant(1) });
        });
    }

    fn store(&self, to: Line, column: Val<u32>, values: &[Val<f32>], scale: Option<Val<f32>>) {
        let converted: Vec<Val<f32>> = values
            .iter()
            .map(|value| {
                let value =
                    if self.config.cache == self.config.dtype { *value } else { rounded(self.config.dtype, *value) };
                scale.map_or(value, |scale| value / scale)
            })
            .collect();
        store(to.dtype, to.at(column), &converted, self.config.dealing.width > 1);
    }

    fn keys(
        &self,
        (k, pages): (Global<u8>, Global<u8>),
        head: Val<u32>,
        unit: Val<u32>,
        tables: Option<Tables>,
        scale: Val<f32>,
    ) {
        let scale = self.config.scaled[0].then_some(scale);
        self.when_kept(pages, 6, head, |to| {
            let from = self.head(k, 0, head);
            // Without rotary elements no table is looked at.
            let tables = tables.unwrap_or(Tables { cos: from, sin: from });
            self.config.dealing.each(unit, from, tables, |column, values| self.store(to, column, values, scale));
        });
    }

    fn values(&self, (v, pages): (Global<u8>, Global<u8>), head: Val<u32>, unit: Val<u32>, scale: Val<f32>) {
        let scale = self.config.scaled[1].then_some(scale);
        let width = self.config.dealing.width;
        self.when_kept(pages, 9, head, |to| {
            let values = self.head(v, 2, head).load(unit * width, width);
            self.store(to, unit * width, &values, scale);
        });
    }

    fn queries(&self, queries: Global<u8>, head: Val<u32>, unit: Val<u32>, tables: Option<Tables>) {
        let line = self.head(queries, 4, head);
        let tables = tables.unwrap_or(Tables { cos: line, sin: line });
        let width = self.config.dealing.width;
        self.config.dealing.each(unit, line, tables, |column, values| {
            store(line.dtype, line.at(column), values, width > 1);
        });
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    let of = |dtype, cache, width, rotary: Option<(Dtype, Dtype)>| {
        let rotary_dim = if rotary.is_some() { 128 } else { 0 };
        kernel_of(&Config {
            dealing: Dealing { pairs: Pairs::Halves, head_dim: 128, rotary_dim, width },
            value_dim: 128,
            dtype,
            cache,
            slots: Dtype::I64,
            scaled: [cache != dtype; 2],
            rotary,
            queries: rotary.is_some(),
        })
    };
    vec![
        of(Dtype::Bf16, Dtype::Bf16, 8, Some((Dtype::F32, Dtype::I64))),
        of(Dtype::F16, Dtype::F8E4M3, 8, None),
        of(Dtype::F32, Dtype::F32, 4, None),
    ]
}
