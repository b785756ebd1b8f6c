//! Launches a plan on buffers of the device.

use half::{bf16, f16};
use warpfold_device::{Arguments, Device, Function, Stream, TensorMap, View, ViewMut};
use warpfold_lang::{F8E4M3, F8E5M2};

use super::epilogue::{Epilogue, MAX_INPUTS};
use super::finish::{Ending, scalar_words, stride_words};
use super::fold_parts::fold_parts;
use super::plan::{Code, Plan};
use super::problem::{Matrix, Problem, refused};
use super::simt::{Configuration, matrix_words, simt, size_words};
use super::wgmma::{Lying, WgmmaConfiguration, WgmmaTile, layout, wgmma};
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
    Wgmma(WgmmaConfiguration),
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
        Kernel::Wgmma(configuration) => make_wgmma(configuration),
        Kernel::Fold(accumulator, ending) => for_accumulator!(*accumulator, fold_parts(ending)),
    }
}

fn make_wgmma(configuration: &WgmmaConfiguration) -> AnyKernel {
    match configuration.dtype {
        Dtype::F16 => AnyKernel::from(wgmma::<f16>(configuration)),
        Dtype::Bf16 => AnyKernel::from(wgmma::<bf16>(configuration)),
        Dtype::F32 => AnyKernel::from(wgmma::<f32>(configuration)),
        Dtype::F8E4M3 => AnyKernel::from(wgmma::<F8E4M3>(configuration)),
        Dtype::F8E5M2 => AnyKernel::from(wgmma::<F8E5M2>(configuration)),
        Dtype::I8 => AnyKernel::from(wgmma::<i8>(configuration)),
        Dtype::U8 => AnyKernel::from(wgmma::<u8>(configuration)),
        dtype => unreachable!("no plan multiplies {dtype} by warpgroups"),
    }
}

/// The kernels of a plan, in the order of their launches.
#[must_use]
pub fn kernels_of(plan: &Plan) -> Vec<AnyKernel> {
    names(plan).iter().map(make).collect()
}

fn names(plan: &Plan) -> Vec<Kernel> {
    let accumulator = plan.accumulator();
    let mut names = vec![match plan.code {
        Code::Simt(tile) => Kernel::Simt(accumulator, plan.configuration(tile)),
        Code::Wgmma(tile) => Kernel::Wgmma(plan.wgmma_configuration(tile)),
    }];
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
    let multiply = |mut c: ViewMut<'_, u8>, inputs: &[View<'_, u8>], problem: &Problem, epilogue: &Epilogue| {
        let arguments = match plan.code {
            Code::Simt(_) => Arguments::new().input(a).input(b),
            Code::Wgmma(tile) => with_maps(plan, tile, problem, [&a, &b], &mut c)?,
        };
        let arguments = with_ending(arguments.raw(&sizes, 4).raw(&matrices, 8), c, inputs, problem, epilogue);
        Ok::<_, Error>(stream.launch_raw(&functions[0], config, &arguments)?)
    };
    let Some(fold) = plan.fold() else {
        return multiply(c.reborrow(), &inputs, problem, &plan.epilogue);
    };
    let (mut words, _) = workspace.get(stream.device(), plan.workspace_words(), 0)?;
    let (first, none) = plan.first();
    multiply(words.reborrow().bytes(), &[], &first, &none)?;
    let arguments = Arguments::new().input(words.as_view()).raw(&sizes, 4).value(part_stride as i64);
    let arguments = with_ending(arguments, c, &inputs, problem, &plan.epilogue);
    Ok(stream.launch_raw(&functions[1], fold, &arguments)?)
}

/// The maps of both factors, and of the result where copies store it.
fn with_maps<'a>(
    plan: &Plan,
    tile: WgmmaTile,
    problem: &Problem,
    [a, b]: [&View<'a, u8>; 2],
    c: &mut ViewMut<'_, u8>,
) -> Result<Arguments<'a>, Error> {
    let configuration = plan.wgmma_configuration(tile);
    let Problem { m, n, k, .. } = *problem;
    let batch = configuration.is_batch.then_some(problem.batch);
    let depth = tile.depth(configuration.dtype.bytes() as u32);
    let map = |view: &View<'a, u8>, matrix: &Matrix, lines: u64, lying: Lying, line_box: u32| {
        let (matrix, sizes, box_rows) = match lying {
            Lying::Steps => (*matrix, [lines, k], line_box),
            Lying::Lines => (matrix.transposed(), [k, lines], depth),
        };
        let layout = layout(&matrix, sizes, batch, box_rows);
        let first = matrix.first * matrix.dtype.bytes();
        // A map of bytes will do for all 8-bit types, and the others differ in nothing but the reading of their bits.
        Ok::<_, Error>(match matrix.dtype.bytes() {
            1 => Map::Bytes(view.tensor_map_of(first, &layout)?),
            2 => Map::Halves(view.tensor_map_of(first, &layout)?),
            _ => Map::Singles(view.tensor_map_of(first, &layout)?),
        })
    };
    let [lying_a, lying_b] = configuration.lying;
    let arguments = Arguments::new();
    let arguments = map(a, &problem.a, m, lying_a, tile.rows())?.add_to(arguments);
    let shared_columns = tile.columns / tile.cluster;
    let arguments = map(b, &problem.b.transposed(), n, lying_b, shared_columns)?.add_to(arguments);
    if configuration.copied.is_none() {
        // The kernel has the parameter and does not look at it.
        return Ok(arguments.raw(&[0; 128], 64));
    }
    let layout = layout(&problem.c, [m, n], batch, 64);
    let first = problem.c.first * problem.c.dtype.bytes();
    let map = c.reborrow().into_tensor_map_of::<bf16>(first, &layout)?;
    Ok(arguments.raw(map.bytes(), 64))
}

/// A map, by the size of its elements.
enum Map<'a> {
    Bytes(TensorMap<'a, u8>),
    Halves(TensorMap<'a, bf16>),
    Singles(TensorMap<'a, f32>),
}

impl<'a> Map<'a> {
    fn add_to(&self, arguments: Arguments<'a>) -> Arguments<'a> {
        match self {
            Self::Bytes(map) => arguments.tensor_map(map),
            Self::Halves(map) => arguments.tensor_map(map),
            Self::Singles(map) => arguments.tensor_map(map),
        }
    }
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
