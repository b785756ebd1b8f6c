//! `--lora`: adapters beside a model.

use std::path::PathBuf;

use clap::Args;
use warpfold_models::{AdapterRoom, AdapterWeights, ModelFiles};

use crate::failure::Failure;

/// The adapters that there are and that there may be.
#[derive(Debug, Clone, Args)]
pub(crate) struct AdapterOptions {
    /// A low-rank adapter in a folder as PEFT writes it (adapter_config.json,
    /// adapter_model.safetensors), under a name that requests have as their model; may be given
    /// several times.
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_adapter)]
    lora: Vec<(String, PathBuf)>,
    /// Adapters at a time; unless given, as many as --lora names. Where there is room for more,
    /// clients load them by /v1/load_lora_adapter.
    #[arg(long, value_name = "N")]
    max_loras: Option<usize>,
    /// The rank of adapters at most, up to 256; unless given, the highest of those that --lora
    /// names, or 16.
    #[arg(long, value_name = "R")]
    max_lora_rank: Option<usize>,
}

/// Names and weights of adapters, and the room that they have.
#[derive(Debug)]
pub(crate) struct LoadedAdapters {
    pub(crate) named: Vec<(String, AdapterWeights)>,
    pub(crate) room: AdapterRoom,
}

fn parse_adapter(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("it is not NAME=PATH".to_owned()),
    }
}

impl AdapterOptions {
    /// Reads the adapters that are named.
    pub(crate) fn open(&self) -> Result<LoadedAdapters, Failure> {
        let mut named: Vec<(String, AdapterWeights)> = Vec::new();
        for (name, path) in &self.lora {
            if named.iter().any(|(other, _)| other == name) {
                return Err(Failure::usage(format!("--lora: {name} is there twice")));
            }
            named.push((name.clone(), AdapterWeights::open(path)?));
        }
        let adapters = self.max_loras.unwrap_or(named.len());
        if adapters < named.len() {
            return Err(Failure::usage(format!("--max-loras: {adapters} is less than the {} of --lora", named.len())));
        }
        let highest = named.iter().map(|(_, weights)| weights.rank()).max();
        let rank = self.max_lora_rank.or(highest).unwrap_or(16);
        if !(1..=AdapterRoom::MOST_RANK).contains(&rank) || highest.is_some_and(|highest| highest > rank) {
            let (least, most) = (highest.unwrap_or(1), AdapterRoom::MOST_RANK);
            return Err(Failure::usage(format!("--max-lora-rank: {rank} is not from {least} to {most}")));
        }
        Ok(LoadedAdapters { named, room: AdapterRoom { adapters, rank } })
    }
}

impl LoadedAdapters {
    /// The files, whose model has room for them; models on several devices take none.
    pub(crate) fn of(&self, files: ModelFiles, devices: Option<usize>) -> Result<ModelFiles, Failure> {
        if self.room.adapters > 0 && devices.is_some() {
            return Err(Failure::usage("--lora: a model that several devices share takes no adapters"));
        }
        Ok(files.with_adapters(self.room))
    }
}
