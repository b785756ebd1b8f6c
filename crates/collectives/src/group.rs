//! Groups of devices in one process: one rank and one thread per device.

use std::sync::Arc;
use std::time::Duration;

use warpfold_device::{Device, Profile};

use crate::channel::PeerOptions;
use crate::hall::Hall;
use crate::{Communicator, Error, ErrorKind};

/// Timeout of a rank that waits for the others.
const PATIENCE: Duration = Duration::from_secs(60);

/// Devices of this process that form a group.
///
/// ```
/// use warpfold_collectives::{Error, Group, Reduce};
///
/// let group = Group::virtual_gpus(2)?;
/// let sums = group.run(|rank| -> Result<Vec<f32>, Error> {
///     let (device, stream) = (rank.device(), rank.device().default_stream());
///     let mine = device.upload(&[rank.rank() as f32 + 1.0; 4])?;
///     let mut sum = device.alloc::<f32>(4)?;
///     rank.all_reduce(&stream, Reduce::Sum, &mine, &mut sum)?;
///     Ok(sum.download()?)
/// })?;
/// assert_eq!(sums, [[3.0; 4], [3.0; 4]]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Group {
    devices: Vec<Device>,
    options: Option<PeerOptions>,
    patience: Duration,
    is_late: bool,
}

impl Group {
    /// Makes a group of these devices in the order of ranks.
    ///
    /// # Errors
    /// [`ErrorKind::GroupSize`] for none.
    pub fn new(devices: Vec<Device>) -> Result<Self, Error> {
        if devices.is_empty() {
            return Err(ErrorKind::GroupSize { found: 0, most: crate::MAX_RANKS }.into());
        }
        Ok(Self { devices, options: None, patience: PATIENCE, is_late: false })
    }

    /// Makes a group of virtual GPUs, which simulate H200s with peer access.
    ///
    /// # Errors
    /// [`ErrorKind::GroupSize`].
    pub fn virtual_gpus(count: usize) -> Result<Self, Error> {
        Self::new(Device::virtual_peers(Profile::H200, count))
    }

    /// Sets the options for peer memory.
    #[must_use]
    pub fn with_options(mut self, options: PeerOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Sets the timeout of a rank that waits for the others.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Makes launches return before the other ranks have come, on virtual GPUs too; see
    /// [`PeerGroup::with_late_launches`](warpfold_device::PeerGroup::with_late_launches).
    #[must_use]
    pub fn with_late_launches(mut self) -> Self {
        self.is_late = true;
        self
    }

    /// The devices in the order of ranks.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns the communicators in the order of ranks, for the caller's own threads.
    ///
    /// # Errors
    /// [`ErrorKind::GroupSize`]; devices without peer access.
    pub fn communicators(&self) -> Result<Vec<Communicator>, Error> {
        let hall = self.hall()?;
        Ok((0..self.devices.len()).map(|rank| Communicator::new(rank, hall.clone())).collect())
    }

    fn hall(&self) -> Result<Arc<Hall>, Error> {
        let options = self.options.unwrap_or_else(|| PeerOptions::of(&self.devices[0]));
        Ok(Arc::new(Hall::new(self.devices.clone(), options, self.patience, self.is_late)?))
    }

    /// Runs `work` on one thread per rank, waits for the devices, and returns the results in the
    /// order of ranks.
    ///
    /// # Errors
    /// That of the rank that failed first; [`ErrorKind::RankFailed`] if it panicked.
    pub fn run<R: Send, E: From<Error> + std::fmt::Display + Send>(
        &self,
        work: impl Fn(&Communicator) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let hall = self.hall()?;
        let communicators: Vec<_> = (0..self.devices.len()).map(|rank| Communicator::new(rank, hall.clone())).collect();
        let work = &work;
        let mut results: Vec<Option<Result<R, E>>> = std::thread::scope(|scope| {
            let run = |communicator: Communicator| {
                scope.spawn(move || {
                    let result =
                        work(&communicator).and_then(|value| communicator.finish().map(|()| value).map_err(E::from));
                    if let Err(error) = &result {
                        communicator.fail(&error.to_string());
                    }
                    result
                })
            };
            let threads: Vec<_> = communicators.into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().ok()).collect()
        });
        if let Some(rank) = hall.first_failure() {
            let panicked = || Error::from(ErrorKind::RankFailed { rank, reason: "it panicked".to_owned() }).into();
            return Err(results.swap_remove(rank).and_then(Result::err).unwrap_or_else(panicked));
        }
        results.into_iter().flatten().collect()
    }
}
