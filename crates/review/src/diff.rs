//! Parses unified diffs in git's format.

/// A diff of several files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The files, in order.
    pub files: Vec<DiffFile>,
}

/// The changes of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffFile {
    /// Its path after the change; for a deleted file, the path before it.
    pub path: String,
    hunks: Vec<Hunk>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Hunk {
    /// The first line after the change, and the number of lines.
    start: u64,
    length: u64,
    lines: Vec<String>,
}

impl Diff {
    /// Parses a diff. Skips text that is not part of one.
    pub fn parse(text: &str) -> Self {
        let mut files: Vec<DiffFile> = Vec::new();
        let mut old = String::new();
        // The remaining lines of the current hunk, before and after the change.
        let (mut left_old, mut left_new) = (0u64, 0u64);
        for line in text.lines() {
            if left_old > 0 || left_new > 0 {
                let (is_old, is_new) = match line.as_bytes().first() {
                    Some(b'-') => (1, 0),
                    Some(b'+') => (0, 1),
                    Some(b'\\') => (0, 0),
                    _ => (1, 1),
                };
                left_old = left_old.saturating_sub(is_old);
                left_new = left_new.saturating_sub(is_new);
                if let Some(hunk) = files.last_mut().and_then(|file| file.hunks.last_mut()) {
                    hunk.lines.push(line.to_owned());
                }
            } else if let Some(path) = line.strip_prefix("--- ") {
                old = path_of(path);
            } else if let Some(path) = line.strip_prefix("+++ ") {
                let new = path_of(path);
                let path = if new == "/dev/null" { std::mem::take(&mut old) } else { new };
                files.push(DiffFile { path, hunks: Vec::new() });
            } else if let Some((before, after)) = hunk_of(line) {
                (left_old, left_new) = (before, after.1);
                if let Some(file) = files.last_mut() {
                    let (start, length) = after;
                    file.hunks.push(Hunk { start, length, lines: Vec::new() });
                }
            }
        }
        Self { files }
    }

    /// Whether the diff changes the file.
    pub fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// Returns the changed lines around a line of a file, as in the diff; empty if nothing changed
    /// there.
    pub fn excerpt(&self, path: &str, line: u64, context: u64) -> Vec<&str> {
        let Some(file) = self.files.iter().find(|file| file.path == path) else {
            return Vec::new();
        };
        let near = |hunk: &&Hunk| {
            line.saturating_add(context) >= hunk.start
                && line <= hunk.start.saturating_add(hunk.length).saturating_add(context)
        };
        let Some(hunk) = file.hunks.iter().find(near) else { return Vec::new() };
        let mut number = hunk.start;
        let mut excerpt = Vec::new();
        for text in &hunk.lines {
            let is_near = number.abs_diff(line) <= context;
            if is_near {
                excerpt.push(text.as_str());
            }
            if !text.starts_with(['-', '\\']) {
                number += 1;
            }
        }
        excerpt
    }
}

/// Returns the path in a line `--- a/path` or `+++ b/path`.
fn path_of(text: &str) -> String {
    // Git adds a tab after a path with spaces.
    let text = text.trim_end_matches('\t').trim_matches('"');
    let path = text.strip_prefix("a/").or_else(|| text.strip_prefix("b/"));
    path.unwrap_or(text).to_owned()
}

/// Returns the length of a hunk before the change, and its position and length after it.
fn hunk_of(line: &str) -> Option<(u64, (u64, u64))> {
    let mut words = line.strip_prefix("@@ -")?.split(' ');
    let (_, before) = range(words.next()?)?;
    let after = range(words.next()?.strip_prefix('+')?)?;
    Some((before, after))
}

fn range(text: &str) -> Option<(u64, u64)> {
    match text.split_once(',') {
        Some((start, length)) => Some((start.parse().ok()?, length.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,4 @@\n one\n\
        -two\n+2\n+--- no header\n three\n@@ -20 +21 @@ fn f()\n-old\n+new\n\
        diff --git a/gone b/gone\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";

    #[test]
    fn files_and_lines_are_found() {
        let diff = Diff::parse(TEXT);
        let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["x.rs", "gone"]);
        assert!(diff.has("x.rs") && !diff.has("y.rs"));
        assert_eq!(diff.excerpt("x.rs", 3, 1), ["-two", "+2", "+--- no header", " three"]);
        assert_eq!(diff.excerpt("x.rs", 21, 1), ["-old", "+new"]);
        assert!(diff.excerpt("x.rs", 500, 2).is_empty());
        assert_eq!(Diff::parse("no diff\n@@ -x +y @@\n").files, []);
    }
}
