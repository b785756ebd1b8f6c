//! The program as its user meets it: arguments in, text and exit code out.

mod advise;
mod bad_input;
mod devices;
mod foreign;
mod generate;
mod inspect;
mod ladder;
mod serve;
mod sim;
mod support;
