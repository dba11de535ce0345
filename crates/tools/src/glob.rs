//! `glob`: finds files by name; files changed in the last day come first.

use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobMatcher};
use parallax_files::{WalkOptions, WalkState, Workspace, printable, walk};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::invalid_params;
use crate::literal_names;
use crate::search_scope::{SearchFailure, SearchScope, StopSignal, is_inside, run_blocking};

/// Maximum number of paths in a result.
const MAX_PATHS: usize = 2_000;
/// Files changed within this time come first.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);
/// Directories that are not searched.
const EXCLUDED: [&str; 4] = ["node_modules", "bower_components", ".svn", ".hg"];

/// The tool.
pub struct Glob {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    limit: Duration,
}

impl Glob {
    /// Creates the tool. `limit` is the time limit of a search.
    pub fn new(workspace: Arc<Workspace>, limit: Duration) -> Self {
        let spec = ToolSpec {
            name: "glob".into(),
            display_name: "FindFiles".into(),
            description: include_str!("glob/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"},
                    "dir_path": {"type": "string"},
                    "case_sensitive": {"type": "boolean"},
                    "respect_git_ignore": {"type": "boolean"},
                    "respect_gemini_ignore": {"type": "boolean"}
                },
                "required": ["pattern"]
            }),
            kind: ToolKind::Search,
            concurrency: Concurrency::Shared,
            aliases: vec!["GlobTool".into()],
        };
        Self { spec, workspace, limit }
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let pattern = args.text("pattern");
        if pattern.trim().is_empty() {
            return Err(invalid_params("The `pattern` parameter must not be empty"));
        }
        let search_place = SearchScope::find(&self.workspace, args.optional_text("dir_path"))?;
        let is_file = |root: &PathBuf| !root.is_dir();
        if search_place.roots.len() == 1 && search_place.roots.iter().any(is_file) {
            return Err(ToolError::new(
                ToolErrorKind::SearchPathNotADirectory,
                format!("Path is not a directory: {}", args.text("dir_path")),
            ));
        }
        let case_sensitive = args.flag("case_sensitive").unwrap_or(false);
        let searches = search_place
            .roots
            .iter()
            .map(|root| RootSearch::new(root, pattern, case_sensitive))
            .collect::<Result<Vec<_>, _>>()?;
        let ignored = Arc::new(AtomicU64::new(0));
        let options = WalkOptions {
            respect_git_ignore: args.flag("respect_git_ignore"),
            respect_gemini_ignore: args.flag("respect_gemini_ignore"),
            exclude_folders: EXCLUDED.map(str::to_owned).to_vec(),
            ignored: Some(ignored),
            ..WalkOptions::default()
        };
        Ok(Box::new(GlobCall {
            effects: Effects { reads: search_place.roots, ..Effects::default() },
            pattern: pattern.to_owned(),
            workspace: Arc::clone(&self.workspace),
            limit: self.limit,
            searches,
            options,
        }))
    }
}

struct GlobCall {
    pattern: String,
    workspace: Arc<Workspace>,
    limit: Duration,
    searches: Vec<RootSearch>,
    options: WalkOptions,
    effects: Effects,
}

impl Invocation for GlobCall {
    fn title(&self) -> String {
        format!("Find '{}' {}", self.pattern, describe_roots(&self.effects.reads))
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let call = *self;
            let (pattern, limit) = (call.pattern.clone(), call.limit);
            let work = move |stop: &StopSignal| {
                let mut found = GlobMatches::default();
                for search in &call.searches {
                    found.merge(search.run(&call.workspace, &call.options, stop));
                }
                let ignored = call.options.ignored.map_or(0, |count| count.load(Ordering::Relaxed));
                found.confirm(&call.workspace);
                report(found, &call.pattern, &call.effects.reads, ignored)
            };
            match run_blocking(&run.cancel, limit, work).await {
                Ok(outcome) => outcome,
                Err(SearchFailure::Cancelled) => ToolResult::text("Search was cancelled."),
                Err(SearchFailure::TimedOut) => ToolResult::failure(ToolError::new(
                    ToolErrorKind::GlobExecutionError,
                    format!(
                        "Search for \"{pattern}\" took longer than {} s and was stopped; use a \
                         smaller directory in `dir_path`",
                        limit.as_secs()
                    ),
                )),
                Err(SearchFailure::Failed) => ToolResult::failure(ToolError::new(
                    ToolErrorKind::GlobExecutionError,
                    format!("Search for \"{pattern}\" failed"),
                )),
            }
        })
    }
}

fn describe_roots(roots: &[PathBuf]) -> String {
    match roots {
        [root] => format!("within {}", printable(root)),
        roots => format!("across {} workspace directories", roots.len()),
    }
}

/// A search of one root.
struct RootSearch {
    root: PathBuf,
    matcher: GlobMatcher,
    /// The path components that every match begins with, used to skip other directories.
    prefix: Vec<String>,
    case_sensitive: bool,
}

impl RootSearch {
    fn new(root: &Path, pattern: &str, case_sensitive: bool) -> Result<Self, ToolError> {
        let relative = Path::new(pattern)
            .strip_prefix(root)
            .ok()
            .and_then(Path::to_str)
            .unwrap_or(pattern)
            .trim_start_matches("./");
        // If a file with this literal name exists, the pattern is not a glob.
        let literal =
            root.join(relative).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        let glob = if literal {
            globset::escape(relative)
        } else {
            literal_names::escape_existing(root, relative)
        };
        let matcher = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(!case_sensitive)
            .build()
            .map_err(|error| {
                invalid_params(format!("`{pattern}` is not a glob pattern: {}", error.kind()))
            })?
            .compile_matcher();
        let names: Vec<&str> = relative.split('/').collect();
        let special = |name: &&&str| !literal && name.contains(['*', '?', '[', '{', '\\', '!']);
        let fixed = names.iter().take_while(|name| !special(name)).count();
        let prefix = if relative.contains('{') && !literal {
            // An alternative may contain a separator.
            let before = relative.split('{').next().unwrap_or("").matches('/').count();
            names.iter().take(fixed.min(before)).copied().map(str::to_owned).collect()
        } else {
            names
                .iter()
                .take(fixed.min(names.len().saturating_sub(1)))
                .copied()
                .map(str::to_owned)
                .collect()
        };
        Ok(Self { root: root.to_path_buf(), matcher, prefix, case_sensitive })
    }

    /// Whether a directory may contain a match.
    fn may_contain_match(&self, relative: &Path) -> bool {
        relative.components().zip(&self.prefix).all(|(here, prefix_part)| {
            let Component::Normal(here) = here else { return true };
            let here = here.to_string_lossy();
            if self.case_sensitive {
                here == prefix_part.as_str()
            } else {
                here.to_lowercase() == prefix_part.to_lowercase()
            }
        })
    }

    fn run(&self, workspace: &Workspace, options: &WalkOptions, stop: &StopSignal) -> GlobMatches {
        let now = SystemTime::now();
        let all = Mutex::new(GlobMatches::default());
        let walker = walk(workspace, std::slice::from_ref(&self.root), options).build_parallel();
        walker.run(|| {
            let mut mine = ThreadMatches { matches: GlobMatches::default(), all: &all };
            Box::new(move |entry| {
                if stop.is_set() {
                    return WalkState::Quit;
                }
                let Ok(entry) = entry else { return WalkState::Continue };
                let Ok(relative) = entry.path().strip_prefix(&self.root) else {
                    return WalkState::Continue;
                };
                let kind = entry.file_type();
                if kind.is_some_and(|kind| kind.is_dir()) {
                    let enter = entry.depth() == 0 || self.may_contain_match(relative);
                    return if enter { WalkState::Continue } else { WalkState::Skip };
                }
                if self.matcher.is_match(relative) {
                    // A link counts as the file that it points to.
                    let is_file = kind.is_some_and(|kind| kind.is_file())
                        || kind.is_some_and(|kind| kind.is_symlink()) && entry.path().is_file();
                    if is_file {
                        let changed =
                            entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
                        mine.matches.add(FoundFile::new(entry.into_path(), changed, now));
                    }
                }
                WalkState::Continue
            })
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A found file. Files changed in the last day come first, newest first, then all others; ties are
/// sorted by path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoundFile {
    is_old: bool,
    age: Duration,
    path: PathBuf,
}

impl FoundFile {
    fn new(path: PathBuf, changed: Option<SystemTime>, now: SystemTime) -> Self {
        // A time in the future counts as now.
        let age = changed.map(|changed| now.duration_since(changed).unwrap_or_default());
        match age {
            Some(age) if age < RECENT => Self { is_old: false, age, path },
            _ => Self { is_old: true, age: Duration::ZERO, path },
        }
    }
}

/// The first matches in order, and the total count.
#[derive(Debug, Default)]
struct GlobMatches {
    hits: Vec<FoundFile>,
    count: u64,
}

impl GlobMatches {
    /// Removes paths that are not, or no longer, in the workspace.
    fn confirm(&mut self, workspace: &Workspace) {
        let before = self.hits.len();
        self.hits.retain(|hit| is_inside(workspace, &hit.path));
        self.count -= (before - self.hits.len()) as u64;
    }

    fn add(&mut self, hit: FoundFile) {
        self.hits.push(hit);
        self.count += 1;
        if self.hits.len() >= 4 * MAX_PATHS {
            self.sort_and_truncate();
        }
    }

    /// Sorts and truncates the matches.
    fn sort_and_truncate(&mut self) {
        self.hits.sort_unstable();
        // Workspace directories may be nested.
        let before = self.hits.len();
        self.hits.dedup_by(|one, other| one.path == other.path);
        self.count -= (before - self.hits.len()) as u64;
        self.hits.truncate(MAX_PATHS);
    }

    fn merge(&mut self, other: Self) {
        self.hits.extend(other.hits);
        self.count += other.count;
        self.sort_and_truncate();
    }
}

/// The matches of one thread, merged when the thread ends.
struct ThreadMatches<'a> {
    matches: GlobMatches,
    all: &'a Mutex<GlobMatches>,
}

impl Drop for ThreadMatches<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.matches);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(found);
    }
}

fn report(found: GlobMatches, pattern: &str, roots: &[PathBuf], ignored: u64) -> ToolResult {
    let searched = describe_roots(roots);
    let ignored = match ignored {
        0 => String::new(),
        count => format!(" ({count} ignored)"),
    };
    if found.count == 0 {
        return ToolResult::text(format!(
            "No files found matching pattern \"{pattern}\" {searched}{ignored}"
        ))
        .with_display(Display::text("No files found"));
    }
    let mut text = format!(
        "Found {} file(s) matching \"{pattern}\" {searched}{ignored}, sorted by modification time (newest first):",
        found.count
    );
    for hit in &found.hits {
        text.push('\n');
        text.push_str(&printable(&hit.path));
    }
    let hidden = found.count - found.hits.len() as u64;
    if hidden > 0 {
        text.push_str(&format!("\n[{hidden} more files; use a narrower pattern or `dir_path`]"));
    }
    ToolResult::text(text)
        .with_display(Display::text(format!("Found {} matching file(s)", found.count)))
}

#[cfg(test)]
mod tests;
