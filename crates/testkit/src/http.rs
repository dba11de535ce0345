//! A minimal HTTP/1.1 server connection for tests.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_HEAD: usize = 256 * 1024;
const MAX_BODY: usize = 512 * 1024 * 1024;

/// A received request.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A connection with its unprocessed input.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

fn invalid_data(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(64 * 1024);
        self.stream.read_buf(&mut self.buffer).await
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > MAX_BODY {
            return Err(invalid_data("body too large"));
        }
        while self.buffer.len() < length {
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    async fn take_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(index) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.take(index + 1).await?;
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(invalid_data("line too long"));
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads the next request; `None` if the client disconnected between requests.
    pub(crate) async fn read_request(&mut self) -> io::Result<Option<HttpRequest>> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Ok(None);
        }
        let first = self.take_line().await?;
        let mut words = first.split(' ');
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Err(invalid_data("no request line"));
        };
        let (method, path) = (method.to_owned(), path.to_owned());
        let mut headers: Vec<(String, String)> = Vec::new();
        loop {
            let line = self.take_line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| invalid_data("header without colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            if headers.len() > 200 {
                return Err(invalid_data("too many headers"));
            }
        }
        let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        if header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            self.read_chunked().await?
        } else {
            let length = header("content-length").map_or(Ok(0), str::parse);
            self.take(length.map_err(|_| invalid_data("bad content-length"))?).await?
        };
        Ok(Some(HttpRequest { method, path, headers, body }))
    }

    async fn read_chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_line().await?;
            let size = line.split(';').next().unwrap_or("").trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| invalid_data("bad chunk size"))?;
            if size > MAX_BODY || body.len() + size > MAX_BODY {
                return Err(invalid_data("body too large"));
            }
            if size == 0 {
                while !self.take_line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size).await?);
            self.take_line().await?;
        }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Writes pieces of `size` bytes, flushing each before the next.
    pub(crate) async fn write_split(&mut self, bytes: &[u8], size: usize) -> io::Result<()> {
        for piece in bytes.chunks(size.max(1)) {
            self.stream.write_all(piece).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends a complete response with a length.
    pub(crate) async fn respond(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        content_type: &str,
        body: &[u8],
    ) -> io::Result<()> {
        let mut bytes = head(status, headers, content_type);
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend(body);
        self.stream.write_all(&bytes).await
    }

    /// Sends the head of a chunked response.
    pub(crate) async fn respond_chunked(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        content_type: &str,
    ) -> io::Result<()> {
        let mut bytes = head(status, headers, content_type);
        bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
        self.stream.write_all(&bytes).await
    }

    /// Completes when the client has disconnected.
    pub(crate) async fn wait_for_disconnect(&self) {
        let mut byte = [0u8; 1];
        match self.stream.peek(&mut byte).await {
            Ok(0) | Err(_) => {}
            // The client sent more data, so it is connected. A later write will detect a
            // disconnect.
            Ok(_) => std::future::pending().await,
        }
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    /// Closes the connection after all output is sent.
    pub(crate) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
        let mut rest = [0u8; 4096];
        let drain = async { while matches!(self.stream.read(&mut rest).await, Ok(1..)) {} };
        let _ = tokio::time::timeout(Duration::from_millis(500), drain).await;
    }
}

fn head(status: u16, headers: &[(String, String)], content_type: &str) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    };
    let mut text = format!("HTTP/1.1 {status} {reason}\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        text.push_str(&format!("content-type: {content_type}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.into_bytes()
}
