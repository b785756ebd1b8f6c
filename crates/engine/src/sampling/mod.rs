//! Sampling of the next token: parameters, noise, and the reference for a device's sampler.
//!
//! A draw is a function of logits, parameters, seed and absolute position, so that it never depends
//! on what else is in the batch, on the schedule, or on what was drawn before. [`sample`] says
//! exactly which token it is.

mod noise;
mod params;
mod reference;

pub use noise::{gumbel, philox};
pub use params::Sampling;
pub(crate) use params::check_id;
pub use reference::{Sampled, kept, processed, sample};
