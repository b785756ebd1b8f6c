//! The table of `CALIBRATION.md`: a row a case.

use super::case::{Case, Observed, Rule, say};
use super::measure::Failure;

/// Text of the hardware column without hardware.
pub const NOT_MEASURED: &str = "not measured: no NVIDIA GPU at hand";

/// The first two lines.
pub const HEAD: &str = "| case | question | models and what they predict | decided by | modelled in | virtual GPU | hardware |\n\
                        |---|---|---|---|---|---|---|";

/// The columns that follow from the case alone, each behind its bar.
#[must_use]
pub fn fixed_columns(case: &Case) -> String {
    let models: Vec<_> = case.models.iter().map(|m| format!("{}: {}", m.name, say(m.predicts))).collect();
    let rule = match case.rule {
        Rule::Isa(section) => format!("PTX ISA, {section}"),
        Rule::Hardware => "hardware".to_owned(),
    };
    format!("| {} | {} | {} | {rule} | `{}` |", case.name, case.question, models.join("; "), case.source)
}

/// A device's column.
#[must_use]
pub fn answer(case: &Case, observed: &Result<Observed, Failure>) -> String {
    let observed = match observed {
        Ok(observed) => *observed,
        Err(failure) => return format!("no answer: {failure}"),
    };
    let shown = match observed {
        Observed::Value(value) => say(value),
        Observed::Cost(cost) if cost.fract() == 0.0 => format!("{cost:.0}"),
        Observed::Cost(cost) => format!("{cost:.1}"),
    };
    match case.judge(observed) {
        Some(model) => format!("{} ({shown})", model.name),
        None => format!("**none of them** ({shown})"),
    }
}

/// A whole row.
#[must_use]
pub fn row(case: &Case, virtual_gpu: &str, hardware: &str) -> String {
    format!("{} {virtual_gpu} | {hardware} |", fixed_columns(case))
}
