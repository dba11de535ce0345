//! `run_shell_command`: a command line in the user's shell, followed to its end
//! or sent to the background.

mod reads;
mod report;
mod repository;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_exec::shell::strip_wrapper;
use parallax_exec::{Command, Ended, Mode, Processes};
use parallax_files::{Access, Kind, Workspace};
use parallax_protocol::tool::{
    Effects, Invocation, Outcome, Preview, Run, Scope, Sharing, Tool, ToolError, ToolErrorKind,
    ToolKind, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::{invalid, path_failure};
use crate::shell_options::ShellOptions;

/// How long a background command is watched before it is let go.
const DEFAULT_DELAY: u64 = 200;
/// More is no waiting but a foreground command.
const LONGEST_DELAY: u64 = 10 * 60 * 1000;
/// Longer commands are shown by their description.
const LONG_COMMAND: usize = 150;

/// The tool.
#[derive(Debug)]
pub struct RunShellCommand {
    spec: ToolSpec,
    options: Arc<ShellOptions>,
    workspace: Arc<Workspace>,
    processes: Processes,
}

impl RunShellCommand {
    /// The tool; its commands belong to `processes`.
    pub fn new(options: ShellOptions, workspace: Arc<Workspace>, processes: Processes) -> Self {
        Self { spec: spec(&options), options: Arc::new(options), workspace, processes }
    }
}

fn spec(options: &ShellOptions) -> ToolSpec {
    let mut description = include_str!("run_shell_command/description.md").trim_end().to_owned();
    description.push_str(if options.interactive_shell {
        " For servers and watchers set `is_background`, do not use `&`."
    } else {
        " For servers and watchers set `is_background` or use `&`."
    });
    if options.output_efficiency {
        description.push_str(" Keep output short: quiet flags, no pagers.");
    }
    ToolSpec {
        name: "run_shell_command".into(),
        display_name: "Shell".into(),
        description,
        parameters: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "Exact text for the shell."},
                "description": {
                    "type": "string",
                    "description": "For the user: what it does, one short sentence."
                },
                "dir_path": {
                    "type": "string",
                    "description": "Folder to run in. Default: the project root."
                },
                "is_background": {
                    "type": "boolean",
                    "description": "Let it run on in the background."
                },
                "delay_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "With is_background: wait this long first (200)."
                }
            },
            "required": ["command"]
        }),
        kind: ToolKind::Execute,
        sharing: Sharing::Shared,
        aliases: vec!["ShellTool".into()],
    }
}

impl Tool for RunShellCommand {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(&self, args: Object, scope: &Scope) -> Result<Box<dyn Invocation>, ToolError> {
        let arguments = Arguments::check(args, &self.spec)?;
        let command = strip_wrapper(arguments.text("command")).to_owned();
        if command.is_empty() {
            return Err(invalid("Command cannot be empty."));
        }
        if command.contains('\0') {
            return Err(invalid("params/command must not contain a NUL character"));
        }
        let given = arguments.optional_text("dir_path").filter(|path| !path.is_empty());
        let directory = match given {
            None => self.workspace.root().to_owned(),
            Some(path) => self.folder(path)?,
        };
        let background = arguments.flag("is_background").unwrap_or(false);
        let delay = arguments.integer("delay_ms").unwrap_or(DEFAULT_DELAY).min(LONGEST_DELAY);
        let mode = if self.options.interactive_shell && scope.interactive && !background {
            Mode::Terminal(self.options.terminal_size)
        } else {
            Mode::Pipe
        };
        let description = one_line(arguments.optional_text("description").unwrap_or_default());
        Ok(Box::new(Call {
            title: title(&command, given, &description, background),
            effects: Effects {
                reads: reads::reads(&command, &directory, &self.workspace.roots()),
                runs: vec![command.clone()],
                ..Effects::default()
            },
            command,
            directory,
            mode,
            detach_after: background.then(|| Duration::from_millis(delay)),
            copy: self.options.output_dir.join(copy_name(scope.call.as_str())),
            options: Arc::clone(&self.options),
            processes: self.processes.clone(),
        }))
    }
}

impl RunShellCommand {
    /// A folder that the command may work in.
    fn folder(&self, path: &str) -> Result<PathBuf, ToolError> {
        let place =
            self.workspace.resolve(path, Access::Write).map_err(|error| path_failure(&error))?;
        let shown = place.shown().display();
        match place.facts() {
            Ok(facts) if facts.kind == Kind::Directory => Ok(place.path().to_owned()),
            Ok(_) => Err(ToolError::new(
                ToolErrorKind::PathIsNotADirectory,
                format!("`{shown}` is not a folder: give a folder as `dir_path`"),
            )),
            Err(_) => Err(ToolError::new(
                ToolErrorKind::FileNotFound,
                format!(
                    "the folder `{shown}` does not exist: create it first or leave `dir_path` out"
                ),
            )),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn title(command: &str, folder: Option<&str>, description: &str, background: bool) -> String {
    let mut title = if command.chars().count() > LONG_COMMAND && !description.is_empty() {
        description.to_owned()
    } else {
        one_line(command)
    };
    if let Some(folder) = folder {
        title.push_str(&format!(" [in {}]", one_line(folder)));
    }
    if !description.is_empty() && title != description {
        title.push_str(&format!(" ({description})"));
    }
    if background {
        title.push_str(" [background]");
    }
    title
}

/// A file name for the copy of a call's output, whatever the id holds.
fn copy_name(call: &str) -> String {
    let clean = |letter: char| match letter {
        'a'..='z' | '0'..='9' | '-' => letter,
        'A'..='Z' => letter.to_ascii_lowercase(),
        _ => '_',
    };
    let id: String = call.chars().take(100).map(clean).collect();
    format!("run_shell_command_{id}.txt")
}

struct Call {
    title: String,
    effects: Effects,
    command: String,
    directory: PathBuf,
    mode: Mode,
    detach_after: Option<Duration>,
    copy: PathBuf,
    options: Arc<ShellOptions>,
    processes: Processes,
}

impl Invocation for Call {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Command { command: self.command.clone(), directory: self.directory.clone() })
    }

    fn run(self: Box<Self>, run: Run) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let command = Command {
                text: self.command.clone(),
                directory: self.directory,
                environment: self.options.environment().variables,
                mode: self.mode,
                copy: Some(self.copy),
                limits: self.options.limits(),
                colour: self.options.show_color,
            };
            let running = match self.processes.start(command).await {
                Ok(running) => running,
                Err(error) => return report::not_started(&error),
            };
            run.progress.process_group(running.pid());
            let progress = Arc::clone(&run.progress);
            let mut live = move |text: &str| progress.output(text);
            match running.follow(&run.cancel, self.detach_after, &mut live).await {
                Ended::Finished(finished) => report::finished(&finished),
                Ended::Detached(detached) => {
                    report::detached(&detached, &self.command, self.detach_after.is_some())
                }
            }
        })
    }
}
