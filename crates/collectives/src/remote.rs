//! Ranks in separate processes: NCCL between GPUs; between virtual GPUs, bytes through the
//! processes' connections.
//!
//! Both gather the items of all ranks on each rank, where one kernel combines them in the order of
//! ranks. So a monoid has the same bits as over peer memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpfold_device::{Buffer, Device, Nccl, NcclCommunicator, Stream, View, ViewMut};

use crate::channel::{Input, Operands, combine_gathered};
use crate::environment::Launch;
use crate::kernels::What;
use crate::mesh::Mesh;
use crate::{Error, ErrorKind};

/// Interval at which a rank that waits for NCCL checks for processes that ended.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) device: Device,
    pub(crate) mesh: Arc<Mesh>,
    pub(crate) nccl: Option<NcclCommunicator>,
}

/// A collective, or one of a pair.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    All(What),
    Send(usize),
    Receive(usize),
}

impl Work {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::All(what) => What::NAMES[what.index()],
            Self::Send(_) => "send",
            Self::Receive(_) => "receive",
        }
    }

    /// Tag that the ranks compare before they trust each other's bytes.
    fn tag(&self, bytes: usize) -> u64 {
        let kind: u64 = match self {
            Self::All(What::AllReduce(_)) => 1,
            Self::All(What::ReduceScatter(_)) => 2,
            Self::All(What::AllGather(_)) => 3,
            Self::All(What::Broadcast(..)) => 4,
            Self::Send(_) | Self::Receive(_) => 5,
            Self::All(What::SumParts(_)) => 7,
        };
        kind << 56 | bytes as u64
    }
}

impl Remote {
    /// Meets the other processes.
    pub(crate) fn connect(device: Device, launch: &Launch, places: &[std::path::PathBuf]) -> Result<Self, Error> {
        let nccl = if device.is_virtual() { None } else { Some(Nccl::load(places)?) };
        let mesh = Arc::new(Mesh::connect(launch)?);
        let join = |nccl: Nccl| -> Result<NcclCommunicator, Error> {
            let id = if mesh.rank == 0 { nccl.new_id()?.to_vec() } else { Vec::new() };
            let all = mesh.exchange(6 << 56, |_| (mesh.rank == 0).then_some(&*id), |from| from == 0)?;
            let id = if mesh.rank == 0 { id } else { all[0].clone() };
            let id = id.try_into().map_err(|_| ErrorKind::Rendezvous {
                address: launch.address.clone(),
                problem: "rank 0 sent no NCCL id".to_owned(),
            })?;
            let (start, others) = (Instant::now(), mesh.clone());
            let patience = move |waited: Duration| waited < others.patience && others.check().is_ok();
            let joined = nccl.join(&device, &id, mesh.rank, mesh.size, Some(Box::new(patience)));
            joined.map_err(|e| why(&mesh, start, e))
        };
        let nccl = nccl.map(join).transpose()?;
        Ok(Self { device, mesh, nccl })
    }

    /// Runs a collective on `count` elements.
    pub(crate) fn run(&self, stream: &Stream, work: &Work, operands: Operands<'_>, count: usize) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let Operands { input, output, .. } = operands;
        let combine = match work {
            Work::All(What::AllReduce(combine) | What::ReduceScatter(combine)) => combine,
            // Refused before it comes here.
            Work::All(What::SumParts(_)) => {
                return Err(ErrorKind::Unsupported { what: "a sum of parts", transport: "between processes" }.into());
            }
            Work::All(What::AllGather(_) | What::Broadcast(..)) | Work::Send(_) | Work::Receive(_) => {
                // What goes out of a broadcast's root lies where the others take it in.
                let own = if let Input::View(view) = input { Some(view) } else { None };
                return self.bring(stream, work, own, output);
            }
        };
        let bytes = count * combine.item().bytes() as usize;
        let mut gathered: Buffer<u8> = self.device.alloc_named("gathered", bytes * self.mesh.size)?;
        let Some(output) = output else { return Ok(()) };
        let own = if let Input::View(view) = input { view } else { output.as_view() };
        self.bring(stream, work, Some(own), Some(gathered.as_view_mut()))?;
        combine_gathered(stream, combine, self.mesh.size, &gathered, output, count)
    }

    /// Brings what a rank needs from the others to `output`.
    fn bring(
        &self,
        stream: &Stream,
        work: &Work,
        own: Option<View<'_, u8>>,
        output: Option<ViewMut<'_, u8>>,
    ) -> Result<(), Error> {
        match &self.nccl {
            Some(nccl) => {
                let start = Instant::now();
                with_nccl(nccl, stream, work, own, output).map_err(|e| why(&self.mesh, start, e))
            }
            None => self.with_host(stream, work, own, output),
        }
    }

    fn with_host(
        &self,
        stream: &Stream,
        work: &Work,
        own: Option<View<'_, u8>>,
        mut output: Option<ViewMut<'_, u8>>,
    ) -> Result<(), Error> {
        let (rank, size) = (self.mesh.rank, self.mesh.size);
        let is_root = matches!(work, Work::All(What::Broadcast(_, root)) if *root == rank);
        let bytes = own.as_ref().map_or_else(|| output.as_ref().map_or(0, ViewMut::len), View::len);
        let mut data = vec![0; if own.is_some() || is_root { bytes } else { 0 }];
        match (&own, &output) {
            (Some(own), _) => stream.copy_to_host(own.clone(), &mut data)?,
            (None, Some(output)) if is_root => stream.copy_to_host(output.as_view(), &mut data)?,
            (None, _) => {}
        }
        let tag = work.tag(bytes);
        let part = |of: usize| &data[of * (data.len() / size)..(of + 1) * (data.len() / size)];
        let all = match work {
            Work::All(What::AllReduce(_) | What::AllGather(_)) => {
                self.mesh.exchange(tag, |_| Some(&*data), |_| true)?
            }
            Work::All(What::ReduceScatter(_)) => self.mesh.exchange(tag, |to| Some(part(to)), |_| true)?,
            Work::All(What::Broadcast(_, root)) => {
                self.mesh.exchange(tag, |_| (rank == *root).then_some(&*data), |from| from == *root)?
            }
            Work::All(What::SumParts(_)) => Vec::new(),
            Work::Send(to) => self.mesh.exchange(tag, |other| (other == *to).then_some(&*data), |_| false)?,
            Work::Receive(from) => self.mesh.exchange(tag, |_| None, |other| other == *from)?,
        };
        let Some(output) = &mut output else { return Ok(()) };
        let mut at = 0;
        let mine = |of: usize| match work {
            Work::All(What::ReduceScatter(_)) if of == rank => part(of),
            Work::All(What::AllReduce(_) | What::AllGather(_)) if of == rank => &*data,
            _ => &*all[of],
        };
        for piece in (0..size).map(mine).filter(|piece| !piece.is_empty()) {
            stream.copy_from_host(output.reborrow().slice(at..at + piece.len())?, piece)?;
            at += piece.len();
        }
        Ok(())
    }

    /// Waits for a stream, as long as every process is there.
    pub(crate) fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        let Some(nccl) = &self.nccl else { return Ok(stream.synchronize()?) };
        let (reached, start) = (stream.record()?, Instant::now());
        while !reached.is_complete()? {
            self.mesh.check()?;
            nccl.check().map_err(|e| why(&self.mesh, start, e))?;
            if start.elapsed() >= self.mesh.patience {
                return Err(late(&self.mesh));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// The failure behind an error of NCCL: a process that is gone, or that did not come in time.
fn why(mesh: &Mesh, start: Instant, error: warpfold_device::Error) -> Error {
    match mesh.check() {
        Err(failure) => failure,
        Ok(()) if start.elapsed() >= mesh.patience => late(mesh),
        Ok(()) => error.into(),
    }
}

fn late(mesh: &Mesh) -> Error {
    let missing = (0..mesh.size).filter(|&rank| rank != mesh.rank).collect();
    ErrorKind::RanksLate { waited: mesh.patience, missing, during: None }.into()
}

fn with_nccl(
    nccl: &NcclCommunicator,
    stream: &Stream,
    work: &Work,
    own: Option<View<'_, u8>>,
    output: Option<ViewMut<'_, u8>>,
) -> Result<(), warpfold_device::Error> {
    match (work, &own, &output) {
        (Work::All(What::AllReduce(_) | What::AllGather(_)), Some(own), Some(output)) => {
            nccl.all_gather(stream, own, output)
        }
        (Work::All(What::ReduceScatter(_)), Some(own), Some(output)) => nccl.exchange(stream, own, output),
        (Work::All(What::Broadcast(_, root)), _, Some(output)) => nccl.broadcast(stream, *root, output),
        (Work::Send(to), Some(own), _) => nccl.send(stream, *to, own),
        (Work::Receive(from), _, Some(output)) => nccl.receive(stream, *from, output),
        (Work::All(_) | Work::Send(_) | Work::Receive(_), ..) => unreachable!("a collective has its operands"),
    }
}
