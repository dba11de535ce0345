use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::{ModelServer, Options, Script};

/// Sends one request on its own connection and returns the whole response.
fn post(url: &str, method: &str, body: &str) -> String {
    let path = format!("/v1beta/models/m:{method}?alt=sse");
    exchange(url, &path, body).unwrap_or_else(|error| format!("ERROR {:?}", error.kind()))
}

fn exchange(url: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://"))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nx-goog-api-key: secret-key\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    Ok(String::from_utf8_lossy(&all).into_owned())
}

async fn ask(server: &ModelServer, method: &'static str, body: &str) -> String {
    let (url, body) = (server.url(), body.to_owned());
    tokio::task::spawn_blocking(move || post(&url, method, &body))
        .await
        .unwrap_or_else(|error| error.to_string())
}

const STREAM: &str = "streamGenerateContent";

fn prompt(contents: &str) -> String {
    format!(r#"{{"contents":[{contents}]}}"#)
}

const HELLO: &str = r#"{"role":"user","parts":[{"text":"hello"}]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn replies_come_in_order_and_as_scripted() {
    let server = ModelServer::start_script(
        r#"[{"text":"one"},
            {"chunks":[{"text":"a"},{"raw":"data: x\n\n"}],"eol":"lf","done":true},
            {"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"},"headers":{"retry-after":"1"}},
            {"method":"generateContent","text":"whole"}]"#,
    )
    .await
    .expect("server");
    let one = ask(&server, STREAM, &prompt(HELLO)).await;
    assert!(one.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"), "{one}");
    assert!(one.contains(r#"[{"text":"one"}]"#) && one.contains("usageMetadata"), "{one}");
    assert!(one.ends_with("\r\n\r\n\r\n0\r\n\r\n"), "{one}");
    let two = ask(&server, STREAM, &prompt(HELLO)).await;
    assert!(two.contains("data: x\n\n") && two.contains("data: [DONE]\n\n"), "{two}");
    let three = ask(&server, STREAM, &prompt(HELLO)).await;
    assert!(three.starts_with("HTTP/1.1 429") && three.contains("retry-after: 1"), "{three}");
    let four = ask(&server, "generateContent", &prompt(HELLO)).await;
    assert!(four.contains("whole") && four.contains("content-length"), "{four}");
    assert!(ask(&server, "countTokens", &prompt(HELLO)).await.contains("totalTokens"));
    server.assert_clean();
    assert!(ask(&server, STREAM, &prompt(HELLO)).await.starts_with("HTTP/1.1 400"));
    assert_eq!(server.violations().len(), 1, "an exhausted script is reported");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn gates_cuts_and_matches_are_applied() {
    let server = ModelServer::start_script(
        r#"[{"match":{"promptContains":"second"},"text":"matched"},
            {"chunks":[{"text":"a"},{"gate":"g"},{"cut":"mid_chunk"}]},
            {"chunks":[{"cut":true}]}]"#,
    )
    .await
    .expect("server");
    let body = prompt(HELLO);
    let client = ask(&server, STREAM, &body);
    let (cut, ()) = tokio::join!(client, async {
        server.wait_at_gate("g").await;
        server.open_gate("g");
    });
    assert!(cut.contains("\"a\"") && cut.ends_with("400\r\ndata: {\"candi"), "{cut}");
    let reset = ask(&server, STREAM, &prompt(HELLO)).await;
    assert_eq!(reset, "ERROR ConnectionReset");
    let matched = ask(&server, STREAM, &prompt(&HELLO.replace("hello", "my second"))).await;
    assert!(matched.contains("matched"));
    assert_eq!(server.unused_replies(), 0);
    server.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn invalid_conversations_are_reported() {
    let call = r#"{"functionCall":{"name":"read","args":{"p":1.0}},"thoughtSignature":"c2ln"}"#;
    let answer = format!(r#"{{"role":"model","parts":[{call}]}}"#);
    let result = r#"{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"x"}}}]}"#;
    let good = format!("{HELLO},{answer},{result}");
    let script =
        format!(r#"[{{"chunks":[{{"parts":[{call}]}},{{"finish":"STOP"}}]}},{{"text":"done"}}]"#);
    for (second, problem) in [
        (good.clone(), ""),
        (good.replace("hello\"}", "hello\" }"), "structure only"),
        (good.replace("c2ln", "xxxx"), "came back as"),
        (
            good.replace(r#""name":"read","response""#, r#""name":"write","response""#),
            "answered by",
        ),
        (format!("{HELLO},{answer}"), "end with user"),
        (format!("{HELLO},{answer},{}", HELLO), "answered by []"),
        (good.replace("\"x\"", "\"secret-key\""), "API key"),
        (format!("{HELLO},{}", HELLO.replace("hello", "again")), "same role"),
    ] {
        let server = ModelServer::start_script(&script).await.expect("server");
        ask(&server, STREAM, &prompt(HELLO)).await;
        ask(&server, STREAM, &prompt(&second)).await;
        let found = server.violations().join("\n");
        if problem.is_empty() || problem == "structure only" {
            // A different first content starts another conversation.
            assert_eq!(found, "");
        } else {
            assert!(found.contains(problem), "{problem}: {found}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn changed_prefix_is_rejected_after_a_nonempty_answer() {
    let script = r#"[{"text":"one"},{"text":""},{"text":"two"},{"text":"three"}]"#;
    let server = ModelServer::start_script(script).await.expect("server");
    let one = format!(r#"{HELLO},{{"role":"model","parts":[{{"text":"one"}}]}}"#);
    let next = r#"{"role":"user","parts":[{"text":"next"}]}"#;
    let nudged = r#"{"role":"user","parts":[{"text":"next"},{"text":"[answer]"}]}"#;
    let two = r#"{"role":"model","parts":[{"text":"two"}]}"#;
    ask(&server, STREAM, &prompt(HELLO)).await;
    ask(&server, STREAM, &prompt(&format!("{one},{next}"))).await;
    ask(&server, STREAM, &prompt(&format!("{one},{nudged}"))).await;
    ask(&server, STREAM, &prompt(&format!("{one},{next},{two},{next}"))).await;
    server.assert_clean();
    let changed = next.replace("next", "other");
    ask(&server, STREAM, &prompt(&format!("{one},{changed},{two},{next}"))).await;
    assert!(server.violations().join("\n").contains("content 2 is not what was sent before"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn fifty_thousand_chunks_are_served_quickly() {
    let script = Script::parse(r#"[{"generate":{"chunks":50000,"bytes":1000000}}]"#);
    let options = Options { strict: true, ..Options::default() };
    let server = ModelServer::start_with(script.expect("script"), options).await.expect("server");
    let start = std::time::Instant::now();
    let all = ask(&server, STREAM, &prompt(HELLO)).await;
    assert_eq!(all.matches("data: ").count(), 50_000);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    server.assert_clean();
}
