//! What the server counts, under the names that vLLM has for it, so that dashboards and routers
//! that know vLLM read it.
//!
//! Times are taken on the engine's thread when an update is made, so a client that reads slowly
//! does not show in them. A request's time is that of its queue (until its first step begins) and
//! that of inference, which is that of the prefill (until its first token) and of decoding.

mod histogram;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use warpfold_engine::{Metrics, Request, Update};

use crate::access_log::RequestRecord;
use crate::state::State;
use crate::traces::Traces;
use histogram::Histogram;

/// Seconds to the first token.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Seconds between tokens.
const ITL: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// Seconds of a whole request.
const E2E: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Tokens of a prompt or an answer.
const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0,
    100_000.0, 200_000.0,
];
/// Answers of a request.
const ANSWERS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];

/// What is seen of requests as they run.
#[derive(Debug)]
pub(crate) struct Observed {
    prompt_tokens: AtomicU64,
    /// Requests that were refused because too many wait.
    rejected: AtomicU64,
    ttft: Histogram,
    itl: Histogram,
    per_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
    prompt_lens: Histogram,
    answer_lens: Histogram,
    max_tokens: Histogram,
    answers: Histogram,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            prompt_tokens: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            ttft: Histogram::new(TTFT),
            itl: Histogram::new(ITL),
            per_token: Histogram::new(ITL),
            e2e: Histogram::new(E2E),
            queue: Histogram::new(E2E),
            prefill: Histogram::new(E2E),
            decode: Histogram::new(E2E),
            inference: Histogram::new(E2E),
            prompt_lens: Histogram::new(TOKENS),
            answer_lens: Histogram::new(TOKENS),
            max_tokens: Histogram::new(TOKENS),
            answers: Histogram::new(ANSWERS),
        }
    }
}

impl Observed {
    /// Counts a request that was refused because too many wait.
    pub(crate) fn count_rejection(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }
}

/// Watches one request.
#[derive(Debug)]
pub(crate) struct Watch {
    observed: Arc<Observed>,
    prompt_len: usize,
    n: usize,
    max_tokens: Option<usize>,
    start: Instant,
    has_begun: bool,
    answers: Vec<Answer>,
    /// What the access log tells of it.
    record: Option<Arc<RequestRecord>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    first: Option<Instant>,
    last: Option<Instant>,
    len: usize,
}

impl Watch {
    pub(crate) fn new(observed: &Arc<Observed>, request: &Request) -> Self {
        Self {
            observed: observed.clone(),
            prompt_len: request.prompt.len(),
            n: request.n,
            max_tokens: request.max_tokens,
            start: Instant::now(),
            has_begun: false,
            answers: vec![Answer::default(); request.n],
            record: RequestRecord::of_task(),
        }
    }

    /// Counts an update.
    pub(crate) fn see(&mut self, update: &Update) {
        let (observed, now) = (&self.observed, Instant::now());
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if let Some(record) = &self.record {
            record.see(update, is_first.then(|| (self.prompt_len, now - self.start)));
        }
        if is_first {
            observed.prompt_tokens.fetch_add(self.prompt_len as u64, Ordering::Relaxed);
        }
        let Some(answer) = self.answers.get_mut(update.output) else { return };
        if !update.tokens.is_empty() {
            match answer.last {
                None => observed.ttft.add((now - self.start).as_secs_f64()),
                Some(last) => observed.itl.add((now - last).as_secs_f64()),
            }
            answer.first = answer.first.or(Some(now));
            answer.last = Some(now);
            answer.len += update.tokens.len();
        }
        if update.finish.is_some() {
            let first = answer.first.unwrap_or(now);
            let decode = (now - first).as_secs_f64();
            let since_queue = |then: Instant| (then - self.start).saturating_sub(update.queued).as_secs_f64();
            observed.e2e.add((now - self.start).as_secs_f64());
            observed.queue.add(update.queued.as_secs_f64());
            observed.prefill.add(since_queue(first));
            observed.decode.add(decode);
            observed.inference.add(since_queue(now));
            observed.prompt_lens.add(self.prompt_len as f64);
            observed.answer_lens.add(answer.len as f64);
            observed.answers.add(self.n as f64);
            if answer.len > 1 {
                observed.per_token.add(decode / (answer.len - 1) as f64);
            }
            if let Some(most) = self.max_tokens {
                observed.max_tokens.add(most as f64);
            }
        }
    }
}

/// Everything in Prometheus' text format.
pub(crate) fn text(state: &State, engine: &Metrics) -> String {
    let labels = format!("model_name={:?},engine=\"0\"", state.name());
    let mut text = String::with_capacity(16 << 10);
    single(&mut text, &labels, state, engine);
    finished(&mut text, &labels, engine);
    let observed = &state.observed;
    let histograms = [
        ("time_to_first_token_seconds", "Time to the first token of an answer.", &observed.ttft),
        ("inter_token_latency_seconds", "Time between tokens of an answer.", &observed.itl),
        ("request_time_per_output_token_seconds", "Mean time per token after the first one.", &observed.per_token),
        ("e2e_request_latency_seconds", "Time from a request to the end of an answer.", &observed.e2e),
        ("request_queue_time_seconds", "Time from a request to its first step.", &observed.queue),
        ("request_prefill_time_seconds", "Time from the first step to the first token.", &observed.prefill),
        ("request_decode_time_seconds", "Time from the first to the last token.", &observed.decode),
        ("request_inference_time_seconds", "Time from the first step to the last token.", &observed.inference),
        ("request_prompt_tokens", "Tokens of a prompt.", &observed.prompt_lens),
        ("request_generation_tokens", "Tokens of an answer.", &observed.answer_lens),
        ("request_params_max_tokens", "The max_tokens of a request.", &observed.max_tokens),
        ("request_params_n", "The n of a request.", &observed.answers),
    ];
    for (name, help, histogram) in histograms {
        let name = head(&mut text, name, "histogram", help);
        histogram.write(&mut text, &name, &labels);
    }
    text
}

fn single(text: &mut String, labels: &str, state: &State, engine: &Metrics) {
    let now = &engine.now;
    let usage = now.used_blocks as f64 / now.num_blocks.max(1) as f64;
    let waiting = now.waiting + now.swapped;
    let preempted = engine.preempted_by_recompute + engine.preempted_by_swap;
    let relaxed = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    let accepted = engine.accepted_drafts as f64;
    let prompts = relaxed(&state.observed.prompt_tokens);
    let rejected = relaxed(&state.observed.rejected);
    let lost = state.traces.as_ref().map_or(0, Traces::num_lost) as f64;
    let values = [
        ("num_requests_running", "gauge", "Requests that run.", now.running as f64),
        ("num_requests_waiting", "gauge", "Requests that wait, swapped ones included.", waiting as f64),
        ("kv_cache_usage_perc", "gauge", "Blocks of the KV cache in use; 1 is all of them.", usage),
        ("num_preemptions_total", "counter", "Preempted requests.", preempted as f64),
        ("prefix_cache_queries_total", "counter", "Tokens looked for in the cache.", engine.prefix_queries as f64),
        ("prefix_cache_hits_total", "counter", "Tokens found in the cache.", engine.prefix_hits as f64),
        ("prompt_tokens_total", "counter", "Tokens of prompts that were run.", prompts),
        ("generation_tokens_total", "counter", "Tokens that were generated.", engine.generation_tokens as f64),
        ("spec_decode_num_draft_tokens_total", "counter", "Drafted tokens.", engine.drafts as f64),
        ("spec_decode_num_accepted_tokens_total", "counter", "Drafted tokens that were right.", accepted),
        ("admission_rejections_total", "counter", "Requests refused because too many wait.", rejected),
        ("lost_trace_spans_total", "counter", "Spans that the collector has not taken.", lost),
    ];
    for (name, kind, help, value) in values {
        let name = head(text, name, kind, help);
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
    let block_size = state.served_so_far().map_or(0, |served| served.block_size);
    let name = head(text, "cache_config_info", "gauge", "The KV cache.");
    let num = now.num_blocks;
    let _ = writeln!(text, "{name}{{{labels},block_size=\"{block_size}\",num_gpu_blocks=\"{num}\"}} 1");
}

fn finished(text: &mut String, labels: &str, engine: &Metrics) {
    let name = head(text, "request_success_total", "counter", "Answers that ended, by the reason.");
    let reasons = [
        ("stop", engine.finished_stop),
        ("length", engine.finished_length),
        ("abort", engine.aborted),
        ("error", engine.failed),
    ];
    for (reason, count) in reasons {
        let _ = writeln!(text, "{name}{{{labels},finished_reason=\"{reason}\"}} {count}");
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> String {
    let name = format!("vllm:{name}");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    name
}
