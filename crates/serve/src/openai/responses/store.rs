//! Conversations that answers may be continued by: the last ones, within a bound of bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

// THRESHOLD: a longer conversation is not kept, and of several the oldest make room; tested by
// crates/serve/src/openai/responses/store.rs::the_last_answers_are_kept_within_a_bound_of_bytes
/// Bytes of all that is kept.
const MOST_BYTES: usize = 64 << 20;

/// The last answers of everybody, each for those who hold the key that asked, which their salt
/// stands for.
#[derive(Debug)]
pub(crate) struct Stored {
    kept: Mutex<Kept>,
    most_bytes: usize,
}

impl Default for Stored {
    fn default() -> Self {
        Self::within(MOST_BYTES)
    }
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Entry>,
    num_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    id: String,
    salt: Arc<str>,
    /// What was said, the answer included.
    messages: Vec<Value>,
    object: Value,
    num_bytes: usize,
}

impl Stored {
    fn within(most_bytes: usize) -> Self {
        Self { kept: Mutex::default(), most_bytes }
    }

    pub(super) fn keep(&self, salt: &Arc<str>, id: &str, messages: Vec<Value>, object: Value) {
        // As text, which is near enough to what it takes.
        let num_bytes = object.to_string().len() + messages.iter().map(|m| m.to_string().len()).sum::<usize>();
        if num_bytes > self.most_bytes {
            return;
        }
        let entry = Entry { id: id.to_owned(), salt: salt.clone(), messages, object, num_bytes };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.num_bytes += num_bytes;
        kept.entries.push_back(entry);
        while kept.num_bytes > self.most_bytes {
            let Some(first) = kept.entries.pop_front() else { break };
            kept.num_bytes -= first.num_bytes;
        }
    }

    fn of<T>(&self, salt: &str, id: &str, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entries.iter().rev().find(|entry| entry.id == id && *entry.salt == *salt).map(read)
    }

    /// What was said up to an answer.
    pub(super) fn messages(&self, salt: &str, id: &str) -> Option<Vec<Value>> {
        self.of(salt, id, |entry| entry.messages.clone())
    }

    pub(super) fn object(&self, salt: &str, id: &str) -> Option<Value> {
        self.of(salt, id, |entry| entry.object.clone())
    }

    pub(super) fn delete(&self, salt: &str, id: &str) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.entries.iter().position(|entry| entry.id == id && *entry.salt == *salt);
        let entry = at.and_then(|at| kept.entries.remove(at));
        kept.num_bytes -= entry.as_ref().map_or(0, |entry| entry.num_bytes);
        entry.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answers_are_kept_within_a_bound_of_bytes() {
        let (stored, mine, other) = (Stored::within(100), Arc::from("mine"), Arc::from("other"));
        // As text, a quote stands on each side.
        let text = |len: usize| Value::from("x".repeat(len - 2));
        let is_kept = |id: &str| stored.object(&mine, id).is_some();
        stored.keep(&mine, "a", vec![text(20), text(10)], text(30));
        stored.keep(&mine, "b", vec![], text(40));
        assert!(is_kept("a") && is_kept("b") && stored.object(&other, "a").is_none(), "100 bytes");
        assert_eq!(stored.messages(&mine, "a"), Some(vec![text(20), text(10)]));
        stored.keep(&mine, "c", vec![], text(3));
        assert!(!is_kept("a") && is_kept("b") && is_kept("c"), "103 bytes are too many");
        stored.keep(&mine, "d", vec![], text(101));
        assert!(is_kept("b") && is_kept("c") && !is_kept("d"), "one that is too long makes no room");
        stored.keep(&mine, "e", vec![], text(100));
        assert!(!is_kept("b") && !is_kept("c") && is_kept("e"));
        assert!(!stored.delete(&other, "e") && stored.delete(&mine, "e") && !is_kept("e"));
        // What is deleted leaves its room.
        stored.keep(&mine, "f", vec![], text(50));
        stored.keep(&mine, "g", vec![], text(50));
        assert!(is_kept("f") && is_kept("g"));
    }
}
