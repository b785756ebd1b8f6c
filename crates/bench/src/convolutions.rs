//! Convolutions: the catalogue's problems in every type that has kernels of its own, timed in turns
//! with the vendor's library where it is installed, on the same data.

use warpfold_device::{Buffer, Device};
use warpfold_kernels::conv::PROBLEMS;
use warpfold_kernels::conv::{Conv, Layout, Problem, Window};
use warpfold_kernels::matmul::{Epilogue, F32Math};
use warpfold_kernels::plan::Family;
use warpfold_kernels::{Dtype, Error, Workspace};

use super::check::{Sample, compare, of_sum, spread};
use super::data::{Elements, filled};
use super::measure::counted;
use super::products::{round, summary};
use super::{Peer, Record};
use crate::vendor::{Cudnn, CudnnConvolution, CudnnTypes};
use warpfold::Queue;

/// Rounds whose median counts.
const ROUNDS: usize = 7;

/// A layer of a residual network, and its pointwise one, beside those of the catalogue.
const LAYERS: [[u32; 11]; 2] = [[64, 256, 56, 56, 256, 3, 3, 1, 1, 1, 1], [64, 1024, 28, 28, 256, 1, 1, 1, 1, 0, 0]];

/// Every problem in `f32`, in tf32 and in `bf16`, as such data mostly lies; on the virtual GPU
/// smaller ones.
pub(super) fn all(is_virtual: bool) -> Vec<Problem> {
    let of = |dtype, f32_math, layout, [n, c, h, w, k, r, s, u, v, p, q]: [u32; 11]| {
        let smaller = |size: u32, least: u32| if is_virtual { size.div_ceil(8).max(least) } else { size };
        Problem {
            dtype,
            result: dtype,
            layout,
            images: smaller(n, 1).into(),
            channels: c.into(),
            size: [smaller(h, r), smaller(w, s)].map(u64::from),
            filters: smaller(k, 1).into(),
            filter: [r, s].map(u64::from),
            groups: 1,
            window: Window { stride: [u, v], padding: [p, q], dilation: [1, 1] },
            f32_math,
            epilogue: Epilogue::new(),
        }
    };
    let catalogue = PROBLEMS.iter();
    let (full, tf32) = (F32Math::Ieee, F32Math::Tf32);
    let mut problems: Vec<_> = catalogue.clone().map(|sizes| of(Dtype::F32, full, Layout::Nchw, *sizes)).collect();
    problems.extend(catalogue.clone().map(|sizes| of(Dtype::F32, tf32, Layout::Nchw, *sizes)));
    problems.extend(catalogue.chain(&LAYERS).map(|sizes| of(Dtype::Bf16, full, Layout::Nhwc, *sizes)));
    let [layer, _] = LAYERS;
    problems.push(of(Dtype::F16, full, Layout::Nhwc, layer));
    problems.push(of(Dtype::Bf16, full, Layout::Nchw, layer));
    problems.push(of(Dtype::F32, tf32, Layout::Nhwc, layer));
    problems
}

/// The same for the vendor's library, if it has such types.
fn peer(problem: &Problem) -> Option<CudnnConvolution> {
    let types = match (problem.dtype, problem.f32_math) {
        (Dtype::F32, F32Math::Ieee) => CudnnTypes::F32,
        (Dtype::F32, F32Math::Tf32) => CudnnTypes::Tf32,
        (Dtype::F16, _) => CudnnTypes::F16,
        (Dtype::Bf16, _) => CudnnTypes::Bf16,
        _ => return None,
    };
    let Problem { images, channels, size, filters, filter, window, layout, .. } = *problem;
    let Window { stride, padding, dilation } = window;
    let [size, filter, result] = [size, filter, problem.result_size()].map(|sizes| sizes.map(|size| size as usize));
    let [images, channels, filters] = [images, channels, filters].map(|size| size as usize);
    let channels_last = layout == Layout::Nhwc;
    Some(CudnnConvolution {
        images,
        channels,
        size,
        filters,
        filter,
        result,
        stride,
        padding,
        dilation,
        channels_last,
        types,
    })
}

/// Results at corners and between, in double precision.
fn samples(problem: &Problem) -> Vec<Sample> {
    let Problem { dtype, images, channels, size: [h, w], filters, filter: [r, s], window, layout, .. } = *problem;
    let ([p, q], depth) = (problem.result_size(), problem.depth());
    let (x, weights) = (Elements::new(dtype, images * channels * h * w), Elements::new(dtype, filters * depth));
    let is_last = layout == Layout::Nhwc;
    let place = |[image, channel, row, column]: [u64; 4], [channels, rows, columns]: [u64; 3]| match is_last {
        true => ((image * rows + row) * columns + column) * channels + channel,
        false => ((image * channels + channel) * rows + row) * columns + column,
    };
    let inside = |at: u64, tap: u64, i: usize, size: u64| {
        let padded = at * u64::from(window.stride[i]) + tap * u64::from(window.dilation[i]);
        padded.checked_sub(window.padding[i].into()).filter(|at| *at < size)
    };
    let of = |[image, filter, row, column]: [u64; 4]| {
        let [mut sum, mut magnitudes] = [0.0_f64; 2];
        for (down, across) in (0..r).flat_map(|down| (0..s).map(move |across| (down, across))) {
            let Some((row, column)) = inside(row, down, 0, h).zip(inside(column, across, 1, w)) else { continue };
            for channel in 0..channels {
                let weight = weights.at(place([filter, channel, down, across], [channels, r, s]));
                let term = x.at(place([image, channel, row, column], [channels, h, w])) * weight;
                (sum, magnitudes) = (sum + term, magnitudes + term.abs());
            }
        }
        let is_tf32 = problem.f32_math == F32Math::Tf32;
        let error = if is_tf32 { magnitudes * 2_f64.powi(-10) } else { of_sum(dtype, magnitudes) };
        Sample::new(dtype, place([image, filter, row, column], [filters, p, q]), sum, error)
    };
    let places = spread(images, 2).flat_map(|image| spread(filters, 3).map(move |filter| [image, filter]));
    let rows = places.flat_map(|[image, filter]| spread(p, 3).map(move |row| [image, filter, row]));
    let all = rows.flat_map(|[image, filter, row]| spread(q, 3).map(move |column| [image, filter, row, column]));
    all.map(of).collect()
}

/// Inputs and result of a run.
struct Prepared {
    images: Buffer<u8>,
    filters: Buffer<u8>,
    result: Buffer<u8>,
}

pub(super) fn measure(device: &Device, problem: &Problem) -> Result<Record, Error> {
    let queue = Queue::new(device.default_stream());
    let ready = device.recorded(|| Conv.ready(device, problem))?;
    let Problem { dtype, images, channels, size: [h, w], filters, .. } = *problem;
    let (pixels, weights, results) = (images * channels * h * w, filters * problem.depth(), problem.num_results());
    let bytes = (pixels + weights + results) * dtype.bytes();
    // As many copies as no cache holds.
    let copies = if device.is_virtual() { 1 } else { (512_u64 << 20).div_ceil(bytes).clamp(1, 16) };
    let prepare = |_| {
        Ok(Prepared {
            images: filled(&queue, dtype, pixels)?,
            filters: filled(&queue, dtype, weights)?,
            result: device.alloc::<u8>((results * dtype.bytes()) as usize)?,
        })
    };
    let mut prepared = (0..copies).map(prepare).collect::<Result<Vec<_>, Error>>()?;
    let mut workspace = Workspace::new();
    let mut ours = |Prepared { images, filters, result }: &mut Prepared| {
        let inputs = [Some(images.as_view()), Some(filters.as_view())];
        device.recorded(|| ready.launch(queue.stream(), &inputs, &mut [result.as_view_mut()], &mut workspace))
    };
    drop(device.take_reports());
    ours(&mut prepared[0])?;
    let case = format!("conv2d {problem}, strides {:?}", problem.window.stride);
    let record = Record::new("conv", case, [bytes, ready.plan().steps.len() as u64], Some(problem.flops()));
    if device.is_virtual() {
        let (counters, _) = counted(device);
        let checked = Some(compare(&queue, [vec![&prepared[0].result]], &samples(problem))?);
        return Ok(Record { counters: Some(counters), checked, ..record });
    }
    // Where it has no algorithm, there is nothing to compare with.
    let mut library = peer(problem).and_then(|peer| Cudnn::load(queue.stream(), peer).ok().flatten());
    // About ten milliseconds a round.
    let runs = (4_000_000_000_000 / problem.flops().max(1)).clamp(2, 50) as usize;
    let (mut times, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        times.push(round(&queue, runs, &mut prepared, &mut ours)?);
        if let Some(library) = &mut library {
            peers.push(round(&queue, runs, &mut prepared, &mut |Prepared { images, filters, result }| {
                Ok(library.convolve(&images.as_view(), &filters.as_view(), &mut result.as_view_mut())?)
            })?);
        }
    }
    let peer = library.map(|_| Peer { name: "cuDNN", time: summary(peers) });
    // The peer's results are not ours.
    round(&queue, prepared.len(), &mut prepared, &mut ours)?;
    let checked = Some(compare(&queue, prepared.iter().map(|prepared| vec![&prepared.result]), &samples(problem))?);
    Ok(Record { time: Some(summary(times)), peer, checked, ..record })
}
