//! What answers are: against the model asked directly, with seeds, penalties, ends, beams, guesses.

use std::sync::Arc;

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{
    Beam, Config, Decode, DraftModel, DraftRequest, Drafter, Finish, ModelError, Request, SampleRow, Sampled, Sampling,
    Speculation, StepTrace, TokenCount, sample,
};

use super::{MAX_LEN, VOCAB, engine, fixed, run, small};

/// Token `t` is the letter `a + t % 26`; token 0 is special.
struct Letters;

impl Decode for Letters {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        bytes.push(b'a' + (token % 26) as u8);
    }

    fn is_special(&self, token: u32) -> bool {
        token == 0
    }
}

fn text(ids: &[u32]) -> String {
    ids.iter().filter(|t| **t != 0).map(|t| char::from(b'a' + (t % 26) as u8)).collect()
}

fn drawn(n: usize, seed: u64) -> Request {
    Request { n, seed: Some(seed), sampling: Sampling::default(), ..fixed(6, 1, 10) }
}

/// The answer to a request from tokens alone: logits, counts, bans and noise of each position.
fn answer_by_hand(request: &Request, output: u64) -> Vec<Sampled> {
    let model = Scripted::new(VOCAB, MAX_LEN);
    let stop_ids: Vec<u32> = if request.ignore_eos { vec![] } else { vec![0] };
    let mut tokens = request.prompt.clone();
    let mut answer: Vec<Sampled> = Vec::new();
    while answer.len() < request.max_tokens.expect("it is given") {
        let generated = &tokens[request.prompt.len()..];
        let count =
            |token: u32| TokenCount { token, in_output: generated.iter().filter(|t| **t == token).count() as u32 };
        let row = SampleRow {
            position: tokens.len() as u32,
            seed: request.seed.expect("it is given") + output,
            sampling: Arc::new(request.sampling.clone()),
            counts: Some(Arc::new((0..VOCAB as u32).filter(|t| tokens.contains(t)).map(count).collect())),
            banned: (answer.len() < request.min_tokens).then(|| stop_ids.clone().into()),
            top: request.logprobs,
            ..SampleRow::default()
        };
        answer.push(sample(&model.logits(&tokens), &row));
        let token = answer[answer.len() - 1].token;
        tokens.push(token);
        if stop_ids.contains(&token) {
            break;
        }
    }
    answer
}

#[test]
fn answers_are_those_of_the_model_asked_directly() {
    let mut ends = Vec::new();
    for i in 0..40 {
        let sampling = Sampling {
            temperature: i as f32 % 4.0 * 0.4,
            top_k: (i % 5 == 0).then_some(7),
            frequency_penalty: (i % 3) as f32 * 0.5,
            presence_penalty: (i % 2) as f32 * 0.5,
            repetition_penalty: 1.0 + (i % 7) as f32 * 0.1,
            ..Sampling::default()
        };
        let base = fixed(3 + i % 20, i, 30);
        let (n, min_tokens) = (1 + i as usize % 2, i as usize % 9);
        let ignore_eos = i % 4 == 0;
        let request = Request { n, sampling, min_tokens, seed: Some(77), logprobs: Some(2), ignore_eos, ..base };
        let (answers, _) = run(&mut engine(small()), vec![request.clone()]);
        for (output, number) in answers[0].iter().zip(0..) {
            assert_eq!(output.tokens, answer_by_hand(&request, number), "{request:?}");
            ends.push(output.finish);
        }
    }
    assert!(ends.contains(&Some(Finish::StopToken(0))) && ends.contains(&Some(Finish::Length)), "{ends:?}");
}

#[test]
fn each_answer_can_be_had_again_by_its_seed() {
    let (answers, _) = run(&mut engine(small()), vec![drawn(3, 40)]);
    for output in &answers[0] {
        let (again, _) = run(&mut engine(small()), vec![drawn(1, output.seed)]);
        assert_eq!(again[0][0].tokens, output.tokens);
    }
    let (answers, _) = run(&mut engine(small()), vec![Request { seed: None, ..drawn(1, 0) }]);
    let (again, _) = run(&mut engine(Config { seed: 9, ..small() }), vec![drawn(1, answers[0][0].seed)]);
    assert_eq!(again[0][0].tokens, answers[0][0].tokens);
    let (other, _) = run(&mut engine(Config { seed: 9, ..small() }), vec![Request { seed: None, ..drawn(1, 0) }]);
    assert_ne!(other[0][0].seed, answers[0][0].seed);
}

#[test]
fn no_answer_ends_before_its_least_length() {
    let ends_early = |min_tokens| {
        let request = |i| Request { min_tokens, ignore_eos: false, stop_ids: vec![1, 2, 3, 4], ..fixed(5, i, 20) };
        let (answers, _) = run(&mut engine(small()), (0..16).map(request).collect());
        answers.iter().filter(|o| o[0].tokens.len() < 12).count()
    };
    assert!(ends_early(0) > 4);
    assert_eq!(ends_early(12), 0);
}

#[test]
fn stop_strings_end_answers_across_tokens() {
    let whole = |request: Request| run(&mut engine(small()).with_decode(Arc::new(Letters)), vec![request]).0;
    let all = whole(fixed(5, 1, 20))[0][0].clone();
    assert_eq!(all.text, text(&all.ids()));
    let stop = all.text[4..7].to_owned();
    let cut = all.text.find(&stop).expect("it is there");
    let stopped = whole(Request { stop: vec!["never".to_owned(), stop.clone()], ..fixed(5, 1, 20) })[0][0].clone();
    assert_eq!((stopped.text.as_str(), stopped.finish), (&all.text[..cut], Some(Finish::StopText(1))));
    let included = whole(Request { stop: vec![stop], include_stop: true, ..fixed(5, 1, 20) })[0][0].clone();
    assert_eq!(included.text, all.text[..cut + 3]);
}

#[test]
fn penalties_see_the_tokens_of_the_answer_so_far() {
    let request = |sampling| Request { sampling, ..fixed(5, 1, 40) };
    let allowed_ids = Some(vec![7, 8]);
    let plain = Sampling { allowed_ids: allowed_ids.clone(), ..Sampling::greedy() };
    let frequency = Sampling { frequency_penalty: 2.0, allowed_ids, ..Sampling::greedy() };
    let count = |sampling| {
        let (answers, _) = run(&mut engine(small()), vec![request(sampling)]);
        answers[0][0].ids().iter().filter(|t| **t == 7).count().abs_diff(20)
    };
    // The logits span eight; two tokens that are charged two for each use come in nearly equal
    // numbers.
    assert!(count(frequency.clone()) <= 2, "{}", count(frequency));
    let (answers, _) = run(&mut engine(small()), vec![request(plain)]);
    assert!(answers[0][0].ids().iter().all(|t| [7, 8].contains(t)));
}

#[test]
fn logprobs_of_the_answer_and_of_the_prompt_are_those_of_the_model() {
    let request = Request { logprobs: Some(3), prompt_logprobs: Some(2), ..fixed(9, 1, 5) };
    for budget in [1, 4, 128] {
        let (answers, _) = run(&mut engine(Config { budget, ..small() }), vec![request.clone()]);
        let output = &answers[0][0];
        assert_eq!(output.prompt_logprobs.iter().map(|s| s.token).collect::<Vec<_>>(), request.prompt[1..]);
        let is_ranked = |s: &Sampled| s.top.windows(2).all(|w| w[0].1 >= w[1].1);
        assert!(output.tokens.iter().all(|s| s.top.len() == 3 && is_ranked(s) && s.top[0] == (s.token, s.logprob)));
        assert!(output.prompt_logprobs.iter().all(|s| s.top.len() == 2 && s.logprob <= s.top[0].1));
        // The prompt's continuation, scored as a prompt, has the logprobs that it was drawn with.
        let longer = [request.prompt.clone(), output.ids()].concat();
        let scored = Request { prompt: longer, prompt_logprobs: Some(0), max_tokens: Some(1), ..request.clone() };
        let (scores, _) = run(&mut engine(Config { budget, ..small() }), vec![scored]);
        let tail: Vec<_> = scores[0][0].prompt_logprobs[8..].iter().map(|s| s.logprob.to_bits()).collect();
        assert_eq!(tail, output.tokens.iter().map(|s| s.logprob.to_bits()).collect::<Vec<_>>());
    }
}

#[test]
fn a_step_scores_no_more_rows_of_prompts_than_sequences_may_run() {
    let scored = |first| Request { prompt_logprobs: Some(0), ..fixed(30, first, 3) };
    let config = Config { max_seqs: 4, ..small() };
    let (answers, traces) = run(&mut engine(config), vec![scored(1), scored(2), fixed(30, 3, 3)]);
    assert!(answers[..2].iter().all(|outputs| outputs[0].prompt_logprobs.len() == 29));
    let scored = |trace: &StepTrace| -> usize {
        trace.rows.iter().filter(|(id, start, _)| *id <= 2 && *start < 30).map(|(.., num)| num).sum()
    };
    assert_eq!(traces.iter().map(scored).max(), Some(4));
    assert!(traces[0].rows.contains(&(3, 0, 30)), "a prompt that is not scored runs whole beside them");
}

/// Beam search over whole histories, without blocks or schedules.
fn beam_by_hand(prompt: &[u32], width: usize, length_penalty: f64, new: usize, eos: Option<u32>) -> Vec<Vec<u32>> {
    let logprobs = |tokens: &[u32]| {
        let request = Request { logprobs: Some(VOCAB), ..Request::greedy(tokens.to_vec(), 1) };
        run(&mut engine(small()), vec![request]).0[0][0].tokens[0].top.clone()
    };
    let mut beams = vec![(0.0_f64, prompt.to_vec())];
    let mut done: Vec<(f64, Vec<u32>)> = Vec::new();
    for len in 1..=new {
        let mut all = Vec::new();
        for (score, tokens) in &beams {
            let extended =
                logprobs(tokens).into_iter().map(|(t, l)| (score + f64::from(l), [&tokens[..], &[t]].concat()));
            all.extend(extended);
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.truncate(2 * width);
        let by_len = |score: f64| score / (len as f64).powf(length_penalty);
        let ends = |tokens: &Vec<u32>| tokens.last().copied() == eos;
        let ended = all.iter().take(width).filter(|(_, t)| ends(t));
        done.extend(ended.map(|(s, t)| (by_len(*s), t.clone())));
        beams = all.into_iter().filter(|(_, t)| !ends(t)).take(width).collect();
        if len == new {
            done.extend(beams.iter().map(|(s, t)| (by_len(*s), t.clone())));
        }
        done.sort_by(|a, b| b.0.total_cmp(&a.0));
        done.truncate(width);
        if done.len() == width && done[width - 1].0 >= by_len(beams[0].0) {
            break;
        }
    }
    done.into_iter().map(|(_, t)| t[prompt.len()..].to_vec()).collect()
}

#[test]
fn beam_search_finds_what_a_search_over_whole_histories_finds() {
    for (width, length_penalty, first) in [(2, 1.0, 1), (3, 0.0, 2), (4, 2.0, 3)] {
        let beam = Some(Beam { width, length_penalty });
        let request = Request { beam, n: width, ignore_eos: false, ..fixed(7, first, 6) };
        let expected = beam_by_hand(&request.prompt, width, length_penalty, 6, Some(0));
        for budget in [1, 3, 128] {
            let mut engine = engine(Config { budget, ..small() });
            let (answers, _) = run(&mut engine, vec![request.clone()]);
            assert_eq!(answers[0].iter().map(|o| o.ids()).collect::<Vec<_>>(), expected, "width {width}");
            assert!(engine.metrics().copied_blocks > 0);
        }
    }
}

#[test]
fn beams_share_blocks_and_leave_nothing() {
    let beam = Some(Beam { width: 4, length_penalty: 1.0 });
    let mut engine = engine(small());
    let (_, traces) = run(&mut engine, vec![Request { beam, ..fixed(21, 1, 12) }]);
    let most = traces.iter().map(|t| 64 - t.num_free).max().expect("there are steps");
    assert!(most <= 5 + 4 * 4, "{most} blocks; 33 tokens of four beams alone would be 36");
}

#[test]
fn guesses_change_the_number_of_steps_and_nothing_else() {
    // Few tokens repeat often, so that guesses are right now and then.
    let sampling = |temperature| Sampling { temperature, allowed_ids: Some(vec![1, 2]), ..Sampling::default() };
    let request =
        |i: u32| Request { sampling: sampling(i as f32 % 3.0), seed: Some(3), logprobs: Some(2), ..fixed(8, i, 40) };
    let requests: Vec<_> = (0..6).map(request).collect();
    let (plain, without) = run(&mut engine(small()), requests.clone());
    let speculation = Some(Speculation::default());
    let mut guessing = engine(Config { speculation, ..small() });
    let (guessed, with) = run(&mut guessing, requests);
    assert_eq!(plain, guessed);
    let metrics = guessing.metrics();
    assert!(metrics.accepted_drafts > 0 && metrics.accepted_drafts < metrics.drafts, "{metrics:?}");
    assert!(with.len() < without.len());
    assert_eq!(guessing.metrics().generation_tokens, 240);
}

/// Guesses that are never right.
struct WrongDrafter;

impl Drafter for WrongDrafter {
    fn draft(&mut self, asked: &[DraftRequest]) -> Result<Vec<Vec<u32>>, ModelError> {
        Ok(asked.iter().map(|asked| vec![VOCAB as u32 - 1; asked.num]).collect())
    }
}

/// One that is out of order.
struct FailingDrafter;

impl Drafter for FailingDrafter {
    fn draft(&mut self, _: &[DraftRequest]) -> Result<Vec<Vec<u32>>, ModelError> {
        Err("the draft is gone".into())
    }
}

#[test]
fn a_second_model_that_draws_alike_has_every_guess_right() {
    let request = |i: u32| {
        let sampling = Sampling { temperature: i as f32 % 3.0, top_k: Some(20), ..Sampling::default() };
        Request { sampling, n: 1 + i as usize % 2, seed: Some(u64::from(i)), logprobs: Some(2), ..fixed(8, i, 40) }
    };
    let requests: Vec<_> = (0..6).map(request).collect();
    let (plain, without) = run(&mut engine(small()), requests.clone());
    let same = DraftModel::new(Scripted::new(VOCAB, MAX_LEN), 64, 4, 16).expect("the settings are right");
    let mut drafted = engine(small()).with_drafter(same);
    let (answers, with) = run(&mut drafted, requests.clone());
    assert_eq!(plain, answers);
    let metrics = drafted.metrics();
    assert!(metrics.drafts > 0 && metrics.accepted_drafts == metrics.drafts, "{metrics:?}");
    // Four guesses and the token behind them.
    assert!(with.len() * 3 < without.len(), "{} steps, and {} without", with.len(), without.len());
    // Wrong ones cost a row each: after the first time, one for each token.
    let mut wrong = engine(small()).with_drafter(WrongDrafter);
    let allowed_ids = Some((0..VOCAB as u32 - 1).collect());
    let restricted: Vec<_> = requests
        .iter()
        .map(|request| {
            let sampling = Sampling { allowed_ids: allowed_ids.clone(), ..request.sampling.clone() };
            Request { sampling, ..request.clone() }
        })
        .collect();
    let (plain, _) = run(&mut engine(small()), restricted.clone());
    assert_eq!(run(&mut wrong, restricted).0, plain);
    let metrics = wrong.metrics();
    assert_eq!(metrics.accepted_drafts, 0);
    assert!(metrics.drafts < metrics.generation_tokens + 9 * 4, "{metrics:?}");
}

#[test]
fn a_drafter_that_fails_ends_the_step_with_its_reason() {
    let mut engine = engine(small()).with_drafter(FailingDrafter);
    engine.add(fixed(8, 1, 5)).expect("the request is right");
    let error = engine.run_to_end().expect_err("the drafter fails").to_string();
    assert!(error.contains("the draft is gone"), "{error}");
    assert!(engine.is_idle());
}

#[test]
fn without_a_cache_every_position_runs_again_and_answers_stay() {
    let requests: Vec<_> = (0..3).map(|i| fixed(6, i, 5)).collect();
    let (plain, _) = run(&mut engine(small()), requests.clone());
    let allocator = warpfold_engine::Allocator::Naive;
    let mut bare = engine(Config { kv_cache: false, allocator, ..small() });
    let (answers, _) = run(&mut bare, requests);
    assert_eq!(plain, answers);
    assert_eq!(bare.metrics().rows, 3 * (6 + 7 + 8 + 9 + 10));
}

#[test]
fn an_answer_that_lags_behind_its_sibling_goes_on_after_a_recompute() {
    // Greedy siblings are equal. With one row a step the first runs ahead, so that all of the
    // second is a prefix of it, and after the recompute the cache knows more than the second one
    // has.
    let two = Request { n: 2, ..fixed(4, 1, 8) };
    let (expected, _) = run(&mut engine(small()), vec![two.clone()]);
    let mut engine = engine(Config { budget: 2, block_size: 1, num_blocks: 20, ..small() });
    engine.add(Request { priority: -1, ..fixed(1, 30, 12) }).expect("the request is right");
    let id = engine.add(two).expect("the request is right");
    let mut second: Vec<u32> = Vec::new();
    for _ in 0..100 {
        let updates = engine.step().expect("the model runs");
        let of_second = updates.iter().filter(|u| u.request == id && u.output == 1);
        second.extend(of_second.flat_map(|u| u.tokens.iter().map(|t| t.token)));
    }
    assert_eq!(engine.metrics().preempted_by_recompute, 1);
    assert!(engine.is_idle(), "an answer makes no progress:\n{}", engine.trace().expect("there is a trace"));
    assert_eq!(second, expected[0][1].ids());
}
