//! Mesh of processes: a TCP connection between each two.
//!
//! They find each other through rank 0, which listens at a known address and forwards the addresses
//! of the others. The frames carry the id of an NCCL communicator, the rank that failed, and, for
//! virtual GPUs, which NCCL does not support, the data of collectives. A closed connection means
//! that its process has ended.

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::environment::Launch;
use crate::{Error, ErrorKind};

/// First word of a rank's greeting, to detect stray connections.
const MAGIC: u64 = 0x7761_7270_666f_6c64;
/// Tag of a frame that reports a failed rank.
const FAILED: u64 = u64::MAX;
/// Interval between attempts to connect.
const AGAIN: Duration = Duration::from_millis(20);
/// Time that a device may go on working after another process has ended.
const GRACE: Duration = Duration::from_millis(500);

/// The connections of a rank.
#[derive(Debug)]
pub(crate) struct Mesh {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) patience: Duration,
    /// Connections by rank; `None` for the own rank.
    peers: Vec<Option<TcpStream>>,
    /// First failure that was seen, and when.
    failure: Mutex<Option<(Error, Instant)>>,
}

impl Mesh {
    /// Connects to all other processes.
    pub(crate) fn connect(launch: &Launch) -> Result<Self, Error> {
        let wrong = |problem: String| Error::from(ErrorKind::Rendezvous { address: launch.address.clone(), problem });
        let io = |what: &str| {
            let what = what.to_owned();
            move |e: std::io::Error| wrong_of(&launch.address, format!("{what}: {e}"))
        };
        let (rank, size, end) = (launch.rank, launch.size, Instant::now() + launch.patience);
        let mut peers: Vec<Option<TcpStream>> = (0..size).map(|_| None).collect();
        // Every rank listens: rank 0 at the known address, the others at one that they send to rank
        // 0.
        let listener = if rank == 0 { TcpListener::bind(&*launch.address) } else { TcpListener::bind("0.0.0.0:0") };
        let listener = listener.map_err(io("listening"))?;
        listener.set_nonblocking(true).map_err(io("listening"))?;
        let port = listener.local_addr().map_err(io("listening"))?.port();
        let mut addresses: Vec<SocketAddr> = Vec::new();
        if rank > 0 {
            let mut stream = dial(&launch.address, end).map_err(|e| wrong(format!("connecting to rank 0: {e}")))?;
            set_up(&stream, launch.patience).map_err(io("connecting to rank 0"))?;
            greet(&mut stream, (rank, size), port).map_err(io("greeting rank 0"))?;
            let text = String::from_utf8(read_frame(&mut stream).map_err(io("waiting for the other ranks"))?.1);
            let parse = |line: &str| line.parse().map_err(|_| wrong(format!("'{line}' is no address")));
            addresses = text.unwrap_or_default().lines().map(parse).collect::<Result<_, _>>()?;
            peers[0] = Some(stream);
        }
        // The rank with the larger number connects to the other.
        for (other, address) in addresses.iter().enumerate().take(rank).skip(1) {
            let dialled = dial(&address.to_string(), end);
            let mut stream = dialled.map_err(|e| wrong(format!("connecting to rank {other}: {e}")))?;
            set_up(&stream, launch.patience).map_err(io("connecting"))?;
            greet(&mut stream, (rank, size), port).map_err(io("greeting"))?;
            peers[other] = Some(stream);
        }
        let mut found: Vec<Option<SocketAddr>> = vec![None; size];
        while let Some(missing) = (rank + 1..size).find(|&other| peers[other].is_none()) {
            match listener.accept() {
                Ok((mut stream, address)) => {
                    stream.set_nonblocking(false).map_err(io("accepting"))?;
                    set_up(&stream, launch.patience).map_err(io("accepting"))?;
                    let Ok((other, port)) = greeted(&mut stream, size) else { continue };
                    if other <= rank || peers[other].is_some() {
                        return Err(wrong(format!("two processes say that they are rank {other}")));
                    }
                    found[other] = Some(SocketAddr::new(address.ip(), port));
                    peers[other] = Some(stream);
                }
                Err(e) if e.kind() == IoErrorKind::WouldBlock && Instant::now() < end => std::thread::sleep(AGAIN),
                Err(e) if e.kind() == IoErrorKind::WouldBlock => {
                    return Err(wrong(format!("rank {missing} did not come within {:?}", launch.patience)));
                }
                Err(e) => return Err(io("accepting")(e)),
            }
        }
        let mesh = Self { rank, size, patience: launch.patience, peers, failure: Mutex::default() };
        if rank == 0 {
            let own = listener.local_addr().map_err(io("listening"))?;
            let lines: Vec<String> = found.iter().map(|address| address.unwrap_or(own).to_string()).collect();
            for mut stream in mesh.peers.iter().flatten() {
                write_frame(&mut stream, 0, lines.join("\n").as_bytes()).map_err(io("telling the addresses"))?;
            }
        }
        Ok(mesh)
    }

    /// Sends to some ranks and receives from some, at the same time. `tag` is the same on all ranks
    /// that take part.
    pub(crate) fn exchange<'a>(
        &self,
        tag: u64,
        outgoing: impl Fn(usize) -> Option<&'a [u8]>,
        incoming: impl Fn(usize) -> bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let result = std::thread::scope(|scope| {
            let send = |(to, stream): (usize, &'a [u8])| {
                let mut peer = self.peers[to].as_ref()?;
                Some((to, scope.spawn(move || write_frame(&mut peer, tag, stream))))
            };
            let sent: Vec<_> = (0..self.size).filter_map(|to| Some((to, outgoing(to)?))).filter_map(send).collect();
            let receive = |from: usize| match &self.peers[from] {
                Some(peer) if incoming(from) => self.receive(from, peer, tag),
                _ => Ok(Vec::new()),
            };
            let received: Result<Vec<_>, Error> = (0..self.size).map(receive).collect();
            if received.is_err() {
                // Ends the writes that nobody reads any more, after all have learnt who failed.
                received.as_ref().err().into_iter().for_each(|error| self.pass_on(error));
            }
            for (to, sent) in sent {
                let sent = sent.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if received.is_ok() {
                    sent.map_err(|e| lost(to, &e))?;
                }
            }
            received
        });
        if let Err(error) = &result {
            self.pass_on(error);
        }
        result
    }

    fn receive(&self, from: usize, mut peer: &TcpStream, tag: u64) -> Result<Vec<u8>, Error> {
        let (found, data) = read_frame(&mut peer).map_err(|e| match e.kind() {
            IoErrorKind::WouldBlock | IoErrorKind::TimedOut => {
                ErrorKind::RanksLate { waited: self.patience, missing: vec![from], during: None }.into()
            }
            _ => lost(from, &e),
        })?;
        match found {
            FAILED => Err(failure_of(&data)),
            found if found == tag => Ok(data),
            found => Err(ErrorKind::RanksDisagree { expected: describe(tag), found: describe(found) }.into()),
        }
    }

    /// Checks that every other process is still connected, or has been until a moment ago: one that
    /// has done its part may end before this one has. Does not wait.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            Some((error, seen)) if seen.elapsed() >= GRACE => return Err(error.clone()),
            Some(_) => {}
            None => *failure = self.poll().err().map(|error| (error, Instant::now())),
        }
        Ok(())
    }

    fn poll(&self) -> Result<(), Error> {
        for (rank, peer) in self.peers.iter().enumerate() {
            let Some(mut peer) = peer.as_ref() else { continue };
            let failed = |e: &std::io::Error| lost(rank, e);
            peer.set_nonblocking(true).map_err(|e| failed(&e))?;
            let mut header = [0; 16];
            let seen = peer.peek(&mut header);
            peer.set_nonblocking(false).map_err(|e| failed(&e))?;
            match seen {
                Ok(0) => return Err(lost(rank, &IoErrorKind::UnexpectedEof.into())),
                Ok(16) if u64::from_le_bytes(header[..8].try_into().expect("eight bytes")) == FAILED => {
                    return Err(read_frame(&mut peer).map_or_else(|e| failed(&e), |(_, data)| failure_of(&data)));
                }
                Err(e) if e.kind() != IoErrorKind::WouldBlock => return Err(failed(&e)),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Tells all others which rank failed.
    pub(crate) fn fail(&self, rank: usize, reason: &str) {
        let data = [&(rank as u64).to_le_bytes(), reason.as_bytes()].concat();
        for mut peer in self.peers.iter().flatten() {
            // A closed peer need not be told; a peer that does not read is given a short timeout.
            let _ = peer.set_write_timeout(Some(Duration::from_secs(1)));
            let _ = write_frame(&mut peer, FAILED, &data);
        }
    }

    fn pass_on(&self, error: &Error) {
        match error.kind() {
            ErrorKind::RankFailed { rank, reason } => self.fail(*rank, reason),
            ErrorKind::RanksLate { missing, .. } => self.fail(missing[0], "it did not come in time"),
            _ => self.fail(self.rank, &error.to_string()),
        }
    }
}

fn wrong_of(address: &str, problem: String) -> Error {
    ErrorKind::Rendezvous { address: address.to_owned(), problem }.into()
}

fn lost(rank: usize, e: &std::io::Error) -> Error {
    let reason = match e.kind() {
        IoErrorKind::UnexpectedEof | IoErrorKind::ConnectionReset | IoErrorKind::BrokenPipe => {
            "its process ended".to_owned()
        }
        _ => format!("its connection failed: {e}"),
    };
    ErrorKind::RankFailed { rank, reason }.into()
}

fn failure_of(data: &[u8]) -> Error {
    let (rank, reason) = data.split_at(data.len().min(8));
    let rank = rank.try_into().map_or(0, u64::from_le_bytes) as usize;
    ErrorKind::RankFailed { rank, reason: String::from_utf8_lossy(reason).into_owned() }.into()
}

/// Describes a tag: a byte for the kind, the rest its length.
fn describe(tag: u64) -> String {
    format!("operation {} of {} bytes", tag >> 56, tag & ((1 << 56) - 1))
}

fn set_up(stream: &TcpStream, patience: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))
}

/// Connects, once something listens there.
fn dial(address: &str, end: Instant) -> std::io::Result<TcpStream> {
    loop {
        let all = address.to_socket_addrs()?;
        let mut last = std::io::Error::new(IoErrorKind::NotFound, "the name has no address");
        for address in all {
            match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e,
            }
        }
        if Instant::now() >= end {
            return Err(last);
        }
        std::thread::sleep(AGAIN);
    }
}

fn greet(stream: &mut TcpStream, (rank, size): (usize, usize), port: u16) -> std::io::Result<()> {
    let words = [MAGIC, rank as u64, size as u64, u64::from(port)];
    stream.write_all(&words.map(u64::to_le_bytes).concat())
}

/// Reads a greeting: the rank that connected, and the port at which it listens.
fn greeted(stream: &mut TcpStream, size: usize) -> std::io::Result<(usize, u16)> {
    let mut bytes = [0; 32];
    stream.read_exact(&mut bytes)?;
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let is_ours = word(0) == MAGIC && word(2) == size as u64 && word(1) < size as u64;
    match u16::try_from(word(3)) {
        Ok(port) if is_ours => Ok((word(1) as usize, port)),
        _ => Err(IoErrorKind::InvalidData.into()),
    }
}

fn write_frame(stream: &mut &TcpStream, tag: u64, data: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[tag, data.len() as u64].map(u64::to_le_bytes).concat())?;
    stream.write_all(data)
}

fn read_frame(stream: &mut impl Read) -> std::io::Result<(u64, Vec<u8>)> {
    let mut header = [0; 16];
    stream.read_exact(&mut header)?;
    let (tag, len) = header.split_at(8);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let (tag, len) = (word(tag), word(len));
    // Memory is allocated as bytes arrive, not as announced.
    let mut data = Vec::new();
    stream.take(len).read_to_end(&mut data)?;
    if (data.len() as u64) < len { Err(IoErrorKind::UnexpectedEof.into()) } else { Ok((tag, data)) }
}
