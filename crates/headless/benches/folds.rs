//! A 5 MB answer in 50,000 pieces in each format.

use std::pin::Pin;
use std::task::{Context, Poll};

use parallax_engine::EventBus;
use parallax_headless::{OutputFormat, OutputWriters, RunOptions, run_prompt};
use parallax_protocol::event::{EndReason, EventBody, ItemDone, ItemStart, TurnEnded};
use parallax_protocol::ids::ItemId;
use parallax_protocol::op::Prompt;
use tokio::io::AsyncWrite;

const PIECES: usize = 50_000;
const PIECE: &str = "The quick brown fox jumps over the lazy dog – again,\n and \"again\"; fünf Boxkämpfer jagen Viktor.";

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 10, args = ["text", "json", "stream-json"])]
fn answer(format: &str) {
    let format = match format {
        "text" => OutputFormat::Text,
        "json" => OutputFormat::Json,
        _ => OutputFormat::StreamJson,
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(run(format));
}

async fn run(format: OutputFormat) {
    let hub = EventBus::new();
    let mut events = hub.subscribe();
    let (ops, mut orders) = tokio::sync::mpsc::channel(4);
    let session = tokio::spawn(async move {
        orders.recv().await;
        let item = ItemId::from("i1");
        hub.send(EventBody::TurnStarted { prompt: "x".into() });
        hub.send(EventBody::ItemStarted { item: item.clone(), start: ItemStart::Text });
        for number in 0..PIECES {
            hub.send(EventBody::ItemDelta { item: item.clone(), text: PIECE.into() });
            // Before the event bus would merge pieces for a slow reader.
            if number % 200 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let done =
            ItemDone::Text { text: std::sync::Arc::new(PIECE.repeat(PIECES)), is_dropped: false };
        hub.send(EventBody::ItemDone { item, done });
        let end = TurnEnded { reason: EndReason::Done, duration_ms: 1, is_removed: false };
        hub.send(EventBody::TurnEnded(end));
    });
    let io = OutputWriters { stdout: Box::new(Sink), stderr: Box::new(Sink) };
    let options = RunOptions { format, ..RunOptions::default() };
    run_prompt(io, ops, &mut events, Prompt::default(), "x".into(), options).await;
    let _ = session.await;
}

struct Sink;

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(divan::black_box(bytes).len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
