//! Scenarios: settings of an engine, requests, and what happens to them, drawn from a seed.

use super::{DeviceFaults, SeedDraws};
use crate::config::{Allocator, Config, Policy, Preemption, Speculation};
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::pooling::Pooling;
use crate::request::{Beam, Request};
use crate::sampling::Sampling;
use crate::scripted::Scripted;

/// The sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelSizes {
    /// Tokens are below this.
    pub vocab: usize,
    /// The longest sequence.
    pub max_len: usize,
    /// Adapters that there are.
    pub adapters: usize,
    /// Weights that there are beside the first, by numbers from 1.
    pub weights: usize,
}

/// Something that happens before a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScenarioEvent {
    /// A request comes.
    Add(usize),
    /// Its client gives it up.
    Abort(usize),
    /// The cache forgets its prefixes.
    Clear,
    /// An adapter takes the place of one that nobody names.
    Load {
        place: usize,
        weights: u32,
    },
    /// Others replace the weights, once all requests that came before have ended.
    Weights(u32),
    /// The model sleeps then.
    Sleep,
    Wake,
    /// No more requests are taken.
    Drain,
}

/// A request, and its client.
#[derive(Debug, Clone)]
pub(crate) struct RequestArrival {
    pub(crate) request: Request,
    /// Events after which its client takes no more.
    pub(crate) patience: Option<usize>,
    /// The place of its adapter.
    pub(crate) place: Option<usize>,
}

/// A scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub(crate) seed: u64,
    pub(crate) config: Config,
    pub(crate) arrivals: Vec<RequestArrival>,
    /// Events, each with the turn before which it happens.
    pub(crate) events: Vec<(usize, ScenarioEvent)>,
    pub(crate) max_waiting: usize,
    /// Calls that fail.
    pub faults: DeviceFaults,
    /// Devices of the model.
    pub ranks: usize,
    /// The model's steps run while the next one is prepared.
    pub overlaps: bool,
    /// Guesses are those of a drafter that is now and then wrong.
    pub is_drafted: bool,
}

/// Turns within which everything happens.
const TURNS: usize = 60;

/// Places of adapters.
pub(super) const PLACES: usize = 2;

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn draw(seed: u64, sizes: ModelSizes) -> Self {
        let mut draws = SeedDraws::new(seed);
        let draws = &mut draws;
        let mut config = settings(draws, sizes.max_len);
        let faults = DeviceFaults::draw(draws);
        let (ranks, overlaps) = (draws.one_of(&[1, 1, 1, 1, 1, 1, 1, 2, 3, 8]), draws.percent(60));
        let max_waiting = draws.one_of(&[2, 1024, 1024]);
        let num = 1 + draws.below(6);
        let mut arrivals = Vec::new();
        let mut events = Vec::new();
        for i in 0..num {
            let request = request(draws, sizes);
            let patience = draws.percent(12).then(|| 1 + draws.below(6));
            let place = (sizes.adapters > 0 && draws.percent(30)).then(|| draws.below(PLACES));
            arrivals.push(RequestArrival { request, patience, place });
            let at = draws.below(TURNS / 2);
            events.push((at, ScenarioEvent::Add(i)));
            if draws.percent(20) {
                events.push((at + draws.below(TURNS / 2), ScenarioEvent::Abort(i)));
            }
        }
        for _ in 0..if sizes.adapters > 0 { draws.below(5) } else { 0 } {
            let (place, weights) = (draws.below(PLACES), draws.below(sizes.adapters) as u32);
            events.push((draws.below(TURNS / 2), ScenarioEvent::Load { place, weights }));
        }
        (0..draws.below(3)).for_each(|_| events.push((draws.below(TURNS), ScenarioEvent::Clear)));
        if draws.percent(10) {
            events.push((draws.below(TURNS), ScenarioEvent::Drain));
        }
        if sizes.weights > 0 && draws.percent(30) {
            let mut swap = |draws: &mut SeedDraws, at| {
                events.push((at, ScenarioEvent::Weights(1 + draws.below(sizes.weights) as u32)));
            };
            (0..1 + draws.below(2)).for_each(|_| {
                let at = draws.below(TURNS / 2);
                swap(draws, at);
            });
            if draws.percent(40) {
                let at = draws.below(TURNS / 2);
                let (brought, woken) = (at + draws.below(10), at + 10 + draws.below(10));
                swap(draws, brought);
                events.extend([(at, ScenarioEvent::Sleep), (woken, ScenarioEvent::Wake)]);
            }
        }
        events.sort_by_key(|(at, _)| *at);
        if !draws.percent(10) {
            give_room(&mut config, &arrivals, sizes);
        }
        let is_drafted = config.speculation.is_some() && draws.percent(60);
        Self { seed, config, arrivals, events, max_waiting, faults, ranks, overlaps, is_drafted }
    }
}

/// Settings of an engine, of every policy, with little room.
pub fn settings(draws: &mut SeedDraws, max_len: usize) -> Config {
    let policy = draws.one_of(&[&Policy::ALL[..], &[Policy::Continuous; 3]].concat());
    let allocators = [Allocator::Contiguous, Allocator::Naive, Allocator::PrefixCaching, Allocator::PrefixCaching];
    let block_size = draws.one_of(&[1, 2, 4, 4, 16]);
    let (slots, host) = (1 + draws.below(90), draws.below(60));
    let preemptions = [Preemption::Auto, Preemption::Recompute, Preemption::Swap];
    let budget = match draws.below(3) {
        0 => 1 + draws.below(15),
        1 => 16 + draws.below(184),
        _ => 8192,
    };
    Config {
        policy,
        allocator: draws.one_of(&allocators),
        preemption: if host == 0 { Preemption::Recompute } else { draws.one_of(&preemptions) },
        budget: if policy == Policy::Continuous { budget } else { budget.max(max_len) },
        block_size,
        num_blocks: slots.div_ceil(block_size).max(3),
        num_host_blocks: host.div_ceil(block_size),
        max_seqs: 3 + draws.below(9),
        swap_above: draws.below(20),
        inject_preemptions: draws.one_of(&[0.0, 0.0, 0.1, 0.5, 1.0]),
        speculation: draws.percent(30).then(Speculation::default),
        seed: draws.below(100) as u64,
        // Half of the scenarios must see from outside what the other half asserts.
        check: draws.percent(50),
        ..Config::default()
    }
}

/// A request of any kind; many share a beginning.
fn request(draws: &mut SeedDraws, ModelSizes { vocab, max_len, .. }: ModelSizes) -> Request {
    let (first, len, last) = (draws.below(3), 1 + draws.below(40.min(max_len / 2)), draws.below(3));
    let token = |i: usize| if i + 1 == len { last } else { (first + i * 7) % vocab } as u32;
    let prompt = (0..len).map(token).collect();
    let seed = Some(draws.below(1000) as u64);
    let salt = draws.one_of(&["a", "a", "b"]).into();
    let priority = draws.below(3) as i64 - 1;
    let (new, n, kind) = (1 + draws.below(23.min(max_len / 4)), 1 + draws.below(3), draws.below(8));
    if kind == 7 {
        let (_, pooling) = Pooling::NAMES[new % 3];
        return Request { priority, seed, salt, ..Request::embedding(prompt, pooling) };
    }
    let beam = (kind == 0).then_some(Beam { width: n, length_penalty: 1.0 });
    let penalty = draws.one_of(&[0.0, 0.0, 0.5]);
    let sampling = Sampling {
        temperature: draws.one_of(&[0.0, 0.7, 1.4]),
        top_k: draws.percent(50).then(|| 1 + draws.below(19) as u32),
        top_p: draws.one_of(&[1.0, 0.6]),
        frequency_penalty: penalty,
        repetition_penalty: 1.0 + penalty,
        // Two tokens repeat often enough for guesses to be right.
        allowed_ids: draws.percent(40).then(|| vec![1, 2]),
        ..Sampling::default()
    };
    let stop = if beam.is_none() && draws.percent(50) { vec!["cc".to_owned(), "bcb".to_owned()] } else { Vec::new() };
    Request {
        n: if kind < 4 { n } else { 1 },
        sampling: if beam.is_some() { Sampling::greedy() } else { sampling },
        seed,
        max_tokens: Some(new),
        min_tokens: draws.below(3).min(new),
        stop_ids: vec![5, 6],
        stop,
        include_stop: draws.percent(30),
        logprobs: beam.is_none().then_some(2),
        prompt_logprobs: draws.percent(20).then_some(1),
        beam,
        ignore_eos: draws.percent(50),
        priority,
        salt,
        ..Request::new(prompt)
    }
}

/// Gives the cache room for each request alone.
fn give_room(config: &mut Config, arrivals: &[RequestArrival], sizes: ModelSizes) {
    for RequestArrival { request, .. } in arrivals {
        let model = Scripted::new(sizes.vocab, sizes.max_len);
        let mut probe = Engine::new(model, config.clone()).expect("the settings are right");
        let request = Request { stop: Vec::new(), ..request.clone() };
        if let Err(error) = probe.add(request)
            && let ErrorKind::TooLarge { need, .. } = error.kind()
        {
            config.num_blocks = need + need / 50 + 1;
        }
    }
}
