//! cuDNN: attention forward, as the graph that its fused engines look for: product, scale, mask,
//! softmax, product.

use std::ffi::c_void;

use super::cudnn_graph::{
    ADD, AT_LEAST, BF16, BOOL, Backend, DIV, Descriptor, EXP, F32, Graph, LOG, MAX, MUL, Place, SELECT, SUB, SUM,
    Tensor,
};
use super::{Vendor, check_bytes, cudnn};
use warpfold_device::{Buffer, Error, Stream, View, ViewMut};

/// An attention in bf16 over tensors `[batch, length, heads, head size]` without gaps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CudnnAttention {
    /// Sequences.
    pub batch: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values, of which `heads` is a multiple.
    pub kv_heads: usize,
    /// Queries, and keys, of a sequence.
    pub len: usize,
    /// Elements of a head.
    pub dim: usize,
    /// Applies a causal mask.
    pub causal: bool,
    /// The factor of scores.
    pub scale: f32,
}

impl CudnnAttention {
    /// Bytes of tensors with so many heads.
    const fn bytes(&self, heads: usize) -> usize {
        2 * self.batch * self.len * heads * self.dim
    }

    /// The graph with its tensors: queries, keys, values and results, then numbers that are given
    /// by value.
    fn graph<'a>(&self, backend: &'a Backend) -> Result<(Graph<'a>, [Tensor; 4], Vec<(Tensor, f32)>), Error> {
        let [batch, heads, kv_heads, len, dim] =
            [self.batch, self.heads, self.kv_heads, self.len, self.dim].map(|size| size as i64);
        let mut graph = Graph::new(backend);
        let strides = |heads: i64| [len * heads * dim, dim, heads * dim, 1];
        let in_memory = (BF16, Place::Device);
        let q = graph.tensor("queries", in_memory, [batch, heads, len, dim], strides(heads))?;
        let [n, h, s, e] = strides(kv_heads);
        let k = graph.tensor("keys, transposed", in_memory, [batch, kv_heads, dim, len], [n, h, e, s])?;
        let v = graph.tensor("values", in_memory, [batch, kv_heads, len, dim], [n, h, s, e])?;
        let o = graph.tensor("results", in_memory, [batch, heads, len, dim], strides(heads))?;
        let mut numbers = Vec::new();
        let mut number = |graph: &mut Graph<'a>, name: &str, value: f32| {
            let tensor = graph.tensor(name, (F32, Place::Host), [1; 4], [1; 4])?;
            numbers.push((tensor, value));
            Ok::<_, Error>(tensor)
        };
        let (float, scale) = ([F32, F32], number(&mut graph, "scale", self.scale)?);
        let products = graph.matmul("scores", [q, k], None)?;
        let mut scores = graph.pointwise("scaled scores", MUL, float, &[products, scale])?;
        if self.causal {
            let query = graph.positions("row", 2, scores)?;
            let key = graph.positions("column", 3, scores)?;
            let is_seen = graph.pointwise("row >= column", AT_LEAST, [BOOL, BOOL], &[query, key])?;
            let lowest = number(&mut graph, "minus infinity", f32::NEG_INFINITY)?;
            scores = graph.pointwise("masked scores", SELECT, float, &[scores, lowest, is_seen])?;
        }
        let largest = graph.reduce("maximum", MAX, scores)?;
        let differences = graph.pointwise("differences", SUB, float, &[scores, largest])?;
        let exponentials = graph.pointwise("exponentials", EXP, float, &[differences])?;
        let sums = graph.reduce("sum", SUM, exponentials)?;
        // The pattern has the log-sum-exp, also where nobody asks for it.
        let logarithms = graph.pointwise("logarithm", LOG, float, &[sums])?;
        graph.pointwise("log-sum-exp", ADD, float, &[largest, logarithms])?;
        let weights = graph.pointwise("weights", DIV, [F32, BF16], &[exponentials, sums])?;
        graph.matmul("results", [weights, v], Some(o))?;
        Ok((graph, [q, k, v, o], numbers))
    }
}

/// The library, ready for one attention on one stream, by the plan that its heuristic names first.
#[derive(Debug)]
pub struct Cudnn {
    attention: CudnnAttention,
    /// The numbers of queries, keys, values and results.
    tensors: [i64; 4],
    numbers: Vec<(i64, f32)>,
    workspace: Buffer<u8>,
    plan: Descriptor,
    // Behind what it created.
    backend: Backend,
}

impl Cudnn {
    /// Loads the library for a stream of a GPU and has it plan; nothing where it is not installed,
    /// or on the virtual GPU.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`](warpfold_device::ErrorKind::Driver) with the library's status, the
    /// descriptor that it refused, and what it says, also where no engine has the attention.
    pub fn load(stream: &Stream, attention: CudnnAttention) -> Result<Option<Self>, Error> {
        let Some(vendor) = Vendor::load("cuDNN", &cudnn::NAMES, stream) else { return Ok(None) };
        let backend = Backend::new(vendor)?;
        let (graph, tensors, numbers) = attention.graph(&backend)?;
        let (plan, workspace_bytes) = backend.plan(&graph)?;
        drop(graph);
        Ok(Some(Self {
            attention,
            tensors: tensors.map(Tensor::number),
            numbers: numbers.into_iter().map(|(tensor, value)| (tensor.number(), value)).collect(),
            workspace: stream.device().alloc_named("cudnn", workspace_bytes.max(1))?,
            plan,
            backend,
        }))
    }

    /// Enqueues the attention.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`](warpfold_device::ErrorKind::LengthMismatch) for memory that is
    /// too small, [`ErrorKind::Driver`](warpfold_device::ErrorKind::Driver) with the library's
    /// status.
    pub fn attend(&mut self, [q, k, v]: [&View<'_, u8>; 3], result: &mut ViewMut<'_, u8>) -> Result<(), Error> {
        let of_keys = self.attention.bytes(self.attention.kv_heads);
        let of_queries = self.attention.bytes(self.attention.heads);
        check_bytes([
            ("the queries", of_queries, q.num_bytes().min(result.num_bytes())),
            ("the keys", of_keys, k.num_bytes()),
            ("the values", of_keys, v.num_bytes()),
        ])?;
        let workspace = self.workspace.as_view_mut();
        self.backend.vendor.order([q, k], &[])?;
        self.backend.vendor.order([v, v], &[result, &workspace])?;
        let addresses = [q.address(), k.address(), v.address(), result.address()];
        let mut places: Vec<_> =
            self.tensors.iter().zip(addresses).map(|(number, address)| (*number, address as *mut c_void)).collect();
        let host = self.numbers.iter().map(|(number, value)| (*number, (&raw const *value).cast_mut().cast()));
        places.extend(host);
        // SAFETY: every tensor lies inside memory of the device that was compared above, numbers
        // lie on the host until the call returns, and the workspace is as long as the plan said.
        unsafe { self.backend.execute(&self.plan, &places, workspace.address() as *mut c_void) }
    }
}
