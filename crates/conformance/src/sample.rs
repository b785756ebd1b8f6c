//! Sampling of test cases: a third of them, or all with `WARPFOLD_ALL_TESTS` set.
//!
//! The third is the same on every run. What a test holds has to show in any third of its cases: a
//! boundary that has one case only is no case to leave out.

/// Returns whether every case is tested, which takes half an hour.
#[must_use]
pub fn tries_all() -> bool {
    std::env::var_os("WARPFOLD_ALL_TESTS").is_some()
}

/// Returns whether the case of this number is tested.
#[must_use]
pub fn is_sampled(number: usize) -> bool {
    tries_all() || number.is_multiple_of(3)
}

/// Returns the tested cases. Of the same cases in three turns, each is tried in one.
pub fn sampled<T>(turn: usize, cases: impl IntoIterator<Item = T>) -> Vec<T> {
    let numbered = cases.into_iter().enumerate();
    numbered.filter(|(number, _)| is_sampled(number + turn)).map(|(_, case)| case).collect()
}
