//! What users of the library meet: tensors and operators.

#[cfg(feature = "candle")]
mod candle;
mod display;
mod dlpack;
mod errors;
mod folds;
mod guesses;
mod guesses_next;
mod in_place;
mod language;
mod npy;
mod order;
mod pairs;
mod planned_once;
mod planned_products;
mod pooling;
mod products;
mod rows;
mod scatter;
mod two_pass;
