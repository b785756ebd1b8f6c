//! Faults in a server and what it stands on, to see that scenarios find them.
//!
//! Faults inside the engine are planted in its own tests (`crates/engine/src/planted.rs`).

use std::any::Any;

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Adapter, Batch, CacheShape, Limits, Model, ModelError, Moves, Sampled, Ticket};
use warpfold_serve::ServeFault;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroundFault {
    /// Nobody is woken when a client ends.
    WakeIsLost,
    /// Connections have a time limit that never comes.
    TimerIsLost,
    /// A block that is shared is not copied before it is written.
    CopyIsLost,
    /// A block does not come back from the host.
    SwapIsLost,
    /// Two requests get one another's tokens.
    AnswersAreMixed,
    /// An adapter's requests are answered without it.
    AdapterIsIgnored,
}

impl GroundFault {
    pub(crate) const ALL: [Self; 6] = [
        Self::WakeIsLost,
        Self::TimerIsLost,
        Self::CopyIsLost,
        Self::SwapIsLost,
        Self::AnswersAreMixed,
        Self::AdapterIsIgnored,
    ];
}

/// A fault of what a server stands on, or of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlantedFault {
    Ground(GroundFault),
    Server(ServeFault),
}

impl PlantedFault {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        GroundFault::ALL.into_iter().map(Self::Ground).chain(ServeFault::ALL.into_iter().map(Self::Server))
    }

    pub(crate) fn ground(self) -> Option<GroundFault> {
        if let Self::Ground(fault) = self { Some(fault) } else { None }
    }

    pub(crate) fn server(self) -> Option<ServeFault> {
        if let Self::Server(fault) = self { Some(fault) } else { None }
    }
}

/// The scripted model on a device that may have a fault.
#[derive(Debug, Clone)]
pub(crate) struct FaultyDevice {
    pub(crate) inner: Scripted,
    pub(crate) fault: Option<GroundFault>,
}

impl Model for FaultyDevice {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.inner.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        let mut moves = moves.clone();
        match self.fault {
            Some(GroundFault::CopyIsLost) => moves.copies.clear(),
            Some(GroundFault::SwapIsLost) => moves.swap_in.clear(),
            _ => {}
        }
        self.inner.copy(&moves)
    }

    fn load_adapter(&mut self, adapter: &Adapter, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        self.inner.load_adapter(adapter, weights)
    }

    fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        self.inner.load_weights(weights)
    }

    fn sleep(&mut self) -> Result<(), ModelError> {
        self.inner.sleep()
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let ticket = self.submit(batch)?;
        self.wait(ticket)
    }

    fn overlaps(&self) -> bool {
        self.inner.overlaps()
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        if self.fault != Some(GroundFault::AdapterIsIgnored) {
            return self.inner.submit(batch);
        }
        let mut batch = batch.clone();
        batch.adapters.fill(None);
        self.inner.submit(&batch)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        let mut answers = self.inner.wait(ticket)?;
        if self.fault == Some(GroundFault::AnswersAreMixed) {
            answers.reverse();
        }
        Ok(answers)
    }
}
