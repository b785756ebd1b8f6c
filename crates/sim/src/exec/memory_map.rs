//! Address windows of the state spaces in the virtual GPU's generic address space.
//!
//! `.global` and `.const` addresses are generic addresses as they are. Offsets in the other spaces
//! are mapped into windows, each at the start of its own 2^40 bytes.

/// Generic addresses of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 1 << 40;
/// Generic addresses of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 40;
/// Generic addresses of kernel parameters.
pub(crate) const PARAM_WINDOW: u64 = 3 << 40;
/// Addresses of functions, for indirect calls; not readable.
pub(crate) const FUNCTION_WINDOW: u64 = 4 << 40;
/// First address of global memory.
pub(crate) const GLOBAL_START: u64 = 0x7000_0000_0000;

/// Shift of a block's tag in an address of `.shared::cluster`; offsets in shared memory stay below.
const TAG_SHIFT: u32 = 24;

/// The bit of a tag that says that the rest is a rank.
const RANKED: u32 = 0x80;

/// The address in `.shared::cluster` of an offset in the shared memory of the block with a rank.
///
/// NOTE: an offset alone, which is an address in `.shared::cta`, has no tag and is the running
/// block's. On hardware it has the block's rank where the tag is here: a thread that hands it to a
/// peer without `mapa` gives away its own memory there, and the peer's here. Programs that find a
/// peer by arithmetic (Triton flips bits of its own rank by `xor`) are right on either: a tag
/// without [`RANKED`] says which bits differ from those of the running block's rank.
pub(crate) const fn in_block(rank: u32, offset: u32) -> u32 {
    (rank | RANKED) << TAG_SHIFT | offset
}

/// The rank in a `.shared::cluster` address as seen by the block of rank `own`, if there is one,
/// and the offset in that block's memory.
#[inline(always)]
pub(crate) const fn tagged(address: u32, own: u32) -> (Option<u32>, u32) {
    let offset = address & ((1 << TAG_SHIFT) - 1);
    match address >> TAG_SHIFT {
        0 => (None, offset),
        tag if tag & RANKED != 0 => (Some(tag & !RANKED), offset),
        flipped => (Some(own ^ flipped), offset),
    }
}

/// Returns true if an address names a block.
#[inline(always)]
pub(crate) const fn is_tagged(address: u32) -> bool {
    address >> TAG_SHIFT != 0
}

/// State spaces of generic addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// `.global` and `.const`, and everything else.
    Global,
    /// `.shared`, of any block of the cluster.
    Shared,
    /// `.local`.
    Local,
    /// `.param` of a kernel.
    Param,
}

/// The window of a generic address, and the offset in it (the address itself for global memory).
#[inline(always)]
pub(crate) fn window(address: u64) -> (Window, u64) {
    let offset = address & ((1 << 40) - 1);
    match address >> 40 {
        1 => (Window::Shared, offset),
        2 => (Window::Local, offset),
        3 => (Window::Param, offset),
        _ => (Window::Global, address),
    }
}
