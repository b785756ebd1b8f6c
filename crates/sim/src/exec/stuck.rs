//! A deadlock's message: what each warp of a block waits for.

use super::block::Block;
use super::code::{Code, Terminator};
use super::warp::PartState;

impl Block {
    /// Where something in the block waits for ever: instruction, linear thread.
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
}
