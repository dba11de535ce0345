//! Session lists, saved conversations, and the input history.

use parallax_protocol::ids::SessionId;
use parallax_sessions::SessionOrigin;
use parallax_sessions::search::{MARKS, SearchRequest};
use parallax_sessions::{SessionChoice, recorded_items};

use crate::support::World;

#[tokio::test]
async fn sessions_are_counted_searched_and_deleted() {
    let world = World::new();
    let one = world.send_prompts(SessionChoice::New, &["fix the Parser", "thanks"]).await;
    let two = world.send_prompts(SessionChoice::New, &["write a \"poem\""]).await;
    let launch = world.launch();
    let entries = launch.session_library().sessions();
    let counts: Vec<_> =
        entries.iter().map(|entry| launch.session_library().message_count(entry)).collect();
    assert_eq!(counts, [Some(4), Some(2)]);
    let search = |text: &str, stop: bool| {
        let search =
            SearchRequest { text: text.to_owned(), project_only: true, limit: 10, rebuild: false };
        let hits =
            launch.session_library().search_sessions(&search, &|_| !stop).expect("searched").hits;
        hits.into_iter().map(|hit| (hit.id, hit.snippet.replace(MARKS, "|"))).collect::<Vec<_>>()
    };
    assert_eq!(search("the answer", true), [], "it was stopped before it had read anything");
    assert_eq!(
        search("parser", false),
        [(one.clone(), "fix the |Parser|".to_owned())]
            .map(|(id, text)| (id, format!("{text} the answer")))
    );
    assert_eq!(search("a \"POEM", false)[0].0, two);
    assert_eq!(search("the answer", false).len(), 2);
    assert_eq!(search("nowhere", false), []);
    launch.session_library().delete_session(&one).expect("deleted");
    assert_eq!(
        launch.session_library().sessions().iter().map(|entry| &entry.id).collect::<Vec<_>>(),
        [&two]
    );
}

#[tokio::test]
async fn conversation_is_saved_under_a_name_and_resumed() {
    let world = World::new();
    let id = SessionId::from(world.send_prompts(SessionChoice::New, &["one"]).await);
    let launch = world.launch();
    let tag = "../my plan/ü";
    let path = launch.session_library().save_chat(&id, tag, false).expect("saved");
    assert!(path.starts_with(world.root.join("home/.parallax/chats")), "{}", path.display());
    let message = launch.session_library().save_chat(&id, tag, false).expect_err("taken").message;
    assert!(message.contains("already"), "{message}");
    world.send_prompts(SessionChoice::Resume(id.to_string()), &["two"]).await;
    let chat = launch.session_library().find_chat(tag).expect("found");
    let (session, _events) = world.open(SessionChoice::Import(chat.path));
    let items = recorded_items::items(&session.initial_records());
    assert_eq!(items.len(), 2, "{items:?}");
    session.close().await;
    launch.session_library().save_chat(&id, tag, true).expect("replaced");

    // Conversations saved by Gemini CLI are listed and cannot be deleted.
    let folder = "home/.gemini/tmp/slug";
    let project = world.project().display().to_string();
    world.write(&format!("{folder}/.project_root"), &project);
    let history = r#"{"history": [{"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "ho"}]}], "authType": "gemini-api-key"}"#;
    world.write(&format!("{folder}/checkpoint-a%20b.json"), history);
    world.write(
        &format!("{folder}/checkpoint-old.json"),
        r#"[{"role": "user", "parts": [{"text": "x"}]}]"#,
    );
    let mut tags: Vec<(String, SessionOrigin)> =
        launch.session_library().chats().into_iter().map(|chat| (chat.tag, chat.origin)).collect();
    tags.sort_by(|one, two| one.0.cmp(&two.0));
    let of = |tag: &str, origin| (tag.to_owned(), origin);
    let expected = [
        of(tag, SessionOrigin::Parallax),
        of("a b", SessionOrigin::GeminiCli),
        of("old", SessionOrigin::GeminiCli),
    ];
    assert_eq!(tags, expected);
    let theirs = launch.session_library().find_chat("a b").expect("found").path;
    let (session, _events) = world.open(SessionChoice::Import(theirs));
    assert_eq!(recorded_items::items(&session.initial_records()).len(), 2);
    session.close().await;
    assert!(launch.session_library().delete_chat("a b").is_err());
    launch.session_library().delete_chat(tag).expect("deleted");
    assert!(!launch.session_library().has_chat(tag) && launch.session_library().has_chat("a b"));
    assert!(launch.session_library().save_chat(&SessionId::from("none"), "x", false).is_err());
}

#[tokio::test]
async fn conversation_is_exported_as_a_document() {
    let world = World::new();
    let id = SessionId::from(world.send_prompts(SessionChoice::New, &["say `it`"]).await);
    let launch = world.launch();
    let file = launch.session_library().share_chat(&id, Some("talk.md")).expect("shared");
    let text = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(text, "## USER\n\nsay `it`\n\n---\n\n## MODEL\n\nthe answer\n\n");
    assert!(
        launch.session_library().share_chat(&id, Some("talk.md")).is_err(),
        "it is there already"
    );
    assert!(launch.session_library().share_chat(&id, Some("talk.txt")).is_err());
    let file = launch.session_library().share_chat(&id, None).expect("shared");
    assert_eq!(file.parent(), Some(world.project().as_path()));
    let contents: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("contents");
    assert_eq!(contents.last().expect("an answer")["parts"][0]["text"], "the answer");
    // The exported format can be imported.
    let (session, _events) = world.open(SessionChoice::Import(file));
    session.close().await;
    let file = launch.session_library().export_session(&id, "whole.json").expect("exported");
    let whole: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file).expect("the file")).expect("a document");
    assert_eq!(whole["sessionId"], id.as_str());
    assert!(whole["messages"].as_array().is_some_and(|messages| messages.len() >= 2));
}

#[test]
fn input_history_includes_gemini_cli_history() {
    let world = World::new();
    let launch = world.launch();
    world.write("home/.gemini/tmp/slug/.project_root", &world.project().display().to_string());
    let logs = r#"[
        {"sessionId": "s", "messageId": 0, "timestamp": "2020-01-01T00:00:00.000Z", "type": "user", "message": "old"},
        {"sessionId": "s", "messageId": 1, "timestamp": "2020-01-02T00:00:00.000Z", "type": "info", "message": "no"},
        {"timestamp": "bad", "type": "user", "message": "no"}, {}]"#;
    world.write("home/.gemini/tmp/slug/logs.json", logs);
    for text in ["one", "two\nlines", "two\nlines", "  ", "three"] {
        launch.session_library().remember_input(text).expect("remembered");
    }
    assert_eq!(launch.session_library().input_history(10), ["old", "one", "two\nlines", "three"]);
    assert_eq!(launch.session_library().input_history(2), ["two\nlines", "three"]);
    assert_eq!(world.read("home/.gemini/tmp/slug/logs.json"), logs);
    world.write("home/.gemini/tmp/slug/logs.json", "{broken");
    assert_eq!(launch.session_library().input_history(10).len(), 3);
}
