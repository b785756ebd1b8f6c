//! Places among recorded rungs: what the file to start from, the solution, and the rungs of a
//! ladder with the same problem cost by each goal.

use std::fmt;

use super::Goal;

/// Lines of exercise, metric, rung and value; `tests/all/exercise_files.rs` writes and checks them.
const RECORDS: &str = include_str!("records.tsv");

/// A place among the recorded rungs, by one goal's metric; prints as `place 2 of 13; reduce/shuffle
/// has 8`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// 1 is the best; who costs the same shares a place.
    pub place: usize,
    /// The recorded rungs and this attempt.
    pub of: usize,
    /// The cheapest recorded rung.
    pub best: &'static str,
    best_value: f64,
    goal: Goal,
}

impl Rank {
    /// The place of a value; `None` where nothing is recorded.
    pub(super) fn of(exercise: &str, goal: &Goal, value: f64) -> Option<Self> {
        let metric = goal.metric.to_string();
        let rungs: Vec<(&'static str, f64)> = RECORDS
            .lines()
            .filter_map(|line| {
                let [of, by, rung, value] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
                (of == exercise && by == metric).then_some((rung, value.parse().ok()?))
            })
            .collect();
        let (best, best_value) = *rungs.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let place = 1 + rungs.iter().filter(|(_, recorded)| *recorded < value).count();
        Some(Self { place, of: rungs.len() + 1, best, best_value, goal: *goal })
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, of, best, best_value, goal } = self;
        write!(f, "place {place} of {of}; {best} has {}", goal.metric.text(*best_value))
    }
}
