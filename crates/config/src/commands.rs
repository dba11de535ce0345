//! Custom commands: the files in which people write prompts for `/name`.

mod markdown_form;
mod name;
mod toml_form;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_protocol::budget::BudgetKind;
use parallax_protocol::policy::ApprovalMode;

use crate::definitions::{self, Owner};
use crate::homes::Homes;
use crate::read::{self, ReadError};

/// Bytes of one file.
const LARGEST: u64 = 1024 * 1024;
/// Files in one folder with all below it.
const MOST: usize = 5_000;
/// Folders below each other.
const DEPTH: usize = 16;
/// Characters of a description.
const DESCRIPTION: usize = 100;

/// Whose a command is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandSource {
    /// The project's.
    Project,
    /// The user's.
    User,
    /// An extension's, by its name.
    Extension(String),
}

/// A folder that holds command files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFolder {
    /// Whose they are.
    pub source: CommandSource,
    /// The folder; it need not exist.
    pub folder: PathBuf,
}

/// How a command file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandForm {
    /// A TOML table with `prompt`.
    Toml,
    /// Markdown, its settings before it.
    Markdown,
}

/// An argument that a command says it takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandArgument {
    /// Its name, for people.
    pub name: String,
    /// Whether the command cannot run without it.
    pub required: bool,
    /// What it may be; empty: anything.
    pub choices: Vec<String>,
}

/// What a command wants for the turn of its prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandWishes {
    /// Another model.
    pub model: Option<String>,
    /// The only tools.
    pub tools: Option<Vec<String>>,
    /// Calls that need no leave: a tool, or `TOOL(what)`.
    pub allowed: Vec<String>,
    /// The agent that the work is for.
    pub agent: Option<String>,
    /// Another approval mode.
    pub mode: Option<ApprovalMode>,
    /// How long it may take, its own shell commands and then the turn.
    pub timeout: Option<Duration>,
}

impl CommandWishes {
    /// Takes `mode` and `timeout` from texts. `Ok(false)`: the field is another.
    ///
    /// # Errors
    /// What the value must be.
    fn take(&mut self, key: &str, text: &str) -> Result<bool, &'static str> {
        match key {
            "mode" => {
                let mode = ApprovalMode::parse(text.trim());
                self.mode = Some(mode.ok_or("`plan`, `default`, `auto_edit`")?);
            }
            "timeout" => {
                let seconds = BudgetKind::Time.amount(text);
                let time = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
                self.timeout = Some(time.ok_or("seconds, or a text such as `90s` or `10m`")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A command as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFile {
    /// Without the slash: `git:commit`.
    pub name: String,
    /// Whose it is.
    pub source: CommandSource,
    /// The file.
    pub path: PathBuf,
    /// How it is written.
    pub form: CommandForm,
    /// One line for lists.
    pub description: String,
    /// What may follow the name, as lists show it; empty: nothing is said.
    pub argument_hint: String,
    /// The arguments, where the file names them.
    pub arguments: Vec<CommandArgument>,
    /// The template.
    pub prompt: String,
    /// Where in the file it begins: line and column, from 1.
    pub place: (usize, usize),
    /// What it wants for its prompt.
    pub wishes: CommandWishes,
    /// Fields of the file that have no meaning here.
    pub unused: Vec<String>,
}

/// A file that is no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// The column in it, from 1, in characters.
    pub column: Option<usize>,
    /// What is wrong, and what to do.
    pub message: String,
    /// The command that the file would be; `None` for a directory.
    pub name: Option<String>,
    /// How many commands are stronger than this one would be.
    pub rank: usize,
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

/// What was found, the strongest first: project before user before extensions,
/// `.parallax` before `.gemini`, TOML before Markdown.
#[derive(Debug, Clone, Default)]
pub struct CommandFiles {
    /// The commands.
    pub commands: Vec<CommandFile>,
    /// What is no command.
    pub problems: Vec<CommandProblem>,
}

/// The home of another agent, whose commands are Markdown too.
const OTHER: &str = ".claude";

/// The folders of the project (only when it is trusted) and of the user, the
/// strongest first; with those of other agents (`commands.includeOtherAgents`),
/// which are weaker than ours of the same owner.
pub fn command_folders(
    homes: &Homes,
    cwd: &Path,
    trusted: bool,
    others: bool,
) -> Vec<CommandFolder> {
    let mut folders = definitions::folders(homes, cwd, trusted, "commands", &[]);
    if others {
        if trusted && !homes.is_home(cwd) {
            let at = folders.iter().position(|(owner, _)| *owner == Owner::Project);
            let place = (Owner::Project, cwd.join(OTHER).join("commands"));
            folders.insert(at.unwrap_or(folders.len()), place);
        }
        folders.insert(0, (Owner::User, homes.user.join(OTHER).join("commands")));
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

/// Reads the commands of the folders. Links are followed. Blocking; bounded in
/// files, bytes and depth.
pub fn find_commands(folders: &[CommandFolder]) -> CommandFiles {
    let mut found = CommandFiles::default();
    for folder in folders {
        let mut files = Vec::new();
        let mut entered = HashSet::new();
        walk(&folder.folder, 0, &mut entered, &mut files, &mut found.problems);
        files.sort();
        for path in files {
            match read_file(&folder.source, &folder.folder, &path) {
                Ok(command) => found.commands.push(command),
                Err(problem) => {
                    let name = path.strip_prefix(&folder.folder).unwrap_or(&path);
                    let (name, rank) = (Some(name::of(name)), found.commands.len());
                    found.problems.push(CommandProblem { name, rank, ..problem });
                }
            }
        }
    }
    found
}

/// Reads one command file that lies below `folder`.
///
/// # Errors
/// Why it is no command.
fn read_file(
    source: &CommandSource,
    folder: &Path,
    path: &Path,
) -> Result<CommandFile, CommandProblem> {
    let problem = |at: (Option<usize>, Option<usize>), message: String| CommandProblem {
        path: path.to_owned(),
        line: at.0,
        column: at.1,
        message,
        name: None,
        rank: 0,
    };
    let nowhere = (None, None);
    let text = match read::read_at_most(path, LARGEST) {
        Ok(Some(read)) if read.cut => {
            return Err(problem(nowhere, format!("it is larger than {LARGEST} bytes")));
        }
        Ok(Some(read)) if std::str::from_utf8(&read.bytes).is_err() => {
            return Err(problem(nowhere, "it is not valid UTF-8".to_owned()));
        }
        Ok(Some(read)) => read::to_text(&read.bytes),
        Ok(None) => return Err(problem(nowhere, "the file is gone".to_owned())),
        Err(ReadError::NotAFile) => {
            return Err(problem(nowhere, "this is no regular file".to_owned()));
        }
        Err(ReadError::TooLarge) => {
            return Err(problem(nowhere, format!("it is larger than {LARGEST} bytes")));
        }
        Err(ReadError::Io(error)) => return Err(problem(nowhere, error.to_string())),
    };
    let form = form_of(path).unwrap_or(CommandForm::Toml);
    let read = match form {
        CommandForm::Toml => toml_form::read(&text),
        CommandForm::Markdown => markdown_form::read(&text),
    };
    let written = read.map_err(|wrong| problem((wrong.line, wrong.column), wrong.message))?;
    let relative = path.strip_prefix(folder).unwrap_or(path);
    let name = name::of(relative);
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
        place: written.place,
        wishes: written.wishes,
        unused: written.unused,
    })
}

/// What both forms of a file come to.
#[derive(Debug, Default)]
struct Written {
    prompt: String,
    /// Where it begins: line and column.
    place: (usize, usize),
    wishes: CommandWishes,
    description: String,
    argument_hint: String,
    arguments: Vec<CommandArgument>,
    unused: Vec<String>,
}

/// What is wrong with a file's text.
#[derive(Debug)]
struct Wrong {
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

fn form_of(path: &Path) -> Option<CommandForm> {
    match path.extension()?.to_str()? {
        "toml" => Some(CommandForm::Toml),
        "md" => Some(CommandForm::Markdown),
        _ => None,
    }
}

/// The command files below a folder. Links are followed, no folder twice.
fn walk(
    folder: &Path,
    depth: usize,
    entered: &mut HashSet<PathBuf>,
    files: &mut Vec<PathBuf>,
    problems: &mut Vec<CommandProblem>,
) {
    let problem = |message: String| CommandProblem {
        path: folder.to_owned(),
        line: None,
        column: None,
        message,
        name: None,
        rank: 0,
    };
    let real = match std::fs::canonicalize(folder) {
        Ok(real) => real,
        Err(error) if read::is_absent(&error) => return,
        Err(error) => return problems.push(problem(error.to_string())),
    };
    if !entered.insert(real) {
        return;
    }
    if depth > DEPTH {
        return problems.push(problem(format!("more than {DEPTH} folders deep is not read")));
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // A file in the place of the folder is no command folder.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return,
        Err(error) => return problems.push(problem(error.to_string())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.is_dir() {
            walk(&path, depth + 1, entered, files, problems);
        } else if form_of(&path).is_some() {
            if files.len() >= MOST {
                return problems.push(problem(format!("only {MOST} command files are read")));
            }
            files.push(path);
        }
    }
}

/// A text in one line without controls, at most `limit` characters.
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
            let kept: String = line.chars().take(limit.saturating_sub(3)).collect();
            format!("{}...", kept.trim_end())
        }
    }
}

#[cfg(test)]
mod tests;
