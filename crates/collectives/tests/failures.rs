//! A rank that fails ends every other rank with an error that names it, whatever they are doing.

use std::time::{Duration, Instant};

use warpfold_collectives::{Communicator, Error, ErrorKind, Group, Reduce};
use warpfold_device::{Buffer, Device};

/// What all ranks do, a phase after the other.
const PHASES: [&str; 7] = ["start", "all-reduce", "all-gather", "reduce-scatter", "broadcast", "send", "graph"];

/// How a rank goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Error,
    Panic,
    Return,
}

/// Does all phases; the last rank goes before one of them.
fn work(rank: &Communicator, phase: usize, end: End) -> Result<(), Error> {
    let (device, stream) = (rank.device(), rank.device().new_stream()?);
    let mut data: Buffer<f32> = device.upload(&[1.0; 8])?;
    let mut all: Buffer<f32> = device.alloc(8 * rank.size())?;
    let last = rank.size() - 1;
    for (now, name) in PHASES.iter().enumerate() {
        if now == phase && rank.rank() == last {
            match end {
                End::Error => return Err(ErrorKind::Unsupported { what: name, transport: "today" }.into()),
                End::Panic => panic!("today"),
                End::Return => return Ok(()),
            }
        }
        match *name {
            "start" => {}
            "all-reduce" => rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?,
            "all-gather" => rank.all_gather(&stream, &data, &mut all)?,
            "reduce-scatter" => rank.reduce_scatter(&stream, Reduce::Max, &all, &mut data)?,
            "broadcast" => rank.broadcast(&stream, last, &mut data)?,
            "send" if rank.rank() == 0 => rank.receive(&stream, last, &mut data)?,
            "send" if rank.rank() == last => rank.send(&stream, 0, &data)?,
            "send" => {}
            "graph" => {
                let (graph, ()) = stream.capture(|| rank.all_reduce_in_place(&stream, Reduce::Max, &mut data))?;
                rank.launch(&graph)?;
            }
            _ => unreachable!("a phase has its work"),
        }
    }
    Ok(())
}

/// Runs all ranks on threads of their own, and gives what each of them ended with.
fn ends(ranks: usize, phase: usize, end: End) -> Vec<Option<Result<(), Error>>> {
    let group = Group::virtual_gpus(ranks).expect("a group").with_patience(Duration::from_secs(20));
    let communicators = group.communicators().expect("communicators");
    std::thread::scope(|scope| {
        let run = |rank: Communicator| {
            scope.spawn(move || {
                let result = work(&rank, phase, end);
                if let Err(error) = &result {
                    rank.fail(&error.to_string());
                }
                result
            })
        };
        let threads: Vec<_> = communicators.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    })
}

#[test]
fn a_rank_that_goes_in_any_phase_is_named_by_every_other_rank() {
    for ranks in [2, 4] {
        for (phase, name) in PHASES.iter().enumerate() {
            for end in [End::Error, End::Panic, End::Return] {
                let start = Instant::now();
                let ends = ends(ranks, phase, end);
                assert!(start.elapsed() < Duration::from_secs(10), "{name}, {end:?}: {:?}", start.elapsed());
                for (rank, result) in ends.into_iter().enumerate().take(ranks - 1) {
                    let error = result.expect("it does not panic").expect_err("it cannot go on");
                    let named = match error.kind() {
                        ErrorKind::RankFailed { rank, .. } | ErrorKind::RankEnded { rank, .. } => *rank,
                        other => panic!("rank {rank} of {ranks}, {name}, {end:?}: {other:?}"),
                    };
                    // Who learns of it by another rank's failure is told of the first one; a rank
                    // that returned has not failed, so that who misses it first has.
                    let is_right = named == ranks - 1 || end == End::Return;
                    assert!(is_right, "rank {rank} of {ranks}, {name}, {end:?}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_group_gives_the_error_of_the_rank_that_failed_first() {
    let group = Group::virtual_gpus(3).expect("a group");
    let error = group.run(|rank| work(rank, 2, End::Error)).expect_err("rank 2 fails");
    assert_eq!(error.to_string(), "all-gather is not possible today");
    let error = group.run(|rank| work(rank, 2, End::Panic)).expect_err("rank 2 panics");
    assert_eq!(error.to_string(), "rank 2 failed: it panicked");
}

#[test]
fn a_rank_that_does_not_come_is_named_when_patience_ends() {
    let group = Group::virtual_gpus(2).expect("a group").with_patience(Duration::from_millis(50));
    let error = group.run(|rank| -> Result<(), Error> {
        if rank.rank() == 1 {
            std::thread::sleep(Duration::from_millis(500));
        }
        let mut data = rank.device().upload(&[1.0_f32])?;
        rank.all_reduce_in_place(&rank.device().default_stream(), Reduce::Sum, &mut data)
    });
    assert_eq!(error.expect_err("too late").to_string(), "waited 50ms for rank(s) [1], in all-reduce 1");
}

#[test]
fn a_rank_loads_and_allocates_though_its_peers_have_not_come_yet() {
    // Loading waits for the device under a lock here, as the driver may do.
    let group = Group::virtual_gpus(3).expect("a group").with_patience(Duration::from_secs(4)).with_late_launches();
    let found = group.run(|rank| -> Result<(Vec<f32>, Vec<f32>), Error> {
        let (device, stream) = (rank.device(), rank.device().default_stream());
        std::thread::sleep(Duration::from_millis(30 * rank.rank() as u64));
        let mut data = device.upload(&[rank.rank() as f32 + 1.0; 6])?;
        rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
        // Another kernel, more memory, and a channel of two.
        let mut all = device.alloc::<f32>(18)?;
        rank.all_gather(&stream, &data, &mut all)?;
        match rank.rank() {
            0 => rank.send(&stream, 2, &data)?,
            2 => rank.receive(&stream, 0, &mut data)?,
            _ => {}
        }
        Ok((data.download()?, all.download()?))
    });
    assert_eq!(found.expect("all ranks end"), vec![(vec![6.0; 6], vec![6.0; 18]); 3]);
}

#[test]
fn a_kernel_on_a_gpu_that_waits_in_vain_gives_up_and_names_the_rank() {
    let is_asked = std::env::var("WARPFOLD_DEVICE").is_ok_and(|name| name.starts_with("cuda"));
    if !is_asked || Device::num_cuda().is_ok_and(|found| found < 2) {
        eprintln!("skipped: it needs two GPUs, and WARPFOLD_DEVICE=cuda");
        return;
    }
    let devices = (0..2).map(|rank| Device::cuda(rank).expect("a GPU")).collect();
    let group = Group::new(devices).expect("a group").with_patience(Duration::from_millis(300));
    let start = Instant::now();
    let error = group.run(|rank| -> Result<(), Error> {
        let mut data = rank.device().upload(&[1.0_f32])?;
        rank.synchronize(&rank.device().default_stream())?;
        if rank.rank() == 1 {
            std::thread::sleep(Duration::from_secs(4));
        }
        rank.all_reduce_in_place(&rank.device().default_stream(), Reduce::Sum, &mut data)?;
        rank.synchronize(&rank.device().default_stream())
    });
    let text = error.expect_err("too late").to_string();
    assert_eq!(text, "rank 1 failed: it did not come to exchange 1, of all-reduce");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn ranks_that_do_different_things_are_told_so() {
    let group = Group::virtual_gpus(2).expect("a group");
    let error = group.run(|rank| -> Result<(), Error> {
        let (stream, mut data) = (rank.device().default_stream(), rank.device().upload(&[1.0_f32; 4])?);
        match rank.rank() {
            0 => rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data),
            _ => rank.broadcast(&stream, 0, &mut data),
        }
    });
    let text = error.expect_err("they disagree").to_string();
    assert!(text.starts_with("the ranks disagree: one comes to all_reduce_sum_f32_over_2_peers_wide"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let group = Group::virtual_gpus(2).expect("a group");
    let texts = group.run(|rank| -> Result<Vec<String>, Error> {
        let (stream, mut data) = (rank.device().default_stream(), rank.device().upload(&[1.0_f32; 4])?);
        let short = rank.device().upload(&[1.0_f32; 3])?;
        let mut texts = vec![
            rank.send(&stream, rank.rank(), &data).expect_err("to itself").to_string(),
            rank.all_reduce(&stream, Reduce::Sum, &short, &mut data).expect_err("lengths").to_string(),
            rank.all_gather(&stream, &short, &mut data).expect_err("lengths").to_string(),
        ];
        texts.push(rank.broadcast(&stream, 2, &mut data).expect_err("no such rank").to_string());
        Ok(texts)
    });
    let texts = texts.expect("nobody fails");
    let expected = [
        "cannot send to rank 1 of a group of 2, by rank 1",
        "all-reduce: expected 3 elements, found 4",
        "all-gather: expected 6 elements, found 4",
        "the root of a broadcast is rank 2 of a group of 2, by rank 1",
    ];
    assert_eq!(texts[1], expected);
    assert!(Group::virtual_gpus(0).is_err());
    let many = Group::virtual_gpus(9).expect("devices").communicators().expect_err("too many");
    assert_eq!(many.to_string(), "9 devices: a group has 1 to 8");
}
