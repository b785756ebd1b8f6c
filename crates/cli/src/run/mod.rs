//! `run`: an operator on arrays in files, or many of them from a list.

mod batch;
mod checks;
mod command;
mod list;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use warpfold::Queue;
use warpfold_device::{Counters, LaunchConfig, LaunchReport};

use crate::failure::Failure;
use crate::progress::Progress;
use crate::sim::Check;
use crate::table::{Table, grouped, wrapped};
use crate::{Ending, device_choice, output, profile};
use command::Command;

/// Runs an operator on .npy files.
///
/// Example: warpfold run sum x.npy -o y.npy --axes 0,-1 --keepdims. Exit codes: 0 done, 1 a line of
/// a batch failed or a check found an error, 2 bad input, 4 a run failed.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    command: Command,
    /// List the operators with their inputs, outputs and options.
    #[arg(long, conflicts_with = "batch")]
    list: bool,
    /// Run the commands of a file, one JSON object a line, such as `{"op": "sum", "inputs":
    /// ["x.npy"], "outputs": ["y.npy"], "axes": [0]}`, options under their names here. Each gives a
    /// line of its result, such as `{"ok": true}`.
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    /// virtual, virtual:h200, virtual:a100 or cuda:N; unless given what WARPFOLD_DEVICE says, or
    /// the best there is.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Print the L1 hit rate of each kernel, counted in a model of the cache; needs the virtual GPU.
    #[arg(long)]
    l1: bool,
    /// Checks to run; all needs the virtual GPU, and prints the findings of each launch.
    #[arg(long, default_value = "none")]
    check: Check,
    #[command(flatten)]
    profile: profile::Options,
}

impl Run {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        if (self.list || self.batch.is_some()) && self.command != Command::default() {
            let alone = if self.list { "--list" } else { "--batch" };
            return Err(Failure::usage(format!("{alone} takes no operator, no files and no options of one")));
        }
        if self.list && (self.profile.is_any() || self.l1 || self.check != Check::None) {
            return Err(Failure::usage("--list runs nothing that --profile, --l1 or --check could look at"));
        }
        if self.list {
            return list::print();
        }
        match &self.batch {
            Some(file) => {
                let lines = batch::read(file)?;
                self.profiled(|queue| batch::run(&lines, queue))
            }
            None => {
                let prepared = self.command.prepare()?;
                self.profiled(|queue| prepared.run(queue).map(|()| Ending::Clean))
            }
        }
    }

    /// Runs on the device, checks and records it if that is asked for.
    fn profiled(&self, work: impl FnOnce(&Queue) -> Result<Ending, Failure>) -> Result<Ending, Failure> {
        let queue = self.queue()?;
        if self.check != Check::None {
            queue.device().set_checks(self.check.into())?;
        }
        if self.l1 {
            queue.device().configure(|options| options.l1 = true)?;
        }
        self.profile.start(queue.device())?;
        let progress = Progress::lines();
        progress.begin(self.command.op().map_or_else(|| "batch".to_owned(), str::to_owned));
        if queue.device().is_virtual() {
            let watcher = progress.clone();
            queue.device().configure(|options| {
                options.progress = Some(Arc::new(move |done, all| watcher.show(done, all)));
            })?;
        }
        let result = work(&queue);
        progress.end();
        let is_checked = self.check != Check::None;
        let reports = if is_checked || self.l1 { queue.device().take_reports() } else { Vec::new() };
        let found = checks::found(&reports);
        if is_checked {
            output::print(&found.text)?;
        }
        let result = result?;
        if self.l1 {
            output::print(&l1_table(&reports).render())?;
        }
        self.profile.finish_and_print(queue.device())?;
        if self.profile.is_printed() {
            output::print(&plans(&queue))?;
        }
        Ok(if is_checked && found.has_errors { Ending::Findings } else { result })
    }

    /// The device that is named, if one is.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Runs the operator on a queue; outputs may be left out.
    pub(crate) fn advised(&self, queue: &Queue) -> Result<(), Failure> {
        if self.list || self.batch.is_some() {
            return Err(Failure::usage("advise takes one operator, no --list and no --batch"));
        }
        self.command.prepare_for_counts()?.run(queue)
    }

    fn queue(&self) -> Result<Queue, Failure> {
        Ok(Queue::of(&device_choice::open(self.device.as_deref())?))
    }
}

/// Formats what was chosen for each problem, and its launches.
fn plans(queue: &Queue) -> String {
    let mut text = String::from("\nplan, then each launch: kernel, grid, block\n");
    for plan in queue.plans() {
        text += &wrapped(&format!("{}: {}", plan.operator, plan.choice), "  ");
        for step in &plan.steps {
            let LaunchConfig { grid: [x, y, z], block: [bx, by, bz], .. } = step.config;
            text += &format!("    {}  {x} x {y} x {z}  {bx} x {by} x {bz}\n", step.kernel.name());
        }
    }
    text
}

/// Formats the L1 hit rates of each kernel, in the order of first launches.
fn l1_table(launches: &[LaunchReport]) -> Table {
    let mut kernels: Vec<(&str, u64, Counters)> = Vec::new();
    for launch in launches {
        let (name, counters) = (launch.kernel.as_str(), launch.report.counters);
        match kernels.iter_mut().find(|(kernel, ..)| *kernel == name) {
            Some((_, num, all)) => (*num, *all) = (*num + 1, *all + counters),
            None => kernels.push((name, 1, counters)),
        }
    }
    let mut table = Table::new(["kernel", "launches", "L1 sectors", "found", "L1 hit rate"]);
    for (name, num, counters) in kernels {
        let rate = counters.l1_hit_rate().map_or_else(|| "-".to_owned(), |rate| format!("{:.2} %", rate * 100.0));
        table.row([
            name.to_owned(),
            grouped(num),
            grouped(counters.l1_sectors),
            grouped(counters.l1_hit_sectors),
            rate,
        ]);
    }
    table
}
