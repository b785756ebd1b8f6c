//! Between host and device: the same work on a vector of the host, from the first copy that comes
//! to mind to copies that run while kernels do.
//!
//! Each rung brings a vector to the device, computes on it, and brings the result back. What it
//! does is recorded as it is issued ([`Event`]): on a GPU with times, on the virtual GPU, which
//! does everything in the order of the calls, with order and bytes.

mod rungs;
mod timeline;

use std::time::Duration;

use warpfold_device::{Buffer, Device, HostBuffer, LaunchConfig, MappedBuffer, Stream};
use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

use crate::{Error, ErrorKind};

pub use rungs::RUNGS;
pub use timeline::timeline;

/// Name on the command line.
pub const NAME: &str = "transfer";

/// The problem in a sentence.
pub const PROBLEM: &str = "copies between host and device, from plain to overlapped";

/// Parts that the vector is processed in where copies overlap with kernels.
const CHUNKS: usize = 4;

/// One way.
#[derive(Debug)]
pub struct Rung {
    /// The field's name: `pinned`.
    pub name: &'static str,
    /// The change from the previous rung.
    pub changed: &'static str,
    way: fn(&mut Instance) -> Result<(), Error>,
}

/// The rung of this name.
///
/// # Errors
/// [`ErrorKind::UnknownRung`].
pub fn rung(name: &str) -> Result<&'static Rung, Error> {
    RUNGS.iter().find(|rung| rung.name == name).ok_or_else(|| {
        let known = RUNGS.iter().map(|rung| rung.name).collect::<Vec<_>>().join(", ");
        ErrorKind::UnknownRung { ladder: NAME, name: name.to_owned(), known }.into()
    })
}

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A copy to the device.
    ToDevice,
    /// A kernel.
    Kernel,
    /// A copy to the host.
    ToHost,
    /// A launch of a graph.
    Graph,
}

/// Something that a rung gave to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Kind of work.
    pub what: What,
    /// On which of its streams.
    pub stream: usize,
    /// Index of the part of the vector.
    pub chunk: usize,
    /// Bytes that crossed the bus by a copy, or by a kernel in mapped memory.
    pub bytes: u64,
    /// The host waits for its end before it issues anything else.
    pub is_waited_for: bool,
    /// Begin and end, since the first one began; `None` on the virtual GPU.
    pub time: Option<(Duration, Duration)>,
}

/// Work of a rung, in the order of its calls, and its correctness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Work submitted to streams.
    pub events: Vec<Event>,
    /// The result equals that of the host.
    pub is_right: bool,
}

impl Trace {
    /// Bytes that crossed the bus, to the device and to the host.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.events.iter().map(|event| event.bytes).sum()
    }

    /// From the first beginning to the last end; `None` on the virtual GPU.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.events.iter().map(|event| event.time.map(|(_, end)| end)).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The step in which each operation can run at the earliest, if all take equally long: after
    /// what was issued before it on its stream, after what its engine was given before (one copies
    /// to the device, one to the host, one runs kernels), and after what the host has waited for.
    #[must_use]
    pub fn steps(&self) -> Vec<usize> {
        let (mut streams, mut engines, mut host) = ([0; 2], [0; 3], 0);
        let step = |event: &Event| {
            let engine = match event.what {
                What::ToDevice => 0,
                What::Kernel | What::Graph => 1,
                What::ToHost => 2,
            };
            let step = host.max(streams[event.stream]).max(engines[engine]);
            (streams[event.stream], engines[engine]) = (step + 1, step + 1);
            if event.is_waited_for {
                host = step + 1;
            }
            step
        };
        self.events.iter().map(step).collect()
    }

    /// Returns whether a copy ran while a kernel did: by the clock on a GPU, by [`Trace::steps`] on
    /// the virtual one, which has none.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        let steps = self.steps();
        let span = |at: usize| match self.events[at].time {
            Some((start, end)) => (start, end),
            None => (Duration::from_secs(steps[at] as u64), Duration::from_secs(steps[at] as u64 + 1)),
        };
        let of_kind = |kernels| {
            (0..self.events.len()).filter(move |at| (self.events[*at].what == What::Kernel) == kernels).map(span)
        };
        of_kind(true).any(|kernel| of_kind(false).any(|copy| kernel.0 < copy.1 && copy.0 < kernel.1))
    }
}

/// The points around an operation.
type Span = (warpfold_device::Event, warpfold_device::Event);

/// A vector on the host, and room for it on the device.
#[derive(Debug)]
pub struct Instance {
    device: Device,
    streams: [Stream; 2],
    input: Vec<f32>,
    output: Vec<f32>,
    pinned_in: HostBuffer<f32>,
    pinned_out: HostBuffer<f32>,
    mapped: MappedBuffer<f32>,
    data: Vec<Buffer<f32>>,
    work: Kernel<(Global<f32>, u32)>,
    events: Vec<(Event, Option<Span>)>,
}

impl Instance {
    /// A vector of `len` elements, a multiple of 4.
    ///
    /// # Errors
    /// [`ErrorKind::BadSize`]; out of memory.
    pub fn open(device: &Device, len: usize) -> Result<Self, Error> {
        if len == 0 || !len.is_multiple_of(CHUNKS) || len > 1 << 30 {
            let expected = "a multiple of 4 elements, up to 2^30";
            return Err(ErrorKind::BadSize { text: len.to_string(), expected }.into());
        }
        let input: Vec<f32> = (0..len).map(|i| (i % 1000) as f32 / 1000.0).collect();
        let mut pinned_in = device.host_buffer::<f32>(len)?;
        pinned_in.as_mut_slice()?.copy_from_slice(&input);
        let work = kernel("work", |data: Global<f32>, len: Val<u32>| {
            let i = block_idx().x * block_dim().x + thread_idx().x;
            when(i.lt(len), || {
                let mut x = data.at(i).get();
                for _ in 0..ROUNDS {
                    x = x * 0.5 + 0.25;
                }
                data.at(i).set(x);
            });
        });
        Ok(Self {
            streams: [device.new_stream()?, device.new_stream()?],
            output: vec![0.0; len],
            pinned_in,
            pinned_out: device.host_buffer(len)?,
            mapped: MappedBuffer::new(device, &input)?,
            data: (0..CHUNKS).map(|_| device.alloc(len / CHUNKS)).collect::<Result<_, _>>()?,
            device: device.clone(),
            input,
            work,
            events: Vec::new(),
        })
    }

    /// Runs a rung, and looks at what came out.
    ///
    /// # Errors
    /// What the device says.
    pub fn run(&mut self, rung: &Rung) -> Result<Trace, Error> {
        self.output.fill(0.0);
        self.pinned_out.as_mut_slice()?.fill(0.0);
        self.mapped = MappedBuffer::new(&self.device, &self.input)?;
        // What is built and loaded at the first launch is no part of the rung.
        self.device.prepare(&self.work)?;
        self.device.synchronize()?;
        self.events.clear();
        (rung.way)(self)?;
        self.device.synchronize()?;
        let round = |x: f32| x * 0.5 + 0.25;
        let expected = |x: &f32| (0..ROUNDS).fold(*x, |x, _| round(x));
        let is_right = self.input.iter().map(expected).zip(&self.output).all(|(a, b)| (a - b).abs() <= 1e-6);
        let events = std::mem::take(&mut self.events);
        let first = events.iter().find_map(|(_, span)| span.as_ref()).map(|(start, _)| start);
        let timed = |(event, span): &(Event, Option<Span>)| -> Result<Event, Error> {
            let (Some(first), Some((start, end))) = (first, span) else { return Ok(event.clone()) };
            let time = start.elapsed_since(first)?.zip(end.elapsed_since(first)?);
            Ok(Event { time, ..event.clone() })
        };
        Ok(Trace { events: events.iter().map(timed).collect::<Result<_, _>>()?, is_right })
    }

    fn chunk(&self, index: usize) -> std::ops::Range<usize> {
        let len = self.input.len() / CHUNKS;
        index * len..(index + 1) * len
    }

    /// Does something on a stream, and notes it.
    fn note(
        &mut self,
        (what, stream, chunk): (What, usize, usize),
        bytes: usize,
        work: impl FnOnce(&mut Self, &Stream) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let on = self.streams[stream].clone();
        let start = if self.device.is_virtual() { None } else { Some(on.record()?) };
        work(self, &on)?;
        let span = start.map(|start| -> Result<Span, Error> { Ok((start, on.record()?)) }).transpose()?;
        let event = Event { what, stream, chunk, bytes: bytes as u64, is_waited_for: false, time: None };
        self.events.push((event, span));
        Ok(())
    }

    /// Notes that the host waits for what it issued last.
    fn wait(&mut self) {
        if let Some((event, _)) = self.events.last_mut() {
            event.is_waited_for = true;
        }
    }

    fn config(&self) -> LaunchConfig {
        LaunchConfig::for_elements(self.input.len() / CHUNKS, 256)
    }
}

/// Multiplications and additions of an element.
const ROUNDS: usize = 8;
