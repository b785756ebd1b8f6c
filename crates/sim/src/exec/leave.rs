//! Exits of a part from its frame or its warp: calls, returns, branch tables, traps and the end.

use super::barrier::BARRIERS;
use super::block::{Block, Context, lanes_of};
use super::code::{BlockId, Code, Terminator};
use super::frame;
use super::machine::Machine;
use super::part::Outcome;
use crate::report::FindingKind;
use crate::runtime;
use crate::tensor_ops::queue;
use crate::tensor_ops::rules;

impl Block {
    /// Terminators after which the part is in another frame, or gone.
    pub(super) fn leave(
        &mut self,
        w: u32,
        i: usize,
        terminator: &Terminator,
        m: &mut Machine,
        cx: &mut Context<'_>,
    ) -> Outcome {
        match terminator {
            Terminator::Exit => self.exit(w, i, m, cx),
            Terminator::Return => {
                let warp = &mut self.warps[w as usize];
                if warp.parts[i].callers.is_empty() {
                    return self.exit(w, i, m, cx);
                }
                queue::finish(m, cx.code.tensor.finish);
                let warp = &mut self.warps[w as usize];
                let part = warp.parts.swap_remove(i);
                let returned = frame::return_from(warp, part, cx.code);
                let block = returned.block;
                if let Some(part) = warp.arrive(returned, block) {
                    warp.parts.push(part);
                }
                Outcome::Switch
            }
            Terminator::Trap { instruction } => {
                let lane = self.warps[w as usize].parts[i].mask.trailing_zeros();
                *cx.trap = Some((*instruction, self.index, w * 32 + lane));
                m.stop = true;
                Outcome::Stop
            }
            Terminator::Switch { index, targets, count, join, instruction } => {
                self.switch(w, i, m, cx.code, (*index, *targets, *count, *join, *instruction))
            }
            Terminator::Call(call) => {
                queue::finish(m, cx.code.tensor.finish);
                let warp = &mut self.warps[w as usize];
                match frame::call(warp, i, call, m, cx, self.coordinates) {
                    frame::Called::Entered => Outcome::Switch,
                    frame::Called::Runtime => {
                        let stopped = runtime::call(m, warp, i, call, cx, &mut self.output);
                        if stopped {
                            return Outcome::Stop;
                        }
                        let part = warp.parts.swap_remove(i);
                        if let Some(part) = warp.arrive(part, call.next) {
                            warp.parts.push(part);
                        }
                        Outcome::Switch
                    }
                    frame::Called::Fault => Outcome::Stop,
                }
            }
            Terminator::Jump(_)
            | Terminator::Branch { .. }
            | Terminator::WarpSync { .. }
            | Terminator::Barrier(_)
            | Terminator::ClusterBarrier(_)
            | Terminator::MbarrierWait { .. }
            | Terminator::SetRegisters(_) => unreachable!("run_part handles this terminator itself"),
        }
    }

    fn switch(
        &mut self,
        w: u32,
        i: usize,
        m: &mut Machine,
        code: &Code,
        (index, targets, count, join, instruction): (u32, u32, u32, BlockId, u32),
    ) -> Outcome {
        let mask = self.warps[w as usize].parts[i].mask;
        // SAFETY: the decoder gave the function this row.
        let indices = unsafe { m.read::<u32>(index) };
        let mut ways: Vec<(u32, BlockId)> = Vec::new();
        for lane in lanes_of(mask) {
            let Some(&to) =
                code.lists[targets as usize..(targets + count) as usize].get(indices[lane as usize] as usize)
            else {
                let rule = format!("brx.idx index {} is outside its {count} targets", indices[lane as usize]);
                self.fault(m, FindingKind::OutOfBounds, instruction, w, lane, rule);
                m.stop = true;
                return Outcome::Stop;
            };
            match ways.iter_mut().find(|(_, b)| *b == to) {
                Some((lanes, _)) => *lanes |= 1 << lane,
                None => ways.push((1 << lane, to)),
            }
        }
        if ways.len() > 1 {
            m.counters[instruction as usize].divergent += 1;
            self.diverge(w, i, join, &ways);
        } else {
            let warp = &mut self.warps[w as usize];
            let part = warp.parts.swap_remove(i);
            if let Some(part) = warp.arrive(part, ways[0].1) {
                warp.parts.push(part);
            }
        }
        Outcome::Switch
    }

    fn exit(&mut self, w: u32, i: usize, m: &mut Machine, cx: &Context<'_>) -> Outcome {
        let warp = &mut self.warps[w as usize];
        let part = warp.parts.swap_remove(i);
        warp.exit(part.mask);
        m.progress = true;
        if m.checked {
            self.missed_barrier(w, part.mask, None, m);
        }
        m.abandon_copies(part.mask);
        if m.checked && self.warps[w as usize].live == 0 {
            rules::check_exit(m);
        }
        for id in 0..BARRIERS {
            if self.barriers[id].open {
                self.complete_barrier(id, m, cx.code);
            }
        }
        Outcome::Switch
    }
}
