//! The server, asked over HTTP: in this process, on the scripted model, which takes no time.

mod access;
mod adapters;
mod agent;
mod answers;
mod bounds;
mod browser;
mod chat;
mod client;
mod clients;
mod embeddings;
mod errors;
mod life;
mod load;
mod messages;
mod ollama;
mod others;
mod page;
#[allow(dead_code, unreachable_pub, reason = "the tests in these files are what is used of them")]
mod parts;
mod responses;
mod soak;
mod support;
mod tools;
mod traces;
mod weights;

#[allow(dead_code, reason = "the tests in these files are what is used of them")]
#[path = "../../src/credentials.rs"]
mod credentials;
#[allow(dead_code, unreachable_pub, reason = "the tests in these files are what is used of them")]
#[path = "../../src/error.rs"]
mod error;
#[allow(dead_code, reason = "the tests in these files are what is used of them")]
#[path = "../../src/fields.rs"]
mod fields;
#[allow(dead_code, reason = "the tests in these files are what is used of them")]
#[path = "../../src/share.rs"]
mod share;
