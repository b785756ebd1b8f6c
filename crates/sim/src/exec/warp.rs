//! Warps: diverged parts, their reconvergence points, and the registers.
//!
//! A warp starts as one *part*: a set of lanes at one place. A divergent branch splits a part in
//! two, and both get a *join*: the immediate post-dominator of the branch, where they wait for each
//! other and become one again. That is the reconvergence of the classic SIMT stack (Fung et al.,
//! "Dynamic Warp Formation", 2007) as a tree, so that every part can run on: when all other parts
//! of the warp only spin, a waiting part is let go without its siblings.

use super::code::{BlockId, NO_BLOCK};
use super::row::Row;
use crate::tensor_ops::queue::Queue;
use crate::undefined::Undefined;

/// Lanes that execute together.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Mask of the part's lanes.
    pub mask: u32,
    /// The current block.
    pub block: BlockId,
    /// True if the block has been executed, and the part waits at its terminator.
    pub at_terminator: bool,
    /// True if the part has waited for registers and tries again.
    pub retries: bool,
    /// The innermost join, if any.
    pub join: Option<u32>,
    /// The current frame.
    pub frame: Frame,
    /// Frames of the callers.
    pub callers: Vec<Return>,
    /// State of the part.
    pub state: PartState,
}

/// Start of a function's registers and local memory in the warp's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The function.
    pub function: u32,
    /// First row.
    pub base: u32,
    /// First byte of local memory.
    pub local: u32,
}

/// Return address of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Return {
    /// The caller's frame.
    pub frame: Frame,
    /// The block that ends in the call.
    pub call: BlockId,
}

/// State of a part: ready, or waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartState {
    /// Ready to run.
    Ready,
    /// Waits at a warp-level synchronising instruction.
    WarpSync,
    /// Waits at a block barrier.
    Barrier(u32),
    /// Waits at the barrier of the cluster.
    ClusterBarrier,
    /// Waits at an mbarrier.
    Mbarrier,
    /// Waits for registers.
    Registers,
}

/// Reconvergence point of the sides of a divergent branch.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    /// The block before which the sides wait.
    pub at: BlockId,
    /// Call depth of the block.
    pub depth: u32,
    /// Expected lanes.
    pub members: u32,
    /// Lanes that have arrived.
    pub arrived: u32,
    /// The enclosing join.
    pub parent: Option<u32>,
    /// The frame of the block's function.
    pub frame: Frame,
    /// The callers of that frame.
    pub callers: Vec<Return>,
    /// True if the slot is free.
    pub free: bool,
}

/// A warp of a resident block.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Lanes that exist and have not exited.
    pub live: u32,
    /// Lanes that the warp started with.
    pub initial: u32,
    /// Parts, in no particular order; the first is run first.
    pub parts: Vec<Part>,
    /// Joins; slots are reused.
    pub joins: Vec<Join>,
    /// Registers of all frames.
    pub rows: Vec<Row>,
    /// Local memory: one row for each 4 bytes.
    pub local: Vec<Row>,
    /// Tensor-core products in flight.
    pub in_flight: Queue,
    /// Block steps since some part of the warp began to wait at a join.
    pub impatience: u32,
    /// Values from bytes that nothing has written, in checked runs.
    pub undefined: Option<Box<Undefined>>,
}

impl Warp {
    /// Makes a warp without registers.
    pub(crate) fn new() -> Self {
        Self {
            live: 0,
            initial: 0,
            parts: Vec::new(),
            joins: Vec::new(),
            rows: Vec::new(),
            local: Vec::new(),
            in_flight: Queue::default(),
            impatience: 0,
            undefined: None,
        }
    }

    /// Restarts the warp with the lanes of `mask` at the entry of a kernel.
    pub(crate) fn start(&mut self, mask: u32, function: u32, entry: BlockId) {
        self.live = mask;
        self.initial = mask;
        self.joins.clear();
        self.parts.clear();
        self.in_flight.clear();
        self.impatience = 0;
        self.undefined = None;
        if mask != 0 {
            self.parts.push(Part {
                mask,
                block: entry,
                at_terminator: false,
                retries: false,
                join: None,
                frame: Frame { function, base: 0, local: 0 },
                callers: Vec::new(),
                state: PartState::Ready,
            });
        }
    }

    /// Opens a join for a part that is about to diverge; reuses an enclosing one at the same place.
    pub(crate) fn open_join(&mut self, part: &Part, at: BlockId) -> Option<u32> {
        if at == NO_BLOCK {
            return part.join;
        }
        let depth = depth(part);
        if let Some(id) = part.join {
            let join = &self.joins[id as usize];
            if join.at == at && join.depth == depth {
                return part.join;
            }
        }
        Some(self.push_join(Join {
            at,
            depth,
            members: part.mask,
            arrived: 0,
            parent: part.join,
            frame: part.frame,
            callers: part.callers.clone(),
            free: false,
        }))
    }

    /// Adds a join.
    pub(crate) fn push_join(&mut self, join: Join) -> u32 {
        if let Some(slot) = self.joins.iter().position(|j| j.free) {
            self.joins[slot] = join;
            return u32::try_from(slot).expect("few joins");
        }
        self.joins.push(join);
        u32::try_from(self.joins.len() - 1).expect("few joins")
    }

    /// Moves a part to a block. At its join the part is absorbed, and the joined part is returned
    /// when the join is complete.
    pub(crate) fn arrive(&mut self, mut part: Part, block: BlockId) -> Option<Part> {
        part.block = block;
        part.at_terminator = false;
        part.state = PartState::Ready;
        loop {
            let Some(id) = part.join else { return Some(part) };
            let join = &mut self.joins[id as usize];
            if join.at != part.block || join.depth != depth(&part) {
                return Some(part);
            }
            join.arrived |= part.mask;
            if join.arrived != join.members {
                return None;
            }
            part = self.close_join(id);
        }
    }

    /// Closes a complete join; returns the joined part.
    fn close_join(&mut self, id: u32) -> Part {
        let join = &mut self.joins[id as usize];
        join.free = true;
        Part {
            mask: join.arrived,
            block: join.at,
            at_terminator: false,
            retries: false,
            join: join.parent,
            frame: join.frame,
            callers: std::mem::take(&mut join.callers),
            state: PartState::Ready,
        }
    }

    /// Removes exited lanes from every join; joins that are then complete release their parts.
    pub(crate) fn exit(&mut self, mask: u32) {
        self.live &= !mask;
        self.forget(mask);
    }

    fn forget(&mut self, mask: u32) {
        for id in 0..self.joins.len() {
            if !self.joins[id].free {
                self.joins[id].members &= !mask;
            }
        }
        self.close_complete();
    }

    fn close_complete(&mut self) {
        // Innermost joins may complete outer ones in turn.
        while let Some(id) = self.joins.iter().position(|j| !j.free && j.arrived == j.members) {
            let id = u32::try_from(id).expect("few joins");
            if self.joins[id as usize].arrived == 0 {
                self.joins[id as usize].free = true;
                continue;
            }
            let part = self.close_join(id);
            let block = part.block;
            if let Some(part) = self.arrive(part, block) {
                self.parts.push(part);
            }
        }
    }

    /// Releases the lanes that wait at a join without their siblings; returns false if there are
    /// none.
    pub(crate) fn release_join(&mut self) -> bool {
        let waiting = self.joins.iter().enumerate().filter(|(_, j)| !j.free && j.arrived != 0);
        let Some((id, _)) = waiting.max_by_key(|(_, j)| j.depth) else { return false };
        let join = &mut self.joins[id];
        let part = Part {
            mask: join.arrived,
            block: join.at,
            at_terminator: false,
            retries: false,
            join: join.parent,
            frame: join.frame,
            callers: join.callers.clone(),
            state: PartState::Ready,
        };
        join.members &= !join.arrived;
        join.arrived = 0;
        let block = part.block;
        if let Some(part) = self.arrive(part, block) {
            self.parts.push(part);
        }
        self.impatience = 0;
        true
    }

    /// Returns true if lanes wait at some join.
    pub(crate) fn has_waiting_join(&self) -> bool {
        self.joins.iter().any(|j| !j.free && j.arrived != 0)
    }
}

/// Call depth of a part.
pub(crate) fn depth(part: &Part) -> u32 {
    u32::try_from(part.callers.len()).expect("shallow stacks")
}
