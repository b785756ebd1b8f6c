//! Launches a plan on buffers of the device.

use warpfold_device::{Arguments, Device, Function, Stream, View, ViewMut};

use super::epilogue::{Epilogue, MAX_INPUTS};
use super::finish::{Ending, scalar_words, stride_words};
use super::fold_parts::fold_parts;
use super::plan::Plan;
use super::problem::{Problem, refused};
use super::simt::{Configuration, matrix_words, simt, size_words};
use crate::kept::Kept;
use crate::{AnyKernel, Dtype, Error, Workspace};

/// The memory of a product, as bytes. Positions of elements count from the beginning of each.
#[derive(Debug)]
pub struct Operands<'a> {
    /// The left matrix.
    pub a: View<'a, u8>,
    /// The right matrix.
    pub b: View<'a, u8>,
    /// What the epilogue reads.
    pub inputs: Vec<View<'a, u8>>,
    /// The result. It overlaps nothing else.
    pub c: ViewMut<'a, u8>,
}

/// A kernel of this folder, for the table of those that are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kernel {
    Simt(Dtype, Configuration),
    Fold(Dtype, Ending),
}

static KERNELS: Kept<Kernel> = Kept::new();

/// A kernel that is generic over what sums are kept in.
macro_rules! for_accumulator {
    ($dtype:expr, $kernel:ident($argument:expr)) => {
        match $dtype {
            Dtype::F32 => AnyKernel::from($kernel::<f32>($argument)),
            Dtype::F64 => AnyKernel::from($kernel::<f64>($argument)),
            Dtype::I32 => AnyKernel::from($kernel::<i32>($argument)),
            dtype => unreachable!("no plan adds up in {dtype}"),
        }
    };
}

fn make(kernel: &Kernel) -> AnyKernel {
    match kernel {
        Kernel::Simt(accumulator, configuration) => for_accumulator!(*accumulator, simt(configuration)),
        Kernel::Fold(accumulator, ending) => for_accumulator!(*accumulator, fold_parts(ending)),
    }
}

/// The kernels of a plan, in the order of their launches.
#[must_use]
pub fn kernels_of(plan: &Plan) -> Vec<AnyKernel> {
    names(plan).iter().map(make).collect()
}

fn names(plan: &Plan) -> Vec<Kernel> {
    let accumulator = plan.accumulator();
    let mut names = vec![Kernel::Simt(accumulator, plan.configuration())];
    if plan.num_parts > 1 {
        names.push(Kernel::Fold(accumulator, Ending::new(&plan.problem, &plan.epilogue)));
    }
    names
}

fn prepare(device: &Device, plan: &Plan) -> Result<Vec<Function>, Error> {
    names(plan).into_iter().map(|name| KERNELS.prepare(device, name, make)).collect()
}

/// Computes the product that a plan was made for.
///
/// # Errors
/// [`ErrorKind::Operand`](crate::ErrorKind::Operand) if a memory does not hold all elements or is not aligned as the plan has
/// it; what the device says.
pub fn launch(stream: &Stream, plan: &Plan, operands: Operands<'_>, workspace: &mut Workspace) -> Result<(), Error> {
    check(plan, &operands)?;
    let Some(config) = plan.launch() else { return Ok(()) };
    let functions = prepare(stream.device(), plan)?;
    let Operands { a, b, inputs, mut c } = operands;
    let problem = &plan.problem;
    let sizes = bytes(&size_words(problem, plan.part, plan.num_parts).map(u32::to_le_bytes));
    let part_stride = if plan.num_parts > 1 { plan.num_results() } else { 0 };
    let matrices = bytes(&matrix_words(problem, part_stride).map(i64::to_le_bytes));
    let multiply = |c: ViewMut<'_, u8>, inputs: &[View<'_, u8>], problem: &Problem, epilogue: &Epilogue| {
        let arguments = Arguments::new().input(a).input(b).raw(&sizes, 4).raw(&matrices, 8);
        let arguments = with_ending(arguments, c, inputs, problem, epilogue);
        stream.launch_raw(&functions[0], config, &arguments)
    };
    let Some(fold) = plan.fold() else {
        return Ok(multiply(c.reborrow(), &inputs, problem, &plan.epilogue)?);
    };
    let (mut words, _) = workspace.get(stream.device(), plan.workspace_words(), 0)?;
    let (first, none) = plan.first();
    multiply(words.reborrow().bytes(), &[], &first, &none)?;
    let arguments = Arguments::new().input(words.as_view()).raw(&sizes, 4).value(part_stride as i64);
    let arguments = with_ending(arguments, c, &inputs, problem, &plan.epilogue);
    Ok(stream.launch_raw(&functions[1], fold, &arguments)?)
}

/// Adds what a kernel takes for its end.
fn with_ending<'a>(
    arguments: Arguments<'a>,
    c: ViewMut<'a, u8>,
    inputs: &[View<'a, u8>],
    problem: &Problem,
    epilogue: &Epilogue,
) -> Arguments<'a> {
    let mut arguments = arguments.output(c);
    for input in inputs {
        arguments = arguments.input(input.clone());
    }
    for _ in inputs.len()..MAX_INPUTS {
        arguments = arguments.value(0_u64);
    }
    let strides = bytes(&stride_words(problem).map(i64::to_le_bytes));
    arguments.raw(&strides, 8).raw(&bytes(&scalar_words(epilogue).map(f64::to_le_bytes)), 8)
}

fn bytes<const B: usize>(words: &[[u8; B]]) -> Vec<u8> {
    words.concat()
}

fn check(plan: &Plan, operands: &Operands<'_>) -> Result<(), Error> {
    let Problem { m, n, k, batch, a, b, c, ref inputs, .. } = plan.problem;
    if operands.inputs.len() != inputs.len() {
        let (expected, found) = (inputs.len(), operands.inputs.len());
        return Err(refused(format!("the epilogue takes {expected} input(s), not {found}")));
    }
    let named = [
        (&a, (m, k), "the left matrix", operands.a.num_bytes(), operands.a.address()),
        (&b, (k, n), "the right matrix", operands.b.num_bytes(), operands.b.address()),
        (&c, (m, n), "the result", operands.c.num_bytes(), operands.c.address()),
    ];
    let more = inputs.iter().zip(&operands.inputs);
    let more = more.map(|(matrix, view)| (matrix, (m, n), "an input", view.num_bytes(), view.address()));
    for (matrix, (rows, columns), name, found, address) in named.into_iter().chain(more) {
        matrix.check((rows, columns, batch), name, found)?;
        let first = address + matrix.first * matrix.dtype.bytes();
        let is_empty = rows == 0 || columns == 0 || batch.contains(&0);
        if !is_empty && !first.is_multiple_of(matrix.alignment.max(1)) {
            return Err(refused(format!("{name} does not begin at a multiple of {} bytes", matrix.alignment)));
        }
    }
    Ok(())
}
