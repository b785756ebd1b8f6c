//! vLLM V1's loop: no phases, a budget of tokens, running sequences first, prompts cut where it
//! ends.

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;

impl Scheduler {
    pub(super) fn plan_continuous(&mut self, plan: &mut Plan) {
        self.advance_running(plan, Wants::Chunks);
        if plan.may_start() {
            self.resume_swapped(plan, Wants::Chunks);
            self.admit_waiting(plan, Wants::Chunks);
        }
    }
}
