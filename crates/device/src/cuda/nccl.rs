//! NCCL: its functions, found at run time.
//!
//! The types are those of cudarc's binding; the functions are loaded here, by the names that NCCL
//! has where it is installed, and a missing one is an error instead of a panic.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId};
use libloading::Library;

use crate::{Error, ErrorKind};

type Stream = *mut c_void;
type Move = unsafe extern "C" fn(*const c_void, *mut c_void, usize, ncclDataType_t, ncclComm_t, Stream) -> ncclResult_t;
type Fold = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    ncclDataType_t,
    ncclRedOp_t,
    ncclComm_t,
    Stream,
) -> ncclResult_t;
type Spread =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, Stream) -> ncclResult_t;
type Send = unsafe extern "C" fn(*const c_void, usize, ncclDataType_t, c_int, ncclComm_t, Stream) -> ncclResult_t;
type Receive = unsafe extern "C" fn(*mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, Stream) -> ncclResult_t;

/// Configuration of a communicator, `ncclConfig_t` as of NCCL 2.14. Newer versions take it by its
/// size and version.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    /// Whether calls return only once they are done, however long a rank that is gone is tried.
    blocking: c_int,
}

/// Interval at which a call that is not done yet is looked at.
const LOOK: Duration = Duration::from_micros(50);

/// Says by the time that a call has taken so far whether it is waited for any longer.
pub type NcclPatience = Box<dyn Fn(Duration) -> bool + std::marker::Send>;

/// NCCL functions that are used here.
pub(crate) struct Functions {
    get_version: unsafe extern "C" fn(*mut c_int) -> ncclResult_t,
    get_unique_id: unsafe extern "C" fn(*mut ncclUniqueId) -> ncclResult_t,
    error_string: unsafe extern "C" fn(ncclResult_t) -> *const c_char,
    init_rank: unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut Config) -> ncclResult_t,
    abort: unsafe extern "C" fn(ncclComm_t) -> ncclResult_t,
    async_error: unsafe extern "C" fn(ncclComm_t, *mut ncclResult_t) -> ncclResult_t,
    all_gather: Move,
    all_reduce: Fold,
    broadcast: Spread,
    send: Send,
    receive: Receive,
    group_start: unsafe extern "C" fn() -> ncclResult_t,
    group_end: unsafe extern "C" fn() -> ncclResult_t,
}

impl Functions {
    /// Loads the first of these libraries that exists.
    pub(crate) fn load(places: &[PathBuf]) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for place in places {
            // SAFETY: the library is NCCL by its name; its initialisers are run once.
            match unsafe { Library::new(place) } {
                Ok(library) => return Self::of(library, place),
                Err(e) => tried.push(format!("{}: {e}", place.display())),
            }
        }
        Err(ErrorKind::NoNccl { places: tried }.into())
    }

    fn of(library: Library, place: &std::path::Path) -> Result<Self, Error> {
        macro_rules! function {
            ($name:literal) => {{
                let missing = |e| ErrorKind::NoNccl { places: vec![format!("{}: {e}", place.display())] };
                // SAFETY: the type is that of the function in `nccl.h`.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            }};
        }
        let functions = Self {
            get_version: function!("ncclGetVersion"),
            get_unique_id: function!("ncclGetUniqueId"),
            error_string: function!("ncclGetErrorString"),
            init_rank: function!("ncclCommInitRankConfig"),
            abort: function!("ncclCommAbort"),
            async_error: function!("ncclCommGetAsyncError"),
            all_gather: function!("ncclAllGather"),
            all_reduce: function!("ncclAllReduce"),
            broadcast: function!("ncclBroadcast"),
            send: function!("ncclSend"),
            receive: function!("ncclRecv"),
            group_start: function!("ncclGroupStart"),
            group_end: function!("ncclGroupEnd"),
        };
        // It is never unloaded: its threads may outlive a communicator.
        std::mem::forget(library);
        Ok(functions)
    }

    fn check(&self, call: &'static str, result: ncclResult_t) -> Result<(), Error> {
        if matches!(result, ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress) {
            return Ok(());
        }
        // SAFETY: NCCL gives a text that is never freed, for every result.
        let message = unsafe { CStr::from_ptr((self.error_string)(result)) }.to_string_lossy().into_owned();
        Err(ErrorKind::Nccl { call, message }.into())
    }

    /// NCCL's version code: 22304 is 2.23.4.
    pub(crate) fn version(&self) -> Result<i32, Error> {
        let mut version = 0;
        // SAFETY: the result goes to a local.
        self.check("ncclGetVersion", unsafe { (self.get_version)(&raw mut version) })?;
        Ok(version)
    }

    pub(crate) fn unique_id(&self) -> Result<[u8; 128], Error> {
        let mut id = ncclUniqueId { internal: [0; 128] };
        // SAFETY: the result goes to a local.
        self.check("ncclGetUniqueId", unsafe { (self.get_unique_id)(&raw mut id) })?;
        Ok(id.internal.map(|byte| byte as u8))
    }
}

/// One rank's end of a communicator. Calls need its device's context to be current.
pub(crate) struct Ends {
    functions: Arc<Functions>,
    comm: ncclComm_t,
    patience: Option<NcclPatience>,
}

// SAFETY: NCCL's calls on a communicator may come from any thread, one at a time, which the owner
// sees to.
unsafe impl std::marker::Send for Ends {}

/// NCCL operation on a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    AllGather,
    /// The sum, in NCCL's own order.
    AllReduceSum(ncclDataType_t),
    Broadcast(usize),
    Send(usize),
    Receive(usize),
}

impl Ends {
    /// Joins a communicator; returns when all ranks have joined.
    pub(crate) fn join(
        functions: Arc<Functions>,
        id: [u8; 128],
        rank: usize,
        size: usize,
        patience: Option<NcclPatience>,
    ) -> Result<Self, Error> {
        let id = ncclUniqueId { internal: id.map(|byte| byte as c_char) };
        let blocking = c_int::from(patience.is_none());
        let mut config = Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: 21_400, blocking };
        let mut comm = std::ptr::null_mut();
        // SAFETY: the id is one that NCCL made, the configuration has the size that it states, and
        // the result goes to a local.
        let result = unsafe { (functions.init_rank)(&raw mut comm, size as c_int, id, rank as c_int, &raw mut config) };
        functions.check("ncclCommInitRankConfig", result)?;
        let ends = Self { functions, comm, patience };
        ends.settle("ncclCommInitRankConfig")?;
        Ok(ends)
    }

    /// Waits until the last call is done. A first collective connects the ranks, which NCCL tries
    /// for minutes when one of them is gone.
    pub(crate) fn settle(&self, call: &'static str) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let mut result = ncclResult_t::ncclSuccess;
            // SAFETY: the communicator is alive, and the result goes to a local.
            let asked = unsafe { (self.functions.async_error)(self.comm, &raw mut result) };
            self.functions.check("ncclCommGetAsyncError", asked)?;
            self.functions.check(call, result)?;
            if result != ncclResult_t::ncclInProgress {
                return Ok(());
            }
            if self.patience.as_ref().is_some_and(|goes_on| !goes_on(start.elapsed())) {
                let message = format!("given up after {:?}", start.elapsed());
                return Err(ErrorKind::Nccl { call, message }.into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Enqueues an operation on `count` elements, which are bytes unless the operation has a type.
    pub(crate) fn enqueue(
        &self,
        operation: Operation,
        (from, to): (u64, u64),
        count: usize,
        stream: Stream,
    ) -> Result<(), Error> {
        let (f, comm, bytes) = (&*self.functions, self.comm, ncclDataType_t::ncclUint8);
        let (from, to) = (from as *const c_void, to as *mut c_void);
        // SAFETY: the caller keeps both addresses, of as many elements as the operation takes,
        // orders other uses by the stream, and has the device's context current.
        unsafe {
            match operation {
                Operation::AllGather => f.check("ncclAllGather", (f.all_gather)(from, to, count, bytes, comm, stream)),
                Operation::AllReduceSum(dtype) => {
                    let sum = ncclRedOp_t::ncclSum;
                    f.check("ncclAllReduce", (f.all_reduce)(from, to, count, dtype, sum, comm, stream))
                }
                Operation::Broadcast(root) => {
                    f.check("ncclBroadcast", (f.broadcast)(from, to, count, bytes, root as c_int, comm, stream))
                }
                Operation::Send(rank) => f.check("ncclSend", (f.send)(from, count, bytes, rank as c_int, comm, stream)),
                Operation::Receive(rank) => {
                    f.check("ncclRecv", (f.receive)(to, count, bytes, rank as c_int, comm, stream))
                }
            }
        }
    }

    /// Enqueues several operations as one group.
    pub(crate) fn grouped(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        // SAFETY: the call takes nothing; each start has its end below.
        self.functions.check("ncclGroupStart", unsafe { (self.functions.group_start)() })?;
        let done = work();
        // SAFETY: as above.
        let ended = self.functions.check("ncclGroupEnd", unsafe { (self.functions.group_end)() });
        done.and(ended)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: the communicator is not used any more. An abort ends what hangs, too, when a
        // rank is gone; a failure cannot be told to anybody.
        let _ = unsafe { (self.functions.abort)(self.comm) };
    }
}

/// NCCL's type for the PTX name of a type, if NCCL can add it.
pub(crate) fn type_of(name: &str) -> Option<ncclDataType_t> {
    Some(match name {
        "s8" => ncclDataType_t::ncclInt8,
        "u8" => ncclDataType_t::ncclUint8,
        "s32" => ncclDataType_t::ncclInt32,
        "u32" => ncclDataType_t::ncclUint32,
        "s64" => ncclDataType_t::ncclInt64,
        "u64" => ncclDataType_t::ncclUint64,
        "f16" => ncclDataType_t::ncclFloat16,
        "bf16" => ncclDataType_t::ncclBfloat16,
        "f32" => ncclDataType_t::ncclFloat32,
        "f64" => ncclDataType_t::ncclFloat64,
        _ => return None,
    })
}
