//! Finds and reads policy rule files. The `policy` crate parses them.

use std::path::{Path, PathBuf};

use parallax_policy::{RuleFile, Tier};

use crate::read::{self, ReadError};
use crate::user_dirs::UserDirs;

/// Maximum size of one rule file in bytes.
const LIMIT: u64 = 256 * 1024;
/// Maximum number of rule files in one directory; if there are more, none is used.
const MAX_COUNT: usize = 200;
/// Maximum number of names read from one directory.
const MAX_NAMES: usize = 10_000;
/// A file in the rules directory that is not a rule file.
const SANDBOX: &str = "sandbox.toml";

/// Where to look for rules.
#[derive(Debug, Clone)]
pub struct RuleFileSources<'a> {
    /// The user's directories.
    pub dirs: &'a UserDirs,
    /// The working directory.
    pub cwd: &'a Path,
    /// Whether it is trusted; rules of an untrusted directory are not read.
    pub trusted: bool,
    /// The `policies` directories of extensions.
    pub extensions: &'a [PathBuf],
    /// `--policy` or `policyPaths`, absolute: files or directories that replace the user's own rule
    /// directories; empty to use those.
    pub user_replacement: &'a [PathBuf],
    /// `--admin-policy` or `adminPolicyPaths`, absolute: used only if the system directories hold
    /// no rules.
    pub admin: &'a [PathBuf],
}

impl<'a> RuleFileSources<'a> {
    /// Returns the places of a trusted directory, without extensions and flags.
    pub fn for_trusted(dirs: &'a UserDirs, cwd: &'a Path) -> Self {
        Self { dirs, cwd, trusted: true, extensions: &[], user_replacement: &[], admin: &[] }
    }
}

/// The rule files of all tiers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleFiles {
    /// The files by tier and name. A file that could not be read is included with the reason,
    /// because a missing deny rule is an error.
    pub files: Vec<RuleFile>,
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
}

/// Finds and reads the rule files. Blocking; a missing directory costs one lookup.
pub fn find_policy_files(sources: &RuleFileSources<'_>) -> RuleFiles {
    find(sources, &system_directories(), 0)
}

/// Reads the user's `sandbox.toml` files: first from `.gemini`, then from `.parallax`, which has
/// precedence.
pub fn sandbox_files(dirs: &UserDirs) -> Vec<RuleFile> {
    [&dirs.gemini, &dirs.parallax]
        .into_iter()
        .filter_map(|home| {
            let path = home.join("policies").join(SANDBOX);
            let text = text_of(&path, LinkPolicy::Follow)?;
            Some(RuleFile { tier: Tier::User, path, text })
        })
        .collect()
}

/// Returns the directories in which the administrator keeps rules.
fn system_directories() -> Vec<PathBuf> {
    let directories: &[&str] = if cfg!(target_os = "macos") {
        &[
            "/Library/Application Support/GeminiCli/policies",
            "/Library/Application Support/Parallax/policies",
        ]
    } else if cfg!(windows) {
        &[r"C:\ProgramData\gemini-cli\policies", r"C:\ProgramData\parallax\policies"]
    } else {
        &["/etc/gemini-cli/policies", "/etc/parallax/policies"]
    };
    directories.iter().map(PathBuf::from).collect()
}

/// Finds the rule files. `administrator` is the user ID that must own files of the admin tier.
fn find(sources: &RuleFileSources<'_>, system: &[PathBuf], administrator: u32) -> RuleFiles {
    let mut found = RuleFiles::default();
    for directory in sources.extensions {
        found.files.extend(directory_files(Tier::Extension, directory, LinkPolicy::Refuse));
    }
    if sources.trusted && !is_home(sources) {
        for name in [".gemini", ".parallax"] {
            found.files.extend(project_files(sources.cwd, name));
        }
    }
    if sources.user_replacement.is_empty() {
        for home in [&sources.dirs.gemini, &sources.dirs.parallax] {
            let directory = home.join("policies");
            found.files.extend(directory_files(Tier::User, &directory, LinkPolicy::Follow));
        }
    } else {
        for path in sources.user_replacement {
            found.files.extend(named_files(Tier::User, path));
        }
    }
    let before = found.files.len();
    for directory in system {
        let files = directory_files(Tier::Admin, directory, LinkPolicy::Follow);
        retain_owned(files, directory, administrator, &mut found);
    }
    // System files that were skipped still exclude the other files: otherwise anyone who can
    // invalidate them could replace the rules.
    let exists = found.files.len() > before
        || system
            .iter()
            .any(|directory| rule_file_paths(directory).is_ok_and(|names| !names.is_empty()));
    if !exists {
        for path in sources.admin {
            let files = named_files(Tier::Admin, path);
            retain_owned(files, path, administrator, &mut found);
        }
    } else if !sources.admin.is_empty() {
        found.warnings.push(
            "`--admin-policy` and `adminPolicyPaths` are ignored: this machine has administrator \
             policies"
                .to_owned(),
        );
    }
    found
}

/// Whether the working directory is the home directory, where the project's directory is the
/// user's.
fn is_home(sources: &RuleFileSources<'_>) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(sources.cwd).is_some_and(|cwd| Some(cwd) == real(&sources.dirs.user))
}

/// Reads the rules of a project. No component of the path from the project to a file may be a
/// symlink, because a link could turn any file of the machine into a rule file.
fn project_files(project: &Path, home: &str) -> Vec<RuleFile> {
    let directory = project.join(home).join("policies");
    let is_link =
        |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link(&project.join(home)) || is_link(&directory) {
        let reason = "the policy directory of a project cannot be a link";
        return vec![unreadable_file(Tier::Workspace, &directory, reason)];
    }
    directory_files(Tier::Workspace, &directory, LinkPolicy::Refuse)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkPolicy {
    Follow,
    Refuse,
}

/// Reads a file or directory that a setting or an option names.
fn named_files(tier: Tier, path: &Path) -> Vec<RuleFile> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return directory_files(tier, path, LinkPolicy::Follow);
    }
    let text =
        text_of(path, LinkPolicy::Follow).unwrap_or_else(|| Err("file not found".to_owned()));
    vec![RuleFile { tier, path: path.to_owned(), text }]
}

/// Reads the rule files of a directory by name; returns none if it does not exist.
fn directory_files(tier: Tier, directory: &Path, links: LinkPolicy) -> Vec<RuleFile> {
    let names = match rule_file_paths(directory) {
        Ok(names) => names,
        Err(reason) => return vec![unreadable_file(tier, directory, &reason)],
    };
    names
        .into_iter()
        .filter_map(|path| {
            let text = text_of(&path, links)?;
            Some(RuleFile { tier, path, text })
        })
        .collect()
}

fn unreadable_file(tier: Tier, path: &Path, reason: &str) -> RuleFile {
    RuleFile { tier, path: path.to_owned(), text: Err(reason.to_owned()) }
}

/// Returns the sorted paths of the rule files in a directory.
fn rule_file_paths(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if read::is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(format!("failed to read the directory: {error}")),
    };
    let mut paths = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count >= MAX_NAMES {
            return Err(format!("the directory contains more than {MAX_NAMES} files"));
        }
        let path = entry.map_err(|error| format!("failed to read the directory: {error}"))?.path();
        let is_rules = path.extension().is_some_and(|extension| extension == "toml")
            && path.file_name().is_some_and(|name| name != SANDBOX);
        if is_rules {
            paths.push(path);
        }
    }
    if paths.len() > MAX_COUNT {
        return Err(format!("the directory contains more than {MAX_COUNT} policy files"));
    }
    paths.sort();
    Ok(paths)
}

/// Returns the text or the reason why it cannot be read; `None` if the file does not exist.
fn text_of(path: &Path, links: LinkPolicy) -> Option<Result<String, String>> {
    let text = match links {
        LinkPolicy::Follow => read::read_text(path, LIMIT),
        LinkPolicy::Refuse => read::read_text_no_follow(path, LIMIT),
    };
    match text {
        Ok(None) => None,
        Ok(Some(text)) => Some(Ok(text)),
        Err(ReadError::NotAFile) => Some(Err("it is not a regular file".to_owned())),
        Err(ReadError::TooLarge) => Some(Err(format!("it is larger than {LIMIT} bytes"))),
        Err(ReadError::Io(error)) => Some(Err(error.to_string())),
    }
}

/// Keeps only files that the administrator owns, including every parent directory. Otherwise any
/// user could supply administrator rules.
fn retain_owned(files: Vec<RuleFile>, from: &Path, administrator: u32, found: &mut RuleFiles) {
    for file in files {
        // A missing file has no owner; the warning reports that it is missing.
        let is_missing = file.text.is_err() && file.path.symlink_metadata().is_err();
        match ownership_problem(&file.path, administrator).filter(|_| !is_missing) {
            None => found.files.push(file),
            Some(reason) => found.warnings.push(format!(
                "The administrator policies in `{}` (from `{}`) are ignored: {reason}",
                file.path.display(),
                from.display()
            )),
        }
    }
}

#[cfg(unix)]
fn ownership_problem(path: &Path, administrator: u32) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let real = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return Some(format!("it cannot be resolved: {error}")),
    };
    // The owner of the link's directory could redirect the link.
    let linked = path.parent().into_iter().flat_map(Path::ancestors);
    for (part, is_file) in std::iter::once((real.as_path(), true))
        .chain(real.ancestors().skip(1).chain(linked).map(|directory| (directory, false)))
    {
        let metadata = match std::fs::metadata(part) {
            Ok(metadata) => metadata,
            Err(error) => return Some(format!("`{}`: {error}", part.display())),
        };
        // In a sticky directory such as `/tmp`, users cannot replace files of other users.
        let sticky = !is_file && metadata.mode() & 0o1000 != 0;
        if metadata.uid() != 0 && metadata.uid() != administrator {
            return Some(format!("`{}` is not owned by root", part.display()));
        }
        if metadata.mode() & 0o022 != 0 && !sticky {
            return Some(format!("`{}` is writable by users other than its owner", part.display()));
        }
    }
    None
}

#[cfg(not(unix))]
fn ownership_problem(_path: &Path, _administrator: u32) -> Option<String> {
    Some("ownership cannot be checked on this system".to_owned())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    use parallax_policy::{RuleFile, Tier};

    use super::{RuleFileSources, find, sandbox_files};
    use crate::user_dirs::UserDirs;

    struct RuleDirs {
        root: tempfile::TempDir,
        dirs: UserDirs,
        project: PathBuf,
    }

    impl RuleDirs {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("directory");
            let path = root.path().canonicalize().expect("real");
            let dirs = UserDirs {
                user: path.join("home"),
                gemini: path.join("home/.gemini"),
                parallax: path.join("home/.parallax"),
            };
            Self { root, dirs, project: path.join("project") }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path().canonicalize().expect("real").join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("write");
        }

        fn find<'a>(&'a self, change: impl FnOnce(&mut RuleFileSources<'a>)) -> super::RuleFiles {
            let mut sources = RuleFileSources::for_trusted(&self.dirs, &self.project);
            change(&mut sources);
            let administrator = rustix::process::getuid().as_raw();
            find(&sources, &[self.path("etc/policies")], administrator)
        }
    }

    fn format_files(files: &[RuleFile], root: &Path) -> Vec<String> {
        let root = root.canonicalize().expect("real");
        files
            .iter()
            .map(|file| {
                let path = file.path.strip_prefix(&root).expect("inside");
                let text = file.text.as_deref().unwrap_or_else(|reason| reason);
                format!("{} {}: {text}", file.tier.number(), path.display())
            })
            .collect()
    }

    #[test]
    fn every_tier_has_a_directory_and_files_are_sorted() {
        let world = RuleDirs::new();
        assert_eq!(world.find(|_| {}), super::RuleFiles::default());
        for (path, text) in [
            ("project/.gemini/policies/b.toml", "w1"),
            ("project/.parallax/policies/a.toml", "w2"),
            ("project/.parallax/policies/note.md", "no"),
            ("home/.gemini/policies/z.toml", "u1"),
            ("home/.gemini/policies/auto-saved.toml", "u2"),
            ("home/.gemini/policies/sandbox.toml", "s"),
            ("home/.parallax/policies/m.toml", "u3"),
            ("etc/policies/x.toml", "a"),
            ("named/n.toml", "n"),
        ] {
            world.write(path, text);
        }
        let all = world.find(|_| {});
        assert_eq!(
            format_files(&all.files, world.root.path()),
            [
                "3 project/.gemini/policies/b.toml: w1",
                "3 project/.parallax/policies/a.toml: w2",
                "4 home/.gemini/policies/auto-saved.toml: u2",
                "4 home/.gemini/policies/z.toml: u1",
                "4 home/.parallax/policies/m.toml: u3",
                "5 etc/policies/x.toml: a",
            ]
        );
        let named = [world.path("named"), world.path("gone.toml")];
        let other = world.find(|sources| {
            sources.trusted = false;
            sources.user_replacement = &named;
            sources.admin = &named;
        });
        assert_eq!(
            format_files(&other.files, world.root.path()),
            ["4 named/n.toml: n", "4 gone.toml: file not found", "5 etc/policies/x.toml: a"]
        );
        assert_eq!(other.warnings.len(), 1, "{:?}", other.warnings);
        let sandbox = sandbox_files(&world.dirs);
        assert_eq!(sandbox.len(), 1);
        assert_eq!(sandbox[0].text, Ok("s".to_owned()));
    }

    #[test]
    fn home_rules_are_user_rules_even_when_home_is_the_project() {
        let world = RuleDirs::new();
        world.write("home/.gemini/policies/a.toml", "u");
        let found = world.find(|sources| sources.cwd = &world.dirs.user);
        assert_eq!(
            format_files(&found.files, world.root.path()),
            ["4 home/.gemini/policies/a.toml: u"]
        );
    }

    #[test]
    fn file_writable_by_others_is_not_accepted_as_admin_rules() {
        let world = RuleDirs::new();
        world.write("etc/policies/a.toml", "a");
        world.write("elsewhere/b.toml", "b");
        let named = [world.path("elsewhere/b.toml")];
        let open = |path: &str, mode: u32| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(world.path(path), permissions).expect("mode");
        };
        for (path, good, bad) in [
            ("etc/policies/a.toml", 0o644, 0o664),
            ("etc/policies", 0o755, 0o777),
            ("etc", 0o755, 0o775),
        ] {
            open(path, bad);
            // Invalid rules still exclude the other rules.
            let found = world.find(|sources| sources.admin = &named);
            assert!(found.files.is_empty(), "{path}");
            assert!(
                found.warnings[0].contains("is writable by users other"),
                "{:?}",
                found.warnings
            );
            open(path, good);
        }
        assert_eq!(world.find(|_| {}).files.len(), 1);
        std::fs::remove_file(world.path("etc/policies/a.toml")).expect("remove");
        assert_eq!(world.find(|sources| sources.admin = &named).files.len(), 1);
    }

    #[test]
    fn project_links_pipes_and_oversized_files_are_reported_and_not_read() {
        let world = RuleDirs::new();
        world.write("secret.toml", "secret");
        world.write("project/.gemini/policies/a.toml", "a");
        symlink(world.path("secret.toml"), world.path("project/.gemini/policies/b.toml"))
            .expect("link");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            world.path("project/.gemini/policies/c.toml"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("pipe");
        world.write("project/.gemini/policies/d.toml", &"#".repeat(300_000));
        std::fs::create_dir_all(world.path("project/.parallax")).expect("directory");
        symlink(world.path("etc"), world.path("project/.parallax/policies")).expect("link");
        let found = world.find(|_| {});
        let formatted = format_files(&found.files, world.root.path());
        assert_eq!(formatted.len(), 5, "{formatted:?}");
        assert_eq!(formatted[0], "3 project/.gemini/policies/a.toml: a");
        for line in &formatted[1..] {
            assert!(!line.contains("secret") && !line.contains('#'), "{line}");
        }
        for number in 0..=super::MAX_COUNT {
            world.write(&format!("home/.gemini/policies/{number}.toml"), "");
        }
        let found = world.find(|_| {});
        let last = found.files.last().expect("one");
        assert_eq!((last.tier, last.text.is_err()), (Tier::User, true));
    }
}
