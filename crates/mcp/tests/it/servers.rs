//! The behavior of servers and how it is handled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use parallax_mcp::{Status, UserRequest, UserRequestHandler, UserResponse, parse_prompt_line};
use parallax_protocol::BoxFuture;
use parallax_protocol::content::PartView;
use parallax_protocol::event::Level;
use parallax_protocol::tool::{Progress, ToolErrorKind, ToolSource};
use serde_json::json;

use crate::support::World;

#[tokio::test(flavor = "multi_thread")]
async fn every_result_kind_is_returned() {
    let world = World::started("").await;
    let result = world.call("mcp_s_blocks", json!({})).await;
    assert!(result.error.is_none());
    for expected in ["one", "inside", "Resource Link: third at note://3"] {
        assert!(
            result.for_model.output.contains(expected),
            "{expected}: {}",
            result.for_model.output
        );
    }
    assert_eq!(result.for_model.media.len(), 2);
    let result = world.call("mcp_s_structured", json!({})).await;
    assert!(result.for_model.output.contains("{\"answer\":42}"), "{}", result.for_model.output);
    for (tool, words) in [("mcp_s_fail", "it went wrong"), ("mcp_s_error", "no such luck")] {
        let error = world.call(tool, json!({})).await.error.expect("an error");
        assert_eq!(error.kind, ToolErrorKind::McpToolError);
        assert!(
            error.message.contains(words) && error.message.contains("`s`"),
            "{}",
            error.message
        );
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_checked_before_they_are_sent() {
    let world = World::started("").await;
    for args in [json!({}), json!({"text": 1}), json!({"text": "x", "more": 1})] {
        let error = world.call("mcp_s_echo", args).await.error.expect("an error");
        assert_eq!(error.kind, ToolErrorKind::InvalidToolParams);
    }
    let result = world.call("mcp_s_ref", json!({"node": {"next": {}}})).await;
    assert!(result.for_model.output.contains("ref was called"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_lists_are_truncated_and_old_servers_supported() {
    for r#do in ["repeat", "oldest", "noise", "early"] {
        let world = World::started(r#do).await;
        let count = world.names().iter().filter(|name| *name == "mcp_s_echo").count();
        assert_eq!(count, 1, "{do}: declared once");
        let notes = world.servers.status().remove(0).notes;
        assert_eq!(
            notes.iter().any(|note| note.contains("repeats")),
            r#do == "repeat",
            "{notes:?}"
        );
        let skipped = "on stdout are not MCP messages and were skipped (first: \"listening…\")";
        let warning = world.servers.take_warning();
        let is_silent = matches!(r#do, "oldest" | "early");
        assert_eq!(warning.is_some(), !is_silent, "{warning:?}");
        assert_eq!(warning.is_some_and(|it| it.contains(skipped)), r#do == "noise");
        assert_eq!(world.servers.take_warning(), None, "reported once");
        world.end().await;
    }
    let world = World::started("endless").await;
    let warning = world.servers.take_warning().expect("it is reported");
    let expected =
        "`s`: its list of tools was truncated: it has more than 100 pages; 100 of them are used";
    assert!(warning.contains(expected), "{warning}");
    assert_eq!(world.servers.take_warning(), None, "once");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_response_fails_its_call() {
    let world = World::started("garbled").await;
    assert!(world.names().contains(&"mcp_s_echo".to_owned()), "the good tools are there");
    let notes = world.servers.status().remove(0).notes;
    let expected = "1 of its tools are invalid and were omitted (`too_deep`)";
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    assert!(
        world.servers.take_warning().is_some_and(|report| report.contains(expected)),
        "it is reported"
    );
    for how in ["latin1", "half"] {
        let got = world.call("mcp_s_garbled", json!({"how": how})).await;
        assert!(got.for_model.output.contains("caf\u{fffd}"), "{how}: {}", got.for_model.output);
    }
    for (how, reason) in [
        ("deep", "nested too deeply"),
        ("cut", "not valid JSON"),
        ("anonymous", "not valid JSON"),
        ("shape", "neither a result nor an error"),
    ] {
        let started_at = Instant::now();
        let error = world.call("mcp_s_garbled", json!({"how": how})).await.error;
        let error = error.expect("an error").message;
        assert!(error.contains("its response is invalid: it is "), "{how}: {error}");
        assert!(error.contains(reason), "{how}: {error}");
        assert!(started_at.elapsed() < Duration::from_secs(30), "{how}: it is not waited for");
    }
    world.end().await;
}

struct ProgressLines(Mutex<String>);

impl Progress for ProgressLines {
    fn output(&self, text: &str) {
        self.0.lock().expect("no panic").push_str(text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_reported() {
    let world = World::started("").await;
    let lines = Arc::new(ProgressLines(Mutex::default()));
    let report = Arc::clone(&lines) as Arc<dyn Progress>;
    let result = world.call_with("mcp_s_slow", json!({"pause": 0.3}), report).await;
    assert!(result.for_model.output.contains("slow done"));
    let lines = lines.0.lock().expect("no panic").clone();
    assert!(lines.contains("step 2 (50 %)"), "{lines}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_timeout_limits_its_calls() {
    let world = World::start("", 1_500, None, None);
    // The timeout also applies to the start.
    let started_at = Instant::now();
    while world.servers.connect("s").await.is_err() {
        assert!(started_at.elapsed() < Duration::from_secs(60), "it does not start");
    }
    let error = world.call("mcp_s_hang", json!({})).await.error.expect("an error");
    assert!(error.message.contains("no response within 1500 ms"), "{}", error.message);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_receives_the_roots() {
    let world = World::started("roots").await;
    let result = world.call("mcp_s_roots", json!({})).await;
    let folder = world.folder.path().display().to_string();
    assert!(
        result.for_model.output.contains(&format!("file://{folder}")),
        "{}",
        result.for_model.output
    );
    world.end().await;
}

struct ScriptedUser(UserResponse);

impl UserRequestHandler for ScriptedUser {
    fn ask(&self, server: &str, question: UserRequest) -> BoxFuture<'static, UserResponse> {
        assert_eq!(server, "s");
        assert!(
            matches!(question, UserRequest::Form { ref message, .. } if message == "Your name?")
        );
        let answer = self.0.clone();
        Box::pin(async move { answer })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn form_is_answered_only_by_the_user() {
    let name = |name: serde_json::Value| {
        UserResponse::Accept(json!({"name": name}).as_object().cloned().expect("it"))
    };
    for (answer, expected) in [
        (Some(name(json!("Ada"))), "\"action\": \"accept\", \"content\": {\"name\": \"Ada\"}"),
        (Some(name(json!(7))), "\"action\": \"cancel\""),
        (Some(UserResponse::Decline), "\"action\": \"decline\""),
        (None, "\"action\": \"decline\""),
    ] {
        let asker =
            answer.map(|answer| Arc::new(ScriptedUser(answer)) as Arc<dyn UserRequestHandler>);
        let world = World::new("ask", asker);
        world.servers.connect("s").await.expect("connected");
        let result = world.call("mcp_s_ask", json!({})).await;
        assert!(
            result.for_model.output.contains(expected),
            "{expected}: {}",
            result.for_model.output
        );
        world.end().await;
    }
}

/// Records the warnings.
#[derive(Default)]
struct WarningRecorder(Mutex<Vec<String>>);

impl Progress for WarningRecorder {
    fn output(&self, _text: &str) {}

    fn notice(&self, _level: Level, text: &str) {
        self.0.lock().expect("no panic").push(text.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_form_is_reported_to_server_and_user() {
    let world = World::new("ask", Some(Arc::new(ScriptedUser(UserResponse::Decline))));
    world.servers.connect("s").await.expect("connected");
    let warned = Arc::new(WarningRecorder::default());
    let report = Arc::clone(&warned) as Arc<dyn Progress>;
    let got = world.call_with("mcp_s_ask_nested", json!({}), report).await;
    assert!(got.for_model.output.contains("cannot be nested"), "{}", got.for_model.output);
    // The warning and the result take different paths.
    let end = Instant::now() + Duration::from_secs(5);
    while warned.0.lock().expect("no panic").is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let warned = warned.0.lock().expect("no panic").join("|");
    assert!(warned.starts_with("a request from the MCP server `s`"), "{warned}");
    world.end().await;
}

/// Counts all requests and the open ones, and always gives this response.
#[derive(Default)]
struct RequestCounter {
    response: Option<UserResponse>,
    requests: AtomicUsize,
    open: Arc<AtomicUsize>,
}

struct OpenRequest(Arc<AtomicUsize>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl UserRequestHandler for RequestCounter {
    fn ask(&self, _server: &str, _question: UserRequest) -> BoxFuture<'static, UserResponse> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
        let (open, says) = (OpenRequest(Arc::clone(&self.open)), self.response.clone());
        Box::pin(async move {
            let _open = open;
            match says {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_requests_are_sequential_and_only_during_calls() {
    let user = Arc::new(RequestCounter::default());
    let world = World::new("ask", Some(Arc::clone(&user) as Arc<dyn UserRequestHandler>));
    world.servers.connect("s").await.expect("connected");
    let got = world.call("mcp_s_ask_often", json!({})).await;
    assert!(got.error.is_none(), "{:?}", got.error);
    assert_eq!(user.requests.load(Ordering::SeqCst), 1);
    // The call ended, and so did its request: the server is notified.
    let over = || received_messages(&world).iter().any(|it| it["result"]["action"] == "cancel");
    wait_until(over).await;
    assert_eq!(user.open.load(Ordering::SeqCst), 0);
    let declined =
        received_messages(&world).iter().filter(|it| it["result"]["action"] == "decline").count();
    assert_eq!(declined, 19);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_can_disable_further_requests_of_a_server() {
    let user = Arc::new(RequestCounter {
        response: Some(UserResponse::Never),
        ..RequestCounter::default()
    });
    let world = World::new("ask", Some(Arc::clone(&user) as Arc<dyn UserRequestHandler>));
    world.servers.connect("s").await.expect("connected");
    for _ in 0..2 {
        let result = world.call("mcp_s_ask", json!({})).await;
        assert!(result.for_model.output.contains("decline"), "{}", result.for_model.output);
    }
    assert_eq!(user.requests.load(Ordering::SeqCst), 1);
    world.end().await;
}

fn received_messages(world: &World) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(world.folder.path().join("log")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    unreachable!("it never came");
}

#[tokio::test(flavor = "multi_thread")]
async fn crashing_server_is_restarted_with_growing_delay() {
    let world = World::started("").await;
    let started_at = Instant::now();
    for _ in 0..2 {
        assert!(world.call("mcp_s_crash", json!({})).await.error.is_some());
    }
    let result = world.call("mcp_s_echo", json!({"text": "hi"})).await;
    assert!(result.error.is_none(), "{:?}", result.error);
    // A delay of half a second before the second start, and of one second before the third.
    assert!(started_at.elapsed() >= Duration::from_millis(1_300), "{:?}", started_at.elapsed());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_beyond_the_budget_are_found_by_search() {
    let world = World::start_servers("", &json!({}), None, None, Some(100));
    world.servers.connect("s").await.expect("connected");
    let names = world.names();
    assert!(names.contains(&"mcp_search_tools".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("mcp_s_")), "{names:?}");
    let result = world.call("mcp_search_tools", json!({"query": "kinds of block"})).await;
    assert!(result.for_model.output.contains("- mcp_s_blocks: Every kind of block."));
    let found = world.names();
    assert!(found.contains(&"mcp_s_blocks".to_owned()), "{found:?}");
    assert!(world.call("mcp_s_blocks", json!({})).await.error.is_none());
    let result = world.call("mcp_search_tools", json!({"query": "weather"})).await;
    assert!(result.for_model.output.starts_with("No MCP tool"));
    // A tool that the model already knows needs no search.
    world.servers.wait_for_tool("mcp_s_env").await;
    assert!(world.names().contains(&"mcp_s_env".to_owned()));
    assert!(!world.names().contains(&"mcp_s_fail".to_owned()));
    world.end().await;

    let roomy = World::start_servers("", &json!({}), None, None, Some(100_000));
    roomy.servers.connect("s").await.expect("connected");
    assert!(!roomy.names().contains(&"mcp_search_tools".to_owned()));
    assert!(roomy.names().contains(&"mcp_s_fail".to_owned()));
    roomy.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_are_read() {
    let world = World::started("").await;
    let list = world.call("list_mcp_resources", json!({})).await.for_model.output;
    assert!(list.contains("- s:note://1 | first | a note"), "{list}");
    for uri in ["note://1", "s:note://1", "note://77"] {
        let result = world.call("read_mcp_resource", json!({"uri": uri})).await;
        assert!(result.for_model.output.contains("the text of note://"), "{uri}: {result:?}");
    }
    let missing = world.call("read_mcp_resource", json!({"uri": "other://1"})).await;
    assert_eq!(missing.error.expect("an error").kind, ToolErrorKind::McpResourceNotFound);
    let (server, prompt) = world.servers.prompts().remove(0);
    assert_eq!(prompt.command(), "greet-me");
    let values = prompt.fill(&parse_prompt_line("--who=\"Ada L\" warmly")).expect("filled");
    let parts = world.servers.prompt(&server, &prompt.name, &values).await.expect("parts");
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part.view() {
            PartView::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    let output = "User: Greet {\"who\": \"Ada L\", \"how\": \"warmly\"}\n\nAssistant: Gladly.";
    assert_eq!(texts.concat(), output);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stubborn_server_is_terminated_with_the_session() {
    let world = World::started("stubborn").await;
    let started_at = Instant::now();
    let processes = world.processes.clone();
    world.end().await;
    assert!(started_at.elapsed() < Duration::from_secs(4), "{:?}", started_at.elapsed());
    drop(processes);
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_failure_names_the_cause() {
    for (r#do, words) in [("die", "cannot find my configuration"), ("empty", "offers no tools")] {
        let world = World::new(r#do, None);
        let error = world.servers.connect("s").await.expect_err("it fails");
        assert!(error.contains(words), "{error}");
        assert_eq!(world.servers.status().remove(0).status, Status::Disconnected);
        assert!(world.names().is_empty());
        world.end().await;
    }
}
