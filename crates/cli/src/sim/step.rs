//! `--step`: the warp whose steps a page goes through, named by itself or by an element that it
//! stored.

use clap::Args;
use warpfold_sim::{AskedSteps, Memory, Report};

use super::bind::Bindings;
use super::{Input, Ran, Sim};
use crate::failure::Failure;
use crate::output::Form;

// THRESHOLD: more steps are refused; tested by
// crates/cli/tests/program/step.rs::steps_that_no_page_can_have_are_refused
/// Steps of a page: more would make it too large for a browser.
const MOST_STEPS: usize = 20_000;

/// Elements of each output that a page shows.
const ELEMENTS: u64 = 256;

/// Options that choose what to step through.
#[derive(Debug, Args)]
pub(super) struct StepOptions {
    /// Step through a warp on the page of --report html, forwards and backwards: BLOCK/WARP (0/0
    /// unless given), or the warp that stored an element of an output last: `--step=out[5]`,
    /// `--step=out[1,2]`. The page has its lanes, registers, bank conflicts and shared memory after
    /// each instruction, and leads from an element to the store that made it.
    #[arg(long, value_name = "WARP", num_args = 0..=1, require_equals = true, default_missing_value = "0/0", value_parser = StepTarget::parse)]
    step: Option<StepTarget>,
    /// Steps that the page has: the first ones of the warp, 20000 at most.
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "step")]
    steps: usize,
}

/// A warp to step through.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StepTarget {
    /// Linear index of the block, and the warp in it.
    Warp(u64, u32),
    /// Name of an array and index of an element.
    Element(String, Vec<u64>),
}

impl StepTarget {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is neither BLOCK/WARP, such as 0/0, nor an element, such as out[5]");
        if let Some((name, index)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            let index: Result<Vec<u64>, _> = index.split(',').map(|number| number.trim().parse()).collect();
            return index.map(|index| Self::Element(name.to_owned(), index)).map_err(|_| wrong());
        }
        let (block, warp) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Self::Warp(block.parse().map_err(|_| wrong())?, warp.parse().map_err(|_| wrong())?))
    }
}

/// Request to a launch to record a warp.
#[derive(Debug, Default)]
pub(super) struct SteppedLaunch {
    pub(super) asked: Option<AskedSteps>,
    /// Address of the element that named the warp.
    pub(super) wanted: Option<u64>,
}

impl StepOptions {
    /// Refuses options that fit no page, before anything is read.
    pub(super) fn check(&self, form: Form) -> Result<(), Failure> {
        match (&self.step, form) {
            (None, _) => Ok(()),
            (Some(_), Form::Table | Form::Json) => {
                Err(Failure::usage("--step is a picture: --report html -o FILE.html"))
            }
            (Some(_), Form::Html) if !(1..=MOST_STEPS).contains(&self.steps) => {
                Err(Failure::usage(format!("--steps: {} is not from 1 to {MOST_STEPS}", self.steps)))
            }
            (Some(_), Form::Html) => Ok(()),
        }
    }

    /// Index of the element that names the warp, in its array.
    pub(super) fn element(&self, bindings: &Bindings) -> Result<Option<(String, u64)>, Failure> {
        match &self.step {
            Some(StepTarget::Element(name, index)) => {
                let (name, at, _) = bindings.element(name, index)?;
                Ok(Some((name, at)))
            }
            Some(StepTarget::Warp(..)) | None => Ok(None),
        }
    }

    /// Returns the request to the launch. An element's warp is found by a run of its own.
    pub(super) fn asked(
        &self,
        sim: &Sim,
        ran: &Ran<'_>,
        input: &Input,
        bindings: &Bindings,
    ) -> Result<SteppedLaunch, Failure> {
        let Some(target) = &self.step else { return Ok(SteppedLaunch::default()) };
        let blocks: u64 = ran.grid.iter().map(|n| u64::from(*n)).product();
        let warps = ran.block.iter().product::<u32>().div_ceil(32);
        let (block, warp, wanted) = match target {
            StepTarget::Warp(block, warp) if *block >= blocks || *warp >= warps => {
                let there = format!("there are {blocks} blocks of {warps} warps");
                return Err(Failure::usage(format!("--step={block}/{warp}: {there}")));
            }
            StepTarget::Warp(block, warp) => (*block, *warp, None),
            StepTarget::Element(name, index) => {
                let (name, at, address) = bindings.element(name, index)?;
                let memory = Memory::far_apart(sim.memory, sim.seed);
                let program = input.load(&memory, sim.arch)?;
                let bindings = sim.bind(&memory, ran, input)?;
                let watched = std::iter::once(address..address + 1).collect();
                let none = AskedSteps { block: u64::MAX, warp: 0, most: 0, watched };
                let report = sim.launch(&program, &memory, bindings.params(), ran, Some(none), false)?;
                let writer = report.steps.and_then(|steps| steps.writers.first().copied());
                let writer = writer.ok_or_else(|| {
                    Failure::usage(format!("--step: the kernel did not write element {at} of {name}"))
                })?;
                (writer.block, writer.warp, Some(address))
            }
        };
        let element = self.element(bindings)?;
        let watched = bindings.seen(ELEMENTS, element.as_ref());
        let watched = watched.iter().map(|seen| seen.address..seen.address + seen.element_bytes * seen.len).collect();
        Ok(SteppedLaunch { asked: Some(AskedSteps { block, warp, most: self.steps, watched }), wanted })
    }

    /// The steps of a report as a page has them.
    pub(super) fn page(
        &self,
        report: &Report,
        wanted: Option<u64>,
        bindings: &Bindings,
        memory: &Memory,
    ) -> Result<Option<warpfold_report::WarpSteps>, Failure> {
        let Some(steps) = &report.steps else { return Ok(None) };
        let element = self.element(bindings)?;
        let outputs = bindings.seen(ELEMENTS, element.as_ref());
        let outputs = outputs.iter().map(|seen| seen.read(memory)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(warpfold_report::WarpSteps::new(steps, &outputs, wanted)))
    }
}
