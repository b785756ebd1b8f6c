//! Properties of a loaded kernel.

/// The properties of a loaded kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// Parameters in order; `None` with drivers before CUDA 12.4, which do not report them.
    pub params: Option<Vec<Param>>,
    /// Base of the parameters' offsets.
    pub(crate) places: Places,
    /// Bytes of static shared memory per block.
    pub static_shared: u32,
    /// Maximum number of threads per block.
    pub max_threads: Option<u32>,
    /// The block size that it requires (`.reqntid`), if the device reports it.
    pub required_block: Option<[u32; 3]>,
    /// The cluster size that it requires (`.reqnctapercluster`), if the device reports it.
    pub required_cluster: Option<[u32; 3]>,
    /// Registers per thread: those that the driver's compiler allocated, or on the virtual GPU an
    /// estimate.
    pub registers: u32,
    /// True if launches are programmatic dependent launches: each may begin while the one before it
    /// in its stream still runs, since the kernel itself waits for that one to end. True for
    /// kernels in the language that [wait](warpfold_lang::wait_for_dependencies); others [declare
    /// it](crate::Function::programmatic). Cooperative launches still begin in turn, as do all
    /// launches of the virtual GPU, whose checks find the effects of a missing wait.
    pub programmatic: bool,
}

/// Base of a parameter's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// The first parameter; each is at the next multiple of its alignment, as arguments are packed.
    #[cfg_attr(not(feature = "virtual-gpu"), allow(dead_code, reason = "where the virtual GPU has parameters"))]
    Packed,
    /// Chosen by the driver: with alignments beyond 16 bytes the first offset may not be 0.
    Drivers,
}

/// Offset and size of a parameter in the parameter bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Offset of the first byte.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
}
