//! Language models for the subcommands that run them: where they are, how they are loaded, how the
//! engine runs them.

mod locate;
mod options;

use warpfold::{Dtype, Queue};
use warpfold_models::{LanguageModel, ModelFiles};

use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) use locate::{locate, name};
pub(crate) use options::{EngineOptions, Room};

/// The types that can be computed in.
pub(crate) fn parse_dtype(name: &str) -> Result<Dtype, String> {
    match name {
        "f32" => Ok(Dtype::F32),
        "f16" => Ok(Dtype::F16),
        "bf16" => Ok(Dtype::Bf16),
        other => Err(format!("{other} is not f32, f16 or bf16")),
    }
}

/// Brings the weights to a device, with a bar for those who watch.
pub(crate) fn load(files: &ModelFiles, queue: &Queue, dtype: Option<Dtype>) -> Result<LanguageModel, Failure> {
    let progress = Progress::new();
    progress.begin("loading weights");
    let dtype = dtype.unwrap_or(files.dtype());
    let model = files.load(queue, dtype, &mut |done, all| progress.show_bytes(done, all));
    progress.end();
    Ok(model?)
}
