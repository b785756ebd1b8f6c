//! Messages for deadlocks: what each warp of a block waits for.

use super::block::Block;
use super::code::{Code, Terminator};
use super::warp::PartState;

impl Block {
    /// Location at which the block waits for ever: instruction, linear thread, description.
    pub(crate) fn stuck_at(&mut self, code: &Code) -> Option<(u32, u32, String)> {
        for w in 0..self.warps.len() {
            let waits = self.describe_wait(u32::try_from(w).expect("at most 32 warps"));
            let Some(part) = self.warps[w].parts.first() else { continue };
            let thread = u32::try_from(w).expect("at most 32 warps") * 32 + part.mask.trailing_zeros();
            let b = &code.blocks[part.block as usize];
            return Some(match (&part.state, &b.terminator) {
                (PartState::Barrier(id), Terminator::Barrier(barrier)) => (
                    barrier.instruction,
                    thread,
                    format!("waits at barrier {id}, which not all expected threads can reach"),
                ),
                (PartState::Mbarrier, Terminator::MbarrierWait { instruction, .. }) => (*instruction, thread, waits),
                (PartState::ClusterBarrier, Terminator::ClusterBarrier(barrier)) => (
                    barrier.instruction,
                    thread,
                    "waits at the barrier of the cluster, at which not all threads of the cluster arrive".to_owned(),
                ),
                (PartState::Registers, Terminator::SetRegisters(set)) => {
                    let w = u32::try_from(w).expect("at most 32 warps");
                    (set.instruction, thread, self.waits_for_registers(w, set))
                }
                (PartState::WarpSync, Terminator::WarpSync { instruction, .. }) => (
                    *instruction,
                    thread,
                    "waits for lanes of its member mask that cannot reach the instruction".to_owned(),
                ),
                _ => {
                    let of_block = code.instructions.iter().position(|i| i.block == part.block);
                    let instruction = of_block.map_or(0, |i| u32::try_from(i).expect("few instructions"));
                    (instruction, thread, "spins, and nothing in the grid makes progress that ends".to_owned())
                }
            });
        }
        None
    }

    /// Location at which some part of the block runs: instruction, linear thread, and its loop.
    pub(crate) fn runs_at(&mut self, code: &Code) -> Option<(u32, u32, String)> {
        let parts = (0u32..).zip(&self.warps).flat_map(|(w, warp)| warp.parts.iter().map(move |part| (w, part)));
        let (w, part) = parts.min_by_key(|(_, part)| part.state != PartState::Ready)?;
        let at = code.instructions.iter().position(|i| i.block == part.block)?;
        let place = loop_around(code, at).map_or_else(String::new, |(first, last)| {
            let (start, end) = (&code.instructions[first], &code.instructions[last]);
            let lines = format!("lines {} to {}", start.line, end.line);
            match (&start.source, &end.source) {
                (Some(from), Some(to)) if from.author() == to.author() => {
                    format!(", the last of them in the loop at {}, PTX {lines}", from.author())
                }
                (Some(from), Some(to)) => {
                    let (from, to) = (from.author(), to.author());
                    format!(", the last of them in the loop between {from} and {to}, PTX {lines}")
                }
                _ => format!(", the last of them in the loop of {lines}"),
            }
        });
        Some((u32::try_from(at).ok()?, w * 32 + part.mask.trailing_zeros(), place))
    }
}

/// First and last instruction of the innermost loop around an instruction: the shortest path from
/// it to a backward branch.
fn loop_around(code: &Code, at: usize) -> Option<(usize, usize)> {
    let function = code.instructions[at].function;
    let start_of = |block: u32| code.instructions.iter().position(|i| i.block == block && i.function == function);
    let ends = code.instructions.iter().enumerate().skip(at).take_while(|(_, i)| i.function == function);
    let is_last = |end: usize, block: u32| code.instructions.get(end + 1).is_none_or(|next| next.block != block);
    let loops = ends.filter(|(end, i)| is_last(*end, i.block)).filter_map(|(end, i)| {
        let targets = if let Terminator::Jump(next) = code.blocks[i.block as usize].terminator {
            [next, next]
        } else if let Terminator::Branch { taken, next, .. } = code.blocks[i.block as usize].terminator {
            [taken, next]
        } else {
            return None;
        };
        let start = targets.into_iter().filter_map(start_of).filter(|&start| start <= at && start <= end).max()?;
        Some((start, end))
    });
    loops.min_by_key(|(start, end)| end - start)
}
