//! `bench serve`: what clients of a language model see, of a server or of an engine in this
//! process.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use warpfold::Dtype;
use warpfold_engine::service::{Options, Service};
use warpfold_engine::{Config, Engine, Model};
use warpfold_report::{Kind, Page};
use warpfold_serve::load::{
    Check, Goal, Job, Load, Pace, Quantiles, Room, Summary, Target, Verdict, Workload, of_file,
};

use crate::Ending;
use crate::failure::Failure;
use crate::model::{self, DraftFiles, EngineOptions, Place, Room as CacheRoom, WeightOptions, parse_dtype};
use crate::output::{self, Form, ReportTo};
use crate::progress::Progress;
use crate::table::Table;
use crate::theatre::{Theatre, WatchedEngine};

/// Measures what clients see: time to the first token, between tokens, to the end, tokens per
/// second.
///
/// Examples: warpfold bench serve --url http://127.0.0.1:8000 --concurrency 1,8,64; warpfold bench
/// serve MODEL --workload random:512/128 --rate 2,4,8. Without --url the engine runs in this
/// process, without HTTP. Answers go on to their length whatever they say. Some requests are asked
/// again alone, before, between and after the runs; a difference is exit code 1. The page of
/// --report html also plays the first 300 steps of an engine in this process, which then traces its
/// steps and is slower for it.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The model to run in this process: a folder, a .gguf file, or a name of the Hugging Face
    /// cache.
    #[arg(conflicts_with = "url")]
    model: Option<String>,
    /// A server with OpenAI's completions, such as http://127.0.0.1:8000.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The key that the server wants.
    #[arg(long, value_name = "K", requires = "url")]
    api_key: Option<String>,
    /// sharegpt-like, random:IN/OUT, prefix:SHARED/OWN/OUT or nano. Default: sharegpt-like, and
    /// random:8/4 on the virtual GPU.
    #[arg(long, value_name = "W")]
    workload: Option<Workload>,
    /// Requests of a file instead: one JSON object a line, with prompt_tokens and max_tokens.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "workload")]
    dataset: Option<PathBuf>,
    /// Requests of a run. Default: 256, and 8 on the virtual GPU.
    #[arg(long, value_name = "N")]
    requests: Option<usize>,
    /// Requests in flight; several give a run each. Default: 32, and 4 on the virtual GPU.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    concurrency: Vec<usize>,
    /// Requests per second, as a Poisson process sends them, whatever is in flight; several give a
    /// run each.
    #[arg(long, value_name = "R,…", value_delimiter = ',', conflicts_with = "concurrency")]
    rate: Vec<f64>,
    /// Draws lengths, prompts and arrivals.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Counts answers per second whose first token came within this time, in milliseconds.
    #[arg(long, value_name = "MS", requires = "goal_tpot_ms")]
    goal_ttft_ms: Option<u64>,
    /// And whose other tokens took this time each, in the mean.
    #[arg(long, value_name = "MS", requires = "goal_ttft_ms")]
    goal_tpot_ms: Option<u64>,
    #[command(flatten)]
    engine: EngineOptions,
    /// Compute type: f32, f16 or bf16. Default: that of the weights.
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    #[command(flatten)]
    weights: WeightOptions,
    /// virtual, virtual:h200, virtual:a100 or cuda:N. Default: WARPFOLD_DEVICE, or the best device
    /// available.
    #[arg(long, value_name = "DEVICE", conflicts_with = "url")]
    device: Option<String>,
    #[command(flatten)]
    to: ReportTo,
}

/// A benchmark that is set up to run.
struct Bed {
    name: String,
    load: Load,
    room: Room,
    /// Kept until all runs are over.
    service: Option<Service>,
    /// Settings of the engine of this process.
    config: Option<Config>,
    /// The engine runs on the virtual GPU, whose defaults are smaller.
    is_virtual: bool,
}

/// The measurements of a benchmark.
struct Measured {
    name: String,
    workload: String,
    runs: Vec<(Pace, Summary)>,
    verdict: Verdict,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        self.to.check()?;
        self.check_load()?;
        let goal = self.goal_ttft_ms.zip(self.goal_tpot_ms).map(|(ttft, per_token)| Goal {
            ttft: Duration::from_millis(ttft),
            per_token: Duration::from_millis(per_token),
        });
        let watched = WatchedEngine::default();
        let bed = match &self.url {
            Some(url) => self.site(url)?,
            None => self.engine(&watched)?,
        };
        let paces = self.paces(bed.is_virtual);
        let (mut runs, progress, num) = (Vec::new(), Progress::lines(), paces.len());
        progress.begin("answers to be compared".to_owned());
        // Other prompts each time: those of the run before are in the prefix cache.
        let jobs = |run: usize| self.jobs(&bed, self.seed.wrapping_add(run as u64));
        let mut check = Check::begin(&bed.load, &bed.room, &jobs(0)?);
        for (i, pace) in paces.into_iter().enumerate() {
            let jobs = jobs(i)?;
            progress.begin(format!("{} ({} of {num} runs)", pace_text(pace), i + 1));
            let run = bed.load.run(&jobs, pace);
            runs.push((pace, Summary::of(&run.timelines, run.wall, goal)));
            check.compare(&bed.load, &jobs, &run);
        }
        let verdict = check.end(&bed.load);
        progress.end();
        if let Some(service) = bed.service {
            drop(service.drain());
        }
        let has_failed = runs.iter().any(|(_, summary)| summary.failed > 0) || !verdict.differences.is_empty();
        let workload = self.workload_name(bed.is_virtual);
        let measured = Measured { name: bed.name, workload, runs, verdict };
        match self.to.form {
            Form::Table => self.to.write(&Self::text(&measured))?,
            Form::Json => self.to.write_json(&self.json(&measured))?,
            Form::Html => {
                self.to.write_page(&self.page(&measured, bed.config.map(|config| watched.theatre(&config))))?
            }
        }
        Ok(if has_failed { Ending::Findings } else { Ending::Clean })
    }

    fn check_load(&self) -> Result<(), Failure> {
        if self.concurrency.contains(&0) || self.requests == Some(0) {
            return Err(Failure::usage("no requests: --concurrency and --requests are 1 at least"));
        }
        if self.rate.iter().any(|rate| !(*rate > 0.0 && rate.is_finite())) {
            return Err(Failure::usage("--rate: it is not positive"));
        }
        Ok(())
    }

    fn paces(&self, is_virtual: bool) -> Vec<Pace> {
        let closed = |n: &usize| Pace::Closed { concurrency: *n };
        match (self.rate.is_empty(), self.concurrency.is_empty()) {
            (false, _) => self.rate.iter().map(|rate| Pace::Open { rate: *rate }).collect(),
            (true, false) => self.concurrency.iter().map(closed).collect(),
            (true, true) => vec![closed(if is_virtual { &4 } else { &32 })],
        }
    }

    fn site(&self, url: &str) -> Result<Bed, Failure> {
        let target = Target::Url { url: url.to_owned(), key: self.api_key.clone() };
        let load = Load::new(target, self.seed)?;
        let room = load.room().cloned().ok_or_else(|| Failure::run("the server does not say what it takes"))?;
        Ok(Bed { name: url.to_owned(), load, room, service: None, config: None, is_virtual: false })
    }

    fn engine(&self, watched: &WatchedEngine) -> Result<Bed, Failure> {
        let files = model::open(self.model.as_deref())?;
        let place = Place::open(self.device.as_deref(), self.engine.tensor_parallel, &files)?;
        let files = place.stores(&self.weights, files)?;
        let draft = DraftFiles::load(&self.engine, &place)?;
        let free_bytes = place.free_memory_bytes()?;
        let steps = self.engine.steps(files.config().max_len);
        let mut model = model::load(&files, &place, self.dtype, steps, self.device.as_deref())?;
        model.set_draft(draft);
        let limits = model.limits();
        let max_len = self.engine.max_len.unwrap_or(usize::MAX).min(limits.max_len);
        let blocks = max_len.div_ceil(Config::default().block_size) + 1;
        let enough_blocks = self.engine.max_seqs.saturating_mul(blocks);
        let (config, _) = self.engine.config(&model, CacheRoom { longest: max_len, enough_blocks, free_bytes })?;
        if let Some(warmed) = model.warmed() {
            output::note(&model::told(warmed));
        }
        model.capture_ahead(config.max_seqs);
        let vocab = u32::try_from(limits.vocab).unwrap_or(u32::MAX);
        let room = Room { alphabet: (0..vocab).collect(), max_len: config.longest(&limits) };
        let mut engine = Engine::new(model, config.clone())?;
        if self.to.form == Form::Html {
            engine = engine.with_trace(watched.on_trace());
        }
        let service = Service::spawn(engine, Options { max_waiting: usize::MAX });
        let load = Load::new(Target::Engine(service.client()), self.seed)?;
        let name = format!("{} on {place}", model::name(self.model.as_deref()));
        Ok(Bed { name, load, room, service: Some(service), config: Some(config), is_virtual: place.is_virtual() })
    }

    fn jobs(&self, bed: &Bed, seed: u64) -> Result<Vec<Job>, Failure> {
        match &self.dataset {
            Some(file) => Ok(of_file(file, &bed.room)?),
            None => {
                let requests = self.requests.unwrap_or(if bed.is_virtual { 8 } else { 256 });
                Ok(self.workload(bed.is_virtual).draw(requests, &bed.room, seed))
            }
        }
    }

    fn workload(&self, is_virtual: bool) -> Workload {
        let default = if is_virtual { Workload::Random { input: 8, output: 4 } } else { Workload::ShareGptLike };
        self.workload.unwrap_or(default)
    }

    fn workload_name(&self, is_virtual: bool) -> String {
        let name = || self.workload(is_virtual).to_string();
        self.dataset.as_ref().map_or_else(name, |file| file.display().to_string())
    }

    fn text(Measured { name, workload, runs, verdict }: &Measured) -> String {
        let mut table = Table::new([
            "load",
            "answers",
            "failed",
            "answers/s",
            "tok/s",
            "all tok/s",
            "goodput/s",
            "TTFT ms",
            "ITL ms",
            "end ms",
        ]);
        for (pace, summary) in runs {
            table.row([
                pace_text(*pace),
                summary.completed.to_string(),
                summary.failed.to_string(),
                format!("{:.2}", summary.requests_per_second),
                format!("{:.1}", summary.output_tokens_per_second),
                format!("{:.1}", summary.total_tokens_per_second),
                summary.goodput.map_or_else(|| "-".to_owned(), |goodput| format!("{goodput:.2}")),
                quantiles(summary.ttft_ms),
                quantiles(summary.itl_ms),
                quantiles(summary.e2e_ms),
            ]);
        }
        let errors = runs.iter().filter_map(|(_, summary)| summary.error.as_ref());
        let errors: String = errors.map(|error| format!("error: {error}\n")).collect();
        let (table, verdict) = (table.render(), verdict_text(verdict));
        format!("{workload} of {name}; times are p50/p90/p99\n\n{table}{errors}\n{verdict}")
    }

    fn page(&self, measured: &Measured, theatre: Option<Theatre>) -> Page {
        let Measured { name, workload, runs, verdict } = measured;
        let mut data = self.json(measured);
        if let Some(theatre) = theatre {
            data["theatre"] = json!([theatre]);
        }
        let mut page = Page::new(Kind::Serve, name, &data, &output::about());
        let failed: usize = runs.iter().map(|(_, summary)| summary.failed).sum();
        page.subtitle.clone_from(workload);
        let s = if runs.len() == 1 { "" } else { "s" };
        page.verdict = format!("{} run{s}, {failed} requests failed; {}", runs.len(), verdict_text(verdict));
        page.is_ok = failed == 0 && verdict.differences.is_empty();
        page
    }

    fn json(&self, Measured { name, workload, runs, verdict }: &Measured) -> Value {
        let of_run = |(pace, summary): &(Pace, Summary)| {
            let mut run = json!(summary);
            match pace {
                Pace::Closed { concurrency } => run["concurrency"] = json!(concurrency),
                Pace::Open { rate } => run["rate"] = json!(rate),
            }
            run
        };
        json!({
            "target": name,
            "workload": workload,
            "seed": self.seed,
            "unix_seconds": SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|now| now.as_secs()),
            "answers": {
                "verified": verdict.differences.is_empty(),
                "digest": format!("{:016x}", verdict.digest),
                "compared": verdict.compared,
                "differences": verdict.differences,
            },
            "runs": runs.iter().map(of_run).collect::<Vec<_>>(),
        })
    }
}

/// A line, and one for each difference.
fn verdict_text(Verdict { digest, compared, differences }: &Verdict) -> String {
    if differences.is_empty() {
        return format!("answers verified: {compared} compared with the same requests alone; digest {digest:016x}\n");
    }
    let lines: String = differences.iter().map(|line| format!("  {line}\n")).collect();
    format!("answers differ: {} of {compared} from the same requests alone\n{lines}", differences.len())
}

fn quantiles(times: Quantiles) -> String {
    [times.p50, times.p90, times.p99].map(|time| format!("{time:.1}")).join("/")
}

fn pace_text(pace: Pace) -> String {
    match pace {
        Pace::Closed { concurrency } => format!("{concurrency} in flight"),
        Pace::Open { rate } => format!("{rate}/s"),
    }
}
