//! Parts of the load generator and of the metrics, by their files with their tests.

#[path = "../../src/metrics/histogram.rs"]
mod histogram;
#[path = "../../src/load/http.rs"]
mod http;
#[path = "../../src/load/random.rs"]
mod random;
#[path = "../../src/load/summary.rs"]
mod summary;
#[path = "../../src/load/workload.rs"]
mod workload;
