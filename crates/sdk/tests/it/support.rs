//! A temporary home and project, and a model with scripted responses.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_protocol::event::EventBody;
use parallax_protocol::op::{Op, Prompt};
use parallax_sdk::{EventReader, LaunchOptions, OpenSession, ResponseSource, SessionConfig};
use parallax_sessions::SessionChoice;

/// A temporary home and project.
pub struct World {
    _folder: tempfile::TempDir,
    pub root: PathBuf,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("real");
        std::fs::create_dir_all(root.join("home")).expect("home");
        std::fs::create_dir_all(root.join("project")).expect("project");
        Self { _folder: folder, root }
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("written");
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).expect(path)
    }

    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Returns options for the project with additional variables.
    pub fn options(&self, variables: &[(&str, &str)]) -> LaunchOptions {
        let path = |path: &Path| path.as_os_str().to_owned();
        let mut all: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), path(&self.root.join("home"))),
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            // Ignore the system settings of the machine that runs the tests.
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH".into(), path(&self.root.join("none.json"))),
        ];
        all.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        LaunchOptions {
            directory: self.project(),
            variables: all,
            interactive: true,
            version: "0.0.0",
            ..LaunchOptions::default()
        }
    }

    /// Returns options that trust the project.
    pub fn trusted(&self) -> LaunchOptions {
        LaunchOptions { skip_trust: true, ..self.options(&[]) }
    }

    pub fn launch(&self) -> SessionConfig {
        SessionConfig::prepare(self.trusted()).expect("prepared")
    }

    /// Opens a session whose model always responds "the answer".
    pub fn open(&self, session: SessionChoice) -> (OpenSession, EventReader) {
        let line = serde_json::json!({
            "method": "generateContentStream",
            "response": [{
                "candidates": [{
                    "content": {"role": "model", "parts": [{"text": "the answer"}]},
                    "finishReason": "STOP",
                }],
                "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 12},
            }],
        });
        self.write("script.jsonl", &format!("{line}\n").repeat(20));
        let options = LaunchOptions {
            session,
            answers: ResponseSource::Fake(self.root.join("script.jsonl")),
            ..self.trusted()
        };
        SessionConfig::prepare(options).expect("prepared").open().expect("opened")
    }

    /// Sends prompts, waiting for the end of each turn; returns the session id.
    pub async fn send_prompts(&self, session: SessionChoice, prompts: &[&str]) -> String {
        let (open, mut events) = self.open(session);
        for prompt in prompts {
            let prompt = Prompt { text: (*prompt).to_owned(), ..Prompt::default() };
            open.ops().send(Op::Prompt(prompt)).await.expect("taken");
            while let Some(event) = events.next().await {
                if matches!(event.body, EventBody::TurnEnded(_)) {
                    break;
                }
            }
        }
        let id = open.id.to_string();
        open.close().await;
        id
    }
}
