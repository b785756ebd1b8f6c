//! Plain accesses to whole rows of 32 words with AVX2: what [`shadow`](super::shadow) does word by
//! word, in one pass over records that stay in vectors.

use std::arch::x86_64::*;

use super::packed::{LANE, SPLIT, Settled, WARP};
use super::visit::Visit;
use crate::check::access::Kind;

/// The shadow of some rows.
pub(super) struct Rows<'a> {
    pub(super) writers: &'a mut [u32],
    pub(super) readers: &'a mut [u32],
    pub(super) earlier: &'a mut [u32],
    pub(super) init: &'a mut [u8],
}

/// Returns true if the host has AVX2.
#[inline(always)]
pub(super) fn can_run() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

impl Rows<'_> {
    /// A plain access whose lanes have `1 << shift` words each; `false`, with nothing changed, if
    /// any needs a closer look.
    #[inline(always)]
    pub(super) fn access(&mut self, visit: &Visit<'_>, shift: u32) -> bool {
        let words = self.writers.len();
        assert!(can_run() && words.is_multiple_of(32), "the caller asked, for whole rows");
        assert!([self.readers.len(), self.earlier.len(), self.init.len()] == [words; 3], "one range");
        let by = By { settled: visit.settled, base: visit.base, shift };
        // SAFETY: as asserted.
        unsafe {
            match visit.access.kind {
                Kind::Read => read(self, by, visit.order.partial_order()),
                Kind::Write | Kind::Atomic => write(self, by),
            }
        }
    }
}

/// The accessing warp: the record of lane 0, and the words per lane, as a shift.
#[derive(Clone, Copy)]
struct By {
    settled: Settled,
    base: u32,
    shift: u32,
}

/// Vectors that records are compared with.
#[derive(Clone, Copy)]
struct Vectors {
    floor: __m256i,
    synced: __m256i,
    closer: __m256i,
    base: __m256i,
    shift: __m128i,
}

#[target_feature(enable = "avx2")]
#[inline]
fn all(n: u32) -> __m256i {
    _mm256_set1_epi32(n.cast_signed())
}

/// # Safety
/// There are eight records from `at` on.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load(records: &[u32], at: usize) -> __m256i {
    // SAFETY: passed on.
    unsafe { _mm256_loadu_si256(records.as_ptr().add(at).cast()) }
}

/// # Safety
/// There are eight records from `at` on.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store(records: &mut [u32], at: usize, new: __m256i) {
    // SAFETY: passed on.
    unsafe { _mm256_storeu_si256(records.as_mut_ptr().add(at).cast(), new) }
}

/// Mask of the records that agree in the given bits.
#[target_feature(enable = "avx2")]
#[inline]
fn same(a: __m256i, b: __m256i, bits: u32) -> __m256i {
    _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_xor_si256(a, b), all(bits)), _mm256_setzero_si256())
}

#[target_feature(enable = "avx2")]
#[inline]
fn vectors(by: By) -> Vectors {
    let By { settled, base, shift } = by;
    Vectors {
        floor: all(settled.floor),
        synced: all(settled.synced),
        closer: all(settled.closer),
        base: all(base),
        shift: _mm_cvtsi32_si128(shift.cast_signed()),
    }
}

impl Vectors {
    /// The records of the lanes that access eight words.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn me(self, at: usize) -> __m256i {
        let words = _mm256_add_epi32(all(at as u32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        _mm256_or_si256(self.base, _mm256_srl_epi32(words, self.shift))
    }

    /// Mask of the records before the floor.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn old(self, records: __m256i) -> __m256i {
        _mm256_cmpgt_epi32(self.floor, records)
    }

    /// [`Settled::holds`].
    #[target_feature(enable = "avx2")]
    #[inline]
    fn settled(self, records: __m256i, me: __m256i) -> __m256i {
        let synced = _mm256_and_si256(same(records, me, WARP), _mm256_cmpgt_epi32(self.synced, records));
        let is_split = _mm256_cmpeq_epi32(records, all(SPLIT));
        let own = _mm256_or_si256(synced, _mm256_andnot_si256(is_split, same(records, me, WARP | LANE)));
        let weak = _mm256_cmpeq_epi32(_mm256_and_si256(records, self.closer), _mm256_setzero_si256());
        _mm256_or_si256(self.old(records), _mm256_and_si256(own, weak))
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn holds(mask: __m256i) -> bool {
    _mm256_movemask_epi8(mask) == -1
}

/// A read of rows of words; `false`, with nothing changed, if any needs a closer look.
/// `keeps_crowd` says that no reader may get lost.
///
/// # Safety
/// The host has AVX2; the slices have the same length, a multiple of 32.
#[target_feature(enable = "avx2")]
unsafe fn read(rows: &mut Rows<'_>, by: By, keeps_crowd: bool) -> bool {
    let v = vectors(by);
    let (mut fine, mut readers_are_old, mut at) = (all(u32::MAX), all(u32::MAX), 0);
    while at < rows.writers.len() {
        for eight in [at, at + 8, at + 16, at + 24] {
            // SAFETY: the caller's promise.
            let (writers, readers) = unsafe { (load(rows.writers, eight), load(rows.readers, eight)) };
            fine = _mm256_and_si256(fine, v.settled(writers, v.me(eight)));
            readers_are_old = _mm256_and_si256(readers_are_old, v.old(readers));
        }
        // SAFETY: the caller's promise: 32 bytes.
        let init = unsafe { _mm256_loadu_si256(rows.init.as_ptr().add(at).cast()) };
        fine = _mm256_and_si256(fine, _mm256_cmpeq_epi8(init, _mm256_set1_epi8(0xf)));
        at += 32;
    }
    if !holds(fine) {
        return false;
    }
    if holds(readers_are_old) {
        at = 0;
        while at < rows.readers.len() {
            // SAFETY: the caller's promise.
            unsafe { store(rows.readers, at, v.me(at)) };
            at += 8;
        }
        return true;
    }
    if keeps_crowd {
        let mut stays = all(u32::MAX);
        at = 0;
        while at < rows.readers.len() {
            // SAFETY: the caller's promise.
            let (reader, before) = unsafe { (load(rows.readers, at), load(rows.earlier, at)) };
            let me = v.me(at);
            let known = _mm256_or_si256(same(before, me, WARP), same(before, reader, WARP));
            let kept = _mm256_or_si256(known, same(reader, me, WARP));
            stays = _mm256_and_si256(stays, _mm256_or_si256(v.old(before), kept));
            at += 8;
        }
        if !holds(stays) {
            return false;
        }
    }
    at = 0;
    while at < rows.readers.len() {
        // SAFETY: the caller's promise.
        let (reader, before) = unsafe { (load(rows.readers, at), load(rows.earlier, at)) };
        let me = v.me(at);
        let beside = _mm256_andnot_si256(v.old(before), same(reader, me, WARP));
        let keeps = _mm256_or_si256(_mm256_or_si256(v.old(reader), same(reader, me, WARP | LANE)), beside);
        // SAFETY: as above.
        unsafe {
            store(rows.earlier, at, _mm256_blendv_epi8(reader, before, keeps));
            store(rows.readers, at, me);
        }
        at += 8;
    }
    true
}

/// A write of rows of words; `false`, with nothing changed, if any needs a closer look.
///
/// # Safety
/// As for [`read`].
#[target_feature(enable = "avx2")]
unsafe fn write(rows: &mut Rows<'_>, by: By) -> bool {
    let v = vectors(by);
    let (mut fine, mut at) = (all(u32::MAX), 0);
    while at < rows.writers.len() {
        let me = v.me(at);
        // SAFETY: the caller's promise.
        let records = unsafe { (load(rows.writers, at), load(rows.readers, at), load(rows.earlier, at)) };
        let newest = _mm256_max_epi32(records.0, _mm256_max_epi32(records.1, records.2));
        if holds(v.old(newest)) {
            at += 8;
            continue;
        }
        let readers = _mm256_and_si256(v.settled(records.1, me), v.settled(records.2, me));
        fine = _mm256_and_si256(fine, _mm256_and_si256(v.settled(records.0, me), readers));
        at += 8;
    }
    if !holds(fine) {
        return false;
    }
    at = 0;
    while at < rows.writers.len() {
        // SAFETY: the caller's promise.
        unsafe { store(rows.writers, at, v.me(at)) };
        at += 8;
    }
    rows.init.fill(0xf);
    true
}
