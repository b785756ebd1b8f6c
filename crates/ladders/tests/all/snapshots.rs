//! What each rung prints.

#[path = "../../../lang/tests/common/snapshots.rs"]
mod common;

use warpfold_ladders::rungs;
use warpfold_lang::{Built, Error, Target};

fn build(target: &Target) -> impl Iterator<Item = Result<Built, Error>> {
    rungs().into_iter().map(|listed| listed.kernel.build(target))
}

/// The file of a rung; none of kernels that ship.
fn text_group(built: &Built) -> Option<String> {
    let file = built.defined_at.file();
    file.contains("ladders").then(|| file.to_owned())
}
