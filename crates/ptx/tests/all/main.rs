//! The PTX syntax tree: read, printed, verified.

mod errors;
mod fuzz;
mod random_trees;
mod round_trip;
mod syntax;
mod verify;
