//! `serve`: a model over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use warpfold::Dtype;
use warpfold_engine::{Config, Model, Pooling};
use warpfold_models::{ChatTemplate, ModelFiles, NewWeights, PoolingDefaults, SamplingDefaults, ToolFormat};
use warpfold_serve::{Bounds, Handle, LogFormat, LogSink, OpenWeights, Options, Server, Text};

use crate::failure::Failure;
use crate::model::{
    self, AdapterOptions, DraftFiles, EngineOptions, GenerationConfig, LoadedAdapters, Place, PlacedModel, Room,
    WeightOptions, parse_dtype,
};
use crate::{Ending, output};

/// Serves a language model over HTTP with the OpenAI API, and a chat page at /.
///
/// Example: warpfold serve SmolLM2-135M-Instruct.gguf --port 8000. SIGTERM or Ctrl-C lets requests
/// end; a second one does not. Exit codes: 0 asked to end, 2 bad input, 4 a run failed.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// A folder with config.json, safetensors and tokenizer.json; a .gguf file; a name in the
    /// Hugging Face cache, such as Qwen/Qwen3-0.6B; hf:Qwen/Qwen3-0.6B, which is downloaded if the
    /// cache lacks it; or warpfold-tales, the built-in model and the default.
    model: Option<String>,
    /// Address to listen on; 0.0.0.0 for all interfaces.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on; 0 for any free port.
    #[arg(long, value_name = "N", default_value_t = 8000)]
    port: u16,
    /// API key that requests must present; may be given several times. Requests of different keys
    /// share no prefix cache, and get equal shares of the engine.
    #[arg(long, value_name = "K")]
    api_key: Vec<String>,
    /// File of API keys, one per line; unlike arguments, its content is not visible to other users.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Allowed CORS origin, such as http://localhost:3000, or *; may be given several times.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Model name in requests and answers; may be given several times. Default: the name of its
    /// folder or file.
    #[arg(long, value_name = "NAME")]
    served_model_name: Vec<String>,
    /// Chat template to use instead of the model's own.
    #[arg(long, value_name = "FILE.jinja")]
    chat_template: Option<PathBuf>,
    /// Tool call format to use instead of that of the model's chat template: hermes, llama3_json,
    /// mistral, mistral_spaced, mistral_args, qwen3_coder, pythonic or harmony.
    #[arg(long, value_name = "NAME", value_parser = parse_tool_format)]
    tool_format: Option<&'static ToolFormat>,
    /// Default sampling: auto reads the model's generation_config.json, none ignores it.
    #[arg(long, value_name = "WHOSE", default_value = "auto")]
    generation_config: GenerationConfig,
    /// Hidden states that become an embedding: that of the last token, the mean of all, or that of
    /// the first (cls). Default: that of the model's 1_Pooling/config.json, or last.
    #[arg(long, value_name = "WHICH")]
    pooling: Option<Pooling>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    adapters: AdapterOptions,
    /// Most requests that wait for the engine; further ones are told to retry.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().waiting)]
    max_waiting: usize,
    /// Most simultaneous connections.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().connections)]
    max_connections: usize,
    /// Largest request body in bytes.
    #[arg(long, value_name = "B", default_value_t = Bounds::default().body_bytes)]
    max_body_bytes: usize,
    /// Seconds that requests may take to finish after SIGTERM.
    #[arg(long, value_name = "S", default_value_t = Bounds::default().drain_time.as_secs())]
    drain_seconds: u64,
    /// Access log on standard error, a line per request when its answer has gone: text or json.
    #[arg(long, value_name = "FORM")]
    log: Option<LogForm>,
    /// Collector of OpenTelemetry, such as http://localhost:4318: each request is sent to it as a
    /// span, of the trace that its `traceparent` names (OTLP over HTTP, in JSON).
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Compute type: f32, f16 or bf16. Default: that of the weights (bf16 for quantized ones).
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    #[command(flatten)]
    weights: WeightOptions,
    /// virtual, virtual:h200, virtual:a100 or cuda:N. Default: WARPFOLD_DEVICE, or the best device
    /// available.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Compare the loaded weights with the files, and print their digest, which /v1/models and
    /// system_fingerprint report, too; a difference is an error that names the tensor.
    #[arg(long)]
    verify_weights: bool,
}

/// Form of the access log.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogForm {
    /// Words.
    Text,
    /// An object of JSON.
    Json,
}

impl LogForm {
    fn format(self) -> LogFormat {
        match self {
            Self::Text => LogFormat::Text,
            Self::Json => LogFormat::Json,
        }
    }
}

/// Default size of the cache in bytes on the virtual GPU, whose memory is the host's.
const VIRTUAL_KV_BYTES: u64 = 1 << 30;

/// Default of the longest sequence that the cache must hold.
const LEAST_LEN: usize = 2048;

impl Serve {
    pub(crate) fn run(self) -> Result<Ending, Failure> {
        let mut files = model::open(self.model.as_deref())?;
        if self.verify_weights {
            files = files.verified();
        }
        let template = match &self.chat_template {
            Some(file) => Some(files.chat_template_of(&read(file)?)?),
            None => files.chat_template()?,
        };
        let place = Place::open(self.device.as_deref(), self.engine.tensor_parallel, &files)?;
        let adapters = self.adapters.open()?;
        let files = adapters.of(place.stores(&self.weights, files)?, self.engine.tensor_parallel)?;
        let server = Server::start(self.options(&adapters)?)?;
        server.stop_on_signals()?;
        output::print(&format!("listening at http://{}\n", server.address()))?;
        // Loading may take long, and is given up when the server is asked to end.
        let handle = server.handle();
        let loader = std::thread::spawn(move || {
            let loaded = self.load(files, template, adapters, &place, &handle);
            if loaded.is_err() {
                handle.stop();
            }
            loaded
        });
        let metrics = server.wait()?;
        if loader.is_finished() {
            loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        if let Some(metrics) = metrics {
            let ended = metrics.finished_stop + metrics.finished_length;
            output::print(&format!("{ended} answers of {} tokens\n", metrics.generation_tokens))?;
        }
        Ok(Ending::Clean)
    }

    fn options(&self, adapters: &LoadedAdapters) -> Result<Options, Failure> {
        let mut keys = self.api_key.clone();
        if let Some(file) = &self.api_key_file {
            let text = read(file)?;
            keys.extend(text.lines().map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned));
            if keys.is_empty() {
                return Err(Failure::usage(format!("{} has no key", file.display())));
            }
        }
        let mut names = self.served_model_name.clone();
        if names.is_empty() {
            names.push(model::name(self.model.as_deref()));
        }
        if let Some((name, _)) = adapters.named.iter().find(|(name, _)| names.contains(name)) {
            return Err(Failure::usage(format!("--lora: {name} is the name of the model itself")));
        }
        let bounds = Bounds {
            waiting: self.max_waiting,
            connections: self.max_connections,
            body_bytes: self.max_body_bytes,
            drain_time: Duration::from_secs(self.drain_seconds),
            ..Bounds::default()
        };
        let address = SocketAddr::new(self.host, self.port);
        let sink = LogSink(Arc::new(|line| output::note(&format!("{line}\n"))));
        let log = self.log.map(|log| (log.format(), sink));
        Ok(Options {
            address,
            names,
            keys,
            cors: self.cors.clone(),
            adapters: adapters.room.adapters,
            log,
            traces: self.otlp.clone(),
            bounds,
        })
    }

    /// Loads the model and hands it over.
    fn load(
        &self,
        files: ModelFiles,
        template: Option<ChatTemplate>,
        adapters: LoadedAdapters,
        place: &Place,
        handle: &Handle,
    ) -> Result<(), Failure> {
        let draft = DraftFiles::load(&self.engine, place)?;
        let free_bytes = place.free_memory_bytes()?;
        let steps = self.engine.steps(files.config().max_len);
        let mut model = model::load(&files, place, self.dtype, steps, self.device.as_deref())?;
        model.set_draft(draft);
        let config = self.config(&mut model, free_bytes, place.is_virtual())?;
        if adapters.room.adapters > 0 {
            output::print(&format!("of the weights, {}\n", adapters.room))?;
        }
        let weights_digest = model.weights_digest();
        output::print(&model::told_digest(weights_digest))?;
        let sampling = self.generation_config.of(&files);
        if sampling != SamplingDefaults::default() {
            output::print(&format!("sampling unless a request says otherwise: {sampling}\n"))?;
        }
        let defaults = files.pooling_defaults();
        let pooling = PoolingDefaults { pooling: self.pooling.unwrap_or(defaults.pooling), ..defaults };
        let tokenizer = files.into_tokenizer().map(Arc::new);
        let text = Text {
            tokenizer,
            template,
            weights_digest,
            tool_format: self.tool_format,
            sampling,
            pooling,
            open_weights: Some(self.open_weights(place)),
        };
        handle.serve(model, config, text)?;
        for (name, weights) in adapters.named {
            handle.load_adapter(&name, weights).map_err(|error| Failure::usage(format!("--lora {name}: {error}")))?;
        }
        output::print(&format!("ready on {place}\n"))
    }

    /// Returns the opener of other weights of the same form.
    fn open_weights(&self, place: &Place) -> OpenWeights {
        let (stored, place, model) = (self.weights, place.clone(), self.model.clone());
        OpenWeights(Arc::new(move |path| {
            let files = match path {
                Some(path) => ModelFiles::open(path).map_err(|error| error.to_string())?,
                None => model::open(model.as_deref()).map_err(|error| error.to_string())?,
            };
            let weights = NewWeights::new(place.stores(&stored, files).map_err(|error| error.to_string())?);
            let digest = weights.digest();
            Ok((Box::new(weights), digest))
        }))
    }

    fn config(&self, model: &mut PlacedModel, free_bytes: u64, is_virtual: bool) -> Result<Config, Failure> {
        let max_len = self.engine.max_len.unwrap_or(usize::MAX).min(model.limits().max_len);
        let block_size = self.engine.block_size.max(1);
        let blocks = max_len.div_ceil(block_size) + 1;
        let room = Room {
            longest: self.engine.max_len.map_or(max_len.min(LEAST_LEN), |len| len.min(max_len)),
            enough_blocks: self.engine.max_seqs.saturating_mul(blocks),
            free_bytes,
        };
        let mut engine = self.engine.clone();
        if is_virtual && engine.kv_blocks.is_none() && engine.kv_bytes.is_none() {
            let block_bytes = block_size as u64 * model.limits().kv_bytes_per_token;
            engine.kv_bytes = Some((room.enough_blocks as u64).saturating_mul(block_bytes).min(VIRTUAL_KV_BYTES));
        }
        let (config, sizing) = engine.config(model, room)?;
        output::print(&format!("{}{sizing}", model.heading()))?;
        if config.num_blocks < sizing.num_blocks {
            output::print(&format!("{} blocks on the device are enough, and are taken\n", config.num_blocks))?;
        }
        if let Some(warmed) = model.warmed() {
            output::print(&model::told(warmed))?;
        }
        if !is_virtual {
            model::dry_run(model, &config, &sizing)?;
        }
        model.capture_ahead(config.max_seqs);
        Ok(config)
    }
}

fn parse_tool_format(name: &str) -> Result<&'static ToolFormat, String> {
    ToolFormat::named(name).ok_or_else(|| format!("it is none of {}", ToolFormat::names().join(", ")))
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))
}
