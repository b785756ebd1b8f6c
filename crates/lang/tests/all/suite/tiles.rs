//! Tiles, products of tiles and barriers.

use half::{bf16, f16};
use warpfold_lang::{
    Barriers, F8E4M3, F8E5M2, Global, Kernel, Major, Multiplicand, Operands, Pipeline, Sum, Swizzle, TensorMap, Val,
    WarpSums, WarpgroupSums, barriers, bulk_commit, bulk_wait, bulk_wait_read, fence_async, kernel, linear_thread_idx,
    range, sync_threads, thread_idx, tile, tiles, warp_id, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::Case;

/// What sm_80 has.
pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(warp_product::<f16>("f16", Major::K)),
        Case::new(warp_product::<bf16>("bf16", Major::Mn)),
        Case::new(warp_product::<f32>("tf32", Major::K)),
        Case::new(warp_product::<i8>("s8", Major::K)),
        Case::new(phases()),
    ]
}

/// What sm_90a has.
pub(crate) fn hopper_cases() -> Vec<Case> {
    use Major::{K, Mn};
    use Swizzle::{Bytes32, Bytes64, Bytes128};
    vec![
        Case::new(warp_product::<u8>("u8", K)),
        Case::new(warpgroup_product::<f16>("f16", 8, [K, Mn], Bytes64)),
        Case::new(warpgroup_product::<bf16>("bf16", 256, [K, K], Bytes128)),
        Case::new(warpgroup_product::<bf16>("bf16_mn", 64, [Mn, Mn], Bytes128)),
        Case::new(warpgroup_product::<f32>("tf32", 128, [K, K], Bytes128)),
        Case::new(warpgroup_product::<F8E4M3>("e4m3", 192, [K, K], Bytes128)),
        Case::new(warpgroup_product::<F8E5M2>("e5m2", 24, [K, K], Bytes32)),
        Case::new(warpgroup_product::<i8>("s8", 48, [K, K], Bytes64)),
        Case::new(ring()),
        Case::new(packed()),
        Case::new(copied()),
    ]
}

/// A warp's 16 x 16 product over one panel of `k`.
fn warp_product<T: Multiplicand>(name: &str, major: Major) -> Kernel<(Global<T>, Global<T::Sum>)>
where
    Global<T>: warpfold_lang::Received<Param = Global<T>>,
{
    kernel(format!("warp_product_{name}"), move |input: Global<T>, output: Global<T::Sum>| {
        let panel = 128 / T::BYTES;
        let (rows, columns) = if major == Major::K { (16, panel) } else { (panel, panel) };
        let (a, b) = (tile::<T>(rows, columns, Swizzle::Bytes128), tile::<T>(rows, columns, Swizzle::Bytes128));
        range(0, rows, 1, |row| {
            range(thread_idx().x, columns, 32, |column| {
                a.at(row, column).set(input.at(row * columns + column).get());
                b.at(row, column).set(input.at((rows + row) * columns + column).get());
            });
        });
        sync_threads();
        let sums = [WarpSums::<T>::zero(), WarpSums::zero()];
        for k in (0..panel).step_by(T::STEP as usize) {
            let left = a.fragment_a(major, 0, k);
            let right = b.fragments_b(major, 0, k);
            sums[0].add_product(left, right[0]);
            sums[1].add_product(left, right[1]);
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (row, column, pair) in sums.pairs() {
                output.at(row * 16 + column + 8 * i as u32).set_vec(pair);
            }
        }
    })
}

/// Threads that wait for one another in phases.
fn phases() -> Kernel<(Global<u32>,)> {
    kernel("phases", |output: Global<u32>| {
        let barrier = barriers(1).at(0);
        when(linear_thread_idx().eq(0), || barrier.init(64));
        sync_threads();
        range(0_u32, 4_u32, 1_u32, |round| {
            when(warp_id().eq(round & 1), || output.at(linear_thread_idx()).add_assign(round));
            barrier.arrive();
            barrier.wait(round & 1);
        });
        sync_threads();
        when(linear_thread_idx().eq(0), || barrier.invalidate());
    })
}

/// 64 x `columns` sums of a warpgroup over one panel of `k`, or 64 steps.
fn warpgroup_product<T: Multiplicand>(
    name: &str,
    columns: u32,
    [a_major, b_major]: [Major; 2],
    swizzle: Swizzle,
) -> Kernel<(Global<T>, Global<T::Sum>)>
where
    T::Sum: Sum,
{
    let body = move |input: Global<T>, output: Global<T::Sum>| {
        let depth = if a_major == Major::Mn || b_major == Major::Mn { 64 } else { 128 / T::BYTES };
        let shape = |extent: u32, major| if major == Major::K { (extent, depth) } else { (depth, extent) };
        let place = |extent, major| {
            let (rows, columns) = shape(extent, major);
            let panel = swizzle.bytes() / T::BYTES;
            tile::<T>(rows, columns.next_multiple_of(panel), swizzle)
        };
        let (a, b) = (place(64, a_major), place(columns, b_major));
        range(thread_idx().x, a.rows() * a.columns(), 128, |i| {
            a.at(i / a.columns(), i % a.columns()).set(input.at(i).get());
        });
        let behind = input.at(a.rows() * a.columns());
        range(thread_idx().x, b.rows() * b.columns(), 128, |i| {
            b.at(i / b.columns(), i % b.columns()).set(behind.at(i).get());
        });
        fence_async();
        sync_threads();
        let sums = WarpgroupSums::<T>::new(if b_major == Major::K { columns } else { b.columns() });
        wgmma_fence();
        sums.add_product(&Operands { a, a_major, b, b_major }, false);
        wgmma_commit();
        wgmma_wait(0);
        for (row, column, pair) in sums.pairs() {
            output.at(row * sums.columns() + column).set_vec(pair);
        }
    };
    kernel(format!("warpgroup_product_{name}"), body).required_block(128)
}

/// A warp that fills stages, and a warpgroup that reads them.
fn ring() -> Kernel<(Global<u32>, u32)> {
    let body = |data: Global<u32>, rounds: Val<u32>| {
        let stages = tiles::<u32>(3, 8, 32, Swizzle::Bytes128);
        let pipeline = Pipeline::new(3);
        when(linear_thread_idx().eq(0), || pipeline.init(128, 128));
        sync_threads();
        let at = pipeline.start();
        let role = warpgroup_idx();
        when(role.eq(0), || {
            range(0, rounds, 1, |round| {
                pipeline.acquire(at);
                let to = stages.at(at.stage());
                range(linear_thread_idx(), 256, 128, |i| to.at(i / 32, i % 32).set(round + i));
                pipeline.full(at).arrive();
                at.advance();
            });
        });
        when(role.eq(1), || {
            range(0, rounds, 1, |round| {
                pipeline.wait(at);
                let from = stages.at(at.stage());
                range(linear_thread_idx() - 128, 256, 128, |i| {
                    data.at(round * 256 + i).set(from.at(i / 32, i % 32).get());
                });
                pipeline.empty(at).arrive();
                at.advance();
            });
        });
    };
    kernel("ring", body).required_block(256)
}

/// Tiles that one thread copies, there and back.
fn copied() -> Kernel<(TensorMap<bf16>, TensorMap<bf16>, u32)> {
    let body = |from: TensorMap<bf16>, to: TensorMap<bf16>, row: Val<u32>| {
        let through = tile::<bf16>(64, 128, Swizzle::Bytes128);
        let full = barriers(1).at(0);
        when(linear_thread_idx().eq(0), || {
            from.prefetch();
            from.prefetch_box([Val::constant(64_u32), row]);
            from.read_once().prefetch_box([0_u32, 64, 0]);
            full.init(1);
            Barriers::publish();
        });
        sync_threads();
        when(linear_thread_idx().eq(0), || {
            full.arrive_expect(through.bytes());
            from.read_once().load_tile(through, row, 64, full);
            full.wait(0);
            to.store_tile(through, row, 64);
            bulk_commit();
            bulk_wait_read(0);
            full.arrive_expect(3 * through.bytes() / 2);
            from.read_once().load_tile_multicast(through, row, 64, full, 1);
            let (_, first) = through.panels().next().expect("a tile has a panel");
            from.load_im2col(first, [0, -1, -1, 0], [2_u16, 1], full);
            full.wait(1);
            bulk_wait(0);
        });
    };
    kernel("copied", body).required_block(32)
}

/// Sums that leave as halves through `stmatrix`.
fn packed() -> Kernel<(Global<bf16>,)> {
    let body = |output: Global<bf16>| {
        let a = tile::<bf16>(64, 64, Swizzle::Bytes128);
        let c = tile::<bf16>(64, 64, Swizzle::Bytes128);
        range(thread_idx().x, 64 * 64, 128, |i| a.at(i / 64, i % 64).set(output.at(i).get()));
        fence_async();
        sync_threads();
        let sums = WarpgroupSums::<bf16>::new(64);
        wgmma_fence();
        sums.add_product(&Operands { a, a_major: Major::K, b: a, b_major: Major::K }, false);
        wgmma_commit();
        wgmma_wait(0);
        sums.store(c);
        sync_threads();
        range(thread_idx().x, 64 * 64, 128, |i| output.at(i).set(c.at(i / 64, i % 64).get()));
    };
    kernel("packed", body).required_block(128)
}
