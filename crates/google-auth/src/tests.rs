//! Tests of credentials with local services.

use std::collections::VecDeque;
use std::sync::Mutex as Lock;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A key created for this test.
const KEY: &str = include_str!("../../../tests/mcp/service_account_key.pem");

/// Answers requests in order, and records them.
struct Service {
    base: String,
    asked: Arc<Lock<Vec<String>>>,
}

impl Service {
    async fn start(answers: &[(u16, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Lock::new(Vec::new()));
        let (kept, mut answers) = (Arc::clone(&requests), VecDeque::from(answers.to_vec()));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (mut text, mut buffer) = (String::new(), [0; 8192]);
                while !is_complete(&text) {
                    let length = stream.read(&mut buffer).await.unwrap_or(0);
                    if length == 0 {
                        break;
                    }
                    text.push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
                kept.lock().expect("no panic").push(text);
                let (status, body) = answers.pop_front().unwrap_or((500, json!({})));
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await.expect("sent");
            }
        });
        Self { base, asked: requests }
    }

    fn requests(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }

    fn places(&self) -> TokenServices {
        TokenServices {
            token: format!("{}/token", self.base),
            sts: format!("{}/sts", self.base),
            iam: self.base.clone(),
        }
    }
}

fn is_complete(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    body.len() >= length.unwrap_or(0)
}

fn google(service: &Service, purpose: TokenPurpose, variables: &[(&str, String)]) -> TokenSource {
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| ((*name).into(), value.into())).collect();
    TokenSource::with_services(purpose, &variables, service.places(), &ClientOptions::default())
}

fn file(directory: &tempfile::TempDir, value: &Value) -> String {
    let path = directory.path().join("adc.json");
    std::fs::write(&path, value.to_string()).expect("written");
    path.display().to_string()
}

fn scopes() -> TokenPurpose {
    TokenPurpose::Access(vec!["scope-a".to_owned(), "scope-b".to_owned()])
}

fn user() -> Value {
    json!({"type": "authorized_user", "client_id": "id", "client_secret": "sec&ret",
        "refresh_token": "1//r", "quota_project_id": "payer"})
}

#[tokio::test]
async fn token_of_a_user_is_fetched_once_and_replaced_before_it_expires() {
    let answers = [
        (200, json!({"access_token": "short", "expires_in": 200})),
        (200, json!({"access_token": "long", "expires_in": 3599})),
    ];
    let service = Service::start(&answers).await;
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join(".config/gcloud");
    std::fs::create_dir_all(&directory).expect("a directory");
    let usual = directory.join("application_default_credentials.json");
    std::fs::write(usual, user().to_string()).expect("written");
    let google = google(&service, scopes(), &[("HOME", home.path().display().to_string())]);
    assert_eq!(google.quota_project().await.as_deref(), Some("payer"));
    for expected in ["short", "long", "long"] {
        assert_eq!(google.token().await.as_deref(), Ok(expected));
    }
    let requests = service.requests();
    assert_eq!(requests.len(), 2);
    let form =
        "grant_type=refresh_token&client_id=id&client_secret=sec%26ret&refresh_token=1%2F%2Fr";
    assert!(requests[0].ends_with(form), "{}", requests[0]);
}

#[tokio::test]
async fn service_account_signs_an_assertion() {
    let service = Service::start(&[(200, json!({"access_token": "a", "expires_in": 3599}))]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let account = json!({"type": "service_account", "client_email": "a@p", "private_key": KEY,
        "private_key_id": "k1", "token_uri": format!("{}/other", service.base)});
    let named = file(&directory, &account);
    let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    assert_eq!(google.token().await.as_deref(), Ok("a"));
    let request = service.requests().remove(0);
    assert!(request.starts_with("POST /other "), "{request}");
    let (_, assertion) = request.split_once("assertion=").expect("an assertion");
    let parts: Vec<&str> = assertion.trim().split('.').collect();
    let claims: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).expect("base64")).expect("JSON");
    assert_eq!((&claims["iss"], &claims["scope"]), (&json!("a@p"), &json!("scope-a scope-b")));
    assert_eq!(
        claims["exp"].as_u64().expect("a time") - claims["iat"].as_u64().expect("a time"),
        3_600
    );
    assert_eq!(URL_SAFE_NO_PAD.decode(parts[2]).expect("base64").len(), 256);
}

#[tokio::test]
async fn identity_of_another_account_is_requested() {
    let claims = URL_SAFE_NO_PAD.encode(json!({"exp": credentials::now() + 3_600}).to_string());
    let identity = format!("e30.{claims}.sig");
    let answers = [
        (200, json!({"access_token": "acting", "expires_in": 3599})),
        (200, json!({"token": identity})),
    ];
    let service = Service::start(&answers).await;
    let directory = tempfile::tempdir().expect("a directory");
    let named = file(&directory, &user());
    let purpose = TokenPurpose::Identity { audience: "aud".into(), account: "sa@p.example".into() };
    let google = google(&service, purpose, &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    for _ in 0..2 {
        assert_eq!(google.token().await, Ok(identity.clone()));
    }
    let requests = service.requests();
    assert_eq!(requests.len(), 2);
    let path = "POST /v1/projects/-/serviceAccounts/sa%40p.example:generateIdToken ";
    assert!(requests[1].starts_with(path), "{}", requests[1]);
    assert!(requests[1].to_lowercase().contains("authorization: bearer acting"), "{}", requests[1]);
    assert!(requests[1].ends_with(r#"{"audience":"aud","includeEmail":true}"#), "{}", requests[1]);
}

#[tokio::test]
async fn metadata_server_provides_a_token() {
    let service = Service::start(&[(200, json!({"access_token": "m", "expires_in": 3599}))]).await;
    let host = service.base.trim_start_matches("http://").to_owned();
    let google = google(&service, scopes(), &[("GCE_METADATA_HOST", host)]);
    assert_eq!(google.token().await.as_deref(), Ok("m"));
    let request = service.requests().remove(0);
    assert!(request.contains("/default/token?scopes=scope-a%2Cscope-b "), "{request}");
    assert!(request.to_lowercase().contains("metadata-flavor: google"), "{request}");
}

#[tokio::test]
async fn project_comes_from_the_file_or_the_metadata_server() {
    let service = Service::start(&[(200, json!(4711))]).await;
    let directory = tempfile::tempdir().expect("a directory");
    for (credentials, project) in [
        (json!({"type": "service_account", "project_id": "own", "quota_project_id": "x"}), "own"),
        (user(), "payer"),
    ] {
        let named = file(&directory, &credentials);
        let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
        assert_eq!(google.project().await.as_deref(), Some(project));
    }
    let host = service.base.trim_start_matches("http://").to_owned();
    let google = google(&service, scopes(), &[("GCE_METADATA_HOST", host)]);
    assert_eq!(google.project().await.as_deref(), Some("4711"));
    assert!(service.requests()[0].starts_with("GET /computeMetadata/v1/project/project-id "));
}

#[tokio::test]
async fn unavailable_service_is_retried() {
    let token = json!({"access_token": "ya29.a", "expires_in": 3600});
    let service = Service::start(&[(503, json!({})), (429, json!({})), (200, token)]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let named = file(&directory, &user());
    let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    assert_eq!(google.token().await.expect("a token"), "ya29.a");
    assert_eq!(service.requests().len(), 3);
}

#[tokio::test]
async fn errors_name_the_cause_without_secrets() {
    let refusal =
        json!({"error": "invalid_grant", "error_description": "Token 1//r has been revoked."});
    let service = Service::start(&[(400, refusal)]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let reason = async |value: &Value| {
        let named = file(&directory, value);
        let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
        google.token().await.expect_err("nothing").to_string()
    };
    let revoked = reason(&user()).await;
    assert!(revoked.contains("Token [secret] has been revoked."), "{revoked}");
    let unknown = reason(&json!({"type": "odd"})).await;
    assert!(unknown.contains("type `odd` are not supported"), "{unknown}");
    let evil = json!({"type": "service_account", "client_email": "a", "private_key": KEY,
        "token_uri": "http://evil.example/"});
    assert!(reason(&evil).await.contains("without `https`"));
    let missing = [("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file".to_owned())];
    let missing = google(&service, scopes(), &missing).token().await.expect_err("nothing");
    assert!(
        missing
            .to_string()
            .contains("`/no/such/file` in `GOOGLE_APPLICATION_CREDENTIALS` does not exist"),
        "{missing}"
    );
    let nowhere = [("GCE_METADATA_HOST", "127.0.0.1:9".to_owned())];
    let nowhere = google(&service, scopes(), &nowhere).token().await.expect_err("nothing");
    assert!(nowhere.to_string().contains("gcloud auth application-default login"), "{nowhere}");
}

#[tokio::test]
async fn external_account_exchanges_its_subject_token() {
    let answers = [
        (200, json!({"sub": {"token": 7}, "id": "from-url"})),
        (200, json!({"access_token": "exchanged", "expires_in": 3599})),
        (200, json!({"accessToken": "impersonated"})),
    ];
    let service = Service::start(&answers).await;
    let directory = tempfile::tempdir().expect("a directory");
    let account = json!({"type": "external_account", "audience": "//iam/pool",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": format!("{}/sts", service.base),
        "service_account_impersonation_url": format!("{}/impersonate", service.base),
        "credential_source": {"url": format!("{}/subject", service.base),
            "headers": {"X-Identity": "me"},
            "format": {"type": "json", "subject_token_field_name": "id"}}});
    let named = file(&directory, &account);
    let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    assert_eq!(google.token().await.as_deref(), Ok("impersonated"));
    let requests = service.requests();
    assert!(requests[0].starts_with("GET /subject ") && requests[0].contains("x-identity: me"));
    assert!(requests[1].contains("subject_token=from-url"), "{}", requests[1]);
    assert!(
        requests[2].to_lowercase().contains("authorization: bearer exchanged"),
        "{}",
        requests[2]
    );
    let subject = directory.path().join("subject");
    std::fs::write(&subject, " from-file\n").expect("written");
    let service = Service::start(&[(200, json!({"access_token": "direct"}))]).await;
    let account = json!({"type": "external_account", "audience": "a", "subject_token_type": "t",
        "token_url": format!("{}/sts", service.base), "credential_source": {"file": subject}});
    let named = file(&directory, &account);
    let google =
        super::tests::google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    assert_eq!(google.token().await.as_deref(), Ok("direct"));
    assert!(service.requests()[0].contains("subject_token=from-file"));
    assert!(!service.requests()[0].contains("options="));
}

#[tokio::test]
async fn workforce_pool_sends_its_project_and_impersonation_its_lifetime() {
    let answers = [
        (200, json!({"access_token": "exchanged"})),
        (200, json!({"accessToken": "impersonated"})),
    ];
    let service = Service::start(&answers).await;
    let directory = tempfile::tempdir().expect("a directory");
    let subject = directory.path().join("subject");
    std::fs::write(&subject, "user").expect("written");
    let account = json!({"type": "external_account", "subject_token_type": "t",
        "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/x",
        "workforce_pool_user_project": "my-project",
        "token_url": format!("{}/sts", service.base), "credential_source": {"file": subject},
        "service_account_impersonation_url": format!("{}/impersonate", service.base),
        "service_account_impersonation": {"token_lifetime_seconds": 600}});
    let named = file(&directory, &account);
    let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    assert_eq!(google.token().await.as_deref(), Ok("impersonated"));
    let requests = service.requests();
    let options = "options=%7B%22userProject%22%3A%22my-project%22%7D";
    assert!(requests[0].contains(options), "{}", requests[0]);
    assert!(requests[1].contains("\"lifetime\":\"600s\""), "{}", requests[1]);
}

#[tokio::test]
async fn rejected_token_is_fetched_again() {
    let answers = [
        (200, json!({"access_token": "one", "expires_in": 3599})),
        (200, json!({"access_token": "two", "expires_in": 3599})),
    ];
    let service = Service::start(&answers).await;
    let directory = tempfile::tempdir().expect("a directory");
    let named = file(&directory, &user());
    let google = google(&service, scopes(), &[("GOOGLE_APPLICATION_CREDENTIALS", named)]);
    assert_eq!(google.token().await.as_deref(), Ok("one"));
    google.reject("one").await;
    google.reject("one").await;
    assert_eq!(google.token().await.as_deref(), Ok("two"));
}
