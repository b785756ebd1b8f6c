//! Branches, calls and exits (PTX ISA, "Control Flow Instructions"), and the boundaries of blocks.

use warpfold_ptx::{Instruction, Name, Opcode, Operand, ScalarType as T};

use super::scope::Symbol;
use super::{Decoder, calls};
use crate::Error;
use crate::exec::code::{Block, BlockId, NO_BLOCK, Terminator};

/// Decodes a control-flow instruction. Its guard, if any, was turned into a branch around it,
/// except for `bra`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Bra => branch(d, inst),
        Opcode::Brx => switch(d, inst),
        Opcode::Call => calls::call(d, inst),
        Opcode::Ret => {
            d.expect_modifiers(inst, &["uni"])?;
            d.end_block(Terminator::Return);
            Ok(())
        }
        Opcode::Exit => {
            d.end_block(Terminator::Exit);
            Ok(())
        }
        Opcode::Trap => {
            let instruction = d.current_instruction();
            d.end_block(Terminator::Trap { instruction });
            Ok(())
        }
        _ => Err(d.invalid(inst, "not a control-flow instruction")),
    }
}

fn branch(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["uni"])?;
    d.expect_operands(inst, 1)?;
    let Operand::Name { name, component: None } = &inst.operands[0] else {
        return Err(d.invalid(inst, "the target of a branch must be a label"));
    };
    let taken = label(d, inst, name)?;
    let Some(guard) = &inst.guard else {
        // An unconditional branch counts as a branch, but can never diverge.
        d.end_block(Terminator::Jump(taken));
        return Ok(());
    };
    let predicate = d.predicate_named(inst, &guard.predicate)?;
    d.f.note_guard(predicate);
    let next = d.new_block();
    let instruction = Some(d.current_instruction());
    d.end_block(Terminator::Branch { predicate, negated: guard.negated, taken, next, join: NO_BLOCK, instruction });
    d.begin_block(next);
    Ok(())
}

fn switch(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["idx", "uni"])?;
    d.expect_operands(inst, 2)?;
    let index = d.src(inst, 0, T::U32)?;
    d.flush(inst)?;
    let Operand::Name { name, .. } = &inst.operands[1] else {
        return Err(d.invalid(inst, "expected the name of a .branchtargets list"));
    };
    let Symbol::BranchTargets(names) = d.lookup(inst, name)?.clone() else {
        return Err(d.invalid(inst, format!("'{name}' is not a .branchtargets list")));
    };
    let mut blocks = Vec::new();
    for target in &names {
        blocks.push(label(d, inst, target)?);
    }
    let targets = index_u32(d.code.lists.len());
    d.code.lists.extend(&blocks);
    let instruction = d.current_instruction();
    d.end_block(Terminator::Switch { index, targets, count: index_u32(blocks.len()), join: NO_BLOCK, instruction });
    Ok(())
}

fn label(d: &Decoder, inst: &Instruction, name: &Name) -> Result<BlockId, Error> {
    match d.lookup(inst, name)? {
        Symbol::Label(block) => Ok(*block),
        _ => Err(d.invalid(inst, format!("'{name}' is not a label"))),
    }
}

/// A table index; no table here reaches 2^32 entries.
pub(super) fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 entries")
}

impl Decoder<'_> {
    /// A block to be filled later.
    pub(super) fn new_block(&mut self) -> BlockId {
        self.code.blocks.push(Block { start: 0, end: 0, count: 0, terminator: Terminator::Exit });
        index_u32(self.code.blocks.len() - 1)
    }

    /// Ends the current block.
    pub(super) fn end_block(&mut self, terminator: Terminator) {
        let end = index_u32(self.code.ops.len());
        self.code.blocks[self.f.block as usize] =
            Block { start: self.f.block_start, end, count: self.f.block_count, terminator };
        self.f.ended = true;
    }

    /// Starts filling a block; the current one, if it has not ended, falls through into it.
    pub(super) fn begin_block(&mut self, block: BlockId) {
        if !self.f.ended {
            self.end_block(Terminator::Jump(block));
        }
        self.f.block = block;
        self.f.block_start = index_u32(self.code.ops.len());
        self.f.block_count = 0;
        self.f.ended = false;
    }

    /// The instruction being decoded.
    pub(super) fn current_instruction(&self) -> u32 {
        index_u32(self.code.instructions.len() - 1)
    }

    /// Moves the operations decoded so far for this instruction into the block, so that a
    /// terminator can follow.
    pub(super) fn flush(&mut self, inst: &Instruction) -> Result<(), Error> {
        let index = self.current_instruction();
        let bare = Instruction { guard: None, ..inst.clone() };
        self.finish(&bare, index)
    }
}
