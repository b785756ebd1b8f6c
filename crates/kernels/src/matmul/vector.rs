//! Products of one row or one column go to [`gemv`].

use super::problem::{Matrix, Problem};
use crate::gemv::{self, Gemv};
use crate::layout::Layout;
use crate::plan::{Family, Operand, Plan, Planner};
use crate::repack::{Strided, strided};
use crate::{Dtype, Error};

/// Plans a product of one row or one column with nothing after it by [`gemv`], which reads a matrix
/// at the memory's full speed; tiles that start together do not reach it. Says whether it is one.
pub(super) fn plan(plan: &mut Plan, problem: &Problem, planner: &Planner<'_>) -> Result<bool, Error> {
    let Problem { m, n, k, ref a, ref b, ref c, .. } = *problem;
    let dtype = a.dtype;
    let is_float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
    let is_alone = problem.epilogue.steps().is_empty() && !problem.has_fixed_order();
    if !is_float || c.dtype != dtype || !is_alone || problem.num_products() != 1 || k == 0 {
        return Ok(false);
    }
    // Of the vector the position, where its elements lie, and the stride; the same of the result.
    let (matrix, from, vector, stride, to, len) = match () {
        () if n == 1 && m > 0 => (*a, [0, 1], b, b.row_stride, c.row_stride, m),
        () if m == 1 && n > 0 => (b.transposed(), [1, 0], a, a.column_stride, c.column_stride, n),
        () => return Ok(false),
    };
    let is_contiguous = stride == 1 || k == 1;
    let alignment = if is_contiguous { matrix.alignment.min(vector.alignment) } else { matrix.alignment };
    let strides = [matrix.row_stride, matrix.column_stride];
    // Any other matrix would have to be repacked, and any other result.
    let Some(product) = gemv::Problem::of_strides(dtype, [len, k], strides, alignment) else { return Ok(false) };
    if to != 1 && len != 1 {
        return Ok(false);
    }
    let [matrix, mut place] = from.map(Operand::Input);
    if !is_contiguous {
        let column = Matrix { row_stride: stride, column_stride: 0, ..*vector };
        place = strided(
            plan,
            planner,
            &Strided {
                dtype,
                operand: place,
                first: column.first([k, 1], problem.batch),
                alignment: vector.alignment,
                from: Layout::new(vec![k as usize], vec![stride as isize])?,
                to: Layout::contiguous(&[k as usize])?,
            },
        )?;
    }
    let product = Gemv.plan(&product, planner)?;
    plan.choice.clone_from(&product.choice);
    plan.bytes_in_flight = product.bytes_in_flight;
    plan.append(product, &[(matrix, 0), (place, 0)], &[(Operand::Output(0), 0)]);
    Ok(true)
}
