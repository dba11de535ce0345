//! Expands `@path` imports in memory files.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::ImportFormat;
use crate::read::{ReadError, is_binary, read_at_most, to_text};

/// Maximum size of one file in bytes.
pub(super) const LIMIT: u64 = 1024 * 1024;
/// Maximum import depth.
const MAX_DEPTH: usize = 5;
/// Maximum total bytes of all imports of one file.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of imports that one file may cause.
const MAX_IMPORTS: usize = 500;

/// Maximum number of failed imports listed per file.
const MAX_SHOWN: usize = 5;
/// Why a file is not imported twice; not reported as a failure.
const ALREADY: &str = "the file was already imported";

/// Expands the imports of one memory file.
pub(super) struct ImportExpander<'a> {
    root: PathBuf,
    ignored: &'a dyn Fn(&Path) -> bool,
    format: ImportFormat,
    visited: HashSet<PathBuf>,
    bytes: usize,
    count: usize,
    /// Imported files after the first one, for the flat format.
    imported: Vec<(String, String)>,
    /// Failed imports with the reason, each listed once.
    failed: Vec<(String, String)>,
    pub(super) warnings: Vec<String>,
}

enum ImportTarget {
    File {
        resolved: PathBuf,
        text: String,
    },
    /// Not an existing file, and the text does not look like a file name.
    NotAnImport,
    Failed(String),
}

impl<'a> ImportExpander<'a> {
    /// Creates an expander. Imported files must resolve to a path inside `root` and must not be
    /// `ignored`.
    pub(super) fn new(
        root: &Path,
        format: ImportFormat,
        ignored: &'a dyn Fn(&Path) -> bool,
    ) -> Self {
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        Self {
            root,
            ignored,
            format,
            visited: HashSet::new(),
            bytes: 0,
            count: 0,
            imported: Vec::new(),
            failed: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the text of `file` with its imports expanded.
    pub(super) fn process(&mut self, text: String, file: &Path) -> String {
        self.visited.insert(std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()));
        let directory = file.parent().unwrap_or(Path::new("/")).to_owned();
        let text = self.expand(text, &directory, 0);
        self.report_failures(file);
        if self.imported.is_empty() {
            return text;
        }
        let mut out = text;
        for (name, text) in self.imported.drain(..) {
            out.push_str(&format!(
                "\n\n--- File: {name} ---\n{}\n--- End of File: {name} ---",
                text.trim()
            ));
        }
        out
    }

    /// Adds one warning for all failed imports of a file.
    fn report_failures(&mut self, file: &Path) {
        let failed = std::mem::take(&mut self.failed);
        if failed.is_empty() {
            return;
        }
        let listed: Vec<String> = failed
            .iter()
            .take(MAX_SHOWN)
            .map(|(name, reason)| format!("`@{name}` ({reason})"))
            .collect();
        let more = match failed.len().saturating_sub(MAX_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.warnings.push(format!(
            "{}: failed to import {}{more}",
            file.display(),
            listed.join(", ")
        ));
    }

    fn expand(&mut self, text: String, directory: &Path, depth: usize) -> String {
        let imports = find(&text);
        if imports.is_empty() {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for span in imports {
            let written = text.get(span.start + 1..span.end).unwrap_or_default();
            let (written, found) = self.resolve(written, directory, depth);
            let end = span.start + 1 + written.len();
            let replacement = match found {
                ImportTarget::NotAnImport => continue,
                ImportTarget::Failed(reason) => {
                    let is_repeated =
                        reason == ALREADY || self.failed.iter().any(|(known, _)| known == written);
                    if !is_repeated {
                        self.failed.push((written.to_owned(), reason.clone()));
                    }
                    comment(&format!("Import of {written} failed: {reason}"))
                }
                ImportTarget::File { resolved, text } => {
                    let base = resolved.parent().unwrap_or(&self.root).to_owned();
                    match self.format {
                        ImportFormat::Tree => {
                            let inner = self.expand(text, &base, depth + 1);
                            let (from, to) = (
                                format!("Imported from: {written}"),
                                format!("End of import from: {written}"),
                            );
                            format!("{}\n{}\n{}", comment(&from), inner.trim(), comment(&to))
                        }
                        ImportFormat::Flat => {
                            let index = self.imported.len();
                            let name = resolved
                                .strip_prefix(&self.root)
                                .unwrap_or(&resolved)
                                .display()
                                .to_string();
                            self.imported.push((name, String::new()));
                            let inner = self.expand(text, &base, depth + 1);
                            if let Some(entry) = self.imported.get_mut(index) {
                                entry.1 = inner;
                            }
                            continue;
                        }
                    }
                }
            };
            out.push_str(text.get(done..span.start).unwrap_or_default());
            out.push_str(&replacement);
            done = end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        out
    }

    /// Resolves the words after `@` and returns how much of them is the file name: trailing
    /// punctuation counts only if a file has that name.
    fn resolve<'w>(
        &mut self,
        written: &'w str,
        directory: &Path,
        depth: usize,
    ) -> (&'w str, ImportTarget) {
        let trimmed = written.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'']);
        let name =
            if directory.join(written).exists() || trimmed.is_empty() { written } else { trimmed };
        (name, self.open(name, directory, depth))
    }

    fn open(&mut self, name: &str, directory: &Path, depth: usize) -> ImportTarget {
        if name.contains("://") {
            return ImportTarget::Failed("URLs cannot be imported".to_owned());
        }
        let path = directory.join(name);
        let Ok(resolved) = std::fs::canonicalize(&path) else {
            // `@alice` and `@Override` are words, not files.
            return if name.contains(['.', '/']) {
                ImportTarget::Failed("file not found".to_owned())
            } else {
                ImportTarget::NotAnImport
            };
        };
        if !resolved.starts_with(&self.root) {
            return ImportTarget::Failed("it is outside the project".to_owned());
        }
        if resolved.is_dir() {
            return if name.contains(['.', '/']) {
                ImportTarget::Failed("it is a directory".to_owned())
            } else {
                ImportTarget::NotAnImport
            };
        }
        let relative = resolved.strip_prefix(&self.root).unwrap_or(&resolved);
        if is_protected_from_tools(relative) || is_protected_from_tools(Path::new(name)) {
            return ImportTarget::Failed(
                "files with this name are protected from tools".to_owned(),
            );
        }
        if (self.ignored)(&path) || (self.ignored)(&resolved) {
            return ImportTarget::Failed("it is ignored".to_owned());
        }
        if depth >= MAX_DEPTH {
            return ImportTarget::Failed(format!(
                "imports are nested more than {MAX_DEPTH} levels deep"
            ));
        }
        if !self.visited.insert(resolved.clone()) {
            return ImportTarget::Failed(ALREADY.to_owned());
        }
        self.count += 1;
        if self.count > MAX_IMPORTS || self.bytes >= MAX_BYTES {
            return ImportTarget::Failed("there are too many imports".to_owned());
        }
        match read_at_most(&resolved, LIMIT) {
            Ok(Some(read)) => {
                if read.is_truncated {
                    self.warnings.push(format!(
                        "The context file `{}` is larger than {LIMIT} bytes; only its beginning is \
                         used",
                        resolved.display()
                    ));
                }
                if is_binary(&read.bytes) {
                    return ImportTarget::Failed("it is not text".to_owned());
                }
                self.bytes += read.bytes.len();
                ImportTarget::File { resolved, text: to_text(&read.bytes) }
            }
            Ok(None) => ImportTarget::Failed("file not found".to_owned()),
            Err(ReadError::NotAFile | ReadError::TooLarge) => {
                ImportTarget::Failed("it is not a regular file".to_owned())
            }
            Err(ReadError::Io(error)) => ImportTarget::Failed(error.to_string()),
        }
    }
}

/// Whether a path component names version control data or secrets, which tools cannot read either.
pub(super) fn is_protected_from_tools(path: &Path) -> bool {
    path.components().any(|part| {
        // Case is ignored, because on some file systems `.ENV` is `.env`.
        let name = part.as_os_str().to_string_lossy().to_lowercase();
        matches!(name.as_str(), ".git" | ".env")
            || (name.starts_with("gha-creds-") && name.ends_with(".json"))
    })
}

/// Returns an HTML comment that the text cannot close.
fn comment(text: &str) -> String {
    let text: String = text.replace("--", "- -").chars().take(300).collect();
    format!("<!-- {text} -->")
}

/// Finds imports: `@` at the start of a line or after whitespace, up to the next whitespace,
/// outside code.
fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let start = offset;
        offset += line.len();
        if let Some(mark) = fence_mark(line) {
            match fence {
                None => fence = Some((mark.0, mark.1)),
                // A closing fence uses the same character, is at least as long, and has nothing
                // after it.
                Some((delimiter, length)) if delimiter == mark.0 && mark.1 >= length && mark.2 => {
                    fence = None
                }
                Some(_) => {}
            }
            continue;
        }
        if fence.is_none() {
            found.extend(
                find_in_line(line).into_iter().map(|span| start + span.start..start + span.end),
            );
        }
    }
    found
}

/// Returns the fence character, its length, and whether nothing follows.
fn fence_mark(line: &str) -> Option<(char, usize, bool)> {
    let inner = line.trim_start_matches(' ');
    if line.len() - inner.len() > 3 {
        return None;
    }
    let delimiter = inner.chars().next().filter(|delimiter| matches!(delimiter, '`' | '~'))?;
    let after = inner.trim_start_matches(delimiter);
    let length = inner.len() - after.len();
    // ``` `a` ``` in one line is a code span.
    let opens = length >= 3 && !(delimiter == '`' && after.contains('`'));
    opens.then_some((delimiter, length, after.trim().is_empty()))
}

fn find_in_line(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut at = 0;
    // Lengths of backtick runs that have no closing run on this line.
    let mut lonely = HashSet::new();
    while let Some(character) = line.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = line.get(at..).unwrap_or_default();
        if character == '`' {
            let length = rest.len() - rest.trim_start_matches('`').len();
            let behind = rest.get(length..).unwrap_or_default();
            at += length;
            before = '`';
            if !lonely.contains(&length) {
                match closing_backticks_end(behind, length) {
                    Some(end) => at += end,
                    None => {
                        lonely.insert(length);
                    }
                }
            }
            continue;
        }
        if character == '@' && before.is_whitespace() {
            let word = rest.split(char::is_whitespace).next().unwrap_or_default();
            let name = word.get(1..).unwrap_or_default();
            if name.starts_with(|first: char| {
                first == '.' || first == '/' || first.is_ascii_alphabetic()
            }) {
                found.push(at..at + word.len());
                at += word.len();
                before = '@';
                continue;
            }
        }
        before = character;
        at += character.len_utf8();
    }
    found
}

/// Returns the position after the next run of exactly `length` backticks.
fn closing_backticks_end(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        let start = at + text.get(at..)?.find('`')?;
        let rest = text.get(start..)?;
        let run = rest.len() - rest.trim_start_matches('`').len();
        at = start + run;
        if run == length {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ImportExpander, find};
    use crate::memory::ImportFormat;
    use proptest::prelude::*;

    fn split_words(text: &str) -> Vec<&str> {
        find(text).into_iter().filter_map(|span| text.get(span)).collect()
    }

    #[test]
    fn imports_are_found_outside_code_only() {
        for (text, expected) in [
            ("@a.md", vec!["@a.md"]),
            ("see @./b.md and\t@/c.md", vec!["@./b.md", "@/c.md"]),
            ("bob@x.md (@y.md) @1.md @", vec![]),
            ("`@a.md` @b.md ``x ` @c.md``", vec!["@b.md"]),
            ("a ` lonely @a.md", vec!["@a.md"]),
            ("```\n@a.md\n```\n@b.md", vec!["@b.md"]),
            ("~~~~ text\n@a.md\n~~~\n@b.md\n~~~~\n@c.md", vec!["@c.md"]),
            ("``` `x` ``` @a.md", vec!["@a.md"]),
            ("```\n@never closed", vec![]),
        ] {
            assert_eq!(split_words(text), expected, "{text}");
        }
    }

    #[test]
    fn files_protected_from_tools_are_not_imported() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        std::fs::create_dir(root.join(".git")).expect("a directory");
        for name in ["good.md", "secret.md", ".env", ".git/config", "gha-creds-1.json"] {
            std::fs::write(root.join(name), "TEXT").expect("written");
        }
        std::os::unix::fs::symlink(".env", root.join("link.md")).expect("a link");
        std::fs::write(root.join("zeros.md"), [0; 4096]).expect("written");
        let ignored = |path: &Path| path.ends_with("secret.md");
        let process = |text: &str| {
            ImportExpander::new(root, ImportFormat::Tree, &ignored)
                .process(text.to_owned(), &root.join("GEMINI.md"))
        };
        assert!(process("@good.md").contains("TEXT"));
        for (text, reason) in [
            ("@secret.md", "it is ignored"),
            ("@.env", "files with this name are protected from tools"),
            ("@./.git/config", "files with this name are protected from tools"),
            ("@gha-creds-1.json", "files with this name are protected from tools"),
            ("@link.md", "files with this name are protected from tools"),
            ("@zeros.md", "it is not text"),
            ("@https://example.org/a.md", "URLs cannot be imported"),
        ] {
            let name = text.trim_start_matches('@');
            assert_eq!(process(text), format!("<!-- Import of {name} failed: {reason} -->"));
        }
    }

    proptest! {
        #[test]
        fn import_expansion_of_arbitrary_text_is_bounded(text in "(@\\./[ab]\\.md|@a|[`~ \n]|```\n|\\PC){0,60}", flat: bool) {
            let directory = tempfile::tempdir().expect("a directory");
            for name in ["a.md", "b.md"] {
                std::fs::write(directory.path().join(name), &text).expect("written");
            }
            let format = if flat { ImportFormat::Flat } else { ImportFormat::Tree };
            let mut imports = ImportExpander::new(directory.path(), format, &|_| false);
            let out = imports.process(text.clone(), &directory.path().join("a.md"));
            prop_assert!(out.len() < 100_000);
            if find(&text).is_empty() {
                prop_assert_eq!(out, text);
            }
        }
    }
}
