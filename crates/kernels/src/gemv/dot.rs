//! A thread's partial dot products of some rows with the vector.

use warpfold_lang::{Global, Number, Val, Var, range, var};

use super::Element;
use super::element::stream;

/// One of some threads that share rows: a power of two of them, and this one's number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) thread: Val<u32>,
    pub(super) threads: u32,
}

/// The sums of one thread over its share of `len` columns, one for each of the rows.
///
/// Neighbouring threads take neighbouring accesses. A round takes `unroll` of them of each row, all
/// loaded before the first is used; what is left of whole accesses is taken one at a time, and what
/// is left of those element by element.
#[track_caller]
pub(super) fn dots<T: Element>(
    rows: &[Global<T>],
    vector: Global<T>,
    len: Val<u32>,
    share: Share,
    (width, unroll): (u32, u32),
) -> Vec<Val<T::Acc>> {
    let Share { thread, threads } = share;
    let (step, round) = (threads * width, threads * width * unroll);
    let sums: Vec<_> = rows.iter().map(|_| var(<T::Acc as Number>::ZERO)).collect();
    let in_accesses = len & !(width - 1);
    let in_rounds = if unroll > 1 { len & !(round - 1) } else { Val::constant(0) };
    if unroll > 1 {
        range(thread * width, in_rounds, round, |i| add_products(&sums, rows, vector, i, (width, unroll, step)));
    }
    range(in_rounds + thread * width, in_accesses, step, |i| {
        add_products(&sums, rows, vector, i, (width, 1, step));
    });
    if width > 1 {
        range(in_accesses + thread, len, threads, |i| {
            add_products(&sums, rows, vector, i, (1, 1, threads));
        });
    }
    sums.into_iter().map(Var::get).collect()
}

/// Adds the products of `num` accesses from column `i` on, `step` columns apart.
#[track_caller]
fn add_products<T: Element>(
    sums: &[Var<T::Acc>],
    rows: &[Global<T>],
    vector: Global<T>,
    i: Val<u32>,
    (width, num, step): (u32, u32, u32),
) {
    let factors: Vec<_> = rows
        .iter()
        .map(|row| (0..num).flat_map(|n| stream(row.at(i).at(n * step), width)).collect::<Vec<_>>())
        .collect();
    let others: Vec<_> = (0..num).flat_map(|n| T::load(vector.at(i).at(n * step), width)).collect();
    for (sum, factors) in sums.iter().zip(factors) {
        let products = factors.into_iter().zip(&others);
        sum.set(products.fold(sum.get(), |sum, (factor, other)| factor.mul_add(*other, sum)));
    }
}
