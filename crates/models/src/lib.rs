//! Language models: their files, their tokenizers, and their layers over [`warpfold`]'s tensors.
//!
//! Start with [`ModelFiles::open`], which takes a folder as Hugging Face has it (`config.json`,
//! safetensors, `tokenizer.json`) or a GGUF file, or with [`ModelFiles::shipped`], a small model
//! that needs no file; [`ModelFiles::load`] brings the weights to a
//! device and gives a [`LanguageModel`], which [`warpfold_engine::Engine`] runs:
//!
//! ```no_run
//! use warpfold::{Device, Queue};
//! use warpfold_engine::{Config, Engine, Request};
//! use warpfold_models::ModelFiles;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let files = ModelFiles::open("SmolLM2-135M-Instruct".as_ref())?;
//!     let tokenizer = files.tokenizer().ok_or("there is no tokenizer")?;
//!     let model = files.load(&Queue::of(&Device::best()), files.dtype(), &mut |_, _| ())?;
//!     let mut engine = Engine::new(model, Config::default())?;
//!     let id = engine.add(Request::greedy(tokenizer.encode("The capital of France is")?, 8))?;
//!     println!("{}", tokenizer.decode(&engine.run_to_end()?[&id][0].ids()));
//!     Ok(())
//! }
//! ```
//!
//! # Where things are
//!
//! `adapter.rs` reads low-rank adapters, `config/` reads sizes, `files/` weights, `tokenizer/`
//! vocabularies, `template.rs` chat templates; `layers/` has the parts that `architectures/` are
//! made of, one file an architecture; `language_model.rs` is the engine's model, `graphs.rs`
//! captures its steps, `draws.rs` its draws, `network.rs` has the weights, `weights/` compares them
//! with the files, `dry_run.rs` measures the largest step, `warm_up.rs` compiles kernels ahead;
//! `parallel.rs` is one model on several devices, of which `layers/shard.rs` says what each has;
//! `shipped.rs` is the model that is part of the program; `grammar.rs` constrains answers to JSON
//! of a schema and other grammars, `dialect/` has the ways in which models write calls of tools and
//! reasoning. A new architecture is a name in `config/mod.rs` and a file in `architectures/`.
//!
//! # What is absent on purpose
//!
//! Kernels, schedules, HTTP and downloads. Whatever a file asks for that is not here is an error
//! that names the file and the field or tensor.

mod adapter;
mod architectures;
mod config;
mod dialect;
mod draws;
mod dry_run;
mod error;
mod files;
mod grammar;
mod graphs;
mod language_model;
mod layers;
mod network;
mod parallel;
mod python_json;
#[cfg(test)]
mod registry;
mod shipped;
mod template;
mod tokenizer;
mod warm_up;
mod weights;

pub use adapter::{AdapterRoom, AdapterWeights};
pub use config::{
    Architecture, ExpertsConfig, ModelConfig, Multipliers, PoolingDefaults, Rope, RopeScaling, SamplingDefaults,
};
pub use dialect::{Dialect, Piece, Splitter, Thinking, Tool, ToolChoice, ToolFormat, Turn};
pub use error::{Error, ErrorKind};
pub use grammar::{Grammar, Grammars};
pub use language_model::{LanguageModel, ModelFiles, NewWeights, Rounding};
pub use parallel::ParallelModel;
pub use shipped::{SHIPPED, SHIPPED_OPENING};
pub use template::{ChatOptions, ChatTemplate, utc_now};
pub use tokenizer::Tokenizer;
pub use warm_up::{Steps, WarmUp, Warmed};
pub use weights::WeightsDigest;
