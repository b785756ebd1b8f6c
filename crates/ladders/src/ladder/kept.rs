//! Checks the claims of rungs against a run.

use super::{Ladder, LadderReport};

/// The claims that a run did not keep, each in a sentence; those of rungs that were not run, or
/// whose rung before was not, are left out. Empty on CUDA, which has no counters. Claims are about
/// sizes that keep a GPU busy: at small ones some do not hold.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::Dtype;
/// use warpfold_ladders::ladder::{RunOptions, broken_claims, ladder, run};
///
/// let (device, add) = (Device::virtual_gpu(Profile::H200), ladder("vector-add")?);
/// let report = run(&device, add, 1 << 16, Dtype::F32, &RunOptions::default())?;
/// assert_eq!(broken_claims(add, &report), [""; 0]);
/// # Ok::<(), warpfold_ladders::Error>(())
/// ```
#[must_use]
pub fn broken_claims(ladder: &Ladder, report: &LadderReport) -> Vec<String> {
    let measured = |name: &str| report.rungs.iter().find(|rung| rung.name == name)?.measured();
    let mut broken = Vec::new();
    for (i, rung) in ladder.rungs.iter().enumerate() {
        let before = i.checked_sub(1).map(|before| ladder.rungs[before].name);
        for claim in rung.claims {
            let against = claim.against.or(before).and_then(measured);
            let Some((before, after)) = against.zip(measured(rung.name)) else { continue };
            if !claim.holds(&before, &after) {
                broken.push(format!("{}: {}", rung.name, claim.describe(&before, &after)));
            }
        }
    }
    broken
}
