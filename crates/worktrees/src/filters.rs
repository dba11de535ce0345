//! Files that git stores through a filter of the repository's own configuration. Parallax does not
//! run such programs, so a worktree has the stored contents, and a commit would contain what the
//! filter must change first.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use parallax_protocol::event::Failure;
use parallax_protocol::excerpt::one_line;
use parallax_tools::run_shell_command::overridden_filters;

use crate::contents::Contents;
use crate::git::Git;
use crate::{Worktree, failure};

/// The variable that names the tree with the attributes.
const ATTRIBUTES: &str = "GIT_ATTR_SOURCE";
/// Maximum number of files that a message names.
const MAX_NAMES: usize = 20;
/// Maximum number of paths on one command line.
const PATHS_AT_ONCE: usize = 200;

impl Worktree {
    /// Returns a warning for the user if filters of the repository do not run in the worktree.
    /// Blocking.
    pub fn filter_warning(&self) -> Option<String> {
        let filters = overridden_filters(&self.record.main);
        (!filters.is_empty()).then(|| {
            format!(
                "Git filters configured by the repository do not run in the worktree: {}. Files that \
                 use them appear as git stores them, and changes to them cannot be merged. To use \
                 the filters, configure them with `git config --global`",
                quote_names(filters.iter().map(String::as_str))
            )
        })
    }
}

impl Contents<'_> {
    /// Checks that a commit or tree changes no file since the base that has a filter which does not
    /// run.
    pub(super) fn check_filters(&self, tree: &str) -> Result<(), Failure> {
        let filters = overridden_filters(self.main_checkout());
        if filters.is_empty() {
            return Ok(());
        }
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=d"];
        let words = [words.as_slice(), &[self.base(), tree]].concat();
        let paths = self.git().paths(&words)?;
        // The change itself may assign filters. Git applies them after the merge.
        let changed = self.git().clone().with_variable(ATTRIBUTES, tree.into());
        check_paths(&[self.git(), &changed], &paths, &filters)
    }

    /// Like `check_filters`, but includes files that are not committed.
    pub(super) fn check_filters_of_files(&self, commit: &str) -> Result<(), Failure> {
        self.check_filters(commit)?;
        let filters = overridden_filters(self.main_checkout());
        if filters.is_empty() {
            return Ok(());
        }
        self.prepare_index(&self.head())?;
        let changed = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"];
        let paths = self.git().paths(&changed)?;
        let files = self.git().clone().without_variable(ATTRIBUTES);
        check_paths(&[self.git(), &files], &paths, &filters)
    }
}

/// Checks that none of these files has one of these filters, by the attributes of each source.
fn check_paths(sources: &[&Git], paths: &[PathBuf], filters: &[String]) -> Result<(), Failure> {
    let mut found: BTreeMap<PathBuf, String> = BTreeMap::new();
    for some in paths.chunks(PATHS_AT_ONCE) {
        let words = ["check-attr", "-z", "filter", "--"].map(OsString::from);
        let words = words.into_iter().chain(some.iter().map(|path| path.clone().into()));
        let words = words.collect::<Vec<_>>();
        for git in sources {
            let output = git.bytes(&words)?;
            let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
            for entry in fields.chunks_exact(3) {
                let [path, _, value] = entry else { continue };
                let value = String::from_utf8_lossy(value).into_owned();
                if filters.contains(&value) {
                    found.insert(PathBuf::from(OsStr::from_bytes(path)), value);
                }
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = found.keys().map(|path| path.to_string_lossy()).collect();
    let mut used: Vec<&str> = found.values().map(String::as_str).collect();
    used.sort_unstable();
    used.dedup();
    Err(failure(format!(
        "Some changed files use a filter configured by the repository ({}), which Parallax does \
         not run. A commit of them has the wrong contents; do not merge it: {}",
        quote_names(used.into_iter()),
        quote_names(names.iter().map(AsRef::as_ref))
    )))
}

/// Quotes names for one line; many are truncated.
fn quote_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{}`", one_line(name))).collect();
    let shown = names.get(..names.len().min(MAX_NAMES)).unwrap_or_default();
    let mut text = shown.join(", ");
    if names.len() > MAX_NAMES {
        text.push_str(&format!(", and {} more", names.len() - MAX_NAMES));
    }
    text
}
