//! Races between devices, through peer memory: the checks find them.

use warpfold_collectives::{DirectOptions, Error, Group, PeerOptions, Reduce};
use warpfold_device::{Checks, Device, FindingKind};

/// Findings of an all-reduce whose kernel was changed.
fn findings(change: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> Vec<(FindingKind, Option<u32>)> {
    let direct = DirectOptions { from_bytes: 1 << 20, blocks: 2, threads: 32 };
    let options = PeerOptions { blocks: 2, threads: 32, stage_bytes: 1024, looks: 1 << 20, direct };
    let group = Group::virtual_gpus(2).expect("a group").with_options(options);
    for device in group.devices() {
        device.rewrite_kernels(change.clone());
        device.set_checks(Checks::All).expect("a virtual GPU");
    }
    let result = group.run(|rank| -> Result<(), Error> {
        let mut data = rank.device().upload(&[1.0_f32; 96])?;
        for _ in 0..3 {
            rank.all_reduce_in_place(&rank.device().default_stream(), Reduce::Sum, &mut data)?;
        }
        Ok(())
    });
    result.expect("all ranks end");
    let of = |device: &Device| device.take_reports().into_iter().flat_map(|report| report.report.findings);
    let of_first = of(&group.devices()[0]);
    of_first.map(|finding| (finding.kind, finding.other.map(|other| other.block[2]))).collect()
}

#[test]
fn the_kernel_as_it_is_has_none() {
    assert_eq!(findings(str::to_owned), []);
}

#[test]
fn a_flag_that_is_not_released_is_a_race_with_another_device() {
    let found = findings(|text| text.replace("st.release.sys", "st.relaxed.sys"));
    assert!(found.iter().any(|(kind, _)| *kind == FindingKind::Race), "{found:?}");
    assert!(found.iter().any(|(_, device)| *device == Some(1)), "the other side is on device 1: {found:?}");
}

#[test]
fn a_flag_that_is_not_acquired_is_a_race_with_another_device() {
    let found = findings(|text| text.replace("ld.acquire.sys", "ld.relaxed.sys"));
    assert!(found.iter().any(|(kind, _)| *kind == FindingKind::Race), "{found:?}");
}
