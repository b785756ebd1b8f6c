//! Every collective on 2, 3, 4 and 8 virtual devices against a reference on the host, under all
//! checks; with `WARPFOLD_DEVICE=cuda` on as many GPUs, where there are so many.

use std::sync::{Mutex, OnceLock, PoisonError};

use half::{bf16, f16};
use warpfold::TensorElement;
use warpfold_collectives::{Combine, Communicator, DirectOptions, Error, Group, PeerOptions, Reduce};
use warpfold_device::{Checks, Device, Severity};
use warpfold_kernels::Dtype;

/// Numbers of ranks.
const SIZES: [usize; 4] = [2, 3, 4, 8];

/// Small launches, and so short a stage that longer messages take several; messages of `from_bytes`
/// are large.
fn options(from_bytes: usize) -> PeerOptions {
    let direct = DirectOptions { from_bytes, blocks: 3, threads: 32 };
    PeerOptions { blocks: 2, threads: 32, stage_bytes: 2048, looks: 1 << 28, direct }
}

/// Groups that share GPUs give their collectives to the same streams, so tests come one by one
/// there.
static GPUS: Mutex<()> = Mutex::new(());

fn is_gpu_asked() -> bool {
    std::env::var("WARPFOLD_DEVICE").is_ok_and(|name| name.starts_with("cuda"))
}

/// Those numbers of ranks for which there are GPUs, if they are asked for and there are several:
/// virtual ones would only make runs on GPUs longer.
fn at_hand<const N: usize>(sizes: [usize; N]) -> impl Iterator<Item = usize> {
    let gpus = if is_gpu_asked() { Device::num_cuda().unwrap_or(0) } else { 0 };
    let most = if gpus > 1 { gpus } else { usize::MAX };
    sizes.into_iter().filter(move |ranks| *ranks <= most)
}

/// GPUs if they are asked for and there are so many, else virtual ones.
fn group_of(ranks: usize) -> Group {
    // They stay open: to make a GPU's context takes longer than all its collectives.
    static OPEN: OnceLock<Vec<Device>> = OnceLock::new();
    let open = |count| (0..count).map(|gpu| Device::cuda(gpu).expect("a GPU")).collect();
    let num = if is_gpu_asked() { Device::num_cuda().unwrap_or(0) } else { 0 };
    if let Some(devices) = OPEN.get_or_init(|| open(num)).get(..ranks) {
        return Group::new(devices.to_vec()).expect("a group");
    }
    Group::virtual_gpus(ranks).expect("a group")
}

/// Runs `work` on so many ranks under all checks, which must find nothing.
#[track_caller]
fn checked_with<R: Send>(
    options: PeerOptions,
    ranks: usize,
    work: impl Fn(&Communicator) -> Result<R, Error> + Sync,
) -> Vec<R> {
    let group = group_of(ranks).with_options(options).with_late_launches();
    let is_gpu = !group.devices()[0].is_virtual();
    let _one_by_one = is_gpu.then(|| GPUS.lock().unwrap_or_else(PoisonError::into_inner));
    for device in group.devices().iter().filter(|device| device.is_virtual()) {
        device.set_checks(Checks::All).expect("a virtual GPU");
    }
    let results = group.run(work).expect("no rank fails");
    for (rank, device) in group.devices().iter().enumerate() {
        for report in device.take_reports() {
            let errors: Vec<_> = report.report.findings.iter().filter(|f| f.severity != Severity::Info).collect();
            assert!(errors.is_empty(), "rank {rank}, {}: {errors:#?}", report.kernel);
        }
    }
    results
}

/// The same of small messages and of large ones, which must be equal.
#[track_caller]
fn checked<R: Send + PartialEq + std::fmt::Debug>(
    ranks: usize,
    work: impl Fn(&Communicator) -> Result<R, Error> + Sync,
) -> Vec<R> {
    let staged = checked_with(options(usize::MAX), ranks, &work);
    let direct = checked_with(options(0), ranks, &work);
    assert_eq!(staged, direct, "staged and direct");
    staged
}

/// Small whole numbers, so that sums of every type are exact.
fn numbers(rank: usize, len: usize) -> Vec<i32> {
    (0..len).map(|i| ((i * 7 + rank * 3) % 5) as i32).collect()
}

fn of<T: Copy>(numbers: &[i32], convert: impl Fn(i32) -> T) -> Vec<T> {
    numbers.iter().map(|&n| convert(n)).collect()
}

fn reference(reduce: Reduce, ranks: usize, len: usize) -> Vec<i32> {
    let all: Vec<_> = (0..ranks).map(|rank| numbers(rank, len)).collect();
    let column = |i: usize| all.iter().map(move |numbers| numbers[i]);
    let fold = |i| match reduce {
        Reduce::Sum => column(i).sum(),
        Reduce::Product => column(i).product(),
        Reduce::Min => column(i).min().expect("a rank"),
        Reduce::Max => column(i).max().expect("a rank"),
    };
    (0..len).map(fold).collect()
}

#[track_caller]
fn check_all_reduce<T: TensorElement>(ranks: usize, len: usize, convert: impl Fn(i32) -> T + Sync) {
    for reduce in Reduce::ALL.into_iter().filter(|_| at_hand([ranks]).count() > 0) {
        // Products of eight ranks pass the range of 8 bits.
        if reduce == Reduce::Product && (size_of::<T>() == 1 || ranks == 8) {
            continue;
        }
        let expected = of(&reference(reduce, ranks, len), &convert);
        let found = checked(ranks, |rank| {
            let (device, stream) = (rank.device(), rank.device().default_stream());
            let input = device.upload(&of(&numbers(rank.rank(), len), &convert))?;
            let mut output = device.alloc::<T>(len)?;
            rank.all_reduce(&stream, reduce, &input, &mut output)?;
            Ok(output.download()?)
        });
        for (rank, found) in found.iter().enumerate() {
            assert_eq!(*found, expected, "{} of {} x {len} on rank {rank} of {ranks}", reduce.name(), T::NAME);
        }
    }
}

#[test]
fn an_all_reduce_is_the_same_on_every_rank_for_every_type() {
    check_all_reduce::<f32>(2, 1000, |n| n as f32);
    check_all_reduce::<f64>(3, 33, f64::from);
    check_all_reduce::<f16>(2, 64, |n| f16::from_f32(n as f32));
    check_all_reduce::<bf16>(4, 31, |n| bf16::from_f32(n as f32));
    check_all_reduce::<u8>(2, 17, |n| n as u8);
    check_all_reduce::<i8>(8, 32, |n| n as i8);
    check_all_reduce::<u16>(3, 16, |n| n as u16);
    check_all_reduce::<i16>(2, 1, |n| n as i16);
    check_all_reduce::<u32>(2, 5, |n| n as u32);
    check_all_reduce::<i32>(8, 40, |n| n);
    check_all_reduce::<u64>(2, 6, |n| n as u64);
    check_all_reduce::<i64>(4, 7, i64::from);
}

#[test]
fn an_all_reduce_of_every_number_of_ranks_and_lengths_around_its_pieces() {
    for ranks in at_hand(SIZES) {
        for len in [0, 1, 31, 64, 511, 512, 513, 1030] {
            let expected = of(&reference(Reduce::Sum, ranks, len), |n| n as f32);
            let found = checked(ranks, |rank| {
                let (device, stream) = (rank.device(), rank.device().default_stream());
                let mut data = device.upload(&of(&numbers(rank.rank(), len), |n| n as f32))?;
                rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
                Ok(data.download()?)
            });
            assert!(found.iter().all(|found| *found == expected), "{len} elements of {ranks} ranks");
        }
    }
}

/// Stages shorter than 1,024 bytes and launches of more than 256 blocks, and those at the bounds:
/// messages that take several stages, and fewer elements than blocks.
#[test]
fn stages_and_launches_have_a_least_and_a_most() {
    for (stage_bytes, blocks) in [(0, 1), (1023, 2), (1025, 2), (2048, 257)] {
        for from_bytes in [0, usize::MAX] {
            let direct = DirectOptions { blocks, ..options(from_bytes).direct };
            let options = PeerOptions { blocks, stage_bytes, direct, ..options(from_bytes) };
            let len = 700;
            let sums = checked_with(options, 2, |rank| {
                let (stream, data) = (rank.device().default_stream(), numbers(rank.rank(), len));
                let (from, mut to) = (rank.device().upload(&data)?, rank.device().alloc::<i32>(len)?);
                rank.all_reduce(&stream, Reduce::Sum, &from, &mut to)?;
                Ok(to.download()?)
            });
            let expected = reference(Reduce::Sum, 2, len);
            assert!(sums.iter().all(|sum| *sum == expected), "{stage_bytes} bytes, {blocks} blocks");
        }
    }
}

#[test]
fn an_all_gather_puts_the_ranks_side_by_side() {
    for ranks in at_hand(SIZES) {
        for len in [0, 1, 3, 64, 700] {
            let expected: Vec<_> = (0..ranks).flat_map(|rank| of(&numbers(rank, len), |n| n as i16)).collect();
            let found = checked(ranks, |rank| {
                let (device, stream) = (rank.device(), rank.device().default_stream());
                let input = device.upload(&of(&numbers(rank.rank(), len), |n| n as i16))?;
                let mut output = device.alloc::<i16>(len * ranks)?;
                rank.all_gather(&stream, &input, &mut output)?;
                Ok(output.download()?)
            });
            assert!(found.iter().all(|found| *found == expected), "{len} elements of {ranks} ranks");
        }
    }
}

#[test]
fn a_reduce_scatter_gives_each_rank_its_part() {
    for ranks in at_hand(SIZES) {
        for len in [0, 1, 4, 33, 300] {
            let sums = of(&reference(Reduce::Sum, ranks, len * ranks), |n| n as f32);
            let found = checked(ranks, |rank| {
                let (device, stream) = (rank.device(), rank.device().default_stream());
                let input = device.upload(&of(&numbers(rank.rank(), len * ranks), |n| n as f32))?;
                let mut output = device.alloc::<f32>(len)?;
                rank.reduce_scatter(&stream, Reduce::Sum, &input, &mut output)?;
                Ok(output.download()?)
            });
            for (rank, found) in found.iter().enumerate() {
                assert_eq!(*found, sums[rank * len..(rank + 1) * len], "rank {rank} of {ranks}, {len} elements");
            }
        }
    }
}

#[test]
fn a_broadcast_copies_the_root() {
    for ranks in at_hand(SIZES) {
        for root in [0, ranks - 1] {
            let found = checked(ranks, |rank| {
                let (device, stream) = (rank.device(), rank.device().default_stream());
                let mut data = device.upload(&of(&numbers(rank.rank(), 3000), |n| n as u8))?;
                rank.broadcast(&stream, root, &mut data)?;
                Ok(data.download()?)
            });
            let expected = of(&numbers(root, 3000), |n| n as u8);
            assert!(found.iter().all(|found| *found == expected), "from {root} of {ranks}");
        }
    }
}

#[test]
fn what_is_sent_around_a_ring_comes_back() {
    for ranks in at_hand(SIZES) {
        let found = checked(ranks, |rank| {
            let (device, stream) = (rank.device(), rank.device().default_stream());
            let (mine, next, before) = (rank.rank(), (rank.rank() + 1) % ranks, (rank.rank() + ranks - 1) % ranks);
            let mut data = device.upload(&of(&numbers(mine, 700), f64::from))?;
            let mut other = device.alloc::<f64>(700)?;
            for _ in 0..ranks {
                // A send waits for its receiver, so one rank begins with receiving.
                if mine == 0 {
                    rank.receive(&stream, before, &mut other)?;
                    rank.send(&stream, next, &data)?;
                } else {
                    rank.send(&stream, next, &data)?;
                    rank.receive(&stream, before, &mut other)?;
                }
                std::mem::swap(&mut data, &mut other);
            }
            Ok(data.download()?)
        });
        for (rank, found) in found.iter().enumerate() {
            assert_eq!(*found, of(&numbers(rank, 700), f64::from), "rank {rank} of {ranks}");
        }
    }
}

#[test]
fn collectives_of_random_lengths_follow_one_another_staged_and_direct() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let rounds = number("WARPFOLD_ROUNDS").unwrap_or(if is_gpu_asked() { 3000 } else { 24 }) as usize;
    let first_seed = number("WARPFOLD_SEED").unwrap_or(1);
    for ranks in at_hand([2, 4]) {
        // Most messages are small, some large, in any order.
        let found = checked_with(options(1500), ranks, |rank| {
            let (device, stream) = (rank.device(), rank.device().default_stream());
            let mut wrong = Vec::new();
            let mut seed = first_seed;
            for round in 0..rounds {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (len, kind) = ((seed >> 33) as usize % 900 + 1, (seed >> 20) % 4);
                let of_rank = |rank: usize| of(&numbers(rank + round, len * ranks), |n| n as f32);
                let mine = of_rank(rank.rank());
                let sum = |i: usize| (0..ranks).map(|rank| of_rank(rank)[i]).sum::<f32>();
                let (expected, found): (Vec<f32>, Vec<f32>) = match kind {
                    0 => {
                        let mut data = device.upload(&mine[..len])?;
                        rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
                        ((0..len).map(sum).collect(), data.download()?)
                    }
                    1 => {
                        let (input, mut all) = (device.upload(&mine[..len])?, device.alloc::<f32>(len * ranks)?);
                        rank.all_gather(&stream, &input, &mut all)?;
                        ((0..ranks).flat_map(|rank| of_rank(rank)[..len].to_vec()).collect(), all.download()?)
                    }
                    2 => {
                        let (input, mut part) = (device.upload(&mine)?, device.alloc::<f32>(len)?);
                        rank.reduce_scatter(&stream, Reduce::Sum, &input, &mut part)?;
                        ((rank.rank() * len..(rank.rank() + 1) * len).map(sum).collect(), part.download()?)
                    }
                    _ => {
                        let (root, mut data) = (round % ranks, device.upload(&mine)?);
                        rank.broadcast(&stream, root, &mut data)?;
                        (of_rank(root), data.download()?)
                    }
                };
                if found != expected {
                    wrong.push((round, kind, len));
                }
            }
            Ok(wrong)
        });
        assert!(found.iter().all(Vec::is_empty), "{ranks} ranks: {found:?}");
    }
}

#[test]
fn a_sum_of_floats_is_folded_in_the_order_of_ranks() {
    for ranks in at_hand(SIZES) {
        let item = |rank: usize, i: usize| (1.0 + rank as f32).powi(i as i32 % 23) / 3.0;
        let expected: Vec<f32> =
            (0..130).map(|i| (1..ranks).fold(item(0, i), |sum, rank| sum + item(rank, i))).collect();
        let found = checked(ranks, |rank| {
            let (device, stream) = (rank.device(), rank.device().default_stream());
            let data: Vec<f32> = (0..130).map(|i| item(rank.rank(), i)).collect();
            let mut data = device.upload(&data)?;
            rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
            Ok(data.download()?)
        });
        assert!(found.iter().all(|found| *found == expected), "{ranks} ranks");
    }
}

#[test]
fn a_monoid_that_does_not_commute_keeps_the_order_of_ranks() {
    use warpfold_kernels::Dtype;
    use warpfold_kernels::elements::{Sink, Source};
    use warpfold_kernels::fold::{Monoid, Position};
    use warpfold_lang::Val;

    /// The left item, unless it is zero.
    #[derive(Clone, Copy)]
    struct First;

    impl Monoid for First {
        type Item = Val<u32>;
        type Acc = Val<u32>;
        type Output = Val<u32>;
        const COMMUTES: bool = false;

        fn identity(self) -> Val<u32> {
            Val::constant(0)
        }
        fn combine(self, left: Val<u32>, right: Val<u32>) -> Val<u32> {
            left.ne(0).select(left, right)
        }
        fn lift(self, item: Val<u32>, _: Position) -> Val<u32> {
            item
        }
        fn finish(self, acc: Val<u32>, _: Val<u64>) -> Val<u32> {
            acc
        }
    }

    let combine = Combine::new("first", First, Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
    let found = checked(3, |rank| {
        let (device, stream) = (rank.device(), rank.device().default_stream());
        let own = rank.rank() as u32 + 10;
        let input = device.upload(&[own, if own == 10 { 0 } else { own }, if own == 12 { own } else { 0 }])?;
        let mut output = device.alloc::<u32>(3)?;
        rank.all_reduce_with(&stream, &combine, &input, &mut output)?;
        Ok(output.download()?)
    });
    assert_eq!(found, vec![vec![10, 11, 12]; 3]);
}

#[test]
fn graphs_hold_collectives_and_replay_them() {
    let found = checked(4, |rank| {
        let device = rank.device();
        let stream = device.new_stream()?;
        let mut data = device.upload(&[rank.rank() as f32 + 1.0; 40])?;
        let mut all = device.alloc::<f32>(160)?;
        let (graph, ()) = stream.capture(|| {
            rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
            rank.all_gather(&stream, &data, &mut all)
        })?;
        (0..3).try_for_each(|_| rank.launch(&graph))?;
        rank.synchronize(&stream)?;
        Ok((data.download()?, all.download()?))
    });
    // 1 + 2 + 3 + 4, then four times that, twice.
    assert!(found.iter().all(|(data, all)| *data == [160.0; 40] && *all == [160.0; 160]));
}

#[test]
fn views_that_begin_anywhere_go_through_every_collective() {
    let found = checked(3, |rank| {
        let (device, stream) = (rank.device(), rank.device().default_stream());
        let own = rank.rank() as f32;
        // Ranks may differ in where their views begin.
        let first = 1 + rank.rank();
        let input = device.upload(&[own + 1.0; 40])?;
        let mut output = device.alloc_zeroed::<f32>(40)?;
        rank.all_reduce(&stream, Reduce::Sum, input.view(first..first + 32)?, output.view_mut(3..35)?)?;
        rank.all_reduce_in_place(&stream, Reduce::Max, output.view_mut(first..first + 8)?)?;
        rank.broadcast(&stream, 1, output.view_mut(35..39)?)?;
        let mut all = device.alloc::<f32>(13)?;
        rank.all_gather(&stream, input.view(first..first + 4)?, all.view_mut(1..13)?)?;
        let mut gathered = vec![0.0; 12];
        stream.copy_to_host(all.view(1..13)?, &mut gathered)?;
        Ok((output.download()?, gathered))
    });
    for (output, all) in found {
        assert_eq!((&output[11..35], output[39]), (&[6.0; 24][..], 0.0));
        assert_eq!(all, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
    }
}

/// Numbers whose sums depend on their order.
fn parts_of(part: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 31 + part * 17) % 97) as f32 * 10.0_f32.powi((i + part) as i32 % 7 - 3)).collect()
}

/// The sum of eight parts and a residual at each place, in the tree that every rank adds in.
fn tree_of_parts(len: usize, residual: &[f32]) -> Vec<f32> {
    let parts: Vec<_> = (0..8).map(|part| parts_of(part, len)).collect();
    let pair = |i: usize, a: usize| parts[a][i] + parts[a + 1][i];
    let half = |i: usize, a: usize| pair(i, a) + pair(i, a + 2);
    (0..len).map(|i| half(i, 0) + half(i, 4) + residual.get(i).copied().unwrap_or(0.0)).collect()
}

#[test]
fn eight_parts_have_the_same_sum_on_1_2_4_and_8_ranks() {
    for ranks in at_hand([1, 2, 4, 8]) {
        let own = 8 / ranks;
        // Longer than the stage, and lengths that are no multiple of a vector.
        for len in [1, 31, 512, 1030] {
            let around: Vec<f32> = (0..len).map(|i| i as f32 / 3.0).collect();
            let halves: Vec<bf16> = around.iter().map(|x| bf16::from_f32(*x)).collect();
            let rounded: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
            let found = checked(ranks, |rank| {
                let (device, stream) = (rank.device(), rank.device().default_stream());
                let mine: Vec<f32> = (0..own).flat_map(|part| parts_of(rank.rank() * own + part, len)).collect();
                let (input, around) = (device.upload(&mine)?, device.upload(&halves)?);
                let (mut plain, mut added) = (device.alloc::<f32>(len)?, device.alloc::<bf16>(len)?);
                let input = input.as_view().bytes();
                rank.sum_parts(&stream, own, input.clone(), None, Dtype::F32, plain.as_view_mut().bytes())?;
                let around = Some(around.as_view().bytes());
                rank.sum_parts(&stream, own, input, around, Dtype::Bf16, added.as_view_mut().bytes())?;
                Ok((plain.download()?, added.download()?))
            });
            let added: Vec<bf16> = tree_of_parts(len, &rounded).into_iter().map(bf16::from_f32).collect();
            let expected = (tree_of_parts(len, &[]), added);
            assert!(found.iter().all(|found| *found == expected), "{len} elements of {ranks} ranks");
        }
    }
}

#[test]
fn sums_of_parts_of_wrong_lengths_or_types_are_refused() {
    let refused = |parts: usize, dtype: Dtype, residual: usize| {
        let result = Group::virtual_gpus(1).expect("a group").run(|rank| -> Result<(), Error> {
            let (device, stream) = (rank.device(), rank.device().default_stream());
            let (input, around) = (device.alloc::<f32>(8)?, device.alloc::<f32>(residual)?);
            let mut output = device.alloc::<f32>(4)?;
            let around = Some(around.as_view().bytes());
            rank.sum_parts(&stream, parts, input.as_view().bytes(), around, dtype, output.as_view_mut().bytes())
        });
        result.expect_err("it cannot be summed").to_string()
    };
    assert_eq!(refused(3, Dtype::F32, 4), "a sum of parts: expected 12 elements, found 8");
    assert_eq!(refused(2, Dtype::F32, 3), "what is added to a sum of parts: expected 4 elements, found 3");
    assert_eq!(refused(2, Dtype::I32, 4), "a sum of parts is not possible of that element type");
}
