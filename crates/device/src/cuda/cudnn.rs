//! NVIDIA's own convolution, loaded at run time where it is installed: something to be measured against, in the same run
//! and on the same data. Nothing of the convolutions here needs it.

use std::ffi::{c_int, c_void};

use libloading::Library;

use super::stream::CudaStreamHandle;
use crate::buffer::{Buffer, View, ViewMut};
use crate::memory::Access;
use crate::stream::Stream;
use crate::{Error, ErrorKind};

/// Names of the library, the newest first.
const NAMES: [&str; 5] =
    ["libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "cudnn64_9.dll"];

/// The element type of images, filters and result, and how products are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CudnnTypes {
    /// `f32`, on ordinary cores.
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
    /// Whether channels lie behind the pixels, of images, filters and result.
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

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
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

/// Something of the library's that has to be destroyed.
#[derive(Debug)]
struct Owned {
    handle: Handle,
    destroy: Destroy,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the handle came from the function that goes with this one, whose library outlives it, and is not used again.
        unsafe {
            (self.destroy)(self.handle);
        }
    }
}

/// The library, ready for one convolution on one stream, by the algorithm that it measured as its fastest.
#[derive(Debug)]
pub struct Cudnn {
    convolution: CudnnConvolution,
    forward: Forward,
    algorithm: c_int,
    workspace: Buffer<u8>,
    // Images, filters, window, result, library: destroyed in this order, all before the library is unloaded.
    descriptors: [Owned; 4],
    handle: Owned,
    stream: Stream,
    _library: Library,
}

impl Cudnn {
    /// Loads the library for a stream of a GPU and has it time its algorithms; nothing where it is not installed, or on the
    /// virtual GPU.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`] with the library's status, also where it has no algorithm.
    pub fn load(stream: &Stream, convolution: CudnnConvolution) -> Result<Option<Self>, Error> {
        let Some(imp) = CudaStreamHandle::of(&**stream.imp()) else { return Ok(None) };
        imp.context.bind()?;
        // SAFETY: the vendor's library has no requirements on when it is loaded.
        let Some(library) = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok()) else { return Ok(None) };
        let (data, math) = convolution.types.codes();
        let int = |size: usize| c_int::try_from(size).unwrap_or(c_int::MAX);
        let format = c_int::from(convolution.channels_last);
        let CudnnConvolution { images, channels, size, filters, filter, result, .. } = convolution;
        let [stride, padding, dilation] =
            [convolution.stride, convolution.padding, convolution.dilation].map(|pair| pair.map(|n| int(n as usize)));
        // SAFETY: the types of all functions are those of `cudnn_ops.h` and `cudnn_cnn.h`; the context is current on this
        // thread, the stream belongs to it and is kept alive by `stream`; `perf` has room for as many as are asked for.
        unsafe {
            let handle = owned(&library, b"cudnnCreate", b"cudnnDestroy")?;
            check(
                "setting cuDNN's stream",
                function::<SetStream>(&library, b"cudnnSetStream")?(handle.handle, imp.raw().cast()),
            )?;
            let tensor = |[n, c, h, w]: [usize; 4]| {
                let tensor = owned(&library, b"cudnnCreateTensorDescriptor", b"cudnnDestroyTensorDescriptor")?;
                let set: SetTensor = function(&library, b"cudnnSetTensor4dDescriptor")?;
                check(
                    "describing a tensor to cuDNN",
                    set(tensor.handle, format, data, int(n), int(c), int(h), int(w)),
                )?;
                Ok::<_, Error>(tensor)
            };
            let x = tensor([images, channels, size[0], size[1]])?;
            let y = tensor([images, filters, result[0], result[1]])?;
            let w = owned(&library, b"cudnnCreateFilterDescriptor", b"cudnnDestroyFilterDescriptor")?;
            // Type and format are the other way round than for a tensor.
            let set: SetTensor = function(&library, b"cudnnSetFilter4dDescriptor")?;
            let [k, c, r, s] = [filters, channels, filter[0], filter[1]].map(int);
            check("describing filters to cuDNN", set(w.handle, data, format, k, c, r, s))?;
            let window = owned(&library, b"cudnnCreateConvolutionDescriptor", b"cudnnDestroyConvolutionDescriptor")?;
            let set: SetWindow = function(&library, b"cudnnSetConvolution2dDescriptor")?;
            // A correlation, added up in `f32`.
            let [[u, v], [p, q], [d, e]] = [stride, padding, dilation];
            check("describing a convolution to cuDNN", set(window.handle, p, q, u, v, d, e, 1, 0))?;
            let set_math: SetMath = function(&library, b"cudnnSetConvolutionMathType")?;
            check("choosing cuDNN's products", set_math(window.handle, math))?;
            let find: Find = function(&library, b"cudnnFindConvolutionForwardAlgorithm")?;
            let mut perf = [Performance::default(); 16];
            let mut found = 0;
            let call = "timing cuDNN's algorithms";
            check(
                call,
                find(handle.handle, x.handle, w.handle, window.handle, y.handle, 16, &raw mut found, perf.as_mut_ptr()),
            )?;
            let found = usize::try_from(found).unwrap_or(0).min(perf.len());
            // The fastest comes first. Products on ordinary cores were asked for, so no others.
            let fits = |perf: &&Performance| perf.status == 0 && (math != FMA || perf.math == FMA);
            let best = perf[..found].iter().find(fits).ok_or_else(|| failed(call, NO_ALGORITHM))?;
            check("choosing cuDNN's products", set_math(window.handle, best.math))?;
            Ok(Some(Self {
                convolution,
                forward: function(&library, b"cudnnConvolutionForward")?,
                algorithm: best.algorithm,
                workspace: stream.device().alloc_named("cudnn", best.workspace_bytes.max(1))?,
                descriptors: [x, w, window, y],
                handle,
                stream: stream.clone(),
                _library: library,
            }))
        }
    }

    /// Enqueues the convolution.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] for memory that is too small, [`ErrorKind::Driver`] with the library's status.
    pub fn convolve(
        &mut self,
        images: &View<'_, u8>,
        filters: &View<'_, u8>,
        result: &mut ViewMut<'_, u8>,
    ) -> Result<(), Error> {
        let found = [images.num_bytes(), filters.num_bytes(), result.num_bytes()];
        let names = ["the images", "the filters", "the result"];
        for ((what, expected), found) in names.into_iter().zip(self.convolution.bytes()).zip(found) {
            if found < expected {
                return Err(ErrorKind::LengthMismatch { what, expected, found }.into());
            }
        }
        let workspace = self.workspace.as_view_mut();
        for (memory, access) in [
            (images.memory(), Access::Read),
            (filters.memory(), Access::Read),
            (result.memory(), Access::Write),
            (workspace.memory(), Access::Write),
        ] {
            memory.order(self.stream.imp(), access)?;
        }
        let (one, zero) = (1.0_f32, 0.0_f32);
        let [x, w, window, y] = &self.descriptors;
        // SAFETY: the type is that of the function in `cudnn_cnn.h`, handle and descriptors are alive, every tensor lies inside
        // memory of the device that was compared above, the workspace is as long as the algorithm said, and alpha and beta are
        // `f32` as for all types here.
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
        check("convolving with cuDNN", status)
    }
}

/// No status of the library's: it found nothing that fits.
const NO_ALGORITHM: c_int = -1;

/// A function of the library.
///
/// # Safety
/// The type is that of the function.
unsafe fn function<T: Copy>(library: &Library, name: &'static [u8]) -> Result<T, Error> {
    // SAFETY: the caller says so.
    let symbol = unsafe { library.get::<T>(name) };
    symbol.map(|symbol| *symbol).map_err(|_| failed("looking for a function of cuDNN", NO_ALGORITHM))
}

/// What a function of the library creates, with the one that destroys it.
///
/// # Safety
/// Both are functions of a pointer to a handle, and of a handle.
unsafe fn owned(library: &Library, create: &'static [u8], destroy: &'static [u8]) -> Result<Owned, Error> {
    // SAFETY: the caller says so.
    let (create, destroy) = unsafe { (function::<Create>(library, create)?, function::<Destroy>(library, destroy)?) };
    let mut handle = std::ptr::null_mut();
    // SAFETY: it writes a handle to the pointer.
    check("asking cuDNN for a handle", unsafe { create(&raw mut handle) })?;
    Ok(Owned { handle, destroy })
}

fn check(call: &'static str, status: c_int) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(failed(call, status)) }
}

fn failed(call: &'static str, status: c_int) -> Error {
    let (code, message) = (format!("cudnnStatus {status}"), "see cudnnStatus_t".to_owned());
    ErrorKind::Driver { call, code, message }.into()
}
