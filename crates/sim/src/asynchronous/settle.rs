//! Completion of asynchronous copies: at a wait that could not succeed otherwise.

use super::barrier_object::Barrier;
use super::thread_copies::Arrival;
use crate::exec::cluster::Place;
use crate::exec::machine::Machine;

/// Pending operations towards one barrier, in the order in which they are to complete.
enum Coming {
    /// A bulk copy, by its place in the list of loads.
    Load(usize),
    /// The arrival after a thread's `cp.async`, by its place in the list of arrivals.
    Arrival(usize),
}

impl Machine {
    /// Completes the pending operations of a barrier at one of these offsets, if they complete its
    /// phase; returns true if one is complete.
    pub(crate) fn settle(&mut self, barriers: &[u32]) -> bool {
        barriers.iter().any(|&barrier| self.settle_barrier(barrier))
    }

    fn settle_barrier(&mut self, offset: u32) -> bool {
        let place = Place { rank: self.cluster.rank, is_own: true, offset, shared: self.shared };
        let Some(barrier) = Barrier::decode(self.barrier_bits(place)) else { return false };
        let mut coming = self.coming(offset);
        self.asynchronous.luck.shuffle(&mut coming);
        let Some(count) = self.enough(barrier, &coming) else { return false };
        let (mut loads, mut arrivals) = (Vec::new(), Vec::new());
        for one in &coming[..count] {
            match one {
                Coming::Load(at) => loads.push(*at),
                Coming::Arrival(at) => arrivals.push(*at),
            }
        }
        loads.sort_unstable();
        arrivals.sort_unstable();
        let mut barrier = barrier;
        for arrival in take(&mut self.asynchronous.arrivals, &arrivals) {
            self.land_arrival(&arrival);
            barrier.pending -= 1;
        }
        let rank = self.cluster.rank as usize;
        for load in take(&mut self.cluster.peers[rank].loads, &loads) {
            self.land(&load);
            self.check_load_lands(&load);
            barrier.tx -= i32::try_from(load.bytes).expect("less than shared memory");
        }
        self.complete_phase(place, barrier)
    }

    /// Completes one copy towards the current block at once, if the seed draws it.
    pub(super) fn land_early(&mut self) {
        let rank = self.cluster.rank as usize;
        let count = self.cluster.peers[rank].loads.len();
        if count == 0 || !self.asynchronous.luck.one_in(2) {
            return;
        }
        let at = self.asynchronous.luck.below(count);
        let offset = self.cluster.peers[rank].loads[at].barrier;
        let place = Place { rank: self.cluster.rank, is_own: true, offset, shared: self.shared };
        // A copy whose barrier is gone, or cannot count its bytes, stays pending for ever.
        let Some(mut barrier) = Barrier::decode(self.barrier_bits(place)) else { return };
        let bytes = i64::from(self.cluster.peers[rank].loads[at].bytes);
        if barrier.add_bytes(-bytes).is_err() {
            return;
        }
        let load = self.cluster.peers[rank].loads.remove(at);
        self.land(&load);
        self.check_load_lands(&load);
        self.write_barrier(place, barrier);
        self.complete_phase(place, barrier);
    }

    /// Operations pending at a barrier.
    fn coming(&self, offset: u32) -> Vec<Coming> {
        let loads = &self.cluster.peers[self.cluster.rank as usize].loads;
        let arrivals = (0..).zip(&self.asynchronous.arrivals).filter(|(_, a)| a.barrier == offset);
        let loads = (0..).zip(loads).filter(|(_, load)| load.barrier == offset);
        arrivals.map(|(at, _)| Coming::Arrival(at)).chain(loads.map(|(at, _)| Coming::Load(at))).collect()
    }

    /// Number of the pending operations that complete the phase.
    fn enough(&self, barrier: Barrier, coming: &[Coming]) -> Option<usize> {
        let loads = &self.cluster.peers[self.cluster.rank as usize].loads;
        let (mut pending, mut tx) = (i64::from(barrier.pending), i64::from(barrier.tx));
        for (n, one) in coming.iter().enumerate() {
            match one {
                Coming::Load(at) => tx -= i64::from(loads[*at].bytes),
                Coming::Arrival(_) => pending -= 1,
            }
            if pending == 0 && tx == 0 {
                return Some(n + 1);
            }
        }
        None
    }

    /// Completes an arrival: the thread's copies by `cp.async` are done.
    fn land_arrival(&mut self, arrival: &Arrival) {
        let Arrival { warp, lane, issued, .. } = *arrival;
        let landed = self.asynchronous.copies[warp as usize].take_before(1 << lane, issued);
        self.land_copies(&landed);
        self.check_arrival_lands(arrival, &landed);
    }
}

/// Removes the elements at these indices, which are sorted.
fn take<T>(list: &mut Vec<T>, places: &[usize]) -> Vec<T> {
    let mut taken = Vec::with_capacity(places.len());
    let mut n = 0;
    let mut rest = Vec::with_capacity(list.len() - places.len());
    for (at, element) in std::mem::take(list).into_iter().enumerate() {
        if places.get(n) == Some(&at) {
            n += 1;
            taken.push(element);
        } else {
            rest.push(element);
        }
    }
    *list = rest;
    taken
}
