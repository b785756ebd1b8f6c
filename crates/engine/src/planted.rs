//! Faults that tests plant, to see that the simulation finds them.
//!
//! Each is a place in the engine that asks [`planted`]: a constant `false` but in this crate's own
//! tests, so that a product has neither the question nor the fault.

/// A fault, by what goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineFault {
    // The allocator.
    ShareIsNotCounted,
    TakenBlockStaysInIndex,
    RunIsNotTaken,
    RetiredBlockIsForgotten,
    FreeLengthIsStale,
    AdapterIsNoPartOfKey,
    CopyIsNotMade,
    CopyIsNotCounted,
    SwappedShareIsNotCounted,
    ForkHoldsTooFew,
    LastBlockLeaks,
    // The scheduler.
    AbortOfSwappedLeaks,
    RestartKeepsComputed,
    TableIsStale,
    PlanIsNotFollowed,
    EndedKeepsBlocks,
    SwappedIsNotWoken,
    FailureForgetsSwapped,
    GuessIsNotCompared,
    ForkComesEarly,
    // What serves its clients.
    TicketIsKept,
    FailureIsNotTold,
    LastUpdateIsLost,
    DrainTakesMore,
    RefusalIsIgnored,
    WeightsDoNotWait,
    PrefixesOutliveWeights,
}

/// Returns whether a fault is planted.
#[cfg(not(test))]
pub(crate) const fn planted(_: EngineFault) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<EngineFault>> = const { std::cell::Cell::new(None) };
}

/// Returns whether a fault is planted on this thread.
#[cfg(test)]
pub(crate) fn planted(fault: EngineFault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants a fault on this thread, or none.
#[cfg(test)]
pub(crate) fn plant(fault: Option<EngineFault>) {
    PLANTED.set(fault);
}
