//! Nested context files: read when a tool first touches something in their directory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_config::{MemoryFile, collect_upwards};
use parallax_files::Workspace;
use parallax_protocol::content::SealedContent;
use parallax_protocol::context::{FolderContext, FoundContextFile};

use crate::initial_context::{OutsideFiles, with_options};
use crate::{ContextSources, WarnFn};

const BEGIN: &str = "--- Newly Discovered Project Context ---";
const END: &str = "--- End Project Context ---";

/// The nested context files that a session has received.
pub struct NestedContext {
    sources: ContextSources,
    workspace: Arc<Workspace>,
    /// Files that were sent with the first prompt.
    initial_files: Vec<PathBuf>,
    files: Mutex<Vec<MemoryFile>>,
    /// Receives warnings about unusable files, each once.
    warn: WarnFn,
    reported: Arc<Mutex<HashSet<String>>>,
}

impl NestedContext {
    /// Creates it for a session whose first prompt included these files.
    pub fn new(
        sources: ContextSources,
        workspace: Arc<Workspace>,
        begun_with: Vec<PathBuf>,
        warn: WarnFn,
    ) -> Self {
        // Tools report resolved paths.
        let initial_files = begun_with.iter().map(|path| resolve_links(path)).collect();
        let (files, reported) = (Mutex::default(), Arc::default());
        Self { sources, workspace, initial_files, files, warn, reported }
    }

    /// Returns the discovered files that are still in the history.
    pub(crate) fn files(&self) -> Vec<MemoryFile> {
        self.lock_files().clone()
    }

    fn lock_files(&self) -> MutexGuard<'_, Vec<MemoryFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the files for a path that are not known yet.
    fn for_path(&self, path: &Path, touched: &[PathBuf]) -> Vec<MemoryFile> {
        let roots = self.workspace.roots();
        let Some(root) = roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len())
        else {
            return Vec::new();
        };
        let directory = if path.is_dir() { Some(path) } else { path.parent() };
        let Some(directory) = directory else { return Vec::new() };
        let found = self.lock_files().clone();
        let known = |path: &Path| {
            // The name may be a link to a known file.
            let file = resolve_links(path);
            self.initial_files.contains(&file)
                || found.iter().any(|known| known.path == path || resolve_links(&known.path) == file)
                // The tool already returns its contents.
                || touched.contains(&file)
        };
        let memory =
            with_options(&self.sources, &self.workspace, &OutsideFiles::default(), |options| {
                collect_upwards(options, directory, root, &known)
            });
        self.emit_warnings(memory.warnings);
        memory.project
    }

    fn emit_warnings(&self, warnings: Vec<String>) {
        for text in warnings {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.insert(text.clone()) {
                (self.warn)(text);
            }
        }
    }
}

fn resolve_links(path: &Path) -> PathBuf {
    parallax_files::real_path(path).unwrap_or_else(|| path.to_owned())
}

impl FolderContext for NestedContext {
    fn find(&self, touched: &[PathBuf]) -> Vec<FoundContextFile> {
        if !self.sources.config.trust.trusted {
            return Vec::new();
        }
        let mut found: Vec<FoundContextFile> = Vec::new();
        for path in touched {
            for MemoryFile { path, text } in self.for_path(path, touched) {
                if !found.iter().any(|other| other.path == path) {
                    found.push(FoundContextFile { path, text });
                }
            }
        }
        found
    }

    fn send(&self, found: Vec<FoundContextFile>) -> Option<String> {
        let cwd = &self.sources.config.cwd;
        let mut blocks = Vec::new();
        let mut files = self.lock_files();
        for FoundContextFile { path, text } in found {
            // A call that was prepared at the same time may have found it, too.
            if files.iter().any(|known| known.path == path) {
                continue;
            }
            let file = MemoryFile { path, text };
            blocks.extend(file.block(cwd));
            files.push(file);
        }
        (!blocks.is_empty()).then(|| format!("\n\n{BEGIN}\n{}\n{END}", blocks.join("\n\n")))
    }

    fn retain_sent(&self, contents: &[SealedContent]) {
        let cwd = &self.sources.config.cwd;
        self.lock_files().retain(|file| {
            // The heading as it appears in JSON, without quotes.
            let heading = serde_json::Value::String(file.heading(cwd)).to_string();
            let heading = heading.trim_matches('"');
            contents.iter().any(|content| {
                let json = content.json();
                json.contains(BEGIN) && json.contains(heading)
            })
        });
    }

    fn new_instance(&self) -> Arc<dyn FolderContext> {
        Arc::new(Self {
            sources: self.sources.clone(),
            workspace: Arc::clone(&self.workspace),
            initial_files: self.initial_files.clone(),
            files: Mutex::default(),
            warn: Arc::clone(&self.warn),
            reported: Arc::clone(&self.reported),
        })
    }

    fn resume(&self, contents: &[SealedContent]) {
        // Files found by an earlier process are identified by their headings; only contents with
        // the marker are searched.
        let has_start = |content: &&SealedContent| content.json().contains(BEGIN);
        let texts: Vec<&str> = contents.iter().filter(has_start).map(SealedContent::json).collect();
        let cwd = &self.sources.config.cwd;
        for path in texts.iter().flat_map(|text| headings(text)) {
            let path = parallax_files::join_lexically(cwd, Path::new(&path));
            if !self.initial_files.contains(&path) {
                self.lock_files().push(MemoryFile { path, text: String::new() });
            }
        }
    }
}

/// Returns the paths in the headings of a JSON text.
fn headings(json: &str) -> Vec<String> {
    let from = json.split("--- Context from: ").skip(1);
    let paths = from.filter_map(|rest| rest.split_once(" ---").map(|(path, _)| path));
    let unescaped = paths.filter_map(|path| serde_json::from_str(&format!("\"{path}\"")).ok());
    unescaped.collect()
}

#[cfg(test)]
mod tests {
    use super::headings;

    #[test]
    fn headings_are_found_in_json() {
        let text = "x\n--- Context from: a \"b\"/GEMINI.md ---\ny\n--- End of Context from: a ---";
        let json = serde_json::Value::String(text.to_owned()).to_string();
        assert_eq!(headings(&json), ["a \"b\"/GEMINI.md"]);
    }
}
