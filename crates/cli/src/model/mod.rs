//! Language models for the subcommands that run them: where they are, how they are loaded, how the
//! engine runs them.

mod adapters;
mod hub;
mod locate;
mod options;
mod pace;
mod place;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use warpfold::Dtype;
use warpfold_engine::Config;
use warpfold_engine::sizing::Sizing;
use warpfold_models::{ModelFiles, SHIPPED, SamplingDefaults, Steps, Warmed, WeightsDigest};

use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) use adapters::{AdapterOptions, LoadedAdapters};
use locate::locate;
pub(crate) use locate::{is_words, name};
pub(crate) use options::{EngineOptions, Room};
pub(crate) use place::{DraftFiles, Place, PlacedModel};

/// Returns whether the built-in model is selected.
pub(crate) fn is_shipped(model: Option<&str>) -> bool {
    model.is_none_or(|model| model == SHIPPED && !Path::new(model).exists())
}

/// The files of a model; without a name, of the one that is part of the program.
pub(crate) fn open(model: Option<&str>) -> Result<ModelFiles, Failure> {
    match model.filter(|_| !is_shipped(model)) {
        None => Ok(ModelFiles::shipped()?),
        Some(model) => Ok(ModelFiles::open(&locate(model)?)?),
    }
}

/// Source of the default sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GenerationConfig {
    /// The model's generation_config.json.
    Auto,
    /// Temperature 1, and no other rule.
    None,
}

impl GenerationConfig {
    /// The sampling that holds.
    pub(crate) fn of(self, files: &ModelFiles) -> SamplingDefaults {
        match self {
            Self::Auto => files.sampling_defaults().clone(),
            Self::None => SamplingDefaults::default(),
        }
    }
}

/// Form of weights of few bits on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WeightStorage {
    /// Codes of the file, in another order.
    Stored,
    /// Numbers of the type that is computed in.
    Converted,
}

/// Rounding of weights when they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Quantize {
    /// 8 bits (GGUF's Q8_0).
    Int8,
    /// 4 bits (GGUF's Q4_0).
    Int4,
}

impl fmt::Display for Quantize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        })
    }
}

/// Form of the weights on the device.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct WeightOptions {
    /// Storage of quantized weights on the device: stored keeps the codes of the file, converted
    /// decodes them to the compute type; answers are the same bit by bit. Default: stored on Hopper
    /// GPUs, converted elsewhere.
    #[arg(long, value_name = "HOW")]
    pub(crate) weights: Option<WeightStorage>,
    /// Round the matrices of layers when they are loaded, to 8 or 4 bits and a scale for each 32
    /// weights; embeddings, the head and experts stay as they are, and so do weights of few bits.
    /// bench quality prints what it costs.
    #[arg(long, value_name = "BITS")]
    pub(crate) quantize: Option<Quantize>,
}

/// The types that can be computed in.
pub(crate) fn parse_dtype(name: &str) -> Result<Dtype, String> {
    match name {
        "f32" => Ok(Dtype::F32),
        "f16" => Ok(Dtype::F16),
        "bf16" => Ok(Dtype::Bf16),
        other => Err(format!("{other} is not f32, f16 or bf16")),
    }
}

/// Brings the weights to where the model runs, with a bar for those who watch, and meanwhile
/// compiles the kernels of such steps. Before that it says what a token will take where that is
/// long, in short if the device was asked for by name.
pub(crate) fn load(
    files: &ModelFiles,
    place: &Place,
    dtype: Option<Dtype>,
    steps: Option<Steps>,
    named: Option<&str>,
) -> Result<PlacedModel, Failure> {
    let dtype = dtype.unwrap_or(files.dtype());
    let (need, free) = (place.weight_bytes(files, dtype), place.free_memory_bytes()?);
    if need > free {
        let missing = need - free;
        return Err(Failure::run(format!(
            "{missing} bytes of device memory are missing for the weights: they take {need}, and {free} are free; \
             free some, or take another --device or --dtype"
        )));
    }
    pace::tell(place, files, dtype, named)?;
    let steps = steps.filter(|_| !place.is_virtual());
    let warm_up = steps.map(|steps| place.warm_up(files, dtype, steps)).transpose()?;
    let progress = Progress::new();
    progress.begin("loading weights");
    let model = place.load(files, dtype, &mut |done, all| progress.show_bytes(done, all));
    progress.end();
    let mut model = model?;
    if let Some(warm_up) = warm_up {
        progress.begin("compiling kernels");
        let warmed = warm_up.finish();
        progress.end();
        model.set_warmed(warmed?);
    }
    Ok(model)
}

/// Formats the result of a warm-up as a line.
pub(crate) fn told(warmed: &Warmed) -> String {
    let Warmed { kernels, time, threads } = warmed;
    format!("{kernels} kernels compiled in {:.2} s, by {threads} threads beside the loading\n", time.as_secs_f64())
}

/// The digest of weights that were compared with their files, as a line.
pub(crate) fn told_digest(digest: Option<WeightsDigest>) -> String {
    digest.map_or_else(String::new, |digest| format!("weights are those of the files, digest {digest}\n"))
}

/// Runs the largest step without a cache and compares what it took with what was computed. Returns
/// the bytes.
pub(crate) fn dry_run(model: &mut PlacedModel, config: &Config, sizing: &Sizing) -> Result<u64, Failure> {
    let progress = Progress::new();
    progress.begin("measuring the largest step");
    let peak = model.dry_run(config);
    progress.end();
    let rows = config.budget;
    let peak = peak.map_err(|e| {
        Failure::run(format!("the largest step, of {rows} rows, cannot be run: {e}; lower --budget or --max-seqs"))
    })?;
    sizing.check_peak(peak)?;
    Ok(peak)
}

/// Time limit of step capture before the first request.
const CAPTURE_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use warpfold_device::{Device, Profile};

    use super::*;

    fn options(args: &[&str]) -> EngineOptions {
        let command = EngineOptions::augment_args(clap::Command::new("test"));
        let matches = command.get_matches_from([&["test"], args].concat());
        EngineOptions::from_arg_matches(&matches).expect("the arguments are options")
    }

    /// Why the model that ships cannot be run with so much memory.
    fn failure(memory_bytes: u64, args: &[&str]) -> String {
        let device = Device::virtual_gpu_with_memory(Profile::H200, memory_bytes);
        let run = || {
            let files = open(None)?;
            let free_bytes = device.free_memory_bytes()?;
            let mut model = load(&files, &Place::One(device.clone()), None, None, None)?;
            let room = Room { longest: 512, enough_blocks: 1000, free_bytes };
            let (config, sizing) = options(args).config(&model, room)?;
            dry_run(&mut model, &config, &sizing)
        };
        run().map(|peak| format!("it took {peak} bytes")).unwrap_or_else(|failure| failure.to_string())
    }

    #[test]
    fn too_little_memory_is_an_error_in_bytes_that_names_the_flags() {
        let weights = failure(1 << 20, &[]);
        let expected =
            "2375104 bytes of device memory are missing for the weights: they take 3423680, and 1048576 are free";
        assert!(weights.starts_with(expected), "{weights}");
        let cache = failure(512 << 20, &["--budget", "64", "--max-seqs", "4"]);
        assert!(cache.contains(" bytes of device memory are missing for the KV cache: "), "{cache}");
        assert!(cache.ends_with("raise --memory, or lower --budget or --max-len"), "{cache}");
        let given = failure(1 << 30, &["--budget", "64", "--max-seqs", "4", "--kv-bytes", "100000"]);
        assert!(given.contains("--kv-bytes gives 100000, a sequence of 512 tokens needs 675840"), "{given}");
        assert!(given.ends_with("raise --kv-bytes, or lower --max-len"), "{given}");
        let fits = failure(1 << 30, &["--budget", "32", "--max-seqs", "4", "--max-len", "64"]);
        assert!(fits.starts_with("it took "), "{fits}");
    }
}
