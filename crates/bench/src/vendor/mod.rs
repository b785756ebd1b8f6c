//! NVIDIA's own libraries, loaded at run time where they are installed: something to be measured
//! against, in the same run and on the same data. Nothing else here needs them.

#![allow(unsafe_code, reason = "the libraries' functions take raw handles and pointers")]

mod cublas;
mod cublas_lt;
mod cudnn;
pub mod cudnn_attention;
mod cudnn_graph;

use std::ffi::{c_int, c_void};

use libloading::Library;

pub use cublas::{Cublas, CublasProduct, CublasTypes};
pub use cublas_lt::CublasLt;
pub use cudnn::{Cudnn, CudnnConvolution, CudnnTypes};

use warpfold_device::{Error, ErrorKind, Stream, View, ViewMut};

/// Something of a library's: a handle, a description.
type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;

/// No status of a library's: it lacks what is looked for.
const NOTHING: c_int = -1;

/// A library that is loaded, and works on one stream.
#[derive(Debug)]
struct Vendor {
    name: &'static str,
    stream: Stream,
    /// The stream as the library's functions take it.
    raw: *mut c_void,
    library: Library,
}

impl Vendor {
    /// Loads the first of `files` that is there, for a stream of a GPU, whose context is then
    /// current; nothing on the virtual GPU.
    fn load(name: &'static str, files: &[&str], stream: &Stream) -> Option<Self> {
        let raw = stream.with_raw_stream(&[], &[], |raw| raw).ok()??;
        // SAFETY: the vendor's libraries have no requirements on when they are loaded.
        let library = files.iter().find_map(|file| unsafe { Library::new(*file) }.ok())?;
        Some(Self { name, stream: stream.clone(), raw, library })
    }

    /// The stream as the library's functions take it.
    fn stream(&self) -> *mut c_void {
        self.raw
    }

    /// One of its functions.
    ///
    /// # Safety
    /// `F` is the type of the function, which is called before the library is unloaded.
    unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, Error> {
        // SAFETY: the caller says so.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        symbol.map(|symbol| *symbol).map_err(|_| self.failed(name, NOTHING))
    }

    /// Creates a handle by a function whose only argument is its address, to be destroyed by
    /// `destroy`.
    ///
    /// # Safety
    /// Those are the types of both; what is created is dropped before the library.
    unsafe fn create(&self, create: &'static str, destroy: &'static str) -> Result<Owned, Error> {
        // SAFETY: the caller says so.
        unsafe { self.create_by::<Create>(create, destroy, |create, to| create(to)) }
    }

    /// The same by a function that takes more, which `call` gives to it.
    ///
    /// # Safety
    /// The same, and `F` is the type of the function.
    unsafe fn create_by<F: Copy>(
        &self,
        create: &'static str,
        destroy: &'static str,
        call: impl FnOnce(F, *mut Handle) -> c_int,
    ) -> Result<Owned, Error> {
        // SAFETY: the caller says so.
        let (function, destroy) = unsafe { (self.function::<F>(create)?, self.function::<Destroy>(destroy)?) };
        let mut handle = std::ptr::null_mut();
        self.check(create, call(function, &raw mut handle))?;
        Ok(Owned { handle, destroy })
    }

    /// An error unless a function's status is success, which is 0 for each of the libraries.
    fn check(&self, call: &'static str, status: c_int) -> Result<(), Error> {
        if status == 0 { Ok(()) } else { Err(self.failed(call, status)) }
    }

    fn failed(&self, call: &'static str, status: c_int) -> Error {
        self.failed_because(call, status, "see its documentation".to_owned())
    }

    fn failed_because(&self, call: &'static str, status: c_int, message: String) -> Error {
        ErrorKind::Driver { call, code: format!("status {status} of {}", self.name), message }.into()
    }

    /// Has a call that is to be enqueued wait for what uses its operands on other streams.
    fn order(&self, inputs: [&View<'_, u8>; 2], outputs: &[&ViewMut<'_, u8>]) -> Result<(), Error> {
        self.stream.with_raw_stream(&inputs, outputs, |_| ()).map(drop)
    }
}

/// Something of a library's that has to be destroyed, before the library is unloaded.
#[derive(Debug)]
struct Owned {
    handle: Handle,
    destroy: Destroy,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the handle came from the function that goes with this one, whose library outlives
        // it, and is not used again.
        unsafe {
            (self.destroy)(self.handle);
        }
    }
}

/// Refuses operands of fewer bytes than they need: name, expected, found.
fn check_bytes(operands: [(&'static str, usize, usize); 3]) -> Result<(), Error> {
    operands.into_iter().try_for_each(|(what, expected, found)| {
        if found < expected { Err(ErrorKind::LengthMismatch { what, expected, found }.into()) } else { Ok(()) }
    })
}
