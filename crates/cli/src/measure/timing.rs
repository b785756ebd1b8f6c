//! Times of one launch on a GPU, by events.

use std::sync::LazyLock;
use std::time::Duration;

use serde::Serialize;
use warpfold_device::{Error, LaunchConfig, Stream};
use warpfold_lang::{Kernel, Val, clock, kernel, loop_until_left};

/// Rounds of each kind.
const ROUNDS: usize = 15;
/// What the launches of a round in a stream take together, about.
const ROUND: Duration = Duration::from_micros(300);
/// Launches of a round at most.
const MOST_LAUNCHES: u32 = 100;
/// A launch that takes longer is timed three times, and alone.
const LONG: Duration = Duration::from_millis(10);

/// Times in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Times {
    least: f64,
    median: f64,
    most: f64,
    rounds: usize,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let us = |time: &Duration| time.as_secs_f64() * 1e6;
        let median = us(times.get(times.len() / 2)?);
        Some(Self { least: us(times.first()?), median, most: us(times.last()?), rounds: times.len() })
    }
}

/// What a launch takes.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    /// Each launch between two events.
    alone: Option<Times>,
    /// What a launch adds to a stream of launches of itself; none where each needs its buffers
    /// anew, or takes long.
    in_stream: Option<Times>,
    /// Launches of a round in a stream.
    launches: u32,
}

/// Times launches; `prepare` is done before each round, and `is_alone` says that it must be done
/// before each launch.
pub(super) fn measure(
    stream: &Stream,
    launch: impl Fn() -> Result<(), Error>,
    mut prepare: impl FnMut() -> Result<(), Error>,
    is_alone: bool,
) -> Result<Measured, Error> {
    let mut timed = |launches: u32, is_queued: bool| -> Result<Duration, Error> {
        prepare()?;
        if is_queued {
            // The events and launches stand in line when the first one starts.
            stream.launch(&WAIT, LaunchConfig::new(1, 1), (400_000 + u64::from(launches) * 16_000,))?;
        }
        let start = stream.record()?;
        for _ in 0..launches {
            launch()?;
        }
        let end = stream.record()?;
        Ok(end.elapsed_since(&start)?.unwrap_or_default() / launches)
    };
    timed(1, false)?;
    let first = timed(1, false)?;
    let rounds = if first > LONG { 3 } else { ROUNDS };
    let alone = (0..rounds).map(|_| timed(1, true)).collect::<Result<Vec<_>, _>>()?;
    let launches = ROUND.as_nanos() / first.as_nanos().max(1);
    let launches = u32::try_from(launches).unwrap_or(MOST_LAUNCHES).clamp(2, MOST_LAUNCHES);
    let in_stream = if is_alone || first > LONG {
        Vec::new()
    } else {
        (0..rounds).map(|_| timed(launches, true)).collect::<Result<Vec<_>, _>>()?
    };
    Ok(Measured { alone: Times::of(alone), in_stream: Times::of(in_stream), launches })
}

/// Waits for so many clock cycles.
static WAIT: LazyLock<Kernel<(u64,)>> = LazyLock::new(|| {
    kernel("wait", |cycles: Val<u64>| {
        let start = clock();
        loop_until_left(|waiting| waiting.leave_if((clock() - start).ge(cycles)));
    })
});
