//! Whether the repository that git would find names programs in its own
//! configuration or hooks: then even a form of git that only looks runs them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of one configuration, folders looked at on the way up, and folders of
/// submodules.
const LARGEST: u64 = 256 * 1024;
const HIGHEST: usize = 128;
const MOST_MODULES: usize = 256;

/// Parts of sections and keys that lead to programs or to other files.
const TELLING: &[&str] = &[
    "fsmonitor",
    "external",
    "textconv",
    "command",
    "clean",
    "smudge",
    "process",
    "sshcommand",
    "pager",
    "hookspath",
    "include",
    "askpass",
    "editor",
    "helper",
    "program",
    "driver",
    "uploadpack",
    "vcs",
    "protocol",
    "receivepack",
    "cmd",
    "alternaterefs",
    "gitproxy",
    "alias",
];

/// The configurations above `folder` that name programs or cannot be read.
/// Those that do not lie below a `.git` come with the root of the disk.
pub(super) fn running_configurations(folder: &Path) -> Vec<PathBuf> {
    let Some(repository) = folder.ancestors().take(HIGHEST).find_map(repository_at) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut add = |path: PathBuf| {
        if !path.components().any(|part| part.as_os_str() == ".git") {
            found.push(PathBuf::from("/"));
        }
        found.push(path);
    };
    let folder = match repository {
        Ok(folder) => folder,
        Err(unreadable) => {
            add(unreadable);
            return found;
        }
    };
    let mut folders = vec![folder.clone()];
    if let Some(common) = line_of(&folder.join("commondir")) {
        folders.push(folder.join(common));
    }
    let mut modules: Vec<PathBuf> = folders.iter().map(|folder| folder.join("modules")).collect();
    let mut seen = 0;
    while let Some(module) = modules.pop() {
        let Ok(entries) = std::fs::read_dir(&module) else { continue };
        seen += 1;
        if seen > MOST_MODULES {
            add(module.join("config"));
            break;
        }
        if module.join("HEAD").exists() {
            modules.push(module.join("modules"));
            folders.push(module);
        } else {
            modules.extend(entries.flatten().take(MOST_MODULES).map(|entry| entry.path()));
        }
    }
    // Folders with repositories of their own, whose programs git runs as well.
    for index in folders.iter().map(|folder| folder.join("index")) {
        if may_hold_submodules(&index) {
            add(index);
        }
    }
    // The one hook that `git status` runs.
    for folder in folders.iter().filter(|folder| folder.join("hooks/post-index-change").exists()) {
        add(folder.join("config"));
    }
    for name in ["config", "config.worktree"] {
        for path in folders.iter().map(|folder| folder.join(name)) {
            if runs_programs(&path) {
                add(path);
            }
        }
    }
    found
}

/// The repository whose working folder (or own folder) this is; `Err` names
/// what cannot be read.
fn repository_at(folder: &Path) -> Option<Result<PathBuf, PathBuf>> {
    let git = folder.join(".git");
    match std::fs::metadata(&git) {
        Ok(data) if data.is_dir() => return Some(Ok(git)),
        Ok(_) => {
            let target = line_of(&git);
            let target = target.as_deref().and_then(|line| line.strip_prefix("gitdir:"));
            return Some(target.map(|target| folder.join(target.trim())).ok_or(git));
        }
        Err(_) => {}
    }
    let is_bare = folder.join("HEAD").exists() && folder.join("objects").is_dir();
    is_bare.then(|| Ok(folder.to_owned()))
}

/// Bytes of an index that are looked through; a larger one counts as holding
/// what is looked for.
const LARGEST_INDEX: u64 = 64 * 1024 * 1024;

/// The mode of a submodule in an index: 160000 in octal, big-endian.
const SUBMODULE: [u8; 4] = [0, 0, 0xE0, 0];

/// Whether the mode of a submodule stands anywhere in the index. Other bytes
/// may look the same: then a question is asked for nothing.
fn may_hold_submodules(index: &Path) -> bool {
    match std::fs::metadata(index) {
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        Ok(_) => bytes_of(index, LARGEST_INDEX)
            .is_none_or(|bytes| memchr::memmem::find(&bytes, &SUBMODULE).is_some()),
    }
}

/// The text of a file of one line.
fn line_of(path: &Path) -> Option<String> {
    let bytes = bytes_of(path, 16 * 1024)?;
    String::from_utf8(bytes).ok().map(|text| text.trim().to_owned())
}

/// The bytes of a regular file, when it is not larger.
fn bytes_of(path: &Path, limit: u64) -> Option<Vec<u8>> {
    // A pipe would keep whoever opens it waiting.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}

fn runs_programs(path: &Path) -> bool {
    if let Err(error) = std::fs::metadata(path) {
        return error.kind() != std::io::ErrorKind::NotFound;
    }
    match bytes_of(path, LARGEST) {
        Some(bytes) => names_programs(&String::from_utf8_lossy(&bytes)),
        None => true,
    }
}

/// Whether a section or key of the configuration is a telling one. What is no
/// plain line counts as a key rather than as nothing.
fn names_programs(text: &str) -> bool {
    text.split(['\n', '\r']).any(|line| {
        let mut rest = line.trim_start_matches('\u{feff}').trim_start();
        while let Some(header) = rest.strip_prefix('[') {
            let name = header.split(['"', ']']).next().unwrap_or_default();
            if is_telling(name) {
                return true;
            }
            rest = after_header(header).trim_start();
        }
        is_telling(rest.split(['=', '#', ';']).next().unwrap_or_default())
    })
}

/// What follows the `]`; a quoted part may hold one too.
fn after_header(header: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (place, character) in header.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return header.get(place + 1..).unwrap_or_default(),
            _ => {}
        }
    }
    ""
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_are_seen_in_keys_and_sections_only() {
        for text in [
            "[core]\n\tfsmonitor = x",
            "[CORE]\nFSMonitor=x",
            "[core] hooksPath = x",
            "[diff \"a]b\"] textconv = x",
            "[diff \"a\\\"]\"] command = x",
            "[filter \"lfs\"]\r\n\tprocess = x",
            "[filter.x]\nclean",
            "[include]\npath = x",
            "[includeIf \"gitdir:/\"]\npath = x",
            "[pager]\nlog = x",
            "[a] [gpg] program = x",
        ] {
            assert!(names_programs(text), "{text}");
        }
        for text in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tautocrlf = input",
            "[remote \"editor\"]\n\turl = https://x/editor-program.git\n\tfetch = +refs/heads/*",
            "[branch \"fix-pager\"]\n\tremote = origin\n\tmerge = refs/heads/fix-pager",
            "# editor = x\n; [include]",
        ] {
            assert!(!names_programs(text), "{text}");
        }
    }

    #[test]
    fn the_configuration_is_found_from_wherever_git_finds_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        };
        let found = |path: &str| running_configurations(&root.join(path));
        write(".git/config", "[core]\nbare = false\n");
        write("src/a", "");
        assert!(found("src").is_empty());
        write("hooked/.git/hooks/post-index-change", "");
        assert_eq!(found("hooked"), [root.join("hooked/.git/config")]);
        write(".git/modules/x/y/HEAD", "ref");
        write(".git/modules/x/y/config", "[filter \"a\"]\nclean = x");
        assert_eq!(found("src"), [root.join(".git/modules/x/y/config")]);
        write("tree/.git", "gitdir: ../.git/worktrees/tree\n");
        write(".git/worktrees/tree/commondir", "../..\n");
        write(".git/config", "[core]\nfsmonitor = x\n");
        assert!(found("tree").contains(&root.join("tree/../.git/worktrees/tree/../../config")));
        write("odd/.git", "what");
        assert_eq!(found("odd"), [root.join("odd/.git")]);
        write("bare/HEAD", "ref");
        write("bare/objects/x", "");
        write("bare/config", "[core]\nfsmonitor = x");
        assert_eq!(found("bare"), [PathBuf::from("/"), root.join("bare/config")]);
        write("large/.git/config", &"# x\n".repeat(100_000));
        assert_eq!(found("large"), [root.join("large/.git/config")]);
    }
}
