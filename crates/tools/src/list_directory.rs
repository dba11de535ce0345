//! `list_directory`: the entries of one directory.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_files::{
    Access, AllowedPath, DirectoryEntry, EntryKind, FileError, IgnoreFlags, Workspace, printable,
};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, CancellationToken, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::failure::{invalid_params, path_failure};
use crate::suggest::similar_names;

/// Maximum number of entries read from a directory.
const MAX_READ: usize = 50_000;
/// Maximum number of entries in the result.
const MAX_SHOWN: usize = 2_000;

/// The tool.
pub struct ListDirectory {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

impl ListDirectory {
    /// Creates the tool.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        let spec = ToolSpec {
            name: "list_directory".into(),
            display_name: "ReadFolder".into(),
            description: include_str!("list_directory/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "dir_path": {"type": "string"},
                    "ignore": {"type": "array", "items": {"type": "string"}},
                    "file_filtering_options": {
                        "type": "object",
                        "properties": {
                            "respect_git_ignore": {"type": "boolean"},
                            "respect_gemini_ignore": {"type": "boolean"}
                        }
                    }
                },
                "required": ["dir_path"]
            }),
            kind: ToolKind::Search,
            concurrency: Concurrency::Shared,
            aliases: vec!["LSTool".into()],
        };
        Self { spec, workspace }
    }
}

impl Tool for ListDirectory {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        if args.text("dir_path").is_empty() {
            return Err(invalid_params("The `dir_path` parameter must not be empty"));
        }
        let target = self
            .workspace
            .resolve(args.text("dir_path"), Access::Search)
            .map_err(|error| path_failure(&error))?;
        let mut flags = IgnoreFlags::from_settings(self.workspace.ignore_options());
        if let Some(options) = args.object("file_filtering_options") {
            flags.git = options.flag("respect_git_ignore").unwrap_or(flags.git);
            flags.gemini = options.flag("respect_gemini_ignore").unwrap_or(flags.gemini);
        }
        Ok(Box::new(ListDirectoryCall {
            effects: Effects { reads: vec![target.path().to_path_buf()], ..Effects::default() },
            name: self.workspace.relative(target.path()),
            target,
            flags,
            patterns: args.strings("ignore").into_iter().map(str::to_owned).collect(),
            workspace: Arc::clone(&self.workspace),
        }))
    }
}

struct ListDirectoryCall {
    target: AllowedPath,
    flags: IgnoreFlags,
    patterns: Vec<String>,
    name: PathBuf,
    effects: Effects,
    workspace: Arc<Workspace>,
}

impl Invocation for ListDirectoryCall {
    fn title(&self) -> String {
        format!("List {}", self.name.display())
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(blocking(run.cancel, move |cancel| {
            self.list(cancel).unwrap_or_else(ToolResult::failure)
        }))
    }
}

/// A row of the result.
struct ListingRow {
    is_folder: bool,
    name: String,
    size: u64,
}

impl ListDirectoryCall {
    fn list(&self, cancel: &CancellationToken) -> Result<ToolResult, ToolError> {
        let listing = self.target.list(MAX_READ).map_err(|error| self.failure(&error))?;
        let display_path = printable(self.target.display_path());
        if listing.entries.is_empty() {
            let text = format!("Directory {display_path} is empty.");
            return Ok(ToolResult::text(text).with_display(Display::text("Directory is empty.")));
        }
        let rules = self.workspace.ignore_rules(self.flags);
        let mut rows = Vec::new();
        let (mut ignored, mut inaccessible) = (0, 0);
        for entry in &listing.entries {
            if cancel.is_cancelled() {
                return Err(ToolError::new(
                    ToolErrorKind::ExecutionFailed,
                    "[Operation Cancelled] The listing was cancelled",
                ));
            }
            let path = self.target.path().join(&entry.name);
            // Entries that no tool may access are omitted.
            let Ok(place) = self.workspace.confine(&path, Access::Search) else {
                inaccessible += 1;
                continue;
            };
            if self.is_excluded(entry) || rules.ignored_by(&path).is_some() {
                ignored += 1;
                continue;
            }
            rows.extend(row(entry, &place));
        }
        rows.sort_by(|one, two| {
            let key = |row: &ListingRow| (!row.is_folder, row.name.to_lowercase());
            key(one).cmp(&key(two)).then_with(|| one.name.cmp(&two.name))
        });
        let mut text = format!("Directory listing for {display_path}:");
        for row in rows.iter().take(MAX_SHOWN) {
            if row.is_folder {
                text.push_str(&format!("\n[DIR] {}", row.name));
            } else {
                text.push_str(&format!("\n{} ({} bytes)", row.name, row.size));
            }
        }
        if rows.len() > MAX_SHOWN || listing.is_truncated {
            let more = if listing.is_truncated { "at least " } else { "" };
            text.push_str(&format!(
                "\n... ({more}{} more; narrow it with `glob`)",
                rows.len().saturating_sub(MAX_SHOWN).max(1)
            ));
        }
        let mut summary = format!("Listed {} item(s).", rows.len());
        if ignored > 0 {
            text.push_str(&format!("\n\n({ignored} ignored)"));
            summary.push_str(&format!(" ({ignored} ignored)"));
        }
        // Entries such as `.git` are worth a note only if there are no others.
        if rows.is_empty() && inaccessible > 0 {
            text.push_str(&format!("\n\n({inaccessible} not accessible to tools)"));
            summary.push_str(&format!(" ({inaccessible} not accessible to tools)"));
        }
        let found = summary.replacen("Listed", "Found", 1);
        let files = rows.iter().take(MAX_SHOWN).map(|row| match row.is_folder {
            true => format!("[DIR] {}", row.name),
            false => row.name.clone(),
        });
        let files: Vec<String> = files.collect();
        let listed = json!({"summary": found, "files": files});
        Ok(ToolResult::text(text).with_display(Display::text(summary)).with_hook_display(listed))
    }

    fn is_excluded(&self, entry: &DirectoryEntry) -> bool {
        let name = entry.name.to_string_lossy();
        self.patterns.iter().any(|pattern| name_matches(pattern, &name))
    }

    fn failure(&self, error: &FileError) -> ToolError {
        let display_path = self.target.display_path();
        match error {
            FileError::NotADirectory { .. } if self.target.exists() => ToolError::new(
                ToolErrorKind::PathIsNotADirectory,
                format!("Path is not a directory: {}", display_path.display()),
            ),
            FileError::NotFound { .. } | FileError::NotADirectory { .. } => ToolError::new(
                ToolErrorKind::LsExecutionError,
                format!(
                    "Directory not found: {}{}",
                    display_path.display(),
                    similar_names(&self.workspace, display_path)
                ),
            ),
            other => ToolError::new(ToolErrorKind::LsExecutionError, other.to_string()),
        }
    }
}

/// Returns the row of an entry; `None` if it no longer exists.
fn row(entry: &DirectoryEntry, target: &AllowedPath) -> Option<ListingRow> {
    let metadata = target.metadata().ok()?;
    Some(ListingRow {
        is_folder: metadata.kind == EntryKind::Directory,
        name: printable(&entry.name).into_owned(),
        size: metadata.size,
    })
}

/// Matches a name against a pattern with only `*` and `?`, in time proportional to the product of
/// their lengths.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to resume if the last `*` must match one more character.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(letter) if *letter == '?' || Some(letter) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after, taken)) = retry else { return false };
                retry = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::name_matches;

    #[test]
    fn stars_and_question_marks_match_names() {
        for (pattern, name, expected) in [
            ("*.log", "a.log", true),
            ("*.log", ".log", true),
            ("*.log", "a.log.txt", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("[ab]", "a", false),
            ("", "", true),
            ("*", "", true),
            ("a.b", "axb", false),
        ] {
            assert_eq!(name_matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
