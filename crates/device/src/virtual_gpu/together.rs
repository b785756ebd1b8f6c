//! Joint launches over several virtual GPUs: a launch runs when every rank has joined, or fails on
//! all of them.
//!
//! Each rank gives its part from a thread of its own. The last to come runs all parts as one launch
//! of the simulator, whose checks then see races between devices; the others wait. A rank that has
//! [left](Together::leave), or does not come in time, ends the wait of all others with an error
//! that names it.
//!
//! **Late launches.** A launch on a GPU returns before the peers have come, the device is busy
//! until they have, and the driver's calls that load or allocate may wait for it under a lock of
//! the process. Groups of [late](Together::late) launches show a program what follows from that: a
//! part that is given is [pending](Together::give), the rank goes on, and whatever it asks of its
//! device next [ends](Together::end) the launch first.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpfold_sim as sim;

use super::machine::{Machine, VirtualFunction};
use crate::backend::LaunchConfig;
use crate::{Error, ErrorKind};

/// Meeting point of the ranks of a group for one joint launch.
#[derive(Debug)]
pub(crate) struct Together {
    state: Mutex<State>,
    changed: Condvar,
    patience: Duration,
    /// The driver's lock, if launches are late.
    driver: Option<Arc<Mutex<()>>>,
}

#[derive(Debug)]
struct State {
    /// Number of launches that have run.
    round: u64,
    /// Outcome of the last round.
    outcome: Result<(), Error>,
    parts: Vec<Option<Part>>,
    /// Per rank: the reason why it left.
    left: Vec<Option<String>>,
}

/// One rank's part of a joint launch.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) machine: Arc<Machine>,
    pub(super) stream: sim::Stream,
    pub(super) function: VirtualFunction,
    pub(super) config: LaunchConfig,
    pub(super) params: Vec<u8>,
}

impl Together {
    /// Makes a meeting point for this many ranks, with `patience` as the timeout of their waits.
    pub(crate) fn new(ranks: usize, patience: Duration) -> Self {
        let parts = (0..ranks).map(|_| None).collect();
        let state = State { round: 0, outcome: Ok(()), parts, left: vec![None; ranks] };
        Self { state: Mutex::new(state), changed: Condvar::new(), patience, driver: None }
    }

    /// Makes launches late, with the driver's lock.
    pub(crate) fn late(self, driver: Arc<Mutex<()>>) -> Self {
        Self { driver: Some(driver), ..self }
    }

    pub(crate) fn driver(&self) -> Option<&Arc<Mutex<()>>> {
        self.driver.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a rank as left. The first reason stays.
    pub(crate) fn leave(&self, rank: usize, reason: &str) {
        self.lock().left[rank].get_or_insert_with(|| reason.to_owned());
        self.changed.notify_all();
    }

    /// Fails if a rank has left.
    pub(crate) fn expect_all(&self) -> Result<(), Error> {
        self.lock().expect_all()
    }

    /// Contributes a rank's part. The last rank to come runs the launch; for the others it is
    /// pending, and this is its round.
    pub(super) fn give(&self, rank: usize, part: Part) -> Result<Option<u64>, Error> {
        let mut state = self.lock();
        state.expect_all()?;
        let round = state.round;
        state.parts[rank] = Some(part);
        if !state.parts.iter().all(Option::is_some) {
            return Ok(Some(round));
        }
        let parts: Vec<Part> = state.parts.iter_mut().filter_map(Option::take).collect();
        state.outcome = run(&parts);
        state.round += 1;
        self.changed.notify_all();
        state.outcome.clone().map(|()| None)
    }

    /// Waits for a launch to which a rank has contributed its part.
    pub(super) fn end(&self, rank: usize, round: u64) -> Result<(), Error> {
        let mut state = self.lock();
        let end = Instant::now() + self.patience;
        while state.round == round {
            let lost = state.expect_all();
            let left = end.saturating_duration_since(Instant::now());
            if lost.is_ok() && !left.is_zero() {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.parts[rank] = None;
            lost?;
            let missing = (0..state.parts.len()).filter(|&r| r != rank && state.parts[r].is_none()).collect();
            state.left[rank].get_or_insert_with(|| "gave up waiting for others".to_owned());
            self.changed.notify_all();
            return Err(ErrorKind::PeersLate { waited: self.patience, missing }.into());
        }
        state.outcome.clone()
    }
}

impl State {
    fn expect_all(&self) -> Result<(), Error> {
        let lost = self.left.iter().enumerate().find_map(|(rank, left)| Some((rank, left.clone()?)));
        lost.map_or(Ok(()), |(rank, reason)| Err(ErrorKind::PeerLost { rank, reason }.into()))
    }
}

/// Runs the parts of all ranks as one launch.
fn run(parts: &[Part]) -> Result<(), Error> {
    let first = &parts[0];
    let describe = |part: &Part| format!("{} with grid {:?}", part.function.name(), part.config.grid);
    let is_other = |part: &&Part| (part.function.name(), part.config) != (first.function.name(), first.config);
    if let Some(other) = parts.iter().find(is_other) {
        let (expected, found) = (describe(first), describe(other));
        return Err(ErrorKind::PeersDisagree { expected, found }.into());
    }
    parts.iter().for_each(|part| part.stream.settle());
    let params: Vec<Vec<u8>> = parts.iter().map(|part| part.params.clone()).collect();
    let machines: Vec<&Machine> = parts.iter().map(|part| &*part.machine).collect();
    Machine::launch_together(&machines, &first.function, &first.config, &params)
}
