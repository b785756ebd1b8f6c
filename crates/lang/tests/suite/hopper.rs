//! What needs sm_90.

use half::bf16;
use warpfold_lang::{
    AtomicAdd, Bf16x2, Float, Global, Kernel, Lanes, Order, Scope, fence, kernel, launch_dependents,
    wait_for_dependencies, when,
};

use super::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(dependent()), Case::new(halves())]
}

fn dependent() -> Kernel<(Global<u32>,)> {
    kernel("dependent", |data: Global<u32>| {
        wait_for_dependencies();
        when(Lanes::all_lanes().elect(), || data.reduction().scope(Scope::Cluster).order(Order::Release).add(1));
        fence(Scope::Cluster);
        launch_dependents();
    })
}

fn halves() -> Kernel<(Global<bf16>, Global<Bf16x2>)> {
    fn all<T: AtomicAdd + Float>(data: Global<T>) {
        let value = data.get();
        data.at(1).set(data.atomic().add(value));
        data.reduction().add(value);
        data.at(2).set(value.exp2_approx() + value.tanh_approx());
    }
    kernel("halves_bf16", |single: Global<bf16>, pair: Global<Bf16x2>| {
        all(single);
        all(pair);
    })
}
