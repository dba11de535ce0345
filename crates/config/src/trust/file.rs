//! The files with trust rules: reading all of them and writing Parallax's own.

use std::path::{Component, Path, PathBuf};

use jsonc_parser::cst::CstObject;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

const VARIABLE: &str = "GEMINI_CLI_TRUSTED_FOLDERS_PATH";

/// The trust level that a rule gives to its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustLevel {
    /// The folder and everything below it are trusted.
    TrustFolder,
    /// The parent of the folder and everything below it are trusted.
    TrustParent,
    /// The folder and everything below it are not trusted.
    DoNotTrust,
}

impl TrustLevel {
    /// Returns the value used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TrustFolder => "TRUST_FOLDER",
            Self::TrustParent => "TRUST_PARENT",
            Self::DoNotTrust => "DO_NOT_TRUST",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::TrustFolder, Self::TrustParent, Self::DoNotTrust]
            .into_iter()
            .find(|level| level.as_str() == text)
    }
}

/// A rule in a trust file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRule {
    /// The file.
    pub file: PathBuf,
    /// The folder, unexpanded.
    pub folder: String,
    /// The trust level.
    pub level: TrustLevel,
}

/// The files with trust rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustFiles {
    /// In descending order of precedence; the first is Parallax's own, the only one that is
    /// written.
    files: Vec<PathBuf>,
}

impl TrustFiles {
    /// Finds `~/.parallax/trustedFolders.json` and `~/.gemini/trustedFolders.json`, or the file
    /// that `GEMINI_CLI_TRUSTED_FOLDERS_PATH` names.
    ///
    /// # Errors
    /// Returns an error if the variable holds a relative path: it would depend on the working
    /// directory, so that a directory could trust itself.
    pub fn find(environment: &Environment, dirs: &UserDirs) -> Result<Self, ConfigError> {
        let files = match environment.get(VARIABLE) {
            Some(path) if Path::new(path).is_absolute() => vec![PathBuf::from(path)],
            Some(path) => {
                let value = path.to_owned();
                return Err(ConfigError::RelativePath { variable: VARIABLE, value });
            }
            None => vec![
                dirs.parallax.join("trustedFolders.json"),
                dirs.gemini.join("trustedFolders.json"),
            ],
        };
        Ok(Self { files })
    }

    /// Returns the file that is written.
    pub fn writable_file(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Returns all rules, starting with the file of the highest precedence.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be used.
    pub fn rules(&self) -> Result<Vec<TrustRule>, ConfigError> {
        let mut rules = Vec::new();
        for file in &self.files {
            for (folder, value) in jsonc::read_object(file)?.into_iter().flatten() {
                let Some(level) = value.as_str().and_then(TrustLevel::parse) else {
                    return Err(ConfigError::TrustValue {
                        path: file.clone(),
                        folder,
                        value: value.to_string().chars().take(80).collect(),
                    });
                };
                rules.push(TrustRule { file: file.clone(), folder, level });
            }
        }
        Ok(rules)
    }
}

/// Sets the trust level of a folder in Parallax's own file; `None` removes it. Other rules,
/// comments, and order are kept.
///
/// # Errors
/// Returns an error if the folder does not exist or its name is not Unicode, or if a file cannot be
/// used or written.
pub fn set(
    files: &TrustFiles,
    folder: &Path,
    level: Option<TrustLevel>,
) -> Result<(), ConfigError> {
    let folder_error = |reason: String| ConfigError::Folder { path: folder.to_owned(), reason };
    // A rule may outlive its folder, but none is created for a missing folder: any user who
    // creates the folder later would be trusted.
    let real = match std::fs::canonicalize(folder) {
        Ok(real) if real.is_dir() => real,
        Ok(_) => return Err(folder_error("it is not a folder".to_owned())),
        Err(_) if level.is_none() => folder.to_owned(),
        Err(error) => return Err(folder_error(error.to_string())),
    };
    let Some(name) = real.to_str() else {
        return Err(folder_error("its name is not valid Unicode".to_owned()));
    };
    if !real.is_absolute() {
        return Err(folder_error("the path is not absolute".to_owned()));
    }
    files.rules()?;
    json_state_file::update(files.writable_file(), |rules| set_rule(rules, &real, name, level))
}

fn set_rule(rules: &CstObject, real: &Path, name: &str, level: Option<TrustLevel>) {
    let mut level = level;
    for rule in rules.properties() {
        let Some(written) = rule.name().and_then(|name| name.decoded_value().ok()) else {
            continue;
        };
        if written != name && resolve_rule_path(&written).as_deref() != Some(real) {
            continue;
        }
        match (level, written == name) {
            (Some(new), true) => {
                rule.set_value(new.as_str().into());
                // A duplicate key is removed.
                level = None;
            }
            // Another name of the same folder.
            _ => rule.remove(),
        }
    }
    if let Some(level) = level {
        rules.append(name, level.as_str().into());
    }
}

/// Returns the rule that applies to a folder: the one with the longest path; among equally long
/// ones the one of the file with the higher precedence; within one file the one that denies trust.
pub(super) fn most_specific_rule(rules: Vec<TrustRule>, folder: &Path) -> Option<TrustRule> {
    let mut best: Option<(usize, TrustRule)> = None;
    for rule in rules {
        let Some(path) = resolve_rule_path(&rule.folder) else { continue };
        let covered = match rule.level {
            TrustLevel::TrustParent => path.parent().unwrap_or(&path),
            _ => &path,
        };
        if !folder.starts_with(covered) {
            continue;
        }
        let length = path.components().count();
        let better = best.as_ref().is_none_or(|(longest, other)| {
            length > *longest
                || (length == *longest && other.file == rule.file && rule.level > other.level)
        });
        if better {
            best = Some((length, rule));
        }
    }
    best.map(|(_, rule)| rule)
}

/// Resolves the path of a rule, following links as far as it exists. Returns `None` for a relative
/// path, which would depend on the working directory, and for a path with `..` after the part that
/// exists.
fn resolve_rule_path(written: &str) -> Option<PathBuf> {
    let path = Path::new(written);
    if !path.is_absolute() {
        return None;
    }
    let (real, rest) = path.ancestors().find_map(|ancestor| {
        let real = std::fs::canonicalize(ancestor).ok()?;
        Some((real, path.strip_prefix(ancestor).ok()?))
    })?;
    let goes_up = rest.components().any(|part| part == Component::ParentDir);
    (!goes_up).then(|| if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{TrustFiles, TrustLevel, TrustRule, most_specific_rule, set};

    struct TrustDirs {
        _root: tempfile::TempDir,
        root: PathBuf,
        files: TrustFiles,
    }

    impl TrustDirs {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("folder");
            let root = folder.path().canonicalize().expect("real");
            for path in ["a/b/c", "a/bc", "a/B", "ours", "theirs"] {
                std::fs::create_dir_all(root.join(path)).expect("folder");
            }
            std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).expect("link");
            let files =
                TrustFiles { files: vec![root.join("ours/t.json"), root.join("theirs/t.json")] };
            Self { _root: folder, root, files }
        }

        fn write(&self, file: &str, rules: &[(&str, &str)]) {
            let root = self.root.display();
            let lines: Vec<String> = rules
                .iter()
                .map(|(folder, level)| {
                    let at = if folder.starts_with('/') { root.to_string() } else { String::new() };
                    format!("\"{at}{folder}\": \"{level}\"")
                })
                .collect();
            let text = format!("{{{}}}", lines.join(","));
            std::fs::write(self.root.join(file).join("t.json"), text).expect("write");
        }

        fn trusts(&self, folder: &str) -> Option<bool> {
            let folder = std::fs::canonicalize(self.root.join(folder)).expect("there");
            let rules = self.files.rules().expect("rules");
            most_specific_rule(rules, &folder).map(|rule| rule.level != TrustLevel::DoNotTrust)
        }
    }

    #[test]
    fn trust_rule_covers_its_directory_but_not_similar_names() {
        const YES: &str = "TRUST_FOLDER";
        const NO: &str = "DO_NOT_TRUST";
        // (rules, folder, trusted)
        type Row = (&'static [(&'static str, &'static str)], &'static str, Option<bool>);
        let table: &[Row] = &[
            (&[("/a/b", YES)], "a/b", Some(true)),
            (&[("/a/b/", YES)], "a/b", Some(true)),
            (&[("/a/b", YES)], "a/b/c", Some(true)),
            (&[("/a/b", YES)], "a/bc", None),
            (&[("/a/b", YES)], "a/B", None),
            (&[("/a/b", YES)], "a", None),
            (&[("/a/b", YES)], "link/c", Some(true)),
            (&[("/link", YES)], "a/b", Some(true)),
            (&[("/a/bc/../b", YES)], "a/b", Some(true)),
            (&[("/a/gone/../b", YES)], "a/b", None),
            (&[("/a/b", "TRUST_PARENT")], "a/bc", Some(true)),
            (&[("/a/b", "TRUST_PARENT")], "ours", None),
            (&[("/a/gone", "TRUST_PARENT")], "a/b", Some(true)),
            (&[("/a", YES), ("/a/b", NO)], "a/b/c", Some(false)),
            (&[("/a", NO), ("/a/b", YES)], "a/b/c", Some(true)),
            (&[("/a/b", YES), ("/link", NO)], "a/b", Some(false)),
            (&[("/link", NO), ("/a/b", YES)], "a/b", Some(false)),
            // Relative paths would depend on the working directory.
            (&[(".", YES), ("", YES), ("a/b", YES), ("..", "TRUST_PARENT")], "a/b", None),
        ];
        for (rules, folder, trusted) in table {
            let world = TrustDirs::new();
            world.write("ours", rules);
            assert_eq!(world.trusts(folder), *trusted, "{rules:?} {folder}");
        }
        let current_directory =
            std::env::current_dir().and_then(std::fs::canonicalize).expect("here");
        let level = TrustLevel::TrustFolder;
        let rule = |folder: &str| TrustRule { file: "f".into(), folder: folder.into(), level };
        assert_eq!(most_specific_rule(vec![rule("."), rule("..")], &current_directory), None);
    }

    #[test]
    fn longest_trust_rule_wins_and_parallax_wins_ties() {
        let world = TrustDirs::new();
        world.write("ours", &[("/a", "TRUST_FOLDER")]);
        world.write("theirs", &[("/a/b", "DO_NOT_TRUST")]);
        assert_eq!(world.trusts("a/b"), Some(false));
        world.write("ours", &[("/a/b", "TRUST_FOLDER")]);
        assert_eq!(world.trusts("a/b"), Some(true));
        world.write("theirs", &[("/a/b", "MAYBE")]);
        assert!(world.files.rules().is_err());
    }

    #[test]
    fn trust_file_update_keeps_comments_and_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let world = TrustDirs::new();
        let file = world.root.join("ours/t.json");
        let (a, link) = (world.root.join("a"), world.root.join("link"));
        let text = format!(
            "// mine\n{{\n  \"/x\": \"DO_NOT_TRUST\", // why\n  \"{}\": \"DO_NOT_TRUST\"\n}}\n",
            link.display()
        );
        std::fs::write(&file, &text).expect("write");
        let put = |folder: &Path, level| set(&world.files, folder, level).expect("set");
        put(&a, Some(TrustLevel::TrustFolder));
        put(&world.root.join("a/b/../b"), Some(TrustLevel::TrustParent));
        let root = world.root.display();
        let expected = format!(
            "// mine\n{{\n  \"/x\": \"DO_NOT_TRUST\", // why\n  \"{root}/a\": \"TRUST_FOLDER\",\n  \
             \"{root}/a/b\": \"TRUST_PARENT\"\n}}\n"
        );
        assert_eq!(std::fs::read_to_string(&file).expect("read"), expected);
        put(&a, Some(TrustLevel::DoNotTrust));
        put(&world.root.join("link"), None);
        assert_eq!(world.trusts("a/b"), Some(false));
        assert_eq!(world.files.rules().expect("rules").len(), 2);
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn concurrent_writers_lose_no_rule_and_invalid_file_is_unchanged() {
        let world = TrustDirs::new();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let folder = world.root.join(format!("many/{number}"));
                std::fs::create_dir_all(&folder).expect("folder");
                let files = &world.files;
                scope.spawn(move || {
                    set(files, &folder, Some(TrustLevel::TrustFolder)).expect("set")
                });
            }
        });
        assert_eq!(world.files.rules().expect("rules").len(), 8);
        let file = world.root.join("ours/t.json");
        std::fs::write(&file, "{ \"/a\": ").expect("write");
        assert!(set(&world.files, &world.root, Some(TrustLevel::TrustFolder)).is_err());
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "{ \"/a\": ");
        std::fs::remove_file(&file).expect("remove");
        let missing = world.root.join("gone");
        assert!(set(&world.files, &missing, Some(TrustLevel::TrustFolder)).is_err());
    }
}
