//! `read_many_files`: reads all files that paths and globs name. Not declared to the main agent;
//! `@path` in prompts uses it.

mod gather;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::{SeenFiles, Workspace};
use parallax_protocol::content::{Part, PartView};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, CancellationToken, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::failure::invalid_params;
use crate::kind::FileKind;
use crate::read_file::{Range, ReadResult, read};
use gather::{CollectedFiles, collect_files};

/// Maximum text of all files together in bytes; files beyond it are skipped with a reason.
const MAX_TEXT: usize = 4 * 1024 * 1024;
/// Maximum media of all files together in bytes of base64.
const MAX_MEDIA: usize = 24 * 1024 * 1024;

/// The files to read.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// Paths and globs, relative to a workspace directory or absolute.
    pub include: Vec<String>,
    /// Globs to exclude.
    pub exclude: Vec<String>,
    /// Whether the usual directories and binary files are excluded.
    pub use_default_excludes: bool,
    /// Override of `respectGitIgnore`.
    pub respect_git_ignore: Option<bool>,
    /// Override of `respectGeminiIgnore`.
    pub respect_gemini_ignore: Option<bool>,
    /// Names of context files, which the model already has (`GEMINI.md`).
    pub context_names: Vec<String>,
}

impl ReadRequest {
    /// Creates a request for the given paths and globs with the default filters.
    pub fn for_paths(include: Vec<String>) -> Self {
        Self {
            include,
            exclude: Vec::new(),
            use_default_excludes: true,
            respect_git_ignore: None,
            respect_gemini_ignore: None,
            context_names: Vec::new(),
        }
    }
}

/// A file that was read.
#[derive(Debug, Clone)]
pub struct IncludedFile {
    /// The absolute path.
    pub path: PathBuf,
    /// The content: text or media.
    pub part: Part,
    /// Whether its text is truncated.
    pub is_truncated: bool,
}

/// The result of reading the files.
#[derive(Debug, Clone, Default)]
pub struct ReadManyResult {
    /// The files read, sorted by path.
    pub files: Vec<IncludedFile>,
    /// The skipped files, with reasons.
    pub skipped: Vec<(PathBuf, String)>,
    /// The patterns that match no file.
    pub unmatched_patterns: Vec<String>,
    /// The Markdown list shown to the user.
    pub display: String,
}

impl ReadManyResult {
    /// Returns the parts for the model: each text preceded by a line that names the file, media
    /// unchanged, and an end marker.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for file in &self.files {
            match file.part.view() {
                PartView::Text(text) => {
                    let warning = if file.is_truncated {
                        "[WARNING: This file was truncated. To see all of it, read it with `read_file`.]\n\n"
                    } else {
                        ""
                    };
                    parts.push(Part::text(format!(
                        "--- {} ---\n\n{warning}{text}\n\n",
                        file.path.display()
                    )));
                }
                _ => parts.push(file.part.clone()),
            }
        }
        if parts.is_empty() {
            return vec![Part::text(
                "No files matching the criteria were found or all were skipped.",
            )];
        }
        parts.push(Part::text("\n--- End of content ---"));
        parts
    }
}

/// Whether a glob can be compiled.
pub fn is_valid_glob(pattern: &str) -> bool {
    gather::is_valid(pattern)
}

/// Reads all requested files. Blocking; stops when cancelled.
///
/// # Errors
/// Returns an error if a glob is invalid or the call was cancelled. A file that cannot be read is
/// skipped with a reason.
pub fn read_many(
    workspace: &Workspace,
    seen_files: &SeenFiles,
    selection: &ReadRequest,
    cancel: &CancellationToken,
) -> Result<ReadManyResult, ToolError> {
    let CollectedFiles { files, skipped, unmatched_patterns } =
        collect_files(workspace, selection, cancel)?;
    let mut result = ReadManyResult { skipped, unmatched_patterns, ..ReadManyResult::default() };
    let (mut text_left, mut media_left) = (MAX_TEXT, MAX_MEDIA);
    for (path, target) in files {
        if cancel.is_cancelled() {
            return Err(ToolError::new(
                ToolErrorKind::ExecutionFailed,
                "[Operation Cancelled] Reading the files was cancelled",
            ));
        }
        if FileKind::is_named_like_media(&path) && is_unrequested_media(&path, selection) {
            result.skipped.push((path, UNWANTED_MEDIA.to_owned()));
            continue;
        }
        match read(workspace, seen_files, &target, Range::default(), cancel) {
            Err(error) => result.skipped.push((path, error.message)),
            Ok(ReadResult::Refused(reason)) => result.skipped.push((path, reason)),
            Ok(ReadResult::Text { header, text, cut: is_truncated, .. }) => {
                if text.len() > text_left {
                    result.skipped.push((path, "the total size limit is reached".to_owned()));
                    continue;
                }
                text_left -= text.len();
                let text = match header {
                    Some(header) => format!("{header}\n---\n{text}"),
                    None => text,
                };
                result.files.push(IncludedFile { path, part: Part::text(text), is_truncated });
            }
            Ok(ReadResult::Media(_)) if is_unrequested_media(&path, selection) => {
                result.skipped.push((path, UNWANTED_MEDIA.to_owned()));
            }
            Ok(ReadResult::Media(part)) => {
                let size = match part.view() {
                    PartView::Inline { data, .. } => data.len(),
                    _ => 0,
                };
                if size > media_left {
                    result.skipped.push((path, "the total size limit is reached".to_owned()));
                    continue;
                }
                media_left -= size;
                result.files.push(IncludedFile { path, part, is_truncated: false });
            }
        }
    }
    result.display = display(workspace, &result);
    Ok(result)
}

/// The reason for skipping media.
const UNWANTED_MEDIA: &str =
    "an image, PDF, audio or video file that was not named by name or extension";

/// Whether the file is media that no pattern requests by extension or base name.
fn is_unrequested_media(path: &Path, selection: &ReadRequest) -> bool {
    let lower = |text: Option<&std::ffi::OsStr>| {
        text.map(|text| text.to_string_lossy().to_lowercase()).unwrap_or_default()
    };
    let (extension, stem) = (lower(path.extension()), lower(path.file_stem()));
    !selection.include.iter().any(|pattern| {
        let pattern = pattern.to_lowercase();
        // `{png,jpg}` names extensions, too.
        let is_alternative = || {
            pattern.contains('{')
                && pattern.split(['{', ',', '}']).skip(1).any(|it| it == extension)
        };
        let is_extension = || pattern.contains(&format!(".{extension}")) || is_alternative();
        (!extension.is_empty() && is_extension()) || pattern.contains(&stem)
    })
}

/// Formats a Markdown list of the first ten files and the first five skipped ones.
fn display(workspace: &Workspace, result: &ReadManyResult) -> String {
    let name = |path: &Path| format!("`{}`", workspace.relative(path).display());
    let mut text = format!("### ReadManyFiles Result\n\n{} file(s) read", result.files.len());
    text.push_str(if result.files.is_empty() { ".\n" } else { ":\n" });
    for file in result.files.iter().take(10) {
        text.push_str(&format!("- {}\n", name(&file.path)));
    }
    if result.files.len() > 10 {
        text.push_str(&format!("- … and {} more\n", result.files.len() - 10));
    }
    if !result.skipped.is_empty() {
        text.push_str(&format!("\n{} skipped:\n", result.skipped.len()));
        for (path, reason) in result.skipped.iter().take(5) {
            let reason: String =
                reason.lines().next().unwrap_or_default().chars().take(200).collect();
            text.push_str(&format!("- {} ({reason})\n", name(path)));
        }
        if result.skipped.len() > 5 {
            text.push_str(&format!("- … and {} more\n", result.skipped.len() - 5));
        }
    }
    text
}

/// The tool, for agents that list it explicitly.
pub struct ReadManyFiles {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
    context_names: Vec<String>,
}

impl ReadManyFiles {
    /// Creates the tool. `context_names` are the names of context files, which are excluded by
    /// default.
    pub fn new(
        workspace: Arc<Workspace>,
        seen_files: Arc<SeenFiles>,
        context_names: Vec<String>,
    ) -> Self {
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let spec = ToolSpec {
            name: "read_many_files".into(),
            display_name: "ReadManyFiles".into(),
            description: include_str!("read_many_files/description.md").trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "include": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "description": "Paths or globs."},
                    "exclude": texts,
                    "recursive": {"type": "boolean"},
                    "useDefaultExcludes": {"type": "boolean", "description": "Default true."},
                    "file_filtering_options": {
                        "type": "object",
                        "properties": {
                            "respect_git_ignore": {"type": "boolean"},
                            "respect_gemini_ignore": {"type": "boolean"}
                        }
                    }
                },
                "required": ["include"]
            }),
            kind: ToolKind::Read,
            concurrency: Concurrency::Shared,
            aliases: vec!["ReadManyFilesTool".into()],
        };
        Self { spec, workspace, seen_files, context_names }
    }
}

impl Tool for ReadManyFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let owned =
            |name| args.strings(name).into_iter().map(str::to_owned).collect::<Vec<String>>();
        let mut request = ReadRequest::for_paths(owned("include"));
        if request.include.iter().any(|pattern| pattern.trim().is_empty()) {
            return Err(invalid_params("`include` must not contain empty patterns"));
        }
        request.exclude = owned("exclude");
        request.use_default_excludes = args.flag("useDefaultExcludes").unwrap_or(true);
        request.context_names = self.context_names.clone();
        if let Some(options) = args.object("file_filtering_options") {
            request.respect_git_ignore = options.flag("respect_git_ignore");
            request.respect_gemini_ignore = options.flag("respect_gemini_ignore");
        }
        Ok(Box::new(ReadManyFilesCall {
            effects: Effects { reads: self.workspace.roots(), ..Effects::default() },
            request,
            workspace: Arc::clone(&self.workspace),
            seen_files: Arc::clone(&self.seen_files),
        }))
    }
}

struct ReadManyFilesCall {
    request: ReadRequest,
    effects: Effects,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
}

impl Invocation for ReadManyFilesCall {
    fn title(&self) -> String {
        format!("Read {}", self.request.include.join(", "))
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(blocking(run.cancel, move |cancel| {
            match read_many(&self.workspace, &self.seen_files, &self.request, cancel) {
                Ok(result) => outcome(&result),
                Err(error) => ToolResult::failure(error),
            }
        }))
    }
}

fn outcome(result: &ReadManyResult) -> ToolResult {
    let mut outcome =
        ToolResult::text(String::new()).with_display(Display::text(result.display.clone()));
    for part in result.parts() {
        match part.view() {
            PartView::Text(text) => outcome.for_model.output.push_str(text),
            _ => outcome.for_model.media.push(part),
        }
    }
    outcome
}
