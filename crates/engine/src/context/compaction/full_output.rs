//! Finds the full output of a result that is masked in the history.
//!
//! The text may have been truncated at the source. Then it names the file with the full output,
//! and a copy of the text would not be complete.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::options::SaveOutput;

/// How a truncation note begins, as tools and the engine write it.
const CUT: &str = "[Too long: the first ";
/// Precedes the path when the file has the full output.
const ALL: &str = "The full output is in `";
/// Precedes the path when the file is truncated too.
const BEGINNING: &str = "is in `";
/// The end of the note.
const END: &str = ".]\n";
/// Maximum length of a note, which holds two numbers and a path.
const MAX_LENGTH: usize = 8 * 1024;

/// The note in the text about its truncation.
struct TruncationNote<'a> {
    /// The note with its line ending.
    note: Range<usize>,
    file: Option<&'a Path>,
    has_all: bool,
}

fn truncate(text: &str) -> Option<TruncationNote<'_>> {
    let start = text.find(CUT)?;
    let length = text.get(start..)?.find(END)? + END.len();
    let note = text.get(start..start + length).filter(|note| note.len() <= MAX_LENGTH)?;
    let path = note.split_once(BEGINNING).map(|(_, rest)| rest);
    let path = path.and_then(|rest| Some(rest.rsplit_once('`')?.0));
    let has_all = note.contains(ALL);
    Some(TruncationNote { note: start..start + length, file: path.map(Path::new), has_all })
}

/// Returns the text without its truncation note.
pub(super) fn without_note(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(cut) = truncate(&text).map(|cut| cut.note) {
        text.replace_range(cut, "");
    }
    text
}

/// Saves the text of a result and says where the full output is; the text follows `The full
/// output`. Blocking.
pub(super) fn save_full_output(tool: &str, text: &str, save_output: Option<&SaveOutput>) -> String {
    let size = || format!("{} lines and {} bytes", text.lines().count(), text.len());
    let path: Option<PathBuf> = save_output.and_then(|keep| keep(tool, text).ok());
    let Some(path) = path else {
        return format!(", {}, was not saved: repeat the call if you need it", size());
    };
    let read = "read the file if you need it";
    let Some(cut) = truncate(text) else {
        return format!(", {}, is in {}: {read}", size(), path.display());
    };
    // An output cannot refer to files outside the output directory.
    let file = cut.file.filter(|file| file.parent() == path.parent() && file.is_file());
    match file {
        Some(file) if cut.has_all => format!(" is in {}: {read}", file.display()),
        Some(file) => {
            format!(" was too long; its beginning is in {}: {read}", file.display())
        }
        None => {
            format!(" was not saved; the part shown, {}, is in {}: {read}", size(), path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn truncated_output_is_not_treated_as_complete() {
        // Any existing file.
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let there = directory.join("Cargo.toml");
        let copy = directory.join("copy.txt");
        let path = copy.clone();
        let keep: SaveOutput = Arc::new(move |_, _| Ok(path.clone()));
        let note = |path: String| {
            format!(
                "Output: [Too long: the first 3 and the last 2 characters are shown. {path}]\nabc"
            )
        };
        let all = crate::context::tool_output_limits::truncate_output(
            "x",
            &"line\n".repeat(99),
            50,
            Some(&{
                let there = there.clone();
                Arc::new(move |_: &str, _: &str| Ok(there.clone())) as SaveOutput
            }),
        );
        let part =
            "The beginning of the full output, as far as the limit for such files allows, is in";
        let part = note(format!("{part} `{}`.", there.display()));
        let (there, copy) = (there.display().to_string(), copy.display().to_string());
        // (text, message, named file)
        for (text, output, file) in [
            ("one\ntwo", ", 2 lines and 7 bytes, is in", &copy),
            (&*all, " is in", &there),
            (&*part, "too long; its beginning is in", &there),
            (&*note("The full output was not saved.".into()), "the part shown", &copy),
            (&*note("The full output is in `/etc/passwd`.".into()), "the part shown", &copy),
        ] {
            let result = save_full_output("x", text, Some(&keep));
            assert!(
                result.contains(output) && result.contains(&format!("is in {file}: ")),
                "{result}"
            );
            assert!(!without_note(text).contains("Too long"));
        }
        assert!(save_full_output("x", &all, None).contains("was not saved"));
    }
}
