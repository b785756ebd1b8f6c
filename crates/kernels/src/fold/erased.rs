//! Monoids without their types, so that folds and scans are compiled once, not once for each
//! monoid.

use std::fmt;
use std::sync::Arc;

use warpfold_lang::{AnyRegisters, Registers, SharedSpace, Val};

use super::geometry::{MAX_INPUTS, MAX_OUTPUTS};
use super::scan::num_words;
use super::{Monoid, Position};
use crate::Dtype;
use crate::elements::{Sink, Source};
use crate::plan::{Key, Operand, OperandSpec, Plan, TensorSpec, first_of};

/// Arrays in shared memory, one for each register of a group.
pub(crate) type SharedArrays = <AnyRegisters as Registers>::Pointers<SharedSpace>;

/// Any [`Monoid`]. It records the same instructions as the monoid itself.
pub(crate) trait ErasedMonoid: Send + Sync {
    fn commutes(&self) -> bool;
    fn uses_position(&self) -> bool;
    /// Registers of an accumulator.
    fn num_registers(&self) -> u32;
    /// Words of 32 bits of an accumulator.
    fn num_words(&self) -> u64;
    fn identity(&self) -> AnyRegisters;
    fn combine(&self, left: AnyRegisters, right: AnyRegisters) -> AnyRegisters;
    fn lift(&self, item: AnyRegisters, position: Position) -> AnyRegisters;
    fn finish(&self, acc: AnyRegisters, count: Val<u64>) -> AnyRegisters;
    fn push(&self, acc: AnyRegisters, item: AnyRegisters, position: Position) -> AnyRegisters;
    fn push_all(&self, acc: AnyRegisters, items: &[AnyRegisters], first: Position) -> AnyRegisters;
    fn fold_lanes(&self, acc: AnyRegisters) -> Option<AnyRegisters>;
}

impl<M: Monoid> ErasedMonoid for M {
    fn commutes(&self) -> bool {
        M::COMMUTES
    }

    fn uses_position(&self) -> bool {
        M::USES_POSITION
    }

    fn num_registers(&self) -> u32 {
        Monoid::identity(*self).count()
    }

    fn num_words(&self) -> u64 {
        num_words(Monoid::identity(*self))
    }

    fn identity(&self) -> AnyRegisters {
        AnyRegisters::of(Monoid::identity(*self))
    }

    #[track_caller]
    fn combine(&self, left: AnyRegisters, right: AnyRegisters) -> AnyRegisters {
        AnyRegisters::of(Monoid::combine(*self, left.to(), right.to()))
    }

    fn lift(&self, item: AnyRegisters, position: Position) -> AnyRegisters {
        AnyRegisters::of(Monoid::lift(*self, item.to(), position))
    }

    fn finish(&self, acc: AnyRegisters, count: Val<u64>) -> AnyRegisters {
        AnyRegisters::of(Monoid::finish(*self, acc.to(), count))
    }

    fn push(&self, acc: AnyRegisters, item: AnyRegisters, position: Position) -> AnyRegisters {
        AnyRegisters::of(Monoid::push(*self, acc.to(), item.to(), position))
    }

    fn push_all(&self, acc: AnyRegisters, items: &[AnyRegisters], first: Position) -> AnyRegisters {
        let items: Vec<M::Item> = items.iter().map(|item| item.to()).collect();
        AnyRegisters::of(Monoid::push_all(*self, acc.to(), &items, first))
    }

    fn fold_lanes(&self, acc: AnyRegisters) -> Option<AnyRegisters> {
        Monoid::fold_lanes(*self, acc.to()).map(AnyRegisters::of)
    }
}

/// What a fold or a scan is made of: a monoid, where its items come from, where its results go.
#[derive(Clone)]
pub(crate) struct Definition {
    /// The beginning of the names of its kernels.
    pub(crate) name: Arc<str>,
    /// What tells it from others: kernels and plans are kept by it.
    pub(crate) key: Key,
    pub(crate) monoid: Arc<dyn ErasedMonoid>,
    pub(crate) source: Source<AnyRegisters>,
    pub(crate) sink: Sink<AnyRegisters>,
}

impl Definition {
    /// # Panics
    /// Unless it has one or two inputs, and one or two outputs.
    pub(crate) fn new<M: Monoid>(name: Arc<str>, monoid: M, source: Source<M::Item>, sink: Sink<M::Output>) -> Self {
        assert!((1..=MAX_INPUTS).contains(&source.dtypes().len()), "{name} takes one or two inputs");
        assert!((1..=MAX_OUTPUTS).contains(&sink.dtypes().len()), "{name} has one or two outputs");
        Self {
            name,
            key: Key::unique(),
            monoid: Arc::new(monoid),
            source: source.map(AnyRegisters::of),
            sink: sink.after(|output: AnyRegisters| output.to()),
        }
    }

    pub(crate) fn inputs(&self) -> &[Dtype] {
        self.source.dtypes()
    }

    pub(crate) fn outputs(&self) -> &[Dtype] {
        self.sink.dtypes()
    }

    /// # Panics
    /// If there is not one tensor of the right type for each input.
    pub(super) fn expect_inputs(&self, inputs: &[TensorSpec]) {
        let dtypes = inputs.iter().map(|input| &input.dtype);
        assert!(dtypes.eq(self.inputs()), "one tensor of {:?} for each input, not {inputs:?}", self.inputs());
    }

    /// Bytes and alignment of each output of so many results.
    pub(super) fn sizes_of(&self, results: u64) -> Vec<(u64, u64)> {
        let outputs = self.outputs().iter().zip(self.sink.lens());
        outputs.map(|(dtype, len)| (results.saturating_mul(dtype.bytes() * u64::from(*len)), dtype.bytes())).collect()
    }

    /// A plan without steps, of these inputs and of outputs of these bytes and alignments.
    pub(super) fn plan(&self, operator: &'static str, inputs: &[TensorSpec], outputs: &[(u64, u64)]) -> Plan {
        const NAMES: [[&str; 3]; 2] = [
            ["the input", "the first input", "the second input"],
            ["the output", "the first output", "the second output"],
        ];
        let name = |side: usize, i: usize, count: usize| NAMES[side][if count == 1 { 0 } else { i + 1 }];
        let mut plan = Plan::new(operator);
        for (i, spec) in inputs.iter().enumerate() {
            plan = plan.input(spec.operand(name(0, i, inputs.len())));
        }
        for (i, (bytes, alignment)) in outputs.iter().enumerate() {
            plan = plan.output(OperandSpec::new(name(1, i, outputs.len()), *bytes, *alignment));
        }
        plan
    }

    /// All inputs and all outputs, as kernels take them.
    pub(super) fn operands(&self) -> ([Option<Operand>; MAX_INPUTS], [Option<Operand>; MAX_OUTPUTS]) {
        let inputs = first_of((0..self.inputs().len()).map(Operand::Input));
        (inputs, first_of((0..self.outputs().len()).map(Operand::Output)))
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.inputs(), self.outputs());
        f.debug_struct("Definition")
            .field("name", &self.name)
            .field("inputs", &inputs)
            .field("outputs", &outputs)
            .finish()
    }
}
