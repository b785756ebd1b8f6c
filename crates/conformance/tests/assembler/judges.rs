//! The two judges: ptxas, and our own loader.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpfold_ptx::Instruction;
use warpfold_sim::{Arch, Error, Memory, Program};

use super::forms::{Target, program};

/// What a judge says of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is PTX.
    Taken,
    /// It is none, and why.
    Refused(String),
    /// It may be, but is not executed here.
    Unsupported(String),
}

/// NVIDIA's assembler.
pub(crate) struct Ptxas {
    path: PathBuf,
    files: AtomicUsize,
}

impl Ptxas {
    /// The one that `PTXAS` names.
    pub(crate) fn named() -> Option<Self> {
        let path = std::env::var_os("PTXAS")?;
        Some(Self { path: path.into(), files: AtomicUsize::new(0) })
    }

    /// The errors that it reports, each with its line.
    pub(crate) fn errors(&self, text: &str) -> Result<(), Vec<(usize, String)>> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("warpfold-assembler-{}-{number}.ptx", std::process::id()));
        std::fs::write(&file, text).expect("the temporary folder can be written");
        let output = Command::new(&self.path)
            .args(["--gpu-name", "sm_90a", "--output-file", "/dev/null"])
            .arg(&file)
            .output()
            .unwrap_or_else(|error| panic!("PTXAS is set to {}: {error}", self.path.display()));
        std::fs::remove_file(&file).expect("the temporary file is ours");
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr);
        let mut errors = Vec::new();
        for line in log.lines() {
            let Some((_, rest)) = line.split_once(", line ") else { continue };
            let Some((number, message)) = rest.split_once("; ") else { continue };
            if let Ok(number) = number.parse::<usize>()
                && !message.starts_with("warning")
                && !message.starts_with("info")
            {
                errors.push((number, message.to_owned()));
            }
        }
        if errors.is_empty() {
            errors.push((0, log.into_owned()));
        }
        Err(errors)
    }

    /// What it says of one text.
    pub(crate) fn verdict(&self, text: &str) -> Verdict {
        match self.errors(text) {
            Ok(()) => Verdict::Taken,
            Err(errors) => Verdict::Refused(errors[0].1.clone()),
        }
    }

    /// What it says of each of these instructions. Many stand in one file, whose errors name their
    /// lines; those are taken out until the rest passes.
    pub(crate) fn verdicts(&self, target: Target, instructions: &[&Instruction]) -> Vec<Verdict> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; instructions.len()];
        loop {
            let left: Vec<usize> = (0..instructions.len()).filter(|&n| verdicts[n].is_none()).collect();
            if left.is_empty() {
                break;
            }
            let (text, first) = program(target, &left.iter().map(|&n| instructions[n]).collect::<Vec<_>>());
            let Err(errors) = self.errors(&text) else {
                left.iter().for_each(|&n| verdicts[n] = Some(Verdict::Taken));
                break;
            };
            let mut found = false;
            for (line, message) in errors {
                if let Some(&n) = line.checked_sub(first).and_then(|at| left.get(at)) {
                    found = true;
                    verdicts[n].get_or_insert(Verdict::Refused(message));
                }
            }
            if !found {
                for n in left {
                    verdicts[n] = Some(self.verdict(&program(target, &[instructions[n]]).0));
                }
                break;
            }
        }
        verdicts.into_iter().map(|verdict| verdict.expect("each has been judged")).collect()
    }
}

/// What the virtual GPU's loader says.
pub(crate) fn ours(text: &str) -> Verdict {
    let memory = Memory::new(1 << 24);
    let loaded = std::panic::catch_unwind(|| Program::load(&memory, text, Arch::SM_90A));
    match loaded.unwrap_or_else(|_| panic!("the loader panics for:\n{text}")) {
        Ok(_) => Verdict::Taken,
        Err(error @ Error::Unsupported { .. }) => Verdict::Unsupported(error.to_string()),
        Err(error) => Verdict::Refused(error.to_string()),
    }
}
