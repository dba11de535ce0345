//! Where the whole of a result is that becomes shorter in the history.
//!
//! Its text may have been cut before, at the source: then it says so itself and names
//! the file with all of it, and a copy of the text would be no whole.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::shorten::KeepOutput;

/// How the note of a text begins that was cut, as tools and results write it.
const CUT: &str = "[Too long: the first ";
/// What stands before the path when the file has all of it.
const ALL: &str = "The full output is in `";
/// The same when the file has not all of it either.
const BEGINNING: &str = "is in `";
/// How it ends.
const END: &str = ".]\n";
/// A note is no longer: it holds two numbers and a path.
const LONGEST: usize = 8 * 1024;

/// What a text says of how it was cut.
struct Cut<'a> {
    /// The note, with its line end.
    note: Range<usize>,
    file: Option<&'a Path>,
    has_all: bool,
}

fn cut(text: &str) -> Option<Cut<'_>> {
    let start = text.find(CUT)?;
    let length = text.get(start..)?.find(END)? + END.len();
    let note = text.get(start..start + length).filter(|note| note.len() <= LONGEST)?;
    let path = note.split_once(BEGINNING).map(|(_, rest)| rest);
    let path = path.and_then(|rest| Some(rest.rsplit_once('`')?.0));
    let has_all = note.contains(ALL);
    Some(Cut { note: start..start + length, file: path.map(Path::new), has_all })
}

/// A text without the note that it was cut.
pub(super) fn without_note(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(cut) = cut(&text).map(|cut| cut.note) {
        text.replace_range(cut, "");
    }
    text
}

/// Keeps the text of a result and says where the whole is: what follows `The whole
/// output`. Blocking.
pub(super) fn kept(tool: &str, text: &str, keep_output: Option<&KeepOutput>) -> String {
    let size = || format!("{} lines and {} bytes", text.lines().count(), text.len());
    let path: Option<PathBuf> = keep_output.and_then(|keep| keep(tool, text).ok());
    let Some(path) = path else {
        return format!(", {}, was not kept: make the call again if it matters", size());
    };
    let read = "read it there if it matters";
    let Some(cut) = cut(text) else {
        return format!(", {}, is in {}: {read}", size(), path.display());
    };
    // What an output says of itself counts only for a file beside the kept ones.
    let file = cut.file.filter(|file| file.parent() == path.parent() && file.is_file());
    match file {
        Some(file) if cut.has_all => format!(" is in {}: {read}", file.display()),
        Some(file) => {
            format!(" was too long; its beginning is in {}: {read}", file.display())
        }
        None => format!(
            " was not kept; what was shown of it, {}, is in {}: {read}",
            size(),
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_text_that_was_cut_is_not_taken_for_the_whole() {
        // Any file that is there.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let there = folder.join("Cargo.toml");
        let copy = folder.join("copy.txt");
        let path = copy.clone();
        let keep: KeepOutput = Arc::new(move |_, _| Ok(path.clone()));
        let note = |place: String| {
            format!(
                "Output: [Too long: the first 3 and the last 2 characters are shown. {place}]\nabc"
            )
        };
        let all = crate::results::cut(
            "x",
            &"line\n".repeat(99),
            50,
            Some(&{
                let there = there.clone();
                Arc::new(move |_: &str, _: &str| Ok(there.clone())) as KeepOutput
            }),
        );
        let part =
            "The beginning of the full output, as far as the limit for such files allows, is in";
        let part = note(format!("{part} `{}`.", there.display()));
        let (there, copy) = (there.display().to_string(), copy.display().to_string());
        // (the text, what is said, and the file that is named)
        for (text, said, file) in [
            ("one\ntwo", ", 2 lines and 7 bytes, is in", &copy),
            (&*all, " is in", &there),
            (&*part, "too long; its beginning is in", &there),
            (&*note("The full output was not saved.".into()), "what was shown", &copy),
            (&*note("The full output is in `/etc/passwd`.".into()), "what was shown", &copy),
        ] {
            let kept = kept("x", text, Some(&keep));
            assert!(kept.contains(said) && kept.contains(&format!("is in {file}: ")), "{kept}");
            assert!(!without_note(text).contains("Too long"));
        }
        assert!(kept("x", &all, None).contains("was not kept"));
    }
}
