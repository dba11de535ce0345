//! Measures loading a 50 MB journal (target: under 300 ms) and listing 300 sessions.

use std::path::PathBuf;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::store::{
    ContentRecord, JournalHeader, Record, ResultRecord, StepRecord, Store as _,
};
use parallax_store::{Journal, Keys, SessionDirs, list, load};
use serde_json::value::RawValue;

fn main() {
    divan::main();
}

fn head(id: &str) -> JournalHeader {
    JournalHeader {
        version: 1,
        session_id: id.into(),
        project: "/project".into(),
        start_time: "2026-11-22T02:00:00.000Z".into(),
        forked_from: None,
        one_shot: false,
    }
}

fn content(content: Content) -> Record {
    Record::Content(ContentRecord {
        opaque: Vec::new(),
        time: "2026-11-22T02:00:00.000Z".into(),
        wire: content.seal(),
        display: None,
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

fn fill(journal: &Journal, rounds: usize, output: usize) {
    let _ = journal.append(&content(Content::user(vec![Part::text("find the bug")])));
    let text = "    let x = \\\"naïve\\\"; // line\\n".repeat(output / 28);
    for _ in 0..rounds {
        let call = Part::function_call(None, "read_file", serde_json::Map::new());
        let _ = journal.append(&content(Content::model(vec![call])));
        let wire = format!(
            r#"[{{"functionResponse":{{"name":"read_file","response":{{"output":"{text}"}}}}}}]"#
        );
        let Ok(wire) = RawValue::from_string(wire) else { return };
        let _ = journal.append(&Record::Result(ResultRecord {
            time: "2026-11-22T02:00:00.000Z".into(),
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
    }
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn load_50_mb(bencher: divan::Bencher<'_, '_>) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("s.jsonl");
    fill(&Journal::create(&path, head("s")), 2500, 20_000);
    bencher.bench(|| load(&path, &Keys::default()).map(|session| session.contents.len()));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn list_300_sessions(bencher: divan::Bencher<'_, '_>) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let dirs = SessionDirs::new(folder.path().join("p"), folder.path().join("g"));
    let project = PathBuf::from("/project");
    for number in 0..300 {
        let id = format!("s{number}");
        let path = dirs.journal(&project, &id.as_str().into());
        fill(&Journal::create(path, head(&id)), 20, 20_000);
    }
    bencher.bench(|| list(&dirs, &project).len());
}
