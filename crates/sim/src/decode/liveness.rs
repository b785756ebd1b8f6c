//! Liveness: which registers may be read before they are written, and how many are live at once.

use std::collections::HashMap;

use super::builder::{Event, EventKind, FunctionBuilder, Resource};
use super::cfg::successors;
use crate::exec::code::{BlockId, Code};

/// Result of the liveness analysis.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Resources that some path reads before it writes them: undefined values, cleared so that runs
    /// repeat.
    pub undefined: Vec<Resource>,
    /// Most 32-bit registers live at once.
    pub registers: u32,
}

/// A set of resources by dense index.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    fn contains(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 != 0
    }

    fn add_all(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
}

/// Analyses the function whose blocks are `first..`.
pub(super) fn analyse(code: &Code, f: &FunctionBuilder, first: BlockId) -> Liveness {
    let mut index = HashMap::new();
    let mut resources = Vec::new();
    for event in &f.events {
        index.entry(event.what).or_insert_with(|| {
            resources.push(event.what);
            resources.len() - 1
        });
    }
    let blocks = code.blocks.len() - first as usize;
    let mut events: Vec<Vec<Event>> = vec![Vec::new(); blocks];
    for event in &f.events {
        events[(event.block - first) as usize].push(*event);
    }
    let empty = Set(vec![0; resources.len().div_ceil(64)]);
    let mut live_in = vec![empty.clone(); blocks];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..blocks).rev() {
            let mut live = live_out(code, first, block, &live_in, &empty);
            for event in events[block].iter().rev() {
                apply(&mut live, index[&event.what], event.kind);
            }
            if live != live_in[block] {
                live_in[block] = live;
                changed = true;
            }
        }
    }
    let weight = |i: usize| match resources[i] {
        Resource::Register(r) => f.registers[r as usize].ty.bits().div_ceil(32).max(1),
        Resource::Predicate(_) => 0,
    };
    let mut most = 0;
    for block in 0..blocks {
        let mut live = live_out(code, first, block, &live_in, &empty);
        let mut count: u32 = (0..resources.len()).filter(|&i| live.contains(i)).map(weight).sum();
        most = most.max(count);
        for event in events[block].iter().rev() {
            let i = index[&event.what];
            let before = live.contains(i);
            apply(&mut live, i, event.kind);
            match (before, live.contains(i)) {
                (true, false) => count -= weight(i),
                (false, true) => count += weight(i),
                _ => {}
            }
            most = most.max(count);
        }
    }
    let undefined = match live_in.first() {
        Some(entry) => (0..resources.len()).filter(|&i| entry.contains(i)).map(|i| resources[i]).collect(),
        None => Vec::new(),
    };
    Liveness { undefined, registers: most }
}

fn live_out(code: &Code, first: BlockId, block: usize, live_in: &[Set], empty: &Set) -> Set {
    let mut live = empty.clone();
    for to in successors(code, &code.blocks[first as usize + block]) {
        live.add_all(&live_in[(to - first) as usize]);
    }
    live
}

fn apply(live: &mut Set, i: usize, kind: EventKind) {
    match kind {
        EventKind::Use => live.insert(i),
        EventKind::Define => live.remove(i),
        EventKind::MayDefine => {}
    }
}
