//! The exercise of the book's chapter on serving: settings of an engine, and their judge.
//!
//! The job is the ladder's, the model is scripted, and so nothing here has a clock: what settings
//! cost is counted in steps, rows and slots. Any [`Config`] may be tried; whatever it says, answers
//! must be those of serving one request at a time without a cache.

use std::fmt;

use crate::config::{Allocator, Config, Policy};
use crate::error::Error;
use crate::ladder::{Answers, Outcome, Rung, mixed_job, run};
use crate::scripted::Scripted;

/// The task, in a sentence without its full stop.
pub const TASK: &str = "Serve 64 requests of mixed lengths, of up to 256 tokens each, from a cache of 1,024 slots";

const MAX_LEN: usize = 256;
const REQUESTS: u32 = 64;
const SEED: u64 = 7;

/// A bound, and what the settings reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The quantity.
    pub of: &'static str,
    /// The most that it may be.
    pub at_most: f64,
    /// The value reached.
    pub reached: f64,
}

impl Goal {
    /// Returns whether the value is within the bound.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.reached <= self.at_most
    }
}

/// The judgement of some settings; prints itself line by line.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Every answer equals that of the same request served alone.
    pub is_right: bool,
    /// Each goal.
    pub goals: Vec<Goal>,
    /// Everything that was counted.
    pub outcome: Outcome,
}

impl Judgement {
    /// Returns whether the answers are right and every goal is met.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.is_right && self.goals.iter().all(Goal::is_met)
    }
}

/// A line each for answers and goals: `[x]` where it is as it should be.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |is_met| if is_met { "[x]" } else { "[ ]" };
        writeln!(f, "share: {}", if self.is_passed() { "passed" } else { "not yet" })?;
        writeln!(f, "  {} the answers are right", mark(self.is_right))?;
        for goal in &self.goals {
            writeln!(f, "  {} at most {} {}: {}", mark(goal.is_met()), goal.at_most, goal.of, rounded(goal.reached))?;
        }
        Ok(())
    }
}

/// A count as it is, a share with one digit after the point.
fn rounded(value: f64) -> String {
    if value.fract() == 0.0 { value.to_string() } else { format!("{value:.1}") }
}

/// Serves the job with these settings, and counts.
///
/// ```
/// use warpfold_engine::exercise::judge;
/// use warpfold_engine::{Allocator, Config, Policy};
///
/// let mine = Config {
///     policy: Policy::Orca,
///     allocator: Allocator::Contiguous,
///     block_size: 16,
///     num_blocks: 64,
///     budget: 512,
///     ..Config::default()
/// };
/// let judgement = judge(&mine)?;
/// assert!(judgement.is_right && !judgement.is_passed());
/// println!("{judgement}");
/// # Ok::<(), warpfold_engine::Error>(())
/// ```
///
/// # Errors
/// If no engine can be made of the settings, or a request does not fit them.
pub fn judge(config: &Config) -> Result<Judgement, Error> {
    let (outcome, answers) = served(config)?;
    let goal = |of, at_most, reached| Goal { of, at_most, reached };
    let held = outcome.slots.filled + outcome.slots.reserved + outcome.slots.internal;
    let goals = vec![
        goal("slots", 1024.0, (config.block_size * config.num_blocks) as f64),
        goal("blocks in the table of the longest request", 64.0, MAX_LEN.div_ceil(config.block_size) as f64),
        goal("rows in a step", 128.0, outcome.most_rows as f64),
        goal("steps", 360.0, outcome.steps as f64),
        goal("steps to a first token", 240.0, outcome.steps_to_first_token.1 as f64),
        goal("% of the slots held never used", 1.0, 100.0 * outcome.slots.internal / held),
    ];
    Ok(Judgement { is_right: answers == served(&alone())?.1, goals, outcome })
}

/// One request at a time, without a cache.
fn alone() -> Config {
    let config = Config { policy: Policy::Static, allocator: Allocator::Naive, kv_cache: false, ..Config::default() };
    Config { max_seqs: 1, ..config }
}

fn served(config: &Config) -> Result<(Outcome, Answers), Error> {
    let model = Scripted::new(64, MAX_LEN);
    let job = mixed_job(&crate::Model::limits(&model), REQUESTS, SEED);
    let config = Config { trace: true, ..config.clone() };
    run(model, &job, &Rung { name: "mine", change: "", config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_fit_nothing_are_an_error_that_names_them() {
        let error = judge(&Config { block_size: 0, ..Config::default() }).expect_err("of nothing").to_string();
        assert!(error.starts_with("--block-size"), "{error}");
        let error = judge(&Config { max_len: Some(20), ..Config::default() }).expect_err("too short").to_string();
        assert!(error.contains("20"), "{error}");
    }

    fn solution() -> Config {
        Config { block_size: 4, num_blocks: 256, budget: 128, ..Config::default() }
    }

    #[test]
    fn each_idea_is_needed_to_pass() {
        let passes = |config: &Config| judge(config).expect("it serves").is_passed();
        assert!(passes(&solution()));
        let without = [
            Config { policy: Policy::Orca, budget: 256, ..solution() },
            Config { policy: Policy::VllmV0, budget: 256, ..solution() },
            Config { allocator: Allocator::Naive, ..solution() },
            Config { allocator: Allocator::Contiguous, ..solution() },
            Config { block_size: 2, num_blocks: 512, ..solution() },
            Config { block_size: 16, num_blocks: 64, ..solution() },
            Config { budget: 512, ..solution() },
            Config { budget: 32, ..solution() },
        ];
        for config in without {
            assert!(!passes(&config), "{config:?}");
        }
    }

    #[test]
    fn a_cache_that_is_too_large_does_not_pass() {
        let judgement = judge(&Config { block_size: 4, num_blocks: 4096, budget: 128, ..Config::default() });
        let judgement = judgement.expect("it serves");
        assert!(judgement.is_right && !judgement.is_passed());
        assert!(judgement.to_string().contains("[ ] at most 1024 slots: 16384\n"), "{judgement}");
    }
}
