//! `run_shell_command`: runs a command line in the user's shell, in the foreground until it ends or
//! in the background.

mod call;
mod concealed;
mod confined;
mod confinement;
mod control;
mod denial_evidence;
mod denied_access;
mod editor_terminal;
mod git;
mod git_aliases;
mod git_path_remotes;
mod git_programs;
mod git_reads;
mod git_tree_moves;
mod git_worktree_writes;
mod granted_paths;
mod npm_registries;
mod placeholders;
mod precreated_path;
mod predicted_permissions;
mod printing;
mod reads;
mod report;
mod repository;
mod reverted_protected_files;
mod secrets;
#[cfg(test)]
mod tests;
mod tracked;
mod user_shell;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parallax_exec::environment::{DropReason, DroppedVariable};
use parallax_exec::shell::strip_wrapper;
use parallax_exec::{Mode, Processes};
pub use parallax_files::GeminiIgnore;
use parallax_files::{Access, EntryKind, Workspace};
use parallax_policy::bash::{self, SafeReadRoots, ShellLine};
use parallax_protocol::Object;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::protected_links::FindLinkTargets as _;
use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, PrepareContext, Tool, ToolError, ToolErrorKind, ToolKind,
    ToolSpec,
};
use parallax_sandbox::{Plan, Support, Tier};
use serde_json::{Value, json};

pub use self::confined::{mounts, write_scope};
pub use self::git::{overridden_filters, own_git_environment};
pub use self::reverted_protected_files::replaced_files;
pub use self::user_shell::UserShell;
pub use crate::git_directories::GitDirectories;

use self::call::RunShellCommandCall;
use self::confined::StartingCommand;
use self::confinement::ConfinedCommand;
use self::editor_terminal::EditorTerminalCall;
use self::git_worktree_writes::ChangedFiles;
use crate::arguments::Arguments;
use crate::failure::{invalid_params, path_failure};
use crate::sandbox_options::SandboxOptions;
use crate::shell_options::ShellOptions;

/// Default time in milliseconds to watch a background command before returning.
const DEFAULT_DELAY: u64 = 200;
/// Longest delay in milliseconds; to wait longer, the command should run in the foreground.
const MAX_DELAY_LENGTH: u64 = 10 * 60 * 1000;
/// Maximum size of a command in bytes. All arguments of a program together have 2 MiB.
const MAX_COMMAND_LENGTH: usize = 1_500_000;
/// Maximum number of characters of a command in its title; the arguments contain the whole command.
const MAX_TITLE: usize = 1_000;

/// The tool.
#[derive(Debug)]
pub struct RunShellCommand {
    spec: ToolSpec,
    options: Arc<ShellOptions>,
    workspace: Arc<Workspace>,
    processes: Processes,
    /// Whether the notice about removed variables was already emitted.
    has_reported: Arc<AtomicBool>,
}

impl RunShellCommand {
    /// Creates the tool; its commands belong to `processes`.
    pub fn new(options: ShellOptions, workspace: Arc<Workspace>, processes: Processes) -> Self {
        let spec = spec(&options);
        if let Some(sandbox) = &options.sandbox {
            // A later `.git` may come from a command or an edit.
            sandbox.git_directories.record(&workspace.roots());
        }
        Self {
            spec,
            options: Arc::new(options),
            workspace,
            processes,
            has_reported: Arc::default(),
        }
    }
}

fn spec(options: &ShellOptions) -> ToolSpec {
    let mut description = include_str!("run_shell_command/description.md").trim_end().to_owned();
    description.push_str(if options.interactive_shell {
        " Start servers and watchers with `is_background`, not `&`."
    } else {
        " Start servers and watchers with `is_background` or `&`."
    });
    if options.output_efficiency {
        description.push_str(" Keep output short: quiet flags, no pagers.");
    }
    let mut parameters = parameters();
    if options.sandbox.as_ref().is_some_and(|sandbox| sandbox.enabled)
        && let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut)
    {
        properties.insert("additional_permissions".into(), permission_parameters());
        let reason = json!({"type": "string", "description": "Why."});
        properties.insert("justification".into(), reason);
        description.push_str(
            " Commands are sandboxed: they can write the project and a private /tmp, and have no \
             network. Request anything else with `additional_permissions`.",
        );
    }
    ToolSpec {
        name: "run_shell_command".into(),
        display_name: "Shell".into(),
        description,
        parameters,
        kind: ToolKind::Execute,
        concurrency: Concurrency::Shared,
        aliases: vec!["ShellTool".into()],
    }
}

/// Returns the schema of the permissions that a command may request beyond the sandbox.
fn permission_parameters() -> Value {
    let paths = || json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "network": {"type": "boolean"},
            "fileSystem": {
                "type": "object",
                "properties": {"read": paths(), "write": paths()}
            }
        }
    })
}

fn parameters() -> Value {
    json!({
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "description": {
                    "type": "string",
                    "description": "What it does, for the user."
                },
                "dir_path": {"type": "string", "description": "Default: the project root."},
                "is_background": {"type": "boolean"},
                "delay_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "With `is_background`: wait for output (200)."
                }
            },
            "required": ["command"]
    })
}

impl Tool for RunShellCommand {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let arguments = Arguments::check(args, &self.spec)?;
        let command = strip_wrapper(arguments.text("command")).to_owned();
        if command.is_empty() {
            return Err(invalid_params("Command cannot be empty."));
        }
        if command.contains('\0') {
            return Err(invalid_params("params/command must not contain a NUL character"));
        }
        if command.len() > MAX_COMMAND_LENGTH {
            return Err(invalid_params(format!(
                "The command has {} bytes; at most {MAX_COMMAND_LENGTH} can be passed to a shell. \
                 Write long text to a file with `write_file` first",
                command.len()
            )));
        }
        let provided = arguments.optional_text("dir_path").filter(|path| !path.is_empty());
        let directory = match provided {
            None => self.workspace.root().to_owned(),
            Some(path) => self.resolve_run_directory(path)?,
        };
        let background = arguments.flag("is_background").unwrap_or(false);
        let delay = arguments.integer("delay_ms").unwrap_or(DEFAULT_DELAY).min(MAX_DELAY_LENGTH);
        let mode = if self.options.interactive_shell && scope.interactive && !background {
            Mode::Terminal(self.options.terminal_size)
        } else {
            Mode::Pipe
        };
        let description = one_line(arguments.optional_text("description").unwrap_or_default());
        let roots = self.workspace.roots();
        let line = bash::analyze(&command);
        let substitutes = line.features.iter().any(|feature| feature.contains("substitution"));
        if self.options.block_substitution && substitutes && scope.mode != ApprovalMode::Yolo {
            return Err(ToolError::new(
                ToolErrorKind::PolicyViolation,
                "the setting `tools.shell.commandSubstitution` rejects commands with `$(…)`, \
                 backticks, `<(…)` and `>(…)`: write the command without them",
            ));
        }
        let permissions = self.permissions(&arguments, &line, &directory, scope)?;
        let counts = self.workspace.ignore_options().respect_gemini_ignore;
        let left_alone = counts.then(|| GeminiIgnore::load(&roots)).flatten();
        let effects = command_effects(&command, &directory, &roots, left_alone.as_ref());
        let unconfined = self.options.sandbox.as_ref().is_none_or(|sandbox| !sandbox.enabled);
        let in_editor = self.workspace.editor_terminal().filter(|_| unconfined && !background).map(
            |terminal| EditorTerminalCall {
                terminal: Arc::clone(terminal),
                call: scope.call.clone(),
            },
        );
        let mut title = title(&command, provided, &description, background)
            + &format_request(&permissions, arguments.optional_text("justification"));
        if in_editor.is_some() {
            title.push_str(" [in a terminal of the editor]");
        }
        Ok(Box::new(RunShellCommandCall {
            title,
            in_editor,
            effects: Effects { permissions, ..effects },
            line,
            roots,
            command,
            directory,
            mode,
            detach_after: background.then(|| Duration::from_millis(delay)),
            copy: self.options.output_dir.join(copy_name(scope.call.as_str())),
            options: Arc::clone(&self.options),
            processes: self.processes.clone(),
            report_removed_variables: (!scope.interactive).then(|| Arc::clone(&self.has_reported)),
        }))
    }
}

impl RunShellCommand {
    /// Returns the permissions of the command beyond the sandbox: those that the model requests
    /// and, if the user can be asked, those predicted from the command.
    fn permissions(
        &self,
        arguments: &Arguments,
        line: &ShellLine,
        directory: &Path,
        scope: &PrepareContext,
    ) -> Result<Permissions, ToolError> {
        let Some(sandbox) = self.options.sandbox.as_ref().filter(|sandbox| sandbox.enabled) else {
            return Ok(Permissions::default());
        };
        let mut permissions = match arguments.value("additional_permissions") {
            Some(expected) => parse_permissions(expected, directory, &sandbox.home)?,
            None => Permissions::default(),
        };
        let row = sandbox.table.mode(scope.mode);
        if !row.allow_overrides {
            // No broader permission is possible, so there is nothing to approve.
            return Ok(Permissions::default());
        }
        if scope.interactive && line.unanalyzable_reason.is_none() {
            permissions.network |= !row.network && line.commands.iter().any(bash::needs_network);
            permissions.outside |=
                line.commands.iter().any(|command| bash::needs_outside(command).is_some());
            if !permissions.outside {
                let roots = self.workspace.roots();
                let mode = scope.mode;
                let subject = ConfinedCommand {
                    line,
                    roots: &roots,
                    layers: true,
                    mode,
                    permissions: &permissions,
                };
                let plan = confinement::plan(sandbox, &subject).plan;
                let foreseen =
                    predicted_permissions::permissions(line, directory, &sandbox.home, plan);
                permissions = permissions.union(&foreseen);
            }
            let is_yolo = scope.mode == ApprovalMode::Yolo;
            if !is_yolo || !git_programs::keeps_programs(line) {
                let roots = self.workspace.roots();
                let is_open =
                    |path: &PathBuf| is_yolo && roots.iter().any(|root| path.starts_with(root));
                let mut files = predicted_permissions::protected_repository_files(line, directory);
                files.retain(|path| !is_open(path));
                add_writes(&mut permissions, files);
            }
        }
        if line.unanalyzable_reason.is_none()
            && let Some(changed) = ChangedFiles::of(line, directory)
        {
            let roots = self.workspace.roots();
            if scope.mode != ApprovalMode::Yolo {
                let links = &sandbox.closed_names;
                add_writes(&mut permissions, changed.protected(&roots, links));
            }
            let outside = changed.changed_directory_outside(&roots, &sandbox.home);
            add_writes(&mut permissions, outside.into_iter().collect());
        }
        if !permissions.file_system.write.is_empty() {
            let (roots, none) = (self.workspace.roots(), Permissions::default());
            let mode = scope.mode;
            let subject =
                ConfinedCommand { line, roots: &roots, layers: true, mode, permissions: &none };
            let plan = confinement::plan(sandbox, &subject).plan;
            // What every command may write needs no permission, and a permission for a directory
            // must not be one for the protected files in it.
            let links = sandbox.closed_names.link_targets(&roots);
            permissions.file_system.write.retain(|path| {
                !roots.iter().any(|root| path.starts_with(root))
                    || path.iter().any(|name| name.eq_ignore_ascii_case(".git"))
                    || plan.denies(path, parallax_sandbox::Access::Write)
                    || git_worktree_writes::protected_part(path, &roots).is_some()
                    || links.contains(path)
            });
            predicted_permissions::add_hidden_reads(&mut permissions.file_system, plan);
        }
        Ok(permissions)
    }

    /// Resolves a directory in which the command may run.
    fn resolve_run_directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        let target =
            self.workspace.resolve(path, Access::Write).map_err(|error| path_failure(&error))?;
        let display_path = target.display_path().display();
        match target.metadata() {
            Ok(facts) if facts.kind == EntryKind::Directory => Ok(target.path().to_owned()),
            Ok(_) => Err(ToolError::new(
                ToolErrorKind::PathIsNotADirectory,
                format!("`{display_path}` is not a directory: specify a directory as `dir_path`"),
            )),
            Err(_) => Err(ToolError::new(
                ToolErrorKind::FileNotFound,
                format!(
                    "the directory `{display_path}` does not exist: create it first or omit `dir_path`"
                ),
            )),
        }
    }
}

fn add_writes(permissions: &mut Permissions, paths: Vec<PathBuf>) {
    for path in paths {
        if !permissions.file_system.write.contains(&path) {
            permissions.file_system.write.push(path);
        }
    }
}

/// Whether `PATH` resolves a program of the line to a file in the workspace (a virtual environment,
/// `node_modules/.bin`, `.`).
fn resolves_program_in_workspace(
    line: &ShellLine,
    path: &OsStr,
    directory: &Path,
    roots: &[PathBuf],
) -> bool {
    const MAX_COUNT: usize = 64;
    let inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let directories: Vec<PathBuf> =
        std::env::split_paths(path).map(|folder| directory.join(folder)).take(MAX_COUNT).collect();
    line.commands.iter().take(MAX_COUNT).filter_map(|command| command.name()).any(|name| {
        !name.is_empty()
            && directories.iter().any(|directory| {
                let program = directory.join(name);
                // The directory or the program may be a symlink into the workspace.
                program.canonicalize().is_ok_and(|real| inside(&real) || inside(&program))
            })
    })
}

/// Returns the effects of a command run in `directory`, as far as its text and the file system
/// show. Blocking.
pub fn command_effects(
    command: &str,
    directory: &Path,
    roots: &[PathBuf],
    left_alone: Option<&GeminiIgnore>,
) -> Effects {
    let line = bash::analyze(command);
    let reads::NamedPaths { paths: mut reads, links } =
        reads::read_paths(command, directory, roots, left_alone);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let shadowed = resolves_program_in_workspace(&line, &path, directory, roots);
    if shadowed {
        // Its name does not show what it does.
        reads.push(PathBuf::from("/"));
    }
    Effects {
        reads,
        links,
        runs: vec![command.to_owned()],
        is_read_only: !shadowed && bash::is_safe(&line, &SafeReadRoots { directory, roots }),
        git_aliases: git_aliases::effective_aliases(command, &line, directory),
        directory: Some(directory.to_owned()),
        ..Effects::default()
    }
}

/// Whether private layers can be mounted over package caches. Blocking.
fn supports_cache_layers(options: &SandboxOptions) -> bool {
    matches!(options.tier, Tier::Best | Tier::Namespaces)
        && Support::supports_overlays(&options.overlays)
}

/// Returns the sandbox plan and the environment of a command that the user runs. Blocking.
///
/// # Errors
/// Returns the reason, for the user, if the command may not run.
pub fn prepare_sandbox(
    options: &SandboxOptions,
    command: &str,
    directory: &Path,
    roots: &[PathBuf],
    mode: ApprovalMode,
    permissions: &Permissions,
    environment: Vec<(OsString, OsString)>,
) -> Result<(Plan, Vec<(OsString, OsString)>), String> {
    let entry = StartingCommand {
        line: bash::analyze(command),
        directory: directory.to_owned(),
        roots: roots.to_vec(),
        named_directories: reads::read_paths(command, directory, roots, None).paths,
        layers: supports_cache_layers(options),
        mode,
        permissions: permissions.clone(),
        requested_writes: Vec::new(),
        environment,
    };
    let prepared = entry.prepare(Some(options))?;
    let plan = prepared.plan.ok_or("no sandbox plan")?;
    Ok((plan, prepared.environment))
}

/// Parses the model's `additional_permissions` and resolves their paths.
fn parse_permissions(
    requested: &Value,
    directory: &Path,
    home: &Path,
) -> Result<Permissions, ToolError> {
    let mut permissions: Permissions = serde_json::from_value(requested.clone())
        .map_err(|error| invalid_params(format!("params/additional_permissions: {error}")))?;
    // A model may request only these two permissions; only the user can grant others.
    permissions = Permissions {
        network: permissions.network,
        file_system: permissions.file_system,
        ..Permissions::default()
    };
    let files = &mut permissions.file_system;
    for path in files.read.iter_mut().chain(&mut files.write) {
        let full = match path.strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => directory.join(&*path),
        };
        *path = granted_paths::path_to_grant(&full, home).ok_or_else(|| {
            let display_path = full.display();
            invalid_params(format!(
                "params/additional_permissions: `{display_path}` is too broad to be granted"
            ))
        })?;
    }
    Ok(permissions)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn title(command: &str, directory: Option<&str>, description: &str, background: bool) -> String {
    // Marks line breaks, so that two commands do not look like one.
    let lines = command.lines().map(one_line).filter(|line| !line.is_empty());
    let mut title = lines.collect::<Vec<_>>().join(" ⏎ ");
    if let Some((at, _)) = title.char_indices().nth(MAX_TITLE) {
        title.truncate(at);
        title.push('…');
    }
    if let Some(directory) = directory {
        title.push_str(&format!(" [in {}]", one_line(directory)));
    }
    if !description.is_empty() {
        title.push_str(&format!(" ({description})"));
    }
    if background {
        title.push_str(" [background]");
    }
    title
}

/// Returns the request for broader permissions, with the model's justification.
fn format_request(permissions: &Permissions, reason: Option<&str>) -> String {
    match reason.map(one_line).filter(|reason| !reason.is_empty() && !permissions.is_empty()) {
        Some(reason) => format!(" [requests more permissions: {reason}]"),
        None => String::new(),
    }
}

/// Returns a valid file name for the copy of a call's output for any call ID.
fn copy_name(call: &str) -> String {
    let clean = |letter: char| match letter {
        'a'..='z' | '0'..='9' | '-' => letter,
        'A'..='Z' => letter.to_ascii_lowercase(),
        _ => '_',
    };
    let id: String = call.chars().take(100).map(clean).collect();
    format!("run_shell_command_{id}.txt")
}

/// Describes the variables that are removed from the environment of commands (or of hooks, see
/// `who`), with the reasons.
pub fn describe_removed_variables(who: &str, dropped: &[DroppedVariable]) -> Vec<String> {
    // It is expected that Parallax's own keys are removed, but variables that other programs also
    // use would be missed.
    let is_ours = |it: &&DroppedVariable| {
        it.reason == DropReason::OwnCredential && !it.name.starts_with("GOOGLE_")
    };
    let lines = dropped.iter().filter(|it| !is_ours(it)).map(
        |DroppedVariable { name, reason, override_setting }| {
            let keep = match override_setting {
                Some(setting) => format!("the setting `{setting}` passes it on"),
                None => "no setting passes it on".to_owned(),
            };
            format!("{who} do not receive the variable `{name}`: {reason}; {keep}")
        },
    );
    lines.collect()
}
