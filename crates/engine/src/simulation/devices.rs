//! Devices that run one model in step, of which some calls fail and one may be lost.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::SeedDraws;
use crate::batch::{Batch, Moves};
use crate::error::ModelError;
use crate::model::{CacheShape, Limits, Model, Ticket};
use crate::request::Adapter;
use crate::sampling::Sampled;

/// The calls that fail: copies, loads of adapters and weights, the beginnings of steps, and their
/// ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFaults {
    /// Numbers of calls that fail once.
    pub fails: BTreeSet<u64>,
    /// The call from which on a device is lost.
    pub lost_from: Option<u64>,
}

impl DeviceFaults {
    /// None in half of the cases, otherwise some, and sometimes a device that is lost.
    pub fn draw(draws: &mut SeedDraws) -> Self {
        let num = if draws.percent(50) { 0 } else { draws.below(4) };
        let fails = (0..num).map(|_| 1 + draws.below(150) as u64).collect();
        let lost_from = draws.percent(4).then(|| 1 + draws.below(100) as u64);
        Self { fails, lost_from }
    }

    /// Returns whether a call may fail at all.
    #[must_use]
    pub fn are_any(&self) -> bool {
        !self.fails.is_empty() || self.lost_from.is_some()
    }
}

/// A model on several devices: each has its own, with a cache of its own, and runs every batch. A
/// call that fails has reached some of them.
#[derive(Debug)]
pub struct FaultyDevices<M> {
    ranks: Vec<M>,
    faults: DeviceFaults,
    calls: u64,
    failures: u64,
    running: VecDeque<(Vec<Ticket>, Result<(), String>)>,
    /// The weights in each place of an adapter.
    loaded: BTreeMap<u32, u32>,
    identify: Identify,
}

/// A function from the weights of an adapter to their number.
pub type Identify = fn(&(dyn Any + Send + Sync)) -> u32;

impl<M: Model> FaultyDevices<M> {
    /// Puts a model on each device.
    ///
    /// # Panics
    /// If there is no device.
    #[must_use]
    pub fn new(ranks: Vec<M>, faults: DeviceFaults, identify: Identify) -> Self {
        assert!(!ranks.is_empty(), "a model runs on a device");
        Self { ranks, faults, calls: 0, failures: 0, running: VecDeque::new(), loaded: BTreeMap::new(), identify }
    }

    /// Calls that have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// The devices that the next call reaches, and the call's result.
    fn call(&mut self) -> (usize, Result<(), String>) {
        self.calls += 1;
        let rank = self.calls as usize % self.ranks.len();
        let result = match self.faults.lost_from {
            Some(from) if self.calls >= from => Err(format!("device {rank} is lost")),
            _ if self.faults.fails.contains(&self.calls) => Err(format!("device {rank} was to fail")),
            _ => return (self.ranks.len(), Ok(())),
        };
        self.failures += 1;
        (rank, result)
    }

    /// The batch with the number of its weights where a place was named.
    fn named(&self, batch: &Batch) -> Option<Batch> {
        batch.adapters.iter().any(Option::is_some).then(|| {
            let mut batch = batch.clone();
            let weights = |place: &u32| *self.loaded.get(place).expect("an adapter is loaded before it is named");
            batch.adapters.iter_mut().for_each(|place| *place = place.as_ref().map(weights));
            batch
        })
    }
}

impl<M: Model> Model for FaultyDevices<M> {
    fn limits(&self) -> Limits {
        self.ranks[0].limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.ranks.iter_mut().try_for_each(|rank| rank.allocate(cache))
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        let (reached, result) = self.call();
        self.ranks[..reached].iter_mut().try_for_each(|rank| rank.copy(moves))?;
        Ok(result?)
    }

    fn load_adapter(&mut self, adapter: &Adapter, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        self.call().1?;
        self.loaded.insert(adapter.slot, (self.identify)(weights));
        Ok(())
    }

    fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        // A load that fails leaves the weights of before, on all devices.
        self.call().1?;
        self.ranks.iter_mut().try_for_each(|rank| rank.load_weights(weights))
    }

    fn sleep(&mut self) -> Result<(), ModelError> {
        self.call().1?;
        self.ranks.iter_mut().try_for_each(Model::sleep)
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let ticket = self.submit(batch)?;
        self.wait(ticket)
    }

    fn overlaps(&self) -> bool {
        self.ranks[0].overlaps()
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        let named = self.named(batch);
        let batch = named.as_ref().unwrap_or(batch);
        let (reached, result) = self.call();
        let mut tickets = Vec::with_capacity(reached);
        for rank in &mut self.ranks[..reached] {
            tickets.push(rank.submit(batch)?);
        }
        if let Err(error) = result {
            // What those have answered is of no use. Steps before it may still run.
            while let Some((tickets, _)) = self.running.pop_front() {
                self.ranks.iter_mut().zip(tickets).for_each(|(rank, ticket)| drop(rank.wait(ticket)));
            }
            self.ranks.iter_mut().zip(tickets).for_each(|(rank, ticket)| drop(rank.wait(ticket)));
            return Err(error.into());
        }
        let end = self.call().1;
        self.running.push_back((tickets, end));
        Ok(Ticket::running())
    }

    fn wait(&mut self, _: Ticket) -> Result<Vec<Sampled>, ModelError> {
        let (tickets, end) = self.running.pop_front().ok_or("the step before has failed")?;
        let mut answers: Option<Vec<Sampled>> = None;
        for (rank, ticket) in self.ranks.iter_mut().zip(tickets) {
            let of_rank = rank.wait(ticket)?;
            match &answers {
                Some(answers) => assert_eq!(*answers, of_rank, "two devices answer the same"),
                None => answers = Some(of_rank),
            }
        }
        end?;
        Ok(answers.unwrap_or_default())
    }
}
