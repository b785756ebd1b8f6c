//! A connection in memory: what a client does to its socket, and what the server sees of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use warpfold_serve::Socket;

/// Both directions.
#[derive(Debug)]
pub(crate) struct ClientPipe(Mutex<PipeEnds>);

#[derive(Debug)]
struct PipeEnds {
    sent: VecDeque<u8>,
    /// Bytes that the server has read.
    read: usize,
    /// The client sends no more.
    has_ended: bool,
    /// The client is gone.
    is_reset: bool,
    received: Vec<u8>,
    /// Bytes that the client has taken, and how many may lie before it.
    taken: usize,
    room: usize,
    /// Bytes that the client has looked at.
    looked: usize,
    /// The server is told when the client ends.
    tells: bool,
    wakers: Vec<Waker>,
}

impl PipeEnds {
    fn is_readable(&self) -> bool {
        !self.sent.is_empty() || self.has_ended || self.is_reset
    }

    fn left(&self) -> usize {
        self.room.saturating_sub(self.received.len() - self.taken)
    }

    /// Ready if a condition holds; otherwise the caller is woken when something changes.
    fn poll(&mut self, cx: &mut Context<'_>, is_ready: bool) -> Poll<io::Result<()>> {
        if is_ready {
            return Poll::Ready(Ok(()));
        }
        self.wakers.push(cx.waker().clone());
        Poll::Pending
    }
}

impl ClientPipe {
    /// A connection whose client leaves so many bytes untaken at most.
    pub(crate) fn new(room: usize, tells: bool) -> Self {
        Self(Mutex::new(PipeEnds {
            sent: VecDeque::new(),
            read: 0,
            has_ended: false,
            is_reset: false,
            received: Vec::new(),
            taken: 0,
            room,
            looked: 0,
            tells,
            wakers: Vec::new(),
        }))
    }

    fn ends(&self) -> MutexGuard<'_, PipeEnds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut PipeEnds)) {
        let mut ends = self.ends();
        change(&mut ends);
        let wakers = std::mem::take(&mut ends.wakers);
        drop(ends);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn over(&self, change: impl FnOnce(&mut PipeEnds)) {
        let tells = self.ends().tells;
        if tells { self.change(change) } else { change(&mut self.ends()) }
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        self.change(|ends| ends.sent.extend(bytes));
    }

    /// The client sends no more.
    pub(crate) fn end(&self) {
        self.over(|ends| ends.has_ended = true);
    }

    /// The client takes some bytes more.
    pub(crate) fn take(&self, bytes: usize) {
        self.change(|ends| ends.taken = (ends.taken + bytes).min(ends.received.len()));
    }

    /// The client is gone.
    pub(crate) fn reset(&self) {
        self.over(|ends| ends.is_reset = true);
    }

    /// Bytes that the server has read.
    pub(crate) fn num_read(&self) -> usize {
        self.ends().read
    }

    /// Returns whether more has come since the last time that may be the end of a reply.
    pub(crate) fn may_be_whole(&self) -> bool {
        let mut ends = self.ends();
        let len = ends.received.len();
        let ends_so = ends.received.ends_with(b"}") || ends.received.ends_with(b"0\r\n\r\n");
        std::mem::replace(&mut ends.looked, len) < len && ends_so
    }

    /// Everything that the server has sent, but for probes of a client that sends no more.
    pub(crate) fn received(&self) -> Vec<u8> {
        let ends = self.ends();
        let mut received = &ends.received[..];
        while let Some(rest) = received.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n") {
            received = rest;
        }
        received.to_vec()
    }
}

impl Socket for ClientPipe {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let is_ready = ends.is_readable();
        ends.poll(cx, is_ready)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ends = self.ends();
        match () {
            () if ends.is_reset => return Err(ErrorKind::ConnectionReset.into()),
            () if !ends.is_readable() => return Err(ErrorKind::WouldBlock.into()),
            () => {}
        }
        let len = buffer.len().min(ends.sent.len());
        ends.read += len;
        buffer.iter_mut().zip(ends.sent.drain(..len)).for_each(|(to, byte)| *to = byte);
        Ok(len)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let is_ready = ends.is_reset || ends.left() > 0;
        ends.poll(cx, is_ready)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut ends = self.ends();
        if ends.is_reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(ends.left());
        ends.received.extend(&bytes[..len]);
        if len == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(len) }
    }

    fn try_write_vectored(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_write(&bytes.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>())
    }

    async fn is_closed(&self) -> bool {
        poll_fn(|cx| Socket::poll_read_ready(self, cx)).await.ok();
        let ends = self.ends();
        ends.has_ended || ends.is_reset
    }

    async fn is_gone(&self) -> bool {
        self.ends().is_reset
    }
}
