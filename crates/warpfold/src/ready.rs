//! Launches that were planned before: an operator on tensors of the same layout and alignment starts at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::{Arguments, Buffer, View};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::reductions::{Options, Reduction};
use warpfold_kernels::{Dtype, Error, Ready};

use crate::tensor::Allocated;
use crate::{Queue, Tensor};

/// Plans that a queue keeps at most: then it begins anew.
const KEPT: usize = 4096;

/// What decides on the plan of a reduction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    reduction: Reduction,
    options: Options,
    axes: Vec<usize>,
    inputs: Vec<(Dtype, u8, Layout)>,
}

impl Key {
    pub(crate) fn new(reduction: Reduction, options: Options, axes: &[usize], inputs: &[&Tensor]) -> Self {
        let of = |tensor: &&Tensor| {
            let alignment = tensor.address().trailing_zeros().min(4) as u8;
            (tensor.dtype(), alignment, tensor.layout().clone())
        };
        Self { reduction, options, axes: axes.to_vec(), inputs: inputs.iter().map(of).collect() }
    }
}

/// A reduction that was planned.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) ready: Option<Ready>,
    pub(crate) outputs: Vec<Dtype>,
    pub(crate) shape: Vec<usize>,
}

impl Planned {
    /// Allocates the outputs and launches.
    pub(crate) fn launch(&self, queue: &Queue, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
        let outputs = self.outputs.iter().map(|dtype| Allocated::new(queue, *dtype, &self.shape));
        let mut outputs: Vec<Allocated> = outputs.collect::<Result<_, _>>()?;
        if let Some(ready) = &self.ready {
            let views = inputs.iter().map(|input| input.view()).collect::<Result<Vec<_>, _>>()?;
            let written: Vec<&mut Buffer<u8>> = outputs.iter_mut().map(|output| &mut output.buffer).collect();
            start(ready, queue, views, written)?;
        }
        Ok(outputs.into_iter().map(Allocated::finish).collect())
    }
}

fn start(ready: &Ready, queue: &Queue, inputs: Vec<View<'_, u8>>, outputs: Vec<&mut Buffer<u8>>) -> Result<(), Error> {
    let mut workspace = queue.workspace();
    let (words, tickets) = workspace.get(queue.device(), ready.workspace_words, ready.tickets)?;
    let mut arguments = Arguments::new();
    let (missing, unused) = (2 - inputs.len(), 2 - outputs.len());
    for input in inputs {
        arguments = arguments.input(input);
    }
    for _ in 0..missing {
        arguments = arguments.value(0_u64);
    }
    for output in outputs {
        arguments = arguments.output(output);
    }
    for _ in 0..unused {
        arguments = arguments.value(0_u64);
    }
    let arguments = arguments.output(words).output(tickets).raw(&ready.parameters, 8);
    Ok(queue.stream().launch_raw(&ready.function, ready.config, &arguments)?)
}

/// The plans of a queue.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    known: Mutex<HashMap<Key, Arc<Planned>>>,
}

impl Plans {
    /// The plan for a key, made if it is not known.
    pub(crate) fn get(&self, key: Key, make: impl FnOnce() -> Result<Planned, Error>) -> Result<Arc<Planned>, Error> {
        if let Some(planned) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(planned.clone());
        }
        // Not under the lock: loading a kernel takes long.
        let planned = Arc::new(make()?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(key, planned.clone());
        Ok(planned)
    }
}
