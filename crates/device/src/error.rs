//! Errors of this crate, with advice.

use std::fmt;

use crate::backend::LaunchSite;

/// An error of this crate, one pointer wide; see [`Error::kind`].
///
/// `Debug` prints the sentence, too, as `fn main() -> Result<(), Error>` and `unwrap` show it; the
/// kind prints its fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: Box<ErrorKind>,
}

impl Error {
    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

/// Advice for a system without a GPU.
#[cfg(feature = "virtual-gpu")]
const VIRTUAL: &str = "use the virtual GPU (`virtual`)";
#[cfg(not(feature = "virtual-gpu"))]
const VIRTUAL: &str = "build with the feature `virtual-gpu`";

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The NVIDIA driver library cannot be loaded or initialised.
    #[error("no NVIDIA driver: {reason}; install the driver, or {}", VIRTUAL)]
    NoDriver {
        /// Reason why the library cannot be used.
        reason: String,
    },
    /// The driver is older than the oldest supported one.
    #[error("the NVIDIA driver supports CUDA {found}, at least {needed} is needed; update the driver")]
    DriverTooOld {
        /// The CUDA version of the driver, as `major.minor`.
        found: String,
        /// The oldest supported version.
        needed: &'static str,
    },
    /// The driver has no device with this ordinal.
    #[error("no device cuda:{asked}: the driver has {found} device(s), numbered from 0")]
    NoDevice {
        /// The requested ordinal.
        asked: usize,
        /// Number of devices.
        found: usize,
    },
    /// An unknown device name.
    #[error("unknown device '{0}': expected virtual, virtual:h200, virtual:a100, cuda or cuda:N")]
    UnknownDevice(String),
    /// The compute capability of the GPU is too low.
    #[error("{device} has compute capability {major}.{minor}, at least 8.0 is needed; {}", VIRTUAL)]
    UnsupportedArchitecture {
        /// The GPU's name.
        device: String,
        /// Major number of its compute capability.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// An operation that only one kind of device supports.
    #[error("{what} is possible on {needed} only, this is {device}")]
    WrongKindOfDevice {
        /// The operation.
        what: &'static str,
        /// The kind of device that supports it.
        needed: &'static str,
        /// The device of the call.
        device: String,
    },
    /// Device memory is exhausted.
    #[error("out of memory on {device}: {requested} bytes asked for, {free} free of {total}")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes requested.
        requested: u64,
        /// Bytes free.
        free: u64,
        /// Total bytes.
        total: u64,
    },
    /// A buffer larger than the address space.
    #[error("a buffer of {len} elements of {element_bytes} bytes is larger than any address space")]
    TooLarge {
        /// Number of elements requested.
        len: usize,
        /// Bytes per element.
        element_bytes: usize,
    },
    /// The source and destination of a copy have different lengths.
    #[error("{what}: expected {expected} elements, found {found}")]
    LengthMismatch {
        /// The operation.
        what: &'static str,
        /// Elements of the destination.
        expected: usize,
        /// Elements of the source.
        found: usize,
    },
    /// A range outside of a buffer.
    #[error("elements {start}..{end} are outside a buffer of {len} elements")]
    OutOfRange {
        /// First element.
        start: usize,
        /// One past the last.
        end: usize,
        /// Number of elements of the buffer.
        len: usize,
    },
    /// A tensor map that breaks a rule of the driver.
    #[error("cannot encode the tensor map: {0}")]
    TensorMap(warpfold_sim::TensorMapError),
    /// A tensor larger than its memory.
    #[error("cannot encode the tensor map: the tensor takes {needed} bytes, the view has {found}")]
    TensorTooLarge {
        /// Bytes from its first to its last element.
        needed: u64,
        /// Bytes of the view.
        found: u64,
    },
    /// Memory, a stream or a kernel of another device than the operation's.
    #[error("{what} is on {found}, but the operation runs on {expected}; copy it over through the host first")]
    MixedDevices {
        /// The object on the wrong device.
        what: String,
        /// The operation's device.
        expected: String,
        /// The device that it is on.
        found: String,
    },
    /// More threads per block than the device or the kernel allows.
    #[error("cannot launch {site}: {threads} threads per block are more than the limit of {limit} ({limited_by})")]
    TooManyThreads {
        /// The launch.
        site: LaunchSite,
        /// Threads per block.
        threads: u64,
        /// The limit.
        limit: u32,
        /// Source of the limit.
        limited_by: &'static str,
    },
    /// More shared memory per block than the device has.
    #[error(
        "cannot launch {site}: {static_bytes} static and {dynamic_bytes} dynamic bytes of shared memory are more than \
         the limit of {limit} bytes per block"
    )]
    TooMuchShared {
        /// The launch.
        site: LaunchSite,
        /// Bytes that the kernel declares.
        static_bytes: u32,
        /// Bytes that the launch adds.
        dynamic_bytes: u32,
        /// The limit, opt-in included.
        limit: u32,
    },
    /// A launch that breaks another rule.
    #[error("cannot launch {site}: {reason}")]
    InvalidLaunch {
        /// The launch.
        site: LaunchSite,
        /// The rule and the number that breaks it.
        reason: String,
    },
    /// A kernel failed during execution.
    #[error("{}", LaunchFailure { launches, reason })]
    LaunchFailed {
        /// The launch that failed, or, if the driver does not tell which, all since the last
        /// synchronisation.
        launches: Vec<LaunchSite>,
        /// Error text of the device.
        reason: String,
    },
    /// Two devices without peer access.
    #[error("{from} has no peer access to {to}: the driver offers the link '{link}' only")]
    NoPeerAccess {
        /// The device whose kernels need access.
        from: String,
        /// The device that holds the memory.
        to: String,
        /// The link that exists.
        link: crate::Link,
    },
    /// A rank has left its group, so that collective operations are no longer possible.
    #[error("rank {rank} has left the group: {reason}")]
    PeerLost {
        /// The rank that was lost.
        rank: usize,
        /// The reason.
        reason: String,
    },
    /// Ranks of a group did not join a collective operation in time.
    #[error("waited {waited:?} for rank(s) {missing:?} of the group")]
    PeersLate {
        /// Time that the ranks waited.
        waited: std::time::Duration,
        /// The ranks that are missing.
        missing: Vec<usize>,
    },
    /// Ranks of a group joined the same operation with different launches.
    #[error("the ranks of the group disagree: rank 0 comes to {expected}, another one to {found}")]
    PeersDisagree {
        /// The launch of rank 0.
        expected: String,
        /// The launch of another rank.
        found: String,
    },
    /// NCCL cannot be loaded.
    #[error("no NCCL: {}; install it (`pip install nvidia-nccl-cu13`), or say where it is", places.join("; "))]
    NoNccl {
        /// The places that were searched, each with the loader's message.
        places: Vec<String>,
    },
    /// A call of NCCL failed.
    #[error("{call} failed: {message}")]
    Nccl {
        /// The function.
        call: &'static str,
        /// NCCL's message.
        message: String,
    },
    /// An operation that a graph cannot contain, or that would disturb a capture.
    #[error("{0} cannot be captured in a graph")]
    NotCapturable(&'static str),
    /// Use of a placeholder, which has no memory.
    #[error("a placeholder has no memory that could be used")]
    Placeholder,
    /// The driver's compiler rejects the PTX text.
    #[error("the driver's compiler refuses the PTX ({reason}):\n{log}")]
    Jit {
        /// The driver's error.
        reason: String,
        /// The compiler's log.
        log: String,
    },
    /// The kernel cannot be built for the device.
    #[error("{0}")]
    Build(#[source] warpfold_lang::Error),
    #[cfg(feature = "virtual-gpu")]
    /// The virtual GPU rejects the PTX text.
    #[error("the virtual GPU cannot load the PTX: {0}")]
    Load(#[source] warpfold_sim::Error),
    /// No such kernel in the module.
    #[error("no kernel named '{name}' in the module{}", known_kernels(known))]
    UnknownKernel {
        /// The name that was requested.
        name: String,
        /// The kernels of the module, if the device can list them.
        known: Vec<String>,
    },
    /// A driver call failed for another reason.
    #[error("{call} failed: {code} ({message})")]
    Driver {
        /// The operation that failed.
        call: &'static str,
        /// The driver's name for the error.
        code: String,
        /// The driver's description of the error.
        message: String,
    },
    #[cfg(feature = "virtual-gpu")]
    /// The virtual GPU refused a host access: an access to device memory that this crate prevents,
    /// or, with [`Checks::Deny`](warpfold_sim::Checks::Deny), a read of bytes that nothing has
    /// written.
    #[error("host access on the virtual GPU: {0}")]
    HostAccess(#[source] warpfold_sim::Error),
}

/// Message for a failed launch, or its candidates.
struct LaunchFailure<'a> {
    launches: &'a [LaunchSite],
    reason: &'a str,
}

impl fmt::Display for LaunchFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason;
        match self.launches {
            [] => write!(f, "the device failed: {reason}"),
            [site] => write!(f, "{site} failed: {reason}"),
            sites => {
                write!(f, "one of the launches since the last synchronisation failed: {reason}; latest last:")?;
                for (i, site) in sites.iter().enumerate() {
                    write!(f, "{}{site}", if i == 0 { " " } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

fn known_kernels(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; it has: {}", known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn debug_prints_the_sentence_as_main_shows_it() {
        let error = Error::from(ErrorKind::NoDevice { asked: 3, found: 1 });
        assert_eq!(format!("{error:?}"), "no device cuda:3: the driver has 1 device(s), numbered from 0");
    }

    #[test]
    fn a_failed_launch_names_every_candidate_when_the_driver_does_not_tell_which() {
        let site = |kernel: &str| LaunchSite { kernel: kernel.to_owned(), grid: [2, 1, 1], block: [64, 1, 1] };
        let one = ErrorKind::LaunchFailed { launches: vec![site("a")], reason: "boom".to_owned() };
        assert_eq!(one.to_string(), "kernel a (grid 2x1x1, block 64x1x1) failed: boom");
        let two = ErrorKind::LaunchFailed { launches: vec![site("a"), site("b")], reason: "boom".to_owned() };
        assert_eq!(
            two.to_string(),
            "one of the launches since the last synchronisation failed: boom; latest last: \
             kernel a (grid 2x1x1, block 64x1x1), kernel b (grid 2x1x1, block 64x1x1)"
        );
    }
}
