//! Launches a plan on buffers of the device.

use half::{bf16, f16};
use warpfold_device::{Arguments, Device, Function, L2Promotion, Stream, TensorLayout, View, ViewMut};
use warpfold_lang::{F8E4M3, F8E5M2};

use super::code::Code;
use super::epilogue::{Epilogue, MAX_INPUTS};
use super::finish::{Ending, STRIDES, scalar_words, stride_words};
use super::fold_parts::fold_parts;
use super::mma::{MmaConfiguration, mma};
use super::plan::Plan;
use super::problem::{Matrix, Problem, refused};
use super::simt::{Configuration, matrix_words, simt, size_words};
use super::wgmma::{Lying, WgmmaConfiguration, layout, wgmma};
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
    Mma(MmaConfiguration),
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
        Kernel::Mma(configuration) => make_mma(configuration),
        Kernel::Wgmma(configuration) => make_wgmma(configuration),
        Kernel::Fold(accumulator, ending) => for_accumulator!(*accumulator, fold_parts(ending)),
    }
}

/// The kernel for warps, by the type of its factors.
fn make_mma(configuration: &MmaConfiguration) -> AnyKernel {
    match configuration.dtype {
        Dtype::F16 => AnyKernel::from(mma::<f16>(configuration)),
        Dtype::Bf16 => AnyKernel::from(mma::<bf16>(configuration)),
        Dtype::F32 => AnyKernel::from(mma::<f32>(configuration)),
        Dtype::I8 => AnyKernel::from(mma::<i8>(configuration)),
        Dtype::U8 => AnyKernel::from(mma::<u8>(configuration)),
        dtype => unreachable!("no plan multiplies {dtype} by warps"),
    }
}

/// The kernel for warpgroups, by the type of its factors.
pub(crate) fn make_wgmma(configuration: &WgmmaConfiguration) -> AnyKernel {
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
        Code::Mma(tile) => Kernel::Mma(plan.mma_configuration(tile)),
        Code::Wgmma(tile) | Code::Turned(tile) => Kernel::Wgmma(plan.wgmma_configuration(tile)),
    }];
    if plan.has_fold() {
        names.push(Kernel::Fold(accumulator, plan.fold_ending()));
    }
    names
}

fn prepare(device: &Device, plan: &Plan) -> Result<Vec<Function>, Error> {
    names(plan).into_iter().map(|name| KERNELS.prepare(device, name, make)).collect()
}

/// Computes the product that a plan was made for. Whoever does so again and again keeps a [`Ready`].
///
/// # Errors
/// [`ErrorKind::Operand`](crate::ErrorKind::Operand) if a memory does not hold all elements or is not aligned as the plan has
/// it; what the device says.
pub fn launch(stream: &Stream, plan: &Plan, operands: Operands<'_>, workspace: &mut Workspace) -> Result<(), Error> {
    Ready::new(stream.device(), plan.clone())?.launch(stream, operands, workspace)
}

/// A plan with its kernels loaded, and everything that does not change from launch to launch.
#[derive(Debug)]
pub struct Ready {
    plan: Plan,
    functions: Vec<Function>,
    /// Sizes and strides, as the kernels take them.
    sizes: Vec<u8>,
    matrices: Vec<u8>,
    maps: Option<Maps>,
    /// Strides and numbers at the end of the first launch, and of the last one.
    endings: [Vec<u8>; 2],
}

/// The maps of a launch, but for the addresses.
#[derive(Debug)]
struct Maps {
    a: MapOf,
    b: MapOf,
    /// Where copies store the result.
    c: Option<MapOf>,
}

/// A map, but for the address of the memory.
#[derive(Debug)]
struct MapOf {
    layout: TensorLayout,
    /// Bytes before the first element.
    first: u64,
    element_bytes: u64,
}

impl Ready {
    /// Loads the kernels of a plan.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(device: &Device, plan: Plan) -> Result<Self, Error> {
        let functions = if plan.launch().is_some() { prepare(device, &plan)? } else { Vec::new() };
        let (first, none) = plan.first();
        let part_stride = if plan.has_fold() { plan.num_results() } else { 0 };
        Ok(Self {
            functions,
            sizes: bytes(&size_words(&first, plan.part, plan.num_parts).map(u32::to_le_bytes)),
            matrices: bytes(&matrix_words(&first, part_stride).map(i64::to_le_bytes)),
            maps: maps(&plan, &first),
            endings: [ending(&first, &none), ending(&plan.problem, &plan.epilogue)],
            plan,
        })
    }

    /// The same with functions that stand in for those of [`kernels_of`], in their order: tests put changed ones there.
    #[must_use]
    pub fn with_functions(self, functions: Vec<Function>) -> Self {
        Self { functions, ..self }
    }

    /// What it computes, and how.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Computes the product.
    ///
    /// # Errors
    /// As [`launch`].
    pub fn launch(&self, stream: &Stream, operands: Operands<'_>, workspace: &mut Workspace) -> Result<(), Error> {
        let Self { plan, functions, sizes, matrices, endings, .. } = self;
        check(plan, &operands)?;
        let Some(config) = plan.launch() else { return Ok(()) };
        let Operands { a, b, inputs, mut c } = operands;
        let (a, b) = if matches!(plan.code, Code::Turned(_)) { (b, a) } else { (a, b) };
        let multiply = |mut c: ViewMut<'_, u8>, inputs: &[View<'_, u8>]| {
            let arguments = match &self.maps {
                None => Arguments::new().input(a).input(b),
                Some(maps) => maps.arguments(&a, &b, &mut c)?,
            };
            let arguments = with_ending(arguments.raw(sizes, 4).raw(matrices, 8), c, inputs, &endings[0]);
            Ok::<_, Error>(stream.launch_raw(&functions[0], config, &arguments)?)
        };
        let Some(fold) = plan.fold() else { return multiply(c.reborrow(), &inputs) };
        let (mut words, _) = workspace.get(stream.device(), plan.workspace_words(), 0)?;
        multiply(words.reborrow().bytes(), &[])?;
        let part_stride = plan.num_results() as i64;
        let arguments = Arguments::new().input(words.as_view()).raw(sizes, 4).value(part_stride);
        let arguments = with_ending(arguments, c, &inputs, &endings[1]);
        Ok(stream.launch_raw(&functions[1], fold, &arguments)?)
    }
}

/// The maps of the launch that multiplies, whose problem is `first`; none for ordinary cores.
fn maps(plan: &Plan, first: &Problem) -> Option<Maps> {
    let (Code::Wgmma(tile) | Code::Turned(tile)) = plan.code else { return None };
    let configuration = plan.wgmma_configuration(tile);
    let Problem { m, n, k, .. } = *first;
    let batch = configuration.is_batch.then_some(first.batch);
    let depth = tile.depth(configuration.dtype.bytes() as u32) / tile.panels;
    // What passes by once is fetched by single lines of the cache, which pieces of 128 bytes of a row are: by pairs of lines, more
    // of what the other half of the second-level cache has comes twice. 8 rows of 8,192 x 8,192 weights take 33.1 us so and 34.8
    // by pairs, 128 rows 35.1 and 36.1 (H200, 2026-11-21).
    let is_for_few = configuration.read_once.contains(&true);
    let l2_promotion = if is_for_few { L2Promotion::Bytes128 } else { L2Promotion::Bytes256 };
    let of = |matrix: &Matrix, sizes: [u64; 2], boxes: [u32; 2]| MapOf {
        layout: TensorLayout { l2_promotion, ..layout(matrix, sizes, batch, boxes) },
        first: matrix.first * matrix.dtype.bytes(),
        element_bytes: matrix.dtype.bytes(),
    };
    let factor = |matrix: &Matrix, lines: u64, lying: Lying, line_box: u32| match lying {
        Lying::Steps => of(matrix, [lines, k], [line_box, 128]),
        Lying::Lines => of(&matrix.transposed(), [k, lines], [depth, 128]),
    };
    let [lying_a, lying_b] = configuration.lying;
    Some(Maps {
        a: factor(&first.a, m, lying_a, configuration.rows),
        b: factor(&first.b.transposed(), n, lying_b, tile.copied_columns()),
        c: configuration
            .copied
            .and(tile.result_panel())
            .map(|columns| of(&first.c, [m, n], [configuration.rows.min(64), columns * first.c.dtype.bytes() as u32])),
    })
}

impl Maps {
    fn arguments<'a>(
        &self,
        a: &View<'a, u8>,
        b: &View<'a, u8>,
        c: &mut ViewMut<'_, u8>,
    ) -> Result<Arguments<'a>, Error> {
        let arguments = self.b.add_to(self.a.add_to(Arguments::new(), a)?, b)?;
        let Some(MapOf { layout, first, .. }) = &self.c else {
            // The kernel has the parameter and does not look at it.
            return Ok(arguments.raw(&[0; 128], 64));
        };
        // The launch holds the result's memory as another argument.
        let map = c.reborrow().into_tensor_map_of::<bf16>(*first, layout)?;
        Ok(arguments.raw(map.bytes(), 64))
    }
}

impl MapOf {
    fn add_to<'a>(&self, arguments: Arguments<'a>, view: &View<'a, u8>) -> Result<Arguments<'a>, Error> {
        let Self { layout, first, element_bytes } = self;
        // A map of bytes will do for all 8-bit types, and so on: they differ in nothing but the reading of their bits.
        Ok(match element_bytes {
            1 => arguments.tensor_map(&view.tensor_map_of::<u8>(*first, layout)?),
            2 => arguments.tensor_map(&view.tensor_map_of::<bf16>(*first, layout)?),
            _ => arguments.tensor_map(&view.tensor_map_of::<f32>(*first, layout)?),
        })
    }
}

/// Strides and numbers of a kernel's end.
pub(crate) fn ending(problem: &Problem, epilogue: &Epilogue) -> Vec<u8> {
    let strides = bytes(&stride_words(problem).map(i64::to_le_bytes));
    [strides, bytes(&scalar_words(epilogue).map(f64::to_le_bytes))].concat()
}

/// Adds what a kernel takes for its end.
pub(crate) fn with_ending<'a>(
    arguments: Arguments<'a>,
    c: ViewMut<'a, u8>,
    inputs: &[View<'a, u8>],
    ending: &[u8],
) -> Arguments<'a> {
    let arguments = arguments.output(c).inputs(inputs.iter().cloned(), MAX_INPUTS);
    let (strides, scalars) = ending.split_at(8 * STRIDES);
    arguments.raw(strides, 8).raw(scalars, 8)
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
