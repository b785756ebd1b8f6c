//! A plan that is loaded on a device: the one launcher.

use half::bf16;
use warpfold_device::{Arguments, Buffer, Device, Element, Function, Stream, View, ViewMut};
use warpfold_lang as lang;

use super::{Arg, MemoryMap, Operand, Plan, Workspace};
use crate::Error;

/// A plan with its kernels loaded. Launching it plans nothing and takes no lock.
#[derive(Debug)]
pub struct Ready {
    plan: Plan,
    functions: Vec<Function>,
}

impl Ready {
    pub(super) fn new(plan: Plan, device: &Device) -> Result<Self, Error> {
        let functions = plan.steps.iter().map(|step| step.kernel.prepare(device)).collect::<Result<_, _>>()?;
        Ok(Self { plan, functions })
    }

    /// What it computes, and how.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The loaded kernels, one for each step.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The same with other functions for its steps: variants of the kernels with the same entry and
    /// parameters, which tests and tuners compare.
    ///
    /// # Panics
    /// Unless there is one for each step.
    #[must_use]
    pub fn with_functions(self, functions: Vec<Function>) -> Self {
        assert_eq!(functions.len(), self.plan.steps.len(), "one function for each step");
        Self { functions, ..self }
    }

    /// Enqueues the fills, then each step. An input that is `None` is the output that its
    /// specification names. Memory beyond what the plan needs stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`](crate::ErrorKind::Operand) for memory that is too short or not
    /// aligned as planned; what the device says.
    ///
    /// # Panics
    /// If there is not one view for each operand of the plan.
    pub fn launch(
        &self,
        stream: &Stream,
        inputs: &[Option<View<'_, u8>>],
        outputs: &mut [ViewMut<'_, u8>],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        self.check(inputs, outputs)?;
        let mut scratch = Vec::with_capacity(self.plan.scratch.len());
        for bytes in &self.plan.scratch {
            scratch.push(workspace.take_scratch(stream.device(), *bytes)?);
        }
        let launched = self.launch_with(stream, inputs, outputs, &mut scratch, workspace);
        // What uses it next comes after this launch on the stream.
        scratch.into_iter().for_each(|buffer| workspace.give_scratch(buffer));
        launched
    }

    fn check(&self, inputs: &[Option<View<'_, u8>>], outputs: &[ViewMut<'_, u8>]) -> Result<(), Error> {
        let Plan { operator, inputs: specs, outputs: written, .. } = &self.plan;
        assert_eq!((inputs.len(), outputs.len()), (specs.len(), written.len()), "one view for each operand");
        for (spec, output) in written.iter().zip(outputs) {
            spec.check(operator, (output.address(), output.num_bytes() as u64))?;
        }
        for (spec, input) in specs.iter().zip(inputs) {
            let place = match (input, spec.alias) {
                (Some(input), _) => (input.address(), input.num_bytes() as u64),
                (None, Some(output)) => (outputs[output].address(), outputs[output].num_bytes() as u64),
                (None, None) => panic!("{operator} was not planned with {} in place", spec.name),
            };
            spec.check(operator, place)?;
        }
        Ok(())
    }

    fn launch_with(
        &self,
        stream: &Stream,
        inputs: &[Option<View<'_, u8>>],
        outputs: &mut [ViewMut<'_, u8>],
        scratch: &mut [Buffer<u8>],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        for fill in &self.plan.fills {
            let whole = match fill.operand {
                Operand::Output(i) => outputs[i].reborrow(),
                Operand::Scratch(i) => scratch[i].as_view_mut(),
                Operand::Input(_) | Operand::Tickets | Operand::Marks => {
                    unreachable!("a plan fills outputs and scratch alone")
                }
            };
            stream.fill_bytes(whole.slice(..fill.bytes as usize)?, fill.byte)?;
        }
        for (step, function) in self.plan.steps.iter().zip(&self.functions) {
            let mut memories = Memories {
                specs: &self.plan.inputs,
                inputs,
                outputs: outputs.iter_mut().map(|view| Some(view.reborrow())).collect(),
                scratch: scratch.iter_mut().map(|buffer| Some(buffer.as_view_mut())).collect(),
                addresses: [Vec::new(), Vec::new()],
            };
            memories.note_addresses();
            // With strides below zero elements lie before their view.
            let mut arguments = Arguments::new().whole_buffers();
            let (mut tickets, mut marks) = workspace.counters(stream.device(), &self.plan, step)?;
            for arg in &step.args {
                arguments = match arg {
                    Arg::Pointer(Operand::Tickets) => {
                        arguments.output(tickets.take().expect("a step takes its tickets once"))
                    }
                    Arg::Pointer(Operand::Marks) => {
                        arguments.output(marks.take().expect("a step takes its marks once"))
                    }
                    Arg::TensorMap(map) => memories.add_map(arguments, map, step.has_pointer_to(map.operand))?,
                    arg => memories.add(arguments, arg)?,
                };
            }
            stream.launch_raw(function, step.config, &arguments)?;
        }
        Ok(())
    }
}

/// The memory of one step. What is written is handed to the launch once; further arguments in the
/// same memory are plain addresses.
struct Memories<'a, 'b> {
    specs: &'a [super::OperandSpec],
    inputs: &'a [Option<View<'b, u8>>],
    outputs: Vec<Option<ViewMut<'a, u8>>>,
    scratch: Vec<Option<ViewMut<'a, u8>>>,
    /// Of outputs and of scratch.
    addresses: [Vec<u64>; 2],
}

impl<'a, 'b: 'a> Memories<'a, 'b> {
    fn note_addresses(&mut self) {
        let of = |views: &[Option<ViewMut<'_, u8>>]| views.iter().flatten().map(ViewMut::address).collect();
        self.addresses = [of(&self.outputs), of(&self.scratch)];
    }

    /// An operand as it is found in memory: an input in place is an output.
    fn resolve(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Input(i) if self.inputs[i].is_none() => {
                Operand::Output(self.specs[i].alias.expect("aliases were checked"))
            }
            operand => operand,
        }
    }

    fn written(&mut self, operand: Operand) -> (&mut Option<ViewMut<'a, u8>>, u64) {
        match operand {
            Operand::Output(i) => (&mut self.outputs[i], self.addresses[0][i]),
            Operand::Scratch(i) => (&mut self.scratch[i], self.addresses[1][i]),
            Operand::Input(_) | Operand::Tickets | Operand::Marks => unreachable!("these are not written through here"),
        }
    }

    fn pointer(&mut self, arguments: Arguments<'a>, operand: Operand, first: u64) -> Result<Arguments<'a>, Error> {
        match self.resolve(operand) {
            Operand::Input(i) => {
                let view = self.inputs[i].clone().expect("resolved to an input that is there");
                Ok(arguments.input(view.slice(first as usize..)?))
            }
            operand => {
                let (view, address) = self.written(operand);
                Ok(match view.take() {
                    Some(view) => arguments.output(view.slice(first as usize..)?),
                    None => arguments.value(address + first),
                })
            }
        }
    }

    fn add(&mut self, arguments: Arguments<'a>, arg: &Arg) -> Result<Arguments<'a>, Error> {
        match arg {
            Arg::Pointer(operand) => self.pointer(arguments, *operand, 0),
            Arg::PointerAt(operand, first) => self.pointer(arguments, *operand, *first),
            Arg::Null => Ok(arguments.value(0_u64)),
            Arg::Bytes { bytes, alignment } => Ok(arguments.raw(bytes, *alignment)),
            Arg::TensorMap(_) => unreachable!("these are added by the launch itself"),
        }
    }

    /// Adds a tensor map. `has_pointer` says that the step also has a pointer to its memory, which
    /// then holds it for the launch.
    fn add_map(
        &mut self,
        arguments: Arguments<'a>,
        map: &MemoryMap,
        has_pointer: bool,
    ) -> Result<Arguments<'a>, Error> {
        // A map of bytes serves all 8-bit types, and so on: TMA moves bits.
        match map.element_bytes {
            1 => self.add_map_of::<u8>(arguments, map, has_pointer),
            2 => self.add_map_of::<bf16>(arguments, map, has_pointer),
            _ => self.add_map_of::<f32>(arguments, map, has_pointer),
        }
    }

    fn add_map_of<T: Element + lang::Element>(
        &mut self,
        arguments: Arguments<'a>,
        map: &MemoryMap,
        has_pointer: bool,
    ) -> Result<Arguments<'a>, Error> {
        let MemoryMap { operand, layout, first, .. } = map;
        let operand = self.resolve(*operand);
        if let Operand::Input(i) = operand {
            let view = self.inputs[i].as_ref().expect("resolved to an input that is there");
            return Ok(arguments.tensor_map(&view.tensor_map_of::<T>(*first, layout)?));
        }
        let (view, _) = self.written(operand);
        if has_pointer {
            let view = view.as_mut().expect("tensor maps of written memory come before pointers to it");
            let encoded = view.reborrow().into_tensor_map_of::<T>(*first, layout)?;
            return Ok(arguments.raw(encoded.bytes(), 64));
        }
        let view = view.take().expect("a step has one tensor map of memory that it writes");
        Ok(arguments.tensor_map(&view.into_tensor_map_of::<T>(*first, layout)?))
    }
}
