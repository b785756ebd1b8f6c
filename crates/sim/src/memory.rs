//! Global memory of one virtual device: allocations with bounds, names and a record of the written
//! bytes.
//!
//! Addresses are never reused, so that a use after free is always seen. Contents are read and
//! written with relaxed atomic operations, because blocks run on several host threads and a kernel
//! may race.

use std::alloc::{Layout, alloc_zeroed};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::Error;
use crate::asynchronous::luck::Luck;
use crate::check::{DeviceCheck, GlobalShadow};
use crate::exec::memory_map::GLOBAL_START;
use crate::heap::{HEAP_BYTES, Heap};
use crate::report::{Access, Finding, FindingKind, Place, Severity, Shapes};

/// Alignment of every allocation, as on CUDA devices.
const ALIGNMENT: u64 = 256;
/// Unmapped bytes after each allocation, so that small overruns never reach the next one.
const GAP: u64 = 4096;
/// Minimum gap between allocations that are far apart.
const WIDE_GAP: u64 = 1 << 32;

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// First device address.
    pub base: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Name for findings.
    pub name: String,
    /// The contents, rounded up to whole words.
    words: Box<[AtomicU64]>,
    /// Bytes written by the host or by a launch.
    initialised: Mutex<Initialised>,
    /// Shadow state of the checks, allocated by the first checked launch that needs it.
    shadow: OnceLock<GlobalShadow>,
    /// Restriction on the kernels' accesses.
    guard: AtomicU8,
    /// Counter of the device's allocated bytes.
    used: Arc<AtomicU64>,
}

/// Restriction on the kernels' accesses to an allocation, besides its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// No restriction.
    Open = 0,
    /// A `.const` variable: not writable.
    Constant = 1,
    /// Declared read-only by the host.
    ReadOnly = 2,
    /// The device heap: only memory from `malloc` may be used.
    Heap = 3,
    /// The current launch may access all of it, but not write all of it.
    Writes = 4,
    /// The current launch may access parts of it only.
    Parts = 5,
}

/// Initialised bytes of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Initialised {
    /// These ranges, sorted and disjoint.
    Ranges(Vec<Range<u64>>),
    /// All of it, or unknown: an unchecked launch ran.
    All,
}

impl Initialised {
    fn add(&mut self, range: Range<u64>) {
        let Self::Ranges(ranges) = self else { return };
        let at = ranges.partition_point(|r| r.end < range.start);
        let mut merged = range;
        while ranges.get(at).is_some_and(|r| r.start <= merged.end) {
            let r = ranges.remove(at);
            merged = merged.start.min(r.start)..merged.end.max(r.end);
        }
        ranges.insert(at, merged);
    }
}

/// Allocates zeros: the host commits pages only when they are touched.
fn zeros(count: usize) -> Option<Box<[AtomicU64]>> {
    if count == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<AtomicU64>(count).ok()?;
    // SAFETY: the layout has at least one word.
    let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
    if start.is_null() {
        return None;
    }
    // SAFETY: the global allocator gave `count` words with the layout of that slice, and zeros are
    // atomic words.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, count)) })
}

impl Allocation {
    /// Allocates zeros; `None` if the host has no memory for them.
    fn new(base: u64, bytes: u64, name: &str, used: Arc<AtomicU64>) -> Option<Self> {
        Some(Self {
            base,
            bytes,
            name: name.to_owned(),
            words: zeros(usize::try_from(bytes.div_ceil(8)).ok()?)?,
            initialised: Mutex::new(Initialised::Ranges(Vec::new())),
            shadow: OnceLock::new(),
            guard: AtomicU8::new(Guard::Open as u8),
            used,
        })
    }

    /// First byte of the contents.
    pub(crate) fn data(&self) -> *const AtomicU8 {
        self.words.as_ptr().cast()
    }

    fn byte(&self, offset: u64) -> &AtomicU8 {
        assert!(offset < self.bytes, "offset {offset} outside an allocation of {} bytes", self.bytes);
        let offset = usize::try_from(offset).expect("allocations fit the host's memory");
        // SAFETY: the offset is inside `words`, and an atomic word may be accessed as atomic bytes.
        unsafe { &*self.data().add(offset) }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut i = 0;
        while i < data.len() {
            let at = offset + i as u64;
            if at.is_multiple_of(8) && data.len() - i >= 8 {
                let word: [u8; 8] = data[i..i + 8].try_into().expect("eight bytes");
                self.word(at).store(u64::from_le_bytes(word), Ordering::Relaxed);
                i += 8;
            } else {
                self.byte(at).store(data[i], Ordering::Relaxed);
                i += 1;
            }
        }
    }

    fn read(&self, offset: u64, data: &mut [u8]) {
        let mut i = 0;
        while i < data.len() {
            let at = offset + i as u64;
            if at.is_multiple_of(8) && data.len() - i >= 8 {
                data[i..i + 8].copy_from_slice(&self.word(at).load(Ordering::Relaxed).to_le_bytes());
                i += 8;
            } else {
                data[i] = self.byte(at).load(Ordering::Relaxed);
                i += 1;
            }
        }
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        &self.words[usize::try_from(offset / 8).expect("allocations fit the host's memory")]
    }

    /// The shadow state, created at its first use from what the host has written.
    pub(crate) fn shadow(&self) -> &GlobalShadow {
        self.shadow.get_or_init(|| {
            let shadow = GlobalShadow::new(self.base, self.bytes);
            match &*lock(&self.initialised) {
                Initialised::All => shadow.mark_all_written(),
                Initialised::Ranges(ranges) => {
                    for r in ranges {
                        shadow.mark_written(self.base + r.start, r.end - r.start);
                    }
                }
            }
            shadow
        })
    }

    fn set_guard(&self, guard: Guard) {
        self.guard.store(guard as u8, Ordering::Relaxed);
    }

    /// Restriction on the kernels' accesses.
    #[inline(always)]
    pub(crate) fn guard(&self) -> Guard {
        match self.guard.load(Ordering::Relaxed) {
            1 => Guard::Constant,
            2 => Guard::ReadOnly,
            3 => Guard::Heap,
            4 => Guard::Writes,
            5 => Guard::Parts,
            _ => Guard::Open,
        }
    }

    /// Restricts kernels' accesses during a launch; returns false if another restriction applies.
    pub(crate) fn limit(&self, guard: Guard) -> bool {
        self.guard.compare_exchange(Guard::Open as u8, guard as u8, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Lifts the restriction at the end of the launch.
    pub(crate) fn lift(&self) {
        self.set_guard(Guard::Open);
    }

    /// Forgets all state of a part that is allocated again.
    pub(crate) fn begin_anew(&self, address: u64, bytes: u64) {
        if let Some(shadow) = self.shadow.get() {
            shadow.begin_anew(address, bytes);
        }
    }

    /// The first unwritten byte of a range.
    fn first_unwritten(&self, offset: u64, bytes: u64) -> Option<u64> {
        match (self.shadow.get(), &*lock(&self.initialised)) {
            (_, Initialised::All) => None,
            (Some(shadow), Initialised::Ranges(_)) => shadow.first_unwritten(self.base + offset, bytes),
            (None, Initialised::Ranges(ranges)) => {
                let written = ranges.iter().find(|range| range.contains(&offset));
                let first = written.map_or(offset, |range| range.end);
                (first < offset + bytes).then_some(self.base + first)
            }
        }
    }

    /// Calls for each run of bytes in a range that are all written, or all unwritten.
    fn each_run(&self, offset: u64, bytes: u64, mut each: impl FnMut(Range<u64>, bool)) {
        match (self.shadow.get(), &*lock(&self.initialised)) {
            (_, Initialised::All) => each(offset..offset + bytes, true),
            (Some(shadow), Initialised::Ranges(_)) => shadow.each_run(self.base + offset, bytes, |run, written| {
                each(run.start - self.base..run.end - self.base, written);
            }),
            (None, Initialised::Ranges(ranges)) => {
                let (mut at, end) = (offset, offset + bytes);
                for range in ranges.iter().filter(|range| range.start < end && offset < range.end) {
                    if at < range.start {
                        each(at..range.start, false);
                    }
                    each(range.start.max(at)..range.end.min(end), true);
                    at = range.end.min(end);
                }
                if at < end {
                    each(at..end, false);
                }
            }
        }
    }

    /// Drops the checks' records of accesses by older launches.
    pub(crate) fn forget_accesses(&self) {
        if let Some(shadow) = self.shadow.get() {
            shadow.forget();
        }
    }

    /// Notes an unchecked launch, whose writes are unknown.
    pub(crate) fn mark_unknown(&self) {
        *lock(&self.initialised) = Initialised::All;
        if let Some(shadow) = self.shadow.get() {
            shadow.mark_all_written();
        }
    }

    /// Reads up to 16 bytes at a device address inside the allocation.
    pub(crate) fn value(&self, address: u64, bytes: u32) -> u128 {
        let mut data = [0u8; 16];
        self.read(address - self.base, &mut data[..bytes as usize]);
        u128::from_le_bytes(data)
    }

    fn mark(&self, offset: u64, bytes: u64) {
        if let Some(shadow) = self.shadow.get() {
            shadow.mark_written(self.base + offset, bytes);
        }
        lock(&self.initialised).add(offset..offset + bytes);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Freed ranges with their names, sorted by address.
pub(crate) type Freed = Arc<Vec<(Range<u64>, String)>>;

/// Allocations of a device, sorted by address, and the freed ranges.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Live allocations.
    pub live: Vec<Arc<Allocation>>,
    /// Freed ranges with their names, sorted by address.
    pub freed: Freed,
    next: u64,
    /// Source of random gaps between allocations that are far apart.
    gaps: Luck,
}

impl Table {
    /// Unmapped bytes after the next allocation.
    fn gap(&mut self) -> u64 {
        if !self.gaps.is_drawn() {
            return GAP;
        }
        WIDE_GAP + self.gaps.below(1 << 24) as u64 * ALIGNMENT
    }

    fn remove(&mut self, address: u64) -> Option<Arc<Allocation>> {
        let at = self.live.binary_search_by_key(&address, |a| a.base).ok()?;
        let gone = self.live.remove(at);
        gone.used.fetch_sub(gone.bytes, Ordering::Relaxed);
        Some(gone)
    }
}

/// Unwritten bytes that a kernel has copied, with a load and a store.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    /// From the first of them to the last.
    pub(crate) range: Range<u64>,
    /// The kernel.
    pub(crate) kernel: String,
    /// The store.
    pub(crate) store: Access,
    /// The load that it got them from.
    pub(crate) load: Access,
}

// THRESHOLD: the oldest are forgotten, and a finding no longer names the kernel; tested by
// crates/sim/src/memory.rs::copies_of_what_nothing_has_written_are_remembered_up_to_their_number
/// Maximum number of copies that a memory remembers.
const KEPT_COPIES: usize = 1024;

/// An allocation freed with its owner.
#[derive(Debug)]
pub(crate) struct Owned {
    /// Its device address.
    pub address: u64,
    table: Arc<RwLock<Table>>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(self.address);
    }
}

/// Global memory of one virtual device.
///
/// ```
/// let memory = warpfold_sim::Memory::new(1 << 20);
/// let address = memory.allocate(4, "answer")?;
/// memory.write(address, &42u32.to_le_bytes())?;
/// let mut bytes = [0; 4];
/// memory.read(address, &mut bytes)?;
/// assert_eq!(u32::from_le_bytes(bytes), 42);
/// # Ok::<(), warpfold_sim::Error>(())
/// ```
#[derive(Debug)]
pub struct Memory {
    capacity: u64,
    used: Arc<AtomicU64>,
    table: Arc<RwLock<Table>>,
    /// Numbering of the checks' records; locked by a running checked launch.
    pub(crate) device_check: Arc<Mutex<DeviceCheck>>,
    /// Heap of `malloc` in kernels.
    heap: Mutex<Option<Arc<Heap>>>,
    /// Copies by kernels of bytes that nothing had written, the latest last.
    copied: Arc<Mutex<Vec<Copied>>>,
}

impl Memory {
    /// Makes a memory of `capacity` bytes; the host reserves nothing until it is allocated.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let table = Table { next: GLOBAL_START, ..Table::default() };
        let (used, device_check) = <(Arc<AtomicU64>, Arc<Mutex<DeviceCheck>>)>::default();
        let (table, heap, copied) = (Arc::new(RwLock::new(table)), Mutex::default(), Arc::default());
        Self { capacity, used, table, device_check, heap, copied }
    }

    /// Like [`Self::new`], with allocations so far apart, at random distances, that no 32-bit index
    /// leads from one into another: an access beyond one buffer never hits the next.
    ///
    /// ```
    /// let memory = warpfold_sim::Memory::far_apart(1 << 20, 1);
    /// let [a, b] = [memory.allocate(4, "a")?, memory.allocate(4, "b")?];
    /// assert!(b - a > 1 << 32);
    /// # Ok::<(), warpfold_sim::Error>(())
    /// ```
    #[must_use]
    pub fn far_apart(capacity: u64, seed: u64) -> Self {
        let memory = Self::new(capacity);
        memory.table_mut().gaps = Luck::new(seed.max(1), 0);
        memory
    }

    /// Makes the memory of another device of `capacity` bytes, with peer access in both directions:
    /// both share one address space.
    #[must_use]
    pub fn peer(&self, capacity: u64) -> Self {
        let (table, device_check) = (Arc::clone(&self.table), Arc::clone(&self.device_check));
        let copied = Arc::clone(&self.copied);
        Self { capacity, used: Arc::default(), table, device_check, heap: Mutex::default(), copied }
    }

    /// Returns true if the two have peer access, or are the same.
    #[must_use]
    pub fn is_peer_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// Total bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes allocated.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn table(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> std::sync::RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates `bytes` bytes and returns their device address, a multiple of 256; the name
    /// appears in findings.
    ///
    /// The contents count as not initialised.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::OutOfHostMemory`].
    pub fn allocate(&self, bytes: u64, name: &str) -> Result<u64, Error> {
        let mut table = self.table_mut();
        let free = self.capacity - self.used();
        if bytes > free {
            return Err(Error::OutOfMemory { requested: bytes, free, capacity: self.capacity });
        }
        let base = table.next;
        let allocation = Allocation::new(base, bytes, name, Arc::clone(&self.used))
            .ok_or(Error::OutOfHostMemory { requested: bytes })?;
        let gap = table.gap();
        table.next = (base + bytes + gap).next_multiple_of(ALIGNMENT);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        table.live.push(Arc::new(allocation));
        Ok(base)
    }

    /// Frees the allocation at an address that [`Memory::allocate`] returned.
    ///
    /// # Errors
    /// [`Error::BadHostAccess`] if no live allocation starts there.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        let mut table = self.table_mut();
        let gone = table.remove(address).ok_or(Error::BadHostAccess { address, bytes: 0 })?;
        let freed = Arc::make_mut(&mut table.freed);
        let at = freed.partition_point(|(r, _)| r.start < gone.base);
        freed.insert(at, (gone.base..gone.base + gone.bytes.max(1), gone.name.clone()));
        Ok(())
    }

    /// Allocates memory that is freed with its owner, when no kernel can have a pointer to it any
    /// more.
    pub(crate) fn allocate_owned(&self, bytes: u64, name: &str) -> Result<Owned, Error> {
        let address = self.allocate(bytes, name)?;
        Ok(Owned { address, table: Arc::clone(&self.table) })
    }

    /// Makes the allocation at an address a `.const` variable.
    pub(crate) fn make_constant(&self, address: u64) -> Result<(), Error> {
        self.locate(address, 0)?.0.set_guard(Guard::Constant);
        Ok(())
    }

    /// Declares the allocation at an address read-only for kernels: checked launches report writes
    /// to it.
    ///
    /// # Errors
    /// [`Error::BadHostAccess`] if the address is inside no live allocation.
    pub fn protect(&self, address: u64) -> Result<(), Error> {
        self.locate(address, 0)?.0.set_guard(Guard::ReadOnly);
        Ok(())
    }

    /// The first byte of a range that neither the host nor a kernel has written, as far as is
    /// known: a launch without checks counts as having written everything.
    ///
    /// # Errors
    /// As for [`Memory::write`].
    pub fn first_unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>, Error> {
        let (allocation, offset) = self.locate(address, bytes)?;
        Ok(allocation.first_unwritten(offset, bytes))
    }

    /// The runs of a range that neither the host nor a kernel has written; see
    /// [`first_unwritten`](Self::first_unwritten).
    ///
    /// # Errors
    /// As for [`Memory::write`].
    pub fn unwritten(&self, address: u64, bytes: u64) -> Result<Vec<Range<u64>>, Error> {
        let (allocation, offset) = self.locate(address, bytes)?;
        let mut runs = Vec::new();
        allocation.each_run(offset, bytes, |run, is_written| {
            if !is_written {
                runs.push(allocation.base + run.start..allocation.base + run.end);
            }
        });
        Ok(runs)
    }

    /// Reads a range for the host under the checks: returns a finding if neither the host nor a
    /// kernel has written all of it, as far as that is known. If a kernel has copied unwritten
    /// bytes there, its store and its load are the finding's two sides. If only some bytes were
    /// written, and no kernel has stored into the others, it is a warning.
    ///
    /// ```
    /// # use warpfold_sim::{FindingKind, Memory};
    /// let memory = Memory::new(1 << 20);
    /// let address = memory.allocate(8, "pair")?;
    /// memory.write(address, &1u32.to_le_bytes())?;
    /// assert_eq!(memory.host_read(address, 4)?, None);
    /// let finding = memory.host_read(address, 8)?.expect("half of it is not written");
    /// assert_eq!(finding.kind, FindingKind::HostRead);
    /// assert!(finding.to_string().contains("4 of 8 bytes"), "{finding}");
    /// # Ok::<(), warpfold_sim::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Memory::write`].
    pub fn host_read(&self, address: u64, bytes: u64) -> Result<Option<Finding>, Error> {
        let (allocation, offset) = self.locate(address, bytes)?;
        let (mut first, mut missing) = (None, 0);
        allocation.each_run(offset, bytes, |run, is_written| {
            if !is_written {
                first.get_or_insert(run.start);
                missing += run.end - run.start;
            }
        });
        let Some(first) = first else { return Ok(None) };
        let at = allocation.base + first;
        let copied = lock(&self.copied).iter().rfind(|copied| copied.range.contains(&at)).cloned();
        // A kernel that leaves part of an output unwritten may have told the host so, by a count or
        // otherwise.
        let is_partly_written = copied.is_none() && missing < bytes;
        let severity = if is_partly_written { Severity::Warning } else { Severity::Error };
        let (kernel, access, other, why) = match copied {
            Some(Copied { kernel, store, load, .. }) => {
                let why = "that nothing has written; this store copied the first of them from where nothing had, as the \
                           other side loads it";
                (kernel, store, Some(load), why.to_owned())
            }
            None => {
                let why = format!("that neither it nor a kernel has written, from byte {first} of the buffer on");
                (String::new(), Access::host(), None, why)
            }
        };
        let described = format!("{}+{first:#x}", allocation.name);
        let place = Place::read(&described, &access.instruction, &Shapes::default()).unwrap_or_else(|| Place {
            variable: allocation.name.clone(),
            offset: first,
            element_bytes: 1,
            variable_bytes: None,
            shape: Vec::new(),
        });
        Ok(Some(Finding {
            kind: FindingKind::HostRead,
            severity,
            kernel,
            access,
            other,
            address: Some((at, described)),
            place: Some(place),
            rule: format!("the host reads {missing} of {bytes} bytes {why}"),
            count: 1,
        }))
    }

    /// Notes that a launch has copied unwritten bytes.
    pub(crate) fn note_copied(&self, new: Vec<Copied>) {
        if !new.is_empty() {
            let mut copied = lock(&self.copied);
            copied.extend(new);
            let gone = copied.len().saturating_sub(KEPT_COPIES);
            copied.drain(..gone);
        }
    }

    /// The device heap, created at its first use.
    pub(crate) fn heap(&self) -> Result<Arc<Heap>, Error> {
        let mut heap = lock(&self.heap);
        if let Some(heap) = &*heap {
            return Ok(Arc::clone(heap));
        }
        let owner = self.allocate_owned(HEAP_BYTES, "device heap")?;
        let allocation = self.locate(owner.address, 0)?.0;
        allocation.set_guard(Guard::Heap);
        Ok(Arc::clone(heap.insert(Arc::new(Heap::new(allocation, owner)))))
    }

    fn locate(&self, address: u64, bytes: u64) -> Result<(Arc<Allocation>, u64), Error> {
        let table = self.table();
        let at = table.live.partition_point(|a| a.base <= address);
        at.checked_sub(1)
            .map(|i| &table.live[i])
            .filter(|a| bytes <= a.bytes && address - a.base <= a.bytes - bytes)
            .map(|a| (Arc::clone(a), address - a.base))
            .ok_or(Error::BadHostAccess { address, bytes })
    }

    /// Host address of the bytes of an allocation: valid until it is freed. Reads and writes
    /// through it bypass the checks, so from now on none of the allocation counts as uninitialised.
    ///
    /// # Errors
    /// [`Error::BadHostAccess`] unless they are in one allocation.
    pub fn host_address(&self, address: u64, bytes: u64) -> Result<*const u8, Error> {
        let (allocation, offset) = self.locate(address, bytes)?;
        allocation.mark_unknown();
        let offset = usize::try_from(offset).expect("allocations fit the host's memory");
        Ok(allocation.data().cast::<u8>().wrapping_add(offset))
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// [`Error::BadHostAccess`] if the range is not inside one live allocation.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), Error> {
        let (allocation, offset) = self.locate(address, data.len() as u64)?;
        allocation.write(offset, data);
        allocation.mark(offset, data.len() as u64);
        Ok(())
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// As for [`Memory::write`].
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), Error> {
        let (allocation, offset) = self.locate(address, data.len() as u64)?;
        allocation.read(offset, data);
        Ok(())
    }

    /// Sets `bytes` bytes to `byte`.
    ///
    /// # Errors
    /// As for [`Memory::write`].
    pub fn fill(&self, address: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        let (allocation, offset) = self.locate(address, bytes)?;
        let chunk = [byte; 4096];
        let mut done = 0;
        while done < bytes {
            let n = (bytes - done).min(4096 - (offset + done) % 4096);
            allocation.write(offset + done, &chunk[..usize::try_from(n).expect("at most 4096")]);
            done += n;
        }
        allocation.mark(offset, bytes);
        Ok(())
    }

    /// Copies inside the device; the ranges must not overlap.
    ///
    /// # Errors
    /// As for [`Memory::write`].
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), Error> {
        let (source, source_offset) = self.locate(from, bytes)?;
        let (target, target_offset) = self.locate(to, bytes)?;
        let mut chunk = vec![0; 1 << 16];
        let mut done = 0;
        while done < bytes {
            let n = usize::try_from((bytes - done).min(1 << 16)).expect("at most 65536");
            source.read(source_offset + done, &mut chunk[..n]);
            target.write(target_offset + done, &chunk[..n]);
            done += n as u64;
        }
        // Unwritten source bytes stay unwritten in the copy.
        let mut written = Vec::new();
        source.each_run(source_offset, bytes, |run, is_written| {
            written.extend(is_written.then_some(run));
        });
        for run in written {
            target.mark(target_offset + (run.start - source_offset), run.end - run.start);
        }
        Ok(())
    }

    /// The allocations for a launch.
    pub(crate) fn snapshot(&self) -> (Vec<Arc<Allocation>>, Freed) {
        let table = self.table();
        (table.live.clone(), Arc::clone(&table.freed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_host_does_not_have_is_an_error() {
        let memory = Memory::new(1 << 63);
        assert_eq!(memory.allocate(1 << 62, "huge"), Err(Error::OutOfHostMemory { requested: 1 << 62 }));
        assert_eq!(memory.used(), 0);
        assert!(memory.allocate(8, "small").is_ok());
    }

    #[test]
    fn copies_of_what_nothing_has_written_are_remembered_up_to_their_number() {
        let memory = Memory::new(1 << 20);
        let num = KEPT_COPIES as u64 + 1;
        let buffer = memory.allocate(8 * num, "buffer").expect("it fits");
        let copied = |i: u64| Copied {
            range: buffer + 8 * i..buffer + 8 * i + 8,
            kernel: format!("kernel{i}"),
            store: Access::host(),
            load: Access::host(),
        };
        let kernel_of = |i: u64| memory.host_read(buffer + 8 * i, 8).expect("inside").expect("nothing wrote it").kernel;
        (0..num - 1).for_each(|i| memory.note_copied(vec![copied(i)]));
        assert_eq!([kernel_of(0), kernel_of(num - 2)], ["kernel0".to_owned(), format!("kernel{}", num - 2)]);
        memory.note_copied(vec![copied(num - 1)]);
        assert_eq!([kernel_of(0), kernel_of(1)], ["", "kernel1"]);
        assert_eq!(kernel_of(num - 1), format!("kernel{}", num - 1));
    }
}
