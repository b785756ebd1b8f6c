//! State shared by the ranks of one process: their channels, and the first failure.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpfold_device::{Device, ErrorKind as DeviceErrorKind, Stream};

use crate::channel::{Channel, PeerOptions};
use crate::{Error, ErrorKind};

/// The ranks of one process.
#[derive(Debug)]
pub(crate) struct Hall {
    pub(crate) devices: Vec<Device>,
    /// Channel of all ranks.
    pub(crate) all: Channel,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Point-to-point channels by sender and receiver.
    pairs: BTreeMap<(usize, usize), Arc<Channel>>,
    /// The first rank that failed, and the reason.
    failed: Option<(usize, String)>,
    ended: Vec<usize>,
}

impl Hall {
    pub(crate) fn new(
        devices: Vec<Device>,
        options: PeerOptions,
        patience: Duration,
        is_late: bool,
    ) -> Result<Self, Error> {
        let all = Channel::of_all(&devices, options, patience, is_late)?;
        Ok(Self { devices, all, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel from one rank to another, one of which is `own`.
    pub(crate) fn pair(&self, from: usize, to: usize, own: usize) -> Result<Arc<Channel>, Error> {
        let channel = self.pair_of(from, to)?;
        channel.open(own).map_err(|error| self.explain(&channel, error))?;
        Ok(channel)
    }

    /// The channel of two ranks, created by the first of them that needs it, and not open yet.
    fn pair_of(&self, from: usize, to: usize) -> Result<Arc<Channel>, Error> {
        let mut state = self.lock();
        if let Some(error) = state.failure() {
            return Err(error);
        }
        if let Some(channel) = state.pairs.get(&(from, to)) {
            return Ok(channel.clone());
        }
        let channel = Arc::new(Channel::of_pair(&self.all, from, to));
        for (member, rank) in [from, to].into_iter().enumerate() {
            if state.ended.contains(&rank) {
                channel.peers.leave(member, ENDED);
            }
        }
        state.pairs.insert((from, to), channel.clone());
        Ok(channel)
    }

    /// Waits for a stream of a rank, and fails if a kernel timed out waiting for another one.
    pub(crate) fn check(&self, rank: usize, stream: &Stream) -> Result<(), Error> {
        let pairs: Vec<_> = self.lock().pairs.values().filter(|pair| pair.ranks.contains(&rank)).cloned().collect();
        self.all.check(stream)?;
        pairs.iter().try_for_each(|pair| pair.expect_none_lost())
    }

    /// Fails if a kernel has timed out waiting for a rank so far.
    pub(crate) fn expect_none_lost(&self) -> Result<(), Error> {
        let pairs: Vec<_> = self.lock().pairs.values().cloned().collect();
        self.all.expect_none_lost()?;
        pairs.iter().try_for_each(|pair| pair.expect_none_lost())
    }

    /// Marks a rank as failed: ends every wait of every other rank.
    pub(crate) fn fail(&self, rank: usize, reason: &str) {
        let mut state = self.lock();
        state.failed.get_or_insert_with(|| (rank, reason.to_owned()));
        self.all.peers.leave(rank, reason);
        self.all.abort();
        for channel in state.pairs.values() {
            channel.peers.leave(0, reason);
            channel.abort();
        }
    }

    /// Marks a rank as ended: ends the waits for it.
    pub(crate) fn end(&self, rank: usize) {
        let mut state = self.lock();
        state.ended.push(rank);
        self.all.peers.leave(rank, ENDED);
        for channel in state.pairs.values() {
            if let Some(member) = channel.ranks.iter().position(|&r| r == rank) {
                channel.peers.leave(member, ENDED);
            }
        }
    }

    /// The first rank that failed.
    pub(crate) fn first_failure(&self) -> Option<usize> {
        self.lock().failed.as_ref().map(|(rank, _)| *rank)
    }

    /// Like [`Hall::explain`], for a graph, which does not know the channels of its work.
    pub(crate) fn explain_graph(&self, error: Error) -> Error {
        let is_lost = |e: &warpfold_device::Error| matches!(e.kind(), DeviceErrorKind::PeerLost { .. });
        let state = self.lock();
        let lost = match error.kind() {
            ErrorKind::Device(device) if is_lost(device) => {
                let ended = || Some(ErrorKind::RankEnded { rank: *state.ended.first()?, during: None }.into());
                state.failure().or_else(ended)
            }
            _ => None,
        };
        drop(state);
        lost.unwrap_or_else(|| self.explain(&self.all, error))
    }

    /// Converts the error of a channel to one of the group: the first failure, if that is the
    /// cause.
    pub(crate) fn explain(&self, channel: &Channel, error: Error) -> Error {
        let ErrorKind::Device(device) = error.kind() else { return error };
        match device.kind() {
            DeviceErrorKind::PeerLost { rank, reason } => {
                let rank = channel.ranks[*rank];
                self.lock().failure().unwrap_or_else(|| match &**reason {
                    ENDED => ErrorKind::RankEnded { rank, during: None }.into(),
                    reason => ErrorKind::RankFailed { rank, reason: reason.to_owned() }.into(),
                })
            }
            DeviceErrorKind::PeersLate { waited, missing } => {
                let missing = missing.iter().map(|&member| channel.ranks[member]).collect();
                ErrorKind::RanksLate { waited: *waited, missing, during: None }.into()
            }
            DeviceErrorKind::PeersDisagree { expected, found } => {
                ErrorKind::RanksDisagree { expected: expected.clone(), found: found.clone() }.into()
            }
            _ => error,
        }
    }
}

const ENDED: &str = "it has ended";

impl State {
    fn failure(&self) -> Option<Error> {
        let (rank, reason) = self.failed.clone()?;
        Some(ErrorKind::RankFailed { rank, reason }.into())
    }
}
