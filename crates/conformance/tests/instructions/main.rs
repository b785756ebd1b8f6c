//! Every instruction on the virtual GPU against references that share no code with it.

mod asynchronous;
mod cluster;
mod convert;
mod float;
mod integer;
mod tensor;
