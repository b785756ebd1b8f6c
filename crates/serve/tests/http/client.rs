//! An HTTP client that does what it is told, right or wrong: plain sockets, and no library that
//! would mend it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The JSON of an answer that has this status.
    #[track_caller]
    pub(crate) fn with(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.json()
    }

    /// The objects of a stream, which must end as streams do.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!((self.status, self.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
        let mut events: Vec<&str> = self.body.split("\n\n").collect();
        assert_eq!(events.pop(), Some(""), "an event ends in an empty line: {}", self.body);
        assert_eq!(events.pop(), Some("data: [DONE]"), "{}", self.body);
        let json = |event: &str| {
            let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {event}"));
            serde_json::from_str(data).expect("an event is JSON")
        };
        events.into_iter().map(json).collect()
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket has a timeout");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are. A server that has closed the connection may not take them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> &mut Self {
        self.stream.get_mut().write_all(bytes).ok();
        self
    }

    /// Says that nothing more will be sent.
    pub(crate) fn half_close(&mut self) -> &mut Self {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("the connection is open");
        self
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> &mut Self {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        self.send((text + "\r\n" + body).as_bytes())
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> &mut Self {
        self.request("POST", path, &[("Content-Type", "application/json")], &body.to_string())
    }

    /// Reads the status line and the headers, or nothing if the server has closed.
    pub(crate) fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let first = self.line()?;
        let status = first.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some((status, headers));
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// A line without its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let len = self.stream.read_line(&mut line).ok()?;
        (len > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        let (status, headers) = self.head()?;
        let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let mut body = Vec::new();
        if header("transfer-encoding") == Some("chunked") {
            while let Some(len) = self.line().and_then(|line| usize::from_str_radix(&line, 16).ok()) {
                let start = body.len();
                body.resize(start + len, 0);
                self.stream.read_exact(&mut body[start..]).ok()?;
                self.line()?;
                if len == 0 {
                    break;
                }
            }
        } else if let Some(len) = header("content-length") {
            body.resize(len.parse().ok()?, 0);
            self.stream.read_exact(&mut body).ok()?;
        }
        let body = String::from_utf8(body).expect("bodies are UTF-8");
        Some(Reply { status, headers, body })
    }

    #[track_caller]
    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("the server answers")
    }

    /// Whether the server closes the connection without a word.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }
}
