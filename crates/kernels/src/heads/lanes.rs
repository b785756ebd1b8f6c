//! The kernel of heads that may be normed: a group of lanes per head of a token.

use warpfold_lang::{Global, Strided, Val, block_idx, kernel, lane_id, params, shfl, thread_idx, when};

use super::turn::{position, rounded};
use super::units::BLOCK;
use crate::elements::{load, store};
use crate::fold::{Sum, fold_warp};
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LanesConfig {
    pub(super) dtype: Dtype,
    pub(super) lists: Dtype,
    pub(super) head_dim: u32,
    /// Neighbours that a lane takes at once: a half has a whole number of them.
    pub(super) width: u32,
    pub(super) normed: bool,
}

impl LanesConfig {
    fn name(self) -> String {
        let Self { dtype, lists, head_dim, width, normed } = self;
        format!("heads_product_{dtype}_{lists}_{head_dim}_{width}{}", if normed { "_normed" } else { "" })
    }

    fn half(self) -> u32 {
        self.head_dim / 2
    }

    /// Lanes that share a head, a power of two: as many as a half has groups of neighbours for.
    fn lanes(self) -> u32 {
        (self.half() / self.width).next_power_of_two().min(32)
    }

    /// Heads of a block.
    pub(super) fn heads(self) -> u32 {
        BLOCK / self.lanes()
    }

    /// The columns of the first half that a lane takes, `width` from each on, and whether there are
    /// any: the lane's part of a head is these and the same of the second half.
    fn columns(self) -> Vec<(Val<u32>, Val<bool>)> {
        let lanes = self.lanes();
        let turns = self.half().div_ceil(lanes * self.width);
        let column = |i| ((lane_id() & (lanes - 1)) + lanes * i) * self.width;
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

    /// `x / sqrt(mean of x² + eps) · scale`.
    fn norm(self, part: &[[Vec<Val<f32>>; 2]], scales: Global<f32>, eps: Val<f32>) -> Vec<[Vec<Val<f32>>; 2]> {
        let squares = part.iter().flatten().flatten().map(|x| *x * *x).reduce(|a, b| a + b);
        let sum = fold_warp(Sum::new(), squares.expect("a head has elements"), self.lanes());
        let sum = shfl(sum, lane_id() & !(self.lanes() - 1));
        let rstd = (sum * (1.0 / self.head_dim as f32) + eps).sqrt().recip();
        let of_columns = |((column, has), halves): ((Val<u32>, Val<bool>), &[Vec<Val<f32>>; 2])| {
            let column = has.select(column, 0_u32);
            let of_half = |half: u32, values: &[Val<f32>]| {
                let scales = scales.at(column + half).reinterpret::<u8>();
                let scales = load::<f32, _>(Dtype::F32, scales, self.width, self.width > 1);
                values.iter().zip(scales).map(|(x, scale)| rounded(self.dtype, *x * rstd * scale)).collect()
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

params! {
    /// Parameters of the kernel.
    pub(super) struct LaneArgs {
        /// Tokens, heads of queries, keys and values, elements.
        product: Strided<3>, slots: Global<u8>, positions: Global<u8>,
        /// Rows, pairs.
        cosines: Strided<2>, sines: Global<f32>, q_scales: Option<Global<f32>>,
        k_scales: Option<Global<f32>>, queries: Global<u8>,
        /// Pages, tokens of a page, heads, elements; those of values have the same strides.
        k_pages: Strided<4>, v_pages: Global<u8>, eps: f32,
        /// Heads: of all tokens, of a token, and of a token up to the end of queries, of keys.
        heads: u32, of_token: u32, keys: u32, values: u32, num_slots: u32,
    }
}

pub(super) fn kernel_of(config: &LanesConfig) -> AnyKernel {
    let config = *config;
    let body = move |args: LaneArgs| {
        overlap_launches();
        // Contract: lanes for each head of each token; queries, keys, values.
        let (bytes, head_dim) = (config.dtype.bytes(), config.head_dim);
        // Lanes fold together, so that those without a head take the last one, and keep it.
        let number = block_idx().x * config.heads() + thread_idx().x / config.lanes();
        let exists = number.lt(args.heads);
        let number = number.min(args.heads - 1);
        let (token, head) = (number / args.of_token, number % args.of_token);
        let of_list = |list: Global<u8>| list.at(token.mul_wide(config.lists.bytes() as u32));
        let from = token.cast::<i64>() * args.product.stride(0) + head.cast::<i64>() * i64::from(head_dim);
        let part = config.load(args.product.base().at(from * bytes as i64));
        let normed = if config.normed {
            // Those of values are normed for nothing.
            let apart = (args.k_scales.address() - args.q_scales.address()).bitcast::<i64>();
            let scales = args.q_scales.reinterpret::<u8>().at(head.lt(args.keys).select(0_i64, apart)).reinterpret();
            config.norm(&part, scales, args.eps)
        } else {
            part.clone()
        };
        let turned = || {
            let row = position(config.lists, of_list(args.positions), args.cosines.size(0));
            let row = row * i64::from(head_dim / 2);
            config.turn(&normed, [args.cosines.base().reinterpret::<f32>().at(row), args.sines.at(row)])
        };
        let to_page = |pages: Global<u8>, head: Val<u32>, part: &dyn Fn() -> Vec<[Vec<Val<f32>>; 2]>| {
            let slot = load::<i64, _>(config.lists, of_list(args.slots), 1, false)[0].bitcast::<u64>();
            // A negative slot has become larger than any.
            when(slot.lt(args.num_slots.cast::<u64>()), || {
                let (slot, page) = (slot.cast::<u32>(), args.k_pages.size(1));
                let at = args.k_pages.offset([slot / page, slot % page, head]);
                config.store(pages.at(at * bytes as i64), &part());
            });
        };
        when(exists & head.lt(args.keys), || {
            let place = (token * args.keys + head).mul_wide(head_dim * bytes as u32);
            config.store(args.queries.at(place), &turned());
        });
        when(exists & head.ge(args.keys) & head.lt(args.values), || {
            to_page(args.k_pages.base(), head - args.keys, &turned);
        });
        when(exists & head.ge(args.values), || to_page(args.v_pages, head - args.values, &|| part.clone()));
    };
    kernel(config.name(), body).required_block(BLOCK).into()
}

/// Kernels as they ship, to be assembled and compared.
pub(super) fn kernels() -> Vec<AnyKernel> {
    let of = |dtype, head_dim, width, normed| LanesConfig { dtype, lists: Dtype::I32, head_dim, width, normed };
    [of(Dtype::Bf16, 128, 8, true), of(Dtype::Bf16, 128, 8, false), of(Dtype::F32, 80, 1, true)]
        .iter()
        .map(kernel_of)
        .collect()
}
