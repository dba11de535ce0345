//! Vertex AI with application default credentials.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::measure::FinishedProcess;

use crate::support::{World, finish};

pub(crate) const KEY: &str = include_str!("../../../../tests/mcp/service_account_key.pem");

/// A token service that returns a new token for each request.
pub(crate) struct TokenService {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TokenService {
    pub(crate) fn start(seconds: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/token", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut buffer = vec![0; 64 * 1024];
                let mut text = String::new();
                while !text.contains("assertion=") {
                    let length = stream.read(&mut buffer).unwrap_or(0);
                    if length == 0 {
                        break;
                    }
                    text.push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
                let mut requests = all.lock().expect("no panic");
                requests.push(text);
                let token = format!("token-{}", requests.len());
                let body = json!({"access_token": token, "expires_in": seconds}).to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { url, requests }
    }

    fn count(&self) -> usize {
        self.requests.lock().expect("no panic").len()
    }
}

fn run(world: &World, account: &Value, args: &[&str]) -> FinishedProcess {
    let file = world.home.root().join("account.json");
    std::fs::write(&file, account.to_string()).expect("written");
    run_with(world, &file, args)
}

fn run_with(world: &World, file: &Path, args: &[&str]) -> FinishedProcess {
    let mut command = world.command(args);
    command
        .env_remove("GEMINI_API_KEY")
        .env_remove("GOOGLE_GEMINI_BASE_URL")
        .env("GOOGLE_VERTEX_BASE_URL", world.server.url())
        .env("GOOGLE_GENAI_USE_VERTEXAI", "true")
        .env("GOOGLE_CLOUD_PROJECT", "my-project")
        .env("GOOGLE_CLOUD_LOCATION", "europe-west4")
        .env("GOOGLE_APPLICATION_CREDENTIALS", file);
    finish(command)
}

fn account(service: &TokenService) -> Value {
    json!({"type": "service_account", "client_email": "a@my-project", "private_key": KEY,
        "private_key_id": "k", "token_uri": service.url, "quota_project_id": "payer"})
}

#[test]
fn vertex_project_is_used_with_a_token() {
    let service = TokenService::start(3_600);
    let script = json!([{"calls": [{"name": "list_directory", "args": {"dir_path": "."}}]},
        {"text": "done"}]);
    let world = World::new(&script.to_string());
    let output = run(&world, &account(&service), &["-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    let requests = world.server.requests();
    let path = "/v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/";
    assert!(requests[0].path.starts_with(path), "{}", requests[0].path);
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer token-1"));
        assert_eq!(request.header("x-goog-user-project"), Some("payer"));
        assert_eq!(request.header("x-goog-api-key"), None);
    }
    assert_eq!(service.count(), 1);
}

#[test]
fn token_is_replaced_within_a_turn() {
    // The token is replaced five minutes before it expires.
    let service = TokenService::start(1);
    let script = json!([{"calls": [{"name": "list_directory", "args": {"dir_path": "."}}]},
        {"text": "done"}]);
    let world = World::new(&script.to_string());
    let output = run(&world, &account(&service), &["-p", "go"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    let sent: Vec<_> = world
        .server
        .requests()
        .iter()
        .map(|request| request.header("authorization").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(sent, ["Bearer token-1", "Bearer token-2"]);
}

#[test]
fn rejected_token_is_replaced_once() {
    let service = TokenService::start(3_600);
    let rejected =
        json!({"error": {"code": 401, "message": "expired", "status": "UNAUTHENTICATED"}});
    let world = World::new(&json!([rejected, {"text": "done"}]).to_string());
    let output = run(&world, &account(&service), &["-p", "go"]);
    assert_eq!((output.code(), output.stdout().trim()), (0, "done"), "{}", output.err());
    let world = World::new(&json!([rejected, rejected, {"text": "done"}]).to_string());
    let output = run(&world, &account(&service), &["-p", "go"]);
    assert_eq!(output.code(), 41, "{}", output.err());
    assert!(output.err().contains("gcloud auth application-default login"), "{}", output.err());
}

#[test]
fn unusable_credentials_name_the_cause() {
    let world = World::new("[]");
    let missing = run_with(&world, Path::new("/no/such/file.json"), &["-p", "go"]);
    assert_eq!(missing.code(), 41, "{}", missing.err());
    assert!(missing.err().contains("`/no/such/file.json`"), "{}", missing.err());
    let odd = run(&world, &json!({"type": "odd"}), &["-p", "go"]);
    assert_eq!(odd.code(), 41);
    assert!(odd.err().contains("`odd` are not supported"), "{}", odd.err());
    let evil = json!({"type": "service_account", "client_email": "a", "private_key": KEY,
        "token_uri": "http://evil.example/"});
    let evil = run(&world, &evil, &["-p", "go"]);
    assert!(evil.err().contains("without `https`"), "{}", evil.err());
    assert!(!evil.err().contains("PRIVATE KEY"));
}
