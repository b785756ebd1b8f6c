//! The pool under a hundred thousand random operations, against a model of it that is a few lines
//! long.

use std::collections::BTreeMap;

use super::{BlockId, Key, Parent, Pool};
use crate::sampling::philox;

const BLOCKS: usize = 24;
const ROUNDS: u32 = 100_000;

/// Expected state of the pool: references, content of each block, and the last step that may access
/// it.
#[derive(Default)]
struct Expected {
    refs: BTreeMap<BlockId, u32>,
    prefixes: BTreeMap<u32, BlockId>,
    fences: BTreeMap<BlockId, u64>,
}

fn key(token: u32) -> Key {
    Key::new(Parent::Root { salt: "".into(), adapter: None }, &[token])
}

#[test]
fn invariants_hold_over_a_hundred_thousand_operations() {
    let mut pool = Pool::new(BLOCKS);
    let mut expected = Expected::default();
    let mut held: Vec<BlockId> = Vec::new();
    let mut step = 0;
    for round in 0..ROUNDS {
        let [operation, which, token, ahead] = philox(1, [round, 0, 0, 0]);
        let any = (!held.is_empty()).then(|| which as usize % held.len().max(1));
        match (operation % 8, any) {
            (0..=2, _) => take(&mut pool, &mut expected, &mut held, step),
            (3 | 4, Some(i)) => {
                let id = held.swap_remove(i);
                let fence = step + u64::from(ahead % 3);
                pool.release(id, fence);
                let until = expected.fences.entry(id).or_default();
                *until = fence.max(*until);
                *expected.refs.get_mut(&id).expect("it is held") -= 1;
            }
            (5, Some(i)) => {
                let prefix = token % 40;
                pool.publish(held[i], key(prefix));
                if !expected.prefixes.contains_key(&prefix) {
                    expected.prefixes.retain(|_, id| *id != held[i]);
                    expected.prefixes.insert(prefix, held[i]);
                }
            }
            (6, _) => {
                let prefix = token % 40;
                let hit = pool.lookup(&key(prefix)).map(|h| h.block);
                assert_eq!(hit, expected.prefixes.get(&prefix).copied(), "round {round}");
                if let Some(id) = hit {
                    pool.share(id);
                    held.push(id);
                    *expected.refs.entry(id).or_default() += 1;
                }
            }
            _ => {
                step += 1;
                pool.finish_step(step);
            }
        }
        let refs = |id| expected.refs.get(&id).copied().unwrap_or(0);
        pool.check(&(0..=BLOCKS as BlockId).map(refs).collect::<Vec<_>>());
    }
    held.into_iter().for_each(|id| pool.release(id, step));
    pool.finish_step(step + 10);
    pool.clear_index();
    assert_eq!((pool.num_free(), pool.num_indexed()), (BLOCKS, 0));
}

fn take(pool: &mut Pool, expected: &mut Expected, held: &mut Vec<BlockId>, step: u64) {
    let Some(id) = pool.take() else { return };
    assert!(id > 0 && !held.contains(&id), "block {id} is given out while it is held");
    let fence = expected.fences.get(&id).copied().unwrap_or(0);
    assert!(fence <= step, "block {id} is given out before step {fence} is over");
    expected.prefixes.retain(|_, block| *block != id);
    expected.refs.insert(id, 1);
    held.push(id);
}
