//! The table of reductions, under all checks of the virtual GPU: rules, types, accuracy,
//! reproducibility, and the laws of every monoid.

mod accuracy;
mod bench;
mod exact;
mod host;
mod laws;
mod reproducible;
mod rules;
mod types;
