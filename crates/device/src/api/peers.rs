//! Peer devices: links, copies between devices, and launches over all of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::api::activity::ActivityKind;
use crate::api::arguments::Arguments;
use crate::api::buffer::{View, ViewMut};
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::graph::Held;
use crate::api::memory::Access;
use crate::api::module::Function;
use crate::api::stream::Stream;
use crate::backend::{CaptureId, LaunchConfig, LaunchSite, Link, Pace, Profile, launch};
use crate::virtual_gpu::{Together, VirtualGpu, VirtualStream};
use crate::{Error, ErrorKind};

/// Several devices.
impl Device {
    /// Creates virtual GPUs that share an address space, as GPUs with peer access do. Each has its
    /// own memory and checks.
    #[must_use]
    pub fn virtual_peers(profile: Profile, count: usize) -> Vec<Self> {
        let first = VirtualGpu::new(profile, profile.limits().memory_bytes);
        let others: Vec<_> = (1..count).map(|_| Self::from_backend(first.peer())).collect();
        let all = std::iter::once(Self::from_backend(first)).chain(others);
        all.take(count).collect()
    }

    /// Link by which kernels and copies of this device reach the memory of another.
    ///
    /// # Errors
    /// What the driver says.
    pub fn link_to(&self, other: &Self) -> Result<Link, Error> {
        self.backend().link(other.backend())
    }
}

/// Copies between devices.
impl Stream {
    /// Copies from a buffer of another device: directly with peer access, otherwise through the
    /// host by the driver. Not during a capture, on CUDA.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`]; [`ErrorKind::MixedDevices`] for devices of two kinds, and for
    /// virtual GPUs that are no [peers](Device::virtual_peers).
    pub fn copy_from_peer<'a, 'b, T: Element>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: impl Into<View<'b, T>>,
    ) -> Result<(), Error> {
        let (to, from) = (to.into(), from.into());
        if from.device() == to.device() {
            return self.copy(to, from);
        }
        let owner = from.device().clone();
        let is_reachable = match (self.device().is_virtual(), owner.is_virtual()) {
            (true, true) => self.device().link_to(&owner)?.has_peer_access(),
            (a, b) => a == b,
        };
        if !is_reachable {
            self.device().expect_same(&owner, || "the source".to_owned())?;
        }
        self.device().expect_same(to.device(), || "the destination".to_owned())?;
        let (expected, found) = (to.len(), from.len());
        if expected != found {
            return Err(ErrorKind::LengthMismatch { what: "copy between devices", expected, found }.into());
        }
        self.order(from.memory(), Access::Read)?;
        self.order(to.memory(), Access::Write)?;
        self.run(None, ActivityKind::DeviceToDevice, to.num_bytes(), |clock| {
            let from = (from.address(), owner.backend());
            self.imp().copy_from_peer(to.address(), from, to.num_bytes() as u64, clock)
        })
    }
}

/// A group of devices whose kernels access each other's memory; each device is a rank.
///
/// Kernels that wait for one another across devices must run at the same time. On CUDA they do when
/// each rank launches its part, each from a thread of its own: a rank that loads a kernel,
/// allocates memory or begins a capture first waits until its peers have launched what its device
/// waits for. On virtual GPUs [`PeerGroup::launch`] brings the parts together.
#[derive(Debug, Clone)]
pub struct PeerGroup {
    devices: Arc<[Device]>,
    /// The meeting point of the virtual GPUs' launches.
    meeting: Arc<Together>,
    /// Pacing of launches on CUDA GPUs.
    pace: Arc<Pace>,
}

impl PeerGroup {
    /// Makes a group of these devices in the order of ranks. `patience` is the timeout of a rank
    /// that waits for the others.
    ///
    /// # Errors
    /// [`ErrorKind::NoPeerAccess`] names the first pair without; what the driver says.
    pub fn new(devices: Vec<Device>, patience: Duration) -> Result<Self, Error> {
        for (a, b) in devices.iter().flat_map(|a| devices.iter().map(move |b| (a, b))) {
            let link = a.link_to(b)?;
            if !link.has_peer_access() {
                return Err(ErrorKind::NoPeerAccess { from: a.to_string(), to: b.to_string(), link }.into());
            }
            a.backend().enable_peer(b.backend())?;
        }
        Ok(Self::of_peers(devices, patience, None))
    }

    /// The same group, with launches on virtual GPUs that return before the peers have come, as on
    /// CUDA GPUs: the device is busy until then, and a call that loads or allocates meanwhile waits
    /// for it under a lock that the peers need, too. Shows the deadlock of a program that does not
    /// prevent this. No effect on CUDA GPUs.
    #[must_use]
    pub fn with_late_launches(self) -> Self {
        let (devices, patience) = (self.devices.to_vec(), self.pace.patience());
        Self::of_peers(devices, patience, Some(Arc::default()))
    }

    /// A group of some of these devices, by rank.
    #[must_use]
    pub fn subgroup(&self, ranks: &[usize]) -> Self {
        let devices = ranks.iter().map(|&rank| self.devices[rank].clone()).collect();
        Self::of_peers(devices, self.pace.patience(), self.meeting.driver().cloned())
    }

    fn of_peers(devices: Vec<Device>, patience: Duration, driver: Option<Arc<Mutex<()>>>) -> Self {
        let pace = Arc::new(Pace::new(devices.len(), patience));
        devices.iter().enumerate().for_each(|(rank, device)| device.join(&pace, rank));
        let meeting = Together::new(devices.len(), patience);
        let meeting = Arc::new(driver.into_iter().fold(meeting, Together::late));
        Self { devices: devices.into(), meeting, pace }
    }

    /// The devices in the order of ranks.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Removes a rank: later operations of the group fail with an [`ErrorKind::PeerLost`] that
    /// names it.
    pub fn leave(&self, rank: usize, reason: &str) {
        self.meeting.leave(rank, reason);
        self.pace.leave(rank, reason);
    }

    /// Fails if a rank has left the group.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] names the first.
    pub fn expect_all(&self) -> Result<(), Error> {
        self.meeting.expect_all()
    }

    /// Launches one rank's part of a kernel that every rank launches with the same sizes. On
    /// virtual GPUs it returns when all ranks have come and the kernel has run, on CUDA at once.
    ///
    /// # Errors
    /// Those of [`Stream::launch_raw`]; [`ErrorKind::PeerLost`], [`ErrorKind::PeersLate`],
    /// [`ErrorKind::PeersDisagree`].
    pub fn launch(
        &self,
        rank: usize,
        stream: &Stream,
        function: &Function,
        config: LaunchConfig,
        arguments: &Arguments<'_>,
    ) -> Result<(), Error> {
        self.meeting.expect_all()?;
        let any: &dyn std::any::Any = &**stream.imp();
        let Some(imp) = any.downcast_ref::<VirtualStream>() else {
            stream.launch_raw(function, config, arguments)?;
            self.count(rank, stream.imp().gate().enter()?.capture());
            return Ok(());
        };
        let (device, info, parameters) = (stream.device(), function.info(), arguments.parameters());
        device.expect_same(&self.devices[rank], || format!("the stream of rank {rank}"))?;
        device.expect_same(function.device(), || format!("kernel {}", info.name))?;
        launch::check(&config, info, device.limits())?;
        parameters
            .check(info)
            .map_err(|reason| ErrorKind::InvalidLaunch { site: LaunchSite::new(&info.name, &config), reason })?;
        for (memory, access) in arguments.memory() {
            stream.order(memory, *access)?;
        }
        let entered = stream.imp().gate().enter()?;
        Held::keep_function(entered.capture(), &function.prepared().imp);
        imp.launch_together(&*function.prepared().imp, &config, parameters, (&self.meeting, rank))?;
        if self.meeting.driver().is_some() {
            self.count(rank, entered.capture());
        }
        Ok(())
    }

    /// Counts a launch of a rank: now, or at each launch of the graph that contains it.
    fn count(&self, rank: usize, capture: Option<CaptureId>) {
        match capture {
            None => self.pace.launched(rank),
            Some(_) => Held::keep_group(capture, &self.pace, rank),
        }
    }
}
