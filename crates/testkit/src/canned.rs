//! A minimal HTTP server that answers each request with the next prepared response, byte for byte:
//! broken streams, chunk boundaries, and error documents that scripts cannot express.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A piece of a response.
#[derive(Clone)]
pub enum ResponsePiece {
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// A pause.
    Wait(Duration),
    /// Keeps the connection open without sending anything.
    Hang,
}

/// The complete response to one request.
pub type CannedResponse = Vec<ResponsePiece>;

/// Returns a response with a length.
pub fn with_length(status: u16, headers: &str, body: &str) -> CannedResponse {
    vec![ResponsePiece::Bytes(
        format!(
            "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )]
}

/// Returns a complete stream of chunks.
pub fn stream(chunks: &[&str]) -> CannedResponse {
    let mut answer = head();
    answer.extend(chunks.iter().map(|chunk| data(chunk)));
    answer.push(ResponsePiece::Bytes(b"0\r\n\r\n".to_vec()));
    answer
}

/// Returns the head of a stream.
pub fn head() -> CannedResponse {
    vec![ResponsePiece::Bytes(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            .to_vec(),
    )]
}

/// Returns a transfer chunk with one event.
pub fn data(json: &str) -> ResponsePiece {
    raw(&format!("data: {json}\r\n\r\n"))
}

/// Returns a transfer chunk with these bytes.
pub fn raw(text: &str) -> ResponsePiece {
    ResponsePiece::Bytes(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

/// A received request.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

/// A running server.
pub struct Server {
    /// The base URL.
    pub base: String,
    requests: Arc<Mutex<Vec<SeenRequest>>>,
    /// Receives a message when the client closes a connection that was kept open.
    pub closed_connections: mpsc::UnboundedReceiver<()>,
}

impl Server {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// Panics if there is no free port.
    #[expect(clippy::expect_used, reason = "a broken test server must stop the test")]
    pub async fn start(answers: Vec<CannedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (tell, closed_connections) = mpsc::unbounded_channel();
        let all = requests.clone();
        tokio::spawn(async move {
            for answer in answers {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let Some(request) = read_request(&mut socket).await else { continue };
                all.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                for piece in answer {
                    match piece {
                        ResponsePiece::Bytes(bytes) => {
                            if socket.write_all(&bytes).await.is_err() {
                                break;
                            }
                            let _ = socket.flush().await;
                        }
                        ResponsePiece::Wait(time) => tokio::time::sleep(time).await,
                        ResponsePiece::Hang => {
                            let mut rest = [0; 64];
                            while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                            let _ = tell.send(());
                        }
                    }
                }
            }
        });
        Self { base, requests, closed_connections }
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> Option<SeenRequest> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0usize) {
                return Some(SeenRequest { head: head.to_owned(), body: body.to_owned() });
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(buffer.get(..count)?),
        }
    }
}
