//! From a problem to steps: repacks, the GEMM, and the reduction of split-K.

use half::{bf16, f16};
use warpfold_device::{L2Promotion, Limits, TensorLayout};
use warpfold_lang::{F8E4M3, F8E5M2};

use super::algorithm::Algorithm;
use super::args::{ProductArgs, WgmmaArgs};
use super::choice::Choice;
use super::eligibility::{can_add_tree, tma_majors};
use super::epilogue_writer::EpilogueKey;
use super::mma::{MmaProductConfig, mma};
use super::operand_major::OperandMajor;
use super::problem::{Matrix, Problem};
use super::simt::{SimtConfig, simt};
use super::split_k_reduce::{self, SplitKConfig, SplitKReduceArgs, split_k_reduce};
use super::wgmma::{WgmmaProductConfig, layout, wgmma};
use super::{gate, repack, vector};
use crate::plan::{Family, MemoryMap, Operand, Plan, Planner, Step};
use crate::{AnyKernel, Dtype, Error};

/// The family of products of matrices, and of batches of them.
///
/// Inputs are the left matrix, the right one, and what the epilogue reads; the output is the
/// result, which overlaps nothing else. The family decides between [`gemv`](crate::gemv) and tiles,
/// and which matrices are repacked first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Matmul;

/// A kernel of this folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kernel {
    Simt(Dtype, SimtConfig),
    Mma(MmaProductConfig),
    Reduce(SplitKConfig),
}

/// A kernel that is generic over what sums are kept in.
macro_rules! for_accumulator {
    ($dtype:expr, $kernel:ident($argument:expr)) => {
        match $dtype {
            Dtype::F32 => AnyKernel::from($kernel::<f32>($argument)),
            Dtype::F64 => AnyKernel::from($kernel::<f64>($argument)),
            Dtype::I32 => AnyKernel::from($kernel::<i32>($argument)),
            Dtype::I64 => AnyKernel::from($kernel::<i64>($argument)),
            dtype => unreachable!("no plan adds up in {dtype}"),
        }
    };
}

fn make(kernel: &Kernel) -> AnyKernel {
    match kernel {
        Kernel::Simt(accumulator, config) => for_accumulator!(*accumulator, simt(config)),
        Kernel::Mma(config) => make_mma(config),
        Kernel::Reduce(config) => for_accumulator!(config.accumulator, split_k_reduce(config)),
    }
}

/// The `mma.sync` kernel, by the type of its factors.
fn make_mma(config: &MmaProductConfig) -> AnyKernel {
    match config.dtype {
        Dtype::F16 => AnyKernel::from(mma::<f16>(config)),
        Dtype::Bf16 => AnyKernel::from(mma::<bf16>(config)),
        Dtype::F32 => AnyKernel::from(mma::<f32>(config)),
        Dtype::I8 => AnyKernel::from(mma::<i8>(config)),
        Dtype::U8 => AnyKernel::from(mma::<u8>(config)),
        dtype => unreachable!("no plan multiplies {dtype} by warps"),
    }
}

/// The WGMMA kernel, by the type of its factors.
pub(crate) fn make_wgmma(config: &WgmmaProductConfig) -> AnyKernel {
    match config.dtype {
        Dtype::F16 => AnyKernel::from(wgmma::<f16>(config)),
        Dtype::Bf16 => AnyKernel::from(wgmma::<bf16>(config)),
        Dtype::F32 => AnyKernel::from(wgmma::<f32>(config)),
        Dtype::F8E4M3 => AnyKernel::from(wgmma::<F8E4M3>(config)),
        Dtype::F8E5M2 => AnyKernel::from(wgmma::<F8E5M2>(config)),
        Dtype::I8 => AnyKernel::from(wgmma::<i8>(config)),
        Dtype::U8 => AnyKernel::from(wgmma::<u8>(config)),
        dtype => unreachable!("no plan multiplies {dtype} by warpgroups"),
    }
}

impl Family for Matmul {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let mut plan = operands(problem)?;
        if let Some(gate) = EpilogueKey::new(problem).gate().filter(|_| tma_majors(problem, planner.limits).is_none()) {
            gate::plan_apart(&mut plan, problem, gate, planner, |product| self.plan(product, planner))?;
            return Ok(plan);
        }
        if vector::plan(&mut plan, problem, planner)? {
            return Ok(plan);
        }
        let mut memory = Memory::of(problem);
        let mut problem = repack::plan(&mut plan, &mut memory, problem, planner)?;
        // What the launch before writes must be waited for.
        problem.weights &= memory.b == Operand::Input(1);
        if !can_add_tree(&problem, planner.limits) {
            return self.plan_parts(plan, &problem, &memory, planner);
        }
        let choice = Choice::new(problem, planner.target.arch, planner.limits)?;
        multiply(&mut plan, &memory, &choice, planner)?;
        Ok(plan)
    }
}

impl Matmul {
    /// Whether some kernel adds the [parts of K](Problem::k_parts) of packed factors in one launch,
    /// however many rows there are. Elsewhere a second launch adds them, from `4 * parts` bytes for
    /// each element of the result.
    #[must_use]
    pub fn adds_parts_in_one_launch(dtype: Dtype, k: u64, parts: u64, limits: &Limits) -> bool {
        // Copies of a part begin at a multiple of 16 bytes.
        let is_copied = (k / parts).is_multiple_of(8);
        parts == 1 || matches!(dtype, Dtype::F16 | Dtype::Bf16) && is_copied && limits.has_wgmma
    }

    /// Plans the parts of `k` as a batch of products, whose results a second launch adds: where no
    /// kernel adds them by itself.
    fn plan_parts(
        &self,
        mut plan: Plan,
        problem: &Problem,
        memory: &Memory,
        planner: &Planner<'_>,
    ) -> Result<Plan, Error> {
        let Problem { m, n, k_parts: parts, .. } = *problem;
        let products = self.plan(&problem.of_parts(), planner)?;
        plan.choice = format!("{}; then their sums, in a tree", products.choice);
        let sums = plan.add_scratch(parts * m * n * Dtype::F32.bytes());
        plan.append(products, &[(memory.a, 0), (memory.b, 0)], &[(sums, 0)]);
        add_parts(&mut plan, problem, sums, &memory.inputs, planner)?;
        Ok(plan)
    }

    /// As [`Family::plan`], by a choice that was made before: tiles, of matrices as they lie.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`](crate::ErrorKind::Operand) for a matrix larger than any memory.
    pub fn plan_with(&self, choice: &Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        let mut plan = operands(&choice.problem)?;
        multiply(&mut plan, &Memory::of(&choice.problem), choice, planner)?;
        Ok(plan)
    }
}

/// Adds the launch that adds the parts of `k` in a tree, from sums of `f32` one part after the
/// other.
pub(super) fn add_parts(
    plan: &mut Plan,
    problem: &Problem,
    sums: Operand,
    inputs: &[Operand],
    planner: &Planner<'_>,
) -> Result<(), Error> {
    let Problem { m, n, k, k_parts, .. } = *problem;
    let Some(config) = split_k_reduce::launch(m * n, n) else { return Ok(()) };
    let (tree, epilogue) = (Some(k_parts as u32), EpilogueKey::new(problem));
    let kernel = Kernel::Reduce(SplitKConfig { accumulator: Dtype::F32, tree, epilogue });
    let args = SplitKReduceArgs {
        sums,
        part_stride: (m * n) as i64,
        sizes: problem.sizes(k / k_parts, k_parts as u32),
        end: problem.end(Operand::Output(0), inputs),
    };
    plan.steps.push(Step::new(planner.kernel(kernel, make), config).with(args)?);
    Ok(())
}

/// A plan without launches.
fn operands(problem: &Problem) -> Result<Plan, Error> {
    let Problem { m, n, k, batch, a, b, c, ref inputs, .. } = *problem;
    let mut plan = Plan::new("matmul")
        .input(a.operand("the left matrix", [m, k], batch)?)
        .input(b.operand("the right matrix", [k, n], batch)?)
        .output(c.operand("the result", [m, problem.result_columns()], batch)?);
    for input in inputs {
        plan = plan.input(input.operand("an input", [m, n], batch)?);
    }
    Ok(plan)
}

/// Where the matrices of a product are: inputs of the plan, or scratch memory that they were
/// repacked to.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) a: Operand,
    pub(super) b: Operand,
    pub(super) inputs: Vec<Operand>,
}

impl Memory {
    fn of(problem: &Problem) -> Self {
        let inputs = (2..2 + problem.inputs.len()).map(Operand::Input).collect();
        Self { a: Operand::Input(0), b: Operand::Input(1), inputs }
    }
}

/// Adds the launches of a choice.
fn multiply(plan: &mut Plan, memory: &Memory, choice: &Choice, planner: &Planner<'_>) -> Result<(), Error> {
    plan.choice = choice.to_string();
    let Some(config) = choice.launch() else { return Ok(()) };
    let (problem, result) = (choice.multiplied(), Operand::Output(0));
    let is_split = choice.has_reduce();
    let (sums, inputs) =
        if is_split { (plan.add_scratch(choice.sums_bytes()), &[][..]) } else { (result, &memory.inputs[..]) };
    let part_stride = if is_split { choice.num_results() as i64 } else { 0 };
    let (sizes, end) = (problem.sizes(choice.part, choice.num_parts), problem.end(sums, inputs));
    let by_threads = |kernel: Kernel| {
        let [a, b] = problem.factors(memory.a, memory.b);
        Step::new(planner.kernel(kernel, make), config).with(ProductArgs { a, b, sizes, part_stride, end })
    };
    let step = match choice.algorithm {
        Algorithm::Simt(tile) => by_threads(Kernel::Simt(choice.accumulator(), choice.simt_config(tile))),
        Algorithm::Mma(tile) => by_threads(Kernel::Mma(choice.mma_config(tile))),
        Algorithm::Wgmma(tile) | Algorithm::SwapAb(tile) => {
            let kernel = choice.wgmma_config(tile);
            let is_turned = matches!(choice.algorithm, Algorithm::SwapAb(_));
            let factors = if is_turned { [memory.b, memory.a] } else { [memory.a, memory.b] };
            let (a, b, c) = maps(&kernel, &problem, factors, sums);
            let copied = if kernel.is_ragged { &problem.of_parts() } else { &problem };
            let [batch_a, batch_b] = [&copied.a, &copied.b].map(Matrix::walked_strides);
            let args = WgmmaArgs { a, b, c, sizes, batch_a, batch_b, part_stride, height: 0, width: 0, end };
            Step::new(planner.kernel(kernel, make_wgmma), config).with(args)
        }
    };
    plan.steps.push(step?);
    if let Some(config) = choice.fold() {
        let epilogue = EpilogueKey::new(&choice.problem);
        let kernel = Kernel::Reduce(SplitKConfig { accumulator: choice.accumulator(), tree: None, epilogue });
        let args = SplitKReduceArgs { sums, part_stride, sizes, end: choice.problem.end(result, &memory.inputs) };
        plan.steps.push(Step::new(planner.kernel(kernel, make), config).with(args)?);
    }
    Ok(())
}

/// The tensor maps of the WGMMA kernel: of both factors, and of the result where copies store it.
fn maps(
    config: &WgmmaProductConfig,
    problem: &Problem,
    factors: [Operand; 2],
    result: Operand,
) -> (MemoryMap, MemoryMap, Option<MemoryMap>) {
    let WgmmaProductConfig { dtype, tile, is_batch, is_ragged, copied, rows, .. } = *config;
    let Problem { m, n, ref c, .. } = *problem;
    let factors_of = if is_ragged { &problem.of_parts() } else { problem };
    let Problem { k, ref a, ref b, batch: of_factors, .. } = *factors_of;
    let (of_factors, of_result) = ((is_batch || is_ragged).then_some(of_factors), is_batch.then_some(problem.batch));
    let depth = tile.depth(dtype.bytes() as u32) / tile.panels;
    // What passes by once is fetched by single lines of the cache, which pieces of 128 bytes of a
    // row are: by pairs of lines, more of what the other half of L2 has comes twice. Weights of
    // 8192 x 8192, H200, 2026-11-21: 33.1 us so, 34.8 by pairs (8 rows); 35.1, 36.1 (128 rows).
    let is_for_few = config.read_once.contains(&true);
    let l2_promotion = if is_for_few { L2Promotion::Bytes128 } else { L2Promotion::Bytes256 };
    let map = |operand: Operand, matrix: &Matrix, batch, sizes: [u64; 2], boxes: [u32; 2]| {
        let layout = TensorLayout { l2_promotion, ..layout(matrix, sizes, batch, boxes) };
        tensor_map(operand, layout, matrix.dtype)
    };
    let factor = |operand: Operand, matrix: &Matrix, lines: u64, major: OperandMajor, line_box: u32| match major {
        OperandMajor::K => map(operand, matrix, of_factors, [lines, k], [line_box, 128]),
        OperandMajor::Mn => map(operand, &matrix.transposed(), of_factors, [k, lines], [depth, 128]),
    };
    let [major_a, major_b] = config.majors;
    let copied = copied.and(config.result_panel()).map(|columns| {
        let boxes = [rows.min(64), columns * c.dtype.bytes() as u32];
        map(result, c, of_result, [m, problem.result_columns()], boxes)
    });
    let a = factor(factors[0], a, m, major_a, rows);
    (a, factor(factors[1], &b.transposed(), n, major_b, tile.copied_columns()), copied)
}

/// A tensor map of memory from its beginning on.
pub(crate) const fn tensor_map(operand: Operand, layout: TensorLayout, dtype: Dtype) -> MemoryMap {
    MemoryMap { operand, layout, first: 0, element_bytes: dtype.bytes() }
}
