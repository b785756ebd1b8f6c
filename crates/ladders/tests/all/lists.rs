//! Sources of rungs, names of kernels, claims and errors.

use std::collections::BTreeSet;

use warpfold_device::Counters;
use warpfold_ladders::ladder::{Change, Claim, LADDERS, Measured, Memory, Metric};
use warpfold_ladders::{Error, all_kernels, rung_source, source_of_path};

#[test]
fn a_source_is_found_by_its_path() {
    let found = source_of_path("reduce", "/somewhere/crates/ladders/src/reduce/ladder/r02_interleaved.rs");
    assert_eq!(found, rung_source("reduce", "interleaved"));
    assert_eq!(source_of_path("scan", "reduce/ladder/r02_interleaved.rs"), None);
    assert_eq!(source_of_path("reduce", "interleaved"), None);
}

#[test]
fn every_rung_has_its_source() {
    let rungs = LADDERS.iter().flat_map(|ladder| ladder.rungs.iter().map(|rung| (ladder.name, rung.name)));
    let missing: Vec<_> = rungs.filter(|(ladder, rung)| rung_source(ladder, rung).is_none()).collect();
    assert!(missing.is_empty(), "without a line in sources.rs: {missing:?}");
}

#[test]
fn every_kernel_has_a_name_of_its_own() {
    let list = all_kernels();
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = list.iter().map(|listed| listed.kernel.name()).filter(|name| !seen.insert(*name)).collect();
    assert!(twice.is_empty(), "kernels of one name: {twice:?}");
}

#[test]
fn an_error_is_one_pointer_wide() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}

#[test]
fn a_claim_is_described_with_grouped_numbers() {
    let run = |conflicts| Measured {
        counters: Counters { shared_store_bank_conflicts: conflicts, ..Counters::default() },
        blocks: 1,
        steps: 1,
        memory: Memory::default(),
    };
    let claim = Claim::new(Metric::StoreConflicts, Change::ToZero);
    let (before, after) = (run(4_587_520), run(0));
    assert!(claim.holds(&before, &after) && !claim.holds(&after, &after));
    assert_eq!(claim.describe(&before, &after), "shared-store bank conflicts 4,587,520 → 0");
    let against = claim.against("naive").describe(&before, &after);
    assert_eq!(against, "shared-store bank conflicts 4,587,520 → 0 against naive");
    assert_eq!(claim.describe(&run(999), &after), "shared-store bank conflicts 999 → 0");
}
