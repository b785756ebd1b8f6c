//! Groups of findings with one cause: the same kind, variable and pair of source lines.
//!
//! A loop that is unrolled, or a tile that is copied by four instructions, breaks one rule in many
//! pairs of instructions. Who reads a report wants that once, with an example, and with what would
//! put it right. Uses and outputs of bytes that nothing wrote, loaded at one side of a race, are
//! what the race makes of it, and are said so.

use crate::exec::memory_map::{Window, window};
use crate::report::{Finding, FindingKind, Report, Severity, short_name};

/// Findings of one kind, on one variable, between one pair of source lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The rule that was broken.
    pub kind: FindingKind,
    /// Severity of the worst of them.
    pub severity: Severity,
    /// The variable or buffer, if one is involved.
    pub variable: Option<String>,
    /// The source lines, that of the example's [`Finding::access`] first; PTX lines if there are
    /// none.
    pub lines: Vec<String>,
    /// Indices in [`Report::findings`]; the first is the example.
    pub findings: Vec<usize>,
    /// Number of times that the rule was broken.
    pub count: u64,
    /// Suggested fix, if one is known.
    pub remedy: Option<String>,
    /// Index of the group that this one follows from.
    pub follows_from: Option<usize>,
}

impl Report {
    /// Groups the findings by kind, variable and pair of source lines; those without another
    /// explanation, and the worst, come first.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (at, finding) in self.findings.iter().enumerate() {
            let (variable, lines) = (variable(finding), lines(finding));
            let is_same = |g: &&mut Group| {
                let is_note = |severity| severity == Severity::Info;
                g.kind == finding.kind
                    && is_note(g.severity) == is_note(finding.severity)
                    && g.variable == variable
                    && (g.lines == lines || g.lines.iter().rev().eq(&lines))
            };
            if let Some(group) = groups.iter_mut().find(is_same) {
                if finding.severity > group.severity {
                    group.severity = finding.severity;
                    group.findings.insert(0, at);
                    group.lines = lines;
                } else {
                    group.findings.push(at);
                }
                group.count += finding.count;
                continue;
            }
            let (kind, severity, count) = (finding.kind, finding.severity, finding.count);
            let findings = vec![at];
            groups.push(Group { kind, severity, variable, lines, findings, count, remedy: None, follows_from: None });
        }
        for group in &mut groups {
            group.remedy = self.remedy(&self.findings[group.findings[0]]);
        }
        // Groups that follow from others come last, so that indices are known by then.
        let causes: Vec<bool> = groups.iter().map(|g| cause_of(g, &groups).is_none()).collect();
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|&i| (!causes[i], std::cmp::Reverse(groups[i].severity), i));
        let mut sorted: Vec<Group> = order.into_iter().map(|i| groups[i].clone()).collect();
        let follows: Vec<Option<usize>> = sorted.iter().map(|g| cause_of(g, &sorted)).collect();
        for (group, cause) in sorted.iter_mut().zip(follows) {
            group.follows_from = cause;
        }
        sorted
    }

    /// Suggests how to order the two sides, or otherwise fix a finding.
    fn remedy(&self, finding: &Finding) -> Option<String> {
        let between = match lines(finding).as_slice() {
            [one, other] if one != other => {
                // In the order of the text, if both are of one file.
                let number = |line: &str| line.rsplit([':', ' ']).next().and_then(|n| n.parse::<u32>().ok());
                let (first, last) = if number(one) < number(other) { (one, other) } else { (other, one) };
                format!("between {first} and {last}")
            }
            [one, ..] => format!("before and after {one} where it runs again"),
            [] => return None,
        };
        match finding.kind {
            FindingKind::Race if finding.rule.contains("nothing orders") => Some(self.order(finding, &between)),
            FindingKind::HostRead if finding.other.is_none() => {
                Some("a kernel or a copy that writes all of the range, or a copy of what was written only".to_owned())
            }
            FindingKind::Uninitialized => {
                Some("a write to these bytes by this thread before, or by another one before a barrier".to_owned())
            }
            FindingKind::MissingProxyFence => Some(format!(
                "a fence.proxy.async by the thread that wrote, and then a barrier or another synchronisation, {between}"
            )),
            _ => None,
        }
    }

    fn order(&self, finding: &Finding, between: &str) -> String {
        let Some(other) = &finding.other else { return format!("a synchronisation {between}") };
        let is_shared = finding.address.as_ref().is_some_and(|(at, _)| window(*at).0 == Window::Shared);
        if other.block != finding.access.block {
            return if is_shared {
                format!("a barrier of the cluster (barrier.cluster.arrive and .wait) {between}")
            } else {
                "an atomic instead of the plain access, a flag that one block releases and the other acquires \
                 (__threadfence() and an atomic), or two launches: no barrier orders blocks of a grid"
                    .to_owned()
            };
        }
        if finding.access.instruction == other.instruction && finding.access.line == other.line {
            return "an atomic, or an element of its own for each thread: both sides are one instruction".to_owned();
        }
        let warp = |thread: [u32; 3]| {
            let [x, y, _] = self.block.map(u64::from);
            let [tx, ty, tz] = thread.map(u64::from);
            ((tz * y + ty) * x + tx) / 32
        };
        if self.block[0] != 0 && warp(other.thread) == warp(finding.access.thread) {
            format!("a __syncwarp() (bar.warp.sync), or a __syncthreads() (bar.sync), {between}")
        } else {
            format!("a __syncthreads() (bar.sync) {between}")
        }
    }
}

/// Returns the group that explains another: a race on the same variable with a read there on one
/// side; for host reads, the race that the bytes come from.
fn cause_of(group: &Group, groups: &[Group]) -> Option<usize> {
    let is_copied = group.kind == FindingKind::HostRead;
    if !(is_copied || group.kind == FindingKind::Uninitialized) || group.variable.is_none() {
        return None;
    }
    groups.iter().position(|g| {
        g.kind == FindingKind::Race
            && g.severity == Severity::Error
            && (is_copied || g.variable == group.variable)
            && group.lines.iter().any(|line| g.lines.contains(line))
    })
}

/// The variable that a finding is about.
fn variable(finding: &Finding) -> Option<String> {
    let described = finding.address.as_ref().map(|(_, described)| described.as_str());
    finding.place.as_ref().map(|place| place.name()).or_else(|| {
        // `tile+0x40`, or `16 bytes past the end of tile (4096 bytes)`
        if let Some((name, _)) = described?.rsplit_once("+0x") {
            return Some(short_name(name));
        }
        let (_, rest) = described?.split_once(" of ")?;
        Some(short_name(rest.split(" (").next()?))
    })
}

/// The lines of a finding, that of the access first.
fn lines(finding: &Finding) -> Vec<String> {
    std::iter::once(&finding.access).chain(&finding.other).map(super::Access::at).collect()
}
