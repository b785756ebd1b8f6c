//! What needs sm_90.

use half::bf16;
use warpfold_lang::{
    AtomicAdd, Barriers, Bf16x2, Float, Global, Kernel, Lanes, Order, Scope, barriers, cluster_arrive,
    cluster_arrive_relaxed, cluster_block_idx, cluster_block_rank, cluster_dim, cluster_idx, cluster_sync,
    cluster_wait, fence, kernel, launch_dependents, linear_thread_idx, num_cluster_blocks, num_clusters,
    setmaxnreg_dec, setmaxnreg_inc, shared_named, thread_idx, wait_for_dependencies, warpgroup_idx, when, when_else,
};

use super::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(dependent()), Case::new(halves()), Case::new(pair_of_blocks()), Case::new(peers())]
}

fn dependent() -> Kernel<(Global<u32>,)> {
    kernel("dependent", |data: Global<u32>| {
        wait_for_dependencies();
        when(Lanes::all_lanes().elect(), || data.reduction().scope(Scope::Cluster).order(Order::Release).add(1));
        fence(Scope::Cluster);
        launch_dependents();
    })
}

/// Two blocks, each of which tells the other that it is there, and one warpgroup that gives
/// registers to the next.
fn pair_of_blocks() -> Kernel<(Global<u32>,)> {
    let body = |data: Global<u32>| {
        let barrier = barriers(1).at(0);
        let rank = cluster_block_rank();
        when(linear_thread_idx().eq(0), || {
            barrier.init(1);
            Barriers::publish();
        });
        cluster_sync();
        when(linear_thread_idx().eq(0), || barrier.arrive_at(rank ^ 1));
        barrier.wait(0);
        when_else(
            warpgroup_idx().eq(0),
            || setmaxnreg_dec(24),
            || {
                setmaxnreg_inc(240);
                data.at(rank).set(cluster_idx().x + num_clusters().x);
            },
        );
        cluster_arrive();
        cluster_wait();
    };
    kernel("pair_of_blocks", body).required_block(384).cluster(2)
}

/// Blocks that write, read and count in one another's shared memory.
fn peers() -> Kernel<(Global<u32>,)> {
    let body = |data: Global<u32>| {
        let (tile, counter) = (shared_named::<u32>("tile", 64), shared_named::<u64>("counter", 1));
        let (rank, thread) = (cluster_block_rank(), thread_idx().x);
        cluster_arrive_relaxed();
        counter.set_if(0, thread.eq(0));
        cluster_wait();
        cluster_sync();
        let next = (rank + 1) % num_cluster_blocks();
        tile.at(thread).in_block(next).set(rank * 100 + thread);
        counter.in_block(0).reduction().add(1_u64);
        counter.in_block(1).at(0).atomic().order(Order::AcqRel).max(7_u64);
        cluster_sync();
        let across = tile.in_block(next).at(thread ^ 1).get();
        let pair = tile.in_block(rank).at(thread & !1).get_vec::<2>();
        let place = cluster_block_idx().x + cluster_block_idx().y * cluster_dim().x;
        when(thread.lt(64), || data.at(rank * 64 + thread).set(across + pair[0] + pair[1] + place));
        let count = counter.in_block(0).load(Order::Acquire, Scope::Cluster);
        when(thread.eq(0), || data.at(rank + 512).set(count.cast::<u32>()));
        cluster_sync();
    };
    kernel("peers", body).required_block(64).cluster((4, 2))
}

fn halves() -> Kernel<(Global<bf16>, Global<Bf16x2>)> {
    fn all<T: AtomicAdd + Float>(data: Global<T>) {
        let value = data.get();
        data.at(1).set(data.atomic().add(value));
        data.reduction().add(value);
        data.at(2).set(value.exp2_approx() + value.tanh_approx());
    }
    kernel("halves_bf16", |single: Global<bf16>, pair: Global<Bf16x2>| {
        all(single);
        all(pair);
    })
}
