//! The kernel for few rows: the main loop of [`stream`](super::stream), and an epilogue. A block
//! has all of K: the chain of sums is that of the other products.

use half::bf16;
use warpfold_lang::{
    Global, HalfOfPair, Kernel, Lazy, Multiplicand, TensorMap, Val, WarpgroupSums, block_idx, kernel, lane_id,
    launch_dependents, params, wait_for_dependencies, wait_for_dependencies_after_constants, warp_id, warpgroup_idx,
    when, when_else,
};

use super::super::args::EpilogueArgs;
use super::super::epilogue_writer::{BatchCoord, EpilogueKey, EpilogueWriter};
use super::super::simt::divide;
use super::layout::{BLOCK_ROWS, DEPTH, num_pieces};
use super::stream::{Begin, Pieces, Stages, Stream, THREADS};
use crate::Dtype;
use crate::kernel_name::KernelName;

params! {
    /// Parameters of the kernel.
    pub(super) struct FewRowsArgs {
        weights: Global<u8>, x: TensorMap<u8>,
        /// Rows of `x`, outputs, steps of K, tiles of rows.
        rows: Lazy<u32>, outputs: Lazy<u32>, k: Lazy<u32>, tiles: Lazy<u32>,
        end: EpilogueArgs,
    }
}

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FewRowsConfig {
    /// The type of the rows.
    pub(super) dtype: Dtype,
    pub(super) stages: Stages,
    /// Parts of K, a block for each, whose sums another launch adds.
    pub(super) parts: u32,
    /// Whether the first weights are copied before launches before this one have ended.
    pub(super) weights: bool,
    pub(super) epilogue: EpilogueKey,
}

impl FewRowsConfig {
    fn name(&self) -> String {
        let Self { dtype, stages: Stages { pieces, rows, halves, num }, parts, weights, epilogue } = self;
        let scheme = if let Pieces::Codes(scheme) = pieces { scheme.key() } else { "numbers".to_owned() };
        KernelName::new("matmul_quantized")
            .part(scheme)
            .part(format_args!("{}x{rows}x{num}", halves * BLOCK_ROWS / 2))
            .part(dtype)
            .part_if(*parts > 1, format_args!("of{parts}"))
            .part_if(*weights, "weights")
            .part(epilogue.key())
            .into()
    }
}

/// The kernel for rows of one type.
pub(super) fn few_rows<T: Multiplicand<Sum = f32> + HalfOfPair>(config: &FewRowsConfig) -> Kernel<FewRowsArgs> {
    let shared = config.clone();
    let body = move |args: FewRowsArgs| {
        launch_dependents();
        let block = Block::<T>::new(&shared, args);
        // Barriers
        block.stream.init();
        if shared.weights {
            when(block.stream.copies(), || block.stream.copy_weights_ahead());
            wait_for_dependencies_after_constants();
        } else {
            wait_for_dependencies();
        }
        // Roles
        when_else(
            warpgroup_idx().eq(1),
            || when(block.stream.copies(), || block.stream.copy(shared.weights)),
            || block.store(&block.stream.multiply()),
        );
    };
    kernel(config.name(), body).required_block(THREADS).min_blocks(1)
}

/// A block.
struct Block<'a, T> {
    config: &'a FewRowsConfig,
    args: FewRowsArgs,
    stream: Stream<T>,
    /// The number of the block's part of K, where there are several.
    part: Option<Val<u32>>,
    /// The first row of `x`, and the first output.
    first: [Val<u32>; 2],
}

impl<'a, T: Multiplicand<Sum = f32> + HalfOfPair> Block<'a, T> {
    fn new(config: &'a FewRowsConfig, args: FewRowsArgs) -> Self {
        let Stages { pieces: kind, rows, halves, .. } = config.stages;
        let (along, piece_bytes) = (config.stages.along(), kind.bytes());
        // Roles: tiles of rows that share weights stand side by side in the grid.
        let (parts, block) = (config.parts, block_idx().x);
        let pieces = num_pieces(args.k.get());
        let (block, of_k, num) = if parts == 1 {
            (block, None, pieces / along)
        } else {
            // Each part is whole stages: there are no pieces behind them.
            let num = args.k.get() / (parts * along * DEPTH);
            let number = block & (parts - 1);
            (block >> parts.ilog2(), Some((number, number * num)), num)
        };
        let (part, tile) = divide(block, args.tiles.get());
        let half_bytes = pieces.cast::<i64>() * i64::from(piece_bytes);
        let first_half = part * halves;
        let piece = |half: u32| {
            let first = args.weights.at((first_half + half).cast::<i64>() * half_bytes);
            of_k.map_or(first, |(_, stage)| first.at((stage * (along * piece_bytes)).cast::<i64>()))
        };
        let output = if halves == 2 {
            part * BLOCK_ROWS
        } else {
            // Halves have groups of eight in turns.
            (part >> 1) * BLOCK_ROWS + (part & 1) * 8
        };
        let pieces = (0..halves).map(piece).collect();
        let first = [tile * rows, output];
        let begin = Begin { pieces, row: first[0], stage: of_k.map(|(_, stage)| stage), num };
        Self { config, stream: Stream::new(config.stages, args.x, begin), args, part: of_k.map(|(n, _)| n), first }
    }

    fn store(&self, sums: &WarpgroupSums<T>) {
        let FewRowsConfig { stages: Stages { halves, .. }, epilogue, .. } = self.config;
        let FewRowsArgs { rows, outputs, end, .. } = self.args;
        let end = self.part.map_or(end, |part| {
            let results = (rows.get() * outputs.get()).cast::<i64>();
            end.result_at(part.cast::<i64>() * results * epilogue.result_bytes() as i64)
        });
        let gate = epilogue.gate();
        let columns = if gate.is_some() { outputs.get() >> 1 } else { outputs.get() };
        let zero = Val::constant(0);
        let position = BatchCoord { flat: zero, each: [zero; 3] };
        let writer = EpilogueWriter::<f32>::new(epilogue, end, [rows.get(), columns], position);
        let [row, output] = self.first;
        // A row of the sums is an output, a pair of them two rows of `x`.
        let pairs: Vec<_> = sums.pairs().collect();
        for both in pairs.chunks_exact(2) {
            let [(down, right, upper), (lower_down, _, lower)] = [both[0], both[1]];
            for (i, row) in [row + right, row + right + 1].into_iter().enumerate() {
                match gate {
                    Some(gate) => {
                        let column = (output >> 1) + (warp_id() * 8 + (lane_id() >> 2));
                        writer.store_row(&[gate.apply(upper[i], lower[i])], row, column);
                    }
                    None => {
                        writer.store_row(&[upper[i]], row, output + down);
                        if *halves == 2 {
                            writer.store_row(&[lower[i]], row, output + lower_down);
                        }
                    }
                }
            }
        }
    }
}

/// The kernel, by the type of its rows.
pub(super) fn make(config: &FewRowsConfig) -> crate::AnyKernel {
    match config.dtype {
        Dtype::F16 => few_rows::<half::f16>(config).into(),
        Dtype::Bf16 => few_rows::<bf16>(config).into(),
        dtype => unreachable!("no plan multiplies {dtype} by weights of few bits in one launch"),
    }
}
