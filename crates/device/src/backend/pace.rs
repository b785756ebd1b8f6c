//! Pacing of a group of devices: the number of launches that each rank has given to its device.
//!
//! A kernel that waits for its peers keeps its device busy until each of them has launched its own
//! part. Some calls of the driver (loading a module, mapping memory) may wait for the device
//! meanwhile, with locks that the peers need to launch; CUDA's Programming Guide says so of lazy
//! loading ("Concurrent execution"). Then no rank goes on. So a rank [catches up](Pace::catch_up)
//! before it makes such a call: it waits until its peers have launched what its device waits for,
//! after which the device ends all that it was given without the host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Error, ErrorKind};

/// Polling interval of a waiting rank.
const AGAIN: Duration = Duration::from_micros(20);

/// Launches by rank.
#[derive(Debug)]
pub(crate) struct Pace {
    launched: Box<[AtomicU64]>,
    /// The ranks that have left, and their reasons.
    left: Mutex<Vec<(usize, String)>>,
    patience: Duration,
}

impl Pace {
    /// Makes a pace for this many ranks, with `patience` as the timeout of their waits.
    pub(crate) fn new(ranks: usize, patience: Duration) -> Self {
        Self { launched: (0..ranks).map(|_| AtomicU64::new(0)).collect(), left: Mutex::default(), patience }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Counts a launch given to a rank's device: of a kernel, or of a graph that contains one.
    pub(crate) fn launched(&self, rank: usize) {
        self.launched[rank].fetch_add(1, Ordering::Release);
    }

    /// Ends every wait for a rank that leaves; its launches so far count.
    pub(crate) fn leave(&self, rank: usize, reason: &str) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push((rank, reason.to_owned()));
    }

    /// Waits until every other rank has launched as often as this one. The rank that has launched
    /// least never waits, so that ranks cannot wait here for one another.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`], [`ErrorKind::PeersLate`].
    pub(crate) fn catch_up(&self, rank: usize) -> Result<(), Error> {
        let own = self.launched[rank].load(Ordering::Acquire);
        let is_behind = |launched: &AtomicU64| launched.load(Ordering::Acquire) < own;
        let end = Instant::now() + self.patience;
        while self.launched.iter().any(is_behind) {
            let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((rank, reason)) = left.into_iter().find(|(rank, _)| is_behind(&self.launched[*rank])) {
                return Err(ErrorKind::PeerLost { rank, reason }.into());
            }
            if Instant::now() >= end {
                let missing = (0..self.launched.len()).filter(|&r| is_behind(&self.launched[r])).collect();
                return Err(ErrorKind::PeersLate { waited: self.patience, missing }.into());
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_is_ahead_waits_for_the_others() {
        let pace = Pace::new(3, Duration::from_secs(60));
        pace.launched(0);
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| pace.catch_up(0).map(|()| pace.launched[2].load(Ordering::Acquire)));
            // Those behind wait for nobody.
            [1, 2].iter().for_each(|&rank| pace.catch_up(rank).expect("it is behind"));
            pace.launched(1);
            std::thread::sleep(Duration::from_millis(5));
            pace.launched(2);
            assert_eq!(ahead.join().expect("no panic").expect("all come"), 1);
        });
    }

    #[test]
    fn a_rank_that_has_launched_all_may_leave_before_another_has_come() {
        let pace = Pace::new(3, Duration::from_secs(60));
        pace.launched(0);
        pace.launched(2);
        pace.leave(2, "it has ended");
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| pace.catch_up(0));
            std::thread::sleep(Duration::from_millis(5));
            pace.launched(1);
            ahead.join().expect("no panic").expect("rank 1 comes");
        });
    }

    #[test]
    fn a_wait_ends_with_patience_or_with_a_rank_that_leaves() {
        let pace = Pace::new(2, Duration::from_millis(2));
        pace.launched(1);
        assert!(
            matches!(pace.catch_up(1).expect_err("rank 0 is late").kind(), ErrorKind::PeersLate { missing, .. } if *missing == [0])
        );
        pace.leave(0, "it panicked");
        assert!(matches!(pace.catch_up(1).expect_err("rank 0 is gone").kind(), ErrorKind::PeerLost { rank: 0, .. }));
        pace.catch_up(0).expect("it waits for nobody");
    }
}
