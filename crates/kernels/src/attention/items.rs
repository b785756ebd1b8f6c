//! The items of a block, one after the other, each drawn as late as can be.

use warpfold_lang::{Barrier, TileCounter, barriers, thread_idx, var, when};

use super::config::Launch;
use super::work::{Item, find};

/// The numbers of a block's items, which one thread draws and the others receive. Items differ in
/// length, and the longest come first: so that blocks end together, the next one is only drawn when
/// the loads of the one at hand are under way. Stages that are yet to be multiplied hide the draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct Items {
    counter: TileCounter,
    wanted: Barrier,
}

impl Items {
    pub(super) fn new(launch: &Launch<'_>) -> Self {
        let args = launch.args;
        Self { counter: TileCounter::new(args.counter, args.items.get()), wanted: barriers(1).at(0) }
    }

    /// Makes barriers ready, for so many threads that receive.
    pub(super) fn init(self, receivers: u32) {
        self.wanted.init(1);
        self.counter.init(receivers);
    }

    /// Draws the block's items: one thread's work.
    pub(super) fn draw(self) {
        let parity = var(0_u32);
        self.counter.produce(|_| {
            self.wanted.wait(parity.get());
            parity.set(parity.get() ^ 1);
        });
    }

    /// Runs `body` for each item, in threads that receive.
    pub(super) fn each(self, launch: &Launch<'_>, body: impl FnOnce(&Item)) {
        self.each_then(launch, body, || ());
    }

    /// The same in threads that load, the block's first among them: behind `body` the next item is
    /// wanted.
    pub(super) fn each_loaded(self, launch: &Launch<'_>, body: impl FnOnce(&Item)) {
        self.each_then(launch, body, || when(thread_idx().x.eq(0), || self.wanted.arrive()));
    }

    fn each_then(self, launch: &Launch<'_>, body: impl FnOnce(&Item), then: impl FnOnce()) {
        self.counter.consume(|number| {
            let item = find(&launch.config.work, &launch.args, number);
            when(item.exists, || body(&item));
            then();
        });
    }
}
