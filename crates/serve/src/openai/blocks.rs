//! An answer as a row of blocks: reasoning, text, calls. Interfaces whose streams open and close
//! each block write them from here.

use warpfold_models::Piece;

use super::message::Reading;

/// A block so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Reasoning(String),
    Text(String),
    Call { id: String, name: String, arguments: String },
}

/// What happens to a block, by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Open(usize),
    Add(usize, String),
    Close(usize),
}

/// The blocks of an answer, of which the last one may be open.
#[derive(Debug)]
pub(crate) struct Blocks {
    reading: Reading,
    pub(crate) all: Vec<Block>,
}

impl Blocks {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { reading, all: Vec::new() }
    }

    pub(crate) fn num_calls(&self) -> usize {
        self.reading.num_calls()
    }

    /// Adds text of the answer.
    pub(crate) fn read(&mut self, text: &str, is_over: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for piece in self.reading.pieces(text, is_over) {
            let (begun, more) = match piece {
                Piece::Content(text) => (Block::Text(String::new()), text),
                Piece::Reasoning(text) => (Block::Reasoning(String::new()), text),
                Piece::Call { number, name } => {
                    let id = self.reading.call_id(number);
                    self.open(Block::Call { id, name, arguments: String::new() }, &mut changes);
                    continue;
                }
                Piece::Arguments { json, .. } => {
                    self.add(json, &mut changes);
                    continue;
                }
            };
            let is_same =
                self.all.last().is_some_and(|last| std::mem::discriminant(last) == std::mem::discriminant(&begun));
            if !is_same {
                self.open(begun, &mut changes);
            }
            self.add(more, &mut changes);
        }
        if is_over {
            if self.all.is_empty() {
                self.open(Block::Text(String::new()), &mut changes);
            }
            changes.push(Change::Close(self.all.len() - 1));
        }
        changes
    }

    fn open(&mut self, block: Block, changes: &mut Vec<Change>) {
        if !self.all.is_empty() {
            changes.push(Change::Close(self.all.len() - 1));
        }
        changes.push(Change::Open(self.all.len()));
        self.all.push(block);
    }

    fn add(&mut self, more: String, changes: &mut Vec<Change>) {
        let number = self.all.len().saturating_sub(1);
        if let Some(Block::Reasoning(text) | Block::Text(text) | Block::Call { arguments: text, .. }) =
            self.all.last_mut()
        {
            text.push_str(&more);
            changes.push(Change::Add(number, more));
        }
    }
}
