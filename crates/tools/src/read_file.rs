//! `read_file`: gives the model the content of one file.

mod content;

use std::path::PathBuf;
use std::sync::Arc;

use parallax_files::{Access, AllowedPath, SeenFiles, Workspace};
use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError, ToolKind,
    ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, CancellationToken, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::failure::{invalid_params, path_failure};
pub(crate) use content::{Range, ReadResult, read};

/// The tool.
pub struct ReadFile {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
}

impl ReadFile {
    /// Creates the tool, which records what the model has seen.
    pub fn new(workspace: Arc<Workspace>, seen_files: Arc<SeenFiles>) -> Self {
        let spec = ToolSpec {
            name: "read_file".into(),
            display_name: "ReadFile".into(),
            description: include_str!("read_file/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {"type": "string"},
                    "start_line": {"type": "integer", "minimum": 1, "description": "From 1."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "Inclusive."}
                },
                "required": ["file_path"]
            }),
            kind: ToolKind::Read,
            concurrency: Concurrency::Shared,
            aliases: vec!["ReadFileTool".into()],
        };
        Self { spec, workspace, seen_files }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        if args.text("file_path").trim().is_empty() {
            return Err(invalid_params("The `file_path` parameter must not be empty"));
        }
        let range = range_of(&args)?;
        let target = self
            .workspace
            .resolve(args.text("file_path"), Access::Read)
            .map_err(|error| path_failure(&error))?;
        if let Some(reason) = self.workspace.is_ignored(target.display_path()) {
            return Err(invalid_params(format!(
                "File path '{}' is ignored by configured ignore patterns (`{}`)",
                target.display_path().display(),
                reason.pattern
            )));
        }
        let effects = Effects { reads: vec![target.path().to_path_buf()], ..Effects::default() };
        Ok(Box::new(ReadFileCall {
            name: self.workspace.relative(target.path()),
            target,
            range,
            effects,
            workspace: Arc::clone(&self.workspace),
            seen_files: Arc::clone(&self.seen_files),
        }))
    }
}

/// Returns the requested range; `offset` (from 0) and `limit` are old argument names.
fn range_of(args: &Arguments) -> Result<Range, ToolError> {
    let mut range = Range { start: args.integer("start_line"), end: args.integer("end_line") };
    let (offset, limit) = (args.integer("offset"), args.integer("limit"));
    if range.start.is_none() {
        range.start = offset.map(|offset| offset.saturating_add(1));
    }
    if range.end.is_none()
        && let Some(limit) = limit
    {
        let start = range.start.unwrap_or(1);
        range.end = Some(start.saturating_add(limit.max(1)) - 1);
    }
    if let (Some(start), Some(end)) = (range.start, range.end)
        && start > end
    {
        return Err(invalid_params("`start_line` cannot be greater than `end_line`"));
    }
    Ok(range)
}

struct ReadFileCall {
    target: AllowedPath,
    range: Range,
    name: PathBuf,
    effects: Effects,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
}

impl Invocation for ReadFileCall {
    fn title(&self) -> String {
        let name = self.name.display();
        match (self.range.start, self.range.end) {
            (Some(start), Some(end)) => format!("Read {name}, lines {start}-{end}"),
            (Some(start), None) => format!("Read {name} from line {start}"),
            (None, Some(end)) => format!("Read {name}, lines 1-{end}"),
            (None, None) => format!("Read {name}"),
        }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(blocking(run.cancel, move |cancel| self.read(cancel)))
    }
}

impl ReadFileCall {
    fn read(&self, cancel: &CancellationToken) -> ToolResult {
        match read(&self.workspace, &self.seen_files, &self.target, self.range, cancel) {
            Ok(read) => read.into_outcome(),
            Err(error) => ToolResult::failure(error),
        }
    }
}
