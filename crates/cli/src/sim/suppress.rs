//! Suppression files: findings that somebody has looked at and left.

use std::path::Path;

use warpfold_sim::{Finding, FindingKind, Group, short_name};

use crate::failure::Failure;
use crate::host;

/// A rule: what a finding must be to be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rule {
    text: String,
    kind: Option<String>,
    variable: Option<String>,
    at: Option<String>,
    kernel: Option<String>,
}

/// The rules of a file.
#[derive(Debug, Default)]
pub(super) struct Suppressions(Vec<Rule>);

/// Kinds of findings, by name.
const KINDS: [FindingKind; 13] = {
    use FindingKind as K;
    [
        K::Race,
        K::WarpSync,
        K::OutOfBounds,
        K::Uninitialized,
        K::HostRead,
        K::Misaligned,
        K::UseAfterFree,
        K::Leak,
        K::BarrierDivergence,
        K::Deadlock,
        K::InvalidSync,
        K::MissingWait,
        K::MissingProxyFence,
    ]
};

impl Suppressions {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = host::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        let rules = text.lines().enumerate().filter_map(|(n, line)| {
            let line = line.split_once('#').map_or(line, |(rule, _)| rule).trim();
            let rule = (!line.is_empty()).then(|| Rule::parse(line))?;
            Some(rule.map_err(|why| Failure::usage(format!("{}:{}: {why}", path.display(), n + 1))))
        });
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// Adds a rule for each kind that is left out whole.
    pub(super) fn allow(&mut self, kinds: &[FindingKind]) {
        let rule = |kind: &FindingKind| {
            let name = kind.name().to_owned();
            Rule { text: format!("--allow {name}"), kind: Some(name), ..Rule::default() }
        };
        self.0.extend(kinds.iter().map(rule));
    }

    /// The position of the rule that leaves a group out.
    pub(super) fn rule_for(&self, group: &Group, example: &Finding) -> Option<usize> {
        self.0.iter().position(|rule| rule.fits(group, example))
    }

    /// The rules at positions that are not in `used`.
    pub(super) fn unused(&self, used: &[usize]) -> Vec<&str> {
        let rules = self.0.iter().enumerate().filter(|(at, _)| !used.contains(at));
        rules.map(|(_, rule)| rule.text.as_str()).collect()
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut rule = Self { text: line.to_owned(), ..Self::default() };
        if kind != "*" {
            rule.kind = Some(self::kind(kind).map_err(|why| format!("{why}, or *"))?.name().to_owned());
        }
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let place = match key {
                "variable" => &mut rule.variable,
                "at" => &mut rule.at,
                "kernel" => &mut rule.kernel,
                _ => return Err(format!("'{word}': expected variable=NAME, at=FILE:LINE or kernel=NAME")),
            };
            if value.is_empty() || place.replace(value.to_owned()).is_some() {
                return Err(format!("'{word}': expected {key}= once, with a value"));
            }
        }
        Ok(rule)
    }

    fn fits(&self, group: &Group, example: &Finding) -> bool {
        let is = |wanted: &Option<String>, found: &dyn Fn(&str) -> bool| wanted.as_deref().is_none_or(found);
        is(&self.kind, &|kind| kind == group.kind.name())
            && is(&self.variable, &|name| group.variable.as_deref() == Some(name))
            && is(&self.at, &|at| group.lines.iter().any(|line| at_text(line) == at))
            && is(&self.kernel, &|name| example.kernel == name || kernel_text(&example.kernel) == name)
    }
}

/// The kind of findings of a name.
pub(super) fn kind(name: &str) -> Result<FindingKind, String> {
    let names = || KINDS.map(FindingKind::name).join(", ");
    let found = KINDS.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| format!("'{name}' is no kind of findings: expected one of {}", names()))
}

/// A line as a rule writes it: without blanks.
fn at_text(line: &str) -> String {
    line.replace(' ', "")
}

/// A kernel as a rule writes it.
fn kernel_text(kernel: &str) -> String {
    short_name(kernel).replace(' ', "")
}

/// The rule that leaves a group out, and no more than that.
pub(super) fn rule_of(group: &Group, example: &Finding) -> String {
    let mut text = group.kind.name().to_owned();
    if let Some(variable) = group.variable.as_deref().filter(|name| !name.contains(char::is_whitespace)) {
        text.push_str(&format!(" variable={variable}"));
    }
    if let Some(line) = group.lines.first() {
        text.push_str(&format!(" at={}", at_text(line)));
    }
    text + &format!(" kernel={}", kernel_text(&example.kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(line: &str, reason: &str) {
        let error = Rule::parse(line).expect_err(line);
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn rules_say_what_is_wrong_with_them() {
        refused("data_race", "no kind of findings");
        refused("race tile", "expected variable=NAME");
        refused("race at=", "with a value");
        refused("race at=a:1 at=b:2", "once");
        let rule = Rule::parse("* variable=tile").expect("a rule");
        assert_eq!((rule.kind, rule.variable.as_deref()), (None, Some("tile")));
    }
}
