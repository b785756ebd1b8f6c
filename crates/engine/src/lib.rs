//! An inference engine: continuous batching on a paged KV cache, with answers that never depend on
//! who else is served.
//!
//! No HTTP, no files, no device: the model is a trait, and [`scripted::Scripted`] is one by which
//! every schedule is tested. One thread owns an [`Engine`]; each [`Engine::step`] is plan, run,
//! commit.
//!
//! ```
//! use warpfold_engine::scripted::Scripted;
//! use warpfold_engine::{Config, Engine, Policy, Request, Sampling};
//!
//! fn main() -> Result<(), warpfold_engine::Error> {
//!     let config = Config { num_blocks: 64, block_size: 4, budget: 32, ..Config::default() };
//!     let mut engine = Engine::new(Scripted::new(100, 128), config.clone())?;
//!
//!     // A stream: each step returns what it adds to each answer.
//!     let id = engine.add(Request { seed: Some(7), ..Request::new(vec![1, 2, 3]) })?;
//!     let other = engine.add(Request::greedy(vec![4; 50], 20))?;
//!     let mut streamed = Vec::new();
//!     while !engine.is_idle() {
//!         for update in engine.step()?.iter().filter(|u| u.request == id) {
//!             streamed.extend(update.tokens.iter().map(|t| t.token));
//!         }
//!     }
//!     assert!(!engine.abort(other), "it has ended");
//!
//!     // The same request among others, in another schedule: the same answer.
//!     let config = Config { policy: Policy::VllmV0, budget: 128, inject_preemptions: 0.5, ..config };
//!     let mut engine = Engine::new(Scripted::new(100, 128), config)?;
//!     engine.add(Request { n: 3, sampling: Sampling::default(), ..Request::greedy(vec![9; 20], 10) })?;
//!     let id = engine.add(Request { seed: Some(7), ..Request::new(vec![1, 2, 3]) })?;
//!     let answers = engine.run_to_end()?;
//!     assert_eq!(answers[&id][0].ids(), streamed);
//!     Ok(())
//! }
//! ```
//!
//! # Reading order
//!
//! [`Request`] and [`Config`] say what is wanted; `engine.rs` is the loop; `scheduler/mod.rs` has
//! the queues and leads to the policies; `group.rs` and `sequence.rs` are what they hold; `block/`
//! is the cache's memory; [`Batch`] and [`Model`] are the seam to the model; `sampling/` says which
//! token is drawn, exactly; `detokenize.rs` makes text, `pooling.rs` embeddings. [`sizing`]
//! computes how many blocks there are, [`ladder`] shows what each idea buys, [`replay`] plays a
//! log, [`exercise`] judges settings, [`simulation`] tries schedules under a seed.
//!
//! # Steps that overlap
//!
//! With a model that [overlaps](Model::overlaps) them, the next step is planned, assembled and
//! submitted while one runs, as if every sequence went on. A row whose token is not known yet is
//! [fed](Feed) on the device. An answer's end is found one step late: what that step drew for it is
//! dropped, and its blocks are free when that step is over. No plan that is ahead preempts anybody.
//! Answers are the same, bit for bit, and [`Config::overlap`] says when steps take turns.
//!
//! # What is absent on purpose
//!
//! Time, threads and randomness: the caller tells the time, owns the thread, and gives a seed. So a
//! run repeats. [`service`] is such a caller: it puts an engine on a thread and gives out streams.

mod batch;
mod beam;
mod block;
mod config;
mod constraint;
mod detokenize;
mod engine;
mod error;
pub mod exercise;
mod group;
pub mod ladder;
mod metrics;
mod model;
mod planted;
mod pooling;
pub mod replay;
mod request;
mod sampling;
mod scheduler;
pub mod scripted;
mod sequence;
pub mod service;
pub mod simulation;
pub mod sizing;
mod speculate;
mod trace;

pub use batch::{Batch, Feed, Moves, SampleRow, SequenceId, TokenCount};
pub use block::{BlockCopy, BlockId, NULL_BLOCK, PrefixChange};
pub use config::{Allocator, Config, Policy, Preemption, Speculation};
pub use constraint::{Constraint, LateMask, Next};
pub use detokenize::{Decode, Detokenizer, Piece};
pub use engine::{Engine, OnTrace};
pub use error::{Error, ErrorKind, ModelError};
pub use metrics::{Gauges, Metrics, Part, Residence};
pub use model::{CacheShape, Limits, Model, Ticket};
pub use pooling::Pooling;
pub use request::{Adapter, Beam, Finish, Output, Request, RequestId, Update};
pub use sampling::{Sampled, Sampling, gumbel, kept, philox, processed, sample};
pub use speculate::{DraftModel, DraftRequest, Drafter};
pub use trace::{SequenceTrace, StepTrace, Wait};
