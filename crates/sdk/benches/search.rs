//! Searching 5,000 sessions (target: at most 50 ms): opening the index, checking that no file has
//! changed, and the search itself. Building the index is measured separately.

use std::path::Path;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::store::{ContentRecord, JournalHeader, Record, Store as _};
use parallax_sdk::{LaunchOptions, SessionConfig};
use parallax_sessions::search::SearchRequest;
use parallax_store::{Journal, SessionDirs};

const SESSIONS: u64 = 5_000;
const TURNS: u64 = 8;

fn main() {
    divan::main();
}

/// A deterministic random number generator.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn next_below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Returns words with a distribution as in natural language: a few are frequent, most are rare.
    fn text(&mut self, words: u64) -> String {
        let mut text = String::new();
        for _ in 0..words {
            let range = 1 << (1 + self.next_below(14));
            text.push_str(&format!("word{} ", self.next_below(range)));
        }
        text
    }
}

fn content(content: Content, display: Option<String>) -> Record {
    Record::Content(ContentRecord {
        opaque: Vec::new(),
        time: "2026-11-22T02:00:00.000Z".into(),
        wire: content.seal(),
        display,
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

fn fill(home: &Path) {
    let dirs = SessionDirs::new(home.join(".parallax"), home.join(".gemini"));
    let mut numbers = RandomNumbers(0x5eed);
    for number in 0..SESSIONS {
        let id = format!("session-{number}");
        let project = format!("/home/ada/project-{}", number % 50);
        let head = JournalHeader {
            version: 1,
            session_id: id.as_str().into(),
            project: project.clone(),
            start_time: "2026-11-22T02:00:00.000Z".into(),
            forked_from: None,
            one_shot: false,
        };
        let path = dirs.journal(Path::new(&project), &id.as_str().into());
        let journal = Journal::create(path, head);
        for turn in 0..TURNS {
            let mut prompt = numbers.text(20);
            if number == 17 && turn == 3 {
                prompt.push_str("needle");
            }
            let user = Content::user(vec![Part::text(prompt.clone())]);
            let _ = journal.append(&content(user, Some(prompt)));
            let answer = Content::model(vec![Part::text(numbers.text(150))]);
            let _ = journal.append(&content(answer, None));
        }
    }
}

fn launch(home: &Path) -> Option<SessionConfig> {
    SessionConfig::prepare(LaunchOptions {
        directory: home.join("project"),
        variables: vec![("HOME".into(), home.as_os_str().to_owned())],
        is_read_only: true,
        version: "0",
        ..LaunchOptions::default()
    })
    .ok()
}

fn search(launch: &SessionConfig, text: &str) -> usize {
    let search =
        SearchRequest { text: text.to_owned(), project_only: false, limit: 20, rebuild: false };
    launch
        .session_library()
        .search_sessions(&search, &|_| true)
        .map(|found| found.hits.len())
        .unwrap_or_default()
}

/// A rare word, a common one, two words, a prefix, a phrase, and a word without matches.
#[divan::bench(
    args = ["needle", "word1", "word1 word2000", "wor", "\"word1 word0\"", "nowhere"],
    sample_count = 20,
    sample_size = 1
)]
fn search_5000_sessions(bencher: divan::Bencher<'_, '_>, text: &str) {
    let Ok(home) = tempfile::tempdir() else { return };
    let home = home.path();
    if std::fs::create_dir(home.join("project")).is_err() {
        return;
    }
    fill(home);
    let Some(launch) = launch(home) else { return };
    search(&launch, text);
    bencher.bench(|| search(&launch, text));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn index_5000_sessions(bencher: divan::Bencher<'_, '_>) {
    let Ok(home) = tempfile::tempdir() else { return };
    let home = home.path();
    if std::fs::create_dir(home.join("project")).is_err() {
        return;
    }
    fill(home);
    let Some(launch) = launch(home) else { return };
    bencher.bench(|| launch.session_library().index_sessions(true).map(|indexed| indexed.all));
}
