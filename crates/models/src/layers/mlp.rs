//! Gated MLPs: `down(gate(x W_g) · (x W_u))`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold::{Activation, Dtype, Tensor};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::map::Map;

use super::adapted::Adapted;
use super::{Linear, Loader, Shard};
use crate::Error;

/// The function of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Silu,
    GeluTanh,
    Sigmoid,
}

impl Gate {
    const fn activation(self) -> Activation {
        match self {
            Self::Silu => Activation::Silu,
            Self::GeluTanh => Activation::GeluTanh,
            Self::Sigmoid => Activation::Sigmoid,
        }
    }
}

/// `gate(x) · y` in a launch of its own, where columns are no whole groups. There is one of each
/// kind, as its kernels are kept with it.
#[derive(Clone)]
pub(crate) struct Gating {
    gate: Gate,
    apart: Arc<dyn Fn(&Tensor, &Tensor) -> Result<Tensor, Error> + Send + Sync>,
}

impl fmt::Debug for Gating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gating").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Gating {
    pub(crate) fn new(gate: Gate, dtype: Dtype) -> Self {
        static KNOWN: Mutex<Vec<(Gate, Dtype, Gating)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., gating)) = known.iter().find(|(of, with, _)| (*of, *with) == (gate, dtype)) {
            return gating.clone();
        }
        let gating = Self::make(gate, dtype);
        known.push((gate, dtype, gating.clone()));
        gating
    }

    fn make(gate: Gate, dtype: Dtype) -> Self {
        let source = Source::one::<f32>(dtype).zip(Source::one::<f32>(dtype));
        let sink = Sink::one::<f32>(dtype);
        let map = match gate {
            Gate::Silu => Map::new("silu_gate", source.map(|(x, y)| x * x.sigmoid() * y), sink),
            Gate::Sigmoid => Map::new("sigmoid_gate", source.map(|(x, y)| x.sigmoid() * y), sink),
            Gate::GeluTanh => {
                let gelu = source.map(|(x, y)| {
                    let cubic = (x * x * x * 0.044_715 + x) * 0.797_884_6;
                    x * 0.5 * (cubic.tanh() + 1.0) * y
                });
                Map::new("gelu_tanh_gate", gelu, sink)
            }
        };
        Self { gate, apart: Arc::new(move |x, y| Ok(x.map(&[y], &map)?.remove(0))) }
    }

    /// `gate(x) · y`.
    pub(crate) fn run(&self, x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
        (self.apart)(x, y)
    }
}

/// The weights of an MLP. Both products into it are one, whose columns are those of the gate and
/// those of `up` in turns, eight at a time, so that the gate is part of it; where they are no whole
/// groups, those of the gate come before those of `up`.
pub(crate) struct Mlp {
    gate_up: Linear,
    down: Linear,
    gating: Gating,
    /// The gate is part of the input GEMM.
    is_gated: bool,
    intermediate: usize,
}

impl fmt::Debug for Mlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mlp").field("intermediate", &self.intermediate).finish_non_exhaustive()
    }
}

impl Mlp {
    /// Reads the weights whose names begin with `prefix`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        prefix: &str,
        gating: &Gating,
        [hidden, intermediate]: [usize; 2],
    ) -> Result<Self, Error> {
        let of = |part: &str| (format!("{prefix}.{part}_proj"), intermediate);
        // However many devices share the model, all have their columns so, or none.
        let is_gated = match loader.shard {
            None => intermediate.is_multiple_of(8),
            Some(shard) => shard.lines(&of("gate").0, intermediate).0.is_multiple_of(8 * Shard::MOST),
        };
        let gate_up = match is_gated {
            true => loader.gated([of("gate").0, of("up").0], intermediate, hidden)?,
            false => loader.columns(&[of("gate"), of("up")], hidden, false)?,
        };
        let down = loader.sums(&format!("{prefix}.down_proj"), hidden, intermediate, false)?;
        Ok(Self { gate_up, down, gating: gating.clone(), is_gated, intermediate })
    }

    fn inner(&self, x: &Tensor, adapters: &Tensor) -> Result<Tensor, Error> {
        if self.is_gated && !self.gate_up.is_adapted() {
            return self.gate_up.forward_gated(x, self.gating.gate.activation());
        }
        let both = self.gate_up.forward(x, adapters)?;
        if self.is_gated {
            // The same bits: the gate rounds what it takes as a product is rounded.
            let rows = x.shape()[0];
            let turns = both.reshape(&[rows, self.intermediate / 8, 2, 8])?;
            let [gate, up] = [0, 1].map(|i| turns.slice(2, i..i + 1));
            return Ok((self.gating.apart)(&gate?, &up?)?.reshape(&[rows, self.intermediate])?);
        }
        let (gate, up) = (both.slice(1, ..self.intermediate)?, both.slice(1, self.intermediate..)?);
        (self.gating.apart)(&gate, &up)
    }

    pub(crate) fn forward(&self, x: &Tensor, adapters: &Tensor) -> Result<Tensor, Error> {
        self.down.forward(&self.inner(x, adapters)?, adapters)
    }

    /// Its adapters.
    pub(crate) fn adapted(&mut self) -> impl Iterator<Item = &mut Adapted> {
        [&mut self.gate_up, &mut self.down].into_iter().filter_map(Linear::adapted_mut)
    }

    /// The result plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor, adapters: &Tensor) -> Result<Tensor, Error> {
        self.down.forward_add(&self.inner(x, adapters)?, residual, adapters)
    }
}
