//! Warps, blocks, control flow and memory.

use half::{bf16, f16};
use warpfold_device::{Device, Error, LaunchConfig};
use warpfold_lang::{
    FixedRegisters, Global, Kernel, Lanes, Order, Registers, Scope, Val, ballot, block_idx, doubling, fence, grid_dim,
    halving, kernel, lane_id, local, loop_until_left, range, shared, shfl, shfl_down, shfl_up, shfl_xor, sync_threads,
    sync_threads_count, thread_idx, var, warp_id, when, when_else, while_loop,
};

use crate::language::harness::Value;

#[track_caller]
fn on_every_device(test: impl Fn(&Device) -> Result<(), Error>) {
    for device in Device::all() {
        test(&device).unwrap_or_else(|error| panic!("on {device}: {error}"));
    }
}

/// What one warp of a kernel leaves in its output, starting from the numbers 0 to 31.
#[track_caller]
fn check_warp<T: Value>(
    from: fn(u32) -> T,
    f: impl Fn(Val<T>) -> Val<T> + Send + Sync + Copy + 'static,
    expected: fn(u32) -> u32,
) {
    let apply: Kernel<(Global<T>,)> = kernel("warp", move |data: Global<T>| {
        let mine = data.at(lane_id());
        mine.set(f(mine.get()));
    });
    on_every_device(|device| {
        let mut data = device.upload(&(0..32).map(from).collect::<Vec<_>>())?;
        device.launch(&apply, LaunchConfig::new(1, 32), (&mut data,))?;
        let expected: Vec<T> = (0..32).map(|lane| from(expected(lane))).collect();
        assert_eq!(data.download()?, expected, "on {device}");
        Ok(())
    });
}

#[test]
fn shuffles_move_every_type() {
    macro_rules! shuffles {
        ($($from:expr;)*) => {$(
            check_warp($from, |x| shfl(x, 5), |_| 5);
            check_warp($from, |x| shfl_xor(x, 3), |lane| lane ^ 3);
            check_warp($from, |x| shfl_up(x, 2), |lane| if lane < 2 { lane } else { lane - 2 });
            check_warp($from, |x| shfl_down(x, 2), |lane| if lane > 29 { lane } else { lane + 2 });
            check_warp($from, |x| Lanes::all_lanes().width(8).shfl(x, 1), |lane| lane / 8 * 8 + 1);
        )*};
    }
    // High bits set, so that a half that got lost shows.
    shuffles! {
        |i| i as u8 | 0x80;
        |i| i as i8 | i8::MIN;
        |i| i as u16 | 0x8100;
        |i| i as i16 | i16::MIN;
        |i| i | 0x8001_0000;
        |i| i as i32 - 7;
        |i| u64::from(i) << 40 | u64::from(i);
        |i| i64::from(i) - (1 << 40);
        |i| f16::from_f32(-0.5 * i as f32);
        |i| bf16::from_f32(-0.5 * i as f32);
        |i| i as f32 * -0.1;
        |i| f64::from(i) * -0.1;
    }
}

#[test]
fn warp_votes_and_reductions_see_all_lanes() {
    let even = |x: Val<u32>| (x & 1).eq(0);
    check_warp(|i| i, move |x| ballot(even(x)), |_| 0x5555_5555);
    check_warp(|i| i, move |x| Lanes::all_lanes().any(x.eq(31)).cast::<u32>(), |_| 1);
    check_warp(|i| i, move |x| Lanes::all_lanes().all(x.lt(31)).cast::<u32>(), |_| 0);
    check_warp(|i| i, |x| Lanes::all_lanes().match_any(x & 3), |lane| 0x1111_1111 << (lane % 4));
    check_warp(|i| i, |x| Lanes::all_lanes().redux_add(x), |_| 496);
    check_warp(|i| i as i32, |x| Lanes::all_lanes().redux_min(x - 40), |_| -40_i32 as u32);
    check_warp(|i| i, |x| Lanes::all_lanes().redux_xor(x), |_| 0);
}

#[test]
fn predicates_come_out_of_branches_and_pass_between_lanes() {
    // Whether the lane's number is a prime, by a loop that its first divisor decides.
    check_warp(
        |i| i,
        |lane| {
            let is_prime = var(lane.ge(2));
            range(2, lane, 1, |i| is_prime.update(|so_far| so_far & (lane % i).ne(0)));
            is_prime.get().cast::<u32>()
        },
        |lane| u32::from(lane >= 2 && (2..lane).all(|i| lane % i != 0)),
    );
    check_warp(
        |i| i,
        |lane| {
            let (is_low, sum) = when_else(lane.lt(16), || ((lane & 1).eq(0), lane + 1), || (lane.eq(20), lane * 2));
            is_low.select(sum, 0)
        },
        |lane| if lane < 16 { if lane % 2 == 0 { lane + 1 } else { 0 } } else { if lane == 20 { 40 } else { 0 } },
    );
    // By a shuffle, by shared memory, and by a choice between two.
    check_warp(
        |i| i,
        |lane| {
            let is_third = (lane % 3).eq(0);
            let of_next = shfl_down(is_third, 1);
            let tile = <Val<bool>>::any().shared(32);
            is_third.store(tile, lane);
            sync_threads();
            let of_last = <Val<bool>>::load(tile, 31 - lane);
            let chosen = Registers::select(lane.lt(16), of_next, of_last);
            (chosen & chosen.eq(true)).cast::<u32>()
        },
        |lane| u32::from(if lane < 16 { (lane + 1) % 3 == 0 } else { (31 - lane) % 3 == 0 }),
    );
}

#[test]
fn control_flow_follows_each_thread() {
    // Collatz: the steps to reach 1, by a loop whose length differs from lane to lane.
    fn steps(lane: u32) -> u32 {
        let (mut x, mut steps) = (lane + 1, 0);
        while x != 1 {
            x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 };
            steps += 1;
        }
        steps
    }
    check_warp(
        |i| i,
        |lane| {
            let (x, steps) = (var(lane + 1), var(0_u32));
            while_loop(
                || x.get().ne(1),
                || {
                    let now = x.get();
                    x.set(when_else((now & 1).eq(0), || now / 2, || now * 3 + 1));
                    steps.add_assign(1);
                },
            );
            steps.get()
        },
        steps,
    );
    // The sum of the odd numbers below the lane's.
    check_warp(
        |i| i,
        |lane| {
            let sum = var(0_u32);
            range(1, lane, 2, |i| sum.add_assign(i));
            sum.get()
        },
        |lane| (1..lane).step_by(2).sum(),
    );
    check_warp(
        |i| i,
        |lane| {
            let count = var(0_u32);
            loop_until_left(|this| {
                count.add_assign(1);
                this.again_if(count.get().lt(lane));
                this.leave_if(count.get().ge(10));
            });
            count.get()
        },
        |lane| lane.max(10),
    );
}

#[test]
fn arrays_of_a_thread_are_its_own() {
    check_warp(
        |i| i,
        |lane| {
            let own = local::<u32>(32);
            range(0, 32_u32, 1, |i| own.at(i).set(lane * i));
            own.at(lane).get()
        },
        |lane| lane * lane,
    );
}

#[test]
fn a_block_shares_memory_and_counts_at_its_barrier() {
    let reverse: Kernel<(Global<u32>,)> = kernel("reverse", |data: Global<u32>| {
        let tile = shared::<u32>(256);
        let thread = thread_idx().x;
        let mine = data.at(block_idx().x * 256 + thread);
        tile.at(thread).set(mine.get());
        let odd = sync_threads_count((mine.get() & 1).eq(1));
        mine.set(tile.at(255 - thread).get() + odd * 1000 + warp_id() * 1_000_000);
    })
    .required_block(256);
    on_every_device(|device| {
        let input: Vec<u32> = (0..512).collect();
        let mut data = device.upload(&input)?;
        device.launch(&reverse, LaunchConfig::new(2, 256), (&mut data,))?;
        let expected: Vec<u32> =
            (0..512_u32).map(|i| i / 256 * 256 + 255 - i % 256 + 128_000 + i % 256 / 32 * 1_000_000).collect();
        assert_eq!(data.download()?, expected, "on {device}");
        Ok(())
    });
}

#[test]
fn vectors_of_every_width_carry_their_elements_in_order() {
    fn check<T: Value, const N: usize>(from: fn(u32) -> T) {
        let copy: Kernel<(Global<T>, Global<T>, u32)> =
            kernel("copy", |input: Global<T>, output: Global<T>, len: Val<u32>| {
                let place = thread_idx().x * N as u32;
                let default = Val::constant(T::from_bits(0));
                let mut values = input.at(place).get_vec_or::<N>(default, thread_idx().x.lt(len));
                values.reverse();
                output.at(place).set_vec(values);
            });
        on_every_device(|device| {
            let len = 32 * N;
            let input: Vec<T> = (0..len as u32).map(from).collect();
            let source = device.upload(&input)?;
            let mut output = device.upload(&input)?;
            device.launch(&copy, LaunchConfig::new(1, 32), (&source, &mut output, 31))?;
            let reversed = input[..31 * N].chunks(N).flat_map(|chunk| chunk.iter().rev().copied());
            let expected: Vec<T> = reversed.chain([T::from_bits(0); N]).collect();
            assert_eq!(output.download()?, expected, "{} x {N} on {device}", T::NAME);
            Ok(())
        });
    }
    check::<u8, 16>(|i| i as u8);
    check::<i8, 16>(|i| i as i8);
    check::<i8, 8>(|i| i as i8);
    check::<u8, 4>(|i| i as u8);
    check::<u16, 8>(|i| i as u16 | 0x8000);
    check::<f16, 8>(|i| f16::from_f32(i as f32));
    check::<bf16, 2>(|i| bf16::from_f32(i as f32));
    check::<u32, 4>(|i| i);
    check::<f32, 2>(|i| i as f32);
    check::<f64, 2>(f64::from);
    check::<u64, 1>(u64::from);
}

#[test]
fn atomics_count_every_thread() {
    let count: Kernel<(Global<u32>, Global<i64>, Global<f32>)> =
        kernel("count", |words: Global<u32>, wide: Global<i64>, floats: Global<f32>| {
            let i = block_idx().x * 64 + thread_idx().x;
            words.reduction().add(1);
            words.at(1).reduction().max(i);
            words.at(2).atomic().xor(i);
            words.at(3).atomic().increment_wrapping(99);
            wide.reduction().add(-1);
            wide.at(1).reduction().min(i.cast::<i64>() - 5);
            floats.reduction().add(0.5);
            // A lock-free maximum of floats.
            let place = floats.at(1);
            let seen = var(place.load(Order::Relaxed, Scope::Gpu));
            while_loop(
                || seen.get().lt(i.cast::<f32>()),
                || {
                    let old = place.atomic().compare_exchange(seen, i.cast::<f32>());
                    let swapped = old.bitcast::<u32>().eq(seen.get().bitcast::<u32>());
                    seen.set(swapped.select(i.cast::<f32>(), old));
                },
            );
        });
    on_every_device(|device| {
        let mut words = device.upload(&[0_u32; 4])?;
        let mut wide = device.upload(&[0_i64; 2])?;
        let mut floats = device.upload(&[0.0_f32; 2])?;
        device.launch(&count, LaunchConfig::new(8, 64), (&mut words, &mut wide, &mut floats))?;
        assert_eq!(words.download()?, [512, 511, (0..512).fold(0, |a, b| a ^ b), 512 % 100], "on {device}");
        assert_eq!(wide.download()?, [-512, -5], "on {device}");
        assert_eq!(floats.download()?, [256.0, 511.0], "on {device}");
        Ok(())
    });
}

#[test]
fn the_last_block_sees_what_the_others_wrote() {
    let total: Kernel<(Global<u32>, Global<u32>, Global<u32>)> =
        kernel("total", |partials: Global<u32>, ticket: Global<u32>, output: Global<u32>| {
            let lane = lane_id();
            when(lane.eq(0), || {
                partials.at(block_idx().x).set(block_idx().x + 1);
                fence(Scope::Gpu);
            });
            let arrived = var(0_u32);
            when(lane.eq(0), || arrived.set(ticket.atomic().order(Order::AcqRel).add(1)));
            sync_threads();
            when(shfl(arrived.get(), 0).eq(grid_dim().x - 1), || {
                let mut sum = partials.at(lane).get();
                for stride in halving(16) {
                    sum += shfl_down(sum, stride);
                }
                when(lane.eq(0), || output.set(sum));
            });
        })
        .required_block(32);
    on_every_device(|device| {
        let mut partials = device.upload(&[0_u32; 32])?;
        let mut ticket = device.upload(&[0_u32])?;
        let mut output = device.upload(&[0_u32])?;
        device.launch(&total, LaunchConfig::new(32, 32), (&mut partials, &mut ticket, &mut output))?;
        assert_eq!(output.download()?, [528], "on {device}");
        Ok(())
    });
}

#[test]
fn a_scan_of_a_warp_doubles_its_reach() {
    check_warp(
        |i| i,
        |x| {
            let mut sum = x;
            for reach in doubling(32) {
                let before = shfl_up(sum, reach);
                sum = lane_id().ge(reach).select(sum + before, sum);
            }
            sum
        },
        |lane| lane * (lane + 1) / 2,
    );
}
