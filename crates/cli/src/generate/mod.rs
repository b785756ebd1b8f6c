//! `generate`: a model answers prompts.
//!
//! `options` is what a user asks for, `requests` makes requests of it, `report` prints what comes
//! back; the engine and the models are libraries.

mod lines;
mod options;
mod report;
mod requests;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use warpfold::Dtype;
use warpfold_engine::{Adapter, Config, Constraint, Engine, Limits, Model, Output, Request, RequestId};
use warpfold_models::{
    AdapterRoom, AdapterWeights, ChatTemplate, Grammar, Grammars, ModelConfig, ModelFiles, SHIPPED_OPENING, Tokenizer,
};

use crate::failure::Failure;
use crate::model::{
    self, DraftFiles, EngineOptions, GenerationConfig, Place, PlacedModel, Room, WeightOptions, parse_dtype,
};
use crate::theatre::WatchedEngine;
use crate::{Ending, output};
use lines::Lines;
use options::Answer;
use requests::{Asked, Prompt};

/// Answers prompts with a language model: a Hugging Face folder, a .gguf file, or, without a MODEL,
/// the built-in one, which tells stories.
///
/// Example: warpfold generate SmolLM2-135M-Instruct.gguf "The capital of France is" --max-tokens 8
/// --temperature 0. An answer never depends on which other prompts are answered beside it, nor on
/// the options of the engine. On a terminal the text of a single answer appears as it is drawn.
/// Exit codes: 0 done, 2 bad input, 4 a run failed.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// A folder with config.json, safetensors and tokenizer.json; a .gguf file; a name in the
    /// Hugging Face cache, such as Qwen/Qwen3-0.6B; hf:Qwen/Qwen3-0.6B, which is downloaded if the
    /// cache lacks it; or warpfold-tales, the built-in model and the default.
    model: Option<String>,
    /// Prompts to continue, one answer each. The built-in model starts a story without one.
    #[arg(value_name = "PROMPT")]
    prompts: Vec<String>,
    /// A prompt as tokens, such as 1,2,3.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    prompt_tokens: Vec<u32>,
    /// File of prompts, one JSON object per line: `prompt` or `prompt_tokens`, and any of
    /// max_tokens, temperature, top_k, top_p, min_p, seed, n, stop, ignore_eos, logprobs. Omitted
    /// fields take the values of the options here.
    #[arg(long, value_name = "FILE.jsonl")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    answer: Answer,
    #[command(flatten)]
    engine: EngineOptions,
    /// LoRA adapter to apply to the model: a folder in PEFT's format.
    #[arg(long, value_name = "PATH")]
    lora: Option<PathBuf>,
    /// Default sampling: auto reads the model's generation_config.json, none ignores it.
    #[arg(long, value_name = "WHOSE", default_value = "auto")]
    generation_config: GenerationConfig,
    /// Compute type: f32, f16 or bf16. Default: that of the weights (bf16 for quantized ones).
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    #[command(flatten)]
    weights: WeightOptions,
    /// virtual, virtual:h200, virtual:a100 or cuda:N. Default: WARPFOLD_DEVICE, or the best device
    /// available.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Apply the model's chat template: each text prompt becomes a user message.
    #[arg(long)]
    chat: bool,
    /// JSON schema that each answer must match.
    #[arg(long, value_name = "FILE.json")]
    json_schema: Option<PathBuf>,
    /// Print a line of JSON per prompt, in their order, as soon as it and those before are
    /// answered.
    #[arg(long)]
    json: bool,
    /// Write to this file instead of standard output. Prompts that the file already answers are
    /// skipped. With --report html the file is the page.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write a page that plays the engine's steps to --output: who runs, the blocks of the
    /// cache, block tables with their tokens, the queues, and why a request waits.
    #[arg(long, value_name = "FORM", conflicts_with = "json", requires = "output")]
    report: Option<PageForm>,
    /// Print a trace of each step on standard error: rows, copies, swaps, the three queues, block
    /// tables with reference counts.
    #[arg(long)]
    trace: bool,
    /// Measure the largest step and print every term of the cache size on standard error. A GPU
    /// always measures.
    #[arg(long)]
    sizes: bool,
    /// Compare the loaded weights with the files, and print their digest on standard error; a
    /// difference is an error that names the tensor.
    #[arg(long)]
    verify_weights: bool,
}

/// The form of the report about the engine's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PageForm {
    /// One HTML file with pictures, for a browser.
    Html,
}

impl Generate {
    pub(crate) fn run(mut self) -> Result<Ending, Failure> {
        if self.output.is_some() && !self.json && self.report.is_none() {
            return Err(Failure::usage("--output needs --json or --report html"));
        }
        if let Some(words) = self.model.take_if(|model| self.prompts.is_empty() && model::is_words(model)) {
            self.prompts.push(words);
        }
        let mut files = model::open(self.model.as_deref())?;
        if self.verify_weights {
            files = files.verified();
        }
        let mut asked = self.requests(&files)?;
        let lines_to = self.output.as_deref().filter(|_| self.report.is_none());
        let (lines, answered) = Lines::open(lines_to, &asked)?;
        if answered > 0 {
            output::note(&format!("{answered} of {} answers were there\n", asked.len()));
            asked.drain(..answered);
        }
        if asked.is_empty() {
            return Ok(Ending::Clean);
        }
        let place = Place::open(self.device.as_deref(), self.engine.tensor_parallel, &files)?;
        let adapter = self.lora.as_deref().map(AdapterWeights::open).transpose()?;
        let files = place.stores(&self.weights, files)?;
        let files = match &adapter {
            Some(_) if self.engine.tensor_parallel.is_some() => {
                return Err(Failure::usage("--lora: a model that several devices share takes no adapters"));
            }
            Some(weights) => {
                let room = AdapterRoom { adapters: 1, rank: weights.rank() };
                if self.sizes {
                    output::note(&format!("of the weights, {room}\n"));
                }
                files.with_adapters(room)
            }
            None => files,
        };
        let draft = DraftFiles::load(&self.engine, &place)?;
        let free_bytes = place.free_memory_bytes()?;
        let max_len = files.config().max_len;
        let longest = asked.iter().map(|request| longest(request, max_len)).max();
        let steps = self.largest(&asked, max_len).steps(longest.unwrap_or(1));
        let mut model = model::load(&files, &place, self.dtype, steps, self.device.as_deref())?;
        model.set_draft(draft);
        output::note(&model::told_digest(model.weights_digest()));
        let config = self.config(&mut model, &asked, free_bytes, !place.is_virtual())?;
        let tokenizer = files.into_tokenizer().map(Arc::new);
        let mut engine = Engine::new(model, config.clone())?;
        let watched = WatchedEngine::default();
        if self.report.is_some() {
            engine = engine.with_trace(watched.on_trace());
        }
        if let Some(tokenizer) = &tokenizer {
            engine = engine.with_decode(tokenizer.clone());
        }
        if let Some(weights) = &adapter {
            let place = Arc::new(Adapter { slot: 0, id: 0 });
            engine.load_adapter(&place, weights).map_err(|error| Failure::usage(format!("--lora: {error}")))?;
            asked.iter_mut().for_each(|request| request.adapter = Some(place.clone()));
        }
        let answers = self.answer(engine, &asked, lines)?;
        if let (Some(PageForm::Html), Some(path)) = (self.report, &self.output) {
            let asked: Vec<_> = answers.keys().copied().zip(asked).collect();
            let theatre = watched.theatre(&config);
            let title = model::name(self.model.as_deref());
            let page = report::page(&title, &asked, &answers, theatre, tokenizer.as_deref());
            let written = std::fs::write(path, page.html());
            written.map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(Ending::Clean)
    }

    /// The requests of the command line, then those of the file.
    fn requests(&self, files: &ModelFiles) -> Result<Vec<Request>, Failure> {
        let ModelConfig { vocab, max_len, ref eos, .. } = *files.config();
        let max_len = self.engine.max_len.unwrap_or(usize::MAX).min(max_len);
        let limits = Limits { vocab, max_len, eos: eos.clone(), hidden: 0, kv_bytes_per_token: 0, state_bytes: 0 };
        let is_shipped = model::is_shipped(self.model.as_deref());
        let chat = if self.chat { Some(template(files)?) } else { None };
        let defaults = self.generation_config.of(files);
        let constraint = self.json_schema.as_deref().map(|file| constraint(file, files)).transpose()?;
        let constraint = constraint.as_deref();
        let of = Asked {
            tokenizer: files.tokenizer(),
            chat: chat.as_ref(),
            defaults: &defaults,
            limits: &limits,
            constraint,
        };
        let mut all = Vec::new();
        if is_shipped && self.has_no_prompt() {
            all.push(requests::request(Prompt::Text(SHIPPED_OPENING.to_owned()), &self.answer, of)?);
        }
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

    fn has_no_prompt(&self) -> bool {
        self.prompts.is_empty() && self.prompt_tokens.is_empty() && self.requests.is_none()
    }

    /// The engine's settings: the cache holds what the requests can need at the same time.
    fn config(
        &self,
        model: &mut PlacedModel,
        asked: &[Request],
        free_bytes: u64,
        is_measured: bool,
    ) -> Result<Config, Failure> {
        let (max_len, block_size) = (model.limits().max_len, self.engine.block_size.max(1));
        let longest = |r: &Request| longest(r, max_len);
        let wanted = asked.iter().map(|r| (longest(r).div_ceil(block_size) + 1).saturating_mul(r.num_sequences()));
        let wanted = wanted.fold(2, usize::saturating_add);
        let room = Room {
            longest: asked.iter().map(longest).max().unwrap_or(1),
            // Admission leaves a share of the blocks free.
            enough_blocks: wanted.saturating_add(wanted / 50 + 2),
            free_bytes,
        };
        let (largest, sizing) = self.largest(asked, max_len).config(model, room)?;
        // Each seat takes memory where models keep states.
        let max_seqs = if model.limits().state_bytes > 0 { largest.max_seqs } else { self.engine.max_seqs };
        let mut config = Config { budget: self.engine.budget, max_seqs, ..largest.clone() };
        config.trace = self.trace;
        config.validate(&model.limits())?;
        if self.sizes {
            output::note(&format!("{}{sizing}", model.heading()));
        }
        if let Some(warmed) = model.warmed().filter(|_| self.sizes) {
            output::note(&model::told(warmed));
        }
        if self.sizes || is_measured {
            let peak = model::dry_run(model, &largest, &sizing)?;
            if self.sizes {
                let computed = sizing.memory.activation_bytes;
                output::note(&format!(
                    "the largest step took {peak} bytes; {computed}, an upper bound, were set aside for it\n"
                ));
            }
        }
        model.capture_ahead(largest.max_seqs);
        Ok(config)
    }

    /// Options with which no step has more rows than all requests together.
    fn largest(&self, asked: &[Request], max_len: usize) -> EngineOptions {
        let sum = |of: &dyn Fn(&Request) -> usize| asked.iter().map(of).fold(0, usize::saturating_add);
        let mut largest = self.engine.clone();
        largest.budget = largest.budget.min(sum(&|r| longest(r, max_len).saturating_mul(r.num_sequences())));
        largest.max_seqs = largest.max_seqs.min(sum(&Request::num_sequences));
        largest
    }

    fn answer(&self, mut engine: Engine<PlacedModel>, asked: &[Request], mut lines: Lines) -> Result<Answers, Failure> {
        let ids: Vec<RequestId> = asked.iter().map(|r| engine.add(r.clone())).collect::<Result<_, _>>()?;
        let is_one = asked.len() == 1 && asked[0].num_sequences() == 1;
        let streams = !self.json && is_one && std::io::stdout().is_terminal();
        // Nobody has typed the opening, so it is part of the tale.
        let opening = if self.has_no_prompt() && !self.json { SHIPPED_OPENING } else { "" };
        if streams {
            output::print(opening)?;
        }
        let mut left = ids.iter().zip(asked).peekable();
        let mut tell = |answers: &Answers, is_end: bool| {
            let answer_of = |id: &RequestId| answers.get(id).map_or(&[] as &[Output], Vec::as_slice);
            let is_whole = |(id, request): &(&RequestId, &Request)| {
                let outputs = answer_of(id);
                outputs.len() == request.num_sequences() && outputs.iter().all(|output| output.finish.is_some())
            };
            while let Some((id, request)) = left.next_if(|next| is_end || is_whole(next)) {
                match (self.json, streams) {
                    (true, _) => lines.write(&report::json(request, answer_of(id)))?,
                    (false, true) => {}
                    (false, false) => report::text(opening, answer_of(id))?,
                }
            }
            Ok(())
        };
        let answers =
            report::run(&mut engine, report::Watched { text: streams, steps: self.trace }, |all| tell(all, false))?;
        tell(&answers, true)?;
        let metrics = engine.metrics();
        if metrics.drafts > 0 {
            output::note(&format!("{} of {} drafted tokens were right\n", metrics.accepted_drafts, metrics.drafts));
        }
        Ok(answers)
    }
}

/// Positions of a request's sequence at most.
fn longest(request: &Request, max_len: usize) -> usize {
    request.prompt.len().saturating_add(request.max_tokens.unwrap_or(max_len)).min(max_len)
}

/// The constraint that answers are JSON of the schema in a file.
fn constraint(file: &Path, files: &ModelFiles) -> Result<Box<dyn Constraint>, Failure> {
    let wrong = |reason: &dyn std::fmt::Display| Failure::usage(format!("{}: {reason}", file.display()));
    let text = std::fs::read(file).map_err(|error| wrong(&error))?;
    let schema = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let tokenizer = needed(files.tokenizer(), "--json-schema")?;
    let grammars = Grammars::of(tokenizer, &files.config().eos).map_err(|error| wrong(&error))?;
    grammars.constraint(&Grammar::Json(schema)).map_err(|error| wrong(&error))
}

/// The chat template of a model.
fn template(files: &ModelFiles) -> Result<ChatTemplate, Failure> {
    let none = || Failure::usage("--chat needs a chat template, and the model has none");
    files.chat_template()?.ok_or_else(none)
}

/// Answers by request.
type Answers = BTreeMap<RequestId, Vec<Output>>;

/// Returns the tokenizer, or a usage error that names the option which needs one.
fn needed<'a>(tokenizer: Option<&'a Tokenizer>, what: &str) -> Result<&'a Tokenizer, Failure> {
    tokenizer.ok_or_else(|| Failure::usage(format!("{what} needs a tokenizer, and the model has no tokenizer.json")))
}
