//! Steps that were captured: the launches of a step that decodes, as one.
//!
//! A shape's first step runs launch by launch, which plans them and loads their kernels; the second
//! is captured, and from then on the shape costs one launch. What changes from step to step is read
//! on the device, from the words that the graph was captured with. Tensors of a step take their
//! memory from one arena, so that all graphs share it; each keeps its words and its logits, which
//! are written again at each launch, so that it does not matter who else has used their memory.

use std::collections::BTreeMap;

use warpfold::{Dtype, Queue, Tensor};
use warpfold_device::{Graph, HostBuffer};

use crate::Error;
use crate::layers::StepShape;

/// The steps that came: nothing for those that came once.
#[derive(Debug, Default)]
pub(crate) struct Graphs(BTreeMap<StepShape, Option<Box<Captured>>>);

#[derive(Debug)]
struct Captured {
    words: Tensor,
    graph: Graph,
    logits: Tensor,
}

impl Graphs {
    /// The logits of a step whose words are in pinned memory, if its shape is captured or can be.
    /// `forward` gives the launches.
    pub(crate) fn run(
        &mut self,
        queue: &Queue,
        shape: StepShape,
        pinned: &HostBuffer<u8>,
        forward: impl FnOnce(&Tensor) -> Result<Tensor, Error>,
    ) -> Result<Option<Tensor>, Error> {
        let Some(known) = self.0.get_mut(&shape) else {
            self.0.insert(shape, None);
            return Ok(None);
        };
        let Captured { words, graph, logits } = match known {
            Some(captured) => captured,
            None => {
                let words = Tensor::filled(queue, Dtype::I32, 0, &[shape.words()])?;
                let (graph, logits) = queue.stream().capture(|| forward(&words))?;
                known.insert(Box::new(Captured { words, graph, logits }))
            }
        }
        .as_mut();
        words.copy_from_pinned(pinned.view(..4 * shape.words())?)?;
        graph.launch()?;
        Ok(Some(logits.clone()))
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
