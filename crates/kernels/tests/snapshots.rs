//! What each kernel that ships prints.

#[path = "../../lang/tests/common/snapshots.rs"]
mod common;

use warpfold_kernels::kernels;
use warpfold_lang::{Arch, Built, Error, Target};

fn build(target: &Target) -> impl Iterator<Item = Result<Built, Error>> {
    kernels().into_iter().map(|listed| listed.kernel.build(target))
}

/// The file of a kernel.
fn text_group(built: &Built) -> Option<String> {
    Some(built.defined_at.file().to_owned())
}

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
