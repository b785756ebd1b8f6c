//! Pictures as SVG, for documents: all that the book shows, made from runs and from the numbers
//! that the program computes.
//!
//! Start with [`PICTURES`], the list; `canvas` is what they are written with. Colours follow the
//! reader's light or dark, and letters stay readable where a page is 390 pixels wide. Where a
//! [`Page`](crate::Page) can be opened, it shows more.

mod attention;
mod canvas;
mod conv;
mod folds;
mod gemm;
mod machine;
mod measured;
mod moves;
mod runs;
mod serving;
mod threads;

pub use measured::{access_svg, bars_svg, ladder_svg};
pub use serving::{SlotChart, SlotState, slots_svg};

use warpfold_device::Device;
use warpfold_ladders::Error;

/// A picture of the book: its file, and how it is made on a virtual GPU.
#[derive(Debug, Clone, Copy)]
pub struct Picture {
    /// The file, without its folder.
    pub file: &'static str,
    draw: fn(&Device) -> Result<String, Error>,
}

impl Picture {
    /// The SVG.
    ///
    /// # Errors
    /// What the device says of the runs that it takes.
    pub fn draw(&self, device: &Device) -> Result<String, Error> {
        (self.draw)(device)
    }
}

/// The list of pictures.
macro_rules! pictures {
    ($($file:literal $draw:path;)+) => {
        /// Every picture that needs no model, in the order of the book.
        pub const PICTURES: &[Picture] = &[$(Picture { file: $file, draw: $draw }),+];
    };
}

pictures! {
    "cpu-and-gpu.svg" machine::cpu_and_gpu;
    "multiprocessor.svg" machine::multiprocessor;
    "grid.svg" machine::grid;
    "waves.svg" machine::waves;
    "latency.svg" machine::latency;
    "memories.svg" machine::memories;
    "divergence.svg" machine::divergence;
    "roofline.svg" machine::roofline;
    "partitions.svg" threads::partitions;
    "indices.svg" threads::indices;
    "butterfly.svg" threads::butterfly;
    "map-and-reduce.svg" threads::map_and_reduce;
    "vector-add.svg" runs::vector_add;
    "vector-add-grid.svg" runs::vector_add_grid;
    "vector-add-vec4.svg" runs::vector_add_vec4;
    "maximum-serial.svg" folds::serial;
    "maximum-parallel.svg" folds::parallel;
    "reduce-blocks.svg" folds::blocks;
    "tree-naive.svg" folds::tree_naive;
    "tree-interleaved.svg" folds::tree_interleaved;
    "tree-sequential.svg" folds::tree_sequential;
    "reduce.svg" runs::reduce;
    "interleaved-banks.svg" runs::interleaved_banks;
    "sequential-banks.svg" runs::sequential_banks;
    "idle.svg" folds::idle;
    "reduce-instructions.svg" runs::reduce_instructions;
    "scan.svg" runs::scan;
    "online-softmax.svg" folds::online_softmax;
    "softmax.svg" runs::softmax;
    "relu.svg" runs::relu;
    "sigmoid.svg" runs::sigmoid;
    "histogram.svg" runs::histogram;
    "histogram-conflicts.svg" runs::histogram_conflicts;
    "suppression.svg" moves::suppression;
    "gemv-lanes.svg" moves::gemv_lanes;
    "gemv.svg" runs::gemv;
    "overlapped-copies.svg" moves::overlapped_copies;
    "allocations.svg" moves::allocations;
    "ring.svg" moves::ring;
    "all-reduces.svg" moves::all_reduces;
    "sgemm-who.svg" gemm::who_computes;
    "sgemm.svg" runs::sgemm;
    "sgemm-naive.svg" runs::sgemm_naive;
    "sgemm-seven.svg" gemm::seven;
    "sgemm-shared.svg" runs::sgemm_shared;
    "sgemm-thread-tile.svg" gemm::thread_tile;
    "sgemm-loads.svg" gemm::who_loads;
    "sgemm-warps.svg" gemm::warps;
    "sgemm-pipeline.svg" gemm::pipeline;
    "hgemm.svg" runs::hgemm;
    "conv-window.svg" conv::window;
    "conv-channels.svg" conv::channels;
    "im2col.svg" conv::im2col;
    "implicit-gemm.svg" conv::implicit;
    "conv.svg" runs::conv;
    "attention-scores.svg" runs::attention_scores;
    "attention-loops.svg" attention::loops;
    "attention-tile.svg" attention::tile;
    "attention.svg" runs::attention;
    "paged-attention.svg" attention::paged;
    "prefill.svg" serving::prefill;
    "selective-batching.svg" serving::selective;
    "kv-slots.svg" serving::waste;
    "queues.svg" serving::queues;
}
