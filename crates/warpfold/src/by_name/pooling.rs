//! Poolings by name.

use warpfold_kernels::{Error, ErrorKind};

use super::{Choice, Operator, Options};
use crate::{ImageLayout, Interpolation, Pool, PoolIndices, Tensor};

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "max-pool",
        summary: "X [N, C, ..] → the largest element of each window, its position (windows: --kernel or --output-size)",
        inputs: (1, 1),
        outputs: 2,
        options: &[
            Choice::Kernel,
            Choice::OutputSize,
            Choice::Stride,
            Choice::Padding,
            Choice::Dilation,
            Choice::CeilMode,
            Choice::Layout,
            Choice::Indices,
        ],
        body: pool,
    },
    Operator {
        name: "avg-pool",
        summary: "X [N, C, ..] → the mean of each window",
        inputs: (1, 1),
        outputs: 1,
        options: &[
            Choice::Kernel,
            Choice::OutputSize,
            Choice::Stride,
            Choice::Padding,
            Choice::Dilation,
            Choice::CeilMode,
            Choice::CountIncludePad,
            Choice::Layout,
        ],
        body: pool,
    },
    Operator {
        name: "lp-pool",
        summary: "X [N, C, ..] → (Σ |x|^p)^(1/p) of each window, p being 2 unless given",
        inputs: (1, 1),
        outputs: 1,
        options: &[
            Choice::Kernel,
            Choice::Stride,
            Choice::Padding,
            Choice::Dilation,
            Choice::CeilMode,
            Choice::P,
            Choice::Layout,
        ],
        body: pool,
    },
    Operator {
        name: "interpolate",
        summary: "X [N, C, ..] → X in other sizes (--output-size or --scale-factor), by its nearest elements or mixtures of neighbours",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::OutputSize, Choice::ScaleFactor, Choice::Mode, Choice::AlignCorners, Choice::Layout],
        body: interpolate,
    },
];

fn interpolate(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let op = || operator.name.to_owned();
    let out_of_range = |option, expected: &str| {
        Error::from(ErrorKind::OptionOutOfRange { op: op(), option, expected: expected.to_owned() })
    };
    let align_corners = options.align_corners == Some(true);
    let mode = match options.mode.as_deref() {
        None | Some("nearest" | "nearest-exact") if align_corners => {
            return Err(out_of_range("align-corners", "with mode linear or cubic only"));
        }
        None | Some("nearest") => Interpolation::Nearest,
        Some("nearest-exact") => Interpolation::NearestExact,
        Some("linear") => Interpolation::Linear { align_corners },
        Some("cubic") => Interpolation::Cubic { align_corners },
        Some(_) => return Err(out_of_range("mode", "of nearest, nearest-exact, linear or cubic")),
    };
    let layout = match options.layout.as_deref() {
        None | Some("nchw") => ImageLayout::Nchw,
        Some("nhwc") => ImageLayout::Nhwc,
        Some(_) => return Err(out_of_range("layout", "of nchw or nhwc")),
    };
    let results = match (&options.output_size, &options.scale_factor) {
        (None, None) => return Err(ErrorKind::MissingOption { op: op(), option: "output-size" }.into()),
        (Some(_), Some(_)) => return Err(out_of_range("scale-factor", "or output-size, not both")),
        (Some(sizes), None) => inputs[0].interpolate_in(sizes, mode, layout)?,
        (None, Some(factors)) => inputs[0].interpolate_by_in(factors, mode, layout)?,
    };
    Ok(vec![results])
}

fn pool(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let op = || operator.name.to_owned();
    let out_of_range = |option, expected: &str| {
        Error::from(ErrorKind::OptionOutOfRange { op: op(), option, expected: expected.to_owned() })
    };
    let mut pool = match (operator.name, &options.kernel, &options.output_size) {
        (_, None, None) => return Err(ErrorKind::MissingOption { op: op(), option: "kernel" }.into()),
        (_, Some(_), Some(_)) => return Err(out_of_range("kernel", "or output-size, not both")),
        ("max-pool", Some(kernel), None) => Pool::max(kernel),
        ("max-pool", None, Some(size)) => Pool::adaptive_max(size),
        ("avg-pool", Some(kernel), None) => Pool::mean(kernel),
        ("avg-pool", None, Some(size)) => Pool::adaptive_mean(size),
        (_, Some(kernel), None) => {
            let p = u32::try_from(options.p.unwrap_or(2)).unwrap_or(u32::MAX);
            Pool::norm(p, kernel)
        }
        (_, None, Some(_)) => return Err(ErrorKind::OptionNotTaken { op: op(), option: "output-size" }.into()),
    };
    if options.output_size.is_some() {
        let chosen = options.chosen().find(|choice| {
            use Choice as C;
            matches!(choice, C::Stride | C::Padding | C::Dilation | C::CeilMode | C::CountIncludePad)
        });
        if let Some(choice) = chosen {
            return Err(ErrorKind::OptionNotTaken { op: format!("adaptive {}", op()), option: choice.name() }.into());
        }
    }
    let layout = match options.layout.as_deref() {
        None | Some("nchw") => ImageLayout::Nchw,
        Some("nhwc") => ImageLayout::Nhwc,
        Some(_) => return Err(out_of_range("layout", "of nchw or nhwc")),
    };
    let indices = match options.indices.as_deref() {
        None | Some("tensor") => PoolIndices::Tensor,
        Some("column-major") => PoolIndices::ColumnMajor,
        Some("channel") => PoolIndices::Channel,
        Some(_) => return Err(out_of_range("indices", "of tensor, column-major or channel")),
    };
    pool = pool.layout(layout).indices(indices);
    // As PyTorch has it, windows lie side by side unless a stride is given.
    if let Some(stride) = options.stride.as_ref().or(options.kernel.as_ref()) {
        pool = pool.stride(stride);
    }
    if let Some(padding) = &options.padding {
        pool = pool.padding(padding);
    }
    if let Some(dilation) = &options.dilation {
        pool = pool.dilation(dilation);
    }
    if options.ceil_mode == Some(true) {
        pool = pool.ceil();
    }
    if options.count_include_pad == Some(true) {
        pool = pool.count_padding();
    }
    if operator.outputs == 1 {
        return Ok(vec![pool.run(&inputs[0])?]);
    }
    let (results, positions) = pool.run_with_indices(&inputs[0])?;
    Ok(vec![results, positions])
}
