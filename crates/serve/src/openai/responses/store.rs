//! Conversations that answers may be continued by: the last ones, within a bound of bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::share::Tenant;

/// Bytes of all that is kept.
const MOST_BYTES: usize = 64 << 20;

/// The last answers of everybody, each for those who hold the key that asked.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Entry>,
    num_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    id: String,
    salt: std::sync::Arc<str>,
    /// What was said, the answer included.
    messages: Vec<Value>,
    object: Value,
    num_bytes: usize,
}

impl Stored {
    pub(super) fn keep(&self, tenant: &Tenant, id: &str, messages: Vec<Value>, object: Value) {
        // As text, which is near enough to what it takes.
        let num_bytes = object.to_string().len() + messages.iter().map(|m| m.to_string().len()).sum::<usize>();
        if num_bytes > MOST_BYTES {
            return;
        }
        let entry = Entry { id: id.to_owned(), salt: tenant.salt.clone(), messages, object, num_bytes };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.num_bytes += num_bytes;
        kept.entries.push_back(entry);
        while kept.num_bytes > MOST_BYTES {
            let Some(first) = kept.entries.pop_front() else { break };
            kept.num_bytes -= first.num_bytes;
        }
    }

    fn of<T>(&self, tenant: &Tenant, id: &str, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entries.iter().rev().find(|entry| entry.id == id && entry.salt == tenant.salt).map(read)
    }

    /// What was said up to an answer.
    pub(super) fn messages(&self, tenant: &Tenant, id: &str) -> Option<Vec<Value>> {
        self.of(tenant, id, |entry| entry.messages.clone())
    }

    pub(super) fn object(&self, tenant: &Tenant, id: &str) -> Option<Value> {
        self.of(tenant, id, |entry| entry.object.clone())
    }

    pub(super) fn delete(&self, tenant: &Tenant, id: &str) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.entries.iter().position(|entry| entry.id == id && entry.salt == tenant.salt);
        let entry = at.and_then(|at| kept.entries.remove(at));
        kept.num_bytes -= entry.as_ref().map_or(0, |entry| entry.num_bytes);
        entry.is_some()
    }
}
