//! `generate`: a model answers prompts.
//!
//! `options` is what a user asks for, `requests` makes requests of it, `report` prints what comes
//! back; the engine and the models are libraries.

mod options;
mod report;
mod requests;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use warpfold::{Dtype, Queue};
use warpfold_engine::{Config, Engine, Model, Output, Request, RequestId};
use warpfold_models::{LanguageModel, ModelFiles, Tokenizer};

use crate::failure::Failure;
use crate::model::{self, EngineOptions, Room, parse_dtype};
use crate::{Ending, device_choice};
use options::Answer;
use requests::{Asked, Prompt};

/// Answers prompts with a language model: a folder as Hugging Face has it, or a .gguf file.
///
/// Example: warpfold generate SmolLM2-135M-Instruct.gguf "The capital of France is" --max-tokens 8
/// --temperature 0. An answer never depends on which other prompts are answered beside it, nor on
/// the options of the engine. Exit codes: 0 done, 2 bad input, 4 a run failed.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// A folder with config.json, safetensors and tokenizer.json; a .gguf file; or a name such as
    /// Qwen/Qwen3-0.6B of what lies in the Hugging Face cache.
    model: String,
    /// What the model is to continue; several give an answer each.
    #[arg(value_name = "PROMPT")]
    prompts: Vec<String>,
    /// A prompt as tokens, such as 1,2,3.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    prompt_tokens: Vec<u32>,
    /// Prompts of a file, one JSON object a line: `prompt` or `prompt_tokens`, and any of
    /// max_tokens, temperature, top_k, top_p, min_p, seed, n, stop, ignore_eos, logprobs. What a
    /// line does not say is as the options here say.
    #[arg(long, value_name = "FILE.jsonl")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    answer: Answer,
    #[command(flatten)]
    engine: EngineOptions,
    /// The type that is computed in: f32, f16 or bf16; unless given that of the weights (bf16 of
    /// quantized ones).
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    /// virtual, virtual:h200, virtual:a100 or cuda:N; unless given what WARPFOLD_DEVICE says, or
    /// the best there is.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// A line of JSON for each prompt, in their order.
    #[arg(long)]
    json: bool,
}

impl Generate {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let files = ModelFiles::open(&model::locate(Some(&self.model))?)?;
        let asked = self.requests(&files)?;
        let device = device_choice::open(self.device.as_deref())?;
        let free_bytes = device.free_memory_bytes()?;
        let model = model::load(&files, &Queue::of(&device), self.dtype)?;
        let config = self.config(&model, &asked, free_bytes)?;
        let tokenizer = files.into_tokenizer().map(Arc::new);
        let mut engine = Engine::new(model, config)?;
        if let Some(tokenizer) = &tokenizer {
            engine = engine.with_decode(tokenizer.clone());
        }
        self.answer(engine, &asked)
    }

    /// The requests of the command line, then those of the file.
    fn requests(&self, files: &ModelFiles) -> Result<Vec<Request>, Failure> {
        let max_len = self.engine.max_len.unwrap_or(usize::MAX).min(files.config().max_len);
        let of = Asked { tokenizer: files.tokenizer(), max_len };
        let mut all = Vec::new();
        for text in &self.prompts {
            all.push(requests::request(Prompt::Text(text.clone()), &self.answer, of)?);
        }
        if !self.prompt_tokens.is_empty() {
            all.push(requests::request(Prompt::Tokens(self.prompt_tokens.clone()), &self.answer, of)?);
        }
        if let Some(file) = &self.requests {
            all.append(&mut requests::of_file(file, &self.answer, of)?);
        }
        if all.is_empty() {
            return Err(Failure::usage("a prompt is needed: as an argument, with --prompt-tokens or with --requests"));
        }
        Ok(all)
    }

    /// The engine's settings: the cache holds what the requests can need at the same time.
    fn config(&self, model: &LanguageModel, asked: &[Request], free_bytes: u64) -> Result<Config, Failure> {
        let (max_len, block_size) = (model.limits().max_len, Config::default().block_size);
        let longest = |r: &Request| (r.prompt.len() + r.max_tokens.unwrap_or(max_len)).min(max_len);
        let blocks = |r: &Request| (longest(r).div_ceil(block_size) + 1) * r.num_sequences();
        let wanted = asked.iter().map(blocks).fold(2_usize, usize::saturating_add);
        let room = Room {
            longest: asked.iter().map(longest).max().unwrap_or(1),
            // Admission leaves a share of the blocks free.
            enough_blocks: wanted.saturating_add(wanted / 50 + 2),
            free_bytes,
        };
        Ok(self.engine.config(model, room)?.0)
    }

    fn answer(&self, mut engine: Engine<LanguageModel>, asked: &[Request]) -> Result<Ending, Failure> {
        let ids: Vec<RequestId> = asked.iter().map(|r| engine.add(r.clone())).collect::<Result<_, _>>()?;
        let streams =
            !self.json && asked.len() == 1 && asked[0].num_sequences() == 1 && std::io::stdout().is_terminal();
        let answers = if streams { report::stream(&mut engine)? } else { engine.run_to_end()? };
        let answer_of = |id| answers.get(id).map_or(&[] as &[Output], Vec::as_slice);
        for (id, request) in ids.iter().zip(asked) {
            match (self.json, streams) {
                (true, _) => report::json(request, answer_of(id))?,
                (false, true) => {}
                (false, false) => report::text(answer_of(id))?,
            }
        }
        Ok(Ending::Clean)
    }
}

/// Answers by request.
type Answers = BTreeMap<RequestId, Vec<Output>>;

/// What a tokenizer is wanted for, where a model has none.
fn needed<'a>(tokenizer: Option<&'a Tokenizer>, what: &str) -> Result<&'a Tokenizer, Failure> {
    tokenizer.ok_or_else(|| Failure::usage(format!("{what} needs a tokenizer, and the model has no tokenizer.json")))
}
