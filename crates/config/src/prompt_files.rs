//! The user's prompt files: a replacement of the system prompt, replacements of single sections,
//! and appended text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::read::{ReadError, read_text};
use crate::user_dirs::UserDirs;

/// Maximum size of one file in bytes.
const LIMIT: u64 = 1024 * 1024;
/// Settings directories in ascending order of precedence.
const FOLDERS: [&str; 2] = [".gemini", ".parallax"];
/// The file that is appended to the prompt.
const APPEND: &str = "system.append.md";

/// Where to look for prompt files.
#[derive(Debug, Clone, Copy)]
pub struct PromptFileSources<'a> {
    /// The variables (`GEMINI_SYSTEM_MD`, `GEMINI_WRITE_SYSTEM_MD`).
    pub environment: &'a Environment,
    /// The user's directories.
    pub dirs: &'a UserDirs,
    /// The working directory.
    pub cwd: &'a Path,
    /// Whether the working directory is trusted; project files are used only then.
    pub trusted: bool,
    /// The section names, which are the file names without extension.
    pub sections: &'a [&'a str],
}

/// The prompt files that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptFiles {
    /// The replacement of the whole built-in prompt, with its file.
    pub replacement: Option<(PathBuf, String)>,
    /// Replacements of sections, by section name.
    pub sections: BTreeMap<String, String>,
    /// Appended strings; the user's come first.
    pub append: Vec<String>,
    /// The file to which to write the built-in prompt.
    pub write_to: Option<PathBuf>,
    /// Warnings about files that were not used, one sentence each.
    pub warnings: Vec<String>,
}

/// The value of a variable that enables or names a file.
enum PromptVariable {
    Off,
    Default,
    File(PathBuf),
}

/// Reads the prompt files. Blocking.
///
/// # Errors
/// Returns an error if `GEMINI_SYSTEM_MD` names a file that does not exist or cannot be read.
/// Falling back to another prompt would be unexpected.
pub fn prompt_files(sources: &PromptFileSources<'_>) -> Result<PromptFiles, ConfigError> {
    let mut found = PromptFiles::default();
    let standard = default_prompt_file(sources.cwd);
    let file = match read_variable(sources, "GEMINI_SYSTEM_MD") {
        PromptVariable::Off => None,
        PromptVariable::Default if !sources.trusted => {
            found.warnings.push(format!(
                "`{}` is not used as the system prompt: the folder is not trusted",
                standard.display()
            ));
            None
        }
        PromptVariable::Default => {
            if leaves_project(&standard, sources.cwd) {
                return Err(ConfigError::OutsideProject { path: standard });
            }
            if sources.environment.is_set_by_project("GEMINI_SYSTEM_MD") {
                found.warnings.push(format!(
                    "the project's `.env` replaces the system prompt with `{}`; set \
                     `GEMINI_SYSTEM_MD=0` in your environment to keep the built-in one",
                    standard.display()
                ));
            }
            Some(standard.clone())
        }
        PromptVariable::File(path) => Some(path),
    };
    if let Some(path) = file {
        let text = match read_text(&path, LIMIT) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let source = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(ConfigError::Unreadable { path, source });
            }
            Err(error) => return Err(unreadable_error(path, error)),
        };
        found.replacement = Some((path, text));
    }
    found.write_to = match read_variable(sources, "GEMINI_WRITE_SYSTEM_MD") {
        PromptVariable::Off => None,
        PromptVariable::Default => Some(standard),
        PromptVariable::File(path) => Some(path),
    };
    let dirs = [sources.dirs.gemini.clone(), sources.dirs.parallax.clone()];
    let project_directories = FOLDERS.map(|directory| sources.cwd.join(directory));
    let project_directories =
        project_directories.into_iter().filter(|folder| sources.trusted && !dirs.contains(folder));
    for (folder, is_project) in
        dirs.iter().cloned().map(|it| (it, false)).chain(project_directories.map(|it| (it, true)))
    {
        let root = is_project.then_some(sources.cwd);
        found.append.extend(read_prompt_file(&folder.join(APPEND), root, &mut found.warnings));
        add_sections(&folder.join("prompt"), root, sources, &mut found);
    }
    Ok(found)
}

/// Whether a project file resolves to a path outside of the project: it could be a link to the
/// user's secrets.
fn leaves_project(path: &Path, root: &Path) -> bool {
    // Usually the file does not exist, which takes one call to find out.
    path.symlink_metadata().is_ok() && {
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        std::fs::canonicalize(path).is_ok_and(|real| !real.starts_with(root))
    }
}

/// Returns the project's file for the whole system prompt.
pub fn default_prompt_file(cwd: &Path) -> PathBuf {
    cwd.join(".gemini").join("system.md")
}

/// Adds the sections of a directory, which override those found before.
fn add_sections(
    directory: &Path,
    root: Option<&Path>,
    sources: &PromptFileSources<'_>,
    found: &mut PromptFiles,
) {
    if !directory.is_dir() {
        return;
    }
    for section in sources.sections {
        let file = directory.join(format!("{section}.md"));
        if let Some(text) = read_prompt_file(&file, root, &mut found.warnings) {
            found.sections.insert((*section).to_owned(), text);
        }
    }
    // Warns about unknown section names, which are probably typos.
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(100);
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_text = path.extension().is_some_and(|extension| extension == "md");
        if is_text && !sources.sections.contains(&name.as_ref()) {
            found.warnings.push(format!(
                "unknown section `{}` of the system prompt; known sections: {}",
                path.display(),
                sources.sections.join(", ")
            ));
        }
    }
}

/// Returns the text of a file; a project file must resolve to a path inside its `root`.
fn read_prompt_file(
    path: &Path,
    root: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Option<String> {
    if root.is_some_and(|root| leaves_project(path, root)) {
        warnings.push(ConfigError::OutsideProject { path: path.to_owned() }.to_string());
        return None;
    }
    match read_text(path, LIMIT) {
        Ok(text) => text.filter(|text| !text.trim().is_empty()),
        Err(error) => {
            warnings.push(unreadable_error(path.to_owned(), error).to_string());
            None
        }
    }
}

fn unreadable_error(path: PathBuf, error: ReadError) -> ConfigError {
    match error {
        ReadError::NotAFile => ConfigError::NotAFile { path },
        ReadError::TooLarge => ConfigError::TooLarge { path, limit: LIMIT },
        ReadError::Io(source) => ConfigError::Unreadable { path, source },
    }
}

fn read_variable(sources: &PromptFileSources<'_>, variable: &str) -> PromptVariable {
    let value = sources.environment.get(variable).unwrap_or_default().trim();
    match value.to_ascii_lowercase().as_str() {
        "" | "0" | "false" => PromptVariable::Off,
        "1" | "true" => PromptVariable::Default,
        _ => PromptVariable::File(match value.strip_prefix("~/") {
            Some(rest) => sources.dirs.user.join(rest),
            None => sources.cwd.join(value),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(folder: &Path, trusted: bool, variables: &[(&str, &str)]) -> PromptFiles {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let environment = Environment::new(variables);
        let dirs = UserDirs {
            user: folder.join("home"),
            gemini: folder.join("home/.gemini"),
            parallax: folder.join("home/.parallax"),
        };
        let sources = PromptFileSources {
            environment: &environment,
            dirs: &dirs,
            cwd: &folder.join("work"),
            trusted,
            sections: &["preamble", "git"],
        };
        prompt_files(&sources).expect("files")
    }

    #[test]
    fn project_prompt_files_are_used_only_when_trusted() {
        let directory = tempfile::tempdir().expect("directory");
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("file");
        };
        write("home/.gemini/system.append.md", "be brief");
        write("home/.parallax/prompt/git.md", "mine");
        write("work/.gemini/prompt/git.md", "the project's");
        write("work/.gemini/prompt/gti.md", "a slip");
        write("work/.gemini/system.append.md", "be exact");
        write("work/.gemini/system.md", "${AvailableTools}");
        let trusted = load(directory.path(), true, &[("GEMINI_SYSTEM_MD", "true")]);
        assert_eq!(trusted.append, ["be brief", "be exact"]);
        assert_eq!(trusted.sections["git"], "the project's");
        assert_eq!(trusted.replacement.map(|(_, text)| text).as_deref(), Some("${AvailableTools}"));
        assert!(trusted.warnings.iter().any(|text| text.contains("gti.md")));
        let untrusted = load(directory.path(), false, &[("GEMINI_SYSTEM_MD", "1")]);
        assert_eq!(untrusted.append, ["be brief"]);
        assert_eq!(untrusted.sections["git"], "mine");
        assert!(untrusted.replacement.is_none() && untrusted.warnings.len() == 1);
        let named = [("GEMINI_SYSTEM_MD", "~/.parallax/prompt/git.md")];
        assert!(load(directory.path(), false, &named).replacement.is_some());
        assert!(load(directory.path(), true, &[("GEMINI_SYSTEM_MD", "0")]).replacement.is_none());
    }
}
