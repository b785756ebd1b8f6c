//! Number of names that declarations such as `.reg .b32 %r<9>` expand to, before they are written
//! out.

use warpfold_ptx::{Item, Module, Name, ScalarType, Statement, Variable};

use crate::Error;

// THRESHOLD: functions and variables of more names are refused; tested by
// crates/sim/src/decode/names.rs::declarations_of_too_many_names_are_refused
/// Names that one function may declare, far more than any compiler writes: a number in the text
/// must not use up the host's memory.
const MOST_NAMES: u64 = 1 << 20;

/// Refuses functions and variables that expand to too many names.
pub(super) fn check(module: &Module) -> Result<(), Error> {
    for item in &module.items {
        match item {
            Item::Function(f) => {
                few(f.statements().map(declared).sum(), f.span.line, &f.name)?;
                for statement in f.statements() {
                    match statement {
                        Statement::Register(r) => declarable(r.ty, f.span.line, &f.name)?,
                        Statement::Variable(v) => declarable(v.ty, v.span.line, &v.name)?,
                        _ => {}
                    }
                }
            }
            Item::Variable(v) => {
                few(of_variable(v), v.span.line, &v.name)?;
                declarable(v.ty, v.span.line, &v.name)?;
            }
            Item::Alias { .. } | Item::Directive(_) => {}
        }
    }
    Ok(())
}

/// Checks that a type may be declared: ptxas allows some only in instructions.
fn declarable(ty: ScalarType, line: u32, text: &Name) -> Result<(), Error> {
    use ScalarType as T;
    let is_of_instructions =
        matches!(ty, T::E4m3 | T::E5m2 | T::E4m3x2 | T::E5m2x2 | T::E4m3x4 | T::E5m2x4 | T::Tf32 | T::Bf16 | T::Bf16x2);
    if !is_of_instructions {
        return Ok(());
    }
    let reason = format!("{} is a type of instructions only", ty.name());
    Err(Error::Invalid { line, text: text.to_string(), reason })
}

fn few(names: u64, line: u32, text: &Name) -> Result<(), Error> {
    if names <= MOST_NAMES {
        return Ok(());
    }
    let reason = format!("it declares {names} names, more than the {MOST_NAMES} that are possible here");
    Err(Error::Invalid { line, text: text.to_string(), reason })
}

fn declared(statement: &Statement) -> u64 {
    match statement {
        Statement::Register(r) => r.names.iter().map(|(_, count)| u64::from(count.unwrap_or(1))).sum(),
        Statement::Variable(v) => of_variable(v),
        _ => 0,
    }
}

fn of_variable(v: &Variable) -> u64 {
    u64::from(v.count.unwrap_or(1))
}

/// The names of a variable's declaration: `name`, or `name0 … nameN-1`.
pub(super) fn names(v: &Variable) -> Vec<Name> {
    match v.count {
        Some(n) => (0..n).map(|i| Name::from(format!("{}{i}", v.name))).collect(),
        None => vec![v.name.clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_too_many_names_are_refused() {
        let checked = |text: &str| {
            let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{text}");
            check(&warpfold_ptx::parse(&text).expect("a module"))
        };
        let function = |first: u64, second: u64| {
            checked(&format!(".entry k() {{ .reg .b32 %a<{first}>; {{ .reg .v2 .b32 %b<{second}>; }} ret; }}"))
        };
        let half = MOST_NAMES / 2;
        for (first, second) in [(MOST_NAMES - 1, 1), (1, MOST_NAMES - 1), (half, half)] {
            function(first, second).expect("as many as are possible");
        }
        for (first, second) in [(MOST_NAMES, 1), (1, MOST_NAMES), (half, half + 1), (1 << 31, 1 << 31)] {
            assert!(matches!(function(first, second), Err(Error::Invalid { .. })), "{first} and {second}");
        }
        let variable = |count: u64| checked(&format!(".global .b8 x<{count}>;"));
        variable(MOST_NAMES).expect("as many as are possible");
        assert!(matches!(variable(MOST_NAMES + 1), Err(Error::Invalid { .. })));
    }
}
