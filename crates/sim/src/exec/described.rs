//! Descriptions of addresses and of the checker's findings.

use super::code::Placed;
use super::machine::{Fault, GlobalView, Machine};
use super::memory_map::{SHARED_WINDOW, Window, tagged, window};
use crate::check::{Found, Space, byte_of_block};

impl Machine {
    /// Describes an offset of shared memory.
    pub(crate) fn describe_shared(&self, offset: u64) -> String {
        describe_shared(&self.shared_map, offset, self.cluster.rank)
    }

    /// Describes an offset of the current frame's local memory.
    pub(crate) fn describe_local(&self, offset: u64) -> String {
        let locals = &self.locals[self.function as usize];
        describe_in(locals, offset.wrapping_sub(u64::from(self.local_base)), "local memory")
    }
}

/// Describes an address.
pub(crate) fn describe(address: u64, map: &[Placed], view: &GlobalView) -> String {
    match window(address) {
        (Window::Shared, offset) => describe_shared(map, offset, 0),
        _ => view.describe(address),
    }
}

/// Describes an address in `.shared::cluster`, as the block of a rank has it.
fn describe_shared(map: &[Placed], address: u64, own: u32) -> String {
    match u32::try_from(address).map(|address| tagged(address, own)) {
        Ok((Some(rank), offset)) => {
            format!("{} of rank {rank} of the cluster", describe_in(map, u64::from(offset), "shared memory"))
        }
        _ => describe_in(map, address, "shared memory"),
    }
}

fn describe_in(map: &[Placed], offset: u64, space: &str) -> String {
    match map.iter().rev().find(|p| u64::from(p.offset) <= offset) {
        Some(p) if offset < u64::from(p.offset + p.bytes) => format!("{}+{:#x}", p.name, offset - u64::from(p.offset)),
        Some(p) => {
            let past = offset - u64::from(p.offset) - u64::from(p.bytes);
            format!("{past} bytes past the end of {} ({} bytes)", p.name, p.bytes)
        }
        None => format!("{space}+{offset:#x}"),
    }
}

/// Converts a finding of the checker to a fault.
pub(crate) fn fault_of(found: &Found, describe: impl Fn(u64) -> String) -> (Fault, u64) {
    let of_block = byte_of_block(found.address);
    let address = match (found.space, of_block) {
        (Space::Shared, _) => SHARED_WINDOW + found.address,
        (Space::Global, Some((_, offset))) => SHARED_WINDOW + offset,
        (Space::Global, None) => found.address,
    };
    let describe = |address| match of_block {
        Some((block, _)) if block != u64::from(found.this.block) => {
            format!("{} of a peer, block {block} of the grid", describe(address))
        }
        _ => describe(address),
    };
    let has_address = found.address != 0 || found.space == Space::Shared;
    let fault = Fault {
        kind: found.kind(),
        severity: found.severity(),
        instruction: found.this.instr,
        block: u64::from(found.this.block),
        thread: found.this.warp * 32 + found.this.lane,
        address: has_address.then(|| (address, describe(address))),
        other: found.other.map(|o| (o.instr, u64::from(o.block), o.warp * 32 + o.lane)),
        rule: found.rule.sentence().to_owned(),
    };
    (fault, found.count)
}
