//! Exercises, and how they are judged.

use warpfold_device::LaunchConfig;
use warpfold_ladders::exercise::{EXERCISES, exercise};
use warpfold_lang::{Global, Val, kernel, thread_idx};

#[test]
fn a_kernel_that_leaves_its_buffers_is_judged_and_fails() {
    let body = |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        y.at(thread_idx().x + n).set(x.at(thread_idx().x).get());
    };
    let reverse = exercise("reverse").expect("there is one");
    let judgement = reverse.judge(kernel("outside", body), LaunchConfig::new(1, 256)).expect("it is judged");
    assert!(!judgement.is_passed() && judgement.result.is_err());
    let text = judgement.to_string();
    assert!(text.starts_with("reverse: not yet\n") && text.contains("[ ] the checks find an error: "), "{text}");
}

#[test]
fn a_kernel_of_other_arguments_is_an_error() {
    let two = kernel("two", |_: Global<f32>, _: Global<f32>| {});
    let error = exercise("sum").expect("there is one").judge(two, LaunchConfig::new(1, 256)).expect_err("of two");
    assert!(error.to_string().contains('3') || error.to_string().contains("argument"), "{error}");
    let unknown = exercise("some").expect_err("there is none").to_string();
    assert!(unknown.starts_with("unknown exercise 'some': expected one of twice, reverse, sum"), "{unknown}");
}

#[test]
fn a_result_that_was_not_written_is_wrong() {
    let nothing = kernel("nothing", |_: Global<f32>, _: Global<f32>, _: Val<u32>| {});
    for exercise in EXERCISES.iter().filter(|exercise| !["product", "window", "attention"].contains(&exercise.name)) {
        let judged = exercise.judge(nothing.clone(), LaunchConfig::new(1, 32)).expect("it runs");
        assert!(judged.result.is_err() && !judged.is_passed(), "{}", exercise.name);
    }
}
