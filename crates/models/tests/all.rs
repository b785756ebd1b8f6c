//! Tests of models: what they answer, how they load, and that nothing changes a bit.

mod adapters;
mod dialect;
mod grammar;
mod invariance;
mod models;
mod parallel;
mod sampling;
mod shipped;
mod smollm2;
mod templates;
mod warm_up;
