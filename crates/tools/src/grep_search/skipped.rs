//! Collects what a search skipped, for a note in the result: without it, the model would conclude
//! that there are no matches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parallax_files::SkippedEntries;

use crate::search_scope::SearchScope;

/// Maximum number of files named in the note.
const MAX_NAMED: usize = 3;

/// What was skipped.
#[derive(Debug, Default)]
pub(super) struct SkipSummary {
    /// Entries that `no_ignore` would search.
    pub(super) skipped_entries: SkippedEntries,
    /// Files that could not be opened.
    pub(super) unreadable: u64,
    /// Images, archives, and other files whose names show that they are binary.
    pub(super) media: u64,
    /// Files and directories with names that tools may not read.
    pub(super) protected: u64,
    binary: SkippedFiles,
    /// Symbolic links to what is not searched under another name.
    links: SkippedFiles,
    /// Symbolic links that point out of the workspace.
    outside_links: SkippedFiles,
    /// Files that were searched only up to an overlong line.
    partial: SkippedFiles,
}

/// The number of files and the first ones by path.
#[derive(Debug, Default)]
struct SkippedFiles {
    count: u64,
    first: BTreeSet<PathBuf>,
}

impl SkippedFiles {
    fn add(&mut self, path: &Path) {
        self.count += 1;
        self.first.insert(path.to_owned());
        if self.first.len() > MAX_NAMED {
            self.first.pop_last();
        }
    }

    fn describe(&self, what: &str, search_place: &SearchScope) -> Option<String> {
        let names: Vec<String> =
            self.first.iter().map(|path| format!("`{}`", search_place.name(path))).collect();
        let more = if self.count > names.len() as u64 { ", …" } else { "" };
        (self.count > 0).then(|| format!("{} {what} ({}{more})", self.count, names.join(", ")))
    }
}

impl SkipSummary {
    pub(super) fn add_binary(&mut self, path: &Path) {
        self.binary.add(path);
    }

    pub(super) fn link(&mut self, path: &Path) {
        self.links.add(path);
    }

    pub(super) fn add_outside_link(&mut self, path: &Path) {
        self.outside_links.add(path);
    }

    pub(super) fn record_partial(&mut self, path: &Path) {
        self.partial.add(path);
    }

    /// Returns the note for the result; empty if nothing was skipped.
    pub(super) fn note(&self, search_place: &SearchScope) -> String {
        let mut opened = Vec::new();
        if self.skipped_entries.ignored > 0 {
            let noun = if self.skipped_entries.ignored == 1 { "entry" } else { "entries" };
            opened.push(format!("{} ignored {noun}", self.skipped_entries.ignored));
        }
        opened.extend(self.skipped_entries.folders.iter().map(|name| format!("`{name}`")));
        let mut parts = Vec::new();
        if !opened.is_empty() {
            parts.push(format!("{}; `no_ignore` searches them", opened.join(", ")));
        }
        if self.skipped_entries.hidden > 0 {
            let noun = if self.skipped_entries.hidden == 1 { "entry" } else { "entries" };
            parts.push(format!(
                "{} {noun} that the user's ignore files hide",
                self.skipped_entries.hidden
            ));
        }
        let closed = self.protected + self.skipped_entries.protected;
        if closed > 0 {
            let noun = if closed == 1 { "entry that is" } else { "entries that are" };
            parts.push(format!("{closed} {noun} protected from tools"));
        }
        let links = self.links.describe("symbolic link(s)", search_place);
        parts.extend(links.map(|links| format!("{links}; name one to search it")));
        parts.extend(
            self.outside_links.describe("symbolic link(s) out of the workspace", search_place),
        );
        parts.extend(self.binary.describe("binary file(s)", search_place));
        if self.media > 0 {
            parts.push(format!("{} media, archive, or compiled file(s)", self.media));
        }
        parts.extend(self.partial.describe("file(s) beyond an overlong line", search_place));
        if self.unreadable > 0 {
            parts.push(format!("{} file(s) that cannot be opened", self.unreadable));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("\n[Not searched: {}]", parts.join(". ")),
        }
    }
}
