//! Output of `generate`.

use serde::Serialize;
use warpfold_engine::{Engine, Model, Output, Request, RequestId, Sampled};
use warpfold_models::Tokenizer;
use warpfold_report::{Kind, Page};

use super::Answers;
use crate::failure::Failure;
use crate::output;
use crate::theatre::Theatre;

#[derive(Serialize)]
struct Answered<'a> {
    prompt_tokens: &'a [u32],
    outputs: Vec<OutputLine<'a>>,
}

#[derive(Serialize)]
struct OutputLine<'a> {
    tokens: Vec<u32>,
    text: &'a str,
    finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<TokenLine<'a>>>,
    seed: u64,
}

#[derive(Serialize)]
struct TokenLine<'a> {
    token: u32,
    logprob: f32,
    top: &'a [(u32, f32)],
}

impl<'a> TokenLine<'a> {
    fn of(sampled: &'a Sampled) -> Self {
        Self { token: sampled.token, logprob: sampled.logprob, top: &sampled.top }
    }
}

/// A request and its answers, as a line of JSON.
pub(super) fn json(request: &Request, outputs: &[Output]) -> String {
    let outputs = outputs.iter().map(|output| OutputLine {
        tokens: output.ids(),
        text: &output.text,
        finish_reason: output.finish.map_or("error", |finish| finish.name()),
        logprobs: request.logprobs.map(|_| output.tokens.iter().map(TokenLine::of).collect()),
        seed: output.seed,
    });
    let line = Answered { prompt_tokens: &request.prompt, outputs: outputs.collect() };
    serde_json::to_string(&line).expect("an answer is numbers and text") + "\n"
}

/// The texts of a request's answers after what opens each, an empty line between them.
pub(super) fn text(opening: &str, outputs: &[Output]) -> Result<(), Failure> {
    let texts: Vec<String> = outputs.iter().map(|output| format!("{opening}{}", output.text)).collect();
    output::print(&(texts.join("\n\n") + "\n"))
}

/// The progress that is printed while answers are generated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    /// The text of the only answer.
    pub(super) text: bool,
    /// Print a trace of each step on standard error.
    pub(super) steps: bool,
}

#[derive(Serialize)]
struct PlayedEngine {
    theatre: [Theatre; 1],
    answers: Vec<PlayedAnswer>,
}

#[derive(Serialize)]
struct PlayedAnswer {
    request: u64,
    text: String,
}

/// A page that plays the steps of the engine.
pub(super) fn page(
    title: &str,
    asked: &[(RequestId, Request)],
    answers: &Answers,
    theatre: Theatre,
    tokenizer: Option<&Tokenizer>,
) -> Page {
    let text = |id: u32| tokenizer.map_or_else(|| id.to_string(), |tokenizer| tokenizer.decode(&[id]));
    let texts = answers.iter().flat_map(|(id, outputs)| outputs.iter().map(move |output| (id.0, output)));
    let texts = texts.map(|(request, output)| PlayedAnswer { request, text: output.text.clone() });
    let played = PlayedEngine { theatre: [theatre.with_tokens(text)], answers: texts.collect() };
    let mut page = Page::new(Kind::Steps, title, &played, &output::about());
    let plural = if asked.len() == 1 { "" } else { "s" };
    page.subtitle = format!("the steps of the engine that answered {} request{plural}", asked.len());
    let num: usize = answers.values().flatten().map(|output| output.tokens.len()).sum();
    page.verdict = format!("{num} tokens in {} steps.", played.theatre[0].num_steps());
    page
}

/// Steps until every answer has ended; `tell` sees the answers after each.
pub(super) fn run<M: Model>(
    engine: &mut Engine<M>,
    watched: Watched,
    mut tell: impl FnMut(&Answers) -> Result<(), Failure>,
) -> Result<Answers, Failure> {
    let mut answers = Answers::new();
    engine.set_draining();
    while !engine.is_idle() {
        for update in engine.step()? {
            if watched.text {
                output::print(&update.text)?;
            }
            let outputs = answers.entry(update.request).or_default();
            outputs.resize(outputs.len().max(update.output + 1), Output::default());
            outputs[update.output].extend(update);
        }
        if let Some(trace) = engine.trace().filter(|_| watched.steps) {
            output::note(&trace.to_string());
        }
        tell(&answers)?;
    }
    if watched.text {
        output::print("\n")?;
    }
    Ok(answers)
}
