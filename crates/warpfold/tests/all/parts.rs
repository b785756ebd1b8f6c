//! Parts of the library that no operator shows, by their files, with the tests at the end of each.

#![allow(dead_code, unreachable_pub, reason = "the tests in these files are what is used of them")]

#[path = "../../src/arena.rs"]
mod arena;
#[path = "../../src/axes.rs"]
mod axes;
#[path = "../../src/dlpack/abi.rs"]
mod dlpack_abi;
#[path = "../../src/npy/types.rs"]
mod npy_types;
#[path = "../../src/npy/zip.rs"]
mod npy_zip;
#[path = "../../src/shape.rs"]
mod shape;
