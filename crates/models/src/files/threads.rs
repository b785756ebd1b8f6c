//! Work on a slice, shared by threads.

use std::num::NonZero;
use std::thread;

/// Returns the number of cores.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Shares a slice between at most so many threads, in whole units. `work` gets the number of its
/// first unit. Returns the error of the first part that has one.
pub(super) fn share<T: Send, E: Send>(
    threads: usize,
    items: &mut [T],
    unit: usize,
    work: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let unit = unit.max(1);
    let units = items.len().div_ceil(unit);
    let each = units.div_ceil(threads.max(1)).max(1);
    if units <= each {
        return if items.is_empty() { Ok(()) } else { work(0, items) };
    }
    let work = &work;
    thread::scope(|scope| {
        let parts = (0..).step_by(each).zip(items.chunks_mut(each * unit));
        let threads: Vec<_> = parts.map(|(first, part)| scope.spawn(move || work(first, part))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("the work does not panic"))
    })
}
