//! Checks that require approval for a shell line even though rules allow its commands.

use std::path::Path;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;

use crate::bash::{self, RedirectionKind};
use crate::build_guard::{BuildFileGuard, is_build_file};
use crate::call::{CallQuery, ShellCall, WriteTarget};
use crate::{paths, taint};

/// A reason to request approval.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalReason {
    /// The name of the check.
    pub(crate) name: &'static str,
    /// The reason, for display.
    pub(crate) reason: String,
    /// Whether approval is required every time.
    pub(crate) always_ask: bool,
    /// The command as written, if it destroys data.
    pub(crate) destroyed_by: Option<String>,
}

impl ApprovalReason {
    fn when_not_allowed(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, reason: reason.into(), always_ask: false, destroyed_by: None }
    }

    fn always_ask(name: &'static str, reason: impl Into<String>) -> Self {
        Self { always_ask: true, ..Self::when_not_allowed(name, reason) }
    }

    fn destructive(command: &bash::Command, reason: impl Into<String>) -> Self {
        let destroyed_by = Some(command.source.clone());
        Self { destroyed_by, ..Self::always_ask("destructive command", reason) }
    }
}

/// Returns everything that requires approval even in yolo mode as words of a sentence: the rows of
/// the table of destructive commands, and writes outside the workspace.
pub fn yolo_reasons() -> String {
    let destructive = bash::DestructionKind::ALL.map(bash::DestructionKind::name).join(", ");
    format!("{destructive}, and writes outside the workspace")
}

/// Context that the checks need besides the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineContext {
    pub(crate) build_guard: BuildFileGuard,
    /// Whether every allow rule for the line allows redirections.
    pub(crate) may_redirect: bool,
}

/// Returns all reasons to request approval, the most serious first.
pub(crate) fn approval_reasons(
    call: &CallQuery<'_>,
    shell: &ShellCall<'_>,
    granted: &Permissions,
    circumstances: &LineContext,
) -> Vec<ApprovalReason> {
    let mut doubts = Vec::new();
    let line = &shell.line;
    if !call.query.trusted && bash::uses_git(line) {
        doubts.push(ApprovalReason::always_ask(
            "git in an untrusted folder",
            "This folder is not trusted, and git runs programs that its repository configures",
        ));
    }
    let yolo = call.mode == ApprovalMode::Yolo;
    if yolo && !call.query.interactive {
        return doubts;
    }
    check_destruction(call, shell, &mut doubts);
    check_outside_paths(call, shell, granted, &mut doubts);
    let expanded = shell.expanded_line();
    if !std::ptr::eq(expanded, shell) {
        let mut more = Vec::new();
        check_destruction(call, expanded, &mut more);
        check_outside_paths(call, expanded, granted, &mut more);
        // Skip reasons that the line as written already gave.
        more.retain(|doubt| !doubts.iter().any(|known| known.reason == doubt.reason));
        doubts.extend(more);
    }
    if yolo {
        return doubts;
    }
    check_protected_paths(call, shell, &mut doubts);
    if let Some(word) = shell.git_control_risk() {
        doubts.push(ApprovalReason::always_ask(
            "git after a change to its configuration",
            format!(
                "It writes `{}`, which git may read in the same line before it can be checked",
                shorten(&word)
            ),
        ));
    }
    for command in &line.commands {
        if let Some(reason) = bash::danger_reason(command) {
            let reason = format!("`{}`: {reason}", shorten(&command.source));
            doubts.push(ApprovalReason::always_ask("dangerous command", reason));
        }
    }
    if let Some(word) = taint::tainted_word(shell, call.query.taint) {
        doubts.push(ApprovalReason::always_ask(
            "command from untrusted content",
            format!(
                "`{}` appears in content from the web or an MCP server, which may have asked for \
                 it",
                shorten(&word)
            ),
        ));
    }
    if circumstances.build_guard == BuildFileGuard::Ask {
        build_files(call, shell, &mut doubts);
    }
    if shell.may_run_outside() {
        doubts.push(ApprovalReason::when_not_allowed(
            "outside the workspace",
            format!("It would run in `{}`, outside the workspace", shell.directory.display()),
        ));
    }
    let may_redirect = call.mode == ApprovalMode::AutoEdit || circumstances.may_redirect;
    if let Some(redirection) = shell.redirections().next().filter(|_| !may_redirect) {
        let target = shorten(&redirection.target.source);
        let reason = match redirection.kind {
            RedirectionKind::Read => format!("It reads `{target}` by redirection (`<`)"),
            RedirectionKind::Append => format!("It appends to `{target}` by redirection (`>>`)"),
            RedirectionKind::HereDocument | RedirectionKind::HereString => {
                "It reads input by redirection (`<<`)".to_owned()
            }
            _ => format!("It writes `{target}` by redirection (`>`)"),
        };
        let reason = format!("{reason}, and no allow rule for it also allows redirections");
        doubts.push(ApprovalReason::when_not_allowed("redirection", reason));
    }
    doubts
}

fn build_files(call: &CallQuery<'_>, shell: &ShellCall<'_>, doubts: &mut Vec<ApprovalReason>) {
    let written = shell.write_targets().iter().filter_map(WriteTarget::path);
    if let Some(path) = written.into_iter().find(|path| is_build_file(path)) {
        doubts.push(ApprovalReason::when_not_allowed(
            "build-file guard",
            format!("It changes `{}`, which controls what builds run", path.display()),
        ));
    }
    let Some(changed) = call.query.taint.build_files.first() else { return };
    if let Some(command) =
        shell.line.commands.iter().find(|command| taint::runs_build_file(command))
    {
        doubts.push(ApprovalReason::always_ask(
            "build after a changed build file",
            format!(
                "`{}` runs commands from build files, and `{}` changed in this session",
                shorten(&command.source),
                changed.display()
            ),
        ));
    }
}

/// Returns the commands of the line that destroy data, as written.
pub(crate) fn destructive_commands(call: &CallQuery<'_>, shell: &ShellCall<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    check_destruction(call, shell, &mut doubts);
    doubts.into_iter().filter_map(|doubt| doubt.destroyed_by).collect()
}

fn check_destruction(
    call: &CallQuery<'_>,
    shell: &ShellCall<'_>,
    doubts: &mut Vec<ApprovalReason>,
) {
    let own = |word: &bash::Word| match shell.paths_for(word).as_slice() {
        [] => false,
        targets => targets.iter().all(|target| match target {
            WriteTarget::Path(path) => {
                call.query.created_paths.iter().any(|created| path.starts_with(created))
            }
            WriteTarget::Unknown(_) => false,
        }),
    };
    for (index, command) in shell.line.commands.iter().enumerate() {
        let found = bash::destruction(command).or_else(|| bash::may_destroy(command));
        let Some(destruction) = found else { continue };
        let is_own =
            |word: &bash::Word| own(word) || bash::is_created_by_line(&shell.line, index, word);
        if !destruction.operands.is_empty() && destruction.operands.iter().all(is_own) {
            continue;
        }
        let source = shorten(&command.source);
        let reason = match destruction.reason.strip_prefix("it ") {
            Some(deletes) => format!("`{source}` {deletes}"),
            None => format!("`{source}`: {}", destruction.reason),
        };
        doubts.push(ApprovalReason::destructive(command, reason));
    }
    if let Some(reason) = shell.line.hidden {
        doubts.push(ApprovalReason::always_ask(
            "hidden command",
            format!("What it runs cannot be determined: {reason}"),
        ));
    }
    // The same words can name a branch or a directory; which one depends on the files on disk.
    let there = |word: &&bash::Word| {
        shell.paths_for(word).iter().filter_map(WriteTarget::path).any(|path| {
            call.query.workspace.contains(path) || call.query.effects.reads.contains(path)
        })
    };
    for command in &shell.line.commands {
        let Some(word) = bash::checked_out(command).into_iter().find(there) else { continue };
        let reason = format!(
            "`{}`: `git checkout` discards the changes of `{}`",
            shorten(&command.source),
            shorten(&word.source)
        );
        doubts.push(ApprovalReason::destructive(command, reason));
    }
}

fn check_outside_paths(
    call: &CallQuery<'_>,
    shell: &ShellCall<'_>,
    granted: &Permissions,
    doubts: &mut Vec<ApprovalReason>,
) {
    // Needed only in permissive modes; the other modes already ask for every command.
    for target in shell.write_targets() {
        match target {
            WriteTarget::Path(path) => {
                if call.folders.are_outside(path) && !may_write(path, granted) {
                    doubts.push(ApprovalReason::when_not_allowed(
                        "write outside the workspace",
                        format!("It would write `{}`, outside the workspace", path.display()),
                    ));
                }
            }
            WriteTarget::Unknown(word) => {
                if call.mode != ApprovalMode::Yolo {
                    doubts.push(ApprovalReason::when_not_allowed(
                        "write to an unknown path",
                        format!(
                            "It would write `{}`, a path that is known only at run time",
                            shorten(word)
                        ),
                    ));
                }
            }
        }
    }
}

fn check_protected_paths(
    call: &CallQuery<'_>,
    shell: &ShellCall<'_>,
    doubts: &mut Vec<ApprovalReason>,
) {
    let roots = call.query.workspace;
    let needs_approval =
        |path: &Path| call.folders.protected.contains(path) || paths::is_agent_rules(path, roots);
    let found = shell
        .write_targets()
        .iter()
        .filter_map(WriteTarget::path)
        .find(|path| needs_approval(path));
    let found = found.cloned().or_else(|| {
        let trees = shell.line.commands.iter().flat_map(bash::placed_paths);
        let mut targets = trees.flat_map(|word| shell.paths_for(&word));
        targets.find_map(|target| {
            target.path().filter(|path| paths::may_hold_protected(path)).cloned()
        })
    });
    // A command that is not known to be read-only may write to any path that its words name. Writes
    // by git itself are checked elsewhere.
    let found = found.or_else(|| {
        let all_read = (0..shell.line.commands.len()).all(|index| {
            let git = shell.line.commands.get(index).and_then(bash::Command::name) == Some("git");
            git || shell.is_read_only(index)
        });
        let mut named = call.query.effects.reads.iter();
        if all_read {
            None
        } else {
            named.find(|path| call.folders.protected.contains(path)).cloned()
        }
    });
    if let Some(path) = found {
        doubts.push(ApprovalReason::always_ask(
            "protected path",
            format!(
                "It may change `{}`, which can run programs or instruct agents",
                path.display()
            ),
        ));
    }
}

fn may_write(path: &Path, granted: &Permissions) -> bool {
    granted.file_system.write.iter().any(|directory| path.starts_with(directory))
}

/// Returns the beginning of a string, for messages.
pub(crate) fn shorten(text: &str) -> String {
    const MAX_LENGTH: usize = 80;
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(MAX_LENGTH).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
