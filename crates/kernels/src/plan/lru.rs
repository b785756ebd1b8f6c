//! A map that forgets what was not used for longest.

use std::collections::HashMap;
use std::hash::Hash;

/// A map with a bound: when it is full, the half that was not used for longest is dropped.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    entries: HashMap<K, (V, u64)>,
    capacity: usize,
    clock: u64,
}

impl<K: Eq + Hash, V: Clone> Lru<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity, clock: 0 }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let (value, used) = self.entries.get_mut(key)?;
        self.clock += 1;
        *used = self.clock;
        Some(value.clone())
    }

    /// The values, the one that was used last at the end.
    pub(crate) fn values(&self) -> Vec<V> {
        let mut entries: Vec<&(V, u64)> = self.entries.values().collect();
        entries.sort_by_key(|(_, used)| *used);
        entries.into_iter().map(|(value, _)| value.clone()).collect()
    }

    /// The value that is there, else this one.
    pub(crate) fn get_or_insert(&mut self, key: K, value: V) -> V {
        if self.entries.len() >= self.capacity {
            let mut ages: Vec<u64> = self.entries.values().map(|(_, used)| *used).collect();
            let (_, median, _) = ages.select_nth_unstable(self.capacity / 2);
            let median = *median;
            self.entries.retain(|_, (_, used)| *used > median);
        }
        self.clock += 1;
        let now = self.clock;
        let (value, used) = self.entries.entry(key).or_insert((value, now));
        *used = now;
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_drops_what_was_not_used_for_longest() {
        let mut lru = Lru::new(4);
        for i in 0..4 {
            lru.get_or_insert(i, i);
        }
        assert_eq!(lru.get(&0), Some(0));
        lru.get_or_insert(4, 4);
        assert_eq!((lru.get(&0), lru.get(&1), lru.get(&2), lru.get(&4)), (Some(0), None, None, Some(4)));
        assert!(lru.entries.len() <= 4);
        lru.get(&0);
        assert_eq!(lru.values().last(), Some(&0));
    }

    #[test]
    fn the_first_value_of_a_key_stays() {
        let mut lru = Lru::new(4);
        assert_eq!((lru.get_or_insert('a', 1), lru.get_or_insert('a', 2)), (1, 1));
    }
}
