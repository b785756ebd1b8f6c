//! Requests that others could starve. Failing steps and copies, clients that leave and caches that
//! are emptied are drawn by `warpfold_engine::simulation`.

use warpfold_engine::{Config, Policy, Preemption};

use super::{engine, fixed, small};

#[test]
fn a_large_request_is_not_passed_by_small_ones_for_ever() {
    for policy in Policy::ALL {
        for preemption in [Preemption::Recompute, Preemption::Swap] {
            let config = Config {
                policy,
                preemption,
                num_blocks: 26,
                num_host_blocks: 26,
                max_seqs: 6,
                trace: false,
                ..small()
            };
            let mut engine = engine(config);
            let mut large = None;
            let mut ended = None;
            for step in 0..600 {
                for i in 0..2 {
                    engine.add(fixed(5, step * 2 + i, 6)).expect("it is small");
                }
                if step == 10 {
                    large = Some(engine.add(fixed(80, 1, 16)).expect("it fits alone"));
                }
                for update in engine.step().expect("the model runs") {
                    if Some(update.request) == large && update.finish.is_some() {
                        ended = Some(step);
                    }
                }
            }
            assert!(ended.is_some_and(|step| step < 250), "{policy:?}, {preemption:?}: {ended:?}");
        }
    }
}
