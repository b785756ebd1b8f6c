//! What each kernel that ships prints, held by the files under `snapshots/`.

#[path = "common/snapshots.rs"]
mod snapshots;

use warpfold_kernels::kernels;
use warpfold_lang::{Arch, Target};

/// A kernel that waits for the launches before it may begin while they end: see
/// `wait_for_dependencies`.
#[test]
fn every_kernel_of_an_operator_waits_for_the_launches_before_it() {
    let mut tried = 0;
    for listed in kernels() {
        // What clears the counts of a histogram is no kernel.
        if listed.place == "histogram" {
            continue;
        }
        let built = listed.kernel.build(&Target::new(Arch::SM_90A, (8, 0))).unwrap_or_else(|error| panic!("{error}"));
        assert!(built.waits_for_dependencies, "{} of {}", built.entry, listed.place);
        tried += 1;
    }
    assert!(tried > 50, "{tried} kernels of operators");
}
