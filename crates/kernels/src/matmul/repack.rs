//! Which matrices are repacked before a GEMM: those that TMA cannot read, where tensor cores gain
//! more than a copy costs, and all of a batch of more dimensions than kernels walk.

use super::eligibility::has_tensor_cores;
use super::family::Memory;
use super::problem::{Matrix, Problem, refused};
use super::wgmma;
use crate::Error;
use crate::plan::{Operand, Plan, Planner};
use crate::repack::{Strided, strided};

// THRESHOLD: larger products have factors repacked; tested by
// crates/kernels/tests/parts/choices.rs::factors_of_large_products_are_repacked_for_tma
/// The fewest multiply-adds of a product whose factors are repacked for TMA: CUDA cores take 12 us
/// for them.
const LEAST: u64 = 1 << 28;

/// What TMA reads begins at multiples of this many bytes.
const TMA_BYTES: u64 = 16;

/// Adds the repacks that a product needs, and gives the problem of the matrices as they lie then.
pub(super) fn plan(
    plan: &mut Plan,
    memory: &mut Memory,
    problem: &Problem,
    planner: &Planner<'_>,
) -> Result<Problem, Error> {
    let mut problem = problem.clone().merged();
    let Problem { m, n, k, batch, .. } = problem;
    // Not where bits must not depend on the number of rows, as the size decides.
    let is_worth_it = has_tensor_cores(&problem, planner.limits)
        && !problem.has_fixed_order()
        && problem.num_products() == 1
        && m.saturating_mul(n).saturating_mul(k) >= LEAST;
    if is_worth_it && wgmma::tma_major(&problem.a, m, k, batch).is_none() {
        let to = padded(problem.a, k);
        memory.a = repacked(plan, planner, memory.a, ([m, k], batch), [problem.a, to])?;
        problem.a = to;
    }
    if is_worth_it && wgmma::tma_major(&problem.b.transposed(), n, k, batch).is_none() {
        // Lines along the sums, but of 16-bit elements either way round.
        let to = if problem.b.dtype.bytes() == 2 { padded(problem.b, n) } else { padded(problem.b, k).transposed() };
        memory.b = repacked(plan, planner, memory.b, ([k, n], batch), [problem.b, to])?;
        problem.b = to;
    }
    if problem.is_walked() {
        return Ok(problem);
    }
    let inputs = memory.inputs.iter_mut().zip(&mut problem.inputs).map(|(memory, matrix)| (memory, matrix, [m, n]));
    let factors = [(&mut memory.a, &mut problem.a, [m, k]), (&mut memory.b, &mut problem.b, [k, n])];
    for (memory, matrix, sizes) in factors.into_iter().chain(inputs) {
        let to = Matrix::packed(matrix.dtype, sizes, batch);
        let is_packed = Matrix { alignment: to.alignment, ..*matrix } == to;
        if !is_packed {
            *memory = repacked(plan, planner, *memory, (sizes, batch), [*matrix, to])?;
            *matrix = to;
        }
    }
    let problem = problem.merged();
    if problem.is_walked() {
        Ok(problem)
    } else {
        Err(refused("the result's batch has more dimensions than the kernels walk".to_owned()))
    }
}

/// Rows of this many elements that begin where TMA can read them.
fn padded(matrix: Matrix, columns: u64) -> Matrix {
    Matrix::rows(matrix.dtype, columns.next_multiple_of(TMA_BYTES / matrix.dtype.bytes()))
}

fn repacked(
    plan: &mut Plan,
    planner: &Planner<'_>,
    operand: Operand,
    (sizes, batch): ([u64; 2], [u64; super::problem::MAX_BATCH_RANK]),
    [from, to]: [Matrix; 2],
) -> Result<Operand, Error> {
    strided(
        plan,
        planner,
        &Strided {
            dtype: from.dtype,
            operand,
            first: from.first(sizes, batch),
            alignment: from.alignment,
            from: from.layout(sizes, batch)?,
            to: to.layout(sizes, batch)?,
        },
    )
}
