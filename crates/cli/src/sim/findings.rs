//! Findings for people: one paragraph for each cause, and a last line that sums up.

use std::collections::BTreeMap;

use warpfold_sim::{Access, Checks, Finding, Group, Report, Severity};

use super::Sim;
use super::options::Tool;
use super::source_text::SourceText;
use crate::table::{grouped, wrapped};

/// The part of a report that is shown.
#[derive(Debug)]
pub(super) struct Picked {
    /// The groups to show; `follows_from` counts in this list.
    pub(super) groups: Vec<Group>,
    /// Groups that are left out for want of room.
    pub(super) hidden: usize,
    /// Groups that a suppression file leaves out.
    pub(super) suppressed: usize,
    /// Rules of that file that fit nothing.
    pub(super) unused: Vec<String>,
    /// Groups of each severity and kind, those left out for want of room included.
    kinds: BTreeMap<(std::cmp::Reverse<Severity>, &'static str), u64>,
    /// Groups that follow from others.
    consequences: u64,
}

impl Picked {
    /// The groups of a report that the options ask for.
    pub(super) fn of(sim: &Sim, report: &Report, suppressions: &super::suppress::Suppressions) -> Self {
        let all = report.groups();
        let mut used = Vec::new();
        let mut suppressed = 0;
        let kept: Vec<usize> = (0..all.len())
            .filter(|&at| sim.shown.tool.is_none_or(|tool| tool == Tool::of(all[at].kind)))
            .filter(|&at| match suppressions.rule_for(&all[at], &report.findings[all[at].findings[0]]) {
                Some(rule) => {
                    used.push(rule);
                    suppressed += 1;
                    false
                }
                None => true,
            })
            .collect();
        let mut kinds = BTreeMap::new();
        let follows = |at: &usize| all[*at].follows_from.is_some_and(|cause| kept.contains(&cause));
        let consequences = kept.iter().filter(|at| follows(at)).count() as u64;
        for &at in kept.iter().filter(|at| !follows(at)) {
            *kinds.entry((std::cmp::Reverse(all[at].severity), all[at].kind.name())).or_default() += 1;
        }
        let shown = &kept[..kept.len().min(sim.shown.max_findings.unwrap_or(usize::MAX))];
        let position = |at: usize| shown.iter().position(|&kept| kept == at);
        let groups = shown.iter().map(|&at| {
            let follows_from = all[at].follows_from.and_then(position);
            Group { follows_from, ..all[at].clone() }
        });
        let unused = suppressions.unused(&used).into_iter().map(str::to_owned).collect();
        Self { groups: groups.collect(), hidden: kept.len() - shown.len(), suppressed, unused, kinds, consequences }
    }

    /// Returns whether any finding that counts is an error.
    pub(super) fn has_errors(&self) -> bool {
        self.kinds.keys().any(|(severity, _)| severity.0 == Severity::Error)
    }
}

/// The findings, a paragraph for each group, and the last line.
pub(super) fn page(report: &Report, picked: &Picked, source: &SourceText) -> String {
    let mut text = String::new();
    for group in picked.groups.iter().filter(|group| group.follows_from.is_none()) {
        text.push_str(&paragraph(report, group, source));
        let at = picked.groups.iter().position(|other| other == group);
        for other in picked.groups.iter().filter(|other| other.follows_from.is_some() && other.follows_from == at) {
            let line = other.lines.first().map(String::as_str).unwrap_or_default();
            let what = format!(
                "follows from it: {} of {} at {line}, {}",
                other.kind.name(),
                other.variable.as_deref().unwrap_or("memory"),
                times(other.count)
            );
            text.push_str(&wrapped(&what, "    "));
        }
        text.push('\n');
    }
    if picked.hidden > 0 {
        text.push_str(&format!("{} more are not shown (--max-findings)\n", picked.hidden));
    }
    for rule in &picked.unused {
        text.push_str(&format!("the suppression '{rule}' fits nothing\n"));
    }
    if report.aborted {
        text.push_str("the run ended there, as hardware would have ended it\n");
    }
    text
}

fn paragraph(report: &Report, group: &Group, source: &SourceText) -> String {
    let example = &report.findings[group.findings[0]];
    let mut text = wrapped(&example.to_string(), "  ");
    for line in lines_of(example, source) {
        text.push_str(&line);
    }
    if group.findings.len() > 1 {
        let pairs = group.findings.len();
        text.push_str(&wrapped(&format!("in all {}, in {pairs} pairs of instructions", times(group.count)), "    "));
    }
    if let Some(remedy) = &group.remedy {
        text.push_str(&wrapped(&format!("what would put it right: {remedy}"), "    "));
    }
    text
}

/// The lines of source of both sides, each once.
fn lines_of(finding: &Finding, source: &SourceText) -> Vec<String> {
    let sides = std::iter::once(&finding.access).chain(&finding.other);
    let mut lines: Vec<String> = Vec::new();
    for Access { source: place, .. } in sides {
        let Some(author) = place.as_ref().map(|place| place.author()) else { continue };
        if let Some(text) = source.line(author) {
            let line = format!("    {author} | {text}\n");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}

/// The last line: what was found, or what was looked at and what was not.
pub(super) fn summary(sim: &Sim, picked: &Picked) -> String {
    let mut text = if picked.kinds.is_empty() { nothing(sim) } else { counted(picked) };
    if picked.suppressed > 0 {
        text.push_str(&format!("; {} suppressed", picked.suppressed));
    }
    wrapped(&text, "")
}

fn counted(picked: &Picked) -> String {
    let mut parts = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of: Vec<_> = picked.kinds.iter().filter(|((found, _), _)| found.0 == severity).collect();
        let sum: u64 = of.iter().map(|(_, n)| **n).sum();
        if sum > 0 {
            let kinds: Vec<String> = of.iter().map(|((_, kind), n)| format!("{n} {kind}")).collect();
            let noun = match severity {
                Severity::Info => "info",
                other => other.name(),
            };
            let plural = if sum == 1 || severity == Severity::Info { "" } else { "s" };
            parts.push(format!("{sum} {noun}{plural} ({})", kinds.join(", ")));
        }
    }
    let mut text = parts.join(", ");
    if picked.consequences > 0 {
        text.push_str(&format!("; {} more that follow from them", picked.consequences));
    }
    text
}

/// Returns the line of a run without findings, which names the checks.
fn nothing(sim: &Sim) -> String {
    match (sim.shown.tool, sim.check) {
        (Some(tool), _) => format!("no findings: looked for {}, nothing else", tool.looks_for()),
        (None, check) => format!("no findings; {}", Checks::from(check).examined()),
    }
}
