//! Connections: accepted up to a number, bounded in headers and patience, closed when the server
//! drains, or when the client has left.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::host::Host;
use crate::options::Bounds;
use crate::state::{Phase, State};

/// What a connection beyond the last one is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Type: application/json\r\nContent-Length: 112\r\n\r\n\
    {\"error\":{\"message\":\"too many connections\",\"type\":\"overloaded_error\",\"param\":null,\"code\":\"service_unavailable\"}}";

/// How long nothing is accepted after the system could not.
const PAUSE: Duration = Duration::from_millis(50);

/// How often it is looked whether a client has left that has sent more than one request, and how
/// long answers that are ready may still go to one that sends no more.
const LOOK: Duration = Duration::from_millis(200);

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
    let Bounds { header_bytes, headers, header_time, write_time, .. } = state.options.bounds;
    let host = state.host.clone();
    let io = TokioIo::new(Impatient { stream: stream.clone(), patience: write_time, deadline: None, host });
    let mut builder = http1::Builder::new();
    builder.timer(state.host.clone()).header_read_timeout(header_time).max_headers(headers).max_buf_size(header_bytes);
    let mut connection = std::pin::pin!(builder.serve_connection(io, TowerToHyperService::new(router)));
    let mut phases = state.phases();
    // In this order, so that a simulation repeats.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = has_left(&*stream, &state.host) => return,
        _ = phases.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        _ = connection => {}
        () = has_left(&*stream, &state.host) => {}
    }
}

/// Waits until the client has closed its side. hyper sees that by reading, and while it answers a
/// request it does not read on where bytes of the next one lie before the end.
async fn has_left(stream: &impl Socket, host: &Host) {
    loop {
        let is_closed = stream.is_closed().await;
        host.sleep(LOOK).await;
        if is_closed {
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
