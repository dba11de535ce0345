//! Finds the files and directories that the words of a command name, with links resolved: the
//! policy engine sees only text and cannot tell where a link points.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use parallax_files::{GeminiIgnore, join_lexically, real_path};
use parallax_policy::bash::{self, RedirectionKind, ShellLine};

use super::secrets::is_secret_name;
use super::{git, git_reads, repository};

/// Limits: words read, paths returned, directories that a `cd` may lead to, and lookups in total.
const MAX_WORDS: usize = 256;
const MAX_PATHS: usize = 256;
const MAX_BASES: usize = 32;
const MAX_LOOKUPS: usize = 4_096;

/// Returns the resolved paths that the command reads when run in `directory`, as far as its words
/// show. Includes the root directory if that is unknown, or if the command reads a path of
/// `left_alone`, whose names the policy engine does not know.
pub(super) fn read_paths(
    command: &str,
    directory: &Path,
    roots: &[PathBuf],
    left_alone: Option<&GeminiIgnore>,
) -> NamedPaths {
    let mut reads = NamedPaths::default();
    let Some(mut words) = split_words(command) else {
        reads.push(PathBuf::from("/"));
        return reads;
    };
    // Words as the shell reads them, because only the shell parser understands forms such as
    // `$'…'`.
    for word in read_words(&bash::analyze(command)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.len() > MAX_WORDS {
        reads.push(PathBuf::from("/"));
        return reads;
    }
    let moves = words.iter().any(|word| word == "cd" || word == "pushd");
    let mut bases = vec![directory.to_owned()];
    let mut next = 0;
    let mut lookups = 0;
    while let Some(base) = bases.get(next).cloned() {
        next += 1;
        for name in words.iter().flat_map(|word| names(word)) {
            let path = Path::new(name);
            // Other absolute paths are outside of the workspace by their text alone.
            if path.is_absolute() && !roots.iter().any(|root| path.starts_with(root)) {
                continue;
            }
            lookups += 1;
            if lookups > MAX_LOOKUPS {
                reads.push(PathBuf::from("/"));
                return reads;
            }
            let by_text = join_lexically(&base, path);
            let led = real_path(&base.join(path)).filter(|target| *target != by_text);
            let Ok(real) = std::fs::canonicalize(base.join(path)) else {
                // The command may create it where the links point.
                if let Some(place) = led {
                    reads.push(place.clone());
                    reads.links.insert(by_text, place);
                }
                continue;
            };
            if let Some(place) = led {
                reads.links.insert(by_text, place);
            }
            if moves && !bases.contains(&real) && real.is_dir() {
                match bases.len() < MAX_BASES {
                    true => bases.push(real.clone()),
                    false => reads.push(PathBuf::from("/")),
                }
            }
            // A protected name stays protected if it is a link to another file.
            let named = base.join(path);
            for path in [&named, &real] {
                if let Some(folder) = path.ancestors().find(|path| is_inaccessible_name(path)) {
                    reads.push(folder.to_owned());
                }
            }
            if left_alone.is_some_and(|rules| rules.matches(&named)) {
                reads.push(PathBuf::from("/"));
            }
            reads.push(real);
        }
    }
    let sees_all = searches_directories(&words);
    if sees_all || (left_alone.is_some() && may_run_program(&words, "rg")) {
        let named: Vec<PathBuf> =
            reads.paths.iter().filter(|path| path.is_dir()).cloned().collect();
        let directories = match named.is_empty() {
            true if searches_outside_workspace(command, roots) => Vec::new(),
            true => bases.clone(),
            false => named,
        };
        for directory in &directories {
            first_protected_below(directory, sees_all, left_alone)
                .into_iter()
                .for_each(|path| reads.push(path));
        }
    }
    if words.iter().any(|word| word.rsplit('/').next() == Some("diff")) {
        let named: Vec<PathBuf> =
            reads.paths.iter().filter(|path| path.is_dir()).cloned().collect();
        named
            .iter()
            .flat_map(|directory| link_targets_in(directory))
            .for_each(|path| reads.push(path));
    }
    if words.iter().any(|word| word.rsplit('/').next() == Some("git")) {
        for base in &bases {
            for obstacle in git::unoverridable_configs(base) {
                // The policy engine may not recognize the file by its name.
                if !obstacle.file.components().any(|part| part.as_os_str() == ".git") {
                    reads.push(PathBuf::from("/"));
                }
                reads.push(obstacle.file);
            }
            git_reads::paths_outside_roots(base, roots)
                .into_iter()
                .for_each(|path| reads.push(path));
            // Write access to files there would control git.
            let inside = |directory: &PathBuf| {
                roots.iter().any(|root| directory.starts_with(root) && directory != root)
            };
            if repository::find_bare_repository(base).is_some_and(|directory| inside(&directory)) {
                reads.push(PathBuf::from("/"));
            }
        }
    }
    reads
}

/// Whether a word of the line may be the program.
fn may_run_program(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word.rsplit('/').next() == Some(name))
}

/// Whether the line may search whole directories for text.
fn searches_directories(words: &[String]) -> bool {
    let runs = |name| may_run_program(words, name);
    let recursive = |word: &String| {
        word.contains("recurs")
            || word
                .strip_prefix('-')
                .is_some_and(|flags| !flags.starts_with('-') && flags.contains(['r', 'R']))
    };
    // ripgrep skips hidden files by default.
    let hidden = |word: &String| {
        word.contains("hidden")
            || word.contains("glob")
            || word.contains("unrestricted")
            || word
                .strip_prefix('-')
                .is_some_and(|flags| !flags.starts_with('-') && flags.contains(['u', '.', 'g']))
    };
    (runs("rg") && words.iter().any(hidden)) || (runs("grep") && words.iter().any(recursive))
}

/// Whether the line is one search of a directory in the home directory or outside of the workspace:
/// its last operand behind the pattern names one.
fn searches_outside_workspace(command: &str, roots: &[PathBuf]) -> bool {
    let line = bash::analyze(command);
    let [search] = line.commands.as_slice() else { return false };
    let operands = search
        .arguments()
        .iter()
        .filter(|word| !word.text.as_deref().unwrap_or(&word.source).starts_with('-'));
    let Some(last) = operands.skip(1).last() else { return false };
    let text = last.text.as_deref().unwrap_or(&last.source).trim_matches('"');
    let below_home = ["~", "$HOME", "${HOME}"]
        .iter()
        .find_map(|home| text.strip_prefix(home))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let path = match below_home.map(|rest| (std::env::home_dir(), rest.trim_matches('/'))) {
        Some((Some(home), rest)) => home.join(rest),
        Some((None, _)) => return false,
        None => PathBuf::from(text),
    };
    let is_outside = path.is_absolute()
        && !roots.iter().any(|root| root.starts_with(&path) || path.starts_with(root));
    line.unanalyzable_reason.is_none() && is_outside
}

/// Number of directories and levels searched for a protected file before a recursive search is
/// considered harmless. A larger tree may contain one deeper, but files such as `.env` are usually
/// near the top.
const SEARCHED_FOLDERS: usize = 500;
const SEARCHED_LEVELS: usize = 3;

/// Returns a protected file that a recursive search of the directory would read; the root directory
/// if only the ignore file names it. `names`: the search includes hidden files.
fn first_protected_below(
    directory: &Path,
    names: bool,
    left_alone: Option<&GeminiIgnore>,
) -> Option<PathBuf> {
    let mut directories = std::collections::VecDeque::from([(directory.to_owned(), 0)]);
    let mut seen = 0;
    while let Some((directory, level)) = directories.pop_front() {
        seen += 1;
        if seen > SEARCHED_FOLDERS {
            return None;
        }
        for entry in std::fs::read_dir(directory).ok()?.flatten().take(2_000) {
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if names && !is_directory && is_inaccessible_name(&path) {
                return Some(path);
            }
            if left_alone.is_some_and(|rules| rules.names(&path, is_directory)) {
                return Some(PathBuf::from("/"));
            }
            let skipped = entry.file_name() == ".git" || entry.file_name() == "node_modules";
            if is_directory && !skipped && level < SEARCHED_LEVELS {
                directories.push_back((path, level + 1));
            }
        }
    }
    None
}

/// Whether the last component is a name that the policy engine may protect. A repository is
/// protected as a whole.
fn is_inaccessible_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.eq_ignore_ascii_case(".git") || is_secret_name(name)
}

/// Returns the targets of links in the directory: a recursive `diff` reads them.
fn link_targets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|link| link.path().canonicalize().ok()).take(MAX_PATHS).collect()
}

/// The paths that the words name on this file system.
#[derive(Debug, Default)]
pub(super) struct NamedPaths {
    /// Existing paths, resolved, and paths that may be created behind a link.
    pub(super) paths: Vec<PathBuf>,
    /// Paths by their text, with their link targets.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
}

impl NamedPaths {
    fn push(&mut self, path: PathBuf) {
        if self.paths.contains(&path) {
            return;
        }
        match self.paths.len() + 1 < MAX_PATHS {
            true => self.paths.push(path),
            // Beyond the limit, the paths are unknown.
            false if self.paths.len() < MAX_PATHS => self.paths.push(PathBuf::from("/")),
            false => {}
        }
    }
}

/// Returns the parts of a word that may be file names: all of it, and what follows `=` and `@`.
fn names(word: &str) -> impl Iterator<Item = &str> {
    let value = word.split_once('=').map(|(_, value)| value);
    let file = value.unwrap_or(word).strip_prefix('@');
    [Some(word), value, file].into_iter().flatten().filter(|name| !name.is_empty())
}

/// Returns the words of the commands, assignments, and redirections of a line.
fn read_words(line: &ShellLine) -> Vec<String> {
    let command_paths = line.commands.iter().flat_map(|command| {
        command.words.iter().chain(command.assignments.iter().map(|found| &found.value))
    });
    let redirection_paths = line.redirections.iter().filter_map(|found| match found.kind {
        // Text, not a file name.
        RedirectionKind::HereDocument | RedirectionKind::HereString => None,
        _ => Some(&found.target),
    });
    command_paths.chain(redirection_paths).filter_map(|word| word.text.clone()).collect()
}

/// Returns the words without quotes; `None` if there are too many or one cannot be determined.
fn split_words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '$') if characters.peek() == Some(&'\'') => {
                characters.next();
                let rest = command.get(command.len() - remaining_bytes(&characters)..)?;
                let decoded = bash::ansi::decode(rest).ok()?;
                word.push_str(&decoded.text?);
                let behind = rest.get(decoded.length..)?;
                characters = behind.chars().peekable();
            }
            // A translated string usually equals its original text.
            (None, '$') if characters.peek() == Some(&'"') => {}
            (None | Some('"'), '\\') => word.extend(characters.next()),
            (None, ';' | '|' | '&' | '<' | '>' | '(' | ')' | '`') => {
                end_word(&mut word, &mut words)
            }
            (None, blank) if blank.is_whitespace() => end_word(&mut word, &mut words),
            _ => word.push(character),
        }
        if words.len() > MAX_WORDS {
            return None;
        }
    }
    end_word(&mut word, &mut words);
    (words.len() <= MAX_WORDS).then_some(words)
}

/// Returns the number of remaining bytes.
fn remaining_bytes(characters: &Peekable<Chars<'_>>) -> usize {
    characters.clone().map(char::len_utf8).sum()
}

fn end_word(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_named_by_words_are_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path").join("w");
        fs::create_dir_all(root.join("sub/deep")).expect("folders");
        fs::write(root.join("plain"), "").expect("a file");
        fs::create_dir(root.join(".git")).expect("a directory");
        fs::write(root.join(".git/config"), "").expect("a file");
        symlink("plain", root.join(".env")).expect("a link");
        symlink(".git/config", root.join("git.txt")).expect("a link");
        symlink("/etc/passwd", root.join("my pw")).expect("a link");
        symlink("/etc", root.join("sub/deep/etcl")).expect("a link");
        let found = |command: &str| {
            let roots = [root.clone()];
            let mut reads = read_paths(command, &root, &roots, None).paths;
            reads.sort();
            reads.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let within = |name: &str| root.join(name).display().to_string();
        let passwd = Path::new("/etc/passwd").canonicalize().expect("a path").display().to_string();
        let passwd_too = passwd.clone();
        for (command, expected) in [
            ("cat plain none", vec![within("plain")]),
            ("cat 'my pw'", vec![passwd.clone()]),
            ("cat my\" \"pw|head", vec![passwd.clone()]),
            ("cat $'my pw'", vec![passwd.clone()]),
            ("cat m$'y\\x20p'w", vec![passwd.clone()]),
            ("cat m$'\\171 \\u0070w'", vec![passwd.clone()]),
            ("cat $\"my pw\"", vec![passwd.clone()]),
            ("cat $'my pw\\cx'", vec!["/".into()]),
            ("cat $'\\x2eenv'", vec![within(".env"), within("plain")]),
            ("grep --file='my pw' x", vec![passwd.clone()]),
            ("head sub/deep/etcl/passwd", vec![passwd.clone()]),
            (&format!("cat '{}'", within("my pw")), vec![passwd]),
            ("ls etcl", vec![]),
            ("cat $'my pw'", vec![passwd_too.clone()]),
            ("cat $'my\\x20pw'", vec![passwd_too.clone()]),
            ("head sub/d$'eep'/etcl/passwd", vec![passwd_too.clone()]),
            ("echo x > $'my pw'", vec![passwd_too.clone()]),
            ("A=$'my pw' ls", vec![passwd_too.clone()]),
            ("cat $'.env'", vec![within(".env"), within("plain")]),
            ("cat .e$'nv'", vec![within(".env"), within("plain")]),
            ("cat $'\\x2eenv'", vec![within(".env"), within("plain")]),
            ("cat $'git.txt'", vec![within(".git"), within(".git/config")]),
            ("cd $'sub' && ls deep", vec![within("sub"), within("sub/deep")]),
            ("cat .env", vec![within(".env"), within("plain")]),
            ("cat git.txt", vec![within(".git"), within(".git/config")]),
            ("rg /etc", vec![]),
            (
                "cd sub && cd deep && ls etcl",
                vec!["/etc".into(), within("sub"), within("sub/deep")],
            ),
        ] {
            assert_eq!(found(command), expected, "{command}");
        }
        assert_eq!(found(&format!("echo {}", "a ".repeat(300))), ["/"]);
    }

    #[test]
    fn git_is_checked_in_the_directory_of_the_command() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        fs::create_dir_all(root.join("ev/.git/objects")).expect("folders");
        fs::write(root.join("ev/.git/HEAD"), "").expect("a file");
        for command in ["cd $'ev' && git diff", "cd e$'v'; git diff", "cd $'e\x76'; git diff"] {
            let found = read_paths(command, &root, std::slice::from_ref(&root), None).paths;
            assert!(found.contains(&root.join("ev")), "{command}");
        }
    }

    #[test]
    fn bare_repository_in_ordinary_files_is_not_an_ordinary_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        fs::create_dir_all(root.join("x/objects")).expect("folders");
        fs::create_dir_all(root.join("y/.git/objects")).expect("folders");
        for name in ["x/HEAD", "x/config", "y/.git/HEAD"] {
            fs::write(root.join(name), "").expect("a file");
        }
        let asks = |command: &str| {
            let roots = [root.clone()];
            read_paths(command, &root, &roots, None).paths.contains(&PathBuf::from("/"))
        };
        assert!(asks("cd x && git diff") && asks("cd x/objects; git log"));
        assert!(!asks("cd x && ls") && !asks("cd y && git diff") && !asks("git diff"));
    }

    #[test]
    fn directory_search_includes_inaccessible_files_below_it() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path().canonicalize().expect("directory");
        std::fs::create_dir_all(root.join("src/deep")).expect("folders");
        std::fs::create_dir(root.join("clean")).expect("directory");
        std::fs::write(root.join("src/deep/.env"), "K=1").expect("file");
        let closed = |command: &str| {
            read_paths(command, &root, std::slice::from_ref(&root), None)
                .paths
                .contains(&root.join("src/deep/.env"))
        };
        for command in
            ["grep -rn K .", "grep -r K", "rg --hidden K", "grep -d recurse K src", "rg -uu K src"]
        {
            assert!(closed(command), "{command}");
        }
        for command in [
            "grep -rn K clean",
            "grep K clean/a",
            "ls -la",
            "rg K",
            "grep -rn K ~/other",
            "grep -rn K ~",
            "grep -rn K \"$HOME\"",
            "grep -rn K /opt/x",
        ] {
            assert!(!closed(command), "{command}");
        }
    }

    #[test]
    fn ignored_file_is_not_an_ordinary_read() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path().canonicalize().expect("directory");
        std::fs::create_dir_all(root.join("src/deep")).expect("folders");
        for name in ["gi", "plain", "src/deep/gi", "src/plain"] {
            std::fs::write(root.join(name), "K").expect("file");
        }
        std::fs::write(root.join(".geminiignore"), "gi\n").expect("file");
        let roots = [root.clone()];
        let rules = GeminiIgnore::load(&roots);
        let asks = |command: &str| {
            let found = read_paths(command, &root, &roots, rules.as_ref());
            found.paths.contains(&PathBuf::from("/"))
        };
        for command in ["cat gi", "head < gi", "rg K", "grep -r K src", "cd src && cat deep/gi"] {
            assert!(asks(command), "{command}");
        }
        for command in ["cat plain", "ls", "grep K src/plain"] {
            assert!(!asks(command), "{command}");
        }
    }

    #[test]
    fn link_cycle_is_not_followed_forever() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        for number in 0..200 {
            let name = root.join(number.to_string());
            fs::create_dir(&name).expect("a directory");
            symlink(&root, name.join("up")).expect("a link");
        }
        let all: String = (0..200).map(|number| format!("cd {number}/up; ")).collect();
        assert!(!read_paths(&all, &root, std::slice::from_ref(&root), None).paths.is_empty());
        let names: String = (0..200).map(|number| format!(" {number}")).collect();
        let reads =
            read_paths(&format!("cd {names}"), &root, std::slice::from_ref(&root), None).paths;
        assert!(reads.contains(&PathBuf::from("/")), "{reads:?}");
    }
}
