//! Connections: accepted up to a number, bounded in headers and patience, closed when the server
//! drains, or when the client has left.
//!
//! A client that has closed its side may have left, or may still wait for its answer: TCP says the
//! same of both. So it is sent something, which the system of one that has left refuses: the
//! tokens of a stream, or, while there is nothing of an answer yet, `100 Continue`, which all
//! clients of HTTP/1.1 pass over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::http::Version;
use hyper::body::Incoming;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::host::{FOREVER, Host, ServeFault};
use crate::options::Bounds;
use crate::state::{Phase, State};

/// What a connection beyond the last one is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Type: application/json\r\nContent-Length: 112\r\n\r\n\
    {\"error\":{\"message\":\"too many connections\",\"type\":\"overloaded_error\",\"param\":null,\"code\":\"service_unavailable\"}}";

/// How long nothing is accepted after the system could not.
const PAUSE: Duration = Duration::from_millis(50);

/// Interval at which a client that sends no more is looked after.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes for a client that may have left.
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Accepts connections until the server drains, and returns those that are open.
pub(crate) async fn accept(listener: TcpListener, state: Arc<State>, router: Router) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(state.options.bounds.connections));
    let mut phases = state.phases();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phases.wait_for(|phase| *phase >= Phase::Draining) => return connections,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            // Such as too many open files: that passes.
            sleep(PAUSE).await;
            continue;
        };
        match places.clone().try_acquire_owned() {
            Err(_) => {
                // The buffer of a new socket takes it, or the client gets nothing.
                stream.try_write(FULL).ok();
            }
            Ok(place) => {
                let (state, router) = (state.clone(), router.clone());
                connections.spawn(async move {
                    // Tokens are small, and wanted at once.
                    stream.set_nodelay(true).ok();
                    serve(Arc::new(stream), &state, router).await;
                    drop(place);
                });
            }
        }
    }
}

/// Serves one connection. What it does wrong ends it, and nothing else.
pub(crate) async fn serve<S: Socket>(stream: Arc<S>, state: &State, router: Router) {
    let Bounds { header_bytes, headers, mut header_time, mut write_time, .. } = state.options.bounds;
    let host = state.host.clone();
    for (fault, time) in
        [(ServeFault::HeaderTimeIsIgnored, &mut header_time), (ServeFault::WriteTimeIsIgnored, &mut write_time)]
    {
        *time = if host.has(fault) { FOREVER } else { *time };
    }
    let io = TokioIo::new(Impatient { stream: stream.clone(), patience: write_time, deadline: None, host });
    let mut builder = http1::Builder::new();
    builder.timer(state.host.clone()).header_read_timeout(header_time).max_headers(headers).max_buf_size(header_bytes);
    builder.half_close(true);
    // Whether a request has no byte of its answer yet: hyper writes the head as soon as it has it.
    let is_unanswered = Arc::new(AtomicBool::new(false));
    let router = TowerToHyperService::new(router);
    let answer = |request: hyper::Request<Incoming>| {
        is_unanswered.store(request.version() == Version::HTTP_11, Ordering::Relaxed);
        let (answer, is_unanswered) = (router.call(request), is_unanswered.clone());
        async move {
            let answer = answer.await;
            is_unanswered.store(false, Ordering::Relaxed);
            answer
        }
    };
    let mut connection = std::pin::pin!(builder.serve_connection(io, service_fn(answer)));
    let mut phases = state.phases();
    // In this order, so that a simulation repeats.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = has_left(&*stream, &is_unanswered, &state.host) => return,
        _ = phases.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        _ = connection => {}
        () = has_left(&*stream, &is_unanswered, &state.host) => {}
    }
}

/// Waits until the client has left. One that has closed its side is asked by [`PROBE`], once, while
/// it waits for an answer of which there is nothing yet; where there is something, hyper writes.
async fn has_left(stream: &impl Socket, is_unanswered: &AtomicBool, host: &Host) {
    let mut is_asked = false;
    loop {
        let is_closed = stream.is_closed().await;
        if is_closed && !is_asked && is_unanswered.load(Ordering::Relaxed) {
            is_asked = stream.try_write(PROBE).is_ok();
        }
        host.sleep(LOOK).await;
        // A reset closes both sides.
        if is_closed && stream.is_gone().await {
            return;
        }
    }
}

/// A connection's socket, or what a simulation has in its place. Dropping it closes it.
///
/// The methods are those of [`TcpStream`], and do what it says there.
#[allow(missing_docs, reason = "the names are tokio's")]
pub trait Socket: Send + Sync + 'static {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn try_write_vectored(&self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize>;

    /// Waits until there is something to read, and returns whether the other side sends no more.
    fn is_closed(&self) -> impl Future<Output = bool> + Send;

    /// Waits until there is something to read or room to write, and returns whether the other side
    /// takes no more.
    fn is_gone(&self) -> impl Future<Output = bool> + Send;
}

impl Socket for TcpStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_read_ready(self, cx)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::try_read(self, buffer)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_write_ready(self, cx)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }

    fn try_write_vectored(&self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        Self::try_write_vectored(self, bytes)
    }

    async fn is_closed(&self) -> bool {
        self.ready(Interest::READABLE).await.map_or(true, |ready| ready.is_read_closed())
    }

    async fn is_gone(&self) -> bool {
        self.ready(Interest::READABLE | Interest::WRITABLE).await.map_or(true, |ready| ready.is_write_closed())
    }
}

/// A stream whose writes fail when the other side takes nothing for too long.
struct Impatient<S> {
    stream: Arc<S>,
    patience: Duration,
    deadline: Option<Pin<Box<dyn Sleep>>>,
    host: Host,
}

impl<S: Socket> Impatient<S> {
    /// Writes as soon as it can; what has to be waited for becomes an error when it is late.
    fn poll_write_in_time(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&S) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while let Poll::Ready(ready) = self.stream.poll_write_ready(cx) {
            match ready.and_then(|()| write(&self.stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.deadline = None;
                    return Poll::Ready(result);
                }
            }
        }
        let deadline = self.deadline.get_or_insert_with(|| self.host.sleep(self.patience));
        deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: Socket> AsyncRead for Impatient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result.map(|len| buffer.advance(len))),
            }
        }
    }
}

impl<S: Socket> AsyncWrite for Impatient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_in_time(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_in_time(cx, |stream| stream.try_write_vectored(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
