//! Orca's iteration-level scheduling (OSDI'22): each step takes what is there, prefills and
//! decodes together.
//!
//! Selective batching is the model's part: all but attention runs over the flattened rows,
//! attention by sequence. Orca itself reserves slots for the longest answer: that is this policy
//! with [`Contiguous`] blocks; with paged ones it grows and preempts like the others.
//!
//! [`Contiguous`]: crate::Allocator::Contiguous

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;

impl Scheduler {
    pub(super) fn plan_orca(&mut self, plan: &mut Plan) {
        self.advance_running(plan, Wants::Whole);
        if plan.may_start() {
            self.resume_swapped(plan, Wants::Whole);
            self.admit_waiting(plan, Wants::Whole);
        }
    }
}
