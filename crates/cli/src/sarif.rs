//! Findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which GitHub's code
//! scanning and editors show at the lines of the source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::host;

/// The file that findings go to.
#[derive(Debug, Clone, Args)]
pub(crate) struct SarifTo {
    /// Also write the findings to this file as SARIF, for GitHub's code scanning and editors.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
}

impl SarifTo {
    /// Returns whether the file is asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.sarif.is_some()
    }

    /// Writes the findings of a report, which stand in its JSON. `file` is the PTX of those whose
    /// source is not known.
    pub(crate) fn write(&self, file: Option<&str>, report: &impl Serialize) -> Result<(), Failure> {
        let Some(path) = &self.sarif else { return Ok(()) };
        let report = serde_json::to_value(report).expect("reports are structures of strings and numbers");
        let mut all = Vec::new();
        collect(&report, &mut all);
        host::write(path, format!("{:#}\n", log(file, &all)))
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
    }
}

/// Adds the findings in a value.
fn collect<'a>(value: &'a Value, all: &mut Vec<&'a Value>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
        Value::Object(fields) => {
            let is_finding = |finding: &Value| finding["kind"].is_string();
            let findings = fields.get("findings").and_then(Value::as_array);
            let Some(findings) = findings.filter(|findings| findings.iter().all(is_finding)) else {
                return fields.values().for_each(|value| collect(value, all));
            };
            // Of findings that are one defect, the example.
            match fields.get("groups").and_then(Value::as_array) {
                Some(groups) => {
                    let example = |group: &Value| findings.get(group["findings"][0].as_u64()? as usize);
                    all.extend(groups.iter().filter_map(example));
                }
                None => all.extend(findings),
            }
        }
        _ => {}
    }
}

fn log(file: Option<&str>, findings: &[&Value]) -> Value {
    let mut rules = BTreeMap::new();
    for finding in findings {
        let (kind, rule) = (text(&finding["kind"]), text(&finding["rule"]));
        rules.entry(kind).or_insert_with(
            || json!({"id": kind, "shortDescription": {"text": if rule.is_empty() { kind } else { rule }}}),
        );
    }
    let results: Vec<_> = findings.iter().map(|finding| result(file, finding)).collect();
    let driver = json!({"name": "warpfold", "version": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"), "rules": rules.into_values().collect::<Vec<_>>()});
    json!({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}]})
}

fn result(file: Option<&str>, finding: &Value) -> Value {
    let severity = text(&finding["severity"]);
    let level = if ["error", "warning"].contains(&severity) { severity } else { "note" };
    // Place and severity have fields of their own.
    let message = text(&finding["message"]);
    let message = message.split_once(&format!("{severity}: ")).map_or(message, |(_, message)| message);
    let mut result = json!({"ruleId": finding["kind"], "level": level, "message": {"text": message},
        "locations": location(file, finding).into_iter().collect::<Vec<_>>()});
    if let Some(other) = location(file, &finding["other"]) {
        result["relatedLocations"] = json!([other]);
    }
    result
}

/// The line of the kernel's author, or of the PTX.
fn location(file: Option<&str>, access: &Value) -> Option<Value> {
    let author = &access["source"]["author"];
    let (path, line) = match author["file"].as_str() {
        Some(path) => (path, author["line"].as_u64()),
        None => (file?, access["line"].as_u64()),
    };
    let line = line.filter(|line| *line > 0)?;
    Some(json!({"physicalLocation": {"artifactLocation": {"uri": uri(path)}, "region": {"startLine": line}}}))
}

/// A path as SARIF has it: relative to where the program runs, if it lies below.
fn uri(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(path).strip_prefix(&here).map_or_else(|_| path.to_owned(), |path| path.display().to_string());
    let path = path.replace('\\', "/").replace('%', "%25").replace(' ', "%20");
    if path.starts_with('/') { format!("file://{path}") } else { path }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
