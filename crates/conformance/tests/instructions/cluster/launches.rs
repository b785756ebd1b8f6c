//! Which launches in clusters there are, and what is said of the others.

use warpfold_sim::{Arch, Error};

use crate::instructions::cluster::harness::{Sizes, launch, text};

#[track_caller]
fn refused(directives: &str, target: &str, arch: Arch, sizes: Sizes, reason: &str) {
    match launch(&text(target, directives, ""), arch, sizes) {
        Err(Error::InvalidLaunch { reason: given, .. }) => assert!(given.contains(reason), "{given}"),
        other => panic!("{directives} {sizes:?} gave {other:?}"),
    }
}

#[test]
fn launches_that_no_device_makes_are_refused() {
    let on_90 = |directives, sizes, reason| refused(directives, "sm_90", Arch::SM_90A, sizes, reason);
    on_90("", Sizes::row(6, 32, 4), "grid [6, 1, 1] is not a multiple of the cluster [4, 1, 1]");
    on_90("", Sizes::row(32, 32, 32), "has 32 blocks; 1 to 16 are possible");
    on_90("", Sizes { grid: [4, 4, 4], block: [32, 1, 1], cluster: [4, 4, 4] }, "has 64 blocks");
    on_90("", Sizes::row(4, 32, 0), "has 0 blocks");
    on_90(".reqnctapercluster 2", Sizes::row(4, 32, 4), "cluster [4, 1, 1] differs from the [2, 1, 1]");
    on_90(".reqnctapercluster 2", Sizes::row(5, 32, 1), "grid [5, 1, 1] is not a multiple of the cluster [2, 1, 1]");
    on_90(".maxclusterrank 2", Sizes::row(8, 32, 4), "the kernel declares at most 2");
    on_90(".explicitcluster", Sizes::row(8, 32, 1), "must be launched with a cluster size");
    refused("", "sm_80", Arch::SM_80, Sizes::row(4, 32, 2), "clusters need sm_90 or later");
}

#[test]
fn a_required_cluster_is_that_of_a_launch_without_one() {
    let body = "mov.u32 %result, %cluster_nctarank;";
    for directives in [".reqnctapercluster 2, 2", ".explicitcluster .reqnctapercluster 2, 2, 1"] {
        let sizes = Sizes { grid: [4, 2, 1], block: [32, 1, 1], cluster: [1, 1, 1] };
        let (values, _) = launch(&text("sm_90", directives, body), Arch::SM_90A, sizes).unwrap();
        assert!(values.iter().all(|value| *value == 4), "{directives}");
    }
}

#[test]
fn grids_counted_in_clusters_are_refused_when_they_are_loaded() {
    let text = text("sm_90", ".reqntid 32 .reqnctapercluster 2 .blocksareclusters", "");
    assert!(matches!(launch(&text, Arch::SM_90A, Sizes::row(4, 32, 1)), Err(Error::Unsupported { .. })));
}
