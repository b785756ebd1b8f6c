//! Parts of the program that none of its commands shows by themselves.
//!
//! They are compiled here a second time, by the file, with the tests at the end of each: a second
//! build of the whole program for them would cost more than all of its other tests.

#![allow(dead_code, unused_imports, reason = "the tests in these files are what is used of them")]

#[path = "../../src/measure/case.rs"]
mod case;
#[path = "../../src/device_choice.rs"]
mod device_choice;
#[path = "../../src/failure.rs"]
mod failure;
#[path = "../../src/host.rs"]
mod host;
#[path = "../../src/advise/instruction.rs"]
mod instruction;
#[path = "../../src/bench/markdown.rs"]
mod markdown;
#[path = "../../src/model/mod.rs"]
mod model;
#[path = "../../src/ladder/note.rs"]
mod note;
#[path = "../../src/npy.rs"]
mod npy;
#[path = "../../src/output.rs"]
mod output;
#[path = "../../src/profile.rs"]
mod profile;
#[path = "../../src/progress.rs"]
mod progress;
#[path = "../../src/inspect/ptxas.rs"]
mod ptxas;
#[path = "../../src/smi.rs"]
mod smi;
#[path = "../../src/sim/source_text.rs"]
mod source_text;
#[path = "../../src/sim/spec.rs"]
mod spec;
#[path = "../../src/suggestion.rs"]
mod suggestion;
#[path = "../../src/sim/suppress.rs"]
mod suppress;
#[path = "../../src/sim/tensor.rs"]
mod tensor;
#[path = "../../src/measure/values.rs"]
mod values;

// What these files call `crate::…`.
use warpfold_report::{json, table};
