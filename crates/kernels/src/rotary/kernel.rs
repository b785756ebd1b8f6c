//! The kernel of rotary embeddings: a thread a few pairs of a head.

use warpfold_lang::{Array, Global, Val, block_idx, kernel, thread_idx, when};

use super::Pairs;
use super::turn::{Dealing, Line, Tables, position};
use crate::elements::store;
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) dealing: Dealing,
    pub(super) dtype: Dtype,
    pub(super) table: Dtype,
    pub(super) positions: Option<Dtype>,
}

pub(super) fn kernel_of(config: &Config) -> AnyKernel {
    let Config { dealing, dtype, table, positions } = *config;
    let Dealing { pairs, head_dim, rotary_dim, width } = dealing;
    let body = move |x: Global<u8>,
                     cos: Global<u8>,
                     sin: Global<u8>,
                     list: Global<u8>,
                     y: Global<u8>,
                     sizes: Array<u32, 4>,
                     strides: Array<i64, 14>| {
        overlap_launches();
        // Contract: a thread for each unit of work.
        let [units, heads, len, rows] = std::array::from_fn(|i| sizes.at(i));
        let i = block_idx().x * BLOCK + thread_idx().x;
        when(i.lt(units), || {
            let (unit, head) = (i % dealing.units(), i / dealing.units());
            let (head, token) = (head % heads, head / heads);
            let (place, sequence) = (token % len, token / len);
            let of = |stride: usize, index: Val<u32>| index.cast::<i64>() * strides.at(stride);
            let line = |memory: Global<u8>, first: usize| {
                let index = of(first, sequence) + of(first + 1, place) + of(first + 2, head);
                Line { memory: memory.at(index * dtype.bytes() as i64), dtype, stride: strides.at(first + 3) }
            };
            let row = positions.map(|dtype| {
                let index = of(8, sequence) + of(9, place);
                position(dtype, list.at(index * dtype.bytes() as i64), rows)
            });
            let of_table = |memory: Global<u8>, first: usize| {
                let index = match row {
                    Some(row) => row * strides.at(first + 1),
                    None => of(first, sequence) + of(first + 1, place),
                };
                Line { memory: memory.at(index * table.bytes() as i64), dtype: table, stride: Val::constant(1) }
            };
            let tables = Tables { cos: of_table(cos, 10), sin: of_table(sin, 12) };
            let to = line(y, 4);
            dealing.each(unit, line(x, 0), tables, |column, values| store(dtype, to.at(column), values, width > 1));
        });
    };
    let pairs = if pairs == Pairs::Halves { "halves" } else { "interleaved" };
    let by = positions.map_or(String::new(), |dtype| format!("_by_{dtype}"));
    let name = format!("rotary_{dtype}_{table}_{pairs}_{head_dim}_{rotary_dim}_{width}{by}");
    kernel(name, body).required_block(BLOCK).into()
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    let of = |pairs, dtype, table, rotary_dim, width, positions| {
        let dealing = Dealing { pairs, head_dim: 128, rotary_dim, width };
        kernel_of(&Config { dealing, dtype, table, positions })
    };
    vec![
        of(Pairs::Halves, Dtype::Bf16, Dtype::F32, 128, 8, Some(Dtype::I64)),
        of(Pairs::Interleaved, Dtype::F32, Dtype::F32, 64, 4, None),
    ]
}
