//! `replace`: replaces text at one place of a file, or at all equal places.

mod carry;
#[cfg(test)]
mod edit_properties;
mod hit;
mod indentation;
mod matching;
mod nearest;
mod rewrite;
mod source;
mod stale;
mod tokens;
mod tolerant;

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::{Access, AllowedPath, EntryKind, FileError, SeenFiles, Workspace};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, FileDiff, Invocation, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::change::{
    OriginalFile, UnseenChange, commit, commit_unseen, edit_effects, file_diff, load,
    omission_placeholder, snippet, truncate,
};
use crate::failure::{invalid_params, path_failure, read_failure, write_failure};
use crate::plan_files::PlanFiles;
use crate::suggest::similar_names;
pub use hit::Replacement;
pub use matching::{MatchResult, Strategy, find};
pub use source::SourceText;

/// Maximum number of line numbers in a message.
const MAX_NAMED: usize = 20;
/// Maximum number of directories searched for a path that does not exist.
const MAX_FOLDERS: usize = 50;

/// The tool.
pub struct Replace {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
    plans: PlanFiles,
}

impl Replace {
    /// Creates the tool. Edits are checked against what the model has seen of the file.
    pub fn new(workspace: Arc<Workspace>, seen_files: Arc<SeenFiles>) -> Self {
        let spec = ToolSpec {
            name: "replace".into(),
            display_name: "Edit".into(),
            description: include_str!("replace/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {"type": "string"},
                    "instruction": {"type": "string", "description": "What changes and why, in one sentence."},
                    "old_string": {"type": "string"},
                    "new_string": {"type": "string"},
                    "allow_multiple": {"type": "boolean", "description": "Replace all occurrences."}
                },
                "required": ["file_path", "instruction", "old_string", "new_string"]
            }),
            kind: ToolKind::Edit,
            concurrency: Concurrency::Exclusive,
            aliases: vec!["EditTool".into()],
        };
        Self { spec, workspace, seen_files, plans: PlanFiles::default() }
    }

    /// Sets the directory of the session's plans.
    #[must_use]
    pub fn with_plans(mut self, directory: PathBuf) -> Self {
        self.plans = PlanFiles::new(directory);
        self
    }

    /// Returns the file to change. A missing relative path is looked up as the end of another path.
    fn target(&self, text: &str, may_guess: bool) -> Result<AllowedPath, ToolError> {
        let target =
            self.workspace.resolve(text, Access::Write).map_err(|error| path_failure(&error))?;
        if !may_guess || Path::new(text).is_absolute() || target.exists() {
            return Ok(target);
        }
        let hits = self.files_ending_in(Path::new(text));
        match hits.as_slice() {
            [] => Ok(target),
            [hit] => {
                self.workspace.confine(hit, Access::Write).map_err(|error| path_failure(&error))
            }
            several => {
                let names: Vec<String> =
                    several.iter().map(|path| path.display().to_string()).collect();
                Err(ToolError::new(
                    ToolErrorKind::FileNotFound,
                    format!(
                        "File not found: {}. The path is ambiguous; it could be one of: {}",
                        target.display_path().display(),
                        names.join(", ")
                    ),
                ))
            }
        }
    }

    /// Searches breadth-first in a limited number of directories.
    fn files_ending_in(&self, suffix: &Path) -> Vec<PathBuf> {
        let mut hits = Vec::new();
        for root in self.workspace.roots() {
            let mut queue = std::collections::VecDeque::from([root]);
            for _ in 0..MAX_FOLDERS {
                let Some(path) = queue.pop_front() else { break };
                let listing = self
                    .workspace
                    .confine(&path, Access::Write)
                    .ok()
                    .and_then(|directory| directory.list(2_000).ok())
                    .unwrap_or_default();
                for entry in listing.entries {
                    let path = path.join(&entry.name);
                    match entry.kind {
                        EntryKind::Directory if queue.len() < MAX_FOLDERS => queue.push_back(path),
                        EntryKind::File if path.ends_with(suffix) && hits.len() < MAX_NAMED => {
                            hits.push(path);
                        }
                        _ => {}
                    }
                }
            }
        }
        hits.sort();
        hits
    }
}

impl Tool for Replace {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn description(&self, mode: ApprovalMode) -> Cow<'_, str> {
        self.plans.describe(&self.spec.description, mode)
    }

    fn prepare(
        &self,
        mut args: Object,
        scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        // The schema requires it so that the model thinks about the edit; the tool does not need
        // it.
        args.entry("instruction").or_insert_with(|| Value::String(String::new()));
        let args = Arguments::check(args, &self.spec)?;
        if args.text("file_path").is_empty() {
            return Err(invalid_params("The `file_path` parameter must not be empty"));
        }
        let (old, new) = (args.text("old_string"), args.text("new_string"));
        if let Some(line) = omission_placeholder(new)
            && !old.contains(line.trim())
        {
            return Err(invalid_params(format!(
                "`new_string` contains an omission placeholder (`{}`); provide the exact, complete \
                 text",
                line.trim()
            )));
        }
        let allow_multiple = args
            .flag("allow_multiple")
            .unwrap_or_else(|| args.integer("expected_replacements").is_some_and(|n| n > 1));
        let path = self.plans.resolve_path(args.text("file_path"), scope.mode, &self.workspace);
        let target = self.target(&path, !old.is_empty())?;
        let before = load(&target).map_err(|error| read_failure(&error))?;
        let display_path = target.display_path().display().to_string();
        let Some(before) = before else {
            if old.is_empty() {
                return Ok(self.call(target, None, PlannedEdit::for_new_file(new), None));
            }
            return Err(ToolError::new(
                ToolErrorKind::FileNotFound,
                format!(
                    "File not found: {display_path}. Use an empty `old_string` to create it{}",
                    similar_names(&self.workspace, target.display_path())
                ),
            ));
        };
        if old.is_empty() {
            return Err(ToolError::new(
                ToolErrorKind::AttemptToCreateExistingFile,
                format!("{display_path} already exists: provide the `old_string` to replace"),
            ));
        }
        let unseen = UnseenChange::detect(&self.seen_files, &target, &before);
        let planned = plan(&display_path, &before, old, new, allow_multiple);
        match unseen {
            Some(change) if !is_safe_edit(&change, &planned, &before) => Err(change
                .reject_stale_edit(&self.seen_files, &target, &before, planned.as_ref().err())),
            unseen => Ok(self.call(target, Some(before), planned?, unseen)),
        }
    }
}

impl Replace {
    fn call(
        &self,
        target: AllowedPath,
        before: Option<OriginalFile>,
        planned: PlannedEdit,
        unseen_change: Option<UnseenChange>,
    ) -> Box<dyn Invocation> {
        let name = self.workspace.relative(target.path());
        let old = before.as_ref().map_or("", |before| before.decoded.text.as_str());
        let diff = file_diff(target.path(), &name, old, &planned.text, before.is_none());
        let effects = edit_effects(target.path(), target.display_path(), before.is_none());
        let seen_files = Arc::clone(&self.seen_files);
        Box::new(ReplaceCall {
            target,
            before,
            planned,
            unseen_change,
            diff,
            effects,
            name,
            seen_files,
        })
    }
}

/// Whether an edit is certain although the file changed: its match is exact and unique, and the
/// text to replace is what the model has seen.
fn is_safe_edit(
    change: &UnseenChange,
    planned: &Result<PlannedEdit, ToolError>,
    before: &OriginalFile,
) -> bool {
    planned.as_ref().is_ok_and(|planned| match (planned.strategy, planned.ranges.as_slice()) {
        (Strategy::Exact, [range]) => stale::is_current(
            change.seen_text.as_deref(),
            &SourceText::new(&before.decoded.text),
            range,
        ),
        _ => false,
    })
}

/// The planned write.
struct PlannedEdit {
    text: String,
    bytes: Vec<u8>,
    strategy: Strategy,
    lines: Vec<(usize, usize)>,
    /// The matches in [`SourceText::text`].
    ranges: Vec<Range<usize>>,
}

impl PlannedEdit {
    fn for_new_file(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            bytes: text.as_bytes().to_vec(),
            strategy: Strategy::Exact,
            lines: vec![(1, 1)],
            ranges: Vec::new(),
        }
    }
}

fn plan(
    display_path: &str,
    before: &OriginalFile,
    old: &str,
    new: &str,
    allow_multiple: bool,
) -> Result<PlannedEdit, ToolError> {
    let no_change = || {
        ToolError::new(
            ToolErrorKind::EditNoChange,
            format!("No changes to apply to {display_path}: the new text is the same as the old"),
        )
    };
    if old == new {
        return Err(no_change());
    }
    let source = SourceText::new(&before.decoded.text);
    let found = find(&source, old, new);
    if found.hits.is_empty() {
        return Err(not_found_error(display_path, &source, old));
    }
    let lines: Vec<(usize, usize)> = found.hits.iter().map(|hit| hit.lines).collect();
    if lines.len() > 1 && !allow_multiple {
        return Err(ToolError::new(
            ToolErrorKind::EditExpectedOccurrenceMismatch,
            format!(
                "Expected 1 occurrence of `old_string` in {display_path} but found {}{}, at line(s) {}. Add lines around it to make it unique, or set `allow_multiple`",
                if found.has_more { "more than " } else { "" },
                lines.len(),
                format_line_ranges(&lines)
            ),
        ));
    }
    if found.has_more {
        return Err(ToolError::new(
            ToolErrorKind::EditExpectedOccurrenceMismatch,
            format!(
                "`old_string` occurs more than {} times in {display_path}, too many to replace at once",
                lines.len()
            ),
        ));
    }
    let changes: Vec<_> =
        found.hits.iter().map(|hit| source.splice(&hit.range, &hit.new)).collect();
    let bytes = before.decoded.splice(&before.bytes, &changes).map_err(|error| {
        write_failure(&FileError::Lossy {
            path: PathBuf::from(display_path),
            encoding: before.decoded.encoding.name(),
            unsupported_text: error.unsupported_text(),
        })
    })?;
    if bytes == before.bytes {
        return Err(no_change());
    }
    let mut text = String::with_capacity(before.decoded.text.len());
    let mut at = 0;
    for change in &changes {
        text.push_str(before.decoded.text.get(at..change.range.start).unwrap_or_default());
        text.push_str(&change.text);
        at = change.range.end;
    }
    text.push_str(before.decoded.text.get(at..).unwrap_or_default());
    let ranges = found.hits.into_iter().map(|hit| hit.range).collect();
    Ok(PlannedEdit { text, bytes, strategy: found.strategy, lines, ranges })
}

fn not_found_error(display_path: &str, source: &SourceText<'_>, old: &str) -> ToolError {
    let mut message = format!(
        "Could not find an exact match for `old_string` in {display_path} (0 occurrences). Read the lines again before you retry"
    );
    if let Some(near) = nearest::find(source, old) {
        let (first, last) = near.lines;
        message.push_str(&format!(
            ".\nNearest: lines {first}-{last}, {:.0}% alike; - is `old_string`, + is the file:\n{}",
            near.score * 100.0,
            near.diff
        ));
    }
    ToolError::new(ToolErrorKind::EditNoOccurrenceFound, message)
}

/// `3, 7-9, …`
fn format_line_ranges(lines: &[(usize, usize)]) -> String {
    let mut names: Vec<String> = lines
        .iter()
        .take(MAX_NAMED)
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    if lines.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    names.join(", ")
}

struct ReplaceCall {
    target: AllowedPath,
    before: Option<OriginalFile>,
    planned: PlannedEdit,
    unseen_change: Option<UnseenChange>,
    diff: FileDiff,
    effects: Effects,
    name: PathBuf,
    seen_files: Arc<SeenFiles>,
}

impl Invocation for ReplaceCall {
    fn title(&self) -> String {
        match &self.before {
            Some(_) => format!("Edit {}", self.name.display()),
            None => format!("Create {}", self.name.display()),
        }
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

impl ReplaceCall {
    fn write(self) -> ToolResult {
        let before = self.before.as_ref();
        let bytes = &self.planned.bytes;
        let written = match &self.unseen_change {
            Some(change) if !change.is_shown() => commit_unseen(&self.target, before, bytes),
            _ => commit(&self.seen_files, &self.target, before, bytes),
        };
        if let Err(error) = written {
            return ToolResult::failure(error);
        }
        let display_path = self.target.display_path().display();
        let mut output = match before {
            None => format!("Created new file: {display_path} with the given content."),
            Some(before) => {
                let count = self.planned.lines.len();
                let mut text =
                    format!("Successfully modified file: {display_path} ({count} replacements).");
                if let Some(note) = self.planned.strategy.note() {
                    text.push_str(&format!(
                        " {note} at line(s) {}.",
                        format_line_ranges(&self.planned.lines)
                    ));
                }
                let snippet = snippet(&before.decoded.text, &self.planned.text);
                text + &format!(" Here is the updated code:\n{snippet}")
            }
        };
        if before.is_none() {
            output
                .push_str(&format!(" Here is the updated code:\n{}", truncate(&self.planned.text)));
        }
        if let Some(change) = &self.unseen_change {
            output.push_str(&format!("\n{}", change.note()));
        }
        ToolResult::text(output).with_display(Display::Diff(self.diff))
    }
}
