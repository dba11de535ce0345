//! Streams that succeed, in all their variants.

use std::time::Duration;

use futures_util::StreamExt;
use parallax_protocol::CancellationToken;
use parallax_protocol::model::{Model, ModelError, StreamEvent};

use crate::server::*;

#[tokio::test]
async fn chunks_arrive_while_the_stream_is_open() {
    let mut answer = head();
    answer.push(data(&text_chunk("a")));
    answer.push(ResponsePiece::Hang);
    let mut server = Server::start(vec![answer]).await;
    let cancel = CancellationToken::new();
    let mut options = options(&server.base);
    options.transport.idle_timeout = Duration::from_secs(60);
    let model = parallax_gemini::Gemini::new(options).expect("a model");
    let mut stream = model.stream(request(), cancel.clone());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Chunk(_)))));
    // Cancelling ends the stream at once and frees the connection.
    cancel.cancel();
    assert!(matches!(stream.next().await, Some(Err(ModelError::Cancelled))));
    assert!(stream.next().await.is_none());
    tokio::time::timeout(Duration::from_secs(1), server.closed_connections.recv())
        .await
        .expect("closed");
}

#[tokio::test]
async fn characters_split_across_packets_are_joined() {
    let event = format!("data: {}\n\n", last_chunk("grüße 😀"));
    let bytes = event.as_bytes();
    let mut answer = head();
    for byte in bytes {
        answer.push(ResponsePiece::Bytes([b"1\r\n".as_slice(), &[*byte], b"\r\n"].concat()));
    }
    answer.push(ResponsePiece::Bytes(b"0\r\n\r\n".to_vec()));
    let (received, _) = serve(vec![answer]).await;
    assert!(received.end.is_ok());
    assert_eq!(received.text, "grüße 😀");
}

#[tokio::test]
async fn json_array_and_missing_last_line_are_accepted() {
    let array = format!("[{},\n{}]", text_chunk("a"), last_chunk("b"));
    let cut_end = format!("data: {}\n\ndata: {}", text_chunk("c"), last_chunk("d"));
    let (received, server) = serve(vec![with_length(200, "", &array)]).await;
    assert_eq!((received.text.as_str(), received.end.is_ok()), ("ab", true));
    assert_eq!(server.requests().len(), 1);
    let (received, _) = serve(vec![with_length(200, "", &cut_end)]).await;
    assert_eq!((received.text.as_str(), received.end.is_ok()), ("cd", true));
}

#[tokio::test]
async fn empty_answer_is_an_empty_stream() {
    let (received, server) = serve(vec![with_length(200, "", "")]).await;
    assert!(received.end.is_ok() && received.text.is_empty() && received.retries.is_empty());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn non_streaming_response_joins_text_and_keeps_signatures() {
    let body = r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"},{"text":"","thoughtSignature":"c2ln"}]},
        "finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"]}}],"usageMetadata":{"totalTokenCount":9}}"#;
    let server = Server::start(vec![with_length(200, "", body)]).await;
    let answer =
        gemini(&server).generate(request(), CancellationToken::new()).await.expect("an answer");
    assert_eq!(
        serde_json::to_string(&answer.parts).expect("json"),
        r#"[{"text":"ab"},{"text":"","thoughtSignature":"c2ln"}]"#
    );
    assert!(answer.metadata.grounding.is_some());
    assert_eq!(answer.metadata.usage.map(|usage| usage.total), Some(9));
    let requests = server.requests();
    assert!(
        requests[0]
            .head
            .starts_with("POST /v1beta/models/gemini-3-flash-preview:generateContent HTTP/1.1")
    );
}

#[tokio::test]
async fn missing_utility_model_is_replaced_and_remembered() {
    let missing = || with_length(404, "", r#"{"error":{"code":404,"message":"no such model"}}"#);
    let server = Server::start(vec![
        missing(),
        with_length(200, "", &last_chunk("a")),
        with_length(200, "", &last_chunk("b")),
    ])
    .await;
    let model = gemini(&server);
    for want in ["a", "b"] {
        let mut request = request();
        request.role = "web_search".into();
        request.model = model.catalog().utility("web_search", "gemini-3-pro-preview");
        let answer = model.generate(request, CancellationToken::new()).await.expect("an answer");
        assert_eq!(answer.text(), want);
    }
    let models: Vec<_> = server
        .requests()
        .iter()
        .map(|requests| requests.head.contains("gemini-3.8-flash:"))
        .collect();
    assert_eq!(models, [true, false, false]);
}
