//! The virtual GPU and the kernels on it, held against references, corpora and hardware, and whole
//! servers under one seed.

mod approximate_bits;
#[path = "attention/main.rs"]
mod attention;
mod calibration;
mod corpus;
mod foreign_ladders;
mod foreign_ptx;
mod hardware_bits;
mod in_flight;
#[path = "instructions/main.rs"]
mod instructions;
mod ladders;
mod language;
mod mutation;
mod mutation_library;
mod planted_races;
mod progress;
mod real_sizes;
mod rows;
#[path = "simulation/main.rs"]
mod simulation;
mod tensor_bits;
