//! What a step costs the host, with a model that takes no time: `cargo bench -p warpfold-engine`.
//!
//! 256 sequences decode at a context of 512 tokens and more, under each policy, and with what costs
//! extra. The target is 50 us for all parts of a step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use warpfold_engine::{
    Allocator, Batch, CacheShape, Config, Decode, Engine, Limits, Model, ModelError, Moves, Part, Policy, Request,
    Sampled, Sampling, Speculation, Ticket,
};

/// Answers a token of the alphabet to everything, at once.
struct Instantly {
    overlaps: bool,
    answers: VecDeque<Vec<Sampled>>,
}

impl Model for Instantly {
    fn limits(&self) -> Limits {
        Limits { vocab: 1000, max_len: 4096, eos: vec![0], hidden: 0, kv_bytes_per_token: 1, state_bytes: 0 }
    }

    fn allocate(&mut self, _: CacheShape) -> Result<(), ModelError> {
        Ok(())
    }

    fn copy(&mut self, _: &Moves) -> Result<(), ModelError> {
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let token = |position: u32| 1 + position % 26;
        Ok(batch.samples.iter().map(|s| Sampled { token: token(s.position), ..Sampled::default() }).collect())
    }

    fn overlaps(&self) -> bool {
        self.overlaps
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        let answers = self.step(batch)?;
        self.answers.push_back(answers);
        Ok(Ticket::running())
    }

    fn wait(&mut self, _: Ticket) -> Result<Vec<Sampled>, ModelError> {
        Ok(self.answers.pop_front().expect("a step was submitted"))
    }
}

/// Tokens are words of a few letters.
struct Words;

impl Decode for Words {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        bytes.extend(b" token");
        bytes.extend(char::from_u32(96 + token % 27).map(|c| c as u8));
    }

    fn is_special(&self, token: u32) -> bool {
        token == 0
    }
}

const SEQUENCES: u32 = 256;
const STEPS: usize = 256;

/// What a row of the table runs with.
#[derive(Clone)]
struct Setup {
    config: Config,
    sampling: Sampling,
    has_text: bool,
    stop: Vec<String>,
    overlaps: bool,
}

impl Setup {
    fn engine(&self) -> Engine<Instantly> {
        // A static batch of all prompts at once needs the budget for it.
        let config = Config { num_blocks: 40_000, check: false, budget: 256 << 10, ..self.config.clone() };
        let model = Instantly { overlaps: self.overlaps, answers: VecDeque::new() };
        let mut engine = Engine::new(model, config).expect("the settings are right");
        if self.has_text {
            engine = engine.with_decode(Arc::new(Words));
        }
        for i in 0..SEQUENCES {
            let prompt = (0..512).map(|p| (p * 7 + i) % 1000).collect();
            let request = Request {
                ignore_eos: true,
                sampling: self.sampling.clone(),
                stop: self.stop.clone(),
                seed: Some(u64::from(i)),
                ..Request::greedy(prompt, 1500)
            };
            engine.add(request).expect("the request is right");
        }
        while engine.num_waiting() > 0 {
            engine.step().expect("the model runs");
        }
        engine.step().expect("the model runs");
        engine
    }

    /// Microseconds of each part, the model's left out, over many steps: plan, assembly, commit,
    /// and their sum.
    fn measure(&self) -> [Vec<f64>; 4] {
        let mut engine = self.engine();
        let mut micros: [Vec<f64>; 4] = Default::default();
        for _ in 0..STEPS {
            let (mut last, mut parts) = (Instant::now(), [0.0; 3]);
            let updates = engine.step_with(&mut |part| {
                let (now, place) = (Instant::now(), [Part::Plan, Part::Assemble, Part::Commit]);
                if let Some(i) = place.iter().position(|p| *p == part) {
                    parts[i] = (now - last).as_secs_f64() * 1e6;
                }
                last = now;
            });
            assert_eq!(updates.expect("the model runs").len(), SEQUENCES as usize, "all sequences run in each step");
            micros.iter_mut().zip(parts).for_each(|(all, part)| all.push(part));
            micros[3].push(parts.iter().sum());
        }
        micros.iter_mut().for_each(|part| part.sort_by(f64::total_cmp));
        micros
    }

    fn print(&self, name: &str) {
        let micros = self.measure();
        let median = |part: &Vec<f64>| part[part.len() / 2];
        let [plan, assembly, commit, all] = [0, 1, 2, 3].map(|i| median(&micros[i]));
        let (quietest, mean) = (micros[3][0], micros[3].iter().sum::<f64>() / STEPS as f64);
        println!("{name:<28} {plan:7.1} {assembly:7.1} {commit:7.1} {all:7.1} {mean:7.1} {quietest:9.1}");
    }
}

fn main() {
    println!("us per step, medians            plan   batch  commit     all    mean  quietest");
    let sampling = Sampling { temperature: 0.6, ..Sampling::default() };
    let base = Setup { config: Config::default(), sampling, has_text: false, stop: Vec::new(), overlaps: false };
    let with = |config: Config| Setup { config, ..base.clone() };
    for policy in Policy::ALL {
        with(Config { policy, ..Config::default() }).print(policy.name());
    }
    let text = Setup { has_text: true, ..base.clone() };
    text.print("with text");
    Setup { overlaps: true, ..text.clone() }.print("with text, overlapped");
    Setup { stop: vec!["\n\nUser:".to_owned()], ..text }.print("with text and a stop string");
    with(Config { allocator: Allocator::Naive, ..Config::default() }).print("without prefix cache");
    let penalties = Sampling { frequency_penalty: 0.5, ..base.sampling.clone() };
    Setup { sampling: penalties, ..base.clone() }.print("penalties");
    with(Config { speculation: Some(Speculation::default()), ..Config::default() }).print("guesses");
    with(Config { trace: true, ..Config::default() }).print("trace");
}
