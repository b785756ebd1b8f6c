//! Parts of the load generator, of the metrics and of what is kept, by their files with their
//! tests.

#[path = "../../src/openai/gbnf.rs"]
mod gbnf;
#[path = "../../src/metrics/histogram.rs"]
mod histogram;
#[path = "../../src/load/http.rs"]
mod http;
#[path = "../../src/load/random.rs"]
mod random;
#[path = "../../src/openai/responses/store.rs"]
mod store;
#[path = "../../src/load/summary.rs"]
mod summary;
#[path = "../../src/load/workload.rs"]
mod workload;
