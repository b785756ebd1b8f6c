//! `bench quality`: how well a model predicts a text, as its files are and with weights rounded to
//! fewer bits.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use warpfold::Dtype;
use warpfold_engine::{Config, Engine, Model, Request};

use crate::Ending;
use crate::failure::Failure;
use crate::model::{self, Place, Quantize, WeightOptions, WeightStorage, parse_dtype};
use crate::output::{PlainReportTo, ReportTo};
use crate::table::{Table, grouped};

/// The beginning of "Alice's Adventures in Wonderland" (Lewis Carroll, 1865).
const TEXT: &str = include_str!("alice.txt");

/// Windows that run at once.
const MOST_SEQS: usize = 8;

/// Measures the perplexity of a text: with the weights of the files, and with those of --quantize.
///
/// Perplexity is the exponential of the mean negative logarithm of the likelihood of each token,
/// given those before it in its window; less is better. Figures of models with other tokenizers do
/// not compare; nats per byte do.
#[derive(Debug, Args)]
pub(crate) struct Quality {
    /// A folder, a GGUF file, a name in the hub's cache, or hf:OWNER/NAME. Default: the built-in
    /// model.
    #[arg(value_name = "MODEL")]
    model: Option<String>,
    /// Text to predict. Default: the first 3,000 characters of "Alice's Adventures in Wonderland".
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Tokens of a window; each token is predicted from those before it in its window.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    context: usize,
    /// Roundings to compare with the weights of the files.
    #[arg(long, value_name = "BITS,…", value_delimiter = ',', default_value = "int8,int4")]
    quantize: Vec<Quantize>,
    /// Compute type: f32, f16 or bf16. Default: that of the weights.
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    /// virtual, virtual:h200, virtual:a100 or cuda:N. Default: WARPFOLD_DEVICE, or the best device
    /// available.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    to: PlainReportTo,
}

/// The likelihood of a text.
struct Measured {
    weights: String,
    bytes: u64,
    /// Tokens that were predicted, and the sum of their negative logarithms.
    tokens: usize,
    nats: f64,
}

impl Measured {
    fn perplexity(&self) -> f64 {
        (self.nats / self.tokens as f64).exp()
    }
}

impl Quality {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let to = ReportTo::from(&self.to);
        to.check()?;
        if self.context < 2 {
            return Err(Failure::usage("--context: a window has at least 2 tokens"));
        }
        let text = match &self.text {
            Some(path) => {
                fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
            }
            None => TEXT.to_owned(),
        };
        let mut all = Vec::new();
        for quantize in std::iter::once(None).chain(self.quantize.iter().copied().map(Some)) {
            all.push(self.measure(&text, quantize)?);
        }
        if to.form == crate::output::Form::Json {
            let of = |measured: &Measured| {
                json!({"weights": measured.weights, "bytes": measured.bytes, "tokens": measured.tokens,
                    "perplexity": measured.perplexity(), "nats_per_byte": measured.nats / text.len() as f64})
            };
            to.write_json(&json!({"model": model::name(self.model.as_deref()), "context": self.context,
                "runs": all.iter().map(of).collect::<Vec<_>>()}))?;
        } else {
            let mut table = Table::new(["weights", "bytes", "tokens", "perplexity", "of files", "nats per byte"]);
            for measured in &all {
                table.row([
                    measured.weights.clone(),
                    grouped(measured.bytes),
                    grouped(measured.tokens as u64),
                    format!("{:.4}", measured.perplexity()),
                    format!("{:+.2} %", 100.0 * (measured.perplexity() / all[0].perplexity() - 1.0)),
                    format!("{:.4}", measured.nats / text.len() as f64),
                ]);
            }
            to.write(&table.render())?;
        }
        Ok(Ending::Clean)
    }

    fn measure(&self, text: &str, quantize: Option<Quantize>) -> Result<Measured, Failure> {
        let files = model::open(self.model.as_deref())?;
        let tokenizer = files.tokenizer().ok_or_else(|| Failure::run("the model has no tokenizer"))?;
        let tokens = tokenizer.encode(text)?;
        let place = Place::open(self.device.as_deref(), None, &files)?;
        // What is rounded shows its bytes, also where kernels would rather convert it.
        let weights = quantize.map(|_| WeightStorage::Stored);
        let files = place.stores(&WeightOptions { weights, quantize }, files)?;
        let model = model::load(&files, &place, self.dtype, None, self.device.as_deref())?;
        let bytes = model.weight_bytes();
        let context = self.context.min(model.limits().max_len.saturating_sub(1)).max(2);
        let windows: Vec<_> = tokens.chunks(context).filter(|window| window.len() > 1).collect();
        if windows.is_empty() {
            return Err(Failure::usage("the text has less than 2 tokens"));
        }
        let block_size = Config::default().block_size;
        let num_blocks = MOST_SEQS * (context + 1).div_ceil(block_size) + 1;
        let mut engine = Engine::new(model, Config { num_blocks, max_seqs: MOST_SEQS, ..Config::default() })?;
        for window in &windows {
            let request = Request { prompt_logprobs: Some(0), ..Request::greedy(window.to_vec(), 1) };
            engine.add(Request { ignore_eos: true, ..request })?;
        }
        let answers = engine.run_to_end()?;
        let logprobs = answers.values().flatten().flat_map(|output| &output.prompt_logprobs);
        let nats = -logprobs.map(|sampled| f64::from(sampled.logprob)).sum::<f64>();
        let weights = quantize.map_or_else(|| "of the files".to_owned(), |quantize| quantize.to_string());
        Ok(Measured { weights, bytes, tokens: windows.iter().map(|window| window.len() - 1).sum(), nats })
    }
}
