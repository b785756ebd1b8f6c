//! Connections: accepted up to a number, bounded in headers and patience, closed when the server
//! drains.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use crate::options::Bounds;
use crate::state::{Phase, State};

/// What a connection beyond the last one is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Type: application/json\r\nContent-Length: 112\r\n\r\n\
    {\"error\":{\"message\":\"too many connections\",\"type\":\"overloaded_error\",\"param\":null,\"code\":\"service_unavailable\"}}";

/// How long nothing is accepted after the system could not.
const PAUSE: Duration = Duration::from_millis(50);

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
                    serve(stream, &state, router).await;
                    drop(place);
                });
            }
        }
    }
}

/// Serves one connection. What it does wrong ends it, and nothing else.
async fn serve(stream: TcpStream, state: &State, router: Router) {
    let Bounds { header_bytes, headers, header_time, write_time, .. } = state.options.bounds;
    // Tokens are small, and wanted at once.
    stream.set_nodelay(true).ok();
    let io = TokioIo::new(Impatient { stream, patience: write_time, deadline: None });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_time).max_headers(headers).max_buf_size(header_bytes);
    let mut connection = std::pin::pin!(builder.serve_connection(io, TowerToHyperService::new(router)));
    let mut phases = state.phases();
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = phases.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await.ok();
}

/// A stream whose writes fail when the other side takes nothing for too long.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    /// Passes a result on; one that has to be waited for becomes an error when it is late.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let result = Pin::new(&mut me.stream).poll_write(cx, bytes);
        me.in_time(cx, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let result = Pin::new(&mut me.stream).poll_write_vectored(cx, bytes);
        me.in_time(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
