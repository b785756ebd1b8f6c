//! Steps that were captured: the launches of a step that decodes, as one.
//!
//! A shape's first step runs launch by launch, which plans them and loads their kernels; the second
//! is captured, and from then on the shape costs one launch. Steps that are sure to come can be
//! captured before the first. What changes from step to step is read on the device, from the words
//! that the graph was captured with. Tensors of a step take their memory from one arena, so that
//! all graphs share it. Each graph keeps its words, and graphs of equally many rows one tensor of
//! logits: steps come one after the other, and each has drawn before the next one writes.

use std::collections::BTreeMap;

use warpfold::{Dtype, Queue, Tensor};
use warpfold_device::{Graph, HostBuffer};

use crate::Error;
use crate::layers::StepShape;

/// The steps that came, and those that were captured before.
#[derive(Debug)]
pub(crate) struct Graphs {
    /// Nothing for those that came once.
    steps: BTreeMap<StepShape, Option<Box<Captured>>>,
    /// Logits of captured steps: by number of rows, or by shape.
    logits: BTreeMap<(usize, Option<StepShape>), Tensor>,
    /// Steps write to a shared logits tensor.
    shares_logits: bool,
}

#[derive(Debug)]
struct Captured {
    words: Tensor,
    graph: Graph,
}

/// Gives the launches of a step: its logits of words, in a tensor that it is given or one of its
/// own. A tensor that it was given it gives back.
pub(crate) trait Forward: FnOnce(&Tensor, Option<Tensor>) -> Result<Tensor, Error> {}

impl<F: FnOnce(&Tensor, Option<Tensor>) -> Result<Tensor, Error>> Forward for F {}

impl Graphs {
    /// None yet.
    pub(crate) fn new(shares_logits: bool) -> Self {
        Self { steps: BTreeMap::new(), logits: BTreeMap::new(), shares_logits }
    }

    /// Steps that are captured.
    pub(crate) fn len(&self) -> usize {
        self.steps.values().flatten().count()
    }

    fn logits_of(&self, shape: StepShape) -> (usize, Option<StepShape>) {
        (shape.rows, (!self.shares_logits).then_some(shape))
    }

    /// The logits of a step whose words are in pinned memory, if its shape is captured or can be.
    pub(crate) fn run(
        &mut self,
        queue: &Queue,
        shape: StepShape,
        pinned: &HostBuffer<u8>,
        forward: impl Forward,
    ) -> Result<Option<Tensor>, Error> {
        match self.steps.get(&shape) {
            None => {
                self.steps.insert(shape, None);
                return Ok(None);
            }
            Some(None) => self.capture(queue, shape, forward)?,
            Some(Some(_)) => {}
        }
        let logits = self.logits.get(&self.logits_of(shape)).cloned();
        let (Some(Some(step)), Some(logits)) = (self.steps.get_mut(&shape), logits) else { return Ok(None) };
        step.words.copy_from_pinned(pinned.view(..4 * shape.words())?)?;
        step.graph.launch()?;
        Ok(Some(logits))
    }

    /// Captures the step of a shape.
    pub(crate) fn capture(&mut self, queue: &Queue, shape: StepShape, forward: impl Forward) -> Result<(), Error> {
        let words = Tensor::filled(queue, Dtype::I32, 0, &[shape.words()])?;
        let place = self.logits_of(shape);
        let known = self.logits.remove(&place);
        let (graph, logits) = queue.stream().capture(|| forward(&words, known)).inspect_err(|_| {
            // The logits of the others are gone with it.
            self.steps.retain(|other, _| other.rows != shape.rows);
        })?;
        self.logits.insert(place, logits);
        self.steps.insert(shape, Some(Box::new(Captured { words, graph })));
        Ok(())
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.shares_logits);
    }
}
