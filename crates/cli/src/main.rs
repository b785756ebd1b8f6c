//! The `warpfold` program.

fn main() {}
