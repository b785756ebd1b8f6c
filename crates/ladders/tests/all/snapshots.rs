//! What each rung prints, held by the files under `snapshots/`.

#[path = "../../../kernels/tests/common/snapshots.rs"]
mod common;

use warpfold_ladders::rungs as kernels;
