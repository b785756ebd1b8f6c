//! From a problem to steps: one launch for few rows, or the weights as a matrix and its product.

use warpfold_device::LaunchConfig;

use super::super::epilogue::Activation;
use super::super::epilogue_writer::EpilogueKey;
use super::super::family::{Matmul, add_parts, tensor_map};
use super::super::operand_major::OperandMajor;
use super::super::problem::{BatchInvariance, Matrix, refused};
use super::super::wgmma::{layout, tma_major};
use super::super::{self as matmul, Epilogue};
use super::dequantize::{DequantizeArgs, DequantizeConfig};
use super::kernel::{FewRowsArgs, FewRowsConfig};
use super::layout::{BLOCK_ROWS, DEPTH, PackedShape};
use super::scheme::Scheme;
use super::stream::{Pieces, Stages, THREADS};
use super::{dequantize, kernel};
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{Dtype, Error, Shipped};

/// Rows of a block's tile at most.
const TILE_ROWS: u64 = 128;

/// `c = epilogue(a Wᵀ)` with packed weights.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The product; its right matrix has the type of the left one, and lies elsewhere.
    pub product: matmul::Problem,
    /// How the weights are stored.
    pub scheme: Scheme,
}

impl Problem {
    /// A product with packed weights. What `product` says of its right matrix does not count, and
    /// rows never depend on how many there are.
    #[must_use]
    pub fn new(product: matmul::Problem, scheme: Scheme) -> Self {
        let b = Matrix::rows(product.a.dtype, product.k).transposed();
        Self { product: matmul::Problem { b, batch_invariance: BatchInvariance::On, ..product }, scheme }
    }

    /// The shape of the weights.
    #[must_use]
    pub const fn shape(&self) -> PackedShape {
        PackedShape { rows: self.product.n, columns: self.product.k }
    }
}

/// The family of products with weights of few bits. Inputs are the rows, the packed weights, and
/// what the epilogue reads; the output is the result.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantized;

impl Quantized {
    // THRESHOLD: weights are decoded to scratch memory and multiplied as a matrix; tested by
    // crates/kernels/tests/matmul/quantized.rs::few_rows_take_one_launch_and_more_a_matrix
    /// Rows that weights are decoded for in registers, at most.
    pub const MOST_ROWS: u64 = 256;
}

impl Family for Quantized {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { product, scheme } = problem;
        product.check()?;
        check(*scheme, problem.shape(), product.a.dtype)?;
        if product.num_products() != 1 {
            return Err(refused(format!("weights of few bits are those of one product, not of {product}")));
        }
        let matmul::Problem { m, n, k, batch, a, c, ref inputs, .. } = *product;
        let mut plan = Plan::new("matmul")
            .input(a.operand("the left matrix", [m, k], batch)?)
            .input(OperandSpec::new("the weights", problem.shape().bytes(*scheme), 16))
            .output(c.operand("the result", [m, product.result_columns()], batch)?);
        for input in inputs {
            plan = plan.input(input.operand("an input", [m, n], batch)?);
        }
        match Choice::of(problem, planner) {
            Some(choice) if product.k_parts == 1 => {
                plan.steps.push(choice.step(problem, Operand::Output(0), planner)?)
            }
            Some(choice) => {
                let c = Matrix::rows(Dtype::F32, n);
                let product = matmul::Problem { c, epilogue: Epilogue::new(), inputs: Vec::new(), ..product.clone() };
                let sums = plan.add_scratch(product.k_parts * m * n * Dtype::F32.bytes());
                plan.steps.push(choice.step(&Problem { product, scheme: *scheme }, sums, planner)?);
                let inputs: Vec<_> = (2..2 + inputs.len()).map(Operand::Input).collect();
                add_parts(&mut plan, &problem.product, sums, &inputs, planner)?;
            }
            None => as_matrix(&mut plan, problem, planner)?,
        }
        Ok(plan.choice(planned(problem, planner)))
    }
}

fn planned(problem: &Problem, planner: &Planner<'_>) -> String {
    let Problem { product, scheme } = problem;
    match Choice::of(problem, planner) {
        Some(Choice { stages: Stages { rows, halves, num, .. }, .. }) => {
            format!("{product}, {scheme}: {} outputs x {rows} rows, {num} stages", halves * BLOCK_ROWS / 2)
        }
        None => format!("{product}, {scheme}: decoded, then multiplied"),
    }
}

/// Refuses what no kernel decodes.
pub(super) fn check(scheme: Scheme, shape: PackedShape, dtype: Dtype) -> Result<(), Error> {
    scheme.validate()?;
    if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
        return Err(refused(format!("{scheme} become f32, f16 or bf16, not {dtype}")));
    }
    if !shape.columns.is_multiple_of(16) || shape.rows.max(shape.columns) > 1 << 31 {
        let PackedShape { rows, columns } = shape;
        return Err(refused(format!("{scheme} have columns in groups of 16 and 2^31 at most, not {rows} x {columns}")));
    }
    Ok(())
}

/// Decodes the weights to scratch memory, and multiplies that.
fn as_matrix(plan: &mut Plan, problem: &Problem, planner: &Planner<'_>) -> Result<(), Error> {
    let Problem { product, scheme } = problem;
    let dtype = product.a.dtype;
    let matrix = plan.add_scratch(product.n * product.k * dtype.bytes());
    plan.steps.extend(decoded(*scheme, problem.shape(), dtype, [Operand::Input(1), matrix], planner)?);
    // What the launch before writes must be waited for.
    let product = Matmul.plan(&matmul::Problem { weights: false, ..product.clone() }, planner)?;
    let inputs = (2..2 + problem.product.inputs.len()).map(|i| (Operand::Input(i), 0));
    let inputs: Vec<_> = [(Operand::Input(0), 0), (matrix, 0)].into_iter().chain(inputs).collect();
    plan.append(product, &inputs, &[(Operand::Output(0), 0)]);
    Ok(())
}

/// The launch that writes weights as a matrix, if there are any.
fn decoded(
    scheme: Scheme,
    shape: PackedShape,
    dtype: Dtype,
    [from, to]: [Operand; 2],
    planner: &Planner<'_>,
) -> Result<Option<Step>, Error> {
    let blocks = 2 * shape.blocks() * shape.pieces();
    if blocks == 0 {
        return Ok(None);
    }
    let kernel = planner.kernel(DequantizeConfig { dtype, scheme }, dequantize::kernel_of);
    let config = LaunchConfig::new(grid_size(blocks)?, dequantize::THREADS);
    let args = DequantizeArgs::<Planned> { weights: from, to, rows: shape.rows as u32, columns: shape.columns as u32 };
    Ok(Some(Step::new(kernel, config).with(args)?))
}

/// The family that writes packed weights as a matrix. The input are the weights, the output a
/// matrix with rows side by side. A problem is how they are stored, their shape, and the type of
/// the matrix: `f32`, `f16` or `bf16`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dequantize;

impl Family for Dequantize {
    type Problem = (Scheme, PackedShape, Dtype);

    fn plan(&self, problem: &Self::Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let (scheme, shape, dtype) = *problem;
        check(scheme, shape, dtype)?;
        let mut plan = Plan::new("dequantize")
            .input(OperandSpec::new("the weights", shape.bytes(scheme), 16))
            .output(OperandSpec::new("the matrix", shape.rows * shape.columns * dtype.bytes(), 16));
        plan.steps.extend(decoded(scheme, shape, dtype, [Operand::Input(0), Operand::Output(0)], planner)?);
        Ok(plan.choice(scheme))
    }
}

/// How few rows are multiplied.
struct Choice {
    stages: Stages,
    /// Tiles of rows.
    tiles: u64,
}

impl Choice {
    /// Nothing where the weights become a matrix: for many rows, without WGMMA, for rows that TMA
    /// does not read.
    fn of(problem: &Problem, planner: &Planner<'_>) -> Option<Self> {
        let Problem { product: matmul::Problem { m, n, k, a, batch, .. }, scheme } = *problem;
        let parts = problem.product.k_parts;
        // A part is whole stages, of two pieces at most.
        if parts > 1 && !k.is_multiple_of(parts * 2 * u64::from(DEPTH)) {
            return None;
        }
        let is_half = matches!(a.dtype, Dtype::F16 | Dtype::Bf16);
        let has_map = tma_major(&a, m.max(2), k, batch) == Some(OperandMajor::K);
        if !planner.limits.has_wgmma || !is_half || !has_map || m == 0 || m > Quantized::MOST_ROWS || n == 0 || k == 0 {
            return None;
        }
        let (rows, tiles) = tile_rows(m);
        let num_sms = u64::from(planner.limits.num_sms.max(1));
        let blocks = n.div_ceil(BLOCK_ROWS.into()) * tiles;
        let is_gated = problem.product.epilogue.gate_activation().is_some();
        // THRESHOLD: blocks take 32 outputs instead of 64; tested by
        // crates/kernels/tests/matmul/quantized.rs::few_outputs_are_shared_by_twice_as_many_blocks
        let halves = if blocks <= num_sms && !is_gated { 1 } else { 2 };
        let blocks_of_sm = (blocks * u64::from(3 - halves) * parts).div_ceil(num_sms);
        let stages = Stages { pieces: Pieces::Codes(scheme), rows, halves, num: 0 };
        let needed = problem.shape().pieces().div_ceil(parts).div_ceil(stages.along().into());
        Some(Self { stages: stages.for_blocks(blocks_of_sm, needed), tiles })
    }

    fn step(&self, problem: &Problem, result: Operand, planner: &Planner<'_>) -> Result<Step, Error> {
        let product = &problem.product;
        let matmul::Problem { m, n, k, a, .. } = *product;
        let Self { stages, tiles } = *self;
        let Stages { rows, halves, .. } = stages;
        let kernel = FewRowsConfig {
            dtype: a.dtype,
            stages,
            parts: product.k_parts as u32,
            weights: product.weights,
            epilogue: EpilogueKey::new(product),
        };
        let blocks = n.div_ceil(BLOCK_ROWS.into()) * 2 / u64::from(halves) * tiles * product.k_parts;
        let config = LaunchConfig::new(grid_size(blocks)?, THREADS);
        let inputs: Vec<_> = (2..2 + product.inputs.len()).map(Operand::Input).collect();
        let args = FewRowsArgs {
            weights: Operand::Input(1),
            x: tensor_map(Operand::Input(0), layout(&a, [m, k], None, [rows, 128]), a.dtype),
            rows: m as u32,
            outputs: n as u32,
            k: k as u32,
            tiles: tiles as u32,
            end: product.end(result, &inputs),
        };
        Step::new(planner.kernel(kernel, kernel::make), config).with(args)
    }
}

/// Rows of a tile, and tiles of so many rows.
fn tile_rows(m: u64) -> (u32, u64) {
    let step = match m {
        0..=32 => 8,
        33..=64 => 16,
        _ => 32,
    };
    let rows = m.next_multiple_of(step).min(TILE_ROWS);
    (rows as u32, m.div_ceil(rows))
}

/// The kernels for the list of all: every way that codes, scales and offsets are stored, and every
/// shape of tile.
pub(in crate::matmul) fn shipped() -> Vec<Shipped> {
    use super::scheme::{Offset, Scale};

    let q4_0 = Scheme::symmetric(4, 8);
    let k_quant = Scheme { zero: 0, scale: Scale::Byte, offset: Offset::Byte, ..q4_0 };
    let six = Scheme { bits: 6, group: 16, zero: 32, scale: Scale::SignedByte, ..q4_0 };
    let schemes = [
        q4_0,
        Scheme { zero: 0, offset: Offset::Half, ..q4_0 },
        Scheme { zero: 0, group: 128, offset: Offset::Zero, ..q4_0 },
        Scheme::symmetric(5, 16),
        Scheme::symmetric(8, 128),
        k_quant,
        Scheme { bits: 5, ..k_quant },
        six,
        Scheme { bits: 3, zero: 4, ..six },
        Scheme { bits: 2, group: 16, ..k_quant },
        Scheme::MXFP4,
    ];
    let of = |scheme: Scheme, m: u64, n: u64, epilogue: Epilogue| {
        let columns = if epilogue.gate_activation().is_some() { n / 2 } else { n };
        let product = matmul::Problem {
            c: Matrix::rows(Dtype::Bf16, columns),
            weights: true,
            epilogue,
            ..matmul::Problem::new(Dtype::Bf16, m, n, 4096)
        };
        Problem::new(product, scheme)
    };
    let plain = schemes.into_iter().map(|scheme| of(scheme, 8, 4096, Epilogue::new()));
    let shapes = [
        of(q4_0, 16, 28_672, Epilogue::new().gate(Activation::Silu)),
        of(k_quant, 16, 28_672, Epilogue::new()),
        of(k_quant, 64, 28_672, Epilogue::new().gate(Activation::Silu)),
        of(six, 128, 4096, Epilogue::new()),
        of(k_quant, 128, 28_672, Epilogue::new()),
    ];
    let shape = PackedShape { rows: 4096, columns: 4096 };
    let rows = super::GatherProblem { indices: Dtype::I32, count: 8, scheme: six, shape, dtype: Dtype::Bf16 };
    Shipped::of_plans(|planner| {
        let products = plain.chain(shapes).map(|problem| Quantized.plan(&problem, planner));
        let matrices = schemes.map(|scheme| Dequantize.plan(&(scheme, shape, Dtype::Bf16), planner));
        products.chain(matrices).chain([super::GatherRows.plan(&rows, planner)]).collect()
    })
}
