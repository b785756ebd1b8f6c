//! Rung 1: one launch, and a fence instead of a barrier of the grid.
//! Changed: nothing before it; blocks add their sums to one word, fence, and divide by what they then read there.
//! Removes: nothing.
//! Measured: see `VECTOR` (generated).
//! Limit now: it is wrong: a fence orders what one thread does and waits for nobody, so blocks divide by part of the sum.

use warpfold_kernels::fold::Sum;
use warpfold_lang::{Global, Kernel, Scope, Val, block_idx, fence, kernel, range, sync_threads, thread_idx, var, when};

use super::grid_threads;
use crate::row::{Row, RowElement, Team};

/// Parameters of the kernel: the vector, a zero for the sum of exponentials, the output, the
/// length.
pub type Threadfence<T> = Kernel<(Global<T>, Global<f32>, Global<T>, u32)>;

/// A race: each block divides by what has been added up when it looks.
#[must_use]
pub fn threadfence<T: RowElement>(block: u32) -> Threadfence<T> {
    let name = format!("softmax_threadfence_{}", T::DTYPE);
    let body = move |input: Global<T>, total: Global<f32>, output: Global<T>, len: Val<u32>| {
        let (input, output) = (Row::only(input, len), Row::only(output, len));
        let thread = block_idx().x * block + thread_idx().x;
        // Sum
        let sum = var(0.0_f32);
        range(thread, len, grid_threads(block), |i| sum.add_assign(input.get(i).exp()));
        let sum = Team::Block(block).fold(Sum::new(), sum.get());
        when(thread_idx().x.eq(0), || total.reduction().add(sum));
        fence(Scope::Gpu);
        sync_threads();
        // Epilogue
        let factor = total.get().recip();
        range(thread, len, grid_threads(block), |i| output.set(i, &[input.get(i).exp() * factor]));
    };
    kernel(name, body).required_block(block)
}
