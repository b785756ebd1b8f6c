//! The server, asked over HTTP: in this process, on the scripted model, which takes no time.

mod access;
mod answers;
mod bounds;
mod chat;
mod client;
mod errors;
mod life;
mod others;
mod page;
mod soak;
mod support;
