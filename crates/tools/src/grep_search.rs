//! `grep_search`: searches the text of files with ripgrep's libraries, on all cores, in this
//! process.
//!
//! It works in two passes: the first finds the line numbers of the matches, the second reads the
//! lines of the few files that are shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use parallax_files::Workspace;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::invalid_params;
use crate::search_scope::{SearchFailure, SearchScope, StopSignal, is_inside, run_blocking};

mod filter;
mod lines;
mod skipped;
mod sweep;

/// Default maximum number of matches.
const DEFAULT_HITS: u64 = 100;
/// Upper limit of the number of matches or names in a result.
const MAX_HITS: u64 = 10_000;
/// Maximum number of context lines on each side of a match.
const MAX_CONTEXT: u64 = 1_000;

/// The tool.
pub struct GrepSearch {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    limit: Duration,
}

impl GrepSearch {
    /// Creates the tool. `limit` is the time limit of a search.
    pub fn new(workspace: Arc<Workspace>, limit: Duration) -> Self {
        let count = |least: u64| json!({"type": "integer", "minimum": least});
        let spec = ToolSpec {
            name: "grep_search".into(),
            display_name: "SearchText".into(),
            description: include_str!("grep_search/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"},
                    "dir_path": {"type": "string", "description": "File or directory. Default: the workspace."},
                    "include_pattern": {"type": "string", "description": "Glob of files (`*.rs`)."},
                    "exclude_pattern": {"type": "string", "description": "Regex of lines to omit."},
                    "names_only": {"type": "boolean"},
                    "case_sensitive": {"type": "boolean"},
                    "fixed_strings": {"type": "boolean"},
                    "context": {"type": "integer", "minimum": 0},
                    "after": count(0),
                    "before": count(0),
                    "no_ignore": {"type": "boolean", "description": "Include ignored files."},
                    "max_matches_per_file": count(1),
                    "total_max_matches": {"type": "integer", "minimum": 1, "description": "Default 100."}
                },
                "required": ["pattern"]
            }),
            kind: ToolKind::Search,
            concurrency: Concurrency::Shared,
            aliases: ["search_file_content", "GrepTool", "RipGrepTool", "SearchText"]
                .map(str::to_owned)
                .to_vec(),
        };
        Self { spec, workspace, limit }
    }
}

/// The number of lines shown around a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContextLines {
    before: u64,
    after: u64,
}

/// What to search for and how much of it to show.
struct GrepQuery {
    pattern: String,
    matcher: RegexMatcher,
    /// Matching lines that also match this are excluded.
    exclude: Option<RegexMatcher>,
    include: Option<filter::IncludeGlob>,
    include_text: Option<String>,
    names_only: bool,
    /// `None` chooses the context by the number of matches.
    context: Option<ContextLines>,
    no_ignore: bool,
    per_file: u64,
    total: u64,
}

fn matcher(pattern: &str, case_sensitive: bool, fixed: bool) -> Result<RegexMatcher, ToolError> {
    // `$` matches before CRLF, unless the pattern itself deals with carriage returns.
    let names_return = ["\r", r"\r", r"\x0", r"\x{", r"\u"].iter().any(|it| pattern.contains(it));
    RegexMatcherBuilder::new()
        .case_insensitive(!case_sensitive)
        .fixed_strings(fixed)
        .multi_line(true)
        .crlf(!names_return)
        .line_terminator(Some(b'\n'))
        .ban_byte(Some(0))
        // Limits the memory of a pattern on each thread.
        .dfa_size_limit(16 * 1024 * 1024)
        .build(pattern)
        .map_err(|error| {
            invalid_params(format!(
                "Invalid regular expression `{pattern}`: {error} (Rust syntax; matches cannot span \
                 lines; `fixed_strings` searches for plain text)"
            ))
        })
}

impl Tool for GrepSearch {
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
        if pattern.is_empty() {
            return Err(invalid_params("The `pattern` parameter must not be empty"));
        }
        let case_sensitive = args.flag("case_sensitive").unwrap_or(false);
        let provided = |name| args.optional_text(name).filter(|text| !text.is_empty());
        let search_place = SearchScope::find(&self.workspace, provided("dir_path"))?;
        if provided("dir_path").is_some() {
            search_place.check_hidden_from_agents(&self.workspace)?;
        }
        let names_only = args.flag("names_only").unwrap_or(false);
        let [context, before, after] =
            ["context", "before", "after"].map(|name| args.integer(name));
        let lines = |own: Option<u64>| own.or(context).unwrap_or(0).min(MAX_CONTEXT);
        let named = context.or(before).or(after).is_some();
        let include = provided("include_pattern");
        let first_root = search_place.roots.first().map_or(Path::new(""), PathBuf::as_path);
        let total = args.integer("total_max_matches").unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let per_file = args.integer("max_matches_per_file").unwrap_or(u64::MAX).max(1);
        let query = GrepQuery {
            pattern: pattern.to_owned(),
            matcher: matcher(pattern, case_sensitive, args.flag("fixed_strings").unwrap_or(false))?,
            exclude: provided("exclude_pattern")
                .map(|exclude| matcher(exclude, case_sensitive, false))
                .transpose()?,
            include: include
                .map(|text| filter::IncludeGlob::new(first_root, text))
                .transpose()
                .map_err(invalid_params)?,
            include_text: include.map(str::to_owned),
            names_only,
            context: named.then(|| ContextLines { before: lines(before), after: lines(after) }),
            no_ignore: args.flag("no_ignore").unwrap_or(false),
            per_file: if names_only { 1 } else { per_file.min(total) },
            total,
        };
        let words = match provided("dir_path") {
            Some(path) => format!("in path \"{path}\""),
            None if search_place.roots.len() > 1 => {
                format!("across {} workspace directories", search_place.roots.len())
            }
            None => "in the workspace directory".to_owned(),
        };
        Ok(Box::new(GrepSearchCall {
            effects: Effects { reads: search_place.roots.clone(), ..Effects::default() },
            words,
            workspace: Arc::clone(&self.workspace),
            limit: self.limit,
            search_place,
            query,
        }))
    }
}

struct GrepSearchCall {
    query: GrepQuery,
    search_place: SearchScope,
    /// A description of the searched place.
    words: String,
    workspace: Arc<Workspace>,
    limit: Duration,
    effects: Effects,
}

impl Invocation for GrepSearchCall {
    fn title(&self) -> String {
        let include = self.query.include_text.as_ref().map(|glob| format!(" in {glob}"));
        format!("'{}'{} {}", self.query.pattern, include.unwrap_or_default(), self.words)
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let (pattern, words, limit) =
                (self.query.pattern.clone(), self.words.clone(), self.limit);
            let failure = |message| {
                ToolResult::failure(ToolError::new(ToolErrorKind::GrepExecutionError, message))
            };
            let search = move |stop: &StopSignal| self.search(stop);
            match run_blocking(&run.cancel, limit, search).await {
                Ok(outcome) => outcome,
                Err(SearchFailure::Cancelled) => ToolResult::text("Search was cancelled."),
                Err(SearchFailure::TimedOut) => failure(format!(
                    "Search for \"{pattern}\" {words} took longer than {} s and was stopped; narrow it with `dir_path` or `include_pattern`",
                    limit.as_secs()
                )),
                Err(SearchFailure::Failed) => {
                    failure(format!("Search for \"{pattern}\" {words} failed"))
                }
            }
        })
    }
}

impl GrepSearchCall {
    fn search(&self, stop: &StopSignal) -> ToolResult {
        let query = &self.query;
        let (mut files, skipped) =
            sweep::search_tree(&self.workspace, &self.search_place.roots, query, stop);
        let skipped = skipped.note(&self.search_place);
        // A directory that was replaced by a link during the walk could lead outside of the
        // workspace.
        files.retain(|file| is_inside(&self.workspace, file.path()));
        let filter = match &query.include_text {
            Some(glob) => format!(" (filter: \"{glob}\")"),
            None => String::new(),
        };
        let (pattern, words) = (&query.pattern, &self.words);
        let count: u64 = files.iter().map(|file| file.hits.len() as u64).sum();
        if count == 0 {
            return ToolResult::text(format!(
                "No matches found for pattern \"{pattern}\" {words}{filter}.{skipped}"
            ))
            .with_display(Display::text("No matches found"))
            .with_hook_display(json!({"summary": "No matches found", "matches": []}));
        }
        let limited = if count >= query.total {
            format!(" (results limited to {} matches for performance)", query.total)
        } else {
            String::new()
        };
        let summary = if limited.is_empty() { "" } else { " (limited)" };
        if query.names_only {
            let noun = if count == 1 { "file" } else { "files" };
            let names: Vec<String> =
                files.iter().map(|file| self.search_place.name(file.path())).collect();
            let text = format!(
                "Found {count} {noun} with matches for pattern \"{pattern}\" {words}{filter}{limited}:\n{}{skipped}",
                names.join("\n")
            );
            let summary = format!("Found {count} {noun}{summary}");
            let listed = json!({"summary": summary, "matches": []});
            return ToolResult::text(text)
                .with_display(Display::text(summary))
                .with_hook_display(listed);
        }
        let noun = if count == 1 { "match" } else { "matches" };
        let mut text = format!(
            "Found {count} {noun} for pattern \"{pattern}\" {words}{filter}{limited}:\n---\n"
        );
        // With few matches, context saves the model a read call.
        let lines = |lines| ContextLines { before: lines, after: lines };
        let context = query.context.unwrap_or(match count {
            1 => lines(50),
            2 | 3 => lines(15),
            _ => lines(0),
        });
        let mut matches = Vec::new();
        for (index, file) in files.iter().enumerate() {
            if text.len() > lines::MAX_OUTPUT {
                text.push_str(&format!(
                    "[{} more files with matches are not shown; narrow the search]\n",
                    files.len() - index
                ));
                break;
            }
            let name = self.search_place.name(file.path());
            text.push_str(&format!("File: {name}\n"));
            let shown = lines::append(&mut text, file, &query.matcher, context, stop);
            matches.extend(shown.into_iter().map(|(number, line)| {
                json!({
                    "filePath": name, "absolutePath": file.path().to_string_lossy(),
                    "lineNumber": number, "line": line,
                })
            }));
            text.push_str("---\n");
        }
        let summary = format!("Found {count} {noun}{summary}");
        let listed = json!({"summary": summary, "matches": matches});
        let text = format!("{}{skipped}", text.trim_end());
        ToolResult::text(text).with_display(Display::text(summary)).with_hook_display(listed)
    }
}

#[cfg(test)]
mod tests;
