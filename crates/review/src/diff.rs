//! Parses unified diffs in git's format.

/// Maximum number of spaces at which the first line of a file's changes is split.
const MAX_SPACES: usize = 200;

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
    is_deleted: bool,
    /// The bytes of a path that is not UTF-8.
    bytes: Option<Vec<u8>>,
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
        let mut prefixes = Prefixes::default();
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
                old = path_of(path, &prefixes.old);
            } else if let Some(path) = line.strip_prefix("+++ ") {
                let new = path_of(path, &prefixes.new);
                let is_deleted = new == "/dev/null";
                add(&mut files, if is_deleted { std::mem::take(&mut old) } else { new });
                if let Some(file) = files.last_mut() {
                    file.is_deleted |= is_deleted;
                    file.bytes = unusual_bytes(path, &prefixes.new);
                }
            } else if let Some(both) = line.strip_prefix("diff --git ") {
                if let Some((found, path)) = split_header(both) {
                    prefixes = found;
                    add(&mut files, path);
                }
            } else if line.starts_with("deleted file mode ") {
                if let Some(file) = files.last_mut() {
                    file.is_deleted = true;
                }
            } else if let Some(path) =
                line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to "))
            {
                add(&mut files, unquote(path));
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

    /// Returns the bytes of a path as the file system has them.
    pub fn path_bytes<'a>(&'a self, path: &'a str) -> &'a [u8] {
        let file = self.files.iter().find(|file| file.path == path);
        file.and_then(|file| file.bytes.as_deref()).unwrap_or(path.as_bytes())
    }

    /// Whether the diff deletes the file.
    pub fn deletes(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path && file.is_deleted)
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

/// Adds a file, unless an earlier line of its header did.
fn add(files: &mut Vec<DiffFile>, path: String) {
    if files.last().is_none_or(|last| last.path != path || !last.hunks.is_empty()) {
        files.push(DiffFile { path, ..DiffFile::default() });
    }
}

/// What precedes the paths: `a/` and `b/`, or what git's settings (`diff.mnemonicPrefix`,
/// `diff.noprefix`) and options make of it.
struct Prefixes {
    old: String,
    new: String,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { old: "a/".to_owned(), new: "b/".to_owned() }
    }
}

/// Splits what follows `diff --git`: two prefixes with the same path. `None` for a renamed file,
/// whose paths follow on lines of their own.
fn split_header(both: &str) -> Option<(Prefixes, String)> {
    // The paths may contain spaces; both are equally long unless the prefixes differ in length.
    let middle = both.len() / 2;
    let spaces =
        both.match_indices(' ').map(|(offset, _)| offset).filter(|offset| *offset != middle);
    std::iter::once(middle).chain(spaces.take(MAX_SPACES)).find_map(|at| {
        let (before, after) = (both.get(..at)?, both.get(at..)?.strip_prefix(' ')?);
        let (before, after) = (unquote(before), unquote(after));
        let (mut old, mut new): (Vec<&str>, Vec<&str>) =
            (before.split('/').collect(), after.split('/').collect());
        let mut path = Vec::new();
        while let (Some(one), Some(other)) = (old.last(), new.last())
            && one == other
        {
            path.push(old.pop()?);
            new.pop();
        }
        if path.is_empty() {
            return None;
        }
        path.reverse();
        let prefix = |parts: Vec<&str>| parts.iter().map(|part| format!("{part}/")).collect();
        Some((Prefixes { old: prefix(old), new: prefix(new) }, path.join("/")))
    })
}

/// Returns a path without the quotes and escapes with which git writes unusual ones.
fn unquote(text: &str) -> String {
    unquoted_bytes(text)
        .map_or_else(|| text.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the bytes of a path in a line `+++ b/path` if they are not UTF-8.
fn unusual_bytes(text: &str, prefix: &str) -> Option<Vec<u8>> {
    let bytes = unquoted_bytes(text.trim_end_matches('\t'))?;
    let bytes = bytes.strip_prefix(prefix.as_bytes()).unwrap_or(&bytes);
    std::str::from_utf8(bytes).is_err().then(|| bytes.to_vec())
}

/// Returns the bytes of a quoted path; `None`: it is not quoted.
fn unquoted_bytes(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'))?;
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next) = rest.next_if(|next| matches!(next, b'0'..=b'7')) {
                        value = value * 8 + u32::from(next - b'0');
                    }
                }
                bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
            }
            Some(letter) => bytes.push(match letter {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                other => other,
            }),
            None => {}
        }
    }
    Some(bytes)
}

/// Returns the path in a line `--- a/path` or `+++ b/path`.
fn path_of(text: &str, prefix: &str) -> String {
    // Git adds a tab after a path with spaces.
    let text = unquote(text.trim_end_matches('\t'));
    text.strip_prefix(prefix).unwrap_or(&text).to_owned()
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
    fn changed_files_are_listed_by_name() {
        let diff = Diff::parse(
            "diff --git \"a/\\303\\274.txt\" \"b/\\303\\274.txt\"\n--- \"a/\\303\\274.txt\"\n\
             +++ \"b/\\303\\274.txt\"\n@@ -1 +1 @@\n-a\n+b\n\
             diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -1 +1 @@\n-a\n+b\n\
             diff --git \"a/ta\\tb \\\"q\\\" \\\\.txt\" \"b/ta\\tb \\\"q\\\" \\\\.txt\"\nold mode 100644\n\
             new mode 100755\n\
             diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n\
             diff --git a/bin b/bin\nindex 1..2 100644\nBinary files a/bin and b/bin differ\n",
        );
        let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["ü.txt", "a b.txt", "ta\tb \"q\" \\.txt", "new", "bin"]);
        assert_eq!(diff.excerpt("ü.txt", 1, 1), ["-a", "+b"]);
    }

    #[test]
    fn other_prefixes_are_not_part_of_the_path() {
        for (old, new, path) in [
            ("i/", "w/", "src/a.rs"),
            ("c/", "i/", "a b/c d.rs"),
            ("", "", "a/b.rs"),
            ("old/", "longer/", "x.rs"),
            ("a/", "b/", "b/b/x"),
        ] {
            let text = format!(
                "diff --git {old}{path} {new}{path}\n--- {old}{path}\n+++ {new}{path}\n\
                 @@ -1 +1 @@\n-a\n+b\ndiff --git {old}new.rs {new}new.rs\n--- /dev/null\n\
                 +++ {new}new.rs\n@@ -0,0 +1 @@\n+b\n"
            );
            let diff = Diff::parse(&text);
            let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, [path, "new.rs"], "{text}");
        }
        let plain = "--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
        assert!(Diff::parse(plain).has("x.rs"));
    }

    #[test]
    fn files_and_lines_are_found() {
        let diff = Diff::parse(TEXT);
        let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["x.rs", "gone"]);
        assert!(diff.has("x.rs") && !diff.has("y.rs"));
        assert!(diff.deletes("gone") && !diff.deletes("x.rs"));
        let empty = "diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000\n";
        assert!(Diff::parse(empty).deletes("e"));
        assert_eq!(diff.excerpt("x.rs", 3, 1), ["-two", "+2", "+--- no header", " three"]);
        assert_eq!(diff.excerpt("x.rs", 21, 1), ["-old", "+new"]);
        assert!(diff.excerpt("x.rs", 500, 2).is_empty());
        assert_eq!(Diff::parse("no diff\n@@ -x +y @@\n").files, []);
    }
}
