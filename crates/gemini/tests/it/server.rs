//! A tiny HTTP server that answers each request with the next prepared answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use parallax_gemini::{Auth, Gemini, GeminiOptions};
use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, ModelError, Request, Retry, StreamEvent, ToolSet};
use parallax_protocol::secret::Secret;
use parallax_protocol::{CancellationToken, Object};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) const KEY: &str = "AIza-a-very-secret-key";

/// A piece of an answer.
#[derive(Clone)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    Wait(Duration),
    /// Keeps the connection open without a word.
    Hang,
}

pub(crate) type Answer = Vec<Piece>;

/// An answer with a length.
pub(crate) fn whole(status: u16, headers: &str, body: &str) -> Answer {
    vec![Piece::Bytes(
        format!(
            "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )]
}

/// A stream of chunks, ended properly.
pub(crate) fn stream(chunks: &[&str]) -> Answer {
    let mut answer = head();
    answer.extend(chunks.iter().map(|chunk| data(chunk)));
    answer.push(Piece::Bytes(b"0\r\n\r\n".to_vec()));
    answer
}

pub(crate) fn head() -> Answer {
    vec![Piece::Bytes(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            .to_vec(),
    )]
}

/// One transfer chunk with one event.
pub(crate) fn data(json: &str) -> Piece {
    raw(&format!("data: {json}\r\n\r\n"))
}

/// One transfer chunk with these bytes.
pub(crate) fn raw(text: &str) -> Piece {
    Piece::Bytes(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

pub(crate) fn text_chunk(text: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}}}}]}}"#)
}

pub(crate) fn last_chunk(text: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}],"usageMetadata":{{"promptTokenCount":3,"totalTokenCount":5}}}}"#
    )
}

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) struct Server {
    pub(crate) base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Tells when the client closed a connection that was kept open.
    pub(crate) closed: mpsc::UnboundedReceiver<()>,
}

impl Server {
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (tell, closed) = mpsc::unbounded_channel();
        let all = seen.clone();
        tokio::spawn(async move {
            for answer in answers {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let Some(request) = read_request(&mut socket).await else { continue };
                all.lock().expect("a lock").push(request);
                for piece in answer {
                    match piece {
                        Piece::Bytes(bytes) => {
                            if socket.write_all(&bytes).await.is_err() {
                                break;
                            }
                            let _ = socket.flush().await;
                        }
                        Piece::Wait(time) => tokio::time::sleep(time).await,
                        Piece::Hang => {
                            let mut rest = [0; 64];
                            while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                            let _ = tell.send(());
                        }
                    }
                }
            }
        });
        Self { base, seen, closed }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("a lock").clone()
    }
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> Option<Seen> {
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
                return Some(Seen { head: head.to_owned(), body: body.to_owned() });
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(buffer.get(..count)?),
        }
    }
}

/// Options for a server, with short waits.
pub(crate) fn options(base: &str) -> GeminiOptions {
    let env = |name: &str| (name == "PARALLAX_RETRY_BASE_MS").then(|| "2".to_owned());
    let mut options = GeminiOptions::from_env(Auth::ApiKey(Secret::new(KEY)), &env);
    options.base_url = Some(base.to_owned());
    options.transport.idle_timeout = Duration::from_millis(150);
    options
}

pub(crate) fn gemini(server: &Server) -> Gemini {
    Gemini::new(options(&server.base)).expect("a good base")
}

pub(crate) fn request() -> Request {
    Request {
        model: "gemini-3-flash-preview".into(),
        system: "".into(),
        contents: vec![Content::user(vec![Part::text("hi")]).seal()],
        tools: ToolSet::None,
        generation: Object::new(),
        role: "main".into(),
        alias: String::new(),
        max_attempts: None,
        has_fallback: false,
        is_retry: false,
        adopted: None,
    }
}

/// What a stream gave: its text, its retries, and how it ended.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) text: String,
    pub(crate) retries: Vec<Retry>,
    pub(crate) end: Result<(), ModelError>,
}

pub(crate) async fn drain(model: &dyn Model, request: Request) -> Got {
    let mut stream = model.stream(request, CancellationToken::new());
    let mut got = Got { text: String::new(), retries: Vec::new(), end: Ok(()) };
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Chunk(chunk)) => {
                got.text.push_str(&Content::model(chunk.parts).visible_text());
            }
            Ok(StreamEvent::Retry(retry)) => got.retries.push(retry),
            Ok(StreamEvent::Notice(_)) => {}
            Err(error) => got.end = Err(error),
        }
    }
    got
}

/// Serves the answers and drains one stream.
pub(crate) async fn serve(answers: Vec<Answer>) -> (Got, Server) {
    let server = Server::start(answers).await;
    let got = drain(&gemini(&server), request()).await;
    (got, server)
}
