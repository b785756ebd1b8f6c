//! Finding blocks by what they hold: an exact trie over full blocks of tokens.
//!
//! An entry is found by its parent and its tokens, which Rust compares as a whole, so there is no
//! hash to trust (vLLM V1 trusts SHA-256; engines that trust 64 bits have served one user's prefix
//! to another). The number of a node is never given twice: when a parent is evicted its children
//! can no longer be reached, and nothing else happens.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::BlockId;

/// The prefix before a block.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Parent {
    /// Nothing. Sequences with different salts or adapters share no prefix.
    Root { salt: Arc<str>, adapter: Option<u64> },
    /// The block of this node.
    Node(u64),
}

/// Content of a block.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    parent: Parent,
    tokens: Arc<[u32]>,
}

/// A change of the blocks that can be hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrefixChange {
    /// A block can be hit by its key: what comes before it, and its tokens.
    Entered {
        /// The block.
        block: BlockId,
        /// The number of this entry, which keys of later blocks name.
        node: u64,
        /// The entry of the block before; none at the beginning of a sequence.
        after: Option<u64>,
        /// Its tokens.
        tokens: Arc<[u32]>,
    },
    /// A block was given out for something else, or is written to.
    Evicted {
        /// The block.
        block: BlockId,
        /// Its entry.
        node: u64,
    },
}

impl fmt::Display for PrefixChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicted { block, node } => write!(f, "evict    block {block}: entry {node}"),
            Self::Entered { block, node, after, tokens } => {
                write!(f, "enter    block {block}: entry {node}, key ")?;
                match after {
                    None => f.write_str("(start, [")?,
                    Some(after) => write!(f, "(entry {after}, [")?,
                }
                let shown = tokens.iter().take(8).map(u32::to_string).collect::<Vec<_>>().join(" ");
                write!(f, "{shown}{}])", if tokens.len() > 8 { " …" } else { "" })
            }
        }
    }
}

impl Key {
    pub(crate) fn new(parent: Parent, tokens: &[u32]) -> Self {
        Self { parent, tokens: tokens.into() }
    }
}

/// A block that holds what was looked for, and the parent of what comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) block: BlockId,
    pub(crate) node: u64,
}

/// The blocks that can be hit.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrefixIndex {
    entries: HashMap<Key, Hit>,
    last_node: u64,
    /// Entries and evictions since [`Self::begin_changes`], if somebody wants them.
    changes: Option<Vec<PrefixChange>>,
}

impl PrefixIndex {
    /// The block that holds `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<Hit> {
        self.entries.get(key).copied()
    }

    /// Enters a block under a key that has none yet, and returns its node.
    pub(crate) fn insert(&mut self, key: Key, block: BlockId) -> u64 {
        self.last_node += 1;
        if let Some(changes) = &mut self.changes {
            let after = match &key.parent {
                Parent::Root { .. } => None,
                Parent::Node(node) => Some(*node),
            };
            let (node, tokens) = (self.last_node, key.tokens.clone());
            changes.push(PrefixChange::Entered { block, node, after, tokens });
        }
        let before = self.entries.insert(key, Hit { block, node: self.last_node });
        assert!(before.is_none(), "two blocks stand in the index for one prefix: {before:?} and {block}");
        self.last_node
    }

    /// Forgets a block.
    pub(crate) fn remove(&mut self, key: &Key) {
        let Hit { block, node } = self.entries.remove(key).expect("a block with a key is in the index");
        self.changes.iter_mut().for_each(|changes| changes.push(PrefixChange::Evicted { block, node }));
    }

    /// Entries and evictions since [`Self::begin_changes`], in order; none if nobody wants them.
    pub(crate) fn changes(&self) -> &[PrefixChange] {
        self.changes.as_deref().unwrap_or_default()
    }

    /// Begins an empty list of changes, or keeps none.
    pub(crate) fn begin_changes(&mut self, is_wanted: bool) {
        self.changes = is_wanted.then(Vec::new);
    }

    /// Returns the number of blocks that can be hit.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(salt: &str) -> Parent {
        Parent::Root { salt: salt.into(), adapter: None }
    }

    #[test]
    fn a_block_is_found_under_its_parent_and_salt_only() {
        let mut index = PrefixIndex::default();
        let node = index.insert(Key::new(root("a"), &[1, 2]), 7);
        let child = index.insert(Key::new(Parent::Node(node), &[1, 2]), 8);
        assert_eq!(index.get(&Key::new(root("a"), &[1, 2])), Some(Hit { block: 7, node }));
        assert_eq!(index.get(&Key::new(Parent::Node(node), &[1, 2])), Some(Hit { block: 8, node: child }));
        assert_eq!(index.get(&Key::new(root("b"), &[1, 2])), None);
        let adapted = Parent::Root { salt: "a".into(), adapter: Some(0) };
        assert_eq!(index.get(&Key::new(adapted, &[1, 2])), None);
        assert_eq!(index.get(&Key::new(root("a"), &[1, 3])), None);
    }

    #[test]
    fn a_child_of_an_evicted_parent_is_out_of_reach_even_when_the_parent_comes_back() {
        let mut index = PrefixIndex::default();
        let first = index.insert(Key::new(root(""), &[1]), 1);
        index.insert(Key::new(Parent::Node(first), &[2]), 2);
        index.remove(&Key::new(root(""), &[1]));
        let again = index.insert(Key::new(root(""), &[1]), 3);
        assert_eq!(index.get(&Key::new(Parent::Node(again), &[2])), None);
        assert_eq!(index.len(), 2);
    }
}
