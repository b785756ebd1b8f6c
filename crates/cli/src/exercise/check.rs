//! `warpfold exercise check`: judges a kernel in Rust, in PTX, or in CUDA C++.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use warpfold_device::{FindingKind, LaunchConfig, Severity};
use warpfold_ladders::exercise::{EXERCISES, Exercise, Judgement};

use super::progress::Progress;
use super::{file_of, named, next, rust};
use crate::Ending;
use crate::failure::Failure;
use crate::host;
use crate::output;

/// A kernel that is to be judged.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// An exercise, whose file in the folder is judged; or a file: Rust, PTX of any compiler, CUDA
    /// C++ where nvcc is installed, or Python where Triton is: its `solution` is the kernel, GRID a
    /// list of three numbers, NUM_WARPS 4 unless given. Its name is that of the exercise.
    subject: String,
    /// The exercise, where the file is not called so.
    #[arg(long, value_name = "NAME")]
    exercise: Option<String>,
    /// Blocks, as 4 or 4x4; of PTX and CUDA C++.
    #[arg(long, value_delimiter = 'x', num_args = 1, value_name = "X[xY[xZ]]")]
    grid: Vec<u32>,
    /// Threads per block, likewise.
    #[arg(long, value_delimiter = 'x', num_args = 1, value_name = "X[xY[xZ]]")]
    block: Vec<u32>,
    /// A warning that may pass, any number of times: warp_sync, invalid_sync or barrier_divergence.
    #[arg(long, value_name = "KIND", value_parser = warning)]
    allow: Vec<FindingKind>,
    /// A file with what the host issues, for an exercise with a plan; of PTX and CUDA C++.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// A checkout of warpfold, whose kernel language builds a kernel in Rust; unless given the one
    /// that this program was built from, or else the package of its version.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

/// A kernel as the judge takes it.
pub(crate) struct Built {
    pub(crate) ptx: String,
    pub(crate) entry: String,
    pub(crate) config: LaunchConfig,
    /// What the host issues, for an exercise that has a plan.
    pub(crate) plan: String,
}

impl Check {
    pub(super) fn run(&self, folder: &Path, progress: &mut Progress) -> Result<Ending, Failure> {
        let as_path = Path::new(&self.subject);
        let extension = as_path.extension().and_then(|extension| extension.to_str());
        let stem = as_path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let exercise =
            named(self.exercise.as_deref().unwrap_or(if extension.is_some() { stem } else { &self.subject }))?;
        let path = if extension.is_some() { as_path.to_owned() } else { file_of(folder, exercise) };
        if !host::is_file(&path) {
            let start = format!("`warpfold exercise start {}` writes the file to start from", exercise.name);
            return Err(Failure::usage(format!("{}: there is no such file; {start}", path.display())));
        }
        let built = match extension {
            Some("ptx") => self.foreign(read(&path)?)?,
            Some("cu") => self.foreign(nvcc(&path)?)?,
            Some("rs") | None => {
                if !self.grid.is_empty() || !self.block.is_empty() || self.plan.is_some() {
                    let sentence = "--grid, --block and --plan: a kernel in Rust has GRID, BLOCK and PLAN in its file";
                    return Err(Failure::usage(sentence));
                }
                rust::build(exercise.has_plan(), &path, folder, self.source.as_deref())?
            }
            Some("py") => triton_built(&path)?,
            Some(other) => return Err(Failure::usage(format!("a .{other} file: .rs, .ptx, .cu or .py is expected"))),
        };
        let mut judgement = exercise.judge_ptx(&built.ptx, &built.entry, built.config, &built.plan)?;
        judgement.allowed.clone_from(&self.allow);
        let is_passed = judgement.is_passed();
        progress.change(exercise.name, |state| {
            state.tries += 1;
            state.passed |= is_passed;
        })?;
        output::print(&text(exercise, &judgement, progress))?;
        Ok(if is_passed { Ending::Clean } else { Ending::Findings })
    }

    /// PTX of another compiler, with the launch that options say.
    fn foreign(&self, ptx: String) -> Result<Built, Failure> {
        let dims = |option: &str, given: &[u32]| match *given {
            [x] => Ok([x, 1, 1]),
            [x, y] => Ok([x, y, 1]),
            [x, y, z] => Ok([x, y, z]),
            _ => Err(Failure::usage(format!("{option} is needed of a kernel that is not in Rust, as 4, 4x4 or 4x4x4"))),
        };
        let config = LaunchConfig::new(dims("--grid", &self.grid)?, dims("--block", &self.block)?);
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_$".contains(c);
        let entries = ptx.split(".entry").skip(1).map(|rest| rest.trim_start().split(|c| !is_part(c)).next());
        let entries: Vec<String> = entries.flatten().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let [entry] = &entries[..] else {
            return Err(Failure::usage(format!(
                "one kernel is expected, not {}: {}",
                entries.len(),
                entries.join(", ")
            )));
        };
        let plan = self.plan.as_deref().map_or_else(|| Ok(String::new()), read)?;
        Ok(Built { entry: entry.clone(), ptx, config, plan })
    }
}

/// The warnings that fail a judgement unless they are allowed.
const WARNINGS: [FindingKind; 3] = [FindingKind::WarpSync, FindingKind::InvalidSync, FindingKind::BarrierDivergence];

fn warning(name: &str) -> Result<FindingKind, String> {
    let names = WARNINGS.map(FindingKind::name).join(", ");
    WARNINGS.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("one of {names} is expected"))
}

/// Formats the judgement and the next thing to do.
fn text(exercise: &Exercise, judgement: &Judgement, progress: &Progress) -> String {
    let mut text = judgement.to_string();
    for warning in judgement.findings.iter().filter(|finding| finding.severity == Severity::Warning) {
        text += &format!("  [!] {warning}\n");
    }
    if judgement.is_passed() {
        let place = EXERCISES.iter().position(|each| each.name == exercise.name).map_or(0, |place| place + 1);
        let after = EXERCISES[place..].iter().find(|each| !progress.of(each.name).passed).or_else(|| next(progress));
        text += &after.map_or_else(
            || "Every exercise is passed.\n".to_owned(),
            |after| format!("Next: warpfold exercise start {}\n", after.name),
        );
        return text;
    }
    let met = text.matches("  [x] ").count();
    let all = met + text.matches("  [ ] ").count();
    text + &format!("{met} of {all}. For the next thought: warpfold exercise hint {}\n", exercise.name)
}

fn read(path: &Path) -> Result<String, Failure> {
    host::read_to_string(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

/// Builds the `solution` of a file in Python.
pub(crate) fn triton_built(path: &Path) -> Result<Built, Failure> {
    let sentence = "GRID is expected to be a list of three numbers, and the file to print nothing";
    rust::parse(&triton(path)?).ok_or_else(|| Failure::usage(sentence))
}

/// The interpreter that `PYTHON` names, or python3.
pub(crate) fn python3() -> Command {
    Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()))
}

/// What Triton makes of a kernel in Python: name, launch, plan and PTX, as the program of a kernel
/// in Rust prints them.
fn triton(path: &Path) -> Result<String, Failure> {
    let mut command = python3();
    command.args(["-c", include_str!("triton_kernel.py")]).arg(path);
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|e| Failure::run(format!("python3: {e}; PTX can be judged without it")))?;
    if !output.status.success() {
        return Err(Failure::usage(format!("{} does not build", path.display())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The PTX that nvcc makes of CUDA C++, with its lines.
pub(crate) fn nvcc(path: &Path) -> Result<String, Failure> {
    let output = Command::new("nvcc").args(["-ptx", "-arch=sm_90", "-lineinfo", "-o", "-"]).arg(path).output();
    let output = output.map_err(|e| Failure::run(format!("nvcc: {e}; PTX can be judged without it")))?;
    if !output.status.success() {
        return Err(Failure::usage(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
