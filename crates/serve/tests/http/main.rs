//! The server, asked over HTTP: in this process, on the scripted model, which takes no time.

mod access;
mod answers;
mod bounds;
mod browser;
mod chat;
mod client;
mod clients;
mod errors;
mod life;
mod load;
mod others;
mod page;
mod soak;
mod support;
