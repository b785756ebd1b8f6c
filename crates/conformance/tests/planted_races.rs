//! A confusion matrix of the race checks: every correct kernel of the corpus without each of its
//! barriers, fences, waits and orders, one at a time.
//!
//! `cargo test -p warpfold-conformance --test planted_races -- --nocapture` prints the table. A
//! mutant that nothing objects to is either still correct (another synchronisation covers it) or a
//! race that is missed; those stand in [`SILENT`], with what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use warpfold_conformance::corpus::{Case, Folder, run_with, verdict};
use warpfold_conformance::mutants::mutants;
use warpfold_sim::{Checks, Options, Severity, Stream};

/// Mutants that no check objects to: the kernel, how many of its mutants, and why.
const SILENT: &[(&str, usize, &str)] = &[
    ("bulk_load", 1, INIT),
    ("bulk_load_of_what_another_block_wrote", 1, INIT),
    ("bulk_load_of_what_threads_wrote", 1, INIT),
    ("bulk_load_then_its_source_is_overwritten", 3, OPEN),
    ("cp_async_ring", 1, OPEN),
    ("decoupled_lookback", 1, OPEN),
    ("flag_between_warps", 1, OPEN),
    ("flag_in_a_peers_memory", 2, OPEN),
    ("lanes_take_turns", 2, OPEN),
    ("last_warp_resets_a_shared_counter", 1, OPEN),
    ("leader_spins_before_barrier", 2, OPEN),
    ("lock_in_one_warp", 1, OPEN),
    ("lock_in_one_warp_unfriendly", 1, OPEN),
    ("map_built_from_zeros", 2, OPEN),
    ("mbarrier_ring", 1, INIT),
    ("order_through_a_third_warp", 1, OPEN),
    ("red_async", 1, INIT),
    ("reserved_shared_memory", 1, OPEN),
    ("shared_histogram", 1, OPEN),
    ("st_async", 1, INIT),
];

/// A fence for other blocks of a cluster, in kernels that have none.
const INIT: &str = "fence.mbarrier_init announces barriers to the cluster; the block's own barrier orders its threads";
/// Not told apart so far.
const OPEN: &str = "another synchronisation of the kernel orders the same accesses, or a race is missed";

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// An error, or the launch ended with one.
    Error,
    /// A warning.
    Warning,
    /// No finding, but other values.
    WrongValues,
    /// Nothing.
    Silent,
}

fn judge(case: &Case) -> Verdict {
    let options = Options {
        checks: Checks::All,
        workers: Some(1),
        patience: 1_000_000,
        stream: Some(Stream::default()),
        ..Options::default()
    };
    let Ok(outcome) = run_with(case, &options) else { return Verdict::Error };
    let worst = outcome.report.findings.iter().map(|finding| finding.severity);
    if worst.clone().any(|severity| severity == Severity::Error) {
        Verdict::Error
    } else if worst.clone().any(|severity| severity == Severity::Warning) {
        Verdict::Warning
    } else if !verdict(case, &outcome).is_empty() {
        Verdict::WrongValues
    } else {
        Verdict::Silent
    }
}

/// `bar.sync`, `fence.acq_rel.gpu`: what a row of the table is about.
fn family(instruction: &str) -> String {
    let word = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
    word.trim_end_matches(';').split('.').take(2).collect::<Vec<_>>().join(".")
}

#[test]
fn each_missing_synchronisation_is_reported_or_known_to_be_covered() {
    let mut table: BTreeMap<String, BTreeMap<Verdict, usize>> = BTreeMap::new();
    let mut silent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in Case::all(Folder::Pass).expect("a corpus") {
        for mutant in mutants(&case.text) {
            let text = Case { text: mutant.text.clone(), ..case.clone() };
            let verdict = judge(&text);
            *table.entry(family(&mutant.instruction)).or_default().entry(verdict).or_default() += 1;
            let what = format!("{:?} {}", mutant.mutation, mutant.instruction);
            match verdict {
                Verdict::Silent => silent.entry(case.name.clone()).or_default().push(what),
                Verdict::WrongValues => wrong.push(format!("{}: {what}", case.name)),
                Verdict::Error | Verdict::Warning => {}
            }
        }
    }
    println!("{:<28}{:>8}{:>10}{:>8}{:>8}", "without its", "errors", "warnings", "values", "silent");
    for (family, row) in &table {
        let count = |verdict| row.get(&verdict).copied().unwrap_or(0);
        let [errors, warnings, values, none] =
            [Verdict::Error, Verdict::Warning, Verdict::WrongValues, Verdict::Silent].map(count);
        println!("{family:<28}{errors:>8}{warnings:>10}{values:>8}{none:>8}");
    }
    for (name, all) in &silent {
        println!("silent: {name}: {}", all.join(" | "));
    }
    assert!(wrong.is_empty(), "other values and no finding:\n{}", wrong.join("\n"));
    SILENT.iter().for_each(|(name, count, why)| println!("known: {name}: {count}: {why}"));
    let known: BTreeSet<_> = SILENT.iter().map(|(name, count, _)| ((*name).to_owned(), *count)).collect();
    let found: BTreeSet<_> = silent.iter().map(|(name, all)| (name.clone(), all.len())).collect();
    let news: Vec<_> = found.symmetric_difference(&known).collect();
    assert!(news.is_empty(), "not as the list says: {news:?}");
}
