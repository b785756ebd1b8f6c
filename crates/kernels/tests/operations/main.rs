//! Every operation on every element type and layout, against references on the host, under all
//! checks.

mod bench;
mod binary;
mod bound;
mod casts;
mod digest;
mod gather;
mod special;
mod ternary;
mod unary;
mod value;
mod walks;
