//! The inference engine behind HTTP, with OpenAI's interfaces, Anthropic's and Ollama's.
//!
//! A [`Server`] listens at once and serves when its [`Handle`] has given it a model, which lives on
//! a thread of its own ([`warpfold_engine::service`]):
//!
//! ```
//! use warpfold_engine::Config;
//! use warpfold_engine::scripted::Scripted;
//! use warpfold_serve::{Options, Server, Text};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::start(Options::new("scripted", 0))?;
//!     println!("listening at http://{}", server.address());
//!     server.handle().serve(Scripted::new(100, 128), Config::default(), Text::default())?;
//!     server.handle().stop(); // or `stop_on_signals`
//!     let metrics = server.wait()?.ok_or("there is an engine")?;
//!     assert_eq!(metrics.now.used_blocks, 0);
//!     Ok(())
//! }
//! ```
//!
//! # The way of a request
//!
//! `connection` accepts it, within bounds; `routes` finds who answers; `access` looks at its key;
//! `fields` takes its JSON apart, and what nobody knows is an error that names it; `openai/`,
//! `anthropic/` and `ollama/` make requests for the engine of it; `share` gives it its turn;
//! `generation` is the stream of updates that come back, and gives the request up when it is
//! dropped. `metrics/` watches.
//!
//! `host` is what all of them take from tokio beyond that: a [`SimulatedServer`] has its owner's
//! timer instead, and [`Socket`]s that are none.
//!
//! [`load`] is the other side: clients that measure a server, or an engine in this process.
//!
//! # What is absent on purpose
//!
//! TLS (a proxy does that), several models, files. What is not supported is refused by name.

mod access;
mod access_log;
mod adapters;
mod anthropic;
mod body;
mod connection;
mod credentials;
mod error;
mod fields;
mod generation;
mod host;
pub mod load;
mod metrics;
mod ollama;
mod openai;
mod options;
mod page;
mod routes;
mod server;
mod share;
mod simulated;
mod sleep;
mod state;
mod tokenize;
mod traces;
mod weights;

pub use connection::Socket;
pub use error::{Error, ErrorKind};
pub use host::ServeFault;
pub use options::{Bounds, LogFormat, LogSink, Options};
pub use server::{Handle, Server};
pub use simulated::SimulatedServer;
pub use state::Text;
pub use weights::{LateDigest, OpenWeights, OtherWeights};
