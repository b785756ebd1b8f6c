//! Scenarios on the scripted model, and the faults that they must find.

use super::{ScenarioSeen, explore, run_scripted};
use crate::planted::{EngineFault, plant};

/// Scenarios of CI's sample.
const SAMPLE: u64 = 2_000;

#[test]
fn no_scenario_changes_an_answer_or_leaves_one_without_a_reason() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let all = match number("WARPFOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WARPFOLD_SCHEDULES").unwrap_or(SAMPLE),
    };
    let is_sample = all.end - all.start >= SAMPLE;
    let again = |seed| format!("WARPFOLD_SEED={seed} repeats it");
    let seen = explore(all, run_scripted).unwrap_or_else(|failure| panic!("{failure} ({})", again(failure.seed)));
    let ScenarioSeen { answered, refused, failed, left, preempted, hits, copied, adapted, reweighted, .. } = seen;
    let each = [answered, refused, failed, left, preempted, hits, copied, adapted, reweighted];
    assert!(!is_sample || each.iter().all(|n| *n > 200), "too little has happened: {seen:?}");
}

/// All of them.
const FAULTS: [EngineFault; 27] = [
    EngineFault::ShareIsNotCounted,
    EngineFault::TakenBlockStaysInIndex,
    EngineFault::RunIsNotTaken,
    EngineFault::RetiredBlockIsForgotten,
    EngineFault::FreeLengthIsStale,
    EngineFault::AdapterIsNoPartOfKey,
    EngineFault::CopyIsNotMade,
    EngineFault::CopyIsNotCounted,
    EngineFault::SwappedShareIsNotCounted,
    EngineFault::ForkHoldsTooFew,
    EngineFault::LastBlockLeaks,
    EngineFault::AbortOfSwappedLeaks,
    EngineFault::RestartKeepsComputed,
    EngineFault::TableIsStale,
    EngineFault::PlanIsNotFollowed,
    EngineFault::EndedKeepsBlocks,
    EngineFault::SwappedIsNotWoken,
    EngineFault::FailureForgetsSwapped,
    EngineFault::GuessIsNotCompared,
    EngineFault::ForkComesEarly,
    EngineFault::TicketIsKept,
    EngineFault::FailureIsNotTold,
    EngineFault::LastUpdateIsLost,
    EngineFault::DrainTakesMore,
    EngineFault::RefusalIsIgnored,
    EngineFault::WeightsDoNotWait,
    EngineFault::PrefixesOutliveWeights,
];

/// Scenarios within which a fault must be found.
const SCENARIOS: u64 = 10_000;

#[test]
fn every_planted_fault_is_found() {
    let mut missed = Vec::new();
    for fault in FAULTS {
        plant(Some(fault));
        let found = explore(0..SCENARIOS, run_scripted);
        plant(None);
        match found {
            Ok(_) => missed.push(fault),
            Err(failure) => {
                let text = failure.message.lines().next().unwrap_or_default();
                println!("{fault:?}: found after {}: {text:.100}", failure.seed + 1);
            }
        }
    }
    assert!(missed.is_empty(), "in {SCENARIOS} scenarios nothing shows {missed:?}");
}
