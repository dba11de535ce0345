//! A test workspace with the file tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::{SeenFiles, Workspace, WorkspaceOptions};
use parallax_protocol::CancellationToken;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Invocation, NoProgress, PrepareContext, RunContext, Tool, ToolError, ToolErrorKind, ToolResult,
};
use parallax_tools::list_directory::ListDirectory;
use parallax_tools::read_file::ReadFile;
use parallax_tools::read_many_files::ReadManyFiles;
use parallax_tools::replace::Replace;
use parallax_tools::write_file::{UnseenOverwrite, WriteFile};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct TestProject {
    pub(crate) folder: TempDir,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) seen_files: Arc<SeenFiles>,
    pub(crate) unseen: UnseenOverwrite,
}

impl TestProject {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    pub(crate) fn with(change: impl FnOnce(&Path, &mut WorkspaceOptions)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["work", "temp"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let mut options = WorkspaceOptions {
            root: folder.path().join("work"),
            temp: folder.path().join("temp"),
            ..WorkspaceOptions::default()
        };
        change(folder.path(), &mut options);
        let workspace = Arc::new(Workspace::new(options).expect("a workspace"));
        Self { folder, workspace, seen_files: Arc::default(), unseen: UnseenOverwrite::Warn }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("real").join("work").join(name)
    }

    pub(crate) fn write_file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("readable")
    }

    fn tool(&self, name: &str) -> Box<dyn Tool> {
        let (workspace, seen) = (Arc::clone(&self.workspace), Arc::clone(&self.seen_files));
        match name {
            "read_file" => Box::new(ReadFile::new(workspace, seen)),
            "read_many_files" => {
                Box::new(ReadManyFiles::new(workspace, seen, vec!["GEMINI.md".into()]))
            }
            "write_file" => Box::new(WriteFile::new(workspace, seen, self.unseen)),
            "replace" => Box::new(Replace::new(workspace, seen)),
            _ => Box::new(ListDirectory::new(workspace)),
        }
    }

    pub(crate) fn prepare(
        &self,
        name: &str,
        args: Value,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let scope = PrepareContext {
            call: "call".into(),
            name: name.into(),
            mode: ApprovalMode::Default,
            interactive: false,
        };
        let Value::Object(args) = args else { panic!("an object") };
        self.tool(name).prepare(args, &scope)
    }

    pub(crate) fn call(&self, name: &str, args: Value) -> ToolResult {
        match self.prepare(name, args) {
            Ok(call) => run(call),
            Err(error) => ToolResult::failure(error),
        }
    }

    /// Returns the model's text of a call that succeeds.
    pub(crate) fn output(&self, name: &str, args: Value) -> String {
        let outcome = self.call(name, args);
        assert_eq!(outcome.error, None);
        outcome.for_model.output
    }

    /// Returns the error of a call that fails.
    pub(crate) fn failure(&self, name: &str, args: Value) -> (ToolErrorKind, String) {
        let error = self.call(name, args).error.expect("a failure");
        (error.kind, error.message)
    }

    pub(crate) fn replace(&self, file: &str, old: &str, new: &str) -> ToolResult {
        self.call("replace", edit(file, old, new))
    }

    pub(crate) fn replace_fails(
        &self,
        file: &str,
        old: &str,
        new: &str,
    ) -> (ToolErrorKind, String) {
        self.failure("replace", edit(file, old, new))
    }
}

pub(crate) fn edit(file: &str, old: &str, new: &str) -> Value {
    json!({"file_path": file, "instruction": "i", "old_string": old, "new_string": new})
}

pub(crate) fn run(call: Box<dyn Invocation>) -> ToolResult {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let run = RunContext::new(CancellationToken::new(), Arc::new(NoProgress));
    runtime.block_on(call.run(run))
}
