//! Waits at mbarriers: parts are suspended until the phase is complete, as on hardware.
//!
//! A part whose phase is not complete is set aside. When nothing else in the block can run, copies
//! land that complete a phase that somebody waits for; if there are none, the waits give up and
//! give false, as their time limit allows. A block in which that changes nothing is stuck.

use super::block::Block;
use super::machine::Machine;
use super::warp::PartState;
use crate::asynchronous::barrier_object::Barrier;

/// Number of times that waits give up without any change before the block counts as stuck.
const FUTILE_ROUNDS: u32 = 3;

/// Suspended parts, and waits that may give up.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Barriers that the parts of each warp wait at.
    barriers: Vec<(u32, Vec<u32>)>,
    /// Mask of warps whose next wait returns false if the phase is not complete.
    pub(super) gives_up: u32,
    /// Rounds of giving up without any progress in between.
    futile: u32,
    /// True if there was progress in the present turn that the machine no longer shows.
    pub(super) has_progressed: bool,
}

impl Waits {
    /// Resets the state: no part waits.
    pub(super) fn begin(&mut self) {
        self.barriers.clear();
        self.gives_up = 0;
        self.futile = 0;
    }
}

impl Block {
    /// Returns true if part `i` of a warp has to wait, since the phase that it waits for is not
    /// complete.
    pub(super) fn waits_at_mbarrier(&mut self, w: u32, m: &mut Machine) -> bool {
        if m.asynchronous.complete != 0 {
            return false;
        }
        if self.waits.gives_up >> w & 1 != 0 {
            self.waits.gives_up &= !(1 << w);
            return false;
        }
        self.waits.barriers.push((w, m.asynchronous.waited_for.clone()));
        true
    }

    /// Makes every part check its barrier again.
    pub(super) fn wake_waiting(&mut self) {
        for (w, warp) in self.warps.iter_mut().enumerate() {
            for part in warp.parts.iter_mut().filter(|part| part.state == PartState::Mbarrier) {
                part.state = PartState::Ready;
                self.ready |= 1 << w;
            }
        }
        self.waits.barriers.clear();
    }

    /// Completes copies that parts wait for, or makes waits give up, when nothing else can run;
    /// returns true if a part continues.
    pub(super) fn unblock(&mut self, m: &mut Machine, was_idle: bool) -> bool {
        if self.waits.barriers.is_empty() {
            return false;
        }
        let mut barriers: Vec<u32> = self.waits.barriers.iter().flat_map(|(_, all)| all.iter().copied()).collect();
        barriers.dedup();
        if m.settle(&barriers) {
            m.asynchronous.woken = false;
            self.waits.futile = 0;
            self.wake_waiting();
            return true;
        }
        if std::mem::take(&mut m.progress) {
            self.waits.has_progressed = true;
            self.waits.futile = 0;
        }
        if was_idle {
            if self.waits.futile == FUTILE_ROUNDS {
                return false;
            }
            self.waits.futile += 1;
        }
        self.waits.gives_up = self.waits.barriers.iter().fold(0, |all, (w, _)| all | 1 << w);
        self.wake_waiting();
        true
    }

    /// Describes the barrier that a warp waits at.
    pub(super) fn describe_wait(&mut self, w: u32) -> String {
        let barrier = self.waits.barriers.iter().rev().find(|(warp, _)| *warp == w);
        let Some(&offset) = barrier.and_then(|(_, all)| all.first()) else {
            return "waits for an mbarrier, and nothing can complete its phase".to_owned();
        };
        // SAFETY: the wait found the barrier inside shared memory, aligned.
        let bits = unsafe { *self.memory().add(offset as usize).cast::<u64>() };
        let state = Barrier::decode(bits).map_or_else(|| "not valid any more".to_owned(), |b| b.to_string());
        format!("waits for the mbarrier at shared memory+{offset:#x}, which nothing can complete: {state}")
    }
}
