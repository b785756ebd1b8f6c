//! The program as its user meets it: arguments in, text and exit code out.

mod bad_input;
mod devices;
mod sim;
mod support;
