//! cuDNN's graphs of operations (`cudnn_graph.h`): descriptors, tensors, operations, and the plan
//! that the library makes of a graph.
//!
//! The numbers are those of the header. Whatever fails says which descriptor it was of, and what
//! the library says about it.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{Handle, NOTHING, Owned, Vendor};
use warpfold_device::Error;

/// `cudnnDataType_t`.
pub(super) const F32: c_int = 0;
pub(super) const I32: c_int = 4;
pub(super) const BF16: c_int = 9;
pub(super) const BOOL: c_int = 11;

/// `cudnnPointwiseMode_t`.
pub(super) const MUL: c_int = 1;
pub(super) const ADD: c_int = 0;
pub(super) const DIV: c_int = 6;
pub(super) const SUB: c_int = 9;
pub(super) const EXP: c_int = 13;
pub(super) const LOG: c_int = 15;
pub(super) const AT_LEAST: c_int = 303;
pub(super) const INDEX: c_int = 501;
pub(super) const SELECT: c_int = 601;

/// `cudnnReduceTensorOp_t`.
pub(super) const SUM: c_int = 0;
pub(super) const MAX: c_int = 3;

/// `cudnnBackendDescriptorType_t`.
mod kind {
    use std::ffi::c_int;

    pub(super) const POINTWISE: c_int = 0;
    pub(super) const ENGINE_CONFIG: c_int = 3;
    pub(super) const HEURISTIC: c_int = 4;
    pub(super) const PLAN: c_int = 5;
    pub(super) const OF_POINTWISE: c_int = 13;
    pub(super) const GRAPH: c_int = 15;
    pub(super) const VARIANT_PACK: c_int = 16;
    pub(super) const TENSOR: c_int = 17;
    pub(super) const MATMUL: c_int = 18;
    pub(super) const OF_MATMUL: c_int = 19;
    pub(super) const REDUCTION: c_int = 21;
    pub(super) const OF_REDUCTION: c_int = 22;
}

/// `CUDNN_HEUR_MODE_A` and `CUDNN_HEUR_MODE_FALLBACK`.
const HEURISTICS: [c_int; 2] = [3, 2];

/// The value of an attribute (`cudnnBackendAttributeType_t`).
#[derive(Clone, Copy)]
enum Value<'a> {
    Library(Handle),
    DataType(c_int),
    Bool(bool),
    Integers(&'a [i64]),
    F32(f32),
    Pointers(&'a [*mut c_void]),
    HeuristicMode(c_int),
    PointwiseMode(c_int),
    Descriptors(&'a [Handle]),
    Reduction(c_int),
}

impl Value<'_> {
    /// Type, number of elements, and where they are.
    fn parts(&self) -> (c_int, usize, *const c_void) {
        match self {
            Self::Library(handle) => (0, 1, (&raw const *handle).cast()),
            Self::DataType(code) => (1, 1, (&raw const *code).cast()),
            Self::Bool(is_so) => (2, 1, (&raw const *is_so).cast()),
            Self::Integers(list) => (3, list.len(), list.as_ptr().cast()),
            Self::F32(number) => (4, 1, (&raw const *number).cast()),
            Self::Pointers(list) => (6, list.len(), list.as_ptr().cast()),
            Self::HeuristicMode(code) => (8, 1, (&raw const *code).cast()),
            Self::PointwiseMode(code) => (14, 1, (&raw const *code).cast()),
            Self::Descriptors(list) => (DESCRIPTOR, list.len(), list.as_ptr().cast()),
            Self::Reduction(code) => (18, 1, (&raw const *code).cast()),
        }
    }
}

const INTEGER: c_int = 3;
const DESCRIPTOR: c_int = 15;

type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type Create = unsafe extern "C" fn(c_int, *mut Handle) -> c_int;
type Finalize = unsafe extern "C" fn(Handle) -> c_int;
type Set = unsafe extern "C" fn(Handle, c_int, c_int, i64, *const c_void) -> c_int;
type Get = unsafe extern "C" fn(Handle, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
type Execute = unsafe extern "C" fn(Handle, Handle, Handle) -> c_int;
type LastError = unsafe extern "C" fn(*mut c_char, usize);

/// The library with a handle for a stream, and its functions.
#[derive(Debug)]
pub(super) struct Backend {
    set: Set,
    get: Get,
    finalize: Finalize,
    execute: Execute,
    last_error: Option<LastError>,
    handle: Owned,
    // Behind what it created, so that it is unloaded last.
    pub(super) vendor: Vendor,
}

/// Something that a graph consists of, for messages with a name.
#[derive(Debug)]
pub(super) struct Descriptor {
    owned: Owned,
    name: String,
}

impl Backend {
    /// A handle for the stream of a library that is loaded.
    pub(super) fn new(vendor: Vendor) -> Result<Self, Error> {
        // SAFETY: the types of all functions are those of `cudnn_graph.h`; the context is current
        // on this thread, and the stream belongs to it and is kept alive by `vendor`.
        unsafe {
            let handle = vendor.create("cudnnCreate", "cudnnDestroy")?;
            let set: SetStream = vendor.function("cudnnSetStream")?;
            vendor.check("cudnnSetStream", set(handle.handle, vendor.stream()))?;
            Ok(Self {
                set: vendor.function("cudnnBackendSetAttribute")?,
                get: vendor.function("cudnnBackendGetAttribute")?,
                finalize: vendor.function("cudnnBackendFinalize")?,
                execute: vendor.function("cudnnBackendExecute")?,
                // cuDNN 8 does not have it.
                last_error: vendor.function("cudnnGetLastErrorString").ok(),
                handle,
                vendor,
            })
        }
    }

    fn check(&self, call: &'static str, of: &str, status: c_int) -> Result<(), Error> {
        if status == 0 { Ok(()) } else { Err(self.vendor.failed_because(call, status, self.reason(of))) }
    }

    /// Returns the library's message for its last error, caused by `of`.
    fn reason(&self, of: &str) -> String {
        let mut text = [0_u8; 2048];
        if let Some(last_error) = self.last_error {
            // SAFETY: the type is that of `cudnn_graph.h`; it writes a string that ends by a zero
            // within the bytes that it is given.
            unsafe { last_error(text.as_mut_ptr().cast(), text.len()) };
        }
        let said = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        format!("{of}: {}", if said.is_empty() { "it gives no reason" } else { said.trim() })
    }

    fn create(&self, kind: c_int, name: impl Into<String>) -> Result<Descriptor, Error> {
        let name = name.into();
        let call = "cudnnBackendCreateDescriptor";
        // SAFETY: the types are those of `cudnn_graph.h`; a descriptor lies beside the backend in
        // everything that holds both, before it.
        let owned = unsafe {
            let create: Create = self.vendor.function(call)?;
            let destroy = self.vendor.function("cudnnBackendDestroyDescriptor")?;
            let mut handle = std::ptr::null_mut();
            self.check(call, &name, create(kind, &raw mut handle))?;
            Owned { handle, destroy }
        };
        Ok(Descriptor { owned, name })
    }

    /// Gives a descriptor its attributes; then it is complete.
    fn complete(&self, descriptor: &Descriptor, attributes: &[(c_int, Value<'_>)]) -> Result<(), Error> {
        let Descriptor { owned: Owned { handle, .. }, name } = descriptor;
        for (attribute, value) in attributes {
            let (kind, len, place) = value.parts();
            // SAFETY: the type is that of `cudnn_graph.h`; `place` has `len` elements of the type.
            let status = unsafe { (self.set)(*handle, *attribute, kind, len as i64, place) };
            self.check("cudnnBackendSetAttribute", &format!("{name}, attribute {attribute}"), status)?;
        }
        // SAFETY: as above.
        let status = unsafe { (self.finalize)(*handle) };
        self.check("cudnnBackendFinalize", name, status)
    }

    fn make(
        &self,
        kind: c_int,
        name: impl Into<String>,
        attributes: &[(c_int, Value<'_>)],
    ) -> Result<Descriptor, Error> {
        let descriptor = self.create(kind, name)?;
        self.complete(&descriptor, attributes)?;
        Ok(descriptor)
    }

    /// The plans of a graph that the library's heuristics name, the best first: the first that it
    /// can make.
    pub(super) fn plan(&self, graph: &Graph<'_>) -> Result<(Descriptor, usize), Error> {
        let operations: Vec<_> = graph.operations.iter().map(|operation| operation.owned.handle).collect();
        let library = self.handle.handle;
        let graph = self.make(
            kind::GRAPH,
            "the graph of operations",
            &[(800, Value::Library(library)), (801, Value::Descriptors(&operations))],
        )?;
        let mut reason = None;
        for mode in HEURISTICS {
            let graph = [graph.owned.handle];
            let attributes = [(201, Value::Descriptors(&graph)), (200, Value::HeuristicMode(mode))];
            let configs = self
                .make(kind::HEURISTIC, format!("the heuristic of mode {mode}"), &attributes)
                .and_then(|heuristic| self.configs(&heuristic));
            let configs = match configs {
                Ok(configs) => configs,
                Err(error) => {
                    reason = reason.or(Some(error));
                    continue;
                }
            };
            for (i, config) in configs.iter().enumerate() {
                let config = [config.owned.handle];
                let attributes = [(400, Value::Library(library)), (401, Value::Descriptors(&config))];
                match self.make(kind::PLAN, format!("plan {i} of the heuristic of mode {mode}"), &attributes) {
                    Ok(plan) => {
                        let bytes = self.workspace_bytes(&plan)?;
                        return Ok((plan, bytes));
                    }
                    Err(error) => reason = reason.or(Some(error)),
                }
            }
        }
        let none = || self.vendor.failed_because("cudnnBackendGetAttribute", NOTHING, "no engine has it".to_owned());
        Err(reason.unwrap_or_else(none))
    }

    /// Returns the configurations that a heuristic finds.
    fn configs(&self, heuristic: &Descriptor) -> Result<Vec<Descriptor>, Error> {
        const RESULTS: c_int = 202;
        let Descriptor { owned: Owned { handle, .. }, name } = heuristic;
        let mut found = 0;
        // SAFETY: the type is that of `cudnn_graph.h`; no element is asked for, only their number.
        let status = unsafe { (self.get)(*handle, RESULTS, DESCRIPTOR, 0, &raw mut found, std::ptr::null_mut()) };
        self.check("cudnnBackendGetAttribute", name, status)?;
        let mut configs = (0..found)
            .map(|i| self.create(kind::ENGINE_CONFIG, format!("engine {i} of {name}")))
            .collect::<Result<Vec<_>, _>>()?;
        let mut handles: Vec<_> = configs.iter().map(|config| config.owned.handle).collect();
        let room = found;
        // SAFETY: as above; there are as many descriptors of the kind as are asked for.
        let status =
            unsafe { (self.get)(*handle, RESULTS, DESCRIPTOR, room, &raw mut found, handles.as_mut_ptr().cast()) };
        self.check("cudnnBackendGetAttribute", name, status)?;
        configs.truncate(usize::try_from(found).unwrap_or(0));
        Ok(configs)
    }

    fn workspace_bytes(&self, plan: &Descriptor) -> Result<usize, Error> {
        const WORKSPACE_SIZE: c_int = 402;
        let (mut bytes, mut found) = (0_i64, 0_i64);
        // SAFETY: the type is that of `cudnn_graph.h`; one number is asked for, and has its place.
        let status = unsafe {
            (self.get)(plan.owned.handle, WORKSPACE_SIZE, INTEGER, 1, &raw mut found, (&raw mut bytes).cast())
        };
        self.check("cudnnBackendGetAttribute", &plan.name, status)?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Enqueues a plan.
    ///
    /// # Safety
    /// Each tensor that is not virtual has its number and its place: of the device, as long as its
    /// sizes say, or of the host where it is given by value; the workspace is as long as the plan
    /// says.
    pub(super) unsafe fn execute(
        &self,
        plan: &Descriptor,
        tensors: &[(i64, *mut c_void)],
        workspace: *mut c_void,
    ) -> Result<(), Error> {
        let (numbers, places): (Vec<i64>, Vec<*mut c_void>) = tensors.iter().copied().unzip();
        let workspace = [workspace];
        let attributes =
            [(1000, Value::Integers(&numbers)), (1001, Value::Pointers(&places)), (1003, Value::Pointers(&workspace))];
        let pack = self.make(kind::VARIANT_PACK, "the places of tensors", &attributes)?;
        // SAFETY: the type is that of `cudnn_graph.h`; the caller says that places are right.
        let status = unsafe { (self.execute)(self.handle.handle, plan.owned.handle, pack.owned.handle) };
        self.check("cudnnBackendExecute", &plan.name, status)
    }
}

/// Memory space of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Memory of the device.
    Device,
    /// Memory of the host: one number.
    Host,
    /// Nowhere: from operation to operation.
    Virtual,
}

/// A tensor of a graph: which of its tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tensor {
    idx: usize,
    dims: [i64; 4],
}

impl Tensor {
    /// Its number when the plan is executed.
    pub(super) fn number(self) -> i64 {
        self.idx as i64 + 1
    }
}

/// A graph of operations that is being built.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    backend: &'a Backend,
    tensors: Vec<Descriptor>,
    operations: Vec<Descriptor>,
    /// Settings of the operations.
    settings: Vec<Descriptor>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(backend: &'a Backend) -> Self {
        Self { backend, tensors: Vec::new(), operations: Vec::new(), settings: Vec::new() }
    }

    /// A tensor of sizes and strides, both of elements.
    pub(super) fn tensor(
        &mut self,
        name: &str,
        (dtype, place): (c_int, Place),
        dims: [i64; 4],
        strides: [i64; 4],
    ) -> Result<Tensor, Error> {
        let tensor = Tensor { idx: self.tensors.len(), dims };
        let attributes = [
            (901, Value::DataType(dtype)),
            (902, Value::Integers(&dims)),
            (903, Value::Integers(&strides)),
            (906, Value::Integers(&[tensor.number()])),
            (900, Value::Integers(&[16])),
            (907, Value::Bool(place == Place::Virtual)),
            (908, Value::Bool(place == Place::Host)),
        ];
        self.tensors.push(self.backend.make(kind::TENSOR, format!("the tensor {name}"), &attributes)?);
        Ok(tensor)
    }

    /// A tensor without gaps that is nowhere in memory.
    fn between(&mut self, name: &str, dtype: c_int, dims: [i64; 4]) -> Result<Tensor, Error> {
        let [_, h, s, e] = dims;
        self.tensor(name, (dtype, Place::Virtual), dims, [h * s * e, s * e, e, 1])
    }

    fn handle(&self, tensor: Tensor) -> [Handle; 1] {
        [self.tensors[tensor.idx].owned.handle]
    }

    /// The product of matrices, summed in `f32`.
    pub(super) fn matmul(&mut self, name: &str, [a, b]: [Tensor; 2], to: Option<Tensor>) -> Result<Tensor, Error> {
        let [n, h, rows, _] = a.dims;
        let c = match to {
            Some(to) => to,
            None => self.between(name, F32, [n, h, rows, b.dims[3]])?,
        };
        let matmul = self.backend.make(kind::MATMUL, format!("the type of {name}"), &[(1500, Value::DataType(F32))])?;
        let [a, b, to] = [a, b, c].map(|tensor| self.handle(tensor));
        let setting = [matmul.owned.handle];
        let attributes = [
            (1520, Value::Descriptors(&a)),
            (1521, Value::Descriptors(&b)),
            (1522, Value::Descriptors(&to)),
            (1523, Value::Descriptors(&setting)),
        ];
        self.operations.push(self.backend.make(kind::OF_MATMUL, format!("the product {name}"), &attributes)?);
        self.settings.push(matmul);
        Ok(c)
    }

    /// The sum or maximum of each row.
    pub(super) fn reduce(&mut self, name: &str, operator: c_int, x: Tensor) -> Result<Tensor, Error> {
        let [n, h, rows, _] = x.dims;
        let y = self.between(name, F32, [n, h, rows, 1])?;
        let attributes = [(1601, Value::DataType(F32)), (1600, Value::Reduction(operator))];
        let reduction = self.backend.make(kind::REDUCTION, format!("the type of {name}"), &attributes)?;
        let (x, to, setting) = (self.handle(x), self.handle(y), [reduction.owned.handle]);
        let attributes =
            [(1610, Value::Descriptors(&x)), (1611, Value::Descriptors(&to)), (1612, Value::Descriptors(&setting))];
        self.operations.push(self.backend.make(kind::OF_REDUCTION, format!("the reduction {name}"), &attributes)?);
        self.settings.push(reduction);
        Ok(y)
    }

    /// The position of each element along a dimension.
    pub(super) fn positions(&mut self, name: &str, dim: i64, of: Tensor) -> Result<Tensor, Error> {
        self.elementwise(name, (INDEX, Some(dim)), [F32, I32], &[of])
    }

    /// An operation on elements, of one to three tensors: how it is computed, and the type of its
    /// result.
    pub(super) fn pointwise(
        &mut self,
        name: &str,
        mode: c_int,
        types: [c_int; 2],
        operands: &[Tensor],
    ) -> Result<Tensor, Error> {
        self.elementwise(name, (mode, None), types, operands)
    }

    fn elementwise(
        &mut self,
        name: &str,
        (mode, dim): (c_int, Option<i64>),
        [math, dtype]: [c_int; 2],
        operands: &[Tensor],
    ) -> Result<Tensor, Error> {
        let y = self.between(name, dtype, operands[0].dims)?;
        let dim = dim.map(|dim| [dim]);
        let mut attributes = vec![(0, Value::PointwiseMode(mode)), (1, Value::DataType(math))];
        attributes.extend(dim.as_ref().map(|dim| (9, Value::Integers(dim))));
        let setting = self.backend.make(kind::POINTWISE, format!("the type of {name}"), &attributes)?;
        let of = [setting.owned.handle];
        let handles: Vec<_> = operands.iter().map(|operand| self.handle(*operand)).collect();
        let to = self.handle(y);
        // Of the operands: x, b and t.
        let mut attributes = vec![(750, Value::Descriptors(&of)), (753, Value::Descriptors(&to))];
        attributes
            .extend([751, 752, 758].into_iter().zip(&handles).map(|(at, handle)| (at, Value::Descriptors(handle))));
        attributes.extend([(754, Value::F32(1.0)), (755, Value::F32(1.0))]);
        self.operations.push(self.backend.make(kind::OF_POINTWISE, format!("the operation {name}"), &attributes)?);
        self.settings.push(setting);
        Ok(y)
    }
}
