//! The kernel that enters elements into the tables of their rows: open addressing, one word after
//! the other.

use warpfold_lang::{
    Global, Order, Scope, Val, block_dim, block_idx, grid_dim, kernel, loop_until_left, params, range, thread_idx, var,
    wait_for_dependencies, when,
};

use super::BLOCK;
use crate::elements::{Place, Run, Source};
use crate::{AnyKernel, Dtype};

/// 2^64 divided by the golden ratio: the high bits of products with it lie apart (Knuth, volume 3,
/// section 6.4).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Equal elements, and no others, have equal keys.
pub(super) fn keys(dtype: Dtype) -> Source<Val<u64>> {
    match dtype {
        // The sum with +0 is +0 for both zeros.
        Dtype::F64 => {
            Source::one::<f64>(dtype).map(|x| x.is_nan().select(f64::NAN.to_bits(), (x + 0.0).bitcast::<u64>()))
        }
        _ if dtype.is_float() => Source::one::<f32>(dtype).map(|x| {
            let key = x.is_nan().select(f32::NAN.to_bits(), (x + 0.0).bitcast::<u32>());
            key.cast::<u64>()
        }),
        _ if dtype.bytes() == 8 => Source::<Val<u64>>::bits(dtype),
        _ => Source::<Val<u32>>::bits(dtype).map(|x| x.cast::<u64>()),
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct TableArgs {
        rows: Global<u8>, tables: Global<u64>,
        /// Elements of all rows.
        len: u64, row_len: u64,
        /// Words of a table but the last one.
        capacity: u64,
    }
}

pub(super) fn kernel_of(dtype: Dtype) -> AnyKernel {
    let keys = keys(dtype);
    let body = move |args: TableArgs| {
        let TableArgs { rows, tables, len, row_len, capacity } = args;
        wait_for_dependencies();
        let block = block_dim().x.cast::<u64>();
        let first = block_idx().x.cast::<u64>() * block + thread_idx().x.cast::<u64>();
        range(first, len, grid_dim().x.cast::<u64>() * block, |i| {
            let place = Place { pointer: rows.at(i * dtype.bytes()), run: Run::Narrow };
            let key = keys.load(&[place], 1)[0];
            let table = tables.at((i / row_len) * (capacity + 1));
            when(key.eq(0), || table.at(capacity).reduction().or(1));
            when(key.ne(0), || enter(table, capacity, key));
        });
    };
    kernel(format!("unique_{dtype}"), body).required_block(BLOCK).into()
}

/// Enters a key that is not 0. The table has more words than keys, so that a free one, or the
/// key's, is found.
fn enter(table: Global<u64>, capacity: Val<u64>, key: Val<u64>) {
    // The high 32 bits of the product, of which tables of more words leave some free.
    let word = var(((key * MULTIPLIER) >> 32) & (capacity - 1));
    loop_until_left(|search| {
        let at = table.at(word.get());
        // What repeats costs a load: most elements of few kinds do.
        search.leave_if(at.load(Order::Relaxed, Scope::Gpu).eq(key));
        let found = at.atomic().compare_exchange(0, key);
        search.leave_if(found.eq(0) | found.eq(key));
        word.set((word.get() + 1) & (capacity - 1));
    });
}
