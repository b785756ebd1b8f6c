//! The reference, which python3 runs with NumPy, once for all cases.

use std::io::Write;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::json;

use super::task::{Case, Content, Role, Task};
use crate::exercise::check::python3;
use crate::failure::Failure;

/// An array as the reference gives it.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) shape: Vec<usize>,
    pub(super) elements: Elements,
}

/// Elements of a reference.
#[derive(Debug)]
pub(super) enum Elements {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Expected {
    /// Returns true if the bits are the same, too: numbers that are none are equal.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let has_same_elements = match (&self.elements, &other.elements) {
            (Elements::Floats(one), Elements::Floats(other)) => {
                one.iter().map(|x| x.to_bits()).eq(other.iter().map(|x| x.to_bits()))
            }
            (Elements::Integers(one), Elements::Integers(other)) => one == other,
            _ => false,
        };
        has_same_elements && self.shape == other.shape
    }
}

/// The head of an array in the answer.
#[derive(Debug, Deserialize)]
struct Head {
    is_float: bool,
    shape: Vec<usize>,
}

/// The outputs that are expected of each case.
pub(super) fn expected(
    task: &Task,
    cases: &[Case],
    contents: &[Vec<Content>],
    reference: &str,
) -> Result<Vec<Vec<Expected>>, Failure> {
    let mut blob = Vec::new();
    let mut heads = Vec::new();
    for (case, contents) in cases.iter().zip(contents) {
        let mut args = Vec::new();
        for (arg, content) in task.args.iter().zip(contents).filter(|(arg, _)| arg.role != Role::Out) {
            blob.extend_from_slice(&content.data);
            let (dtype, bytes) = (arg.dtype.numpy(), content.data.len());
            args.push(json!({"name": arg.name, "dtype": dtype, "shape": content.shape, "bytes": bytes}));
        }
        heads.push(json!({"sizes": case.sizes, "args": args}));
    }
    let mut input = json!({"reference": reference, "cases": heads}).to_string().into_bytes();
    input.push(b'\n');
    input.append(&mut blob);
    let output = python(&["-c", include_str!("reference.py")], &input)?;
    read(&output).ok_or_else(|| Failure::run("the reference printed something"))
}

fn read(output: &[u8]) -> Option<Vec<Vec<Expected>>> {
    let line = output.iter().position(|&byte| byte == b'\n')?;
    let heads: Vec<Vec<Head>> = serde_json::from_slice(&output[..line]).ok()?;
    let mut words = output[line + 1..].as_chunks::<8>().0.iter();
    let mut take = |head: Head| {
        let len = head.shape.iter().product();
        let part: Vec<[u8; 8]> = words.by_ref().take(len).copied().collect();
        let elements = if head.is_float {
            Elements::Floats(part.into_iter().map(f64::from_le_bytes).collect())
        } else {
            Elements::Integers(part.into_iter().map(i64::from_le_bytes).collect())
        };
        Expected { shape: head.shape, elements }
    };
    Some(heads.into_iter().map(|case| case.into_iter().map(&mut take).collect()).collect())
}

/// Runs Python on an input, and returns what it prints; `PYTHON` names another interpreter.
pub(super) fn python(args: &[&str], input: &[u8]) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::run(format!("python3: {error}"));
    let mut command = python3();
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    // One that ends early says on standard error why.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.trim_end().lines().next_back().unwrap_or("it failed");
    Err(Failure::usage(format!("python3: {last}")))
}
