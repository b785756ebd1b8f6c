//! The program as its user meets it: arguments in, text and exit code out.

mod adapters;
mod advise;
mod bad_input;
mod benchmarks;
mod book;
#[path = "../../../serve/tests/http/browser.rs"]
mod browser;
mod catalog;
mod devices;
mod download;
mod exercise;
mod findings;
mod foreign;
mod generate;
mod hostile;
mod inspect;
mod judge;
mod l1;
mod ladder;
mod moves;
mod pictures;
mod predict;
mod profile;
mod replay;
mod router;
mod run;
mod serve;
mod sim;
mod step;
mod support;
mod theatre;
mod web;
