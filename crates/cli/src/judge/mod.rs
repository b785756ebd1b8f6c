//! `warpfold judge`: a kernel beside its reference, on cases drawn after it was handed in.

mod compare;
mod expression;
mod launch;
mod mcp;
mod reference;
mod task;
mod verdict;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use warpfold_device::LaunchConfig;
use warpfold_sim::{Arch, Memory, Program, predict::Machine};

use crate::Ending;
use crate::exercise::check::{Built, nvcc, triton_built};
use crate::exercise::rust;
use crate::failure::Failure;
use crate::host;
use crate::output;
use task::Task;

/// Judges a kernel that anybody, or a program, wrote: is it right, element by element, what do all
/// checks find, does it cheat, and what would it cost. One JSON object says it.
///
/// The task (TOML or JSON) names the kernel (PTX, CUDA C++, Triton or Rust), its launch, its
/// arguments and a reference in NumPy or PyTorch, which python3 runs (PYTHON names another). The
/// task's own code is trusted: judge strangers' references and Python kernels in a sandbox. Exit
/// codes: 0 right and clean, 1 wrong or findings or tricks, 2 bad usage, 3 PTX that is not
/// supported, 4 a run that failed.
#[derive(Debug, Args)]
pub(crate) struct Judge {
    /// The task; files that it names are looked for beside it.
    #[arg(value_name = "TASK", required_unless_present = "mcp")]
    task: Option<PathBuf>,
    /// The kernel, in place of the task's.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Seed of hidden sizes and values; unless given it is drawn, and the verdict names it.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// The GPU whose time is predicted: h100, h200, h200:cold.
    #[arg(long, value_name = "GPU", default_value = "h100")]
    predict: Machine,
    /// Serve the Model Context Protocol on standard input and output: one tool, `judge`.
    #[arg(long, conflicts_with_all = ["task", "kernel"])]
    mcp: bool,
}

impl Judge {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let Some(path) = &self.task else { return mcp::serve(self) };
        let mut task = Task::read(path)?;
        if let Some(kernel) = &self.kernel {
            // As it stands, not beside the task.
            task.kernel = Some(std::path::absolute(kernel).map_err(Failure::usage)?);
            task.ptx = None;
        }
        let verdict = self.judged(&task, path.parent().unwrap_or(Path::new("")))?;
        output::print(&(serde_json::to_string_pretty(&verdict).expect("numbers and strings") + "\n"))?;
        Ok(if verdict["passed"] == true { Ending::Clean } else { Ending::Findings })
    }

    /// Judges a task, whose files are in a folder.
    fn judged(&self, task: &Task, folder: &Path) -> Result<Value, Failure> {
        let built = built(task, folder)?;
        let drawn = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let seed = self.seed.unwrap_or_else(drawn);
        let cases = task.cases(seed);
        let mut contents = Vec::new();
        for case in &cases {
            let of_case = task.args.iter().enumerate().map(|(at, arg)| arg.content(case, at));
            contents.push(of_case.collect::<Result<Vec<_>, _>>()?);
        }
        let is_file = [".py", ".npy"].iter().any(|end| task.reference.ends_with(end));
        let reference =
            if is_file { folder.join(&task.reference).display().to_string() } else { task.reference.clone() };
        let expected = reference::expected(task, &cases, &contents, &reference)?;
        let mut verdict = verdict::judge(task, &built, &cases, &contents, &expected, &self.predict)?;
        verdict["seed"] = json!(seed);
        Ok(verdict)
    }
}

/// The kernel of a task as PTX.
fn built(task: &Task, folder: &Path) -> Result<Built, Failure> {
    let file = task.kernel.as_ref().map(|kernel| folder.join(kernel));
    let ptx = match &file {
        None => task.ptx.clone().unwrap_or_default(),
        Some(file) => match file.extension().and_then(|end| end.to_str()) {
            Some("ptx") => {
                host::read_to_string(file).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?
            }
            Some("cu") => nvcc(file)?,
            Some("py") => return triton_built(file),
            Some("rs") => return rust::build(false, file, folder, None),
            _ => return Err(Failure::usage(format!("{}: .ptx, .cu, .py or .rs is expected", file.display()))),
        },
    };
    let memory = Memory::new(1 << 32);
    let program = Program::load(&memory, &ptx, Arch::SM_90A)?;
    let entry = crate::sim::entry::find(&program, task.entry.as_deref())?;
    // A kernel may say how many threads a block has; the task says it otherwise.
    let block = match (entry.required_block, task.block.is_empty()) {
        (Some(block), _) => block,
        (None, false) => [1; 3],
        (None, true) => return Err(Failure::usage("task: block is needed")),
    };
    let (entry, config) = (entry.name.clone(), LaunchConfig::new([1; 3], block));
    Ok(Built { entry, config, plan: String::new(), ptx })
}
