//! The operators by name: the program has those that the reference has, or they stand in a list
//! that shrinks.

use std::collections::BTreeSet;

use warpfold_conformance::reference::call;

use crate::program;

/// Operators that the issue names and the program does not have yet.
pub(crate) const NOT_YET: &[&str] = &[];

/// Operators with references of their own, in `crates/conformance/tests/attention` and beside it,
/// and in `crates/warpfold/tests/all`: `pooling.rs`, `order.rs` and `scatter.rs`.
const ELSEWHERE: &[&str] = &[
    "attention",
    "paged-attention",
    "rotary-embedding",
    "max-pool",
    "avg-pool",
    "lp-pool",
    "unique",
    "sort",
    "max-sum-exp",
    "interpolate",
    "scatter",
    "index-scatter",
];

#[test]
fn every_operator_that_is_missing_stands_in_the_list_and_no_other() {
    let listed: BTreeSet<_> = program::listed().into_iter().collect();
    let missing: BTreeSet<_> = call::names().filter(|name| !listed.contains(*name)).collect();
    assert_eq!(missing, NOT_YET.iter().copied().collect(), "operators that the program does not have");
}

#[test]
fn every_operator_that_the_program_has_has_a_reference() {
    let with_reference: BTreeSet<_> = call::names().collect();
    let is_known = |name: &str| with_reference.contains(name) || ELSEWHERE.contains(&name);
    let without: Vec<_> = program::listed().into_iter().filter(|name| !is_known(name)).collect();
    assert!(without.is_empty(), "{without:?}");
}
