//! Placeholders for hidden files that git tracks: unreadable files with the attributes recorded in
//! the index. Git takes them for unchanged and never opens them, in any command.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parallax_sandbox::PlaceholderFile;

use super::repository;
use super::tracked::{LIST, QUIET, TIME, remaining_hidden, repository_of};

/// The hashes of the empty blob, in SHA-1 and SHA-256.
const EMPTY: [&str; 2] = [
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];

/// A file as recorded in the index.
struct IndexEntry {
    file: PlaceholderFile,
    /// Whether git compares only its attributes, without reading it.
    by_stamps: bool,
}

/// Returns placeholders for the tracked files of `hidden`. A hidden directory with tracked files is
/// hidden file by file, unless there are too many. Blocking.
pub(super) fn find(hidden: &mut Vec<PathBuf>) -> Vec<PlaceholderFile> {
    let mut found = Vec::new();
    let tops: BTreeSet<PathBuf> = hidden.iter().filter_map(|path| repository_of(path)).collect();
    for top in tops {
        let is_own = |path: &PathBuf| repository_of(path).as_ref() == Some(&top);
        let (own, others): (Vec<_>, Vec<_>) = std::mem::take(hidden).into_iter().partition(is_own);
        *hidden = others;
        let entries = index_entries(&top, &own).unwrap_or_default();
        let tracked: BTreeSet<PathBuf> =
            entries.iter().map(|entry| entry.file.path.clone()).collect();
        for path in own {
            let in_it: Vec<&PathBuf> =
                tracked.iter().filter(|file| **file != path && file.starts_with(&path)).collect();
            if in_it.is_empty() {
                hidden.push(path);
                continue;
            }
            let exists = in_it.iter().filter(|file| file.symlink_metadata().is_ok());
            let there: Vec<PathBuf> = exists.map(|file| (*file).clone()).collect();
            let rest = remaining_hidden(path.clone(), &tracked);
            if rest != [path] {
                hidden.extend(there);
            }
            hidden.extend(rest);
        }
        let counts = |entry: &IndexEntry| entry.by_stamps && hidden.contains(&entry.file.path);
        found.extend(entries.into_iter().filter(counts).map(|entry| entry.file));
    }
    found
}

/// Returns the index entries of the paths, from git's debug listing; `None` if its format is
/// unexpected.
fn index_entries(top: &Path, paths: &[PathBuf]) -> Option<Vec<IndexEntry>> {
    let list = ["--literal-pathspecs", "ls-files", "--stage", "--debug", "-z", "--"];
    let words = QUIET.iter().chain(&list).map(OsString::from);
    let arguments = words.chain(paths.iter().map(|path| path.clone().into_os_string()));
    let variables = [("GIT_OPTIONAL_LOCKS", "0")];
    let listed = parallax_exec::program::output("git", arguments, top, &variables, LIST, TIME)?;
    let index = repository::directories(top).first()?.join("index");
    let written = index.metadata().ok()?.mtime();
    let mut pieces = listed.split(|byte| *byte == 0);
    let mut head = pieces.next().filter(|head| !head.is_empty())?.to_vec();
    let mut entries = Vec::new();
    for piece in pieces {
        // Each name is followed by the lines about its entry, then by the head of the next entry.
        let end = piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(4)?.0;
        let fields = std::str::from_utf8(piece.get(..end)?).ok()?;
        entries.extend(entry(&head, fields, top, written)?);
        head = piece.get(end + 1..)?.to_vec();
    }
    Some(entries)
}

/// Parses an entry; the inner value is `None` if it is not a file or has a conflict. `written` is
/// the modification time of the index.
fn entry(head: &[u8], fields: &str, top: &Path, written: i64) -> Option<Option<IndexEntry>> {
    let tab = head.iter().position(|byte| *byte == b'\t')?;
    let name = head.get(tab + 1..)?;
    let mut words = std::str::from_utf8(head.get(..tab)?).ok()?.split(' ');
    let (mode, blob, stage) = (words.next()?, words.next()?, words.next()?);
    let fact = |name: &str| {
        let (_, rest) = fields.split_once(&format!("{name}: "))?;
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    let (size, modified) = (fact("size")?, i64::try_from(fact("mtime")?).ok()?);
    let executable = mode == "100755";
    if !(executable || mode == "100644") || stage != "0" {
        return Some(None);
    }
    let file =
        PlaceholderFile { path: top.join(OsStr::from_bytes(name)), size, modified, executable };
    // Git reads the contents of a file that is as new as the index, and of one that it recorded as
    // empty because it was.
    let by_stamps = modified < written && (size > 0 || EMPTY.contains(&blob));
    Some(Some(IndexEntry { file, by_stamps }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn tracked_hidden_files_are_found_with_their_metadata() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        let git = |line: &[&str]| {
            let output = parallax_exec::program::output("git", line, &root, &[], LIST, TIME);
            assert!(output.is_some(), "{line:?}");
        };
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(&path, text).expect("a file");
            let file = fs::File::options().write(true).open(&path).expect("a file");
            file.set_modified(past).expect("a time");
        };
        git(&["init", "-q"]);
        write(".env", "four");
        write("conf/a key", "seven..");
        write("empty.key", "");
        write("open", "x");
        git(&["add", "-A"]);
        write("conf/new", "new");
        write("b.key", "untracked");
        // As new as the index.
        fs::write(root.join("young.key"), "x").expect("a file");
        git(&["add", "young.key"]);
        let index = fs::File::options().write(true).open(root.join(".git/index")).expect("it");
        let young = root.join("young.key").metadata().expect("it").modified().expect("a time");
        index.set_modified(young).expect("a time");
        let names = [".env", "conf", "empty.key", "b.key", "young.key"];
        let mut hidden = names.map(|name| root.join(name)).to_vec();
        let mut found = find(&mut hidden);
        hidden.sort();
        let expected = [".env", "b.key", "conf/a key", "conf/new", "empty.key", "young.key"];
        assert_eq!(hidden, expected.map(|name| root.join(name)));
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let of = |name: &str, size| PlaceholderFile {
            path: root.join(name),
            size,
            modified: 1_700_000_000,
            executable: false,
        };
        assert_eq!(found, [of(".env", 4), of("conf/a key", 7), of("empty.key", 0)]);
        // Without a repository, nothing is known.
        let mut alone = vec![PathBuf::from("/nowhere/a")];
        assert!(find(&mut alone).is_empty() && alone.len() == 1);
    }
}
