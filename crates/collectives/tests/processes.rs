//! One process a rank, over the connections that the launcher's variables lead to.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warpfold_collectives::{Communicator, Error, Launch, Reduce};
use warpfold_device::{Device, Profile};

/// Groups that are started before no port is taken for free.
const TRIES: usize = 10;

/// GPUs, if they are asked for: NCCL then moves the bytes.
fn num_gpus() -> usize {
    let is_asked = std::env::var("WARPFOLD_DEVICE").is_ok_and(|name| name.starts_with("cuda"));
    if is_asked { Device::num_cuda().expect("a driver") } else { 0 }
}

/// A port that was free a moment ago: another program may take it before a rank does.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// What every process does; one of them goes before a round.
fn rank_of_a_group(launch: &Launch, goes_before: Option<usize>) -> Result<(), Error> {
    let device = match num_gpus() >= launch.size {
        true => Device::cuda(launch.local_rank)?,
        false => Device::virtual_gpu(Profile::H200),
    };
    let rank = Communicator::join(device, launch, &[])?;
    let (device, stream, size, own) = (rank.device(), rank.device().default_stream(), rank.size(), rank.rank());
    for round in 0..4 {
        if goes_before == Some(round) {
            std::process::exit(3);
        }
        // A copy to the host waits as long as the driver does; this wait ends with a process that does.
        let arrived = || rank.synchronize(&stream);
        let mut sum = device.alloc::<f32>(100)?;
        rank.all_reduce(&stream, Reduce::Sum, &device.upload(&[(own + round) as f32; 100])?, &mut sum)?;
        arrived()?;
        assert_eq!(sum.download()?, [(size * (size - 1) / 2 + round * size) as f32; 100]);

        let mut all = device.alloc::<u8>(3 * size)?;
        rank.all_gather(&stream, &device.upload(&[own as u8; 3])?, &mut all)?;
        arrived()?;
        assert_eq!(all.download()?, (0..size as u8).flat_map(|r| [r; 3]).collect::<Vec<_>>());

        let parts: Vec<i64> = (0..size as i64).flat_map(|part| [part * 10 + own as i64; 2]).collect();
        let mut part = device.alloc::<i64>(2)?;
        rank.reduce_scatter(&stream, Reduce::Max, &device.upload(&parts)?, &mut part)?;
        arrived()?;
        assert_eq!(part.download()?, [own as i64 * 10 + size as i64 - 1; 2]);

        let mut data = device.upload(&[own as u32; 5])?;
        rank.broadcast(&stream, size - 1, &mut data)?;
        arrived()?;
        assert_eq!(data.download()?, [size as u32 - 1; 5]);

        if own == 0 {
            rank.receive(&stream, 1, &mut data)?;
            arrived()?;
            assert_eq!(data.download()?, [7; 5]);
        } else if own == 1 {
            rank.send(&stream, 0, &device.upload(&[7_u32; 5])?)?;
        }
    }
    rank.synchronize(&stream)
}

/// A process of a group, if the launcher's variables say so; else nothing.
#[test]
fn rank_of_a_group_of_processes() {
    let Ok(launch) = Launch::from_env() else { return };
    let launch = Launch { patience: Duration::from_secs(20), ..launch };
    let goes_before = std::env::var("GOES_BEFORE").ok().and_then(|text| text.parse().ok());
    if let Err(error) = rank_of_a_group(&launch, goes_before) {
        eprintln!("ENDS WITH: {error}");
        std::process::exit(4);
    }
}

/// Starts a process for each rank, at another port if somebody took the one that was free; gives
/// how each ended and what it said.
fn run(size: usize, goes: Option<(usize, usize)>) -> Vec<(Option<i32>, String)> {
    let is_taken =
        |ends: &[(Option<i32>, String)]| ends.iter().any(|(_, text)| text.contains("Address already in use"));
    let mut tries = (0..TRIES).map(|_| run_at(free_port(), size, goes));
    tries.find(|ends| !is_taken(ends)).expect("one of some ports is still free")
}

fn run_at(port: u16, size: usize, goes: Option<(usize, usize)>) -> Vec<(Option<i32>, String)> {
    let program = std::env::current_exe().expect("a test knows its program");
    let start = |rank: usize| {
        let mut command = Command::new(&program);
        command.args(["--exact", "processes::rank_of_a_group_of_processes", "--nocapture"]);
        command.envs([("RANK", rank), ("WORLD_SIZE", size), ("LOCAL_RANK", rank)].map(|(k, v)| (k, v.to_string())));
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        if let Some((_, round)) = goes.filter(|(who, _)| *who == rank) {
            command.env("GOES_BEFORE", round.to_string());
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    let children: Vec<_> = (0..size).map(start).collect();
    let end = |child: std::process::Child| {
        let output = child.wait_with_output().expect("the process ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    children.into_iter().map(end).collect()
}

#[test]
fn processes_meet_and_work_together() {
    for size in [2, 3, 4] {
        for (rank, (code, text)) in run(size, None).into_iter().enumerate() {
            assert_eq!(code, Some(0), "rank {rank} of {size}: {text}");
        }
    }
}

#[test]
fn a_process_that_ends_is_named_by_every_other_one() {
    for (gone, round) in [(0, 0), (2, 1), (1, 3)] {
        let start = Instant::now();
        let ends = run(3, Some((gone, round)));
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        for (rank, (code, text)) in ends.into_iter().enumerate().filter(|(rank, _)| *rank != gone) {
            assert_eq!(code, Some(4), "rank {rank}, when {gone} is gone: {text}");
            let expected = format!("ENDS WITH: rank {gone} failed: its process ended");
            assert!(text.contains(&expected), "rank {rank}, when {gone} is gone: {text}");
        }
    }
}

#[test]
fn a_process_that_never_comes_is_named() {
    let launch = |rank, port| Launch {
        rank,
        size: 2,
        local_rank: rank,
        address: format!("127.0.0.1:{port}"),
        patience: Duration::from_millis(100),
    };
    let join = |launch| Communicator::join(Device::virtual_gpu(Profile::H200), &launch, &[]);
    // The system chooses a free port.
    let error = join(launch(0, 0)).expect_err("nobody comes");
    assert!(error.to_string().ends_with("rank 1 did not come within 100ms"), "{error}");
    // A reserved one that no program takes.
    let error = join(launch(1, 1)).expect_err("nobody is there");
    assert!(error.to_string().contains("connecting to rank 0"), "{error}");
}

fn read(changes: &[(&str, Option<&str>)]) -> Result<Launch, String> {
    let all =
        [("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "node-0"), ("MASTER_PORT", "29500")];
    let variable = |name: &str| match changes.iter().find(|(changed, _)| *changed == name) {
        Some((_, text)) => text.map(str::to_owned),
        None => all.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()),
    };
    Launch::from_variables(variable).map_err(|e| e.to_string())
}

#[test]
fn the_variables_of_torchrun_say_who_and_where() {
    let launch = read(&[]).expect("complete");
    assert_eq!((launch.rank, launch.size, launch.local_rank), (3, 8, 1));
    assert_eq!(launch.address, "node-0:29500");
    // Its own store listens at the port that it names.
    let launch = read(&[("TORCHELASTIC_USE_AGENT_STORE", Some("True"))]).expect("complete");
    assert_eq!(launch.address, "node-0:29501");
}

#[test]
fn a_variable_that_is_missing_or_wrong_is_named() {
    let starts = |changes: &[(&str, Option<&str>)], text: &str| {
        let error = read(changes).expect_err("refused");
        assert!(error.starts_with(text), "{error}");
    };
    starts(&[("LOCAL_RANK", None)], "LOCAL_RANK is not set; torchrun sets");
    starts(&[("RANK", Some("first"))], "RANK is 'first', which is no number");
    starts(&[("RANK", Some("8"))], "RANK is 8 of a WORLD_SIZE of 8");
    starts(&[("MASTER_PORT", Some("70000"))], "MASTER_PORT is 70000, which is no port");
}
