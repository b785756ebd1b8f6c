//! vLLM V0's scheduler (0.6, without chunks): a step runs either prefills or decodes.
//!
//! Prefills come first, unless something is swapped out. Decodes preempt where blocks are missing,
//! by recompute if the group has one sequence and by swap otherwise; swapped groups come back when
//! nothing was preempted. Admission leaves a watermark of blocks free: a prompt starts now, later,
//! or, if it could never, is refused when it is added.

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;

impl Scheduler {
    pub(super) fn plan_vllm_v0(&mut self, plan: &mut Plan) {
        self.advance_running(plan, Wants::Prefills);
        if plan.may_start() {
            self.admit_waiting(plan, Wants::Whole);
        }
        if plan.num_rows() > 0 || plan.is_short {
            return;
        }
        self.advance_running(plan, Wants::Decodes);
        if plan.may_start() {
            self.resume_swapped(plan, Wants::Decodes);
        }
    }
}
