//! Graphs: work that is captured once and then launched repeatedly as a whole.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::api::memory::{Access, Allocation};
use crate::api::stream::Stream;
use crate::backend::{BackendFunction, BackendGraph, CaptureId, Pace};
use crate::{Error, ErrorKind};

/// Launches, copies within the device and fills that [`Stream::capture`] captured. It keeps their
/// buffers allocated and their kernels loaded.
///
/// A graph may be moved to another thread, launched from several and dropped on any (`Send` and
/// `Sync`): the driver's handles belong to no thread, and since the driver does not lock a graph
/// itself, its launches take a lock here. Launches from several threads come one after the other,
/// as they go to one stream.
pub struct Graph {
    stream: Stream,
    imp: Box<dyn BackendGraph>,
    held: Held,
}

impl Graph {
    /// Enqueues the graph on the stream that it was captured on, after earlier uses of its buffers
    /// on other streams.
    ///
    /// The graph holds its buffers without a borrow, so threads that launch graphs and use the same
    /// buffers at the same time have to agree on the order themselves.
    ///
    /// # Errors
    /// [`ErrorKind::NotCapturable`] while the stream is being captured; what the driver reports; on
    /// the virtual GPU, where the work is done when the call returns, also those of the launches.
    pub fn launch(&self) -> Result<(), Error> {
        self.stream.not_captured("a graph")?;
        for (memory, access) in &self.held.memory {
            memory.order(self.stream.imp(), *access)?;
        }
        let entered = self.stream.imp().gate().enter()?;
        entered.not_captured("a graph")?;
        self.imp.launch()?;
        self.held.groups.iter().for_each(|(group, rank)| group.launched(*rank));
        Ok(())
    }

    /// The stream on which the graph was captured.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:?} on {:?})", self.imp, self.stream)
    }
}

/// Capturing.
impl Stream {
    /// Captures the work that `work` enqueues on this stream into a graph, instead of running it.
    /// Each launch of the graph repeats it with the same buffers, whose contents may differ each
    /// time.
    ///
    /// # What goes into the graph
    /// Launches, copies within the device and fills that the calling thread gives to this stream.
    /// Host copies, events, waits and memory of cudarc cannot be captured: they are refused, and
    /// the capture goes on. Buffers that `work` allocates are allocated at once and keep their
    /// address in the graph; kernels are built and loaded at once; what `work` does on other
    /// streams is done at once. [Borrowed](crate::Buffer::from_raw) memory must stay allocated as
    /// long as the graph.
    ///
    /// # What other threads may do
    /// Everything that does not use this stream, or a buffer that the graph uses: build and load
    /// kernels, allocate and free, copy, launch, synchronise streams, events and the device,
    /// capture other streams. None of it ends up in the graph, and none of it makes the driver give
    /// up the capture: a wait for the device leaves out what is being captured. The stream itself
    /// belongs to the calling thread while `work` runs; others that use it get
    /// [`ErrorKind::NotCapturable`], as does the use of a buffer on another stream that would have
    /// to wait for one in the graph. Reading a buffer that the graph only reads is allowed.
    ///
    /// On CUDA the capture is in relaxed mode, so that the driver forbids neither this thread nor
    /// others anything. Other users of the driver in this process must not capture in global mode,
    /// which forbids calls of every thread, and must not call `cuCtxSynchronize` meanwhile.
    ///
    /// ```
    /// use warpfold_device::{Device, Error, LaunchConfig};
    /// use warpfold_lang::{Global, kernel, thread_idx};
    ///
    /// let double = kernel("double", |x: Global<f32>| {
    ///     let item = x.at(thread_idx().x);
    ///     item.set(item.get() * 2.0);
    /// });
    /// let device = Device::best();
    /// let stream = device.new_stream()?;
    /// let mut x = device.upload(&[1.0_f32; 32])?;
    /// let (graph, ()) = stream.capture(|| stream.launch(&double, LaunchConfig::new(1, 32), (&mut x,)))?;
    /// (0..3).try_for_each(|_| graph.launch())?;
    /// assert_eq!(x.download()?, [8.0; 32]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`; [`ErrorKind::NotCapturable`] for the default stream, for a stream that
    /// synchronises with it, for one that is being captured already and for what cannot be
    /// captured; what the driver reports.
    pub fn capture<R, E: From<Error>>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<(Graph, R), E> {
        if Arc::ptr_eq(self.imp(), &self.device().backend().default_stream()) {
            return Err(Error::from(ErrorKind::NotCapturable("work of the default stream")).into());
        }
        self.device().catch_up()?;
        let capturing = Capturing { stream: self, id: self.imp().gate().begin(&**self.imp())? };
        let result = work();
        let graph = capturing.end();
        let result = result?;
        Ok((graph?, result))
    }

    /// Refuses an operation that a graph cannot hold during a capture.
    pub(crate) fn not_captured(&self, what: &'static str) -> Result<(), Error> {
        self.imp().gate().enter()?.not_captured(what)
    }
}

/// A stream being captured; the capture ends even if `work` panics.
struct Capturing<'a> {
    stream: &'a Stream,
    id: CaptureId,
}

impl Capturing<'_> {
    fn end(self) -> Result<Graph, Error> {
        let graph = self.graph();
        std::mem::forget(self);
        graph
    }

    fn graph(&self) -> Result<Graph, Error> {
        let stream = self.stream.clone();
        let imp = stream.imp().gate().end(&**stream.imp());
        let held = Held::take(self.id);
        Ok(Graph { imp: imp?, stream, held })
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let _ = self.graph();
    }
}

/// Resources of a graph: its memory, in the order of the first uses, its kernels, and the groups of
/// devices that it launches for, with the rank in each.
#[derive(Debug, Default)]
pub(crate) struct Held {
    memory: Vec<(Arc<Allocation>, Access)>,
    functions: Vec<Arc<dyn BackendFunction>>,
    groups: Vec<(Arc<Pace>, usize)>,
}

thread_local! {
    /// Resources held by the captures of this thread.
    static HELD: RefCell<Vec<(CaptureId, Held)>> = const { RefCell::new(Vec::new()) };
}

impl Held {
    /// Keeps memory whose use went into a capture of this thread.
    pub(crate) fn keep(capture: Option<CaptureId>, memory: &Arc<Allocation>, access: Access) {
        Self::change(capture, |held| held.memory.push((memory.clone(), access)));
    }

    /// Keeps a kernel whose launch goes into a capture of this thread.
    pub(crate) fn keep_function(capture: Option<CaptureId>, function: &Arc<dyn BackendFunction>) {
        Self::change(capture, |held| held.functions.push(function.clone()));
    }

    /// Keeps a group of devices, a launch of which goes into a capture of this thread.
    pub(crate) fn keep_group(capture: Option<CaptureId>, group: &Arc<Pace>, rank: usize) {
        Self::change(capture, |held| {
            if !held.groups.iter().any(|(known, _)| Arc::ptr_eq(known, group)) {
                held.groups.push((group.clone(), rank));
            }
        });
    }

    fn change(capture: Option<CaptureId>, change: impl FnOnce(&mut Self)) {
        let Some(capture) = capture else { return };
        HELD.with_borrow_mut(|all| {
            let index = all.iter().position(|(id, _)| *id == capture).unwrap_or_else(|| {
                all.push((capture, Self::default()));
                all.len() - 1
            });
            change(&mut all[index].1);
        });
    }

    /// Takes the resources of a capture that has ended.
    fn take(capture: CaptureId) -> Self {
        let held = HELD.with_borrow_mut(|all| {
            let index = all.iter().position(|(id, _)| *id == capture)?;
            Some(all.swap_remove(index).1)
        });
        held.unwrap_or_default().once()
    }

    /// Each memory once: a launch orders the graph as a whole, and a graph may have thousands of
    /// uses of a few hundred buffers.
    fn once(self) -> Self {
        let mut places: HashMap<*const Allocation, usize> = HashMap::new();
        let mut memory: Vec<(Arc<Allocation>, Access)> = Vec::new();
        for (used, access) in self.memory {
            match places.get(&Arc::as_ptr(&used)) {
                None => {
                    places.insert(Arc::as_ptr(&used), memory.len());
                    memory.push((used, access));
                }
                Some(place) if access == Access::Write => memory[*place].1 = Access::Write,
                Some(_) => {}
            }
        }
        let mut functions = self.functions;
        functions.sort_by_key(|function| Arc::as_ptr(function).cast::<()>());
        functions.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Self { memory, functions, groups: self.groups }
    }
}
