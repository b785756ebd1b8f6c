//! Positions, barriers, warps, control flow, printing.

use half::{bf16, f16};
use warpfold_lang::{
    Element, F16x2, Global, Kernel, Lanes, NamedBarrier, Val, active_mask, ballot, block_dim, block_idx, clock, exit,
    global_timer, grid_dim, kernel, lane_id, lanes_after, lanes_before, linear_thread_idx, loop_until_left,
    multiprocessor_id, nanosleep, print, range, shfl, shfl_down, shfl_up, shfl_xor, sync_threads_and,
    sync_threads_count, sync_threads_or, sync_warp, this_lane, thread_idx, trap, var, warp_id, when, when_else,
    while_loop,
};

use super::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(positions("positions")),
        Case::new(positions("positions_required").required_block((32, 4, 1))),
        Case::new(barriers().max_threads((32, 8)).min_blocks(2)),
        Case::new(votes()),
        Case::new(flow().max_registers(64)),
        Case::new(printing()),
    ];
    macro_rules! each {
        ($make:ident: $($rust:ident)*) => { $(cases.push(Case::new($make::<$rust>(stringify!($rust))));)* };
    }
    each!(shuffles: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 F16x2);
    cases
}

fn positions(name: &str) -> Kernel<(Global<u32>, Global<u64>)> {
    kernel(name, |output: Global<u32>, times: Global<u64>| {
        let values = [
            thread_idx().z,
            block_idx().y,
            block_dim().count(),
            grid_dim().count(),
            linear_thread_idx(),
            warp_id(),
            lane_id(),
            lanes_before(),
            this_lane(),
            lanes_after(),
            multiprocessor_id(),
            warp_id(),
        ];
        for (i, value) in values.into_iter().enumerate() {
            output.at(i).set(value);
        }
        let start = clock();
        nanosleep(100);
        times.set(clock() - start);
        times.at(1).set(global_timer());
    })
}

fn barriers() -> Kernel<(Global<u32>,)> {
    kernel("barriers", |data: Global<u32>| {
        let condition = data.at(thread_idx().x).get().eq(0);
        let count = sync_threads_count(condition);
        let both = sync_threads_and(condition) ^ sync_threads_or(condition);
        let barrier = NamedBarrier { id: 1, threads: 64 };
        when_else(warp_id().eq(0), || barrier.sync(), || when(warp_id().eq(1), || barrier.arrive()));
        data.set(both.select(count, 1));
    })
}

fn votes() -> Kernel<(Global<u32>, Global<u64>)> {
    kernel("votes", |data: Global<u32>, wide: Global<u64>| {
        let value = data.at(lane_id()).get();
        let condition = value.gt(3);
        let half = Lanes::of(0xffff);
        let (same, all_same) = half.match_all(value);
        let all = Lanes::all_lanes();
        let masks = [
            ballot(condition),
            half.ballot(!condition),
            all.match_any(value),
            all.match_any(wide.get()),
            same,
            active_mask(),
            all.redux_add(value),
            all.redux_min(value),
            all.redux_max(value),
            all.redux_and(value),
            half.redux_or(value),
            all.redux_xor(value),
            all.redux_max(value.cast::<i32>()).cast::<u32>(),
            (all.all(condition) | half.any(condition) | all_same).cast::<u32>(),
        ];
        half.sync();
        sync_warp();
        for (i, mask) in masks.into_iter().enumerate() {
            data.at(i).set(mask);
        }
    })
}

fn shuffles<T: Element>(name: &str) -> Kernel<(Global<T>, u32)> {
    kernel(format!("shuffles_{name}"), |data: Global<T>, lane: Val<u32>| {
        let value = data.at(lane_id()).get();
        let moved = [
            shfl(value, lane),
            shfl_up(value, 1),
            shfl_down(value, lane),
            shfl_xor(value, 16),
            Lanes::of(0xff).width(8).shfl_xor(value, 4),
            Lanes::all_lanes().width(16).shfl_up(value, 2),
        ];
        for (i, value) in moved.into_iter().enumerate() {
            data.at(i).set(value);
        }
        let (first, second) = shfl_down((value, data.at(1).get()), 1);
        data.at(7).set(first);
        data.at(8).set(second);
    })
}

fn flow() -> Kernel<(Global<u32>, u32, i64)> {
    kernel("flow", |data: Global<u32>, len: Val<u32>, end: Val<i64>| {
        let total = var(0_u32);
        range(0, len, 2, |i| {
            when(i.ne(4), || total.add_assign(data.at(i).get()));
        });
        range(-3, end, 1, |i| data.at(i).set(i.cast::<u32>()));
        range(1_u32, 4_u32, 1_u32, |i| total.set(total.get() ^ i));
        let remaining = var(len);
        while_loop(|| remaining.get().gt(0), || remaining.set(remaining.get() >> 1));
        loop_until_left(|this| {
            remaining.add_assign(1);
            this.again_if(remaining.get().lt(10));
            this.leave_if(data.at(remaining).get().eq(0));
        });
        let (low, flag) = when_else(
            total.get().lt(100),
            || (total.get(), Val::constant(1_u8)),
            || (total.get() - 100, data.reinterpret::<u8>().get()),
        );
        when(flag.eq(0), exit);
        when(low.eq(7), trap);
        when(true, || data.set(low));
        when(false, || data.set(0));
        data.at(1).set(when_else(false, || Val::constant(1), || len));
    })
}

fn printing() -> Kernel<(Global<f32>, i64)> {
    kernel("printing", |data: Global<f32>, wide: Val<i64>| {
        print("hello\n", ());
        when(thread_idx().x.eq(0), || {
            let small = data.reinterpret::<i8>().get();
            print("thread %u: %5.2f %d %lld 100%%\n", (thread_idx().x, data.get(), small, wide));
            print("%c %g\n", (65_u8, data.at(1).get().cast::<f16>()));
        });
        print("hello\n", ());
    })
}
