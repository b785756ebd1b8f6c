//! Graphs: work that is noted once and then launched as a whole, as often as wanted.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{BackendFunction, BackendGraph};
use crate::memory::{Access, Allocation, Released};
use crate::stream::Stream;
use crate::{Error, ErrorKind};

/// Launches, copies within the device and fills that [`Stream::capture`] noted. It keeps their buffers and kernels.
pub struct Graph {
    stream: Stream,
    imp: Box<dyn BackendGraph>,
    noted: Noted,
}

impl Graph {
    /// Enqueues all of it on the stream that it was captured on, behind what other streams do with its buffers.
    ///
    /// # Errors
    /// What the driver says; on the virtual GPU, where it is done when the call returns, also those of the launches.
    pub fn launch(&self) -> Result<(), Error> {
        self.stream.not_captured("a graph")?;
        for (memory, access) in &self.noted.memory {
            memory.order(self.stream.imp(), *access)?;
        }
        self.imp.launch()
    }

    /// The stream that it was captured on.
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
    /// Notes what `work` gives to this stream, in place of doing it, as a graph. Whoever launches the graph does all of it
    /// again with the same buffers, whose contents may be others each time.
    ///
    /// Buffers that `work` allocates are there at once and stay where they are; what it does on other streams is done and
    /// not noted. Copies from and to the host, events and waits cannot be noted, and nobody else may use the stream
    /// meanwhile, nor may other streams use memory that the graph uses. Memory that is [lent](crate::Buffer::from_raw) must be
    /// there for as long as the graph. Of a CUDA device other threads should ask nothing meanwhile: some of it, such as waiting for all of
    /// the device, makes the driver give up what is being captured, which is an error then.
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
    /// Those of `work`; [`ErrorKind::NotCapturable`] for the default stream, for one that is being captured already and for what
    /// cannot be noted; what the driver says.
    pub fn capture<R, E: From<Error>>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<(Graph, R), E> {
        if Arc::ptr_eq(self.imp(), &self.device().backend().default_stream()) {
            return Err(Error::from(ErrorKind::NotCapturable("what the default stream is given")).into());
        }
        self.imp().capture().begin()?;
        if let Err(e) = self.imp().begin_capture() {
            let _ = self.released();
            return Err(e.into());
        }
        let capturing = Capturing(self);
        let result = work();
        let graph = capturing.end();
        let result = result?;
        Ok((graph?, result))
    }

    /// Ends the noting, frees what waited for that, and gives what the graph needs.
    fn released(&self) -> Noted {
        let mut noted = self.imp().capture().lock().take().unwrap_or_default();
        noted.freed.drain(..).for_each(|memory| memory.free(self.device()));
        noted
    }

    /// Refuses what a graph cannot hold while there is one to hold it.
    pub(crate) fn not_captured(&self, what: &'static str) -> Result<(), Error> {
        if self.imp().capture().is_on() { Err(ErrorKind::NotCapturable(what).into()) } else { Ok(()) }
    }
}

/// A stream while it notes; it stops even if what it is given panics.
struct Capturing<'a>(&'a Stream);

impl Capturing<'_> {
    fn end(self) -> Result<Graph, Error> {
        let stream = self.0.clone();
        std::mem::forget(self);
        end(stream)
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let _ = end(self.0.clone());
    }
}

fn end(stream: Stream) -> Result<Graph, Error> {
    let imp = stream.imp().end_capture();
    let noted = stream.released();
    Ok(Graph { imp: imp?, stream, noted })
}

/// What a stream holds on to for the graph that it notes.
#[derive(Debug, Default)]
pub(crate) struct Capture(Mutex<Option<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    memory: Vec<(Arc<Allocation>, Access)>,
    /// Kernels stay loaded with it.
    functions: Vec<Arc<dyn BackendFunction>>,
    /// Memory that the stream may still be using: freed once it takes work again.
    freed: Vec<Released>,
}

impl Capture {
    fn lock(&self) -> MutexGuard<'_, Option<Noted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.lock().is_some()
    }

    /// From here on work is noted, unless it is already.
    fn begin(&self) -> Result<(), Error> {
        match &mut *self.lock() {
            Some(_) => Err(ErrorKind::NotCapturable("a capture").into()),
            noted => {
                *noted = Some(Noted::default());
                Ok(())
            }
        }
    }

    /// Keeps memory if it goes into a graph, and answers whether it does.
    pub(crate) fn hold(&self, memory: &Arc<Allocation>, access: Access) -> bool {
        let mut noted = self.lock();
        if let Some(noted) = &mut *noted {
            noted.memory.push((memory.clone(), access));
        }
        noted.is_some()
    }

    pub(crate) fn hold_function(&self, function: &Arc<dyn BackendFunction>) {
        if let Some(noted) = &mut *self.lock() {
            noted.functions.push(function.clone());
        }
    }

    /// Takes memory to be freed later, or gives it back where nothing is captured.
    pub(crate) fn free_later(&self, memory: Released) -> Result<(), Released> {
        match &mut *self.lock() {
            Some(noted) => {
                noted.freed.push(memory);
                Ok(())
            }
            None => Err(memory),
        }
    }
}
