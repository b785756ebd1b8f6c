//! Communicators: the collectives of one rank.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpfold::TensorElement;
use warpfold_device::{Device, Element, Graph, Stream, View, ViewMut};
use warpfold_kernels::Dtype;

use crate::channel::{Input, Operands};
use crate::environment::Launch;
use crate::hall::Hall;
use crate::kernels::What;
use crate::parts::PartSum;
use crate::remote::{Remote, Work};
use crate::{Combine, Error, ErrorKind, Reduce};

/// One rank of a group, with its device. The collectives are methods here; each rank calls the same
/// ones in the same order, with operands of the same lengths.
///
/// Work goes to a stream of the rank's device and is done there as kernels are: on CUDA the calls
/// return at once; on virtual GPUs when all ranks have come. It may be captured in graphs, which
/// all ranks then launch. When a rank fails or panics, what the others wait for is an error that
/// names it. A kernel that waits in vain gives up after the patience of the group, and what it
/// writes is of no use: [`Communicator::synchronize`] and [`Group::run`](crate::Group::run) then
/// fail.
///
/// Two groups whose ranks share a GPU and run at the same time must give their collectives to the
/// same stream of it in one order, as with NCCL: each waits for its peers there.
pub struct Communicator {
    rank: usize,
    ranks: Ranks,
    /// Collectives that were called.
    calls: AtomicU64,
}

/// Location of the other ranks.
enum Ranks {
    /// This process, with peer memory.
    Here(Arc<Hall>),
    /// Other processes.
    Elsewhere(Box<Remote>),
}

impl Communicator {
    pub(crate) fn new(rank: usize, hall: Arc<Hall>) -> Self {
        Self { rank, ranks: Ranks::Here(hall), calls: AtomicU64::new(0) }
    }

    /// Joins the other processes that a launcher started, with a device of this one. Between GPUs
    /// NCCL moves the data; it is searched at `nccl` first. Virtual GPUs use the connections of the
    /// processes, and do not support capture then.
    ///
    /// ```no_run
    /// use warpfold_collectives::{Communicator, Error, Launch};
    /// use warpfold_device::Device;
    ///
    /// let launch = Launch::from_env()?; // as torchrun and Slurm set it
    /// let rank = Communicator::join(Device::cuda(launch.local_rank)?, &launch, &[])?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Rendezvous`] if not all come;
    /// [`NoNccl`](warpfold_device::ErrorKind::NoNccl), where NCCL is needed.
    pub fn join(device: Device, launch: &Launch, nccl: &[PathBuf]) -> Result<Self, Error> {
        let remote = Remote::connect(device, launch, nccl)?;
        Ok(Self { rank: launch.rank, ranks: Ranks::Elsewhere(Box::new(remote)), calls: AtomicU64::new(0) })
    }

    /// The number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks of the group.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.ranks {
            Ranks::Here(hall) => hall.devices.len(),
            Ranks::Elsewhere(remote) => remote.mesh.size,
        }
    }

    /// The device of this rank.
    #[must_use]
    pub fn device(&self) -> &Device {
        match &self.ranks {
            Ranks::Here(hall) => &hall.devices[self.rank],
            Ranks::Elsewhere(remote) => &remote.device,
        }
    }

    /// Reports a failure of this rank to the others: their pending and later collectives return an
    /// error that names it.
    pub fn fail(&self, reason: &str) {
        match &self.ranks {
            Ranks::Here(hall) => hall.fail(self.rank, reason),
            Ranks::Elsewhere(remote) => remote.mesh.fail(self.rank, reason),
        }
    }

    /// Launches a graph with collectives, as all ranks do: like [`Graph::launch`], with errors in
    /// terms of the group.
    ///
    /// # Errors
    /// Those of [`Graph::launch`], and of a rank that failed.
    pub fn launch(&self, graph: &Graph) -> Result<(), Error> {
        graph.launch().map_err(|error| match &self.ranks {
            Ranks::Here(hall) => hall.explain_graph(error.into()),
            Ranks::Elsewhere(_) => error.into(),
        })
    }

    /// Waits for the device of a rank whose work has ended, to report a collective that timed out.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        if !self.device().is_virtual() {
            self.device().synchronize()?;
        }
        self.expect_none_lost()
    }

    /// Fails if a collective of any rank has timed out waiting for another one so far. Does not
    /// wait: on GPUs the kernels report it in host memory.
    ///
    /// # Errors
    /// [`ErrorKind::RankFailed`] names the rank that did not come, and the exchange.
    pub fn expect_none_lost(&self) -> Result<(), Error> {
        match &self.ranks {
            Ranks::Here(hall) => hall.expect_none_lost(),
            Ranks::Elsewhere(_) => Ok(()),
        }
    }

    /// Waits for a stream of this rank, and fails if a collective on it timed out waiting for
    /// another rank.
    ///
    /// # Errors
    /// [`ErrorKind::RankFailed`]; those of [`Stream::synchronize`].
    pub fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        match &self.ranks {
            Ranks::Here(hall) => hall.check(self.rank, stream),
            Ranks::Elsewhere(remote) => remote.synchronize(stream),
        }
    }
}

/// Collectives.
impl Communicator {
    /// All-reduce: `output[i]` becomes the reduction of `input[i]` over all ranks, in the order of
    /// ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Length`]; those of a rank that failed.
    pub fn all_reduce<'a, 'b, T: TensorElement>(
        &self,
        stream: &Stream,
        reduce: Reduce,
        input: impl Into<View<'a, T>>,
        output: impl Into<ViewMut<'b, T>>,
    ) -> Result<(), Error> {
        self.all_reduce_with(stream, &Combine::of(reduce, T::DTYPE), input, output)
    }

    /// All-reduce with any monoid; see [`Communicator::all_reduce`].
    ///
    /// # Errors
    /// [`ErrorKind::Length`] also if the elements are not those of `combine`; those of a rank that
    /// failed.
    pub fn all_reduce_with<'a, 'b, I: Element, O: Element>(
        &self,
        stream: &Stream,
        combine: &Combine,
        input: impl Into<View<'a, I>>,
        output: impl Into<ViewMut<'b, O>>,
    ) -> Result<(), Error> {
        let (input, output) = (input.into().bytes(), output.into().bytes());
        let count = count_of("all-reduce", &input, combine.item().bytes())?;
        expect("all-reduce", count, count_of("all-reduce", &output.as_view(), combine.output().bytes())?)?;
        self.run(stream, What::AllReduce(combine.clone()), (Input::View(input), Some(output)), count)
    }

    /// All-reduce in place; see [`Communicator::all_reduce`].
    ///
    /// # Errors
    /// Those of a rank that failed.
    pub fn all_reduce_in_place<'a, T: TensorElement>(
        &self,
        stream: &Stream,
        reduce: Reduce,
        data: impl Into<ViewMut<'a, T>>,
    ) -> Result<(), Error> {
        let data = data.into().bytes();
        let (combine, count) = (Combine::of(reduce, T::DTYPE), data.len() / size_of::<T>());
        // Each block has staged its share of the input before it writes there.
        self.run(stream, What::AllReduce(combine), (Input::Output, Some(data)), count)
    }

    /// All-reduce sum by NCCL: in its own order, which depends on its version, the machine and the
    /// length.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a group that does not use NCCL; those of NCCL.
    pub fn all_reduce_sum_by_nccl<T: Element>(
        &self,
        stream: &Stream,
        input: View<'_, T>,
        output: ViewMut<'_, T>,
    ) -> Result<(), Error> {
        let Ranks::Elsewhere(remote) = &self.ranks else {
            return Err(ErrorKind::Unsupported { what: "NCCL's own sum", transport: "over peer memory" }.into());
        };
        let nccl = remote
            .nccl
            .as_ref()
            .ok_or(ErrorKind::Unsupported { what: "NCCL's own sum", transport: "between virtual GPUs" })?;
        Ok(nccl.all_reduce_sum(stream, &input, output)?)
    }

    /// `output` becomes the sum of all parts of all ranks, plus a residual that all ranks have
    /// alike, rounded once: partial results in `f32`, of which this rank has `parts` in `input`,
    /// one after the other. They are added in a balanced tree, each rank's first. So where parts
    /// and ranks are powers of two, a sum has the same bits on however many ranks its parts are.
    ///
    /// `dtype` is the type of the residual and of the output: `f32`, `f16` or `bf16`.
    ///
    /// ```
    /// use warpfold_collectives::{Error, Group};
    /// use warpfold_kernels::Dtype;
    ///
    /// // Eight parts of one number: on two devices, and on one.
    /// let parts = [1.0e8_f32, 1.0, -1.0e8, 1.0, 3.0, 5.0, 7.0, 9.0];
    /// let sum = |ranks: usize| {
    ///     Group::virtual_gpus(ranks)?.run(|rank| -> Result<f32, Error> {
    ///         let (device, stream, own) = (rank.device(), rank.device().default_stream(), 8 / ranks);
    ///         let mine = device.upload(&parts[rank.rank() * own..][..own])?;
    ///         let mut sum = device.alloc::<f32>(1)?;
    ///         rank.sum_parts(&stream, own, mine.as_view().bytes(), None, Dtype::F32, sum.as_view_mut().bytes())?;
    ///         Ok(sum.download()?[0])
    ///     })
    /// };
    /// assert_eq!(sum(1)?, [24.0]); // ((1e8 + 1) + (-1e8 + 1)) + ((3 + 5) + (7 + 9))
    /// assert_eq!(sum(2)?, [24.0; 2]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Length`]; [`ErrorKind::Unsupported`] for another type, and for ranks in
    /// processes of their own; those of a rank that failed.
    pub fn sum_parts(
        &self,
        stream: &Stream,
        parts: usize,
        input: View<'_, u8>,
        residual: Option<View<'_, u8>>,
        dtype: Dtype,
        output: ViewMut<'_, u8>,
    ) -> Result<(), Error> {
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(ErrorKind::Unsupported { what: "a sum of parts", transport: "of that element type" }.into());
        }
        if matches!(self.ranks, Ranks::Elsewhere(_)) {
            return Err(ErrorKind::Unsupported { what: "a sum of parts", transport: "between processes" }.into());
        }
        let count = count_of("a sum of parts", &output.as_view(), dtype.bytes())?;
        expect("a sum of parts", parts.max(1) * count, count_of("a sum of parts", &input, 4)?)?;
        if let Some(residual) = &residual {
            let what = "what is added to a sum of parts";
            expect(what, count, count_of(what, residual, dtype.bytes())?)?;
        }
        let sum = PartSum { parts: parts.max(1), output: dtype, has_residual: residual.is_some() };
        let operands = Operands { input: Input::View(input), output: Some(output), residual };
        self.run_operands(stream, &Work::All(What::SumParts(sum)), operands, count)
    }

    /// All-gather: `output` becomes the concatenation of all inputs, in the order of ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] unless the output is as long as all inputs; those of a rank that
    /// failed.
    pub fn all_gather<'a, 'b, T: Element>(
        &self,
        stream: &Stream,
        input: impl Into<View<'a, T>>,
        output: impl Into<ViewMut<'b, T>>,
    ) -> Result<(), Error> {
        let (input, output) = (input.into(), output.into());
        expect("all-gather", input.len() * self.size(), output.len())?;
        let bytes = input.num_bytes();
        self.run(stream, What::AllGather(1), (Input::View(input.bytes()), Some(output.bytes())), bytes)
    }

    /// Reduce-scatter: the input has a part for each rank; `output` becomes the reduction of this
    /// rank's part over all ranks, in the order of ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] unless the input is as long as the outputs of all ranks; those of a
    /// rank that failed.
    pub fn reduce_scatter<'a, 'b, T: TensorElement>(
        &self,
        stream: &Stream,
        reduce: Reduce,
        input: impl Into<View<'a, T>>,
        output: impl Into<ViewMut<'b, T>>,
    ) -> Result<(), Error> {
        self.reduce_scatter_with(stream, &Combine::of(reduce, T::DTYPE), input, output)
    }

    /// Reduce-scatter with any monoid; see [`Communicator::reduce_scatter`].
    ///
    /// # Errors
    /// As [`Communicator::reduce_scatter`].
    pub fn reduce_scatter_with<'a, 'b, I: Element, O: Element>(
        &self,
        stream: &Stream,
        combine: &Combine,
        input: impl Into<View<'a, I>>,
        output: impl Into<ViewMut<'b, O>>,
    ) -> Result<(), Error> {
        let (input, output) = (input.into().bytes(), output.into().bytes());
        let count = count_of("reduce-scatter", &output.as_view(), combine.output().bytes())?;
        let found = count_of("reduce-scatter", &input, combine.item().bytes())?;
        expect("reduce-scatter", count * self.size(), found)?;
        self.run(stream, What::ReduceScatter(combine.clone()), (Input::View(input), Some(output)), count)
    }

    /// Broadcast: copies `data` of rank `root` to all ranks.
    ///
    /// # Errors
    /// [`ErrorKind::BadRank`]; those of a rank that failed.
    pub fn broadcast<'a, T: Element>(
        &self,
        stream: &Stream,
        root: usize,
        data: impl Into<ViewMut<'a, T>>,
    ) -> Result<(), Error> {
        self.expect_rank("the root of a broadcast is rank", root)?;
        let data = data.into().bytes();
        let bytes = data.len();
        let input = if root == self.rank { Input::Output } else { Input::None };
        self.run(stream, What::Broadcast(1, root), (input, Some(data)), bytes)
    }

    /// Sends data to another rank, which [receives](Communicator::receive) as many elements.
    ///
    /// # Errors
    /// [`ErrorKind::BadRank`]; those of a rank that failed.
    pub fn send<'a, T: Element>(&self, stream: &Stream, to: usize, data: impl Into<View<'a, T>>) -> Result<(), Error> {
        self.expect_other("cannot send to rank", to)?;
        let data = data.into().bytes();
        let bytes = data.len();
        self.run_work(stream, &Work::Send(to), (Input::View(data), None), bytes)
    }

    /// Receives data that another rank [sends](Communicator::send).
    ///
    /// # Errors
    /// [`ErrorKind::BadRank`]; those of a rank that failed.
    pub fn receive<'a, T: Element>(
        &self,
        stream: &Stream,
        from: usize,
        data: impl Into<ViewMut<'a, T>>,
    ) -> Result<(), Error> {
        self.expect_other("cannot receive from rank", from)?;
        let data = data.into().bytes();
        let bytes = data.len();
        self.run_work(stream, &Work::Receive(from), (Input::None, Some(data)), bytes)
    }

    fn run(
        &self,
        stream: &Stream,
        what: What,
        operands: (Input<'_>, Option<ViewMut<'_, u8>>),
        count: usize,
    ) -> Result<(), Error> {
        self.run_work(stream, &Work::All(what), operands, count)
    }

    fn run_work(
        &self,
        stream: &Stream,
        work: &Work,
        (input, output): (Input<'_>, Option<ViewMut<'_, u8>>),
        count: usize,
    ) -> Result<(), Error> {
        self.run_operands(stream, work, Operands { input, output, residual: None }, count)
    }

    fn run_operands(&self, stream: &Stream, work: &Work, operands: Operands<'_>, count: usize) -> Result<(), Error> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let done = match &self.ranks {
            Ranks::Here(hall) => self.run_here(hall, stream, work, operands, count),
            Ranks::Elsewhere(remote) => remote.run(stream, work, operands, count),
        };
        done.map_err(|error| error.within(work.name(), number))
    }

    fn run_here(
        &self,
        hall: &Hall,
        stream: &Stream,
        work: &Work,
        operands: Operands<'_>,
        count: usize,
    ) -> Result<(), Error> {
        // A pair is a channel of two, whose first member is copied.
        let (pair, copy) = match *work {
            Work::All(_) => (None, What::Broadcast(1, 0)),
            Work::Send(to) => (Some(hall.pair(self.rank, to, self.rank)?), What::Broadcast(1, 0)),
            Work::Receive(from) => (Some(hall.pair(from, self.rank, self.rank)?), What::Broadcast(1, 0)),
        };
        let channel = pair.as_deref().unwrap_or(&hall.all);
        let what = if let Work::All(what) = work { what } else { &copy };
        let result = channel.run(self.rank, stream, what, operands, count);
        result.map_err(|error| hall.explain(channel, error))
    }

    fn expect_rank(&self, what: &'static str, found: usize) -> Result<(), Error> {
        let (size, own) = (self.size(), self.rank);
        if found < size { Ok(()) } else { Err(ErrorKind::BadRank { what, found, size, own }.into()) }
    }

    fn expect_other(&self, what: &'static str, found: usize) -> Result<(), Error> {
        self.expect_rank(what, found)?;
        let (size, own) = (self.size(), self.rank);
        if found == own { Err(ErrorKind::BadRank { what, found, size, own }.into()) } else { Ok(()) }
    }
}

fn count_of(what: &'static str, bytes: &View<'_, u8>, item: u64) -> Result<usize, Error> {
    let item = item as usize;
    let count = bytes.len() / item;
    expect(what, count * item, bytes.len()).map(|()| count)
}

fn expect(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(ErrorKind::Length { what, expected, found }.into()) }
}

impl Drop for Communicator {
    /// Tells the other ranks, so that none waits for one that is gone.
    fn drop(&mut self) {
        match (&self.ranks, std::thread::panicking()) {
            (_, true) => self.fail("it panicked"),
            (Ranks::Here(hall), false) => hall.end(self.rank),
            // The connections end with it, which tells the others.
            (Ranks::Elsewhere(_), false) => {}
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {} on {})", self.rank, self.size(), self.device())
    }
}
