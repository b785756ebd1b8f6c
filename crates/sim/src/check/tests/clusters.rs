//! Scopes that end at a cluster: they order the blocks of it, and no others.

use super::*;

const FLAG: u64 = 4096;
const NARROW: Rule = Rule::InsufficientScope;

/// Three blocks, the first two of them a cluster.
fn rig() -> Rig {
    let mut rig = Rig::new(3, 32);
    for (block, peers) in [(0, &[0, 1][..]), (1, &[0, 1]), (2, &[2, 3])] {
        rig.blocks[block].join_cluster(&rig.launch, peers);
    }
    rig
}

fn release(scope: Scope) -> Step {
    write(2).strong(Order::Release, scope).one(0, FLAG)
}

fn acquire(scope: Scope) -> Step {
    read(3).strong(Order::Acquire, scope).one(0, FLAG)
}

#[test]
fn a_release_or_acquire_of_cluster_scope_orders_blocks_of_the_cluster_alone() {
    use Scope::{Cluster, Gpu};
    for (scopes, far) in [([Gpu, Gpu], true), ([Gpu, Cluster], false), ([Cluster, Gpu], false), ([Cluster; 2], false)] {
        for reader in [1, 2] {
            let mut rig = rig();
            rig.global(0, &write(1).one(0, 8));
            rig.global(0, &release(scopes[0]));
            rig.global(reader, &acquire(scopes[1]));
            rig.global(reader, &read(4).one(0, 8));
            let found: Vec<_> = rig.findings.iter().map(|found| (found.this.instr, found.rule)).collect();
            let expected: &[_] = if reader == 1 || far { &[] } else { &[(3, NARROW), (4, NARROW)] };
            assert_eq!(found, expected, "{scopes:?}, read by block {reader}");
        }
    }
}

#[test]
fn a_fence_of_cluster_scope_orders_blocks_of_the_cluster_alone() {
    use Scope::{Cluster, Gpu};
    for (scopes, far) in [([Gpu, Gpu], true), ([Gpu, Cluster], false), ([Cluster, Gpu], false)] {
        for reader in [1, 2] {
            let mut rig = rig();
            rig.global(0, &write(1).one(0, 8));
            rig.fence(0, 0, scopes[0]);
            rig.global(0, &write(2).strong(Order::Relaxed, Gpu).one(0, FLAG));
            rig.global(reader, &read(3).strong(Order::Relaxed, Gpu).one(0, FLAG));
            rig.fence(reader, 0, scopes[1]);
            rig.global(reader, &read(4).one(0, 8));
            rig.finds(if reader == 1 || far { &[] } else { &[NARROW] });
        }
    }
}

#[test]
fn what_a_cluster_has_acquired_from_outside_its_blocks_hand_on_among_themselves() {
    let mut rig = rig();
    rig.global(2, &write(1).one(0, 8));
    rig.global(2, &release(Scope::Gpu));
    rig.global(0, &acquire(Scope::Gpu));
    rig.global(0, &write(4).strong(Order::Release, Scope::Cluster).one(0, FLAG + 4));
    rig.global(1, &read(5).strong(Order::Acquire, Scope::Cluster).one(0, FLAG + 4));
    rig.global(1, &read(6).one(0, 8));
    rig.finds(&[]);
}

#[test]
fn strong_accesses_of_cluster_scope_race_with_those_of_another_cluster() {
    let add = |instr, scope| atomic(instr).strong(Order::Relaxed, scope).one(0, 8);
    for (other, scopes, rules) in [
        (1, [Scope::Cluster; 2], &[][..]),
        (2, [Scope::Cluster; 2], &[NARROW]),
        (2, [Scope::Gpu, Scope::Cluster], &[NARROW]),
        (2, [Scope::Gpu; 2], &[]),
    ] {
        let mut rig = rig();
        rig.global(0, &add(1, scopes[0]));
        rig.global(other, &add(2, scopes[1]));
        rig.finds(rules);
    }
}
