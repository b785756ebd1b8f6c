//! The kernel: a warp a head of a token.

use half::{bf16, f16};
use warpfold_lang::{
    Array, Global, Val, block_idx, kernel, lane_id, shfl, wait_for_dependencies, warp_id, when, when_else,
};

use super::BLOCK;
use crate::elements::{load, store};
use crate::fold::{Sum, fold_warp};
use crate::rotary::position;
use crate::{AnyKernel, Dtype};

/// Warps of a block.
pub(super) const WARPS: u32 = 8;
/// The product, slots, positions, cosines, sines, scales.
pub(super) const MAX_INPUTS: usize = 7;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) dtype: Dtype,
    pub(super) lists: Dtype,
    pub(super) head_dim: u32,
    /// Neighbours that a lane takes at once: a half has a whole number of them for each lane, or
    /// one each.
    pub(super) width: u32,
    pub(super) normed: bool,
}

impl Config {
    fn name(self) -> String {
        let Self { dtype, lists, head_dim, width, normed } = self;
        format!("heads_{dtype}_{lists}_{head_dim}_{width}{}", if normed { "_normed" } else { "" })
    }

    fn half(self) -> u32 {
        self.head_dim / 2
    }

    /// The columns of the first half that a lane takes, `width` from each on, and whether there are
    /// any: the lane's part of a head is these and the same of the second half.
    fn columns(self) -> Vec<(Val<u32>, Val<bool>)> {
        let turns = self.half().div_ceil(32 * self.width);
        let column = |i| (lane_id() + 32 * i) * self.width;
        (0..turns).map(|i| (column(i), column(i).lt(self.half()))).collect()
    }

    fn at(self, head: Global<u8>, column: Val<u32>) -> Global<u8> {
        head.at(column.mul_wide(self.dtype.bytes() as u32))
    }

    /// The lane's part of a head; zeros where there is none.
    fn load(self, head: Global<u8>) -> Vec<[Vec<Val<f32>>; 2]> {
        let part = |(column, has): (Val<u32>, Val<bool>)| {
            [0, self.half()].map(|half| {
                let column = has.select(column, 0_u32) + half;
                let values = load::<f32, _>(self.dtype, self.at(head, column), self.width, self.width > 1);
                values.into_iter().map(|x| has.select(x, 0.0_f32)).collect()
            })
        };
        self.columns().into_iter().map(part).collect()
    }

    fn store(self, head: Global<u8>, part: &[[Vec<Val<f32>>; 2]]) {
        for ((column, has), halves) in self.columns().into_iter().zip(part) {
            when(has, || {
                for (half, values) in [0, self.half()].into_iter().zip(halves) {
                    store(self.dtype, self.at(head, column + half), values, self.width > 1);
                }
            });
        }
    }

    fn rounded(self, value: Val<f32>) -> Val<f32> {
        match self.dtype {
            Dtype::F16 => value.cast::<f16>().cast(),
            Dtype::Bf16 => value.cast::<bf16>().cast(),
            _ => value,
        }
    }

    /// `x / sqrt(mean of x² + eps) · scale`.
    fn norm(self, part: &[[Vec<Val<f32>>; 2]], scales: Global<f32>, eps: Val<f32>) -> Vec<[Vec<Val<f32>>; 2]> {
        let squares = part.iter().flatten().flatten().map(|x| *x * *x).reduce(|a, b| a + b);
        let sum = shfl(fold_warp(Sum::new(), squares.expect("a head has elements"), 32), 0_u32);
        let rstd = (sum * (1.0 / self.head_dim as f32) + eps).sqrt().recip();
        let of_columns = |((column, has), halves): ((Val<u32>, Val<bool>), &[Vec<Val<f32>>; 2])| {
            let column = has.select(column, 0_u32);
            let of_half = |half: u32, values: &[Val<f32>]| {
                let scales = scales.at(column + half).reinterpret::<u8>();
                let scales = load::<f32, _>(Dtype::F32, scales, self.width, self.width > 1);
                values.iter().zip(scales).map(|(x, scale)| self.rounded(*x * rstd * scale)).collect()
            };
            [of_half(0, &halves[0]), of_half(self.half(), &halves[1])]
        };
        self.columns().into_iter().zip(part).map(of_columns).collect()
    }

    /// `(x cos − y sin, x sin + y cos)` of each pair.
    fn turn(self, part: &[[Vec<Val<f32>>; 2]], [cos, sin]: [Global<f32>; 2]) -> Vec<[Vec<Val<f32>>; 2]> {
        let of_columns = |((column, has), [x, y]): ((Val<u32>, Val<bool>), &[Vec<Val<f32>>; 2])| {
            let column = has.select(column, 0_u32);
            let table = |table: Global<f32>| {
                load::<f32, _>(Dtype::F32, table.at(column).reinterpret::<u8>(), self.width, self.width > 1)
            };
            let (cos, sin) = (table(cos), table(sin));
            let pairs = x.iter().zip(y).zip(cos.into_iter().zip(sin));
            let (x, y) = pairs.map(|((x, y), (cos, sin))| (*x * cos - *y * sin, *x * sin + *y * cos)).unzip();
            [x, y]
        };
        self.columns().into_iter().zip(part).map(of_columns).collect()
    }
}

pub(super) fn kernel_of(config: &Config) -> AnyKernel {
    let config = *config;
    let body = move |inputs: [Global<u8>; MAX_INPUTS],
                     queries: Global<u8>,
                     k_pages: Global<u8>,
                     v_pages: Global<u8>,
                     sizes: Array<u32, 7>,
                     strides: Array<i64, 4>,
                     eps: Val<f32>| {
        wait_for_dependencies();
        // Contract: a warp for each head of each token; queries, keys, values.
        let [product, slots, positions, tables @ ..] = inputs;
        let [cos, sin, q_scales, k_scales] = tables.map(Global::reinterpret::<f32>);
        let [warps, of_token, keys, values, num_slots, page, rows] = std::array::from_fn(|i| sizes.at(i));
        let (bytes, head_dim) = (config.dtype.bytes(), config.head_dim);
        let warp = block_idx().x * WARPS + warp_id();
        when(warp.lt(warps), || {
            let (token, head) = (warp / of_token, warp % of_token);
            let of_list = |list: Global<u8>| list.at(token.mul_wide(config.lists.bytes() as u32));
            let from = token.cast::<i64>() * strides.at(0) + head.cast::<i64>() * i64::from(head_dim);
            let part = config.load(product.at(from * bytes as i64));
            let tables = || {
                let row = position(config.lists, of_list(positions), rows) * i64::from(head_dim / 2);
                [cos.at(row), sin.at(row)]
            };
            let turned = |scales: Global<f32>| {
                let part = if config.normed { config.norm(&part, scales, eps) } else { part.clone() };
                config.turn(&part, tables())
            };
            let to_page = |pages: Global<u8>, head: Val<u32>, part: &dyn Fn() -> Vec<[Vec<Val<f32>>; 2]>| {
                let slot = load::<i64, _>(config.lists, of_list(slots), 1, false)[0].bitcast::<u64>();
                // A negative slot has become larger than any.
                when(slot.lt(num_slots.cast::<u64>()), || {
                    let slot = slot.cast::<u32>();
                    let of = |index: Val<u32>, stride: usize| index.cast::<i64>() * strides.at(stride);
                    let at = of(slot / page, 1) + of(slot % page, 2) + of(head, 3);
                    config.store(pages.at(at * bytes as i64), &part());
                });
            };
            when_else(
                head.lt(keys),
                || {
                    let place = (token * keys + head).mul_wide(head_dim * bytes as u32);
                    config.store(queries.at(place), &turned(q_scales));
                },
                || {
                    when_else(
                        head.lt(values),
                        || to_page(k_pages, head - keys, &|| turned(k_scales)),
                        || to_page(v_pages, head - values, &|| part.clone()),
                    );
                },
            );
        });
    };
    kernel(config.name(), body).required_block(BLOCK).into()
}
