//! `run --list`: the operators.

use warpfold::by_name::{Choice, operators};

use crate::failure::Failure;
use crate::{Ending, output};

/// One line per operator: its name, what it does, its options.
pub(super) fn print() -> Result<Ending, Failure> {
    let width = operators().map(|operator| operator.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for operator in operators() {
        let options: Vec<String> =
            operator.options.iter().map(|choice: &Choice| format!("--{}", choice.name())).collect();
        let options = if options.is_empty() { String::new() } else { format!("  [{}]", options.join(" ")) };
        text += &format!("{:width$}  {}{options}\n", operator.name, operator.summary);
    }
    output::print(&text)?;
    Ok(Ending::Clean)
}
