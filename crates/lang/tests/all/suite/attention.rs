//! What attention needs: products of products, rows of sums, turns of warpgroups, tiles that blocks
//! draw.

use half::{bf16, f16};
use warpfold_lang::{
    Fragment, Global, HalfOfPair, Kernel, Major, Multiplicand, NamedBarriers, Operands, Swizzle, TileCounter, Val,
    WarpSums, WarpgroupFragment, WarpgroupSums, fence_async, fold_quad, kernel, linear_thread_idx, range, sync_threads,
    thread_idx, tile, var, vars, warp_id, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait, when, when_else,
};

use super::Case;

/// What sm_80 has.
pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(drawn_together()), Case::new(of_warp_sums())]
}

/// What sm_90a has.
pub(crate) fn hopper_cases() -> Vec<Case> {
    vec![
        Case::new(overlapped::<bf16>("bf16", 128, 128)),
        Case::new(overlapped::<f16>("f16", 64, 64)),
        Case::new(of_registers::<bf16>("bf16")),
        Case::new(of_registers::<i8>("s8")),
        Case::new(of_registers::<f32>("tf32")),
        Case::new(turns()),
        Case::new(drawn()),
    ]
}

/// 64 queries against blocks of `keys` keys: the products with the values of one block run under
/// the softmax of the next.
fn overlapped<T: Multiplicand<Sum = f32> + HalfOfPair>(
    name: &str,
    keys: u32,
    depth: u32,
) -> Kernel<(Global<T>, Global<f32>, u32)>
where
    Global<T>: warpfold_lang::Received<Param = Global<T>>,
{
    let body = move |data: Global<T>, output: Global<f32>, blocks: Val<u32>| {
        let [q, k, v] = [64, keys, keys].map(|rows| tile::<T>(rows, depth, Swizzle::Bytes128));
        let fill = |tile: warpfold_lang::Tile<T>, from: Global<T>| {
            range(thread_idx().x, tile.rows() * depth, 128, |i| tile.at(i / depth, i % depth).set(from.at(i).get()));
        };
        fill(q, data);
        let (scores, out) = (WarpgroupSums::<T>::new(keys), WarpgroupSums::<T>::new(depth));
        let weights = WarpgroupFragment::<T>::new(keys);
        let state = vars([[f32::NEG_INFINITY; 2], [0.0; 2]].map(|pair| pair.map(Val::constant)));
        // The scores become weights; how much less what came before them weighs.
        let softmax = || {
            let [old, sums] = state.get();
            let largest = fold_quad(scores.fold_rows(Val::max), |a, b| [0, 1].map(|row| a[row].max(b[row])));
            let new = [0, 1].map(|row| old[row].max(largest[row]));
            scores.update(|row, _, score| (score - new[row]).exp2_flushed());
            let factor = [0, 1].map(|row| (old[row] - new[row]).exp2_flushed());
            let added = scores.fold_rows(|a, b| a + b);
            state.set([new, [0, 1].map(|row| sums[row].mul_add(factor[row], added[row]))]);
            factor
        };
        let multiply_keys =
            || scores.add_product(&Operands { a: q, a_major: Major::K, b: k, b_major: Major::K }, false);
        let started = var(false);
        range(0, blocks, 1, |block| {
            fill(k, data.at(block * keys * depth));
            fence_async();
            sync_threads();
            wgmma_fence();
            multiply_keys();
            wgmma_commit();
            out.add_product_of(&weights, v, Major::Mn, started);
            wgmma_commit();
            wgmma_wait(1);
            let factor = softmax();
            wgmma_wait(0);
            out.scale_rows(factor);
            weights.set_sums(&scores);
            started.set(true);
            fill(v, data.at(block * keys * depth));
            fence_async();
            sync_threads();
        });
        wgmma_fence();
        out.add_product_of(&weights, v, Major::Mn, started);
        wgmma_commit();
        wgmma_wait(0);
        let sums = fold_quad(state.get()[1], |a, b| [0, 1].map(|row| a[row] + b[row]));
        out.scale_rows(sums.map(Val::recip_approx));
        out.pairs().for_each(|(row, column, pair)| output.at(row * depth + column).set_vec(pair));
    };
    kernel(format!("overlapped_{name}"), body).required_block(128)
}

/// A product of one panel with A loaded into registers.
fn of_registers<T: Multiplicand>(name: &str) -> Kernel<(Global<T>, Global<T::Sum>)>
where
    Global<T>: warpfold_lang::Received<Param = Global<T>>,
    Global<T::Sum>: warpfold_lang::Received<Param = Global<T::Sum>>,
{
    let body = |input: Global<T>, output: Global<T::Sum>| {
        let depth = 128 / T::BYTES;
        let a = tile::<T>(64, depth, Swizzle::Bytes128);
        range(thread_idx().x, 64 * depth, 128, |i| a.at(i / depth, i % depth).set(input.at(i).get()));
        fence_async();
        sync_threads();
        let (left, sums) = (WarpgroupFragment::<T>::new(depth), WarpgroupSums::<T>::new(64));
        left.load(a, Major::K);
        wgmma_fence();
        sums.add_product_of(&left, a, Major::K, false);
        wgmma_commit();
        wgmma_wait(0);
        sums.pairs().for_each(|(row, column, pair)| output.at(row * 64 + column).set_vec(pair));
    };
    kernel(format!("of_registers_{name}"), body).required_block(128)
}

/// (Q Kᵀ) V of a warp: its scores are scaled and multiplied where they came to be.
fn of_warp_sums() -> Kernel<(Global<bf16>, Global<f32>)> {
    let body = |input: Global<bf16>, output: Global<f32>| {
        let tile = tile::<bf16>(16, 64, Swizzle::Bytes128);
        range(thread_idx().x, 16 * 64, 32, |i| tile.at(i / 64, i % 64).set(input.at(i).get()));
        sync_threads();
        let scores = [0, 1].map(|_| WarpSums::<bf16>::zero());
        for (scores, keys) in scores.iter().zip(tile.fragments_b(Major::K, 0, 0)) {
            scores.add_product(tile.fragment_a(Major::K, 0, 0), keys);
            scores.update(|row, column, score| score * (row as f32 + 2.0) + column as f32);
        }
        let sums = WarpSums::<bf16>::zero();
        sums.add_product(Fragment::of_sums(scores), tile.fragments_b(Major::Mn, 0, 0)[0]);
        for (row, column, pair) in sums.pairs() {
            output.at(row * 8 + column).set_vec(pair);
        }
    };
    kernel("of_warp_sums", body).required_block(32)
}

/// Two warpgroups that take turns.
fn turns() -> Kernel<(Global<u32>, u32)> {
    let body = |counter: Global<u32>, rounds: Val<u32>| {
        let (own, turn) = (warpgroup_idx(), NamedBarriers { first: 4, num: 2, threads: 256 });
        when(own.eq(1), || turn.arrive(0));
        range(0, rounds, 1, |_| {
            turn.sync(own);
            when((linear_thread_idx() & 127).eq(0), || counter.add_assign(1));
            turn.arrive(own ^ 1);
        });
    };
    kernel("turns", body).required_block(256)
}

/// A warp that draws tiles, and one that computes them.
fn drawn() -> Kernel<(Global<u32>, u32, Global<u32>)> {
    let body = |counter: Global<u32>, total: Val<u32>, out: Global<u32>| {
        let tiles = TileCounter::new(counter, total);
        when(linear_thread_idx().eq(0), || tiles.init(32));
        sync_threads();
        when_else(
            warp_id().eq(0),
            || when(linear_thread_idx().eq(0), || tiles.produce(|tile| out.at(tile).prefetch())),
            || tiles.consume(|tile| out.at(tile * 32 + (linear_thread_idx() & 31)).add_assign(1)),
        );
    };
    kernel("drawn", body).required_block(64)
}

/// Blocks that draw tiles as a whole.
fn drawn_together() -> Kernel<(Global<u32>, u32, Global<u32>)> {
    let body = |counter: Global<u32>, total: Val<u32>, out: Global<u32>| {
        TileCounter::new(counter, total).each_together(|tile| out.at(tile * 64 + thread_idx().x).add_assign(1));
    };
    kernel("drawn_together", body).required_block(64)
}
