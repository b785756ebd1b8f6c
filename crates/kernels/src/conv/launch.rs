//! Launches a plan on buffers of the device.

use half::{bf16, f16};
use warpfold_device::{Arguments, Function, Stream, View, ViewMut};

use super::direct::{self, direct};
use super::implicit::{self, implicit};
use super::lay::{self, lay};
use super::patches::{self, patches};
use super::plan::{Code, Plan};
use super::planes::{self, planes};
use super::problem::{Problem, refused};
use super::tensor;
use super::warps::{self, warps};
use crate::kept::Kept;
use crate::matmul::{self, WgmmaConfiguration, ending, size_words, with_ending};
use crate::{AnyKernel, Dtype, Error, Workspace};

/// The memory of a convolution, as bytes, from each tensor's first element on, at multiples of 16 bytes.
#[derive(Debug)]
pub struct Operands<'a> {
    /// The images.
    pub images: View<'a, u8>,
    /// The filters.
    pub filters: View<'a, u8>,
    /// What the epilogue reads: a bias, and what is as large as the result.
    pub inputs: Vec<View<'a, u8>>,
    /// The result. It overlaps nothing else.
    pub result: ViewMut<'a, u8>,
}

/// A kernel of this folder, for the table of those that are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kernel {
    Direct(Dtype, direct::Configuration),
    Implicit(Dtype, implicit::Configuration),
    Planes(planes::Configuration),
    Patches(patches::Configuration),
    Mma(warps::Configuration),
    Wgmma(WgmmaConfiguration),
    Lay(lay::Configuration),
}

static KERNELS: Kept<Kernel> = Kept::new();

fn make(kernel: &Kernel) -> AnyKernel {
    match kernel {
        Kernel::Direct(Dtype::F64, configuration) => direct::<f64>(configuration).into(),
        Kernel::Direct(_, configuration) => direct::<f32>(configuration).into(),
        Kernel::Implicit(Dtype::F64, configuration) => implicit::<f64>(configuration).into(),
        Kernel::Implicit(_, configuration) => implicit::<f32>(configuration).into(),
        Kernel::Planes(configuration) => planes(configuration).into(),
        Kernel::Patches(configuration) => patches(configuration).into(),
        Kernel::Mma(configuration) => match configuration.dtype {
            Dtype::F16 => warps::<f16>(configuration).into(),
            Dtype::Bf16 => warps::<bf16>(configuration).into(),
            _ => warps::<f32>(configuration).into(),
        },
        Kernel::Wgmma(configuration) => matmul::make_wgmma(configuration),
        Kernel::Lay(configuration) => lay(*configuration).into(),
    }
}

fn names(plan: &Plan) -> Vec<Kernel> {
    let laying = plan.laying().map(|laying| Kernel::Lay(laying.configuration));
    let convolving = match plan.code {
        Code::Direct => Kernel::Direct(plan.accumulator(), plan.direct()),
        Code::Implicit(tile) => Kernel::Implicit(plan.accumulator(), plan.implicit(tile)),
        Code::Planes(tile) => Kernel::Planes(plan.planes(tile)),
        Code::Patches(tile) => Kernel::Patches(plan.patches(tile)),
        Code::Mma(tile) => Kernel::Mma(warps::configuration(&plan.problem, tile, plan.ending())),
        Code::Wgmma(tile) => Kernel::Wgmma(tensor::configuration(&plan.problem, &plan.epilogue, tile)),
    };
    laying.into_iter().chain([convolving]).collect()
}

/// The kernels of a plan, in the order of their launches.
#[must_use]
pub fn kernels_of(plan: &Plan) -> Vec<AnyKernel> {
    names(plan).iter().map(make).collect()
}

/// Computes the convolution that a plan was made for.
///
/// # Errors
/// [`ErrorKind::Operand`](crate::ErrorKind::Operand) if a memory is too short or not aligned; what the device says.
pub fn launch(stream: &Stream, plan: &Plan, operands: Operands<'_>, workspace: &mut Workspace) -> Result<(), Error> {
    if plan.launch().is_none() {
        return check(&plan.problem, &operands);
    }
    let prepare = |name| KERNELS.prepare(stream.device(), name, make);
    let functions = names(plan).into_iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    launch_with(stream, plan, &functions, operands, workspace)
}

/// The same with functions that stand in for those of [`kernels_of`], in their order: tests put changed ones there.
///
/// # Errors
/// Those of [`launch`].
pub fn launch_with(
    stream: &Stream,
    plan: &Plan,
    functions: &[Function],
    operands: Operands<'_>,
    workspace: &mut Workspace,
) -> Result<(), Error> {
    check(&plan.problem, &operands)?;
    let Some(function) = functions.last() else { return Ok(()) };
    let Some(laying) = plan.laying() else { return convolve(stream, plan, function, operands) };
    let [of_images, of_filters] = laying.bytes();
    let mut buffer = workspace.take_scratch(stream.device(), of_images + of_filters)?;
    {
        let (to_images, to_filters) = buffer.split_at_mut(of_images as usize)?;
        let arguments = Arguments::new().input(operands.images.clone()).input(operands.filters.clone());
        let arguments = arguments.output(to_images).output(to_filters);
        stream.launch_raw(&functions[0], laying.launch(), &laying.arguments(arguments))?;
    }
    let (laid, filters) = buffer.as_view().split_at(of_images as usize)?;
    let Operands { images, inputs, result, .. } = operands;
    let images = if of_images > 0 { laid } else { images };
    convolve(stream, plan, function, Operands { images, filters, inputs, result })?;
    workspace.give_scratch(buffer);
    Ok(())
}

/// The launch that convolves, of images and filters that lie as it takes them.
fn convolve(stream: &Stream, plan: &Plan, function: &Function, operands: Operands<'_>) -> Result<(), Error> {
    let Some(config) = plan.launch() else { return Ok(()) };
    let problem = &plan.problem;
    let product = plan.product();
    let sizes = size_words(&product, product.k, 1);
    let Operands { images, filters, inputs, mut result } = operands;
    let arguments = match plan.code {
        Code::Wgmma(tile) => {
            let is_copied = tensor::configuration(problem, &plan.epilogue, tile).copied.is_some();
            tensor::arguments(problem, tile, [&images, &filters], &mut result, is_copied)?
        }
        Code::Direct | Code::Implicit(_) | Code::Patches(_) => {
            let [height, width] = problem.size;
            let image = [height, width, problem.result_size()[1]].map(|size| size as u32);
            let arguments = Arguments::new().input(images).input(filters).raw(&bytes_of(&sizes), 4);
            let strides: Vec<u8> = strides(problem).iter().flat_map(|word| word.to_le_bytes()).collect();
            arguments.raw(&bytes_of(&image), 4).raw(&strides, 8)
        }
        Code::Mma(_) | Code::Planes(_) => {
            let image = warps::image_words(problem);
            Arguments::new().input(images).input(filters).raw(&bytes_of(&sizes), 4).raw(&bytes_of(&image), 4)
        }
    };
    let arguments = with_ending(arguments, result, &inputs, &ending(&product, &plan.epilogue));
    Ok(stream.launch_raw(function, config, &arguments)?)
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Of the images from group to group and image to image, along channels, rows and columns; of the filters from group to
/// group and filter to filter.
fn strides(problem: &Problem) -> [i64; implicit::TENSORS] {
    let Problem { channels, size: [height, width], filters, groups, .. } = *problem;
    let [c, h, w] = problem.layout.steps(channels, [height, width]);
    let (of_group, depth) = (channels / groups, problem.depth());
    [of_group * c, channels * height * width, c, h, w, filters / groups * depth, depth].map(|stride| stride as i64)
}

fn check(problem: &Problem, operands: &Operands<'_>) -> Result<(), Error> {
    let Problem { dtype, result, images, channels, size: [height, width], filters, .. } = *problem;
    if operands.inputs.len() != problem.num_inputs {
        let (expected, found) = (problem.num_inputs, operands.inputs.len());
        return Err(refused(format!("the epilogue takes {expected} input(s), not {found}")));
    }
    let results = problem.num_results();
    let of_inputs = operands.inputs.iter().zip([filters, results]);
    let inputs =
        of_inputs.map(|(view, elements)| ("an input", elements * result.bytes(), view.num_bytes(), view.address()));
    let named = [
        ("the images", images * channels * height * width * dtype.bytes(), &operands.images),
        ("the filters", filters * problem.depth() * dtype.bytes(), &operands.filters),
    ];
    let named = named.map(|(name, bytes, view)| (name, bytes, view.num_bytes(), view.address()));
    let of_result = (operands.result.num_bytes(), operands.result.address());
    let of_result = ("the result", results * result.bytes(), of_result.0, of_result.1);
    for (name, needed, found, address) in named.into_iter().chain([of_result]).chain(inputs) {
        if needed > found as u64 {
            return Err(refused(format!("{name} need {needed} bytes, not {found}")));
        }
        if needed > 0 && !address.is_multiple_of(16) {
            return Err(refused(format!("{name} do not begin at a multiple of 16 bytes")));
        }
    }
    Ok(())
}
