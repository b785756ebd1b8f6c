//! Exercises, and how they are judged.

use warpfold_device::{Checks, Device, FindingKind, LaunchConfig, Profile};
use warpfold_ladders::exercise::{EXERCISES, exercise};
use warpfold_lang::{Global, Kernel, Val, kernel, shared, shfl_down, sync_threads, thread_idx, when};

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
    assert!(unknown.starts_with("unknown exercise 'some': expected one of index, blocks, guard"), "{unknown}");
}

#[test]
fn a_result_that_was_not_written_is_wrong() {
    let nothing = kernel("nothing", |_: Global<f32>, _: Global<f32>, _: Val<u32>| {});
    for exercise in EXERCISES.iter().filter(|exercise| exercise.num_inputs() == 1) {
        let judged = exercise.judge(nothing.clone(), LaunchConfig::new(1, 32)).expect("it runs");
        assert!(judged.result.is_err() && !judged.is_passed(), "{}", exercise.name);
    }
}

/// Kernels of one input and one output that give what their author expects only by luck.
fn lucky() -> [(Kernel<(Global<f32>, Global<f32>, u32)>, u32, FindingKind, &'static str); 3] {
    let half_shuffles = kernel("half_shuffles", |x: Global<f32>, y: Global<f32>, _: Val<u32>| {
        let i = thread_idx().x;
        when(i.lt(16), || y.at(i).set(shfl_down(x.at(i).get(), 1)));
        when(i.ge(16), || y.at(i).set(0.0));
    });
    let lanes_race = kernel("lanes_race", |x: Global<f32>, y: Global<f32>, _: Val<u32>| {
        let (tile, i) = (shared::<f32>(33), thread_idx().x);
        when(i.eq(0), || tile.at(32).set(0.0));
        tile.at(i).set(x.at(i).get());
        y.at(i).set(tile.at(i + 1).get());
    });
    let one_warp_waits = kernel("one_warp_waits", |x: Global<f32>, y: Global<f32>, _: Val<u32>| {
        let i = thread_idx().x;
        when(i.lt(32), sync_threads);
        y.at(i).set(x.at(i).get());
    });
    [
        (half_shuffles, 32, FindingKind::InvalidSync, "undefined"),
        (lanes_race, 32, FindingKind::WarpSync, "warp-synchronous"),
        (one_warp_waits, 64, FindingKind::BarrierDivergence, "barrier"),
    ]
}

#[test]
fn what_only_luck_orders_is_refused_by_deny_and_by_the_judge_unless_it_is_allowed() {
    for (mine, threads, kind, said) in lucky() {
        let (config, input) = (LaunchConfig::new(1, threads), vec![1.0_f32; 64]);
        let launched = |allowed: Vec<FindingKind>| {
            let device = Device::virtual_gpu(Profile::H200);
            device.set_checks(Checks::Deny).expect("it checks");
            device.configure(|options| options.allowed = allowed).expect("the virtual GPU");
            let (x, mut y) = (device.upload(&input).expect("memory"), device.alloc::<f32>(64).expect("memory"));
            device.launch(&mine, config, (&x, &mut y, threads)).map_err(|error| error.to_string())
        };
        let refused = launched(Vec::new()).expect_err("it is refused");
        assert!(refused.contains(kind.name()) && refused.contains(said), "{refused}");
        launched(vec![kind]).expect("who knows may allow it");
        let mut judgement = exercise("reverse").expect("there is one").judge(mine.clone(), config).expect("it runs");
        assert!(judgement.to_string().contains("  [ ] the checks find"), "{judgement}");
        judgement.allowed = vec![kind];
        assert!(judgement.to_string().contains("  [x] no check finds"), "{judgement}");
    }
}
