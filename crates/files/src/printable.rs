//! The form in which file names are shown to the model and to users, and the way back.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Maximum number of directory entries that are searched for a name.
const MAX_NAMES: usize = 10_000;

/// Returns a path on one line with escaped control characters, so that a file name cannot forge a
/// line of the output. Bytes that are not UTF-8 become U+FFFD.
pub fn printable<T: AsRef<OsStr> + ?Sized>(path: &T) -> Cow<'_, str> {
    let text = path.as_ref().to_string_lossy();
    let harmful = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    if !text.contains(harmful) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if harmful(letter) { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    Cow::Owned(line)
}

/// Finds the file for a path that does not exist and may contain names in their printable form: such
/// a name refers to the only entry that is shown so.
pub(crate) fn with_real_names(path: PathBuf) -> PathBuf {
    let may_be_printable =
        |name: &OsStr| name.to_string_lossy().contains(['\\', char::REPLACEMENT_CHARACTER]);
    if !path.iter().any(may_be_printable) || path.symlink_metadata().is_ok() {
        return path;
    }
    let mut real = PathBuf::new();
    for name in &path {
        let is_missing = may_be_printable(name) && real.join(name).symlink_metadata().is_err();
        let found = is_missing.then(|| only_entry_shown_as(&real, &name.to_string_lossy()));
        match found.flatten() {
            Some(found) => real.push(found),
            None => real.push(name),
        }
    }
    real
}

fn only_entry_shown_as(directory: &Path, name: &str) -> Option<std::ffi::OsString> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.take(MAX_NAMES).map(|entry| entry.file_name());
    let mut alike = names.filter(|other| printable(other) == name);
    alike.next().filter(|_| alike.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(
            printable(Path::new("a\nFile: b\u{1b}[2J\u{2028}")),
            "a\\nFile: b\\u{1b}[2J\\u{2028}"
        );
        assert_eq!(printable(Path::new("grün \\n")), "grün \\n");
    }

    #[test]
    fn printable_names_refer_to_their_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("d\u{7}")).expect("a folder");
        for name in ["bell\u{7}.txt", "new\nline.txt", "esc\u{1b}[31m.txt", "d\u{7}/a\\b\tc"] {
            std::fs::write(path(name), "").expect("a file");
            let shown = printable(&path(name)).into_owned();
            assert_eq!(with_real_names(PathBuf::from(shown)), path(name), "{name:?}");
        }
        // An existing file with that name comes first.
        std::fs::write(path("new\\nline.txt"), "").expect("a file");
        assert_eq!(with_real_names(path("new\\nline.txt")), path("new\\nline.txt"));
        assert_eq!(with_real_names(path("missing\\n")), path("missing\\n"));
    }
}
