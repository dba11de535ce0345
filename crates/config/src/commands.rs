//! Custom commands: files with prompts for `/name`.

mod markdown_format;
mod name;
pub mod template;
mod toml_format;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_protocol::budget::BudgetKind;
use parallax_protocol::policy::ApprovalMode;

use crate::definitions::{self, Owner};
use crate::read::{self, ReadError};
use crate::user_dirs::UserDirs;

/// Maximum size of one file in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Maximum number of files in one directory tree.
const MAX_COUNT: usize = 5_000;
/// Maximum directory depth.
const DEPTH: usize = 16;
/// Maximum number of characters of a description.
const DESCRIPTION: usize = 100;

/// Where a command comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandSource {
    /// The project.
    Project,
    /// The user.
    User,
    /// An extension, by name.
    Extension(String),
}

/// A directory that holds command files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFolder {
    /// Where the commands come from.
    pub source: CommandSource,
    /// The directory; it need not exist.
    pub folder: PathBuf,
}

/// The file format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFormat {
    /// A TOML table with a `prompt` key.
    Toml,
    /// Markdown with front matter.
    Markdown,
}

/// An argument that a command declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandArgument {
    /// The display name.
    pub name: String,
    /// Whether the command requires it.
    pub required: bool,
    /// The allowed values; empty allows any.
    pub choices: Vec<String>,
}

/// Overrides for the turn that runs a command's prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOverrides {
    /// Another model.
    pub model: Option<String>,
    /// The only tools to allow.
    pub tools: Option<Vec<String>>,
    /// Tool calls that need no approval: a tool, or `TOOL(argument)`.
    pub allowed: Vec<String>,
    /// The subagent that runs the prompt.
    pub agent: Option<String>,
    /// Another approval mode.
    pub mode: Option<ApprovalMode>,
    /// Time limit for the shell commands in the prompt, and then for the turn.
    pub timeout: Option<Duration>,
}

impl CommandOverrides {
    /// Parses `mode` and `timeout`. Returns `Ok(false)` for any other field.
    ///
    /// # Errors
    /// Returns the expected value if the value is invalid.
    fn parse_field(&mut self, key: &str, text: &str) -> Result<bool, &'static str> {
        match key {
            "mode" => {
                let mode = ApprovalMode::parse(text.trim());
                let mode = mode.filter(|mode| *mode != ApprovalMode::Yolo);
                self.mode = Some(mode.ok_or("`plan`, `default`, `auto_edit`")?);
            }
            "timeout" => {
                let seconds = BudgetKind::Time.parse_amount(text);
                let time = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
                self.timeout = Some(time.ok_or(
                    "a number of seconds, or a string such as `90s` or \
                    `10m`",
                )?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A parsed command file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFile {
    /// The name without the slash, such as `git:commit`.
    pub name: String,
    /// Where it comes from.
    pub source: CommandSource,
    /// The file.
    pub path: PathBuf,
    /// The format.
    pub form: CommandFormat,
    /// One line for lists.
    pub description: String,
    /// The argument hint shown in lists; empty if missing.
    pub argument_hint: String,
    /// The declared arguments.
    pub arguments: Vec<CommandArgument>,
    /// The prompt template.
    pub prompt: String,
    /// Where the template begins in the file: line and column, counted from 1.
    pub template_position: (usize, usize),
    /// Overrides for the turn.
    pub overrides: CommandOverrides,
    /// Unknown fields in the file.
    pub unknown_fields: Vec<String>,
}

/// An invalid command file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// The column in characters, counted from 1.
    pub column: Option<usize>,
    /// What is wrong and how to fix it.
    pub message: String,
    /// The name that the command would have; `None` for a directory.
    pub name: Option<String>,
    /// The number of commands with a higher precedence than this one.
    pub overridden_by: usize,
}

impl std::fmt::Display for CommandProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// The commands that were found, in descending order of precedence: project, user, extensions;
/// `.parallax` before `.gemini`; TOML before Markdown.
#[derive(Debug, Clone, Default)]
pub struct CommandFiles {
    /// The commands.
    pub commands: Vec<CommandFile>,
    /// The invalid files.
    pub problems: Vec<CommandProblem>,
}

/// The directory of another agent, whose commands are also Markdown.
const OTHER: &str = ".claude";

/// Returns the command directories of the project (only if it is trusted) and of the user, in
/// descending order of precedence. With `commands.includeOtherAgents`, includes the directories of
/// other agents, which have a lower precedence than Parallax's own of the same owner.
pub fn command_folders(
    dirs: &UserDirs,
    cwd: &Path,
    trusted: bool,
    others: bool,
) -> Vec<CommandFolder> {
    let mut folders = definitions::directories(dirs, cwd, trusted, "commands", &[]);
    if others {
        if trusted && !dirs.is_home(cwd) {
            let index = folders.iter().position(|(owner, _)| *owner == Owner::Project);
            let location = (Owner::Project, cwd.join(OTHER).join("commands"));
            folders.insert(index.unwrap_or(folders.len()), location);
        }
        folders.insert(0, (Owner::User, dirs.user.join(OTHER).join("commands")));
    }
    folders
        .into_iter()
        .rev()
        .map(|(owner, folder)| CommandFolder {
            source: match owner {
                Owner::User => CommandSource::User,
                Owner::Project => CommandSource::Project,
            },
            folder,
        })
        .collect()
}

/// Reads the commands in the directories and follows symlinks. Blocking; bounded in files, bytes,
/// and depth.
pub fn find_commands(directories: &[CommandFolder]) -> CommandFiles {
    let mut found = CommandFiles::default();
    for directory in directories {
        let mut files = Vec::new();
        let mut entered = HashSet::new();
        walk(&directory.folder, 0, &mut entered, &mut files, &mut found.problems);
        files.sort();
        for path in files {
            match read_file(&directory.source, &directory.folder, &path) {
                Ok(command) => found.commands.push(command),
                Err(problem) => {
                    let name = path.strip_prefix(&directory.folder).unwrap_or(&path);
                    let (name, overridden_by) =
                        (Some(name::command_name(name)), found.commands.len());
                    found.problems.push(CommandProblem { name, overridden_by, ..problem });
                }
            }
        }
    }
    found
}

/// Reads one command file below `directory`.
///
/// # Errors
/// Returns the problem if the file is not a valid command.
fn read_file(
    source: &CommandSource,
    directory: &Path,
    path: &Path,
) -> Result<CommandFile, CommandProblem> {
    let problem = |at: (Option<usize>, Option<usize>), message: String| CommandProblem {
        path: path.to_owned(),
        line: at.0,
        column: at.1,
        message,
        name: None,
        overridden_by: 0,
    };
    let nowhere = (None, None);
    let text = match read::read_at_most(path, MAX_BYTES) {
        Ok(Some(read)) if read.is_truncated => {
            return Err(problem(nowhere, format!("it is larger than {MAX_BYTES} bytes")));
        }
        Ok(Some(read)) if std::str::from_utf8(&read.bytes).is_err() => {
            return Err(problem(nowhere, "it is not valid UTF-8".to_owned()));
        }
        Ok(Some(read)) => read::to_text(&read.bytes),
        Ok(None) if path.is_symlink() => {
            return Err(problem(
                nowhere,
                "a symbolic link to a file that does not exist".to_owned(),
            ));
        }
        Ok(None) => return Err(problem(nowhere, "the file no longer exists".to_owned())),
        Err(ReadError::NotAFile) => {
            let what = if path.is_dir() {
                "a directory, not a command file"
            } else {
                "not a regular file"
            };
            return Err(problem(nowhere, what.to_owned()));
        }
        Err(ReadError::TooLarge) => {
            return Err(problem(nowhere, format!("it is larger than {MAX_BYTES} bytes")));
        }
        Err(ReadError::Io(error)) => return Err(problem(nowhere, error.to_string())),
    };
    let form = format_for(path).unwrap_or(CommandFormat::Toml);
    let read = match form {
        CommandFormat::Toml => toml_format::read(&text),
        CommandFormat::Markdown => markdown_format::read(&text),
    };
    let written =
        read.map_err(|failure| problem((failure.line, failure.column), failure.message))?;
    let relative = path.strip_prefix(directory).unwrap_or(path);
    let name = name::command_name(relative);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let description = match one_line(&written.description, DESCRIPTION) {
        text if text.is_empty() => one_line(&format!("Custom command from {file}"), DESCRIPTION),
        text => text,
    };
    let description = match source {
        CommandSource::Extension(extension) => format!("[{extension}] {description}"),
        _ => description,
    };
    Ok(CommandFile {
        name,
        source: source.clone(),
        path: path.to_owned(),
        form,
        description,
        argument_hint: one_line(&written.argument_hint, DESCRIPTION),
        arguments: written.arguments,
        prompt: written.prompt,
        template_position: written.template_position,
        overrides: written.overrides,
        unknown_fields: written.unknown_fields,
    })
}

/// The parsed contents of either format.
#[derive(Debug, Default)]
struct ParsedCommand {
    prompt: String,
    /// Where the template begins: line and column.
    template_position: (usize, usize),
    overrides: CommandOverrides,
    description: String,
    argument_hint: String,
    arguments: Vec<CommandArgument>,
    unknown_fields: Vec<String>,
}

/// An error in the text of a file.
#[derive(Debug)]
struct CommandParseError {
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

fn format_for(path: &Path) -> Option<CommandFormat> {
    match path.extension()?.to_str()? {
        "toml" => Some(CommandFormat::Toml),
        "md" => Some(CommandFormat::Markdown),
        _ => None,
    }
}

/// Collects the command files below a directory. Follows symlinks but enters no directory twice.
fn walk(
    directory: &Path,
    depth: usize,
    entered: &mut HashSet<PathBuf>,
    files: &mut Vec<PathBuf>,
    problems: &mut Vec<CommandProblem>,
) {
    let problem = |message: String| CommandProblem {
        path: directory.to_owned(),
        line: None,
        column: None,
        message,
        name: None,
        overridden_by: 0,
    };
    let real = match std::fs::canonicalize(directory) {
        Ok(real) => real,
        Err(error) if read::is_absent(&error) && directory.is_symlink() => {
            let message = "a symbolic link to a directory that does not exist";
            return problems.push(problem(message.to_owned()));
        }
        Err(error) if read::is_absent(&error) => return,
        Err(error) => return problems.push(problem(error.to_string())),
    };
    if !entered.insert(real) {
        return;
    }
    if depth > DEPTH {
        return problems
            .push(problem(format!("files more than {DEPTH} directories deep are ignored")));
    }
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        // A file at the path of the directory is not a command directory.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return,
        Err(error) => return problems.push(problem(error.to_string())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        // A link that points nowhere is a broken command or directory: a weaker one must not run
        // instead of it. Emacs marks a file that is being edited with such a link, `.#name`.
        let metadata = std::fs::metadata(&path);
        let is_directory = metadata.as_ref().is_ok_and(|metadata| metadata.is_dir());
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let has_form = format_for(&path).is_some();
        if is_directory || (!has_form && !is_hidden && metadata.is_err()) {
            walk(&path, depth + 1, entered, files, problems);
        }
        // A directory named like a command is a broken one, too.
        if has_form && !entry.file_name().as_encoded_bytes().starts_with(b".#") {
            if files.len() >= MAX_COUNT {
                return problems
                    .push(problem(format!("only the first {MAX_COUNT} command files are read")));
            }
            files.push(path);
        }
    }
}

/// Returns the text on one line without control characters, truncated to `limit` characters.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let clean: String = text
        .chars()
        .map(|char| if char.is_whitespace() { ' ' } else { char })
        .filter(|char| !char.is_control())
        .collect();
    let words: Vec<&str> = clean.split(' ').filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(limit) {
        None => line,
        Some(_) => {
            let start: String = line.chars().take(limit.saturating_sub(3)).collect();
            format!("{}...", start.trim_end())
        }
    }
}

#[cfg(test)]
mod tests;
