//! cuDNN: forward convolutions.

use std::ffi::{c_int, c_void};

use super::{Handle, NOTHING, Owned, Vendor, check_bytes};
use warpfold_device::{Buffer, Error, Stream, View, ViewMut};

/// Names of the library, the newest first.
pub(super) const NAMES: [&str; 5] =
    ["libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "cudnn64_9.dll"];

/// The element type of images, filters and result, and how products are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CudnnTypes {
    /// `f32`, on CUDA cores.
    F32,
    /// `f32`, without its low bits on tensor cores.
    Tf32,
    /// `f16`, summed in `f32`.
    F16,
    /// `bf16`, summed in `f32`.
    Bf16,
}

impl CudnnTypes {
    /// `cudnnDataType_t` and `cudnnMathType_t` (`cudnn_graph.h`, `cudnn_ops.h`).
    const fn codes(self) -> (c_int, c_int) {
        match self {
            Self::F32 => (0, FMA),
            Self::Tf32 => (0, TENSOR_OP),
            Self::F16 => (2, TENSOR_OP),
            Self::Bf16 => (9, TENSOR_OP),
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::Tf32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

const TENSOR_OP: c_int = 1;
const FMA: c_int = 3;

/// A convolution of tensors without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudnnConvolution {
    /// Images.
    pub images: usize,
    /// Their channels.
    pub channels: usize,
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Filters.
    pub filters: usize,
    /// Height and width of a filter.
    pub filter: [usize; 2],
    /// Height and width of the result.
    pub result: [usize; 2],
    /// Pixels from position to position.
    pub stride: [u32; 2],
    /// Zeros on either side.
    pub padding: [u32; 2],
    /// Pixels from element to element of a filter.
    pub dilation: [u32; 2],
    /// Channels are the last axis of images, filters and result.
    pub channels_last: bool,
    /// The types.
    pub types: CudnnTypes,
}

impl CudnnConvolution {
    /// Bytes of images, filters and result.
    fn bytes(&self) -> [usize; 3] {
        let [pixels, elements, results] =
            [self.size, self.filter, self.result].map(|size| size.iter().product::<usize>());
        [
            self.images * self.channels * pixels,
            self.filters * self.channels * elements,
            self.images * self.filters * results,
        ]
        .map(|elements| elements * self.types.bytes())
    }
}

type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type SetTensor = unsafe extern "C" fn(Handle, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
type SetWindow = unsafe extern "C" fn(Handle, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
type SetMath = unsafe extern "C" fn(Handle, c_int) -> c_int;
type Find = unsafe extern "C" fn(Handle, Handle, Handle, Handle, Handle, c_int, *mut c_int, *mut Performance) -> c_int;
type Forward = unsafe extern "C" fn(
    Handle,
    *const c_void,
    Handle,
    *const c_void,
    Handle,
    *const c_void,
    Handle,
    c_int,
    *mut c_void,
    usize,
    *const c_void,
    Handle,
    *mut c_void,
) -> c_int;

/// `cudnnConvolutionFwdAlgoPerf_t` (`cudnn_cnn.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Performance {
    algorithm: c_int,
    status: c_int,
    milliseconds: f32,
    workspace_bytes: usize,
    determinism: c_int,
    math: c_int,
    reserved: [c_int; 3],
}

/// The library, ready for one convolution on one stream, by the algorithm that it measured as its
/// fastest.
#[derive(Debug)]
pub struct Cudnn {
    convolution: CudnnConvolution,
    forward: Forward,
    algorithm: c_int,
    workspace: Buffer<u8>,
    /// Descriptors of images, filters, window and result.
    descriptors: [Owned; 4],
    handle: Owned,
    // Behind what it created, so that it is unloaded last.
    vendor: Vendor,
}

impl Cudnn {
    /// Loads the library for a stream of a GPU and has it time its algorithms; nothing where it is
    /// not installed, or on the virtual GPU.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`](warpfold_device::ErrorKind::Driver) with the library's status, also
    /// where it has no algorithm.
    pub fn load(stream: &Stream, convolution: CudnnConvolution) -> Result<Option<Self>, Error> {
        let Some(vendor) = Vendor::load("cuDNN", &NAMES, stream) else { return Ok(None) };
        let (data, math) = convolution.types.codes();
        let int = |size: usize| c_int::try_from(size).unwrap_or(c_int::MAX);
        let format = c_int::from(convolution.channels_last);
        let CudnnConvolution { images, channels, size, filters, filter, result, .. } = convolution;
        let [stride, padding, dilation] =
            [convolution.stride, convolution.padding, convolution.dilation].map(|pair| pair.map(|n| int(n as usize)));
        // SAFETY: the types of all functions are those of `cudnn_ops.h` and `cudnn_cnn.h`; the
        // context is current on this thread, the stream belongs to it and is kept alive by
        // `vendor`; `perf` has room for as many as are asked for.
        unsafe {
            let handle = vendor.create("cudnnCreate", "cudnnDestroy")?;
            let set: SetStream = vendor.function("cudnnSetStream")?;
            vendor.check("cudnnSetStream", set(handle.handle, vendor.stream()))?;
            let call = "cudnnSetTensor4dDescriptor";
            let set: SetTensor = vendor.function(call)?;
            let tensor = |sizes: [usize; 4]| {
                let tensor = vendor.create("cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor")?;
                let [n, c, h, w] = sizes.map(int);
                vendor.check(call, set(tensor.handle, format, data, n, c, h, w))?;
                Ok::<_, Error>(tensor)
            };
            let x = tensor([images, channels, size[0], size[1]])?;
            let y = tensor([images, filters, result[0], result[1]])?;
            let w = vendor.create("cudnnCreateFilterDescriptor", "cudnnDestroyFilterDescriptor")?;
            // Type and format are the other way round than for a tensor.
            let call = "cudnnSetFilter4dDescriptor";
            let set: SetTensor = vendor.function(call)?;
            let [k, c, r, s] = [filters, channels, filter[0], filter[1]].map(int);
            vendor.check(call, set(w.handle, data, format, k, c, r, s))?;
            let window = vendor.create("cudnnCreateConvolutionDescriptor", "cudnnDestroyConvolutionDescriptor")?;
            let call = "cudnnSetConvolution2dDescriptor";
            let set: SetWindow = vendor.function(call)?;
            // A correlation, added up in `f32`.
            let [[u, v], [p, q], [d, e]] = [stride, padding, dilation];
            vendor.check(call, set(window.handle, p, q, u, v, d, e, 1, 0))?;
            let set: SetMath = vendor.function("cudnnSetConvolutionMathType")?;
            vendor.check("cudnnSetConvolutionMathType", set(window.handle, math))?;
            let call = "cudnnFindConvolutionForwardAlgorithm";
            let find: Find = vendor.function(call)?;
            let mut perf = [Performance::default(); 16];
            let mut found = 0;
            let [dnn, images, filters, results] = [&handle, &x, &w, &y].map(|owned| owned.handle);
            let perfs = perf.as_mut_ptr();
            vendor.check(call, find(dnn, images, filters, window.handle, results, 16, &raw mut found, perfs))?;
            let found = usize::try_from(found).unwrap_or(0).min(perf.len());
            // The fastest comes first. Products on CUDA cores were asked for, so no others.
            let fits = |perf: &&Performance| perf.status == 0 && (math != FMA || perf.math == FMA);
            let best = perf[..found].iter().find(fits).ok_or_else(|| vendor.failed(call, NOTHING))?;
            vendor.check("cudnnSetConvolutionMathType", set(window.handle, best.math))?;
            Ok(Some(Self {
                convolution,
                forward: vendor.function("cudnnConvolutionForward")?,
                algorithm: best.algorithm,
                workspace: stream.device().alloc_named("cudnn", best.workspace_bytes.max(1))?,
                descriptors: [x, w, window, y],
                handle,
                vendor,
            }))
        }
    }

    /// Enqueues the convolution.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`](warpfold_device::ErrorKind::LengthMismatch) for memory that is
    /// too small, [`ErrorKind::Driver`](warpfold_device::ErrorKind::Driver) with the library's
    /// status.
    pub fn convolve(
        &mut self,
        images: &View<'_, u8>,
        filters: &View<'_, u8>,
        result: &mut ViewMut<'_, u8>,
    ) -> Result<(), Error> {
        let [of_images, of_filters, of_results] = self.convolution.bytes();
        check_bytes([
            ("the images", of_images, images.num_bytes()),
            ("the filters", of_filters, filters.num_bytes()),
            ("the result", of_results, result.num_bytes()),
        ])?;
        let workspace = self.workspace.as_view_mut();
        self.vendor.order([images, filters], &[result, &workspace])?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let [x, w, window, y] = &self.descriptors;
        // SAFETY: the type is that of the function in `cudnn_cnn.h`, handle and descriptors are
        // alive, every tensor lies inside memory of the device that was compared above, the
        // workspace is as long as the algorithm said, and alpha and beta are `f32` as for all types
        // here.
        let status = unsafe {
            (self.forward)(
                self.handle.handle,
                (&raw const one).cast(),
                x.handle,
                images.address() as *const c_void,
                w.handle,
                filters.address() as *const c_void,
                window.handle,
                self.algorithm,
                workspace.address() as *mut c_void,
                workspace.num_bytes(),
                (&raw const zero).cast(),
                y.handle,
                result.address() as *mut c_void,
            )
        };
        self.vendor.check("cudnnConvolutionForward", status)
    }
}
