//! Clocks that only some lanes of a warp have acquired: no warp sync has passed them on to the
//! others yet.
//!
//! An acquire pattern orders what follows it in its own thread (PTX ISA, "Causality Order"); that
//! hardware keeps the lanes of a warp together is no part of the model. One clock a warp: what
//! several lanes acquired one after the other, all of them count as knowing, until a sync of the
//! warp, or a barrier, makes it known to all. That may lose a finding and does not invent one.

use crate::check::access::Lanes;
use crate::check::order::block::BlockOrder;
use crate::check::order::clock::{Clock, NOTHING, PROXIED, join};

/// Per warp: the lanes that know more than the others, and their clock.
#[derive(Debug, Default)]
pub(in crate::check) struct Unshared(Vec<(u32, Box<Clock>)>);

impl Unshared {
    pub(in crate::check) fn clear(&mut self) {
        for (lanes, _) in &mut self.0 {
            *lanes = 0;
        }
    }

    /// The lanes of a warp that know more than the others, and their clock.
    pub(in crate::check) fn of(&self, warp: u32) -> Option<(u32, &Clock)> {
        self.0.get(warp as usize).filter(|(lanes, _)| *lanes != 0).map(|(lanes, clock)| (*lanes, &**clock))
    }

    /// Adds `clock` to the lanes' own; returns the lanes that know it now.
    fn add(&mut self, warp: u32, lanes: u32, clock: &Clock) -> u32 {
        let w = warp as usize;
        if self.0.len() <= w {
            self.0.resize_with(w + 1, || (0, Box::new(NOTHING)));
        }
        let (known_by, known) = &mut self.0[w];
        if *known_by == 0 {
            **known = NOTHING;
        }
        *known_by |= lanes;
        join(known, clock);
        *known_by
    }

    /// Takes the clock of single lanes of a warp, to be shared with all of them.
    fn take(&mut self, warp: u32) -> Option<Box<Clock>> {
        let (lanes, clock) = self.0.get_mut(warp as usize)?;
        (std::mem::take(lanes) != 0).then(|| clock.clone())
    }
}

impl BlockOrder {
    /// Adds `clock` for some lanes of a warp only, until the warp shares it.
    pub(in crate::check) fn learn_by(&mut self, warp: u32, lanes: u32, clock: &Clock) {
        let w = warp as usize;
        if lanes == self.lanes[w] {
            return self.learn(warp, lanes, clock);
        }
        // What lanes did before others of their own warp is kept by lane.
        let mut others = *clock;
        others[w] = NOTHING[w];
        let mut own = NOTHING;
        own[w] = clock[w];
        self.learn(warp, lanes, &own);
        let is_news = |(other, known): (usize, &super::clock::Known)| {
            let old = if other < PROXIED { self.floor } else { self.proxied[other - PROXIED] };
            other != w && known.some > old
        };
        if others.iter().enumerate().any(is_news) && self.unshared.add(warp, lanes, &others) == self.lanes[w] {
            self.share(warp);
        }
    }

    /// Shares the clocks of some lanes with all lanes of the warp.
    pub(in crate::check) fn share(&mut self, warp: u32) {
        if let Some(clock) = self.unshared.take(warp) {
            self.learn(warp, 0, &clock);
        }
    }

    /// Shares the clock among synchronising lanes: those outside do not get it.
    pub(in crate::check) fn share_with(&mut self, warp: u32, lanes: u32) {
        let Some((known_by, _)) = self.unshared.of(warp) else { return };
        if lanes == self.lanes[warp as usize] {
            self.share(warp);
        } else if known_by & lanes != 0 {
            let clock = NOTHING;
            if self.unshared.add(warp, lanes, &clock) == self.lanes[warp as usize] {
                self.share(warp);
            }
        }
    }

    /// Shares the entries for proxy fences, before everything else is forgotten.
    pub(in crate::check) fn share_proxied(&mut self) {
        for warp in Lanes(self.warps) {
            if let Some((_, clock)) = self.unshared.of(warp) {
                for (all, one) in self.proxied.iter_mut().zip(&clock[PROXIED..]) {
                    *all = (*all).max(one.some);
                }
            }
        }
        self.unshared.clear();
    }
}
