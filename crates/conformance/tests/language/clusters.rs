//! Clusters: positions, distributed shared memory, barriers, and registers that warpgroups
//! exchange.

use warpfold_device::{Device, Error, LaunchConfig};
use warpfold_lang::{
    Arch, ErrorKind, Global, Kernel, Lanes, Order, Scope, Target, block_idx, cluster_arrive, cluster_arrive_relaxed,
    cluster_block_idx, cluster_block_rank, cluster_dim, cluster_idx, cluster_sync, cluster_wait, kernel,
    launch_dependents, linear_thread_idx, loop_until_left, num_cluster_blocks, num_clusters, setmaxnreg_dec,
    setmaxnreg_inc, shared, thread_idx, wait_for_dependencies, warpgroup_idx, when, when_else,
};

/// The devices that have clusters; the virtual GPU is one of them.
#[track_caller]
fn on_every_device(test: impl Fn(&Device) -> Result<(), Error>) {
    let devices: Vec<_> = Device::all().into_iter().filter(|d| d.limits().max_cluster_blocks >= 8).collect();
    assert!(!devices.is_empty());
    for device in devices {
        test(&device).unwrap_or_else(|error| panic!("on {device}: {error}"));
    }
}

#[test]
fn a_block_knows_where_it_stands_in_its_cluster() {
    let places: Kernel<(Global<u32>,)> = kernel("places", |out: Global<u32>| {
        let (of_cluster, of_block, dim, all) = (cluster_idx(), cluster_block_idx(), cluster_dim(), num_clusters());
        let block = block_idx().x + block_idx().y * 8;
        let fields = [
            cluster_block_rank(),
            num_cluster_blocks(),
            of_cluster.x + of_cluster.y * 100,
            of_block.x + of_block.y * 100,
            dim.x + dim.y * 100,
            all.x + all.y * 100,
        ];
        for (i, field) in (0_u32..).zip(fields) {
            out.at(block * 6 + i).set(field);
        }
    })
    .cluster((2, 4));
    on_every_device(|device| {
        let mut out = device.alloc::<u32>(8 * 4 * 6)?;
        device.launch(&places, LaunchConfig::new((8, 4), 1), (&mut out,))?;
        for (block, fields) in (0..).zip(out.download()?.chunks(6)) {
            let (x, y) = (block % 8, block / 8);
            assert_eq!(fields, [x % 2 + y * 2, 8, x / 2, x % 2 + y * 100, 402, 104], "block {block} on {device}");
        }
        Ok(())
    });
}

#[test]
fn blocks_write_read_and_count_in_the_memory_of_their_peers() {
    const BLOCKS: u32 = 4;
    let exchange: Kernel<(Global<u32>, Global<u64>)> = kernel("exchange", |out: Global<u32>, counts: Global<u64>| {
        let (tile, counter) = (shared::<u32>(64), shared::<u64>(1));
        let (rank, thread) = (cluster_block_rank(), thread_idx().x);
        counter.set_if(0_u64, thread.eq(0));
        cluster_sync();
        let next = (rank + 1) % BLOCKS;
        tile.in_block(next).at(thread).set(rank * 1000 + thread);
        counter.in_block(0).reduction().add(u64::from(1_u32));
        when(thread.eq(5), || {
            let before = counter.in_block(1).atomic().order(Order::AcqRel).max(77_u64);
            counts.at(8 + block_idx().x).set(before);
        });
        cluster_sync();
        let across = tile.in_block(next ^ 1).at(thread ^ 1).get();
        let [even, odd] = tile.at(thread & !1).in_block(rank).get_vec::<2>();
        out.at(block_idx().x * 64 + thread).set(across * 7 + even + odd);
        let count = counter.in_block(rank & 1).load(Order::Acquire, Scope::Cluster);
        when(thread.eq(0), || counts.at(block_idx().x).set(count));
        cluster_sync();
    })
    .required_block(64)
    .cluster(BLOCKS);
    on_every_device(|device| {
        let (mut out, mut counts) = (device.alloc::<u32>(8 * 64)?, device.alloc::<u64>(16)?);
        device.launch(&exchange, LaunchConfig::new(8, 64), (&mut out, &mut counts))?;
        // What lies in the memory of a rank is of the rank before it.
        let of = |rank: u32, thread: u32| (rank + BLOCKS - 1) % BLOCKS * 1000 + thread;
        for (i, value) in (0..).zip(out.download()?) {
            let (rank, thread) = (i / 64 % BLOCKS, i % 64);
            let across = of(((rank + 1) % BLOCKS) ^ 1, thread ^ 1);
            let expected = across * 7 + of(rank, thread & !1) + of(rank, thread | 1);
            assert_eq!(value, expected, "rank {rank}, thread {thread} on {device}");
        }
        let counts = counts.download()?;
        assert_eq!(counts[..8], [256, 77, 256, 77, 256, 77, 256, 77], "on {device}");
        for cluster in counts[8..].chunks(BLOCKS as usize) {
            let mut before = cluster.to_vec();
            before.sort_unstable();
            assert_eq!(before, [0, 77, 77, 77], "on {device}");
        }
        Ok(())
    });
}

#[test]
fn a_flag_in_a_peers_memory_hands_data_over() {
    let handover: Kernel<(Global<u32>,)> = kernel("handover", |out: Global<u32>| {
        let (tile, flag) = (shared::<u32>(32), shared::<u32>(1));
        let (rank, lane) = (cluster_block_rank(), thread_idx().x);
        flag.set_if(0, lane.eq(0));
        cluster_sync();
        when_else(
            rank.eq(0),
            || {
                tile.in_block(1).at(lane).set(lane * lane);
                Lanes::all_lanes().sync();
                when(Lanes::all_lanes().elect(), || flag.in_block(1).store(1, Order::Release, Scope::Cluster));
            },
            || {
                loop_until_left(|wait| wait.leave_if(flag.load(Order::Acquire, Scope::Cluster).eq(1)));
                Lanes::all_lanes().sync();
                out.at(lane).set(tile.at(lane).get());
            },
        );
        cluster_sync();
    })
    .required_block(32)
    .cluster(2);
    on_every_device(|device| {
        let mut out = device.alloc::<u32>(32)?;
        device.launch(&handover, LaunchConfig::new(2, 32), (&mut out,))?;
        assert_eq!(out.download()?, (0..32).map(|i| i * i).collect::<Vec<u32>>(), "on {device}");
        Ok(())
    });
}

#[test]
fn arriving_and_waiting_lie_apart_and_dependent_launches_pass_through() {
    let split: Kernel<(Global<u32>,)> = kernel("split", |out: Global<u32>| {
        let cell = shared::<u32>(1);
        cluster_arrive_relaxed();
        wait_for_dependencies();
        let rank = cluster_block_rank();
        cluster_wait();
        cell.in_block(rank ^ 1).set(rank + 40);
        cluster_arrive();
        launch_dependents();
        cluster_wait();
        out.at(block_idx().x).set(cell.get());
    })
    .required_block(1)
    .cluster(2);
    on_every_device(|device| {
        let mut out = device.alloc::<u32>(4)?;
        assert!(device.prepare(&split)?.info().programmatic);
        device.launch(&split, LaunchConfig::new(4, 1), (&mut out,))?;
        assert_eq!(out.download()?, [41, 40, 41, 40], "on {device}");
        Ok(())
    });
}

#[test]
fn warpgroups_give_registers_to_one_another() {
    let exchange: Kernel<(Global<u32>,)> = kernel("registers", |out: Global<u32>| {
        let thread = linear_thread_idx();
        when_else(warpgroup_idx().eq(0), || setmaxnreg_dec(24), || setmaxnreg_inc(240));
        out.at(thread).set(thread * 3);
    })
    .required_block(384);
    on_every_device(|device| {
        let mut out = device.alloc::<u32>(384)?;
        device.launch(&exchange, LaunchConfig::new(1, 384), (&mut out,))?;
        assert_eq!(out.download()?, (0..384).map(|i| i * 3).collect::<Vec<u32>>(), "on {device}");
        Ok(())
    });
}

#[test]
fn what_clusters_need_is_a_typed_error_on_older_targets() {
    #[track_caller]
    fn refused(name: &str, body: impl Fn(Global<u32>) + Send + Sync + 'static) {
        let kernel: Kernel<(Global<u32>,)> = kernel(name, body);
        let error = kernel.build(&Target::new(Arch::SM_80, (8, 0))).expect_err(name);
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. } | ErrorKind::NeedsSpecific { .. }),
            "{name}: {error}"
        );
    }
    refused("rank", |out| out.set(cluster_block_rank()));
    refused("blocks", |out| out.set(num_cluster_blocks()));
    refused("sync", |_| cluster_sync());
    refused("relaxed", |_| cluster_arrive_relaxed());
    refused("peer", |out| out.set(shared::<u32>(1).in_block(0).get()));
    refused("elect", |out| when(Lanes::all_lanes().elect(), || out.set(1)));
    refused("registers", |_| setmaxnreg_dec(40));
    let unbounded: Kernel<(Global<u32>,)> = kernel("unbounded", |_: Global<u32>| setmaxnreg_dec(40));
    let error = unbounded.build(&Target::new(Arch::SM_90A, (8, 0))).expect_err("no bounds");
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
}
