//! API keys: finding, verifying, and storing them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use parallax_protocol::event::FailureKind;
use parallax_protocol::secret::Secret;
use parallax_sdk::credential::{Credential, CredentialSource, KeyKind};
use parallax_sdk::{LaunchOptions, ResponseSource, SessionConfig};

use crate::support::World;

/// Serves one request and returns its head.
fn serve(status: &'static str, body: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut sent = vec![0; length];
        reader.read_exact(&mut sent).expect("a body");
        let size = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\
             connection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).expect("sent");
        head
    });
    (address, serving)
}

const BAD_KEY: &str = r#"{"error": {"code": 400, "message": "API key not valid: hunter2hunter2",
    "status": "INVALID_ARGUMENT", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]}}"#;

#[tokio::test]
async fn key_is_verified_with_the_session_service_and_never_shown() {
    let world = World::new();
    let key = Secret::new(" hunter2hunter2\n");
    for (kind, variable, path) in [
        (KeyKind::GeminiApi, "GOOGLE_GEMINI_BASE_URL", "GET /v1beta/models?pageSize=1 "),
        (
            KeyKind::VertexExpress,
            "GOOGLE_VERTEX_BASE_URL",
            "POST /v1beta1/publishers/google/models/gemini-2.5-flash:countTokens ",
        ),
    ] {
        for (status, body, good) in [
            ("200 OK", "{}", Ok(())),
            ("429 Too Many Requests", "{}", Ok(())),
            ("400 Bad Request", BAD_KEY, Err(FailureKind::Auth)),
            ("403 Forbidden", "{}", Err(FailureKind::Auth)),
            ("500 Oops", "{}", Err(FailureKind::Api)),
        ] {
            let (address, serving) = serve(status, body);
            let options =
                LaunchOptions { skip_trust: true, ..world.options(&[(variable, &address)]) };
            let launch = SessionConfig::prepare(options).expect("prepared");
            let checked = launch.provider_manager().check_key(kind, &key).await;
            let head = serving.join().expect("served");
            assert!(head.starts_with(path), "{head}");
            assert!(head.contains("x-goog-api-key: hunter2hunter2\r\n"), "{head}");
            let report = checked.as_ref().map_err(|failure| failure.message.clone());
            assert!(!format!("{report:?}").contains("hunter2"), "{report:?}");
            assert_eq!(checked.map_err(|failure| failure.kind), good, "{status}");
        }
    }
    let options = world.options(&[("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")]);
    let launch =
        SessionConfig::prepare(LaunchOptions { skip_trust: true, ..options }).expect("prepared");
    let failure = launch
        .provider_manager()
        .check_key(KeyKind::GeminiApi, &key)
        .await
        .expect_err("nobody there");
    assert!(failure.kind == FailureKind::Api && failure.message.contains("cannot be reached"));
    let failure = launch.provider_manager().check_key(KeyKind::GeminiApi, &Secret::new(" ")).await;
    assert_eq!(failure.expect_err("no key").kind, FailureKind::Auth);
}

#[test]
fn saved_key_is_used_without_an_environment_key() {
    let world = World::new();
    let with = |variables: &[(&str, &str)]| {
        let options = LaunchOptions { skip_trust: true, ..world.options(variables) };
        SessionConfig::prepare(options).expect("prepared").provider_manager().credential()
    };
    let found = |method, source| Credential::Found { method, source };
    let (kept, environment) = (CredentialSource::Stored, CredentialSource::Environment);
    assert!(matches!(with(&[]), Credential::Missing { .. }));
    let launch = world.launch();
    launch.provider_manager().store_key(KeyKind::GeminiApi, &Secret::new("k")).expect("stored");
    assert_eq!(with(&[]), found("gemini-api-key", kept));
    assert_eq!(with(&[("GEMINI_API_KEY", "e")]), found("gemini-api-key", environment));
    // A gateway receives the stored key as well.
    assert_eq!(with(&[("GOOGLE_GEMINI_BASE_URL", "http://x")]), found("gemini-api-key", kept));
    // The stored key is not used for Vertex AI.
    let vertex = [("GOOGLE_GENAI_USE_VERTEXAI", "true")];
    assert!(matches!(with(&vertex), Credential::Missing { .. }));
    launch.provider_manager().store_key(KeyKind::VertexExpress, &Secret::new("k")).expect("stored");
    assert_eq!(with(&[]), found("vertex-ai", kept));
    assert_eq!(with(&vertex), found("vertex-ai", kept));
    // The other key is still there.
    let manager = launch.provider_manager();
    assert!(manager.forget_key(Some(KeyKind::VertexExpress)).expect("forgotten"));
    assert!(!manager.forget_key(Some(KeyKind::VertexExpress)).expect("nothing left"));
    assert_eq!(with(&[]), found("gemini-api-key", kept));
    assert!(manager.forget_key(None).expect("forgotten"));
    assert!(matches!(with(&[]), Credential::Missing { .. }));
    let scripted = LaunchOptions { answers: ResponseSource::Fake("x".into()), ..world.trusted() };
    let scripted = SessionConfig::prepare(scripted).expect("prepared");
    assert_eq!(scripted.provider_manager().credential(), Credential::NotNeeded);
}

#[tokio::test]
async fn tools_cannot_read_the_saved_key_even_in_the_home_directory() {
    let world = World::new();
    world
        .launch()
        .provider_manager()
        .store_key(KeyKind::GeminiApi, &Secret::new("hunter2"))
        .expect("stored");
    world.write("home/.parallax/notes.txt", "hello");
    let home = world.root.join("home");
    let options = LaunchOptions { directory: home, ..world.trusted() };
    let launch = SessionConfig::prepare(options).expect("prepared");
    let (session, _events) = launch.open().expect("opened");
    let expand = |text: &str| session.expander.prompt(text.to_owned()).expect("expanded");
    assert!(expand("@.parallax/notes.txt").attachments.len() > 1);
    assert!(expand("@.parallax/credentials.json").attachments.is_empty());
    assert!(!format!("{:?}", expand("@.parallax/**").attachments).contains("hunter2"));
    session.close().await;
}
