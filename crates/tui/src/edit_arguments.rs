//! Turns a modified change proposal (selected hunks, or text edited by the user) back into
//! arguments of the tool that proposed it.

use std::path::Path;

use parallax_files::decode;
use parallax_protocol::Object;
use parallax_protocol::tool::FileDiff;
use serde_json::Value;

/// Maximum size of a file whose change can be modified.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A proposed change to a file.
#[derive(Debug, Clone)]
pub(crate) struct ProposedChange {
    /// The current text; empty for a new file.
    pub old: String,
    /// The proposed text.
    pub new: String,
    hunks: Vec<Hunk>,
}

/// One hunk of a diff.
#[derive(Debug, Clone)]
struct Hunk {
    /// Index of the first old line, from 0.
    start: usize,
    /// Number of old lines it replaces.
    old_line_count: usize,
    /// The new lines, including line endings.
    lines: Vec<String>,
}

impl ProposedChange {
    /// Reads the file and applies the diff to it.
    ///
    /// # Errors
    /// Returns a message for the user if the file cannot be read or has changed, or the diff was
    /// truncated.
    pub(crate) fn read(diff: &FileDiff) -> Result<Self, String> {
        let old = if diff.is_new_file { String::new() } else { text_of(&diff.file_path)? };
        Self::from_diff(old, &diff.diff)
    }

    /// Uses the text of the diff if it has it, and reads the file otherwise.
    ///
    /// # Errors
    /// Returns the errors of [`ProposedChange::read`].
    pub(crate) fn from_diff_or_file(diff: &FileDiff) -> Result<Self, String> {
        match &diff.texts {
            Some(texts) => {
                Ok(Self { old: texts.old.clone(), new: texts.new.clone(), hunks: Vec::new() })
            }
            None => Self::read(diff),
        }
    }

    fn from_diff(old: String, diff: &str) -> Result<Self, String> {
        let hunks = parse(diff)?;
        let mut change = Self { new: String::new(), old, hunks };
        change.new = change.apply_hunks((0..change.hunks.len()).collect::<Vec<_>>().as_slice())?;
        Ok(change)
    }

    /// Returns the text with only these hunks (from 0) applied.
    ///
    /// # Errors
    /// Returns an error if the file no longer matches the diff.
    pub(crate) fn apply_hunks(&self, selected: &[usize]) -> Result<String, String> {
        let lines: Vec<&str> = self.old.split_inclusive('\n').collect();
        let changed = || "the file changed since approval was requested".to_owned();
        let mut text = String::with_capacity(self.old.len());
        let mut at = 0;
        for (index, hunk) in self.hunks.iter().enumerate() {
            if !selected.contains(&index) {
                continue;
            }
            let until = lines.get(at..hunk.start).ok_or_else(changed)?;
            until.iter().for_each(|line| text.push_str(line));
            hunk.lines.iter().for_each(|line| text.push_str(line));
            at = hunk.start + hunk.old_line_count;
        }
        lines.get(at..).ok_or_else(changed)?.iter().for_each(|line| text.push_str(line));
        Ok(text)
    }

    /// Returns the arguments of `write_file` or `replace` that produce `wanted`.
    ///
    /// # Errors
    /// Returns an error if nothing would change or the tool is a different one.
    pub(crate) fn arguments(
        &self,
        tool: &str,
        args: &Object,
        new_text: &str,
    ) -> Result<Object, String> {
        if new_text == self.old {
            return Err("the change is empty".to_owned());
        }
        let mut changed = args.clone();
        let mut set = |name: &str, text: &str| {
            changed.insert(name.to_owned(), Value::String(text.to_owned()));
        };
        match tool {
            "write_file" => set("content", new_text),
            "replace" => {
                let (old, new) = self.differing_lines(new_text);
                set("old_string", old);
                set("new_string", new);
                changed.shift_remove("allow_multiple");
                changed.shift_remove("expected_replacements");
            }
            other => return Err(format!("changes of `{other}` cannot be edited")),
        }
        Ok(changed)
    }

    /// Returns the differing parts of both sides in whole lines, extended until the old part occurs
    /// only once in the old text.
    fn differing_lines<'a>(&'a self, new_text: &'a str) -> (&'a str, &'a str) {
        let old: Vec<&str> = self.old.split_inclusive('\n').collect();
        let new: Vec<&str> = new_text.split_inclusive('\n').collect();
        let mut head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let max_tail = old.len().min(new.len()) - head;
        let mut tail = old.iter().rev().zip(new.iter().rev());
        let mut tail = tail.by_ref().take(max_tail).take_while(|(old, new)| old == new).count();
        let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
        loop {
            let start = bytes(&old[..head]);
            let part = &self.old[start..self.old.len() - bytes(&old[old.len() - tail..])];
            let unique = !part.is_empty()
                && self.old.find(part).is_some_and(|offset| !self.old[offset + 1..].contains(part));
            if unique || (head == 0 && tail == 0) {
                return (part, &new_text[start..new_text.len() - bytes(&new[new.len() - tail..])]);
            }
            head = head.saturating_sub(1);
            tail = tail.saturating_sub(1);
        }
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    let error_text =
        |error: std::io::Error| format!("failed to read `{}`: {error}", path.display());
    if std::fs::metadata(path).map_err(error_text)?.len() > MAX_BYTES {
        return Err(format!("`{}` is too large to edit here", path.display()));
    }
    Ok(decode(&std::fs::read(path).map_err(error_text)?).text)
}

/// Parses the hunks of a unified diff. Rejects a truncated diff, because the user did not see all
/// of it.
fn parse(diff: &str) -> Result<Vec<Hunk>, String> {
    let cut = || "the change is too large to split into hunks".to_owned();
    let mut hunks: Vec<Hunk> = Vec::new();
    // Old and new lines that the hunk is still missing.
    let mut owed = (0usize, 0usize);
    let mut last_is_new = false;
    for line in diff.split_inclusive('\n') {
        if owed == (0, 0) && line.starts_with("@@") {
            let (start, old_line_count, added) = header(line).ok_or_else(cut)?;
            owed = (old_line_count, added);
            // `@@ -0,0` inserts before the first line, `-5,0` after the fifth.
            let start = if old_line_count == 0 { start } else { start.saturating_sub(1) };
            hunks.push(Hunk { start, old_line_count, lines: Vec::new() });
            continue;
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        if line.starts_with('\\') {
            // "No newline at end of file" refers to the previous line.
            if last_is_new && let Some(last) = hunk.lines.last_mut() {
                last.truncate(last.trim_end_matches('\n').len());
            }
            continue;
        }
        if owed == (0, 0) {
            continue;
        }
        let Some((sign, text)) = line.split_at_checked(1) else { return Err(cut()) };
        last_is_new = sign != "-";
        match sign {
            " " => {
                owed = (
                    owed.0.checked_sub(1).ok_or_else(cut)?,
                    owed.1.checked_sub(1).ok_or_else(cut)?,
                );
                hunk.lines.push(text.to_owned());
            }
            "+" => {
                owed.1 = owed.1.checked_sub(1).ok_or_else(cut)?;
                hunk.lines.push(text.to_owned());
            }
            "-" => owed.0 = owed.0.checked_sub(1).ok_or_else(cut)?,
            _ => return Err(cut()),
        }
    }
    if owed == (0, 0) && !hunks.is_empty() { Ok(hunks) } else { Err(cut()) }
}

/// Returns start and length on the old side, and length on the new side.
fn header(line: &str) -> Option<(usize, usize, usize)> {
    let mut words = line.split(' ').skip(1);
    let mut range = |sign: char| {
        let text = words.next()?.strip_prefix(sign)?;
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let (start, covers) = range('-')?;
    let (_, added) = range('+')?;
    Some((start, covers, added))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OLD: &str = "a\nb\nc\nd\ne\nf\n";
    const DIFF: &str = "--- x\n+++ x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,2 +5,3 @@\n e\n-f\n+F\n+g\n\\ No newline at end of file\n";

    #[test]
    fn hunks_are_applied_singly() {
        let change = ProposedChange::from_diff(OLD.to_owned(), DIFF).expect("a change");
        assert_eq!(change.new, "A\nb\nc\nd\ne\nF\ng");
        assert_eq!(change.apply_hunks(&[0]).expect("text"), "A\nb\nc\nd\ne\nf\n");
        assert_eq!(change.apply_hunks(&[1]).expect("text"), "a\nb\nc\nd\ne\nF\ng");
        assert_eq!(change.apply_hunks(&[]).expect("text"), OLD);
    }

    #[test]
    fn partial_replacement_has_a_unique_old_string() {
        let old = "x\ny\nx\ny\nz\n";
        let change = ProposedChange { old: old.to_owned(), new: String::new(), hunks: Vec::new() };
        let args =
            json!({"file_path": "f", "old_string": "?", "new_string": "?", "allow_multiple": true});
        let args = args.as_object().expect("an object").clone();
        for wanted in
            ["x\ny\nx\nY\nz\n", "x\ny\nz\n", "x\ny\nx\ny\nz\nend\n", "", "new\nx\ny\nx\ny\nz\n"]
        {
            let changed = change.arguments("replace", &args, wanted).expect("arguments");
            let (from, to) = (changed["old_string"].as_str(), changed["new_string"].as_str());
            let (from, to) = (from.expect("text"), to.expect("text"));
            assert_eq!(old.matches(from).count(), 1, "{from:?}");
            assert_eq!(old.replacen(from, to, 1), wanted);
            assert!(!changed.contains_key("allow_multiple"));
        }
        assert!(change.arguments("replace", &args, old).is_err());
    }

    #[test]
    fn truncated_diff_is_rejected() {
        let cut = &DIFF[..DIFF.len() - 40];
        assert!(ProposedChange::from_diff(OLD.to_owned(), cut).is_err());
    }
}
