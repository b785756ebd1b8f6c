//! The library's attention of a ladder's problem: its plan, as one launch, and what it is launched
//! with.

use half::bf16;
use warpfold_device::{Arguments, Device, Profile, View, ViewMut};
use warpfold_kernels::attention::{Attention, Causal, Choice, Keys, Problem, Queries};
use warpfold_kernels::plan::{Arg, KernelCache, Operand, Plan, Planner};
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Arch, Target};

use super::cache::PAGE;
use crate::Error;
use crate::ladder::{Guarded, Guards, Heads};

/// Kernels for Hopper, whose number of multiprocessors is that of an H200.
const PROFILE: Profile = Profile::H200;

/// The two ladders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Prefill,
    /// With so many pages.
    Decode(u64),
}

fn problem(of: Of, dtype: Dtype, size: Heads) -> Problem {
    let [length, heads, kv_heads, dim, batch] =
        [size.length, size.heads, size.kv_heads, size.head_dim, size.sequences].map(|number| number as u64);
    // Heads one after the other.
    let by_heads = |heads: u64, length: u64| {
        let [heads, length, dim] = [heads, length, dim].map(|number| number as i64);
        [heads * length * dim, length * dim, dim, 1]
    };
    let queries = |len: u64| {
        let strides @ [sequence, head, position, _] = by_heads(heads, len);
        Queries::Dense { batch, len, strides, out_strides: [sequence, head, position] }
    };
    let (queries, keys) = match of {
        Of::Prefill => {
            let strides = by_heads(kv_heads, length);
            (queries(length), Keys::Dense { len: length, k_strides: strides, v_strides: strides })
        }
        Of::Decode(pages) => {
            let (page, strides) = (u64::from(PAGE), by_heads(kv_heads, PAGE.into()));
            let width = length.div_ceil(page);
            (queries(1), Keys::Paged { page, pages, width, k_strides: strides, v_strides: strides })
        }
    };
    let causal = size.causal.then_some(Causal::BottomRight);
    Problem { causal, ..Problem::new(dtype, [heads, kv_heads], [dim; 2], queries, keys) }
}

/// Its plan for an H200, with one launch: where few blocks would share keys, as it is in decode,
/// the last of them merges.
pub(super) fn plan(of: Of, dtype: Dtype, size: Heads) -> Plan {
    let (target, kernels) = (Target::new(Arch::SM_90A, (8, 0)), KernelCache::default());
    let limits = PROFILE.limits();
    let (planner, problem) = (Planner::new(&target, &limits, &kernels), problem(of, dtype, size));
    let planned = Attention.choose(&problem, &planner);
    let choice = match of {
        Of::Prefill => Choice { splits: 1, segments: planned.splits * planned.segments, ..planned },
        Of::Decode(_) => Choice { single_launch: planned.splits > 1, ..planned },
    };
    Attention.plan_with(&problem, choice, &planner).expect("a ladder's sizes have a plan")
}

/// The kernel of a plan.
pub(super) fn kernel(plan: &Plan) -> AnyKernel {
    plan.steps[0].kernel.clone()
}

/// Pages of all sequences at most.
pub(super) fn pages(heads: Heads) -> u64 {
    (heads.length.div_ceil(PAGE as usize) * heads.sequences) as u64
}

/// A plan with the memory that it needs beside inputs and results.
pub(super) struct Shipped {
    plan: Plan,
    scratch: Guarded<f32>,
    tickets: Guarded<u32>,
}

impl Shipped {
    pub(super) fn new(device: &Device, plan: Plan, guards: Guards) -> Result<Self, Error> {
        let words = plan.scratch.iter().sum::<u64>().div_ceil(4).max(1) as usize;
        let tickets = vec![0; plan.tickets.max(1) as usize];
        Ok(Self {
            scratch: Guarded::new(device, "scratch", words, guards)?,
            tickets: Guarded::of(device, "tickets", &tickets, guards)?,
            plan,
        })
    }

    /// Returns whether nothing outside its memory was touched, and tickets are zero again.
    pub(super) fn is_intact(&self) -> Result<bool, Error> {
        let (tickets, is_intact) = self.tickets.read()?;
        Ok(is_intact && self.scratch.is_intact()? && tickets.iter().all(|ticket| *ticket == 0))
    }

    /// Returns the arguments of the kernel.
    pub(super) fn arguments<'a>(
        &'a mut self,
        inputs: &[View<'a, u8>],
        results: ViewMut<'a, u8>,
    ) -> Result<Arguments<'a>, Error> {
        let Self { plan, scratch, tickets } = self;
        let (mut results, mut scratch) = (Some(results), Some(scratch.view_mut()?));
        let mut tickets = Some(tickets.view_mut()?);
        let input = |operand: &Operand| match operand {
            Operand::Input(i) => inputs[*i].clone(),
            _ => unreachable!("tensor maps are of inputs"),
        };
        let mut arguments = Arguments::new();
        for arg in &plan.steps[0].args {
            arguments = match arg {
                Arg::TensorMap(map) => {
                    arguments.tensor_map(&input(&map.operand).tensor_map_of::<bf16>(map.first, &map.layout)?)
                }
                Arg::Pointer(operand @ Operand::Input(_)) => arguments.input(input(operand)),
                Arg::Pointer(Operand::Output(_)) => arguments.output(results.take().expect("there is one result")),
                Arg::Pointer(Operand::Scratch(_)) => arguments.output(scratch.take().expect("there is one of scratch")),
                Arg::Pointer(Operand::Tickets) => {
                    arguments.output(tickets.take().expect("a step takes its tickets once"))
                }
                Arg::Null => arguments.value(0_u64),
                Arg::Bytes { bytes, alignment } => arguments.raw(bytes, *alignment),
                Arg::Pointer(Operand::Marks) | Arg::PointerAt(..) => {
                    unreachable!("attention takes no such argument")
                }
            };
        }
        Ok(arguments)
    }
}
