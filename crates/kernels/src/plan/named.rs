//! Arguments of a step by name: the host's side of [`params!`](warpfold_lang::params!) structures.

use warpfold_lang::{
    self as lang, Arguments, Global, NamedArgument, NamedParam, Numbers, Param, Params, Side, Sink, Strided, TensorMap,
};

use super::{Arg, MemoryMap, Operand, OperandSpec, Plan, Step, TensorSpec};
use crate::layout::Layout;
use crate::{Error, ErrorKind};

/// The host's side of a [`params!`](warpfold_lang::params!) structure: operands of a plan, numbers.
#[derive(Debug, Clone, Copy)]
pub struct Planned;

impl Side for Planned {
    type Pointer<T: lang::Element> = Operand;
    type Pointers<T: lang::Element, const N: usize> = [Option<Operand>; N];
    type Tensor<const RANK: usize> = TensorArg;
    type Map<T: lang::Element> = MemoryMap;
    type Scalar<T: lang::Element + Param> = T;
    type Lazy<T: lang::Element + Param> = T;
    type Array<T: lang::Element + Param, const N: usize> = [T; N];
    type Optional<P: NamedParam> = Option<P::On<Self>>;
}

/// A tensor and the memory of the plan that begins with its first element.
#[derive(Debug, Clone)]
pub struct TensorArg {
    operand: Operand,
    layout: Layout,
}

impl TensorSpec {
    /// The tensor in a memory of a plan.
    #[must_use]
    pub fn at(&self, operand: Operand) -> TensorArg {
        TensorArg { operand, layout: self.layout.clone() }
    }
}

impl From<TensorArg> for Operand {
    fn from(tensor: TensorArg) -> Self {
        tensor.operand
    }
}

/// The first of up to `N` memories.
pub(crate) fn first_of<const N: usize>(operands: impl IntoIterator<Item = Operand>) -> [Option<Operand>; N] {
    let mut operands = operands.into_iter();
    let first = std::array::from_fn(|_| operands.next());
    assert!(operands.next().is_none(), "there are at most {N} operands");
    first
}

impl Plan {
    /// Adds an input after the others, and gives its memory.
    #[must_use]
    pub fn add_input(&mut self, spec: OperandSpec) -> Operand {
        self.inputs.push(spec);
        Operand::Input(self.inputs.len() - 1)
    }

    /// Adds an output after the others, and gives its memory.
    #[must_use]
    pub fn add_output(&mut self, spec: OperandSpec) -> Operand {
        self.outputs.push(spec);
        Operand::Output(self.outputs.len() - 1)
    }

    /// Adds a tensor to the inputs.
    #[must_use]
    pub fn read(&mut self, name: &'static str, tensor: &TensorSpec) -> TensorArg {
        tensor.at(self.add_input(tensor.operand(name)))
    }

    /// Adds a tensor to the outputs.
    #[must_use]
    pub fn write(&mut self, name: &'static str, tensor: &TensorSpec) -> TensorArg {
        tensor.at(self.add_output(tensor.operand(name)))
    }
}

impl Step {
    /// Adds the arguments of a [`params!`](warpfold_lang::params!) structure.
    ///
    /// # Errors
    /// [`ErrorKind::TooManyDimensions`] and [`ErrorKind::TooLarge`] for tensors that do not fit
    /// their parameters.
    pub fn with<Ps: Params>(mut self, args: impl Arguments<Ps, Self>) -> Result<Self, Error> {
        args.pass_all(&mut self)?;
        Ok(self)
    }
}

impl Sink for Step {
    type Error = Error;

    fn push(&mut self, little_endian: &[u8], align: usize) -> Result<(), Error> {
        self.args.push(Arg::Bytes { bytes: little_endian.to_vec(), alignment: align });
        Ok(())
    }
}

impl<T: lang::Element> NamedArgument<Global<T>, Step> for Operand {
    fn pass(self, step: &mut Step, _: &mut Numbers) -> Result<(), Error> {
        step.args.push(self.into());
        Ok(())
    }
}

impl<T: lang::Element, const N: usize> NamedArgument<[Global<T>; N], Step> for [Option<Operand>; N] {
    fn pass(self, step: &mut Step, _: &mut Numbers) -> Result<(), Error> {
        step.args.extend(self.map(|operand| operand.map_or(Arg::Null, Arg::from)));
        Ok(())
    }
}

impl<T: lang::Element> NamedArgument<TensorMap<T>, Step> for MemoryMap {
    fn pass(self, step: &mut Step, _: &mut Numbers) -> Result<(), Error> {
        step.args.push(Arg::TensorMap(Box::new(self)));
        Ok(())
    }
}

impl<const RANK: usize> NamedArgument<Strided<RANK>, Step> for TensorArg {
    fn pass(self, step: &mut Step, numbers: &mut Numbers) -> Result<(), Error> {
        let (shape, strides) = (self.layout.shape(), self.layout.strides());
        if shape.len() > RANK {
            return Err(ErrorKind::TooManyDimensions(shape.len()).into());
        }
        step.args.push(self.operand.into());
        for dim in 0..RANK {
            numbers.push(&(strides.get(dim).map_or(0, |stride| *stride as i64)).to_le_bytes(), 8);
        }
        for dim in 0..RANK {
            let size = shape.get(dim).map_or(1, |size| *size as u64);
            let too_large = |_| ErrorKind::TooLarge { what: "a dimension", size, limit: u32::MAX.into() };
            numbers.push(&u32::try_from(size).map_err(too_large)?.to_le_bytes(), 4);
        }
        Ok(())
    }
}
