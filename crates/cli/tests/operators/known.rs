//! The operators by name: the program has those that the reference has, or they stand in a list that shrinks.

use std::collections::BTreeSet;

use warpfold_conformance::reference::call;

use crate::program;

/// Operators that the issue names and the program does not have yet.
pub(crate) const NOT_YET: &[&str] = &[];

#[test]
fn every_operator_that_is_missing_stands_in_the_list_and_no_other() {
    let listed: BTreeSet<_> = program::listed().into_iter().collect();
    let missing: BTreeSet<_> = call::names().filter(|name| !listed.contains(*name)).collect();
    assert_eq!(missing, NOT_YET.iter().copied().collect(), "operators that the program does not have");
}

#[test]
fn every_operator_that_the_program_has_has_a_reference() {
    let with_reference: BTreeSet<_> = call::names().collect();
    let without: Vec<_> = program::listed().into_iter().filter(|name| !with_reference.contains(&name[..])).collect();
    assert!(without.is_empty(), "{without:?}");
}
