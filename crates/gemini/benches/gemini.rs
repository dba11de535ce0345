//! Benchmarks of the hot paths of a long session.

use divan::Bencher;
use divan::counter::BytesCount;
use parallax_gemini::{parse_chunk, request_body};
use parallax_model_http::SseDecoder;
use parallax_models::ModelTable;
use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Request, ToolSet};

fn main() {
    divan::main();
}

fn event(text: &str) -> Vec<u8> {
    format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}],\"role\":\"model\"}},\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":12345,\"totalTokenCount\":12400}},\"modelVersion\":\"gemini-3-pro-preview\"}}\r\n\r\n"
    )
    .into_bytes()
}

fn decode(packets: &[&[u8]], parse: bool) -> usize {
    let mut decoder = SseDecoder::default();
    let mut count = 0;
    for packet in packets {
        let pushed = decoder.push(packet, |data| {
            count +=
                if parse { parse_chunk(&data).map_or(0, |chunk| chunk.parts.len()) } else { 1 };
        });
        divan::black_box(pushed.is_ok());
    }
    count
}

#[divan::bench]
fn ten_thousand_chunks(bencher: Bencher<'_, '_>) {
    let event = event("some words of an answer, as they come");
    let packets = vec![event.as_slice(); 10_000];
    bencher.bench_local(|| decode(&packets, true));
}

#[divan::bench]
fn five_megabytes_in_fifty_thousand_packets(bencher: Bencher<'_, '_>) {
    let event = event(&"x".repeat(5 << 20));
    let packets: Vec<&[u8]> = event.chunks(event.len() / 50_000).collect();
    bencher.counter(BytesCount::new(event.len())).bench_local(|| decode(&packets, true));
}

#[divan::bench]
fn request_with_a_thousand_messages(bencher: Bencher<'_, '_>) {
    let content = Content::user(vec![Part::text("some text\n".repeat(100))]).seal();
    let request = Request {
        model: "gemini-3-pro-preview".into(),
        system: "You are an agent.\n".repeat(500).into(),
        contents: vec![content; 1000],
        tools: ToolSet::None,
        generation: Object::new(),
        role: "main".into(),
        alias: String::new(),
        max_attempts: None,
        has_fallback: false,
        is_retry: false,
        continuation: None,
    };
    let table = ModelTable::default();
    let bytes = request_body(&request, &table).len();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| request_body(&request, &table));
}
