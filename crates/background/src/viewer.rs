//! The session's side of an attached front end.

use std::sync::Arc;

use parallax_protocol::event::Level;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use crate::live_feed::{LiveFeed, NextLines, ViewerQueue};
use crate::retained_events::to_line;
use crate::view_protocol::{FeedLine, ViewerLine};

/// Maximum length of a line from a front end, in bytes.
const MAX_LINE_LENGTH: u64 = 8 << 20;

/// A line of a front end, and where the response goes.
#[derive(Debug)]
pub struct ViewerRequest {
    /// The line.
    pub line: ViewerLine,
    /// The front end.
    pub viewer: ViewerHandle,
}

/// A front end that sent a line. Responses never wait for it.
#[derive(Debug, Clone)]
pub struct ViewerHandle(Arc<ViewerQueue>);

impl ViewerHandle {
    /// Sends the output of a command.
    pub fn send_output(&self, text: String) {
        self.0.push(to_line(&FeedLine::Output(text)));
    }

    /// Sends a message for the user.
    pub fn send_notice(&self, level: Level, text: String) {
        self.0.push(to_line(&FeedLine::Notice(level, text)));
    }
}

/// Serves a front end until it disconnects or the session ends.
pub(crate) async fn serve(
    reader: BufReader<ReadHalf<'_>>,
    mut writer: WriteHalf<'_>,
    feed: &LiveFeed,
    requests: &mpsc::Sender<ViewerRequest>,
) {
    let queue = feed.attach();
    let receive_lines = receive(reader, &queue, requests);
    let send_lines = async {
        loop {
            match queue.next().await {
                NextLines::Lines(lines) => {
                    for line in lines {
                        writer.write_all(line.as_bytes()).await?;
                    }
                }
                NextLines::State => {
                    for line in feed.resume(&queue) {
                        writer.write_all(line.as_bytes()).await?;
                    }
                }
                NextLines::End => return writer.shutdown().await,
            }
        }
    };
    tokio::select! {
        () = receive_lines => {}
        // A front end that is gone needs nothing.
        _ = send_lines => {}
    }
    feed.detach(&queue);
}

/// Forwards the lines of a front end until it disconnects.
async fn receive(
    mut reader: BufReader<ReadHalf<'_>>,
    queue: &Arc<ViewerQueue>,
    requests: &mpsc::Sender<ViewerRequest>,
) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE_LENGTH).read_until(b'\n', &mut line).await {
            Ok(1..) if line.ends_with(b"\n") => {}
            _ => return,
        }
        let viewer = ViewerHandle(Arc::clone(queue));
        match serde_json::from_slice(&line) {
            Ok(line) => {
                if requests.send(ViewerRequest { line, viewer }).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                viewer
                    .send_notice(Level::Error, format!("The session rejected the input: {error}"));
            }
        }
    }
}
