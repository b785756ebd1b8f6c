//! A confusion matrix of the race checks: every correct kernel of the corpus without each of its
//! barriers, fences, waits and orders, one at a time, with a plain load and a plain store in place
//! of each of its atomics, with each of its scopes ending at the block, and with `fence.acq_rel`
//! for each `fence.sc`.
//!
//! `cargo test -p warpfold-conformance --test planted_races -- --nocapture` prints the table, which
//! `corpus/README.md` keeps. A mutant that nothing objects to stands in [`SILENT`], with its
//! reason.

use std::collections::{BTreeMap, BTreeSet};

use warpfold_conformance::corpus::{Case, Folder, run_with, verdict};
use warpfold_conformance::mutants::{Mutant, Mutation, mutants, split_atomics, weakened};
use warpfold_sim::{Checks, Options, Severity, Stream};

/// Mutants that no check objects to, each with its number among those of its kernel: silent,
/// rightly, because of what stands there.
const SILENT: &[(&str, usize, &str, &str)] = &[
    ("bulk_load", 0, "fence.mbarrier_init", INIT),
    ("bulk_load_of_another_blocks_bulk_store", 6, "fence.mbarrier_init", INIT),
    ("bulk_load_of_what_another_block_wrote", 3, "fence.mbarrier_init", INIT),
    ("bulk_load_of_what_threads_wrote", 1, "fence.mbarrier_init", INIT),
    ("bulk_load_then_its_source_is_overwritten", 0, "fence.mbarrier_init", INIT),
    (
        "decoupled_lookback",
        0,
        "st.release",
        "a race in another execution: here each block has published its prefix, by the second st.release, before \
         another one looks, so that nobody reads the flag at 1 (lookback_over_partial_sums has that execution)",
    ),
    (
        "fence_of_another_lane",
        1,
        "fence.acq_rel",
        "the fence of a lane that has read nothing: it has nothing to order, which is what the kernel is about",
    ),
    (
        "fences_ordered_by_accesses_of_other_blocks",
        1,
        "st.release",
        "a strong store behind a fence.sc, which releases as well",
    ),
    (
        "fences_ordered_by_accesses_of_other_blocks",
        4,
        "ld.acquire",
        "a strong load in front of a fence.sc, which acquires as well",
    ),
    (
        "map_built_from_zeros",
        1,
        "bar.warp",
        "the warp copies the map as one (.sync.aligned), and the lane that has replaced its fields takes part",
    ),
    ("map_built_from_zeros", 4, "fence.mbarrier_init", INIT),
    ("matrix_of_padding_is_copied", 0, "bar.warp", OWN_WORDS),
    ("matrix_of_padding_is_copied", 1, "bar.warp", OWN_WORDS),
    ("mbarrier_ring", 0, "fence.mbarrier_init", INIT),
    ("red_async", 0, "fence.mbarrier_init", INIT_OF_CLUSTER),
    (
        "reserved_shared_memory",
        0,
        "bar.sync",
        "atomics on both sides: the count depends on the order of the warps, but there is no race in PTX's model",
    ),
    ("reserved_shared_memory", 2, "atom.shared, split", "one thread alone, and bar.sync orders it before the others"),
    ("st_async", 0, "fence.mbarrier_init", INIT_OF_CLUSTER),
];

/// A fence for other blocks of a cluster, in kernels that have none.
const INIT: &str = "fence.mbarrier_init announces barriers to the cluster; the block's own barrier orders its threads";
/// The same in a cluster; fault/mbarrier_init_not_announced has a relaxed arrival.
const INIT_OF_CLUSTER: &str = "the arrival at the cluster's barrier that follows releases the mbarrier as well";
/// Four consecutive lanes load or store a row.
const OWN_WORDS: &str = "each lane moves the very words of the matrix that it has stored, or loads next, itself";

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

/// The row of the table for a mutant.
fn row(mutant: &Mutant) -> String {
    let family = family(&mutant.instruction);
    match mutant.mutation {
        Mutation::Delete | Mutation::Relax | Mutation::Pass => family,
        Mutation::Split => format!("{family}, split"),
        Mutation::Narrow => format!("{family}, narrowed"),
        Mutation::Demote => format!("{family}, as acq_rel"),
    }
}

#[test]
fn each_missing_synchronisation_is_reported_or_known_to_be_covered() {
    let mut table: BTreeMap<String, BTreeMap<Verdict, usize>> = BTreeMap::new();
    let mut silent: BTreeMap<(String, usize), String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in Case::all(Folder::Pass).expect("a corpus") {
        let all = mutants(&case.text).into_iter().chain(split_atomics(&case.text)).chain(weakened(&case.text));
        for (n, mutant) in all.enumerate() {
            let text = Case { text: mutant.text.clone(), ..case.clone() };
            let verdict = judge(&text);
            *table.entry(row(&mutant)).or_default().entry(verdict).or_default() += 1;
            match verdict {
                Verdict::Silent => drop(silent.insert((case.name.clone(), n), row(&mutant))),
                Verdict::WrongValues => wrong.push(format!("{}: {n}: {}", case.name, mutant.instruction)),
                Verdict::Error | Verdict::Warning => {}
            }
        }
    }
    let count = |row: &BTreeMap<Verdict, usize>, verdict| row.get(&verdict).copied().unwrap_or(0);
    let lines = table.iter().map(|(family, row)| {
        let [errors, warnings, none] = [Verdict::Error, Verdict::Warning, Verdict::Silent].map(|v| count(row, v));
        format!("| {family} | {errors} | {warnings} | {none} |")
    });
    let lines: Vec<_> = lines.collect();
    println!("{}", lines.join("\n"));
    for (name, n, family, why) in SILENT {
        println!("silent, rightly: {name}, {n}, without its {family}, because: {why}");
    }
    assert!(wrong.is_empty(), "other values and no finding:\n{}", wrong.join("\n"));
    let known = SILENT.iter().map(|(name, n, family, _)| (((*name).to_owned(), *n), (*family).to_owned())).collect();
    let news: BTreeSet<_> = silent.iter().collect();
    let gone: BTreeMap<(String, usize), String> = known;
    let news: Vec<_> = news.symmetric_difference(&gone.iter().collect()).copied().collect();
    assert!(news.is_empty(), "not as the list says: {news:#?}");
    let readme = include_str!("../corpus/README.md");
    let written: BTreeSet<_> = readme.split("| without its |").nth(1).expect("a table").lines().skip(2).collect();
    let made: BTreeSet<_> = lines.iter().map(String::as_str).collect();
    assert!(
        written == made,
        "corpus/README.md differs from the table above in {:#?}",
        written.symmetric_difference(&made)
    );
}
