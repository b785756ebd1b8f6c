//! Pairs of GPUs: links between their memories, and peer copies.

use cudarc::driver::{DriverError, sys};

use super::device::Context;
use super::driver::error;
use crate::Error;
use crate::backend::Link;

/// Returns the link by which kernels of one GPU reach the memory of another. The driver has no
/// query for NVLink; native atomics on peer memory distinguish it from PCIe (CUDA Driver API, "Peer
/// Context Memory Access").
pub(super) fn link(from: &Context, to: &Context) -> Result<Link, Error> {
    use sys::CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED as NATIVE_ATOMICS;
    let (source, target) = (from.cuda.cu_device(), to.cuda.cu_device());
    if source == target {
        return Ok(Link::Same);
    }
    let (mut can_access, mut has_atomics) = (0, 0);
    // SAFETY: both are devices of the driver, and the result goes to a local.
    let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can_access, source, target) };
    asked.result().map_err(|e| error("asking for peer access", e))?;
    if can_access == 0 {
        return Ok(Link::Host);
    }
    // SAFETY: as above.
    let asked = unsafe { sys::cuDeviceGetP2PAttribute(&raw mut has_atomics, NATIVE_ATOMICS, source, target) };
    asked.result().map_err(|e| error("asking for an attribute of a pair of devices", e))?;
    Ok(if has_atomics == 0 { Link::Peer } else { Link::NvLink })
}

/// Enables access by kernels of one GPU to the memory of another.
///
/// NOTE: memory of the driver's default pool (`cuMemAllocAsync`) needs the pool's own permission,
/// which is given here, too.
pub(super) fn enable(from: &Context, to: &Context) -> Result<(), Error> {
    if from.cuda.cu_device() == to.cuda.cu_device() {
        return Ok(());
    }
    from.bind()?;
    // SAFETY: the context is alive as long as `to`.
    let enabled = unsafe { sys::cuCtxEnablePeerAccess(to.cuda.cu_ctx(), 0) };
    if enabled != sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
        enabled.result().map_err(|e| error("enabling peer access", e))?;
    }
    if !to.cuda.has_async_alloc() {
        return Ok(());
    }
    let access = sys::CUmemAccessDesc {
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: from.cuda.cu_device(),
        },
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let mut pool = std::ptr::null_mut();
    // SAFETY: the device is one of the driver, and the result goes to a local.
    let asked = unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, to.cuda.cu_device()) };
    asked.result().map_err(|e| error("asking for the memory pool", e))?;
    // SAFETY: the pool is the device's own and lives as long as it; one description is given.
    let allowed = unsafe { sys::cuMemPoolSetAccess(pool, &raw const access, 1) };
    allowed.result().map_err(|e| error("opening the memory pool to a peer", e))?;
    // Without a threshold, memory returned to the system at each synchronisation would have to be
    // mapped for every peer again.
    let mut keep = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the attribute is a `u64`, and the pool is the device's own.
    let kept = unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast()) };
    kept.result().map_err(|e| error("keeping the memory of a pool", e))
}

/// Returns unused memory of a GPU's pool to the system.
pub(super) fn trim(of: &Context) -> Result<(), DriverError> {
    if !of.cuda.has_async_alloc() {
        return Ok(());
    }
    let mut pool = std::ptr::null_mut();
    // SAFETY: the device is one of the driver, and the result goes to a local.
    unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, of.cuda.cu_device()) }.result()?;
    // SAFETY: the pool is the device's own.
    unsafe { sys::cuMemPoolTrimTo(pool, 0) }.result()
}

/// Copies between two GPUs on a stream of the destination.
pub(super) fn copy(
    (to, of): (u64, &Context),
    (from, owner): (u64, &Context),
    bytes: u64,
    stream: sys::CUstream,
) -> Result<(), DriverError> {
    let bytes = bytes as usize;
    // SAFETY: the addresses are allocations of these contexts with at least `bytes` bytes, which
    // the caller keeps and orders.
    unsafe { sys::cuMemcpyPeerAsync(to, of.cuda.cu_ctx(), from, owner.cuda.cu_ctx(), bytes, stream) }.result()
}
