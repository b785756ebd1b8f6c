//! `compare`: the counters of two reports, and which have become worse.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Form, PlainReportTo, ReportTo};
use crate::table::{Table, grouped};
use crate::{Ending, host};

/// Compares the counters of two reports of --report json, of sim or of ladder: a performance
/// regression test that needs no GPU.
///
/// Counters are exact on the virtual GPU, so that any change is one of the kernel. A counter that
/// has risen by more than --allow percent, and a kernel that is gone, are exit code 1. Cache hits
/// and their like, of which more are better, are shown and not judged.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The report of before.
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// The report of now.
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    /// Percent that a counter may rise.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, allow_negative_numbers = true)]
    allow: f64,
    /// Counters to compare. Default: all that both reports have.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    counters: Vec<String>,
    #[command(flatten)]
    to: PlainReportTo,
}

/// The counters of each kernel or rung.
type Reports = BTreeMap<String, BTreeMap<String, u64>>;

/// A counter that has changed.
struct Changed<'a> {
    kernel: &'a str,
    counter: &'a str,
    old: u64,
    new: u64,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Worse,
    /// Risen by no more than is allowed.
    Allowed,
    Better,
    /// A rise is no loss.
    Other,
}

impl Verdict {
    const fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Allowed => "allowed",
            Self::Better => "better",
            Self::Other => "",
        }
    }
}

impl Changed<'_> {
    /// Percent of the old value; a counter that was 0 has risen without bound.
    fn percent(&self) -> f64 {
        100.0 * (self.new as f64 - self.old as f64) / self.old as f64
    }
}

impl Compare {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let to = ReportTo::from(&self.to);
        to.check()?;
        if !(self.allow >= 0.0 && self.allow.is_finite()) {
            return Err(Failure::usage(format!("--allow: {} is not a share of 0 percent and more", self.allow)));
        }
        let (old, new) = (read(&self.old)?, read(&self.new)?);
        let is_known = |name: &String| [&old, &new].iter().all(|all| all.values().all(|of| of.contains_key(name)));
        if let Some(name) = self.counters.iter().find(|name| !is_known(name)) {
            return Err(Failure::usage(format!("--counters: {name} is not in both reports")));
        }
        let is_gone = |name: &&String| !new.contains_key(*name);
        let gone: Vec<&str> = old.keys().filter(is_gone).map(String::as_str).collect();
        let added: Vec<&str> = new.keys().filter(|name| !old.contains_key(*name)).map(String::as_str).collect();
        let changed: Vec<_> = old
            .iter()
            .filter_map(|(kernel, old)| Some((kernel, old, new.get(kernel)?)))
            .flat_map(|(kernel, old, new)| self.changes(kernel, old, new))
            .collect();
        let worse = changed.iter().filter(|changed| changed.verdict == Verdict::Worse).count();
        if to.form == Form::Json {
            let of = |c: &Changed<'_>| {
                json!({"kernel": c.kernel, "counter": c.counter, "old": c.old, "new": c.new,
                    "percent": Some(c.percent()).filter(|percent| percent.is_finite()), "verdict": c.verdict.text()})
            };
            let changed: Vec<_> = changed.iter().map(of).collect();
            to.write_json(&json!({"allow": self.allow, "worse": worse, "gone": gone, "added": added,
                "changed": changed}))?;
        } else {
            to.write(&text(&old, &changed, worse, &gone, &added))?;
        }
        Ok(if worse == 0 && gone.is_empty() { Ending::Clean } else { Ending::Findings })
    }

    fn changes<'a>(
        &'a self,
        kernel: &'a str,
        old: &'a BTreeMap<String, u64>,
        new: &'a BTreeMap<String, u64>,
    ) -> impl Iterator<Item = Changed<'a>> {
        let is_asked = |name: &str| self.counters.is_empty() || self.counters.iter().any(|asked| asked == name);
        old.iter().filter(move |(name, _)| is_asked(name)).filter_map(move |(counter, old)| {
            let (old, new) = (*old, *new.get(counter)?);
            let mut changed = Changed { kernel, counter, old, new, verdict: Verdict::Other };
            changed.verdict = match counter.contains("hit") {
                true => Verdict::Other,
                false if new < old => Verdict::Better,
                false if changed.percent() <= self.allow => Verdict::Allowed,
                false => Verdict::Worse,
            };
            (old != new).then_some(changed)
        })
    }
}

fn text(old: &Reports, changed: &[Changed<'_>], worse: usize, gone: &[&str], added: &[&str]) -> String {
    let mut text = String::new();
    if !changed.is_empty() {
        let mut table = Table::new(["kernel", "counter", "old", "new", "change", ""]);
        for changed in changed {
            let percent = changed.percent();
            let change = if percent.is_finite() { format!("{percent:+.1} %") } else { "from 0".to_owned() };
            table.row([
                changed.kernel.to_owned(),
                changed.counter.to_owned(),
                grouped(changed.old),
                grouped(changed.new),
                change,
                changed.verdict.text().to_owned(),
            ]);
        }
        text = table.render() + "\n";
    }
    for (names, what) in [(gone, "gone"), (added, "new")] {
        for name in names {
            text += &format!("{name}: {what}\n");
        }
    }
    let kernels = old.len() - gone.len();
    let better = changed.iter().filter(|changed| changed.verdict == Verdict::Better).count();
    text + &format!("{kernels} kernels compared: {worse} counters worse, {better} better\n")
}

fn read(path: &Path) -> Result<Reports, Failure> {
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let text = host::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("it is not JSON: {error}")))?;
    let mut reports = Reports::new();
    collect(&report, &mut Vec::new(), &mut reports);
    if reports.is_empty() {
        return Err(wrong("it has no counters: it is not a report of sim or ladder on the virtual GPU".to_owned()));
    }
    Ok(reports)
}

/// Adds the counters in a value, under the names of what they are in.
fn collect(value: &Value, names: &mut Vec<String>, reports: &mut Reports) {
    match value {
        Value::Array(all) => all.iter().for_each(|value| collect(value, names, reports)),
        Value::Object(fields) => {
            let name = ["ladder", "demangled", "kernel", "name"].iter().find_map(|field| fields.get(*field)?.as_str());
            names.extend(name.map(str::to_owned));
            if let Some(Value::Object(counters)) = fields.get("counters") {
                let counters = counters.iter().filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)));
                // Several launches of a kernel count together.
                let all = reports.entry(names.join("/")).or_default();
                counters.for_each(|(name, value)| *all.entry(name).or_default() += value);
            }
            fields.values().for_each(|value| collect(value, names, reports));
            if name.is_some() {
                names.pop();
            }
        }
        _ => {}
    }
}
