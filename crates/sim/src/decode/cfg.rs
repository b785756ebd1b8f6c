//! The control-flow graph: a divergent branch reconverges at its immediate post-dominator.
//!
//! The algorithm is that of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on
//! the reversed graph.

use crate::exec::code::{Block, BlockId, Code, NO_BLOCK, Terminator};

/// The blocks that may follow a block, within its function.
pub(super) fn successors(code: &Code, block: &Block) -> Vec<BlockId> {
    match &block.terminator {
        Terminator::Jump(next) => vec![*next],
        Terminator::Branch { taken, next, .. } => vec![*taken, *next],
        Terminator::Switch { targets, count, .. } => {
            code.lists[*targets as usize..(*targets + *count) as usize].to_vec()
        }
        Terminator::Call(call) => vec![call.next],
        Terminator::WarpSync { next, .. } => vec![*next],
        Terminator::Barrier(barrier) => vec![barrier.next],
        Terminator::ClusterBarrier(barrier) => vec![barrier.next],
        Terminator::MbarrierWait { next, .. } => vec![*next],
        Terminator::SetRegisters(set) => vec![set.next],
        Terminator::Return | Terminator::Exit | Terminator::Trap { .. } => Vec::new(),
    }
}

/// Fills in the join of each branch among the blocks `first..`, which make up one function.
pub(super) fn fill_joins(code: &mut Code, first: BlockId) {
    let count = code.blocks.len() - first as usize;
    let exit = count; // the virtual block to which every end leads
    let local = |block: BlockId| (block - first) as usize;
    let next: Vec<Vec<usize>> = code.blocks[first as usize..]
        .iter()
        .map(|block| {
            let to: Vec<usize> = successors(code, block).into_iter().map(local).collect();
            if to.is_empty() { vec![exit] } else { to }
        })
        .collect();
    let mut previous = vec![Vec::new(); count + 1];
    for (block, to) in next.iter().enumerate() {
        for &target in to {
            previous[target].push(block);
        }
    }
    let joins = immediate_dominators(exit, &previous, &next);
    for (block, joined) in code.blocks[first as usize..].iter_mut().zip(&joins) {
        let to = match joined {
            Some(j) if *j != exit => first + super::control::index_u32(*j),
            _ => NO_BLOCK,
        };
        match &mut block.terminator {
            Terminator::Branch { join, .. } | Terminator::Switch { join, .. } => *join = to,
            _ => {}
        }
    }
}

/// Immediate dominators of the nodes reachable from `root` along `forward`; `backward` is its
/// inverse.
fn immediate_dominators(root: usize, forward: &[Vec<usize>], backward: &[Vec<usize>]) -> Vec<Option<usize>> {
    let order = postorder(root, forward);
    let mut number = vec![usize::MAX; forward.len()];
    for (i, &node) in order.iter().enumerate() {
        number[node] = i;
    }
    let mut dominator: Vec<Option<usize>> = vec![None; forward.len()];
    dominator[root] = Some(root);
    let mut changed = true;
    while changed {
        changed = false;
        for &node in order.iter().rev().filter(|&&n| n != root) {
            let mut best = None;
            for &p in backward[node].iter().filter(|&&p| dominator[p].is_some()) {
                best = Some(match best {
                    None => p,
                    Some(b) => intersect(b, p, &dominator, &number),
                });
            }
            if dominator[node] != best {
                dominator[node] = best;
                changed = true;
            }
        }
    }
    dominator[root] = None;
    dominator
}

fn intersect(mut a: usize, mut b: usize, dominator: &[Option<usize>], number: &[usize]) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = dominator[a].expect("a processed node has a dominator");
        }
        while number[b] < number[a] {
            b = dominator[b].expect("a processed node has a dominator");
        }
    }
    a
}

fn postorder(root: usize, forward: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; forward.len()];
    let mut order = Vec::new();
    let mut stack = vec![(root, 0)];
    seen[root] = true;
    while let Some((node, child)) = stack.pop() {
        if let Some(&to) = forward[node].get(child) {
            stack.push((node, child + 1));
            if !seen[to] {
                seen[to] = true;
                stack.push((to, 0));
            }
        } else {
            order.push(node);
        }
    }
    order
}
