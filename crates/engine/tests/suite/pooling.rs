//! Embeddings: which hidden states they are, and that prompts of any length have one.

use warpfold_engine::{Config, Finish, Pooling, Request};

use super::{MAX_LEN, VOCAB, engine, fixed, run, small};

fn embedding(prompt: &[u32], pooling: Pooling) -> Vec<f32> {
    let (mut answers, _) = run(&mut engine(small()), vec![Request::embedding(prompt.to_vec(), pooling)]);
    let output = answers.remove(0).remove(0);
    assert_eq!((output.tokens.len(), output.finish), (0, Some(Finish::Pooled)));
    output.embedding
}

#[test]
fn a_mean_is_that_of_all_prefixes_and_the_first_is_that_of_one_token() {
    let prompt: Vec<u32> = (0..23).map(|i| (3 + i * 7) % VOCAB as u32).collect();
    let last: Vec<Vec<f32>> = (1..=prompt.len()).map(|len| embedding(&prompt[..len], Pooling::Last)).collect();
    assert!(last.iter().all(|one| one.len() == 8) && last[0] != last[22]);
    let mean = |i: usize| (last.iter().map(|one| f64::from(one[i])).sum::<f64>() / last.len() as f64) as f32;
    assert_eq!(embedding(&prompt, Pooling::Mean), (0..8).map(mean).collect::<Vec<_>>());
    assert_eq!(embedding(&prompt, Pooling::Cls), last[0]);
}

#[test]
fn a_prompt_of_the_longest_length_has_an_embedding_beside_answers() {
    let config = Config { budget: 8, inject_preemptions: 0.4, ..small() };
    let long = fixed(MAX_LEN as u32, 2, 1).prompt;
    let all = Pooling::NAMES.map(|(_, pooling)| Request::embedding(long.clone(), pooling));
    let requests = all.into_iter().chain([fixed(20, 1, 6)]).collect();
    let (answers, _) = run(&mut engine(config), requests);
    for ((_, pooling), answer) in Pooling::NAMES.iter().zip(&answers) {
        assert_eq!(answer[0].embedding, embedding(&long, *pooling), "{pooling:?}");
    }
    assert_eq!(answers[3][0].tokens.len(), 6);
}

#[test]
fn a_prompt_whose_beginning_is_in_the_cache_has_the_same_embedding() {
    let prompt = fixed(40, 5, 1).prompt;
    let mut engine = engine(small());
    for (_, pooling) in Pooling::NAMES {
        let twice = [0, 1].map(|_| {
            let (mut answers, _) = run(&mut engine, vec![Request::embedding(prompt.clone(), pooling)]);
            answers.remove(0).remove(0).embedding
        });
        assert_eq!(twice[0], twice[1]);
        assert_eq!(twice[0], embedding(&prompt, pooling));
    }
    assert_eq!(engine.metrics().prefix_hits, 39, "the mean and the first need rows from the first on");
}
