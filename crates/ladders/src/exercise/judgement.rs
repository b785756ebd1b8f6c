//! The judge's output.

use std::fmt;

use warpfold_device::{Finding, FindingKind, Severity};

use super::{Goal, Rank};

/// Result of an attempt; prints itself line by line.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The exercise.
    pub exercise: &'static str,
    /// Nothing, or what is wrong with the result.
    pub result: Result<(), String>,
    /// Broken rules that the checks found.
    pub findings: Vec<Finding>,
    /// Each goal with what the attempt costs.
    pub goals: Vec<(Goal, f64)>,
    /// Kinds of warnings that may pass, for who knows why they may; none unless set.
    pub allowed: Vec<FindingKind>,
}

impl Judgement {
    /// Returns whether the result is right, no check reports an error, and every goal is met.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.result.is_ok() && self.failures().next().is_none() && self.goals.iter().all(is_met)
    }

    /// The place among the recorded rungs by each goal, in the order of [`goals`](Self::goals);
    /// `None` unless the result is right.
    pub fn ranks(&self) -> impl Iterator<Item = Option<Rank>> {
        self.goals.iter().map(|(goal, value)| {
            let is_right = self.result.is_ok() && self.failures().next().is_none();
            if is_right { Rank::of(self.exercise, goal, *value) } else { None }
        })
    }

    fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_failure(&self.allowed))
    }
}

fn is_met((goal, value): &(Goal, f64)) -> bool {
    *value <= goal.at_most
}

/// A line each for result, checks and goals: `[x]` where it is as it should be, and the place of a
/// right attempt among the recorded rungs.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |is_met| if is_met { "[x]" } else { "[ ]" };
        writeln!(f, "{}: {}", self.exercise, if self.is_passed() { "passed" } else { "not yet" })?;
        match &self.result {
            Ok(()) => writeln!(f, "  [x] the result is right")?,
            Err(wrong) => writeln!(f, "  [ ] the result is wrong: {wrong}")?,
        }
        match self.failures().next() {
            None => writeln!(f, "  [x] no check finds an error")?,
            Some(finding) if finding.severity == Severity::Error => {
                writeln!(f, "  [ ] the checks find an error: {finding}")?;
            }
            Some(finding) => writeln!(f, "  [ ] the checks find what only luck orders: {finding}")?,
        }
        for (reached @ (goal, value), rank) in self.goals.iter().zip(self.ranks()) {
            write!(f, "  {} {goal}: {}", mark(is_met(reached)), goal.metric.text(*value))?;
            match rank {
                Some(rank) => writeln!(f, " ({rank})")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
