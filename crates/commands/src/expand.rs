//! Expands `@path` in prompts: the text is kept, and the referenced content is attached.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_files::{Access, PathError, SeenFiles, Workspace};
use parallax_mcp::Servers;
use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Part, PartView};
use parallax_protocol::context::FolderContext;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::Prompt;
use parallax_sessions::recorded_items::READ_FILES;
use parallax_tools::read_many_files::{ReadRequest, is_valid_glob, read_many};

use crate::StartableAgents;
use crate::at_globs::literal_part;
use crate::at_paths::{AtToken, is_cjk, tokens};
use crate::word_ends::closes;

/// Expands `@path` references. Cheap to clone.
#[derive(Clone)]
pub struct Expander {
    pub workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
    servers: Option<Servers>,
    agents: Option<Arc<dyn StartableAgents>>,
    context: Option<Arc<dyn FolderContext>>,
    search: FileSearch,
}

/// How files are found by a part of their name (`context.fileFiltering.enableRecursiveFileSearch`,
/// `.enableFuzzySearch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSearch {
    /// Whether to search the whole project rather than only the typed directory.
    pub recursive: bool,
    /// Whether letters may match with gaps rather than as a contiguous part of the path.
    pub is_fuzzy: bool,
}

impl Default for FileSearch {
    fn default() -> Self {
        Self { recursive: true, is_fuzzy: true }
    }
}

impl Expander {
    pub fn new(
        workspace: &Arc<Workspace>,
        seen: &Arc<SeenFiles>,
        servers: Option<Servers>,
    ) -> Self {
        let (workspace, seen_files) = (Arc::clone(workspace), Arc::clone(seen));
        Self {
            workspace,
            seen_files,
            servers,
            agents: None,
            context: None,
            search: FileSearch::default(),
        }
    }

    /// Sets the file search options.
    pub fn with_search(self, search: FileSearch) -> Self {
        Self { search, ..self }
    }

    /// Returns the file search options.
    pub fn file_search(&self) -> FileSearch {
        self.search
    }

    /// Sets the agents that a prompt may name.
    pub fn with_agents(self, agents: Option<Arc<dyn StartableAgents>>) -> Self {
        Self { agents, ..self }
    }

    /// Sets the source of context files for referenced directories.
    pub fn with_folder_context(self, found: Arc<dyn FolderContext>) -> Self {
        Self { context: Some(found), ..self }
    }

    /// Returns a prompt with its references expanded. Reads files: must be called on a blocking
    /// thread of a runtime. A reference that is neither a workspace path nor a resource
    /// (`server:uri`) stays text.
    ///
    /// # Errors
    /// Returns an error if a resource cannot be read. A file that cannot be read is a notice.
    pub fn prompt(&self, text: String) -> Result<Prompt, Failure> {
        let mut include = Vec::new();
        let mut resources: Vec<(String, String)> = Vec::new();
        let mut agents: Vec<String> = Vec::new();
        let mut missing: Vec<String> = Vec::new();
        for token in tokens(&text) {
            if token.is_enclosed {
                if let Some(path) = self.enclosed_file(&text, &token)
                    && !include.contains(&path)
                {
                    include.push(path);
                }
            } else if self.agents.as_ref().is_some_and(|agents| agents.has(&token.path)) {
                if !agents.contains(&token.path) {
                    agents.push(token.path);
                }
            } else if let Some(resource) = self.resource(&token.path)? {
                if !resources.iter().any(|(known, _)| *known == token.path) {
                    resources.push((token.path, resource));
                }
            } else if let Some(pattern) = self.find_mention(&text, &token) {
                if !include.contains(&pattern) {
                    include.push(pattern);
                }
            } else {
                let word = referenced_word(&text, &token);
                let is_glob_path = token.glob.as_deref().is_some_and(looks_like_glob);
                if (looks_like_path(&token.path) || is_glob_path) && !missing.contains(&word) {
                    missing.push(word);
                }
            }
        }
        let not_found = |path: &String| match self.workspace.resolve(path, Access::Read) {
            Err(PathError::Protected { segment, .. }) => {
                format!("`@{path}` was not read: `{segment}` is protected from tools")
            }
            _ => format!("`@{path}` was not found; the text was sent as is"),
        };
        let missing = missing.iter().map(not_found);
        let text = text.replace("\\@", "@");
        if include.is_empty() {
            let mut attachments = enclose(resource_parts(resources));
            attachments.extend(delegation(&agents));
            let notices = missing.collect();
            return Ok(Prompt { text, attachments, notices, ..Prompt::default() });
        }
        let mut notices = Vec::new();
        let selection = ReadRequest::for_paths(include.clone());
        let never = CancellationToken::new();
        let read = read_many(&self.workspace, &self.seen_files, &selection, &never)
            .map_err(|error| Failure::new(FailureKind::Input, error.message))?;
        let size: usize = read.files.iter().map(|file| size_of(&file.part)).sum();
        if read.files.len() > 1 && size >= LARGE {
            let named: Vec<String> = include.iter().map(|name| format!("`@{name}`")).collect();
            notices.push(format!(
                "{} adds {} files with about {} tokens to the conversation",
                named.join(", "),
                read.files.len(),
                size / BYTES_PER_TOKEN
            ));
        }
        let (shown, skipped): (Vec<_>, Vec<_>) =
            read.skipped.into_iter().partition(|(_, reason)| reason.starts_with(CANNOT_DISPLAY));
        for (path, reason) in &skipped {
            if self.is_referenced(path, reason, &include) {
                let path = self.workspace.relative(path);
                notices.push(format!("`@{}` was not read: {reason}", path.display()));
            }
        }
        let unmatched = read.unmatched_patterns.iter().filter(|pattern| looks_like_glob(pattern));
        notices.extend(unmatched.map(|pattern| match pattern.strip_suffix('/') {
            Some(_) => format!("`@{pattern}` added no files: it contains none, or all are ignored"),
            None => format!("`@{pattern}` matches no file; the text was sent as is"),
        }));
        notices.extend(missing);
        let mut attachments = resource_parts(resources);
        // Adds nested context files, as a reading tool would.
        let touched: Vec<PathBuf> = read.files.iter().map(|file| file.path.clone()).collect();
        let context =
            self.context.as_ref().and_then(|context| context.send(context.find(&touched)));
        for file in read.files {
            let relative = self.workspace.relative(&file.path);
            attachments.push(Part::text(format!("\nContent from @{}:\n", relative.display())));
            match file.part.view() {
                PartView::Text("") => attachments.push(Part::text("(empty file)")),
                _ => attachments.push(file.part),
            }
        }
        for (path, reason) in shown {
            let path = self.workspace.relative(&path);
            attachments.push(Part::text(format!("\nContent from @{}:\n", path.display())));
            attachments.push(Part::text(reason));
        }
        let mut attachments = enclose(attachments);
        attachments.extend(context.map(Part::text));
        attachments.extend(delegation(&agents));
        Ok(Prompt { text, attachments, notices, ..Prompt::default() })
    }

    /// Returns the existing files and directories outside the workspace that a prompt references.
    /// The user may allow reading them ([`Self::allow`]).
    pub fn paths_outside_workspace(&self, text: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        // Paths in quotes and code are often not meant as references.
        for token in tokens(text).into_iter().filter(|token| !token.is_enclosed) {
            let path = match (token.path.strip_prefix("~/"), std::env::home_dir()) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => self.workspace.root().join(&token.path),
            };
            let named = path.to_string_lossy();
            let is_outside = matches!(
                self.workspace.resolve(&named, Access::Read),
                Err(PathError::Outside { .. })
            );
            if is_outside
                && let Ok(real) = path.canonicalize()
                && !found.contains(&real)
            {
                found.push(real);
            }
        }
        found
    }

    /// Allows reading a path outside the workspace for the rest of the session.
    pub fn allow(&self, path: &Path) {
        self.workspace.allow_reading(path);
    }

    /// Returns the text of a resource, if the path names a server.
    fn resource(&self, path: &str) -> Result<Option<String>, Failure> {
        let Some(servers) = &self.servers else { return Ok(None) };
        let Some((server, uri)) = servers.resource_address(path) else { return Ok(None) };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Ok(None) };
        let text = runtime.block_on(servers.read_resource(&server, uri));
        text.map(Some).map_err(|message| Failure::new(FailureKind::Input, message))
    }

    /// Returns the existing file that a reference in quotes, code, or behind another mark names:
    /// the word, the text up to the closing quote, or the word without a line number or a mark.
    fn enclosed_file(&self, text: &str, token: &AtToken) -> Option<String> {
        /// Maximum bytes of a path with spaces.
        const MAX_BYTES: usize = 200;
        if self.names_file(&token.path) {
            return Some(token.path.clone());
        }
        let mark = text.get(..token.range.start)?.chars().next_back()?;
        let rest = text.get(token.range.start + 1..)?.lines().next()?;
        let quoted =
            rest.split(mark).next().filter(|quoted| quoted.len() < rest.len().min(MAX_BYTES));
        if let Some(path) = quoted.filter(|path| self.names_file(path)) {
            return Some(path.to_owned());
        }
        let is_border =
            |letter: char| matches!(letter, ':' | '#' | '\'' | '’' | '_' | '~' | '*' | '-');
        let borders = token.path.char_indices().rev().filter(|(_, letter)| is_border(*letter));
        let mut starts = borders.take(MAX_BORDERS).filter_map(|(at, _)| token.path.get(..at));
        starts.find(|start| self.names_file(start)).map(str::to_owned)
    }

    /// Whether a word looks like a path, or like a name such as `Makefile`, and is the path of a
    /// file.
    fn names_file(&self, word: &str) -> bool {
        let looks_like_name =
            word.starts_with(|letter: char| letter.is_uppercase() || letter == '.');
        let looks = looks_like_path(word) || looks_like_name;
        let resolved = self.workspace.resolve(word, Access::Read);
        looks && resolved.is_ok_and(|resolved| resolved.path().is_file())
    }

    /// Returns the path or glob pattern of a reference outside quotes and code.
    fn find_mention(&self, text: &str, token: &AtToken) -> Option<String> {
        if let Some(path) = self.with_punctuation(text, token) {
            return Some(path);
        }
        let names_existing_file = || {
            let resolved = self.workspace.resolve(&token.path, Access::Read).ok()?;
            resolved.path().is_file().then(|| token.path.clone())
        };
        match &token.glob {
            Some(glob) => {
                // `@a.py[1]` is the file, unless one has the whole name.
                let is_alternative = glob.get(token.path.len()..)?.starts_with('{');
                let file = names_existing_file().filter(|_| !is_alternative);
                file.or_else(|| self.pattern(glob, false))
            }
            None if continues_word(text, token) => names_existing_file(),
            None => {
                // Pasted code names annotations and variables; typed prompts are mostly one line.
                let is_one_line = text.trim().lines().count() == 1;
                self.pattern_at_start(&token.path, is_one_line)
            }
        }
    }

    /// Returns the path of an existing file whose name continues with the punctuation at which a
    /// reference ends.
    fn with_punctuation(&self, text: &str, token: &AtToken) -> Option<String> {
        let rest = text.get(token.range.end..)?;
        if !rest.starts_with(closes) || rest.starts_with(char::is_whitespace) {
            return None;
        }
        let word = rest.split(char::is_whitespace).next().unwrap_or_default();
        let ends = word.char_indices().map(|(offset, letter)| offset + letter.len_utf8());
        let ends: Vec<usize> = ends.take(MAX_BORDERS).collect();
        ends.into_iter().rev().find_map(|end| {
            let path = format!("{}{}", token.path, word.get(..end)?);
            let resolved = self.workspace.resolve(&path, Access::Read).ok()?;
            // `@app/(group)/new.tsx`, which does not exist, does not mean all of `app/(group)`.
            let behind = word.get(end..)?;
            let is_above = if path.ends_with('/') {
                !behind.is_empty()
            } else {
                behind.strip_prefix('/').is_some_and(|name| !name.is_empty())
            };
            match resolved.path() {
                real if real.is_dir() && is_above => None,
                real if real.is_dir() => Some(format!("{}/", path.trim_end_matches('/'))),
                real if real.exists() => Some(path),
                _ => None,
            }
        })
    }

    /// Like [`Self::pattern`], but text may follow the path without a space: in some scripts, as a
    /// line number, or as punctuation. The longest existing prefix is used.
    fn pattern_at_start(&self, path: &str, searches: bool) -> Option<String> {
        if let Some(pattern) = self.pattern(path, searches) {
            return Some(pattern);
        }
        let is_border = |letter: char| {
            is_cjk(letter) || matches!(letter, ':' | '#' | '\'' | '’' | '…' | '—' | '–')
        };
        let borders = path.char_indices().rev().filter(|(_, letter)| is_border(*letter));
        borders.take(MAX_BORDERS).find_map(|(at, _)| {
            let start = path.get(..at)?.trim_end_matches(['.', ':']);
            let resolved = self.workspace.resolve(start, Access::Read).ok()?;
            let is_there = !start.is_empty() && resolved.path().exists();
            is_there.then(|| self.pattern(start, false)).flatten()
        })
    }

    /// Returns the path or glob pattern of a reference, or `None` if nothing matches. With
    /// `searches`, a bare name may match anywhere below the root.
    fn pattern(&self, path: &str, searches: bool) -> Option<String> {
        if let Ok(confined) = self.workspace.resolve(path, Access::Read) {
            let real = confined.path();
            if real.is_dir() {
                return Some(format!("{}/", path.trim_end_matches('/')));
            }
            if real.exists() {
                return Some(path.to_owned());
            }
        } else {
            return None;
        }
        if path.contains(['*', '?', '[', '{']) {
            return (looks_like_glob(path) && is_valid_glob(path)).then(|| path.to_owned());
        }
        if !searches || path.contains('/') || path.len() < 3 || !self.search.recursive {
            return None;
        }
        self.search(path)
    }

    /// Returns the first file named `name` below the root. Otherwise, returns the first file or
    /// directory whose name contains it, preferring names that start with it.
    fn search(&self, name: &str) -> Option<String> {
        let root = self.workspace.root().to_owned();
        let options = parallax_files::WalkOptions::default();
        let walk = parallax_files::walk(&self.workspace, std::slice::from_ref(&root), &options);
        let mut best: Option<(bool, String)> = None;
        for entry in walk.build().flatten().take(SEARCHED) {
            let found = entry.file_name().to_string_lossy();
            let Some(offset) = found.find(name).filter(|_| entry.depth() > 0) else { continue };
            let path = || entry.path().display().to_string();
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            if found == name && !is_directory {
                return Some(path());
            }
            let starts = offset == 0;
            if best.as_ref().is_none_or(|(better, _)| starts && !better) {
                let shown = path();
                best = Some((starts, if is_directory { format!("{shown}/") } else { shown }));
            }
        }
        best.map(|(_, path)| path)
    }

    /// Whether a path that was skipped is referenced directly. Ignored files are skipped silently.
    fn is_referenced(&self, path: &Path, reason: &str, include: &[String]) -> bool {
        let is_it = |pattern: &String| {
            let named = self.workspace.resolve(pattern, Access::Read);
            named.is_ok_and(|named| named.path() == path || named.display_path() == path)
        };
        !reason.contains("ignore") && include.iter().any(is_it)
    }
}

/// Whether a word continues after the path that was read from it, with a character that ends a
/// reference: `@src/{a,b}.rs` does not mean all of `src`, nor `@component(name)` a directory.
fn continues_word(text: &str, token: &AtToken) -> bool {
    let rest = text.get(token.range.end..).unwrap_or_default();
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let is_in_path = token.path.ends_with('/') || token.path.contains('/');
    let continues = match word.chars().next() {
        Some('[' | '{') => true,
        Some('?' | '!') => {
            word.trim_start_matches(['?', '!']).starts_with(|it| !closes(it)) || {
                word.starts_with("!(")
            }
        }
        // `@src(see below)` names `src`.
        Some('(') => is_in_path,
        Some('<') => is_in_path && !word.starts_with("<br") && !word.starts_with("</"),
        _ => false,
    };
    continues && word.contains(char::is_alphanumeric)
}

/// Returns the word of a reference that was not found, without the punctuation behind it.
fn referenced_word(text: &str, token: &AtToken) -> String {
    if let Some(glob) = &token.glob {
        return glob.clone();
    }
    if !continues_word(text, token) {
        return token.path.clone();
    }
    let rest = text.get(token.range.end..).unwrap_or_default();
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_end_matches([',', ';', '.', ':', '!', '?', '"', '`', '\'']);
    let end = word.char_indices().nth(MAX_REST_LENGTH).map_or(word.len(), |(offset, _)| offset);
    format!("{}{}", token.path, word.get(..end).unwrap_or_default())
}

/// Maximum number of positions in text without spaces at which a path is assumed to end.
const MAX_BORDERS: usize = 64;
/// Maximum characters behind a path that are shown for a reference that was not found.
const MAX_REST_LENGTH: usize = 80;
/// Size in bytes above which attached content is reported.
const LARGE: usize = 80_000;
const BYTES_PER_TOKEN: usize = 4;
/// Number of attached tokens above which the user must confirm.
const CONFIRMED: usize = 100_000;

fn size_of(part: &Part) -> usize {
    match part.view() {
        PartView::Text(text) => text.len(),
        PartView::Inline { data, .. } => data.len(),
        _ => 0,
    }
}

/// Returns the approximate number of attached tokens if the user should confirm the prompt.
pub fn tokens_to_confirm(prompt: &Prompt) -> Option<usize> {
    let tokens = prompt.attachments.iter().map(size_of).sum::<usize>() / BYTES_PER_TOKEN;
    (tokens > CONFIRMED).then_some(tokens)
}

/// Returns whether a word after `@` looks like a path: it contains a slash or has a file extension.
/// `@name` may be a user name.
fn looks_like_path(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|it| it.1);
    let has_extension = extension.is_some_and(|extension| {
        (1..=8).contains(&extension.len())
            && extension.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && extension.chars().all(|letter| letter.is_ascii_alphanumeric())
    });
    // `@scope/package@1.2` is a package.
    let is_package = word.contains('@');
    (word.contains('/') || has_extension) && !is_package && !word.contains("://")
}

/// Whether a word with wildcards looks like a path rather than an expression of pasted code.
fn looks_like_glob(word: &str) -> bool {
    word.contains('*') || looks_like_path(&literal_part(word))
}

/// Asks the model to delegate the work to the agents named in the prompt.
pub fn delegation(agents: &[String]) -> Option<Part> {
    if agents.is_empty() {
        return None;
    }
    let names: Vec<String> = agents.iter().map(|name| format!("`{name}`")).collect();
    Some(Part::text(format!(
        "\n<system_note>\nThe user mentioned the subagent(s) {} in this prompt: delegate the work \
         to them with `invoke_agent`.\n</system_note>\n",
        names.join(", ")
    )))
}

fn resource_parts(resources: Vec<(String, String)>) -> Vec<Part> {
    let parts = |(name, text)| [Part::text(format!("\nContent from @{name}:\n")), Part::text(text)];
    resources.into_iter().flat_map(parts).collect()
}

/// Puts contents between marker lines; returns nothing if there are none.
fn enclose(contents: Vec<Part>) -> Vec<Part> {
    if contents.is_empty() {
        return contents;
    }
    let mut attachments = vec![Part::text(READ_FILES)];
    attachments.extend(contents);
    attachments.push(Part::text("\n--- End of content ---"));
    attachments
}

/// Start of the content that the reader returns for binary files.
const CANNOT_DISPLAY: &str = "Cannot display content";

/// Maximum number of entries searched for a bare name.
const SEARCHED: usize = 20_000;
