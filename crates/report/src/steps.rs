//! The steps of a warp, and elements of outputs with who stored them, as a page has them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use warpfold_sim::{LastWriter, RecordedSteps, WarpStep};

use crate::drawing::{Access, access};

/// A warp's steps with the outputs of its launch, for a page that goes through them forwards and
/// backwards.
#[derive(Debug, Clone, Serialize)]
pub struct WarpSteps {
    block: [u32; 3],
    warp: u32,
    /// Name and declared type.
    registers: Vec<(String, String)>,
    /// Line, text and source line.
    instructions: Vec<(u32, String, Option<String>)>,
    steps: Vec<OneStep>,
    num_steps: u64,
    /// Stores of other warps and of bulk copies to shared memory: steps before it, line, access,
    /// the step that issued it.
    stores: Vec<(u32, u32, Access, Option<u32>)>,
    outputs: Vec<ShownOutput>,
    /// The first step that the page shows.
    start: u32,
}

#[derive(Debug, Clone, Serialize)]
struct OneStep {
    /// Index into the instructions.
    at: usize,
    mask: u32,
    active: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    open: bool,
    /// Register and its values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    written: Vec<(u32, Value)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accesses: Vec<Access>,
    /// Words of shared memory and their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared: Vec<(u32, u32)>,
}

/// Elements of an array that a launch wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputElements {
    /// Name of the array.
    pub name: String,
    /// Element type.
    pub dtype: &'static str,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Index of the first element that is shown, in row-major order.
    pub first: u64,
    /// Address of that element.
    pub address: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Elements as bits.
    pub bits: Vec<u64>,
}

#[derive(Debug, Clone, Serialize)]
struct ShownOutput {
    name: String,
    dtype: &'static str,
    shape: Vec<u64>,
    first: u64,
    bits: Vec<Value>,
    /// Last store of each element: block, warp, lane, line, step, and the word of shared memory
    /// that a bulk copy brought.
    writers: Vec<Option<(u64, u32, u32, u32, Option<u32>, Option<u32>)>>,
}

impl WarpSteps {
    /// The steps of a report, with elements of the outputs. The page begins with the step that
    /// stored `wanted`, an address, if it is one of this warp.
    #[must_use]
    pub fn new(steps: &RecordedSteps, outputs: &[OutputElements], wanted: Option<u64>) -> Self {
        let mut instructions: Vec<(u32, String, Option<String>)> = Vec::new();
        let mut places: BTreeMap<(u32, &str), usize> = BTreeMap::new();
        let list = steps.list.iter().map(|step| {
            let at = *places.entry((step.line, &step.text)).or_insert_with(|| {
                instructions.push((step.line, step.text.clone(), step.source.as_ref().map(|s| s.to_string())));
                instructions.len() - 1
            });
            one(step, at)
        });
        let list = list.collect();
        let writer = |address| {
            let found = steps.writers.binary_search_by_key(&address, |writer| writer.address);
            found.ok().map(|at| steps.writers[at])
        };
        Self {
            block: steps.block,
            warp: steps.warp,
            registers: steps.registers.iter().map(|r| (r.name.clone(), r.ty.clone())).collect(),
            instructions,
            steps: list,
            num_steps: steps.num_steps,
            stores: steps.stores.iter().map(|s| (s.before, s.line, access(&s.access), s.step)).collect(),
            outputs: outputs.iter().map(|output| self::output(output, &writer)).collect(),
            start: wanted.and_then(writer).and_then(|writer| writer.step).unwrap_or(0),
        }
    }
}

fn one(step: &WarpStep, at: usize) -> OneStep {
    OneStep {
        at,
        mask: step.mask,
        active: step.active,
        open: step.is_open,
        written: step.written.iter().map(|w| (w.register, values(&w.values))).collect(),
        accesses: step.accesses.iter().map(access).collect(),
        shared: step.shared.clone(),
    }
}

fn output(output: &OutputElements, writer: &impl Fn(u64) -> Option<LastWriter>) -> ShownOutput {
    let of = |element: usize| {
        let LastWriter { block, warp, lane, line, step, from, .. } =
            writer(output.address + element as u64 * output.element_bytes)?;
        Some((block, warp, lane, line, step, from.map(|from| from / 4)))
    };
    ShownOutput {
        name: output.name.clone(),
        dtype: output.dtype,
        shape: output.shape.clone(),
        first: output.first,
        bits: output.bits.iter().map(|bits| value((*bits).into())).collect(),
        writers: (0..output.bits.len()).map(of).collect(),
    }
}

/// Values of 32 lanes: one where all are equal, the first and the difference where that is one
/// number, or all.
fn values(lanes: &[u128; 32]) -> Value {
    let step = lanes[1].wrapping_sub(lanes[0]);
    let is_strided = lanes.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(step));
    match (is_strided, step) {
        (true, 0) => value(lanes[0]),
        (true, 1..=0xffff) => json!({ "from": value(lanes[0]), "step": step as u64 }),
        _ => lanes.iter().map(|bits| value(*bits)).collect(),
    }
}

/// Bits as a number, or as hexadecimal text where a script's numbers are not exact.
fn value(bits: u128) -> Value {
    // THRESHOLD: larger numbers are text, as a script's numbers have 53 bits; tested by
    // crates/report/src/steps.rs::values_of_lanes_are_as_short_as_they_can_be
    if bits < 1 << 53 { json!(bits as u64) } else { json!(format!("{bits:#x}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_lanes_are_as_short_as_they_can_be() {
        assert_eq!(values(&[7; 32]), json!(7));
        assert_eq!(values(&std::array::from_fn(|lane| 100 + 4 * lane as u128)), json!({"from": 100, "step": 4}));
        let squares = std::array::from_fn(|lane| (lane * lane) as u128);
        assert_eq!(values(&squares).as_array().map(Vec::len), Some(32));
        assert_eq!([value((1 << 53) - 1), value(1 << 53)], [json!((1_u64 << 53) - 1), json!("0x20000000000000")]);
        assert_eq!(value(7 << 64 | 5), json!("0x70000000000000005"));
    }
}
