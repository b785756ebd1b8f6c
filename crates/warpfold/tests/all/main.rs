//! What users of the library meet: tensors and operators.

mod by_name;
#[cfg(feature = "candle")]
mod candle;
mod delta;
mod display;
mod dlpack;
mod errors;
mod folds;
mod guesses;
mod guesses_documents;
mod guesses_fourth;
mod guesses_layers;
mod guesses_next;
mod guesses_third;
mod in_place;
mod language;
mod lists;
mod memory;
mod npy;
mod npy_files;
mod order;
mod pairs;
mod parts;
mod planned_once;
mod planned_products;
mod pooling;
mod products;
mod rows;
mod scatter;
mod two_pass;
