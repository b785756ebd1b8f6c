//! Warp exchanges whose lanes arrive at different instructions.
//!
//! PTX requires the same qualifiers and the same member mask for all lanes of `shfl.sync`,
//! `vote.sync`, `match.sync`, `redux.sync` and `elect.sync`, not the same instruction. Different
//! instructions name different registers, perhaps in different frames: the exchange then runs on
//! its own rows, to which each part's values are copied, and its results from.
//!
//! NOTE: follows the text of PTX; not verified on hardware.

use super::block::{Block, lanes_of};
use super::code::{CallSlot, Code, Exchange, Terminator};
use super::frame::{get, position, put, words_of};
use super::machine::Machine;
use super::op::{NONE, Op};
use super::row::{LANES, Row};
use crate::undefined::SlotOf;

/// Rows or predicates of the three sources and the two results of an exchange.
const SOURCES: [u32; 3] = [0, 4, 5];
const RESULTS: [u32; 2] = [6, 7];
/// The row of the predicates, after the others.
const PREDICATES: usize = 8;

/// An exchange on its own rows, with the operation of an instruction.
pub(crate) fn staged(op: Op, instruction: u32) -> Op {
    let [a, b, c] = SOURCES;
    let [dst, dst2] = RESULTS;
    Op { a, b, c, dst, dst2, imm: 0, guard: NONE, instruction, ..op }
}

/// The slot of a row, if there is one.
pub(crate) fn row(row: u32, rows: u32) -> Option<CallSlot> {
    (row != NONE).then_some(CallSlot::Register { row, rows })
}

/// The slot of a predicate, if there is one.
pub(crate) fn predicate(p: u32) -> Option<CallSlot> {
    (p != NONE).then_some(CallSlot::Predicate(p))
}

/// The exchange at the end of a basic block, if it may meet others.
pub(super) fn exchange_of(code: &Code, block: u32) -> Option<&Exchange> {
    match code.blocks[block as usize].terminator {
        Terminator::WarpSync { exchange: Some(index), .. } => Some(&code.exchanges[index as usize]),
        _ => None,
    }
}

impl Block {
    /// Runs one exchange for parts that wait at different instructions.
    pub(super) fn exchange_together(&mut self, w: u32, m: &mut Machine, code: &Code, together: &[usize]) {
        let warp = &mut self.warps[w as usize];
        let mut stage = [const { Row([0; LANES]) }; PREDICATES + 1];
        let parts = together.iter().filter_map(|&j| Some((j, exchange_of(code, warp.parts[j].block)?)));
        let parts: Vec<(usize, &Exchange)> = parts.collect();
        for &(j, exchange) in &parts {
            let part = &warp.parts[j];
            for (slot, place) in exchange.sources.iter().zip(SOURCES) {
                each_word(*slot, part.mask, |slot, lane, word| {
                    let value = get(warp, code, part.frame, slot, lane, word);
                    let is_predicate = matches!(slot, CallSlot::Predicate(_));
                    let flip = u32::from(exchange.negated && is_predicate);
                    set_staged(&mut stage, (slot, place), lane, word, value ^ flip);
                });
            }
        }
        let Some((_, exchange)) = parts.first() else { return };
        let all = parts.iter().fold(0, |all, (j, _)| all | warp.parts[*j].mask);
        let (predicates, rows) = stage.split_last_mut().expect("it has rows");
        m.frame = rows.as_mut_ptr();
        m.predicates = predicates.0.as_mut_ptr();
        // SAFETY: the operation names rows and predicates of the stage alone, and the decoder chose
        // its handler for this host.
        unsafe { (exchange.op.run)(m, &exchange.op, all) };
        for &(j, exchange) in &parts {
            let (mask, frame) = (warp.parts[j].mask, warp.parts[j].frame);
            for (slot, place) in exchange.results.iter().zip(RESULTS) {
                each_word(*slot, mask, |slot, lane, word| {
                    let value = staged_value(&stage, (slot, place), lane, word);
                    put(warp, code, frame, slot, lane, word, value);
                });
                if let (Some(slot), Some(undefined)) = (*slot, &mut warp.undefined) {
                    undefined.define_slot(SlotOf::new(slot, (frame.base, frame.local)), mask);
                }
            }
        }
    }
}

fn each_word(slot: Option<CallSlot>, mask: u32, mut f: impl FnMut(CallSlot, u32, u32)) {
    let Some(slot) = slot else { return };
    for lane in lanes_of(mask) {
        (0..words_of(slot)).for_each(|word| f(slot, lane, word));
    }
}

/// Sets a word of a lane in the rows of an exchange, at the position of a source.
fn set_staged(stage: &mut [Row], (slot, place): (CallSlot, u32), lane: u32, word: u32, value: u32) {
    if let CallSlot::Register { rows, .. } = slot {
        let (row, column) = position(place, rows, lane, word);
        stage[row].0[column] = value;
    } else {
        stage[PREDICATES].0[place as usize] |= (value & 1) << lane;
    }
}

fn staged_value(stage: &[Row], (slot, place): (CallSlot, u32), lane: u32, word: u32) -> u32 {
    if let CallSlot::Register { rows, .. } = slot {
        let (row, column) = position(place, rows, lane, word);
        stage[row].0[column]
    } else {
        stage[PREDICATES].0[place as usize] >> lane & 1
    }
}
