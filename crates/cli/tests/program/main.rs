//! The program as its user meets it: arguments in, text and exit code out.

mod advise;
mod bad_input;
mod book;
mod devices;
mod findings;
mod foreign;
mod generate;
mod hostile;
mod inspect;
mod ladder;
mod moves;
mod pictures;
mod profile;
mod serve;
mod sim;
mod support;
