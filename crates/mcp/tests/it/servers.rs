//! What servers do, and what comes of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax_mcp::{Answer, Asker, Question, Status, parse_prompt_line};
use parallax_protocol::BoxFuture;
use parallax_protocol::content::PartView;
use parallax_protocol::tool::{Progress, ToolErrorKind};
use serde_json::json;

use crate::support::World;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_result_arrives() {
    let world = World::started("").await;
    let got = world.call("mcp_s_blocks", json!({})).await;
    assert!(got.error.is_none());
    for wanted in ["one", "inside", "Resource Link: third at note://3"] {
        assert!(got.for_model.output.contains(wanted), "{wanted}: {}", got.for_model.output);
    }
    assert_eq!(got.for_model.media.len(), 3);
    let got = world.call("mcp_s_structured", json!({})).await;
    assert!(got.for_model.output.contains("{\"answer\":42}"), "{}", got.for_model.output);
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
    let got = world.call("mcp_s_ref", json!({"node": {"next": {}}})).await;
    assert!(got.for_model.output.contains("ref was called"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_never_end_are_cut_and_old_servers_spoken_to() {
    for r#do in ["repeat", "oldest", "noise"] {
        let world = World::started(r#do).await;
        let count = world.names().iter().filter(|name| *name == "mcp_s_echo").count();
        assert_eq!(count, 1, "{do}: declared once");
        let notes = world.servers.status().remove(0).notes;
        assert_eq!(
            notes.iter().any(|note| note.contains("repeats")),
            r#do == "repeat",
            "{notes:?}"
        );
        world.end().await;
    }
}

struct Lines(Mutex<String>);

impl Progress for Lines {
    fn output(&self, text: &str) {
        self.0.lock().expect("no panic").push_str(text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told() {
    let world = World::started("").await;
    let lines = Arc::new(Lines(Mutex::default()));
    let told = Arc::clone(&lines) as Arc<dyn Progress>;
    let got = world.call_with("mcp_s_slow", json!({}), told).await;
    assert!(got.for_model.output.contains("slow done"));
    let lines = lines.0.lock().expect("no panic").clone();
    assert!(lines.contains("step 2 (50 %)"), "{lines}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_gives_a_call_its_time_anew() {
    let world = World::of("", 600, None, None);
    world.servers.connect("s").await.expect("connected");
    // Longer than the timeout in all, and no pause is as long as it.
    let got = world.call("mcp_s_slow", json!({"steps": 5, "pause": 0.2})).await;
    assert!(got.for_model.output.contains("slow done"), "{got:?}");
    let error = world.call("mcp_s_slow", json!({"steps": 1, "pause": 5})).await.error;
    let error = error.expect("it took too long");
    assert!(
        error.message.contains("600 ms") || error.message.contains("0.6 s"),
        "{}",
        error.message
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_learns_the_folders() {
    let world = World::started("roots").await;
    let got = world.call("mcp_s_roots", json!({})).await;
    let folder = world.folder.path().display().to_string();
    assert!(got.for_model.output.contains(&format!("file://{folder}")), "{}", got.for_model.output);
    world.end().await;
}

struct Person(Answer);

impl Asker for Person {
    fn ask(&self, server: &str, question: Question) -> BoxFuture<'static, Answer> {
        assert_eq!(server, "s");
        assert!(matches!(question, Question::Form { ref message, .. } if message == "Your name?"));
        let answer = self.0.clone();
        Box::pin(async move { answer })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_by_a_person_or_not_at_all() {
    let name = |name: serde_json::Value| {
        Answer::Accept(json!({"name": name}).as_object().cloned().expect("it"))
    };
    for (answer, wanted) in [
        (Some(name(json!("Ada"))), "\"action\": \"accept\", \"content\": {\"name\": \"Ada\"}"),
        (Some(name(json!(7))), "\"action\": \"cancel\""),
        (Some(Answer::Decline), "\"action\": \"decline\""),
        (None, "\"action\": \"decline\""),
    ] {
        let asker = answer.map(|answer| Arc::new(Person(answer)) as Arc<dyn Asker>);
        let world = World::new("ask", asker);
        world.servers.connect("s").await.expect("connected");
        let got = world.call("mcp_s_ask", json!({})).await;
        assert!(got.for_model.output.contains(wanted), "{wanted}: {}", got.for_model.output);
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_are_read() {
    let world = World::started("").await;
    let list = world.call("list_mcp_resources", json!({})).await.for_model.output;
    assert!(list.contains("- s:note://1 | first | a note"), "{list}");
    for uri in ["note://1", "s:note://1", "note://77"] {
        let got = world.call("read_mcp_resource", json!({"uri": uri})).await;
        assert!(got.for_model.output.contains("the text of note://"), "{uri}: {got:?}");
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
    let said = "User: Greet {\"who\": \"Ada L\", \"how\": \"warmly\"}\n\nAssistant: Gladly.";
    assert_eq!(texts.concat(), said);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_server_ends_with_the_session() {
    let world = World::started("stubborn").await;
    let begun = std::time::Instant::now();
    let processes = world.processes.clone();
    world.end().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop(processes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_why() {
    for (r#do, words) in [("die", "cannot find my configuration"), ("empty", "offers no tools")] {
        let world = World::new(r#do, None);
        let error = world.servers.connect("s").await.expect_err("it fails");
        assert!(error.contains(words), "{error}");
        assert_eq!(world.servers.status().remove(0).status, Status::Disconnected);
        assert!(world.names().is_empty());
        world.end().await;
    }
}
