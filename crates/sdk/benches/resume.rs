//! Resuming a session of 1,000 turns among 200 others (target: under 100 ms until it accepts
//! prompts and the last turns can be shown).

use std::path::Path;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::store::{
    ContentRecord, JournalHeader, Record, ResultRecord, StepRecord, Store as _,
};
use parallax_sdk::{LaunchOptions, ResponseSource, SessionConfig};
use parallax_sessions::{SessionChoice, recorded_items};
use parallax_store::{Journal, SessionDirs};
use serde_json::value::RawValue;

fn main() {
    divan::main();
}

const TIME: &str = "2026-11-22T02:00:00.000Z";

fn content(content: Content, display: Option<&str>) -> Record {
    Record::Content(ContentRecord {
        opaque: Vec::new(),
        time: TIME.into(),
        wire: content.seal(),
        display: display.map(str::to_owned),
        labeled_text: None,
        model: None,
        usage: None,
        thoughts: Vec::new(),
        turn: None,
        command: None,
        continuation: None,
        partial: false,
        synthetic: false,
    })
}

/// Writes turns with a prompt, a tool call with two kilobytes of output, and an answer.
fn fill(dirs: &SessionDirs, project: &Path, id: &str, turns: usize) {
    let head = JournalHeader {
        version: 1,
        session_id: id.into(),
        project: project.display().to_string(),
        start_time: TIME.into(),
        forked_from: None,
        one_shot: false,
    };
    let journal = Journal::create(dirs.journal(project, &id.into()), head);
    let output = "    let x = \\\"naïve\\\"; // line\\n".repeat(70);
    let answer = "The function reads the file **twice**. ".repeat(30);
    for turn in 0..turns {
        let prompt = format!("what does function {turn} do?");
        let _ = journal.append(&content(Content::user(vec![Part::text(&prompt)]), Some(&prompt)));
        let call = Part::function_call(None, "read_file", serde_json::Map::new());
        let _ = journal.append(&content(Content::model(vec![call]), None));
        let wire = format!(
            r#"[{{"functionResponse":{{"name":"read_file","response":{{"output":"{output}"}}}}}}]"#
        );
        let Ok(wire) = RawValue::from_string(wire) else { return };
        let _ = journal.append(&Record::Result(ResultRecord {
            time: TIME.into(),
            call: "c".into(),
            index: 0,
            name: "read_file".into(),
            wire,
            status: "success".into(),
            display: None,
            details: None,
        }));
        let _ = journal.append(&Record::Round(StepRecord {
            results: 1,
            parts_after_results: None,
            user_texts: None,
        }));
        let _ = journal.append(&content(Content::model(vec![Part::text(&answer)]), None));
    }
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn resume_1000_turns(bencher: divan::Bencher<'_, '_>) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let (home, project) = (folder.path().join("home"), folder.path().join("project"));
    if std::fs::create_dir_all(&project).is_err() {
        return;
    }
    let dirs = SessionDirs::new(home.join(".parallax"), home.join(".gemini"));
    for number in 0..200 {
        fill(&dirs, &project, &format!("other-{number}"), 20);
    }
    fill(&dirs, &project, "long", 1000);
    let options = LaunchOptions {
        directory: project,
        variables: vec![("HOME".into(), home.into_os_string())],
        skip_trust: true,
        interactive: true,
        answers: ResponseSource::Embedded {
            name: "none",
            text: include_str!("../demo/tour.jsonl"),
        },
        session: SessionChoice::Resume("long".to_owned()),
        version: "0.0.0",
        ..LaunchOptions::default()
    };
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return };
    bencher.bench_local(|| {
        runtime.block_on(async {
            let launch = SessionConfig::prepare(options.clone()).ok()?;
            let (session, events) = launch.open().ok()?;
            let shown =
                recorded_items::items_of_recent_prompts(&session.initial_records(), 50).0.len();
            let closing = (session, events);
            closing.0.close().await;
            Some(shown)
        })
    });
}
