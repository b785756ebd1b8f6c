//! Every integer, logic, comparison and video instruction against a reference in plain wide
//! arithmetic.

mod arithmetic;
mod bits;
mod carry;
mod compare;
mod logic;
mod reference;
mod refused;
mod select;
mod video;
