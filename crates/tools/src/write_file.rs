//! `write_file`: writes a whole file.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_files::{Access, AllowedPath, DecodedFile, FileError, SeenFiles, Workspace};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, FileDiff, Invocation, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::change::{
    OriginalFile, check_fresh, commit, edit_effects, file_diff, load, omission_placeholder,
    snippet, truncate, with_line_endings_of,
};
use crate::failure::{invalid_params, path_failure, write_failure};
use crate::plan_files::PlanFiles;

/// What to do if the model overwrites a file that it has never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnseenOverwrite {
    /// Nothing.
    Off,
    /// The result contains a warning.
    #[default]
    Warn,
    /// The call is rejected.
    Block,
}

/// The tool.
pub struct WriteFile {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
    unseen_overwrite: UnseenOverwrite,
    plans: PlanFiles,
}

impl WriteFile {
    /// Creates the tool. Writes are checked against what the model has seen of the file.
    pub fn new(
        workspace: Arc<Workspace>,
        seen_files: Arc<SeenFiles>,
        unseen_overwrite: UnseenOverwrite,
    ) -> Self {
        let spec = ToolSpec {
            name: "write_file".into(),
            display_name: "WriteFile".into(),
            description: include_str!("write_file/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {"type": "string"},
                    "content": {"type": "string"}
                },
                "required": ["file_path", "content"]
            }),
            kind: ToolKind::Edit,
            concurrency: Concurrency::Exclusive,
            aliases: vec!["WriteFileTool".into()],
        };
        Self { spec, workspace, seen_files, unseen_overwrite, plans: PlanFiles::default() }
    }

    /// Sets the directory of the session's plans.
    #[must_use]
    pub fn with_plans(mut self, directory: PathBuf) -> Self {
        self.plans = PlanFiles::new(directory);
        self
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn description(&self, mode: ApprovalMode) -> Cow<'_, str> {
        self.plans.describe(&self.spec.description, mode)
    }

    fn prepare(
        &self,
        args: Object,
        scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        if args.text("file_path").is_empty() {
            return Err(invalid_params("The `file_path` parameter must not be empty"));
        }
        let content = args.text("content");
        if let Some(line) = omission_placeholder(content) {
            return Err(invalid_params(format!(
                "`content` contains an omission placeholder (`{}`); provide the complete text",
                line.trim()
            )));
        }
        let path = self.plans.resolve_path(args.text("file_path"), scope.mode, &self.workspace);
        let target =
            self.workspace.resolve(&path, Access::Write).map_err(|error| path_failure(&error))?;
        let before = load(&target).map_err(|error| write_failure(&error))?;
        let known = self.seen_files.has_seen(target.path());
        if let Some(before) = &before {
            check_fresh(&self.seen_files, &target, before)?;
            if !known && self.unseen_overwrite == UnseenOverwrite::Block {
                return Err(ToolError::new(
                    ToolErrorKind::ExecutionFailed,
                    format!(
                        "{} exists and was not read in this session: read it before you overwrite it",
                        target.display_path().display()
                    ),
                ));
            }
        }
        let warns_overwrite =
            before.is_some() && !known && self.unseen_overwrite == UnseenOverwrite::Warn;
        let empty = DecodedFile::empty();
        let decoded = before.as_ref().map_or(&empty, |before| &before.decoded);
        let mark_too = decoded.bom.then(|| content.strip_prefix('\u{feff}')).flatten();
        let text = with_line_endings_of(&decoded.text, mark_too.unwrap_or(content));
        let bytes = decoded.encode(&text).map_err(|error| {
            write_failure(&FileError::Lossy {
                path: target.display_path().to_path_buf(),
                encoding: decoded.encoding.name(),
                unsupported_text: error.unsupported_text(),
            })
        })?;
        let name = self.workspace.relative(target.path());
        let diff = file_diff(target.path(), &name, &decoded.text, &text, before.is_none());
        let effects = edit_effects(target.path(), target.display_path(), before.is_none());
        let seen_files = Arc::clone(&self.seen_files);
        Ok(Box::new(WriteFileCall {
            target,
            before,
            text,
            bytes,
            diff,
            effects,
            name,
            seen_files,
            warns_overwrite,
        }))
    }
}

struct WriteFileCall {
    target: AllowedPath,
    before: Option<OriginalFile>,
    text: String,
    bytes: Vec<u8>,
    diff: FileDiff,
    effects: Effects,
    name: PathBuf,
    seen_files: Arc<SeenFiles>,
    warns_overwrite: bool,
}

impl Invocation for WriteFileCall {
    fn title(&self) -> String {
        let note = if self.warns_overwrite { " (overwrites a file that was not read)" } else { "" };
        format!("Write {}{note}", self.name.display())
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Diff(self.diff.clone()))
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(blocking(run.cancel, move |_| self.write()))
    }
}

impl WriteFileCall {
    fn write(self) -> ToolResult {
        let before = self.before.as_ref();
        if let Err(error) = commit(&self.seen_files, &self.target, before, &self.bytes) {
            return ToolResult::failure(error);
        }
        let display_path = self.target.display_path().display();
        let mut output = match before {
            Some(_) => format!("Successfully overwrote file: {display_path}."),
            None => format!("Successfully created and wrote to new file: {display_path}."),
        };
        if self.warns_overwrite {
            output.push_str(" It existed and had not been read in this session.");
        }
        let code = match before {
            Some(before) => snippet(&before.decoded.text, &self.text),
            None => truncate(&self.text),
        };
        output.push_str(&format!(" Here is the updated code:\n{code}"));
        ToolResult::text(output).with_display(Display::Diff(self.diff))
    }
}
