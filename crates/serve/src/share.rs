//! How those who hold different keys share the engine: each gets its turn, however much another
//! asks for.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996) with a request as the unit: a request's tag is
//! one more than the last tag of its key, but not before the tag of what the engine started last.
//! Tags are the engine's priorities, so a key with one request passes a key with a thousand. With
//! one key, tags follow arrival.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::error::ApiError;

/// The keys, or the one tenant that everybody is without keys.
#[derive(Debug)]
pub(crate) struct Tenants {
    all: Vec<Arc<Tenant>>,
    /// The tag of the request that started last.
    now: Arc<AtomicI32>,
    /// Requests that may wait, and those of one tenant where all of them ask.
    most_waiting: usize,
    share: usize,
}

/// Those who hold one key.
#[derive(Debug)]
pub(crate) struct Tenant {
    /// Prefixes are shared among requests of the same salt.
    pub(crate) salt: Arc<str>,
    last_tag: Mutex<i32>,
    waiting: AtomicUsize,
}

/// A request's place in the queue; dropped when it has started or ended.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) tag: i32,
    tenant: Arc<Tenant>,
    now: Arc<AtomicI32>,
}

impl Tenants {
    pub(crate) fn new(keys: usize, waiting: usize) -> Self {
        let tenant = |i: usize| Tenant {
            salt: format!("key {i}").into(),
            last_tag: Mutex::new(0),
            waiting: AtomicUsize::new(0),
        };
        let keys = keys.max(1);
        Self {
            all: (0..keys).map(|i| Arc::new(tenant(i))).collect(),
            now: Arc::default(),
            most_waiting: waiting,
            share: waiting.div_ceil(keys),
        }
    }

    /// The holders of a key, by its number.
    pub(crate) fn get(&self, key: usize) -> Arc<Tenant> {
        self.all[key].clone()
    }

    /// Requests that wait, of all.
    pub(crate) fn num_waiting(&self) -> usize {
        self.all.iter().map(|tenant| tenant.waiting.load(Ordering::Relaxed)).sum()
    }

    /// Queues `num` requests. A tenant may have its share of the queue always, and beyond it what
    /// the others leave when each that waits has its own.
    pub(crate) fn queue(&self, tenant: &Arc<Tenant>, num: usize) -> Result<Vec<Turn>, ApiError> {
        let waiting = tenant.waiting.fetch_add(num, Ordering::Relaxed);
        let turns =
            self.tags(tenant, num).into_iter().map(|tag| Turn { tag, tenant: tenant.clone(), now: self.now.clone() });
        // Dropping them takes them from the count again.
        let turns: Vec<Turn> = turns.collect();
        let of_others = self.all.iter().filter(|other| !Arc::ptr_eq(other, tenant));
        let kept: usize = of_others
            .map(|other| other.waiting.load(Ordering::Relaxed))
            .filter(|n| *n > 0)
            .map(|waiting| waiting.max(self.share))
            .sum();
        let most = self.most_waiting.saturating_sub(kept).max(self.share);
        if waiting + num > most {
            return Err(ApiError::unavailable(format!("{waiting} requests wait, and no more than {most} may")));
        }
        Ok(turns)
    }

    /// The next tags of a tenant. At the end of the numbers, after two thousand million requests,
    /// all have the last one, and arrival decides.
    fn tags(&self, tenant: &Tenant, num: usize) -> Vec<i32> {
        let mut last = tenant.last_tag.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut next = last.saturating_add(1).max(self.now.load(Ordering::Relaxed));
        let mut tag = || {
            *last = next;
            next = next.saturating_add(1);
            *last
        };
        (0..num).map(|_| tag()).collect()
    }
}

impl Turn {
    /// The engine has begun with the request.
    pub(crate) fn start(self) {
        self.now.fetch_max(self.tag, Ordering::Relaxed);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.tenant.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(turns: &[Turn]) -> Vec<i32> {
        turns.iter().map(|turn| turn.tag).collect()
    }

    #[test]
    fn one_tenant_is_served_by_arrival() {
        let tenants = Tenants::new(0, 100);
        let one = tenants.get(0);
        let first = tenants.queue(&one, 3).expect("there is room");
        assert_eq!(tags(&first), [1, 2, 3]);
        first.into_iter().for_each(Turn::start);
        assert_eq!(tags(&tenants.queue(&one, 2).expect("there is room")), [4, 5]);
    }

    #[test]
    fn every_request_has_a_turn_when_the_numbers_end() {
        let tenants = Tenants::new(0, 100);
        let one = tenants.get(0);
        *one.last_tag.lock().expect("nobody panicked") = i32::MAX - 2;
        let turns = tenants.queue(&one, 4).expect("there is room");
        assert_eq!(tags(&turns), [i32::MAX - 1, i32::MAX, i32::MAX, i32::MAX]);
    }

    #[test]
    fn a_tenant_with_one_request_passes_one_with_many() {
        let tenants = Tenants::new(2, 2000);
        let mut many = tenants.queue(&tenants.get(0), 1000).expect("there is room");
        many.drain(..40).for_each(Turn::start);
        let one = tenants.queue(&tenants.get(1), 1).expect("there is room");
        assert_eq!(one[0].tag, 40);
        assert!(many.iter().all(|turn| turn.tag > 40));
    }

    #[test]
    fn a_tenant_alone_has_the_whole_queue_and_its_share_where_others_wait() {
        let tenants = Tenants::new(2, 10);
        let [a, b] = [0, 1].map(|i| tenants.get(i));
        let held = tenants.queue(&a, 10).expect("nobody else waits");
        let error = tenants.queue(&a, 1).expect_err("that is all of it");
        assert_eq!(error.message, "10 requests wait, and no more than 10 may");
        let other = tenants.queue(&b, 5).expect("its share is its own");
        drop(held);
        let error = tenants.queue(&a, 6).expect_err("another waits");
        assert_eq!(error.message, "0 requests wait, and no more than 5 may");
        assert_eq!(tenants.queue(&a, 5).expect("the other half").len(), 5);
        drop(other);
        assert_eq!(tenants.queue(&a, 10).expect("they are gone").len(), 10);
    }
}
