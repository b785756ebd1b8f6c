//! Memory that kernels ask for beside their inputs and outputs, kept from launch to launch.

use warpfold_device::{Buffer, Device, ViewMut};

use super::{Operand, Plan, Step};
use crate::Error;

/// Tickets and marks of a step.
pub(super) type Counters<'a> = (Option<ViewMut<'a, u32>>, Option<ViewMut<'a, u64>>);

/// Workspace of one stream: launches that share it must come one after the other. It grows to the
/// largest need and is then allocated no more. Its counters are zero between launches: each kernel
/// leaves them as it found them.
#[derive(Debug)]
pub struct Workspace {
    words: Option<Buffer<u64>>,
    tickets: Option<Buffer<u32>>,
    marks: Option<Buffer<u64>>,
    /// Launches that the marks have served, and may serve.
    marked: u32,
    marked_most: u32,
    scratch: Vec<Buffer<u8>>,
}

// THRESHOLD: marks are renewed after so many launches, long before their 32 bits are used up; half
// of them are left to replays that nobody counts, and graphs keep the old ones; tested by
// crates/kernels/tests/folds/replay.rs::marks_are_renewed_and_graphs_keep_theirs
const MOST_MARKED: u32 = 1 << 31;

// THRESHOLD: the smallest buffer of scratch memory is freed, behind the launches that use it, and
// graphs keep it, so there are as many as a plan asks for (mixtures of experts: seven); tested by
// crates/kernels/tests/folds/replay.rs::scratch_that_is_freed_stays_in_its_graph
const KEPT_SCRATCH: usize = 8;

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: None, tickets: None, marks: None, marked: 0, marked_most: MOST_MARKED, scratch: Vec::new() }
    }

    /// None yet; its marks are renewed after so many launches instead of 2^31.
    #[must_use]
    pub const fn renewing_marks_after(launches: u32) -> Self {
        let mut workspace = Self::new();
        workspace.marked_most = launches;
        workspace
    }

    /// A buffer of at least so many bytes, of any content; to be given back when everything that
    /// uses it is enqueued.
    pub(crate) fn take_scratch(&mut self, device: &Device, bytes: u64) -> Result<Buffer<u8>, Error> {
        let is_enough = |have: &Buffer<u8>| have.len() as u64 >= bytes && have.device() == device;
        // The smallest, so that large ones are left to those that need them.
        let enough = self.scratch.iter().enumerate().filter(|(_, have)| is_enough(have));
        if let Some((position, _)) = enough.min_by_key(|(_, have)| have.len()) {
            return Ok(self.scratch.swap_remove(position));
        }
        Ok(device.alloc_named("scratch", bytes.next_power_of_two().max(4096) as usize)?)
    }

    /// Takes a buffer back for later launches on the same stream.
    pub(crate) fn give_scratch(&mut self, buffer: Buffer<u8>) {
        self.scratch.push(buffer);
        if self.scratch.len() > KEPT_SCRATCH {
            // The smallest one is the least likely to be enough.
            self.scratch.sort_by_key(|buffer| std::cmp::Reverse(buffer.len()));
            self.scratch.truncate(KEPT_SCRATCH);
        }
    }

    /// The tickets and marks that a step asks for.
    pub(super) fn counters(&mut self, device: &Device, plan: &Plan, step: &Step) -> Result<Counters<'_>, Error> {
        let [tickets, marks] = [Operand::Tickets, Operand::Marks].map(|operand| step.has_pointer_to(operand));
        if tickets {
            self.allocate_tickets(device, plan.tickets)?;
        }
        if marks {
            self.allocate_marks(device, plan.marks)?;
        }
        let tickets = self.tickets.as_mut().filter(|_| tickets).map(Buffer::as_view_mut);
        Ok((tickets, self.marks.as_mut().filter(|_| marks).map(Buffer::as_view_mut)))
    }

    /// At least so many words, of any content, and so many counters, all zero.
    ///
    /// # Errors
    /// If the device has no memory for them.
    pub fn get(
        &mut self,
        device: &Device,
        words: u64,
        tickets: u64,
    ) -> Result<(ViewMut<'_, u64>, ViewMut<'_, u32>), Error> {
        if !is_enough(self.words.as_ref(), device, words) {
            self.words = Some(device.alloc_named("workspace", words.next_power_of_two() as usize)?);
        }
        self.allocate_tickets(device, tickets)?;
        let (Some(words_buffer), Some(tickets_buffer)) = (&mut self.words, &mut self.tickets) else {
            unreachable!("both were allocated above");
        };
        Ok((words_buffer.as_view_mut(), tickets_buffer.as_view_mut()))
    }

    /// At least so many words that blocks of a launch mark for each other. All are zero at first;
    /// the first one holds the number of the launch, and every launch counts it up.
    ///
    /// # Errors
    /// If the device has no memory for them.
    pub fn marks(&mut self, device: &Device, words: u64) -> Result<ViewMut<'_, u64>, Error> {
        self.allocate_marks(device, words)?;
        Ok(self.marks.as_mut().expect("they were allocated above").as_view_mut())
    }

    fn allocate_tickets(&mut self, device: &Device, tickets: u64) -> Result<(), Error> {
        if !is_enough(self.tickets.as_ref(), device, tickets) {
            let mut buffer = device.alloc_named("tickets", tickets.next_power_of_two().max(1024) as usize)?;
            buffer.fill_bytes(0)?;
            self.tickets = Some(buffer);
        }
        Ok(())
    }

    /// Allocates marks and counts the launch that they are for.
    fn allocate_marks(&mut self, device: &Device, words: u64) -> Result<(), Error> {
        if self.marked >= self.marked_most || !is_enough(self.marks.as_ref(), device, words) {
            let mut buffer = device.alloc_named("marks", words.next_power_of_two().max(1024) as usize)?;
            buffer.fill_bytes(0)?;
            (self.marks, self.marked) = (Some(buffer), 0);
        }
        self.marked += 1;
        Ok(())
    }
}

fn is_enough<T: warpfold_device::Element>(have: Option<&Buffer<T>>, device: &Device, len: u64) -> bool {
    have.is_some_and(|have| have.len() as u64 >= len && have.device() == device)
}
