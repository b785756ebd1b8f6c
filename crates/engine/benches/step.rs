//! What a step costs the host, with a model that takes no time: `cargo bench -p warpfold-engine`.
//!
//! 256 sequences decode at a context of 1,024 tokens, under each policy, and with what costs extra.
//! The target is 50 us.

use std::time::Instant;

use warpfold_engine::{
    Allocator, Batch, CacheShape, Config, Engine, Limits, Model, ModelError, Moves, Policy, Request, Sampled, Sampling,
    Speculation,
};

/// Answers token 1 to everything, at once.
struct Instantly;

impl Model for Instantly {
    fn limits(&self) -> Limits {
        Limits { vocab: 1000, max_len: 4096, eos: vec![0], kv_bytes_per_token: 1 }
    }

    fn allocate(&mut self, _: CacheShape) -> Result<(), ModelError> {
        Ok(())
    }

    fn copy(&mut self, _: &Moves) -> Result<(), ModelError> {
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        Ok(batch.samples.iter().map(|_| Sampled { token: 1, logprob: 0.0, top: Vec::new() }).collect())
    }
}

const SEQUENCES: u32 = 256;
const STEPS: usize = 512;

fn measure(name: &str, config: Config, sampling: &Sampling) {
    let config = Config { num_blocks: 40_000, check: false, ..config };
    let mut engine = Engine::new(Instantly, config).expect("the settings are right");
    for i in 0..SEQUENCES {
        let prompt = (0..1024).map(|p| (p * 7 + i) % 1000).collect();
        let request = Request { ignore_eos: true, sampling: sampling.clone(), ..Request::greedy(prompt, 3000) };
        engine.add(request).expect("the request is right");
    }
    while engine.num_waiting() > 0 {
        engine.step().expect("the model runs");
    }
    engine.step().expect("the model runs");
    let mut micros: Vec<f64> = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let start = Instant::now();
        engine.step().expect("the model runs");
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    println!("{name:<28} quietest {:6.1} us, median {:6.1} us", micros[0], micros[STEPS / 2]);
}

fn main() {
    let greedy = Sampling::greedy();
    for policy in Policy::ALL {
        measure(policy.name(), Config { policy, ..Config::default() }, &greedy);
    }
    measure("without prefix cache", Config { allocator: Allocator::Naive, ..Config::default() }, &greedy);
    measure("penalties", Config::default(), &Sampling { frequency_penalty: 0.5, ..greedy.clone() });
    measure("guesses", Config { speculation: Some(Speculation::default()), ..Config::default() }, &greedy);
    measure("trace", Config { trace: true, ..Config::default() }, &greedy);
}
