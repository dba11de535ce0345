//! Detects and describes changes to files while a session runs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Modification time and size of a file.
pub(crate) type FileStamp = (Option<SystemTime>, Option<u64>);

/// The state of several files.
pub(crate) type FolderStamp = Vec<(PathBuf, FileStamp)>;

/// Returns the state of files. Blocking.
pub(crate) fn stamp(files: impl IntoIterator<Item = PathBuf>) -> FolderStamp {
    let with_look = |file: PathBuf| (read_stamp(&file), file);
    files.into_iter().map(with_look).map(|(look, file)| (file, look)).collect()
}

/// Returns the state of a file. Blocking.
pub(crate) fn read_stamp(file: &Path) -> FileStamp {
    let metadata = std::fs::metadata(file).ok();
    let length = metadata.as_ref().map(std::fs::Metadata::len);
    (metadata.and_then(|metadata| metadata.modified().ok()), length)
}

/// The names of new, changed, and removed things.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NameChanges {
    pub(crate) new: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
}

impl NameChanges {
    /// Compares named things.
    pub(crate) fn compare<T: PartialEq>(before: &[(String, T)], now: &[(String, T)]) -> Self {
        let find = |all: &[(String, T)], name: &str| all.iter().position(|(it, _)| it == name);
        let mut changes = Self::default();
        for (name, thing) in now {
            match find(before, name).and_then(|at| before.get(at)) {
                None => changes.new.push(name.clone()),
                Some((_, old)) if old != thing => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let removed = before.iter().filter(|(name, _)| find(now, name).is_none());
        changes.removed = removed.map(|(name, _)| name.clone()).collect();
        changes
    }

    /// Describes the changes in one line; `None` if there are none.
    pub(crate) fn line(&self, what: &str) -> Option<String> {
        /// Maximum number of names of each kind.
        const MAX_SHOWN: usize = 8;
        let part = |word: &str, names: &[String]| {
            let listed: Vec<String> =
                names.iter().take(MAX_SHOWN).map(|name| format!("`{name}`")).collect();
            let more = match names.len().saturating_sub(MAX_SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            (!names.is_empty()).then(|| format!("{word} {}{more}", listed.join(", ")))
        };
        let parts = [
            part("new", &self.new),
            part("changed", &self.changed),
            part("no longer exists", &self.removed),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{what}: {}", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_line_lists_new_changed_and_removed_agents() {
        let all = |pairs: &[(&str, u8)]| -> Vec<(String, u8)> {
            pairs.iter().map(|(name, thing)| ((*name).to_owned(), *thing)).collect()
        };
        let before = all(&[("a", 1), ("b", 1), ("c", 1)]);
        let changes = NameChanges::compare(&before, &all(&[("b", 2), ("c", 1), ("d", 1)]));
        assert_eq!(
            changes.line("Skills").as_deref(),
            Some("Skills: new `d`; changed `b`; no longer exists `a`")
        );
        assert_eq!(NameChanges::compare(&before, &before).line("Skills"), None);
        let many: Vec<(String, u8)> = (0..10).map(|at| (at.to_string(), at)).collect();
        let line = NameChanges::compare(&[], &many).line("Agents").expect("a line");
        assert!(line.ends_with("`7` and 2 more"), "{line}");
    }
}
