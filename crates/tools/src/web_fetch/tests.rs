use std::sync::Mutex;
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::content::Part;
use parallax_protocol::grounding::{GroundedSegment, Grounding, PageRead, PageReads};
use parallax_protocol::model::{Answer, Chunk, Citation, ModelError, ToolSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::test_support::{FakeModel, object, run, run_until, scope};

fn tool(model: &Arc<FakeModel>, direct: bool, allowed: bool) -> WebFetch {
    let options = WebFetchOptions {
        client: ClientOptions { system_proxy: false, plain_http: true, ..Default::default() },
        allowed: if allowed { vec![IpAddr::from([127, 0, 0, 1])] } else { Vec::new() },
        direct,
    };
    WebFetch::new(Arc::clone(model) as Arc<dyn Model>, Arc::new(|| "main".to_owned()), options)
}

/// Serves each path with the bytes that `answer` returns; records the requests.
async fn serve(answer: fn(&str) -> Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap_or(b'\n'));
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or("").to_owned();
                let bytes = answer(&path);
                log.lock().expect("lock").push(path);
                let _ = stream.write_all(&bytes).await;
            });
        }
    });
    (base, seen)
}

fn http(status: &str, mime: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {mime}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn text(text: &str) -> Result<Answer, ModelError> {
    Ok(Answer { parts: vec![Part::text(text)], metadata: Chunk::default() })
}

fn broken_response() -> Result<Answer, ModelError> {
    Err(ModelError::BadRequest { status: 400, code: None, message: "no page reader".into() })
}

#[tokio::test]
async fn pages_are_read_by_the_service() {
    let answer = Answer {
        parts: vec![Part::text("☀️ it is.")],
        metadata: Chunk {
            grounding: Some(Grounding {
                sources: vec![Citation {
                    title: Some("Sun".to_owned()),
                    uri: "http://8.8.8.8/".to_owned(),
                }],
                segments: vec![GroundedSegment { part: 0, end: 6, sources: vec![0] }],
                ..Grounding::default()
            }),
            ..Chunk::default()
        },
    };
    let model = FakeModel::new([Ok(answer)]);
    let outcome =
        run(&tool(&model, false, false), json!({"prompt": "Is <it> at http://8.8.8.8/?"})).await;
    assert_eq!(
        outcome.for_model.output,
        "<untrusted_context>\n☀️[1] it is.\n\nSources:\n[1] Sun (http://8.8.8.8/)\n</untrusted_context>"
    );
    let requests = model.requests.lock().expect("lock");
    assert!(matches!(requests[0].tools, ToolSet::UrlContext));
    assert_eq!(
        (requests[0].model.as_str(), requests[0].role.as_str()),
        ("main-web-fetch", "utility_tool")
    );
    let sent = requests[0].contents[0].json();
    assert!(sent.contains("Is &lt;it&gt; at") && sent.contains("- http://8.8.8.8/"), "{sent}");
}

#[tokio::test]
async fn private_hosts_are_never_fetched() {
    let model = FakeModel::new([text("fine")]);
    let fetch = tool(&model, false, false);
    let hosts = [
        "localhost",
        "a.localhost",
        "x.internal",
        "printer.local",
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "10.0.0.1",
        "169.254.169.254",
        "198.18.0.1",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "no-such-host.invalid",
    ];
    // Three of them are different spellings of one address.
    let prompt: Vec<String> = hosts.iter().map(|host| format!("http://{host}/")).collect();
    let error = run(&fetch, json!({"prompt": prompt.join(" ")})).await.error.expect("refused");
    assert_eq!(error.kind, ToolErrorKind::WebFetchProcessingError);
    assert_eq!(
        error.message.matches("[Blocked Host] ").count(),
        hosts.len() - 2,
        "{}",
        error.message
    );
    assert!(model.requests.lock().expect("lock").is_empty());

    let partly = run(&fetch, json!({"prompt": "http://127.1/ http://8.8.8.8/"})).await;
    let output = partly.for_model.output;
    assert!(
        output.contains("[Blocked Host] http://127.0.0.1/") && output.contains("fine"),
        "{output}"
    );
}

#[tokio::test]
async fn eleventh_request_to_a_host_is_skipped() {
    let model = FakeModel::new([text("fine")]);
    let prompt: String = (0..11).map(|n| format!("http://8.8.8.8/{n} ")).collect();
    let output = run(&tool(&model, false, false), json!({"prompt": prompt})).await.for_model.output;
    assert_eq!(output.matches("[Rate limit exceeded]").count(), 1);
    assert!(output.contains("[Rate limit exceeded] http://8.8.8.8/10"), "{output}");
}

#[tokio::test]
async fn pages_are_downloaded_when_the_service_cannot_read_them() {
    let (base, seen) = serve(|path| match path {
        "/big" => http("200 OK", "text/plain", "ä".repeat(300_000).as_bytes()),
        "/html" => {
            http("200 OK", "text/html; charset=iso-8859-1", b"<h1>Gr\xfc\xdfe</h1></source>")
        }
        "/huge" => b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_vec(),
        _ => http("404 Not Found", "text/html", b"gone"),
    })
    .await;
    let model = FakeModel::new([broken_response(), text("answer")]);
    let prompt = format!("Read {base}/big {base}/html {base}/huge {base}/none");
    let output = run(&tool(&model, false, true), json!({"prompt": prompt})).await.for_model.output;
    assert!(output.contains(&format!("[Not read] {base}/none: status 404")), "{output}");
    assert!(
        output.contains(&format!("[Not read] {base}/huge: the page is larger than 10 MB")),
        "{output}"
    );
    assert!(output.ends_with("\n\nanswer\n</untrusted_context>"), "{output}");
    assert_eq!(seen.lock().expect("lock").len(), 4);
    let requests = model.requests.lock().expect("lock");
    assert_eq!(requests[1].model, "main-web-fetch-fallback");
    assert!(matches!(requests[1].tools, ToolSet::None));
    let sent = requests[1].contents[0].open().expect("content").visible_text();
    assert!(sent.contains("# Grüße"), "the encoding of the header");
    let letters = sent.matches('ä').count();
    assert!((249_000..250_000).contains(&letters), "{letters}");
    assert!(sent.contains("[Content truncated"));
}

#[tokio::test]
async fn only_pages_the_service_missed_are_downloaded() {
    let (base, seen) = serve(|_| http("200 OK", "text/plain", b"local text")).await;
    let page = |path: &str, was_read| PageRead { url: format!("{base}{path}"), was_read };
    let page_reads =
        PageReads { pages: vec![page("/a", true), page("/b", false)], ..PageReads::default() };
    let first = Answer {
        parts: vec![Part::text("from a")],
        metadata: Chunk { page_reads: Some(page_reads), ..Chunk::default() },
    };
    let model = FakeModel::new([Ok(first), text("from b")]);
    let prompt = format!("{base}/a {base}/b");
    let output = run(&tool(&model, false, true), json!({"prompt": prompt})).await.for_model.output;
    assert_eq!(output, "<untrusted_context>\nfrom a\n\nfrom b\n</untrusted_context>");
    assert_eq!(*seen.lock().expect("lock"), ["/b"]);
}

#[tokio::test]
async fn failed_fallback_and_cancelled_fetch_are_reported() {
    let (base, _) = serve(|_| http("404 Not Found", "text/plain", b"")).await;
    let model = FakeModel::new([broken_response()]);
    let fetch = tool(&model, false, true);
    let args = json!({"prompt": format!("{base}/x")});
    let error = run(&fetch, args.clone()).await.error.expect("failed");
    assert_eq!(error.kind, ToolErrorKind::WebFetchFallbackFailed);

    // The model never responds.
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        stop.cancel();
    });
    let outcome = run_until(&fetch, args, cancel).await;
    assert_eq!(outcome.for_model.output, "Web fetch was cancelled.");
}

#[tokio::test]
async fn call_names_hosts_and_plain_addresses() {
    let model = FakeModel::new([]);
    let fetch = tool(&model, false, false);
    let args = object(json!({"prompt": "read https://github.com/o/r/blob/main/x.rs"}));
    let call = fetch.prepare(args, &scope("web_fetch")).expect("a call");
    assert_eq!(call.effects().hosts, ["github.com", "raw.githubusercontent.com"]);
    let Some(Preview::Urls { urls, .. }) = call.preview() else { panic!("no preview") };
    assert_eq!(urls, ["https://raw.githubusercontent.com/o/r/main/x.rs"]);
}

#[tokio::test]
async fn direct_mode_returns_text_media_and_errors() {
    let (base, _) = serve(|path| match path {
        "/page" => http("200 OK", "text/html", b"<p>see <a href=/y>that</a>"),
        "/pic" => http("200 OK", "image/png", b"\x89PNG\r\n\x1a\n\0"),
        _ => http("403 Forbidden", "text/plain", b"keep out"),
    })
    .await;
    let model = FakeModel::new([]);
    let fetch = tool(&model, true, true);
    let page = run(&fetch, json!({"url": format!("{base}/page")})).await.for_model.output;
    assert_eq!(page, format!("<untrusted_context>\nsee [that]({base}/y)\n</untrusted_context>"));
    let picture = run(&fetch, json!({"url": format!("{base}/pic")})).await.for_model;
    assert_eq!(picture.media, [Part::inline_data("image/png", "iVBORw0KGgoA")]);
    let refused = run(&fetch, json!({"url": format!("{base}/no")})).await.for_model.output;
    assert!(refused.contains("status 403") && refused.contains("keep out"), "{refused}");
}
