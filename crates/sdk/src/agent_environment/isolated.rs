//! Subagents that work in their own git worktree (`isolation: worktree`): the worktree, and the
//! tools, sandbox, checkpoints, and context files there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_agents::{Agent, IsolatedAgent, SessionSkills};
use parallax_checkpoints::CheckpointManager;
use parallax_context_files::{NestedContext, WarnFn, build_context};
use parallax_files::{SeenFiles, Workspace};
use parallax_protocol::BoxFuture;
use parallax_protocol::agent::{AgentTask, AgentWorkspace, FinishedWorkspace};
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::editor_files::SessionEditor;
use parallax_protocol::event::Failure;
use parallax_protocol::excerpt::one_line;
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::tool::Tool;
use parallax_worktrees::{IgnoredFiles, SubagentChanges, SubagentWorktreeOutcome, Worktree};
use serde_json::{Value, json};

use super::SessionEnvironment;
use crate::session_config::SessionConfig;
use crate::session_settings;
use crate::toolbox::{self, Toolbox};

/// Maximum number of changed files listed for the calling model.
const FILES: usize = 50;
/// Maximum number of characters of the task in the commit message.
const SUBJECT: usize = 200;

/// What a session provides for subagents in worktrees.
#[derive(Clone)]
pub(crate) struct IsolationInputs {
    pub(crate) id: SessionId,
    /// The directory for files that the session's tools store.
    pub(crate) artifacts: PathBuf,
    pub(crate) plans: PathBuf,
    /// The model for tools that use one.
    pub(crate) model: Arc<dyn Model>,
    pub(crate) warn: WarnFn,
    /// The workspace of the session, whose additional directories the agent has, too.
    pub(crate) workspace: Arc<Workspace>,
}

impl IsolationInputs {
    /// Returns the file with the name of the worktree of a run.
    fn name_file(&self, run: &str) -> PathBuf {
        self.artifacts.join("agents").join(format!("{run}.worktree"))
    }
}

/// Creates the worktree of an agent, or opens that of its interrupted run. Blocking.
///
/// # Errors
/// Returns a message for the calling model.
pub(crate) fn isolate(
    launch: &SessionConfig,
    inputs: &IsolationInputs,
    agent: &Agent,
    task: AgentTask<'_>,
) -> Result<IsolatedAgent, String> {
    let name_file = task.run.map(|run| inputs.name_file(run));
    let worktree = open_worktree(launch, agent, task, name_file.as_deref())
        .map_err(|failure| format!("the agent requires a git worktree: {}", failure.message))?;
    // Otherwise, only resuming the run fails.
    if let Some(file) = &name_file
        && let Err(error) = std::fs::write(file, worktree.name())
    {
        tracing::warn!(%error, "failed to save the name of a subagent's worktree");
    }
    match open_directory(launch, inputs, &worktree) {
        Ok((own, files)) => Ok(build_environment(own, files, inputs, worktree, name_file, task)),
        Err(failure) => {
            // Whatever remains is in `parallax worktrees list`.
            let _ = worktree.remove_if_unchanged();
            Err(failure.message)
        }
    }
}

/// Reads the configuration of the worktree, and opens its files for tools.
fn open_directory(
    launch: &SessionConfig,
    inputs: &IsolationInputs,
    worktree: &Worktree,
) -> Result<(SessionConfig, Arc<Workspace>), Failure> {
    let own = configuration(launch, worktree)?;
    let additional = inputs.workspace.roots().into_iter().skip(1);
    let additional =
        additional.filter(|directory| !directory.starts_with(worktree.main_checkout()));
    let files = session_settings::workspace(&own, &inputs.artifacts, additional.collect())?;
    Ok((own, Arc::new(files)))
}

/// Opens the worktree of the run, and creates it if it does not exist.
fn open_worktree(
    launch: &SessionConfig,
    agent: &Agent,
    task: AgentTask<'_>,
    name_file: Option<&Path>,
) -> Result<Worktree, Failure> {
    let directory = &launch.options.directory;
    let name =
        name_file.filter(|_| task.is_resumed).and_then(|file| std::fs::read_to_string(file).ok());
    if let Some(name) = &name
        && let Some(worktree) = Worktree::reopen(directory, name)?
    {
        return Ok(worktree);
    }
    Worktree::for_subagent(directory, &agent.name, name)
}

/// Builds what the agent has instead of what the session provides.
fn build_environment(
    own: SessionConfig,
    files: Arc<Workspace>,
    inputs: &IsolationInputs,
    worktree: Worktree,
    name_file: Option<PathBuf>,
    task: AgentTask<'_>,
) -> IsolatedAgent {
    let seen_files = Arc::new(SeenFiles::default());
    let artifacts = inputs.artifacts.join("worktrees").join(worktree.name());
    let model = Arc::clone(&inputs.model);
    let toolbox =
        toolbox::build(&own, &files, &seen_files, artifacts.clone(), model, &inputs.plans);
    let (skills, _) = SessionSkills::open(own.skill_library(), &files);
    let tools: Vec<Arc<dyn Tool>> = toolbox.tools().into_iter().chain(skills.tool()).collect();
    let checkpoint_manager =
        session_settings::checkpoint_manager(&own, &inputs.id, &files, &seen_files);
    if let Some(notice) = checkpoint_manager
        .as_ref()
        .and_then(|checkpoint_manager| checkpoint_manager.revert_abandoned())
    {
        (inputs.warn)(notice);
    }
    let context = own.context_sources();
    let begun_with = build_context(&context, &files, &[]).files;
    let warn = Arc::clone(&inputs.warn);
    let directory_context = NestedContext::new(context, Arc::clone(&files), begun_with, warn);
    let environment = SessionEnvironment {
        sandbox: toolbox::shell_options(&own, artifacts.clone()).sandbox,
        launch: own,
        workspace: Arc::clone(&files),
        processes: toolbox.processes(),
        checkpoint_manager: checkpoint_manager.clone(),
        isolation: inputs.clone(),
    };
    let note = format!(
        "You work in your own git worktree, `{}`, on the branch `{}`. It has the last commit \
         without uncommitted changes. Change files only there. What you do not commit is committed \
         when you are done.",
        worktree.directory().display(),
        worktree.branch()
    );
    let checkpoints = checkpoint_manager
        .clone()
        .map(|checkpoint_manager| checkpoint_manager as Arc<dyn Checkpoints>);
    let subject = one_line(task.prompt).chars().take(SUBJECT).collect();
    let environment_end =
        WorktreeCleanup { worktree, toolbox, checkpoint_manager, artifacts, name_file, subject };
    let roots = Arc::clone(&files);
    let workspace = AgentWorkspace {
        roots: Arc::new(move || roots.roots()),
        checkpoints,
        folder_context: Arc::new(directory_context),
        finish: Box::new(move |can_be_resumed| environment_end.finish(can_be_resumed)),
    };
    let environment = Box::new(environment);
    IsolatedAgent { environment, tools, note, files, seen_files, workspace }
}

/// Returns the configuration of a session in the worktree, with the flags of this session.
fn configuration(launch: &SessionConfig, worktree: &Worktree) -> Result<SessionConfig, Failure> {
    let mut options = launch.options.clone();
    options.directory = worktree.directory().to_owned();
    // It has the files of the main checkout open.
    options.editor = SessionEditor::default();
    options.companion = None;
    let mut own = launch.prepare_again(options)?;
    own.mode = launch.mode;
    own.sandbox = launch.sandbox;
    own.extensions = Arc::clone(&launch.extensions);
    own.prompter.clone_from(&launch.prompter);
    own.sampling.clone_from(&launch.sampling);
    Ok(own)
}

/// Finishes the worktree when the agent is done.
struct WorktreeCleanup {
    worktree: Worktree,
    toolbox: Toolbox,
    checkpoint_manager: Option<Arc<CheckpointManager>>,
    artifacts: PathBuf,
    name_file: Option<PathBuf>,
    /// The task in one line.
    subject: String,
}

impl WorktreeCleanup {
    fn finish(self, can_be_resumed: bool) -> BoxFuture<'static, FinishedWorkspace> {
        Box::pin(async move {
            let had_background = self.toolbox.had_background().await;
            let replaced = self.toolbox.close().await;
            // Once it runs, it is not cancelled.
            let finish_task = tokio::task::spawn_blocking(move || {
                let settled = self.checkpoint_manager.map(|checkpoint_manager| {
                    checkpoint_manager.finish_session(had_background, false)
                });
                let mut finished = match can_be_resumed {
                    true => finish_worktree(self.worktree),
                    false => finish(self.worktree, &self.subject),
                };
                for notice in replaced.into_iter().chain(settled.unwrap_or_default()) {
                    finished.report.push_str(&format!("\nNote: {notice}"));
                }
                if !can_be_resumed && let Some(file) = self.name_file {
                    // The file may not exist.
                    let _ = std::fs::remove_file(file);
                }
                if finished.data.is_none() {
                    toolbox::clear(&self.artifacts);
                }
                finished
            });
            finish_task.await.unwrap_or_else(|error| FinishedWorkspace {
                report: format!("Failed to finish the worktree: {error}"),
                data: None,
            })
        })
    }
}

/// Keeps the worktree of a run that can be resumed, unless it is unchanged. Blocking.
fn finish_worktree(worktree: Worktree) -> FinishedWorkspace {
    let described = WorktreeReport::for_worktree(&worktree);
    match worktree.remove_if_unchanged() {
        Ok(Some(ignored)) => unchanged_workspace(&ignored),
        Ok(None) => FinishedWorkspace {
            report: format!("Its changes are uncommitted in {}.", described.text),
            data: Some(described.data),
        },
        Err(failure) => described.report_retained(&failure),
    }
}

/// Commits the changes of a run, or removes an unchanged worktree. Blocking.
fn finish(worktree: Worktree, subject: &str) -> FinishedWorkspace {
    let mut described = WorktreeReport::for_worktree(&worktree);
    let (branch, name) = (worktree.branch().to_owned(), worktree.name().to_owned());
    let base = worktree.base().to_owned();
    let changes = match worktree.finish_subagent(subject) {
        Ok(SubagentWorktreeOutcome::Removed(ignored)) => return unchanged_workspace(&ignored),
        Ok(SubagentWorktreeOutcome::Retained(changes)) => changes,
        Err(failure) => return described.report_retained(&failure),
    };
    let SubagentChanges { commit: Some(commit), files, nested_repositories } = changes else {
        let report = format!(
            "Another branch or commit is checked out in {}; its changes were left there.",
            described.text
        );
        return FinishedWorkspace { report, data: Some(described.data) };
    };
    let listed = files.iter().take(FILES);
    let listed = listed.map(|(kind, path)| format!("{kind} {}", one_line(&path.to_string_lossy())));
    let mut lines: Vec<String> = listed.collect();
    if files.len() > FILES {
        lines.push(format!("[… {} more]", files.len() - FILES));
    }
    let word = if files.len() == 1 { "file" } else { "files" };
    let mut report = format!(
        "Changed {} {word} in {}, all committed as {}:\n{}\nReview: git diff {}...{branch}\nMerge: \
         git merge {branch}\nThe user can discard them with `parallax worktrees remove --force \
         {name}`.",
        files.len(),
        described.text,
        abbreviate_commit(&commit),
        lines.join("\n"),
        abbreviate_commit(&base),
    );
    if !nested_repositories.is_empty() {
        let names: Vec<String> = nested_repositories
            .iter()
            .map(|path| format!("`{}`", one_line(&path.to_string_lossy())))
            .collect();
        report.push_str(&format!(
            "\nThe commit does not contain the files in these git repositories, which exist only in \
             the worktree: {}",
            names.join(", ")
        ));
    }
    let paths: Vec<String> = files.iter().map(|(_, path)| path.display().to_string()).collect();
    described.data["commit"] = json!(commit);
    described.data["files"] = json!(paths);
    FinishedWorkspace { report, data: Some(described.data) }
}

fn unchanged_workspace(ignored: &IgnoredFiles) -> FinishedWorkspace {
    let report = match ignored.is_empty() {
        true => "It changed no files; its git worktree was removed.".to_owned(),
        false => format!(
            "It changed no files that git tracks; its git worktree was removed with {ignored}."
        ),
    };
    FinishedWorkspace { report, data: None }
}

/// A worktree for the calling model.
struct WorktreeReport {
    text: String,
    data: Value,
}

impl WorktreeReport {
    fn for_worktree(worktree: &Worktree) -> Self {
        let (name, branch, path) = (worktree.name(), worktree.branch(), worktree.path().display());
        Self {
            text: format!("the git worktree `{name}` ({path}) on the branch `{branch}`"),
            data: json!({
                "name": name,
                "path": path.to_string(),
                "branch": branch,
                "base": worktree.base(),
            }),
        }
    }

    /// Reports a worktree that was kept because git failed.
    fn report_retained(self, failure: &Failure) -> FinishedWorkspace {
        let report = format!("Its changes are in {}: {}", self.text, one_line(&failure.message));
        FinishedWorkspace { report, data: Some(self.data) }
    }
}

fn abbreviate_commit(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
