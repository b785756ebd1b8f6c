//! Compares what a run did with what its file promises.

use warpfold_sim::{Access, Finding, FindingKind, Report, Severity};

use super::case::{Case, Fault};

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Counters and findings.
    pub report: Report,
    /// The elements of each argument's buffer after the run; empty for numbers and freed buffers.
    pub buffers: Vec<Vec<u64>>,
}

/// Everything in which the outcome differs from what the file promises; empty if it keeps its
/// promise.
#[must_use]
pub fn verdict(case: &Case, outcome: &Outcome) -> Vec<String> {
    let mut problems = case.fault.as_ref().map_or_else(|| judge_correct(case, outcome), |f| judge_fault(f, outcome));
    for finding in &outcome.report.findings {
        problems.extend(incomplete(case, finding).into_iter().map(|what| format!("{what}: {finding}")));
    }
    problems
}

fn judge_correct(case: &Case, outcome: &Outcome) -> Vec<String> {
    let mut problems: Vec<String> =
        outcome.report.findings.iter().map(|finding| format!("expected no finding, got: {finding}")).collect();
    for (argument, actual) in case.args.iter().zip(&outcome.buffers) {
        let Some(expected) = &argument.expected else { continue };
        let differs = |(e, a): (&Option<u64>, &u64)| e.is_some_and(|e| e != *a);
        let wrong: Vec<usize> = (0..expected.len()).filter(|&i| differs((&expected[i], &actual[i]))).collect();
        if let Some(&i) = wrong.first() {
            let expected = expected[i].unwrap_or_default();
            problems.push(format!(
                "{} of {} elements of {} are wrong, the first is {}[{i}]: expected {expected} ({expected:#x}), got {} ({:#x})",
                wrong.len(), actual.len(), argument.name, argument.name, actual[i], actual[i]
            ));
        }
    }
    problems
}

fn judge_fault(fault: &Fault, outcome: &Outcome) -> Vec<String> {
    let findings = &outcome.report.findings;
    let mut problems = Vec::new();
    let planted = findings.iter().filter(|f| is_planted(fault, f)).count();
    // A race may be reported once in each direction, and a deadlock once for each place where
    // something waits; everything else is one pair of instructions and so one finding.
    let most = if fault.lines.len() > 1 { fault.lines.len() } else { 1 + usize::from(fault.other.is_some()) };
    if planted == 0 || planted > most {
        problems.push(format!("expected {}, got it {planted} times", describe(fault)));
    }
    for finding in findings.iter().filter(|f| f.severity == Severity::Error || f.kind == fault.kind) {
        let is_consequence = fault.consequences.contains(&(finding.kind, finding.access.line));
        if !is_consequence && !is_planted(fault, finding) {
            problems.push(format!("unexpected: {finding}"));
        }
    }
    problems
}

/// Returns whether a finding is the planted fault. The two sides of a race may be reported either
/// way round.
fn is_planted(fault: &Fault, finding: &Finding) -> bool {
    let line = finding.access.line;
    let lines_agree = match (fault.other, finding.other.as_ref().map(|o| o.line)) {
        (None, _) => fault.lines.contains(&line),
        (Some(other), Some(reported)) => {
            (fault.lines.contains(&line) && reported == other) || (line == other && fault.lines.contains(&reported))
        }
        (Some(_), None) => false,
    };
    let place = finding.address.as_ref().map_or("", |(_, place)| place);
    finding.kind == fault.kind
        && finding.severity >= fault.severity
        && lines_agree
        && fault.place.as_deref().is_none_or(|expected| place.contains(expected))
}

fn describe(fault: &Fault) -> String {
    let mut text = format!("{} or worse: {} at line {:?}", fault.severity.name(), fault.kind.name(), fault.lines);
    if let Some(other) = fault.other {
        text += &format!(", other side line {other}");
    }
    if let Some(place) = &fault.place {
        text += &format!(", at {place}");
    }
    text
}

/// Returns the details that a finding lacks.
fn incomplete(case: &Case, finding: &Finding) -> Vec<String> {
    let mut missing = incomplete_access(case, &finding.access);
    if finding.kernel != case.kernel {
        missing.push(format!("names kernel '{}' instead of '{}'", finding.kernel, case.kernel));
    }
    if finding.rule.is_empty() || finding.count == 0 {
        missing.push("has no rule or a count of zero".to_owned());
    }
    match (&finding.other, finding.kind) {
        (Some(other), kind) => {
            missing.extend(incomplete_access(case, other));
            let same = (other.block, other.thread) == (finding.access.block, finding.access.thread);
            if same && matches!(kind, FindingKind::Race | FindingKind::WarpSync) {
                missing.push("names the same thread on both sides".to_owned());
            }
        }
        (None, FindingKind::Race | FindingKind::WarpSync) => missing.push("names one side of a race only".to_owned()),
        (None, _) => {}
    }
    let has_address = match finding.kind {
        FindingKind::BarrierDivergence | FindingKind::Deadlock | FindingKind::InvalidSync => true,
        FindingKind::Race
        | FindingKind::WarpSync
        | FindingKind::Leak
        | FindingKind::OutOfBounds
        | FindingKind::Uninitialized
        | FindingKind::HostRead
        | FindingKind::Misaligned
        | FindingKind::UseAfterFree
        | FindingKind::MissingProxyFence => finding.address.is_some(),
        // Registers have no address: what is not waited for is named then.
        FindingKind::MissingWait => finding.address.is_some() || finding.other.is_some(),
    };
    if !has_address {
        missing.push("names no address".to_owned());
    }
    missing
}

fn incomplete_access(case: &Case, access: &Access) -> Vec<String> {
    let mut missing = Vec::new();
    let line = case.text.lines().nth((access.line as usize).wrapping_sub(1)).unwrap_or_default();
    let statement = line.split("//").next().unwrap_or_default();
    let mnemonic = statement.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    let mnemonic = mnemonic.trim_end_matches(';');
    if mnemonic.is_empty() || !access.instruction.contains(mnemonic) {
        missing.push(format!("gives '{}' as the instruction of line {}", access.instruction, access.line));
    }
    let [bx, by, bz] = access.block;
    let [tx, ty, tz] = access.thread;
    if (by, bz, ty, tz) != (0, 0, 0, 0) || bx >= case.grid || tx >= case.block {
        missing.push("names a block or thread outside the launch".to_owned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(line: u32, instruction: &str, thread: u32) -> Access {
        Access { line, instruction: instruction.to_owned(), block: [0; 3], thread: [thread, 0, 0], source: None }
    }

    /// A race between the store at `first` and the load at `second`.
    fn race(first: u32, second: u32) -> Finding {
        let text = |line| if line == 28 { "st.shared.u32 [%own], %t" } else { "ld.shared.u32 %value, [%mirror]" };
        Finding {
            kind: FindingKind::Race,
            severity: Severity::Error,
            kernel: "reverse".to_owned(),
            access: access(first, text(first), 1),
            other: Some(access(second, text(second), 62)),
            address: Some((0x104, "tile+0x4".to_owned())),
            place: None,
            rule: "nothing orders the two".to_owned(),
            count: 3,
        }
    }

    fn problems(findings: Vec<Finding>) -> usize {
        let case = Case::named(super::super::Folder::Fault, "missing_barrier_after_store").unwrap();
        assert_eq!(case.fault.as_ref().map(|f| (f.lines.clone(), f.other)), Some((vec![29], Some(28))));
        let report = Report { findings, ..Report::default() };
        verdict(&case, &Outcome { report, buffers: vec![vec![0; 64]] }).len()
    }

    #[test]
    fn a_race_is_accepted_either_way_round() {
        assert_eq!(problems(vec![race(29, 28)]), 0);
        assert_eq!(problems(vec![race(28, 29)]), 0);
        assert_eq!(problems(vec![race(28, 29), race(29, 28)]), 0);
    }

    #[test]
    fn a_missing_or_a_wrong_report_is_not_accepted() {
        assert_eq!(problems(vec![]), 1);
        let spoil = |change: fn(&mut Finding)| {
            let mut finding = race(29, 28);
            change(&mut finding);
            problems(vec![finding])
        };
        assert_ne!(spoil(|f| f.access.line = 30), 0);
        assert_ne!(spoil(|f| f.kind = FindingKind::Uninitialized), 0);
        assert_ne!(spoil(|f| f.severity = Severity::Warning), 0);
        assert_ne!(spoil(|f| f.other = None), 0);
        assert_ne!(spoil(|f| f.address = None), 0);
        assert_ne!(spoil(|f| f.address = Some((0x104, "other".to_owned()))), 0);
        assert_ne!(spoil(|f| f.kernel.clear()), 0);
        assert_ne!(spoil(|f| f.rule.clear()), 0);
        assert_ne!(spoil(|f| f.access.instruction = "bar.sync 0".to_owned()), 0);
        assert_ne!(spoil(|f| f.access.thread = [62, 0, 0]), 0);
        assert_ne!(spoil(|f| f.access.thread = [64, 0, 0]), 0);
    }

    #[test]
    fn a_second_error_is_not_accepted() {
        let mut second = race(29, 29);
        second.kind = FindingKind::Misaligned;
        assert_eq!(problems(vec![race(29, 28), second]), 1);
    }

    #[test]
    fn a_correct_kernel_has_to_leave_its_values_and_report_nothing() {
        let case = Case::named(super::super::Folder::Pass, "barrier_after_store").unwrap();
        let judge = |buffer: Vec<u64>, findings| {
            verdict(&case, &Outcome { report: Report { findings, ..Report::default() }, buffers: vec![buffer] }).len()
        };
        let right: Vec<u64> = (0..64).rev().collect();
        assert_eq!(judge(right.clone(), vec![]), 0);
        assert_eq!(judge(vec![0; 64], vec![]), 1);
        assert_ne!(judge(right, vec![race(29, 28)]), 0);
    }
}
