//! What each idea of the ladder `serving` buys, on the scripted model.

use warpfold_engine::ladder::{Outcome, Server, block_sizes, climb, mixed_job, rungs};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Config, Model};

const MAX_LEN: usize = 512;

fn base() -> Config {
    Config { block_size: 16, num_blocks: 256, budget: 512, max_seqs: 32, ..Config::default() }
}

fn model() -> Scripted {
    Scripted::new(64, MAX_LEN)
}

fn outcomes() -> Vec<Outcome> {
    let job = mixed_job(&model().limits(), 96, 1);
    climb(model, &job, &rungs(&base())).expect("all rungs serve the job")
}

#[track_caller]
fn named<'a>(outcomes: &'a [Outcome], name: &str) -> &'a Outcome {
    outcomes.iter().find(|o| o.name == name).expect("there is such a rung")
}

#[test]
fn each_idea_buys_what_it_is_known_for() {
    let outcomes = outcomes();
    for o in &outcomes {
        let s = o.slots;
        let sum = s.filled + s.reserved + s.internal + s.external + s.free;
        assert!((sum - 1.0).abs() < 1e-9, "{}: the shares sum to {sum}", o.name);
        assert_eq!(o.tokens, outcomes[0].tokens);
    }
    let of = |name| named(&outcomes, name);
    assert!(of("no-kv-cache").rows > 10 * of("contiguous").rows, "a cache saves rows");
    assert_eq!(of("no-kv-cache").steps, of("contiguous").steps);
    assert!(of("static").tokens_per_step > 1.5 * of("contiguous").tokens_per_step, "together is faster");
    assert!(of("static").padding_rows > 0 && of("orca").padding_rows == 0, "iterations need no padding");
    assert!(of("orca").steps < of("static").steps);
    assert!(of("paged").slots.filled > 1.5 * of("orca").slots.filled, "blocks on demand are filled");
    assert!(of("paged").slots.internal < 0.1 * of("orca").slots.internal);
    assert!(of("orca").slots.external > 0.0 && of("paged").slots.external == 0.0);
    assert!(of("paged").tokens_per_step > 1.5 * of("orca").tokens_per_step, "so that more run at a time");
    assert!(of("continuous").tokens_per_step > 3.0 * of("static").tokens_per_step, "the whole way is threefold");
    assert!(of("continuous").steps <= of("vllm-v0").steps, "prefills and decodes share steps");
    assert!(2 * of("continuous").most_rows < of("vllm-v0").most_rows, "no decode waits for a whole prompt");
    for whole in ["paged", "vllm-v0"] {
        assert!(of("continuous").longest_wait_rows < of(whole).longest_wait_rows, "pieces shorten the wait: {whole}");
    }
    assert!(of("prefix-cache").rows < of("continuous").rows && of("prefix-cache").prefix_hits > 0);
}

#[test]
fn larger_blocks_waste_more_of_what_they_hold() {
    let job = mixed_job(&model().limits(), 64, 2);
    let all = rungs(&base());
    let paged = all.iter().find(|r| r.name == "continuous").expect("there is such a rung");
    let outcomes = climb(model, &job, &block_sizes(paged)).expect("all sizes serve the job");
    assert_eq!(outcomes.iter().map(|o| o.block_size).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128]);
    let held = |o: &Outcome| o.slots.filled + o.slots.reserved + o.slots.internal;
    let waste: Vec<_> = outcomes.iter().map(|o| o.slots.internal / held(o)).collect();
    assert_eq!(waste[0], 0.0);
    assert!(waste.windows(2).all(|w| w[0] < w[1]), "{waste:?}");
}

#[test]
fn a_job_has_lengths_as_conversations_have_them() {
    let job = mixed_job(&model().limits(), 1000, 3);
    let mut answers: Vec<usize> = job
        .iter()
        .map(|request| request.seed.expect("it says where the answer ends") as usize - request.prompt.len())
        .collect();
    answers.sort_unstable();
    let mean = |sum: usize| sum as f64 / 1000.0;
    let (prompts, all) = (mean(job.iter().map(|request| request.prompt.len()).sum()), mean(answers.iter().sum()));
    assert!((1.7..2.3).contains(&(all / prompts)), "answers are twice as long: {prompts} and {all}");
    assert!((answers[500] as f64) < 0.7 * all, "most are shorter than the mean, {all}: {}", answers[500]);
    assert!(answers[950] as f64 > 2.5 * all, "and some are long: {}", answers[950]);
}

#[test]
fn servers_that_overlap_steps_give_the_same_answers_job_after_job() {
    let job = mixed_job(&model().limits(), 24, 4);
    let mut expected = None;
    for rung in rungs(&base()) {
        let mut server = Server::new(model().overlapping(), &rung).expect("the rung fits the model");
        for _ in 0..2 {
            let answers = server.serve(&job).expect("it serves the job");
            let expected = expected.get_or_insert_with(|| answers.clone());
            assert_eq!(answers, *expected, "{}", rung.name);
        }
    }
    let lens = expected.expect("there are rungs").into_iter().map(|answer| answer.len());
    let asked = job.iter().map(|request| request.seed.expect("an end") as usize - request.prompt.len());
    assert!(lens.eq(asked), "answers end where the job says");
}
