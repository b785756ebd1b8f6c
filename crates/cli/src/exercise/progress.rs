//! Attempts, passes and hints of each exercise, in a file beside the exercises.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::host;

/// One exercise.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// Number of kernels judged.
    pub(super) tries: u32,
    /// Set once an attempt has passed.
    pub(super) passed: bool,
    /// Number of hints shown.
    pub(super) hints: usize,
}

/// All exercises of a folder.
#[derive(Debug)]
pub(super) struct Progress {
    path: PathBuf,
    states: BTreeMap<String, State>,
}

impl Progress {
    /// Nothing where there is no file.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(".warpfold/progress.json");
        let refused = |e: &dyn std::fmt::Display| Failure::usage(format!("{}: {e}", path.display()));
        let states = match host::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| refused(&e))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(refused(&e)),
        };
        Ok(Self { path, states })
    }

    pub(super) fn of(&self, exercise: &str) -> State {
        self.states.get(exercise).copied().unwrap_or_default()
    }

    /// Changes what is known of an exercise, and writes it.
    pub(super) fn change(&mut self, exercise: &str, change: impl FnOnce(&mut State)) -> Result<(), Failure> {
        change(self.states.entry(exercise.to_owned()).or_default());
        let failed = |e: std::io::Error| Failure::usage(format!("{}: {e}", self.path.display()));
        if let Some(folder) = self.path.parent() {
            host::create_dir_all(folder).map_err(failed)?;
        }
        let text = serde_json::to_string_pretty(&self.states).expect("numbers and names");
        host::write(&self.path, text + "\n").map_err(failed)
    }
}
