//! `save_memory`: saves a fact for later sessions in the user's or the project's memory file.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_files::{Access, AllowedPath, SeenFiles, Workspace};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, FileDiff, Invocation, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::change::{OriginalFile, commit, edit_effects, file_diff, load};
use crate::failure::{invalid_params, path_failure, write_failure};

/// Maximum number of characters of a fact, which is part of every later session.
const MAX_LENGTH: usize = 2_000;

/// The memory files.
#[derive(Debug, Clone)]
pub struct MemoryFiles {
    /// The user's file, an absolute path.
    pub user: PathBuf,
    /// The project's file, an absolute path.
    pub project: PathBuf,
    /// Returns the text of a memory file (first argument) with a fact (second argument) added.
    pub with_fact: fn(&str, &str) -> String,
}

/// The tool.
#[derive(Debug)]
pub struct SaveMemory {
    spec: ToolSpec,
    files: MemoryFiles,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
}

impl SaveMemory {
    /// Creates the tool for these files.
    pub fn new(files: MemoryFiles, workspace: Arc<Workspace>, seen_files: Arc<SeenFiles>) -> Self {
        let spec = ToolSpec {
            name: "save_memory".into(),
            display_name: "SaveMemory".into(),
            description: include_str!("save_memory/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "fact": {
                        "type": "string",
                        "minLength": 1,
                        "description": "A self-contained sentence."
                    },
                    "scope": {
                        "type": "string",
                        "enum": ["user", "project", "global"],
                        "description": "`user` (default, also `global`): all projects of this user. `project`: the context file that the team shares."
                    }
                },
                "required": ["fact"]
            }),
            kind: ToolKind::Edit,
            concurrency: Concurrency::Exclusive,
            aliases: vec!["MemoryTool".into(), "SaveMemoryTool".into()],
        };
        Self { spec, files, workspace, seen_files }
    }
}

impl Tool for SaveMemory {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let words: Vec<&str> = args.text("fact").split_whitespace().collect();
        let fact = words.join(" ");
        if fact.is_empty() {
            return Err(invalid_params("The `fact` parameter must not be empty"));
        }
        if fact.chars().count() > MAX_LENGTH {
            return Err(invalid_params(format!(
                "The fact is longer than {MAX_LENGTH} characters; shorten it"
            )));
        }
        let path = match args.optional_text("scope") {
            Some("project") => &self.files.project,
            _ => &self.files.user,
        };
        let target = self
            .workspace
            .resolve(&path.to_string_lossy(), Access::Write)
            .map_err(|error| path_failure(&error))?;
        let before = load(&target).map_err(|error| write_failure(&error))?;
        let old = before.as_ref().map_or("", |before| before.decoded.text.as_str());
        let text = (self.files.with_fact)(old, &fact);
        let bytes = match &before {
            Some(before) => before.decoded.encode(&text).map_err(|error| {
                invalid_params(format!(
                    "Cannot add this fact to `{}`: {}",
                    target.display_path().display(),
                    error.unsupported_text()
                ))
            })?,
            None => text.clone().into_bytes(),
        };
        let name = self.workspace.relative(target.path());
        let diff = file_diff(target.path(), &name, old, &text, before.is_none());
        let effects = edit_effects(target.path(), target.display_path(), before.is_none());
        let seen_files = Arc::clone(&self.seen_files);
        Ok(Box::new(SaveMemoryCall { fact, target, before, bytes, diff, effects, seen_files }))
    }
}

struct SaveMemoryCall {
    fact: String,
    target: AllowedPath,
    before: Option<OriginalFile>,
    bytes: Vec<u8>,
    diff: FileDiff,
    effects: Effects,
    seen_files: Arc<SeenFiles>,
}

impl Invocation for SaveMemoryCall {
    fn title(&self) -> String {
        format!("Save to {}: {}", self.target.display_path().display(), self.fact)
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Diff(self.diff.clone()))
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(blocking(run.cancel, move |_| {
            match commit(&self.seen_files, &self.target, self.before.as_ref(), &self.bytes) {
                Err(error) => ToolResult::failure(error),
                Ok(_) => ToolResult::text(format!(
                    "Saved to {}: \"{}\"",
                    self.target.display_path().display(),
                    self.fact
                ))
                .with_display(Display::Diff(self.diff)),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::*;

    #[tokio::test]
    async fn memory_is_saved_to_the_file_of_its_scope() {
        let directory = tempfile::tempdir().expect("directory");
        let (home, project) = (directory.path().join("home"), directory.path().join("project"));
        for directory in [&home, &project] {
            std::fs::create_dir_all(directory).expect("directory");
        }
        let files = MemoryFiles {
            user: home.join("GEMINI.md"),
            project: project.join("GEMINI.md"),
            with_fact: |text, fact| format!("{text}- {fact}\n"),
        };
        let workspace = Workspace::new(parallax_files::WorkspaceOptions {
            root: project.clone(),
            writable_files: vec![home.join("GEMINI.md")],
            ..parallax_files::WorkspaceOptions::default()
        });
        let seen = Arc::default();
        let tool = SaveMemory::new(files, Arc::new(workspace.expect("workspace")), seen);
        for args in [
            json!({"fact": "likes\n tea"}),
            json!({"fact": "uses make", "scope": "project"}),
            json!({"fact": "no emoji", "scope": "global"}),
        ] {
            let outcome = run(&tool, args).await;
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
        }
        let read = |path: PathBuf| std::fs::read_to_string(path).expect("file");
        assert_eq!(read(home.join("GEMINI.md")), "- likes tea\n- no emoji\n");
        assert_eq!(read(project.join("GEMINI.md")), "- uses make\n");
        for bad in [json!({"fact": " "}), json!({"fact": "x", "scope": "world"})] {
            assert!(tool.prepare(object(bad), &scope("save_memory")).is_err());
        }
        assert!(
            tool.prepare(object(json!({"fact": "x".repeat(3_000)})), &scope("save_memory"))
                .is_err()
        );
    }
}
