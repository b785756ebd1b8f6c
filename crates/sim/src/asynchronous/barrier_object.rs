//! The 64 bits of an mbarrier object (PTX ISA, "Contents of the mbarrier object").
//!
//! They lie in shared memory, where the program put them, so that copying over a live barrier
//! breaks it as on hardware. Our layout, from the low end: expected arrivals (20), pending arrivals
//! (20), tx-count (22, signed), parity of the phase (1), initialised (1).

// THRESHOLD: larger counts are refused; tested by
// crates/sim/src/asynchronous/barrier_object.rs::counts_stay_in_their_range
/// The most arrivals, and the largest magnitude of the tx-count.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;

const LIVE: u64 = 1 << 63;
const PARITY: u64 = 1 << 62;

/// An mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// Arrivals that the next phase expects.
    pub(crate) expected: u32,
    /// Arrivals that the current phase is still waiting for.
    pub(crate) pending: u32,
    /// Bytes that the current phase is still waiting for; negative if more have arrived than were
    /// expected so far.
    pub(crate) tx: i32,
    /// Parity of the current phase, which is not complete.
    pub(crate) parity: bool,
}

/// Description of a broken rule of the PTX ISA.
pub(crate) type Broken = String;

impl Barrier {
    /// A barrier in its phase 0.
    pub(crate) fn new(expected: u32) -> Result<Self, Broken> {
        if !(1..=MAX_COUNT).contains(&expected) {
            return Err(format!("an mbarrier for {expected} arrivals; 1 to {MAX_COUNT} are possible"));
        }
        Ok(Self { expected, pending: expected, tx: 0, parity: false })
    }

    /// Decodes the bits of a barrier; `None` if they are none.
    #[allow(clippy::cast_possible_truncation, reason = "fields of 20 and 22 bits")]
    pub(crate) fn decode(bits: u64) -> Option<Self> {
        let count = |shift: u32| (bits >> shift) as u32 & MAX_COUNT;
        let tx = ((bits >> 40) as i32) << 10 >> 10;
        (bits & LIVE != 0).then(|| Self { expected: count(0), pending: count(20), tx, parity: bits & PARITY != 0 })
    }

    /// Encodes the barrier.
    pub(crate) fn encode(self) -> u64 {
        let tx = u64::from(self.tx.cast_unsigned() & 0x3f_ffff);
        let parity = if self.parity { PARITY } else { 0 };
        LIVE | parity | tx << 40 | u64::from(self.pending) << 20 | u64::from(self.expected)
    }

    /// Counts `count` arrivals; with `drops` the next phases expect fewer.
    pub(crate) fn arrive(&mut self, count: u32, drops: bool) -> Result<(), Broken> {
        if count == 0 || count > self.pending {
            let pending = self.pending;
            return Err(format!("{count} arrival(s) in a phase that waits for {pending} more"));
        }
        if drops {
            if count > self.expected {
                return Err(format!("{count} arrival(s) are dropped of {} expected", self.expected));
            }
            self.expected -= count;
        }
        self.pending -= count;
        Ok(())
    }

    /// Expects another arrival in the current phase.
    pub(crate) fn expect_arrival(&mut self) -> Result<(), Broken> {
        if self.pending == MAX_COUNT {
            return Err(format!("more than {MAX_COUNT} pending arrivals"));
        }
        self.pending += 1;
        Ok(())
    }

    /// Adds `bytes`, which may be negative, to the transaction count.
    pub(crate) fn add_bytes(&mut self, bytes: i64) -> Result<(), Broken> {
        let tx = i64::from(self.tx) + bytes;
        if tx.unsigned_abs() > u64::from(MAX_COUNT) {
            return Err(format!("a tx-count of {tx}; it is limited to {MAX_COUNT} bytes either way"));
        }
        self.tx = i32::try_from(tx).expect("within the limit");
        Ok(())
    }

    /// Returns true if the current phase is complete: no pending arrivals or transactions.
    pub(crate) const fn is_complete(self) -> bool {
        self.pending == 0 && self.tx == 0
    }

    /// Advances to the next phase.
    pub(crate) fn advance(&mut self) {
        self.parity = !self.parity;
        self.pending = self.expected;
    }
}

impl std::fmt::Display for Barrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { expected, pending, tx, parity } = self;
        write!(f, "phase of parity {}, {pending} of {expected} arrivals to come, tx-count {tx}", u8::from(*parity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_survives_its_bits() {
        for tx in [0, 1, -1, 1_048_575, -1_048_575] {
            for (expected, pending) in [(1, 0), (MAX_COUNT, MAX_COUNT), (5, 3)] {
                for parity in [false, true] {
                    let barrier = Barrier { expected, pending, tx, parity };
                    assert_eq!(Barrier::decode(barrier.encode()), Some(barrier));
                }
            }
        }
        assert_eq!(Barrier::decode(0), None);
    }

    #[test]
    fn counts_stay_in_their_range() {
        assert!(Barrier::new(0).is_err() && Barrier::new(1 << 20).is_err());
        let mut barrier = Barrier::new(2).unwrap();
        assert!(barrier.arrive(3, false).is_err());
        assert!(barrier.add_bytes(1 << 20).is_err());
        barrier.add_bytes(16).unwrap();
        barrier.arrive(2, true).unwrap();
        assert!(!barrier.is_complete());
        barrier.add_bytes(-16).unwrap();
        assert!(barrier.is_complete());
        barrier.advance();
        assert_eq!(barrier, Barrier { expected: 0, pending: 0, tx: 0, parity: true });
    }
}
