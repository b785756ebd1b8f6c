//! Rules of the checker, one sentence each.

use crate::report::Severity;

use super::*;

/// A launch with some blocks resident at a time, driven by hand.
struct Rig {
    launch: LaunchCheck,
    blocks: Vec<BlockCheck>,
    shadow: GlobalShadow,
    findings: Findings,
}

const BASE: u64 = 0x1000;
const WEAK: Strength = Strength::Weak;
const ALL: u32 = u32::MAX;

fn relaxed(scope: Scope) -> Strength {
    Strength::Strong(Semantics::Relaxed, scope)
}

impl Rig {
    fn new(blocks: u32, threads: u32) -> Self {
        let launch = DeviceCheck::default().begin(true, || {});
        let blocks = (0..blocks)
            .map(|block| {
                let mut check = BlockCheck::new(4096);
                check.begin(&launch, block, threads);
                check
            })
            .collect();
        let shadow = GlobalShadow::new(BASE, 1 << 16);
        shadow.mark_written(BASE, 1 << 16);
        Self { launch, blocks, shadow, findings: Findings::default() }
    }

    /// All of shared memory is written, and everybody knows.
    fn filled(threads: u32) -> Self {
        let mut rig = Self::new(1, threads);
        for at in 0..8 {
            rig.shared(999, 0, Kind::Write, WEAK, ALL, 16, |lane| at * 512 + lane * 16);
        }
        rig.sync(0);
        rig
    }

    #[allow(clippy::too_many_arguments, reason = "one line a step reads best in the tests")]
    fn shared(
        &mut self,
        instr: u32,
        warp: u32,
        kind: Kind,
        strength: Strength,
        mask: u32,
        bytes: u32,
        at: impl Fn(u64) -> u64,
    ) {
        let addresses = std::array::from_fn(|lane| at(lane as u64));
        let access = Access { instr, warp, mask, bytes, kind, strength };
        self.blocks[0].shared_access(&access, &addresses, None, &mut self.findings);
    }

    /// A full barrier of the block.
    fn sync(&mut self, block: usize) {
        let warps = self.blocks[block].warps();
        for warp in 0..warps.count_ones() {
            self.blocks[block].arrive(0, warp);
        }
        self.blocks[block].complete(0, warps, true);
    }

    #[track_caller]
    fn finds(self, expected: &[(Rule, Severity)]) {
        let found: Vec<_> = self.findings.iter().map(|found| (found.rule, found.severity)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn warps_that_meet_without_a_barrier_race() {
    let mut rig = Rig::filled(64);
    rig.shared(1, 0, Kind::Write, WEAK, ALL, 4, |lane| lane * 4);
    rig.shared(2, 1, Kind::Read, WEAK, ALL, 4, |lane| lane * 4);
    rig.finds(&[(Rule::ReadAfterWrite, Severity::Error)]);
}

#[test]
fn a_block_barrier_orders_warps() {
    let mut rig = Rig::filled(64);
    rig.shared(1, 0, Kind::Write, WEAK, ALL, 4, |lane| lane * 4);
    rig.sync(0);
    rig.shared(2, 1, Kind::Read, WEAK, ALL, 4, |lane| lane * 4);
    rig.finds(&[]);
}
