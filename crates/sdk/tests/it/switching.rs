//! Switching between sessions in one process.

use parallax_protocol::event::FailureKind;
use parallax_sdk::{LaunchOptions, SessionConfig};
use parallax_sessions::SessionChoice;
use parallax_sessions::recorded_items::{self, RecordedItem};

use crate::support::World;

/// Returns the prompts, each with the number of contents before it and its turn.
fn prompts(items: &[RecordedItem]) -> Vec<(String, usize, u64)> {
    let prompt = |item: &RecordedItem| match item {
        RecordedItem::User { text, before, turn, .. } => Some((text.clone(), *before, *turn)),
        _ => None,
    };
    items.iter().filter_map(prompt).collect()
}

#[tokio::test]
async fn one_process_opens_several_sessions_in_sequence() {
    let world = World::new();
    let first = world.send_prompts(SessionChoice::New, &["one", "two"]).await;
    let second = world.send_prompts(SessionChoice::New, &["other"]).await;
    assert_ne!(first, second);

    let (session, _events) = world.open(SessionChoice::Resume(first.clone()));
    assert_eq!(session.id.as_str(), first);
    let items = recorded_items::items(&session.initial_records());
    let texts: Vec<(String, u64)> =
        prompts(&items).into_iter().map(|(text, _, turn)| (text, turn)).collect();
    assert_eq!(texts, [("one".to_owned(), 1), ("two".to_owned(), 2)]);
    assert!(matches!(items.last(), Some(RecordedItem::Text { text, .. }) if text == "the answer"));
    let (recent, skipped) = recorded_items::items_of_recent_prompts(&session.initial_records(), 1);
    assert_eq!((prompts(&recent), skipped), (prompts(&items)[1..].to_vec(), 1));
    session.close().await;

    // The lock was released, so no copy is made.
    world.send_prompts(SessionChoice::Resume(first.clone()), &["three"]).await;
    assert_eq!(world.launch().session_library().sessions().len(), 2);
}

#[tokio::test]
async fn rewind_removes_turns_and_fork_keeps_the_original() {
    let world = World::new();
    let id = world.send_prompts(SessionChoice::New, &["one", "two", "three"]).await;
    let (session, _events) = world.open(SessionChoice::Resume(id.clone()));
    let all = prompts(&recorded_items::items(&session.initial_records()));
    session.close().await;
    let before_two = all[1].1;

    let fork = SessionChoice::Fork { from: id.clone(), keep_contents: Some(before_two) };
    let forked = world.send_prompts(fork, &["else"]).await;
    assert_ne!(forked, id);
    let texts = |id: &str| {
        let entry = world.launch().session_library().session(id).expect("a session");
        let items = world.launch().session_library().preview(&entry, 10).expect("read");
        prompts(&items).into_iter().map(|(text, ..)| text).collect::<Vec<_>>()
    };
    assert_eq!(texts(&forked), ["one", "else"]);
    assert_eq!(texts(&id), ["one", "two", "three"]);

    let rewind = SessionChoice::Rewind { id: id.clone(), keep_contents: before_two };
    assert_eq!(world.send_prompts(rewind, &["again"]).await, id);
    assert_eq!(texts(&id), ["one", "again"]);
    let rewind = SessionChoice::Rewind { id: id.clone(), keep_contents: 0 };
    assert_eq!(world.send_prompts(rewind, &["again"]).await, id);
    assert_eq!(texts(&id), ["again"]);
    let entry = world.launch().session_library().session(&id).expect("a session");
    assert_eq!(world.launch().session_library().message_count(&entry), Some(2));
}

#[tokio::test]
async fn changed_settings_apply_to_the_next_session() {
    let world = World::new();
    let launch = world.launch();
    let user = parallax_sdk::settings::SettingScope::User;
    let value = serde_json::json!("flash");
    launch.settings_manager().set(user, "model.name", Some(&value)).expect("set");
    assert_eq!(launch.model_name(), "auto");
    assert_eq!(launch.reload().expect("read").model_name(), "flash");
    let again = SessionConfig::prepare(launch.options().clone()).expect("prepared");
    assert_eq!(again.model_name(), "flash");
    let gone =
        LaunchOptions { session: SessionChoice::Resume("nothing".into()), ..world.trusted() };
    let failure = SessionConfig::prepare(gone).expect("prepared").open().err().expect("no session");
    assert_eq!(failure.kind, FailureKind::Input);
}
