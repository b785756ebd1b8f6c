//! Exercises of the book: a problem, what a good solution costs at most, and a judge.
//!
//! An [`Exercise`] has data, what is right, and [`Goal`]s about counters. [`Exercise::judge`] runs
//! a kernel of yours on the virtual GPU under all checks, compares its result, and says which goals
//! it meets, and which place it takes among the recorded rungs ([`Rank`]). Where it is fast is for
//! a GPU to say; here nothing has a clock. `files/` has for each exercise a file to start from and
//! one that passes: what `warpfold exercise` gives, and text here; the tests build and judge them.

mod judgement;
mod list;
mod plan;
mod records;
mod run;
mod steps;
mod tiles;

use std::fmt;

use warpfold_device::{Device, Function, LaunchConfig};
use warpfold_kernels::AnyKernel;

pub use judgement::Judgement;
pub use list::EXERCISES;
pub use records::Rank;

use self::run::{Attempt, Host, Run};
use crate::ladder::{Arrays, Measured, Memory, Metric};
use crate::{Error, ErrorKind};

/// A problem to solve by one kernel.
#[derive(Debug)]
pub struct Exercise {
    /// Name in the book: `transpose`.
    pub name: &'static str,
    /// The problem in a sentence without its full stop.
    pub task: &'static str,
    /// Parameter of the kernel after its inputs and its output, as `u32`.
    pub n: u32,
    /// Bounds on the cost of a solution.
    pub goals: &'static [Goal],
    /// The next thoughts, one after the other.
    pub hints: &'static [&'static str],
    /// A file to start from: a kernel that runs, and is wrong or wasteful. Its function `solution`
    /// is the kernel, its constants `GRID` and `BLOCK` are the launch.
    pub start: &'static str,
    /// A file that passes.
    pub solution: &'static str,
    host: Host,
    problem: fn(u32) -> Arrays<f32>,
}

/// A bound for a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The bounded metric.
    pub metric: Metric,
    /// The most that it may be.
    pub at_most: f64,
}

/// `at most 16 barriers`
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} {}", self.metric.text(self.at_most), self.metric)
    }
}

impl Goal {
    const fn at_most(metric: Metric, at_most: f64) -> Self {
        Self { metric, at_most }
    }
}

/// The exercise of this name.
///
/// # Errors
/// [`ErrorKind::UnknownExercise`].
pub fn exercise(name: &str) -> Result<&'static Exercise, Error> {
    EXERCISES.iter().find(|exercise| exercise.name == name).ok_or_else(|| {
        let known = EXERCISES.iter().map(|exercise| exercise.name).collect::<Vec<_>>().join(", ");
        ErrorKind::UnknownExercise { name: name.to_owned(), known }.into()
    })
}

impl Exercise {
    /// Runs a kernel on the virtual GPU as an H200, under all checks, and judges it. The kernel
    /// takes each input, the output, and [`n`](Exercise::n).
    ///
    /// ```
    /// use warpfold_device::LaunchConfig;
    /// use warpfold_ladders::exercise::exercise;
    /// use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, thread_idx, when};
    ///
    /// let mine = kernel("mine", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
    ///     let i = block_idx().x * block_dim().x + thread_idx().x;
    ///     when(i.lt(n), || y.at(i).set(x.at(i).get() * 2.0));
    /// });
    /// let twice = exercise("twice")?;
    /// let judgement = twice.judge(mine, LaunchConfig::for_elements(twice.n as usize, 256))?;
    /// assert!(!judgement.is_passed()); // right, but it loads 4 bytes at a time
    /// println!("{judgement}");
    /// # Ok::<(), warpfold_ladders::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the kernel cannot be built, or does not take what the exercise gives. What goes wrong
    /// while it runs is part of the judgement.
    pub fn judge(&self, kernel: impl Into<AnyKernel>, config: LaunchConfig) -> Result<Judgement, Error> {
        self.judge_plan(kernel, config, "")
    }

    /// Variant of [`Exercise::judge`] for an exercise [with a plan](Exercise::has_plan): what the
    /// host issues, as `files/streams_start.rs` says.
    ///
    /// # Errors
    /// As [`Exercise::judge`]; a plan that cannot be read is part of the judgement.
    pub fn judge_plan(
        &self,
        kernel: impl Into<AnyKernel>,
        config: LaunchConfig,
        plan: &str,
    ) -> Result<Judgement, Error> {
        let kernel = kernel.into();
        self.judged(&|device| kernel.prepare(device), config, plan)
    }

    /// Variant of [`Exercise::judge`] for PTX that was compiled elsewhere: the kernel of this name
    /// in it, and the plan of an exercise that has one.
    ///
    /// # Errors
    /// As [`Exercise::judge`], and for PTX that the virtual GPU does not load.
    pub fn judge_ptx(&self, ptx: &str, entry: &str, config: LaunchConfig, plan: &str) -> Result<Judgement, Error> {
        self.judged(&|device| device.load(ptx)?.kernel(entry), config, plan)
    }

    /// Returns whether a solution has a plan beside its kernel: what the host issues to streams.
    #[must_use]
    pub const fn has_plan(&self) -> bool {
        matches!(self.host, Host::Plan { .. })
    }

    /// Returns the number of inputs, which precede the output.
    #[must_use]
    pub fn num_inputs(&self) -> usize {
        (self.problem)(self.n).inputs.len()
    }

    fn judged(
        &self,
        prepare: &dyn Fn(&Device) -> Result<Function, warpfold_device::Error>,
        config: LaunchConfig,
        plan: &str,
    ) -> Result<Judgement, Error> {
        let attempt = Attempt { prepare, config, n: self.n };
        let Run { result, reports, steps } = self.host.run(&(self.problem)(self.n), &attempt, plan)?;
        let findings = reports.iter().flat_map(|launch| launch.report.findings.iter().cloned()).collect();
        let counters = reports.iter().map(|launch| launch.report.counters).fold(Default::default(), |a, b| a + b);
        let blocks = config.grid.iter().map(|n| u64::from(*n)).product();
        let measured = Measured { counters, blocks, steps, memory: Memory::default() };
        let goals = self.goals.iter().map(|goal| (*goal, goal.metric.of(&measured))).collect();
        Ok(Judgement { exercise: self.name, result, findings, goals, allowed: Vec::new() })
    }
}

impl Arrays<f32> {
    /// Nothing, or where a result is furthest from what it should be.
    fn compare(&self, output: &[f32]) -> Result<(), String> {
        let wrong = |(a, b): (&f32, &f32)| {
            let difference = f64::from((a - b).abs());
            difference.is_nan() || difference > self.tolerance
        };
        let first = output.iter().zip(&self.expected).position(wrong);
        match first {
            None => Ok(()),
            Some(i) => Err(format!("element {i} is {}, and should be {}", output[i], self.expected[i])),
        }
    }
}
