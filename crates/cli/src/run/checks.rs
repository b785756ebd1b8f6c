//! Findings of the checks in the launches of an operator.

use warpfold_device::{LaunchReport, Severity};

use crate::table::{grouped, wrapped};

/// Findings for people.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) has_errors: bool,
}

/// A paragraph for each finding, after its kernel, and a last line that sums up.
pub(super) fn found(reports: &[LaunchReport]) -> Found {
    let mut text = String::new();
    let (mut num, mut has_errors) = (0, false);
    for launch in reports {
        for group in launch.report.groups() {
            let finding = &launch.report.findings[group.findings[0]];
            text += &wrapped(&format!("{}: {finding}", launch.kernel), "  ");
            if let Some(remedy) = &group.remedy {
                text += &wrapped(&format!("what would put it right: {remedy}"), "    ");
            }
            num += 1;
            has_errors |= group.severity == Severity::Error;
        }
    }
    let launches = match reports.len() {
        1 => "1 launch".to_owned(),
        n => format!("{} launches", grouped(n as u64)),
    };
    text += &match num {
        0 => format!("no findings in {launches}\n"),
        1 => format!("1 finding in {launches}\n"),
        _ => format!("{num} findings in {launches}\n"),
    };
    Found { text, has_errors }
}
