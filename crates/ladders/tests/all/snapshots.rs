//! What each rung prints, held by the files under `snapshots/`.

#[path = "../../../kernels/tests/common/snapshots.rs"]
mod snapshots;

use warpfold_ladders::rungs as kernels;
