//! Rows of weights of few bits by index, as numbers: `output[i] = W[indices[i]]`.

use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Lazy, Val, block_idx, kernel, params, range, thread_idx, when, when_else};

use super::super::problem::refused;
use super::decode::{Decoder, Place, Zeros};
use super::dequantize::write;
use super::layout::{DEPTH, PackedShape, STEPS, num_pieces};
use super::scheme::Scheme;
use crate::elements::{load_position, store};
use crate::kernel_name::KernelName;
use crate::overlap::overlap_launches;
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{AnyKernel, Dtype, Error};

/// Threads of a block, which has a row: four have a piece of it.
const THREADS: u32 = 128;

/// The family of such gathers. Inputs are indices and weights, the output the rows. An index that
/// names no row gives zeros; negative ones count from the end.
#[derive(Debug, Clone, Copy, Default)]
pub struct GatherRows;

/// What is gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GatherProblem {
    /// The type of the indices, an integer.
    pub indices: Dtype,
    /// Indices, side by side.
    pub count: u64,
    /// How the weights are stored.
    pub scheme: Scheme,
    /// Their shape.
    pub shape: PackedShape,
    /// The type of the rows: `f32`, `f16` or `bf16`.
    pub dtype: Dtype,
}

impl Family for GatherRows {
    type Problem = GatherProblem;

    fn plan(&self, problem: &GatherProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let GatherProblem { indices, count, scheme, shape, dtype } = *problem;
        super::family::check(scheme, shape, dtype)?;
        if !indices.is_integer() {
            return Err(refused(format!("indices of {indices} name no rows")));
        }
        let plan = Plan::new("gather")
            .input(OperandSpec::new("the indices", count * indices.bytes(), indices.bytes()))
            .input(OperandSpec::new("the weights", shape.bytes(scheme), 16))
            .output(OperandSpec::new("the rows", count * shape.columns * dtype.bytes(), 16));
        if count == 0 || shape.columns == 0 {
            return Ok(plan);
        }
        let config = LaunchConfig::new(grid_size(count)?, THREADS);
        let args = GatherArgs::<Planned> {
            indices: Operand::Input(0),
            weights: Operand::Input(1),
            rows: shape.rows as u32,
            columns: shape.columns as u32,
            to: Operand::Output(0),
        };
        let step = Step::new(planner.kernel((indices, dtype, scheme), kernel_of), config).with(args)?;
        Ok(plan.step(step).choice(format!("{count} rows of {scheme}")))
    }
}

params! {
    /// Parameters of the kernel: indices, packed weights, the shape of these, the rows.
    struct GatherArgs {
        indices: Global<u8>, weights: Global<u8>,
        rows: Lazy<u32>, columns: Lazy<u32>,
        to: Global<u8>,
    }
}

fn kernel_of(config: &(Dtype, Dtype, Scheme)) -> AnyKernel {
    let (indices, dtype, scheme) = *config;
    let body = move |GatherArgs { indices: of, weights, rows, columns, to }: GatherArgs| {
        overlap_launches();
        let (rows, columns) = (rows.get(), columns.get());
        let place = block_idx().x.cast::<i64>();
        let row = load_position(indices, of.at(place * indices.bytes() as i64), rows.cast());
        let line = to.at(place * columns.cast::<i64>() * dtype.bytes() as i64);
        let num = num_pieces(columns);
        let quad = thread_idx().x & 3;
        let each = |body: &dyn Fn(Val<u32>)| range(thread_idx().x >> 2, num, THREADS / 4, body);
        let known = || {
            let row = row.cast::<u32>();
            let half = (row / 64) * 2 + ((row >> 3) & 1);
            let place = Place { warp: (row >> 4) & 3, lane: (row & 7) * 4 + quad };
            each(&|number| {
                let piece =
                    (half.cast::<i64>() * num.cast::<i64>() + number.cast::<i64>()) * i64::from(scheme.piece_bytes());
                let decoder = Decoder::load(scheme, weights.at(piece), place, Zeros::Signed);
                write(&decoder, dtype, [number * DEPTH + quad * 2, columns], line);
            });
        };
        let unknown = || {
            each(&|number| {
                for pair in 0..4 * STEPS / 2 {
                    let column = number * DEPTH + (8 * pair + quad * 2);
                    when(column.lt(columns), || {
                        let zeros = [Val::<f32>::constant(0.0); 2];
                        store(dtype, line.at(column * dtype.bytes() as u32), &zeros, true);
                    });
                }
            });
        };
        when_else(row.lt(rows.cast::<u64>()), known, unknown);
    };
    let name = KernelName::new("matmul_gather_rows").part(scheme.key()).part(indices).part(dtype);
    kernel(String::from(name), body).required_block(THREADS).into()
}
