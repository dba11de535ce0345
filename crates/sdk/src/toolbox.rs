//! The built-in tools of a session.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use parallax_engine::EventBus;
use parallax_exec::Processes;
use parallax_exec::background::BackgroundState;
use parallax_files::{SeenFiles, Workspace, remove_tree, remove_tree_until};
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::excerpt;
use parallax_protocol::model::Model;
use parallax_protocol::shell::{BackgroundCompletion, Shell};
use parallax_protocol::tool::Tool;
use parallax_tools::ask_user::AskUser;
use parallax_tools::enter_plan_mode::EnterPlanMode;
use parallax_tools::exit_plan_mode::{ExitPlanMode, PlanLocation};
use parallax_tools::glob::Glob;
use parallax_tools::google_web_search::GoogleWebSearch;
use parallax_tools::grep_search::GrepSearch;
use parallax_tools::kill_background_process::KillBackgroundProcess;
use parallax_tools::list_background_processes::ListBackgroundProcesses;
use parallax_tools::list_directory::ListDirectory;
use parallax_tools::read_background_output::ReadBackgroundOutput;
use parallax_tools::read_file::ReadFile;
use parallax_tools::replace::Replace;
use parallax_tools::run_shell_command::RunShellCommand;
use parallax_tools::run_shell_command::replaced_files;
use parallax_tools::save_memory::{MemoryFiles, SaveMemory};
use parallax_tools::tracker::{Tracker, tracker_tools};
use parallax_tools::update_topic::UpdateTopic;
use parallax_tools::web_fetch::{WebFetch, WebFetchOptions};
use parallax_tools::write_file::{UnseenOverwrite, WriteFile};
use parallax_tools::write_todos::WriteTodos;
use parallax_tools::{MainModel, RedactionOptions, ShellOptions, UserShell};

use crate::plans;
use crate::sandbox;
use crate::session_config::SessionConfig;
use crate::web_search;

/// Timeout of a search.
const SEARCH_LIMIT: Duration = Duration::from_secs(30);

/// How long the end of a session waits for the removal of temporary directories.
const CLEARING_TIME: Duration = Duration::from_secs(2);

/// The tools, and state that outlives single tool calls.
pub(crate) struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    processes: Processes,
    shell: Arc<dyn Shell>,
    /// Temporary directories of commands to remove after the session; the sandbox's own comes
    /// first.
    temporary_directories: Vec<PathBuf>,
    /// The home directory of Parallax.
    home: PathBuf,
    /// The current main model, for tools that use one.
    main: Arc<RwLock<String>>,
    /// Whether the settings name a web search for models without one.
    has_http_search: bool,
}

impl Toolbox {
    /// Returns the tools in the order of declaration, which never changes because the provider's
    /// cache depends on it.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.clone()
    }

    /// Returns the processes of the session.
    pub(crate) fn processes(&self) -> Processes {
        self.processes.clone()
    }

    /// Returns the runner of the user's own shell commands.
    pub(crate) fn shell(&self) -> Arc<dyn Shell> {
        Arc::clone(&self.shell)
    }

    /// Returns a function to call when the main model changes. It reports when the new one cannot
    /// search the web.
    pub(crate) fn model_change_handler(
        &self,
        model: Arc<dyn Model>,
        bus: EventBus,
    ) -> Box<dyn Fn(&str) + Send + Sync> {
        let main = Arc::clone(&self.main);
        let has_http_search = self.has_http_search;
        let searches = move |name: &str| {
            let notice = web_search::missing_search_message(model.as_ref(), name)
                .filter(|_| !has_http_search);
            (notice.is_none(), notice)
        };
        let searched =
            AtomicBool::new(searches(&main.read().unwrap_or_else(PoisonError::into_inner)).0);
        Box::new(move |name| {
            name.clone_into(&mut main.write().unwrap_or_else(PoisonError::into_inner));
            let (can_search, notice) = searches(name);
            let could_search = searched.swap(can_search, Ordering::Relaxed);
            if let Some(text) = notice.filter(|_| could_search) {
                let done = ItemDone::notice(Level::Warning, text);
                bus.send(EventBody::ItemDone { item: "notice-web-search".into(), done });
            }
        })
    }

    /// Returns the current main model, with its alias resolved.
    pub(crate) fn main_model(&self, model: Arc<dyn Model>) -> MainModel {
        main_model(&self.main, model)
    }

    /// Returns whether a command of the session is running in the background.
    pub(crate) async fn had_background(&self) -> bool {
        let processes = self.processes.clone();
        let task = tokio::task::spawn_blocking(move || !processes.background().is_empty());
        task.await.unwrap_or(false)
    }

    /// Returns a notice that names the commands that still run in the background and end with the
    /// session, if there are any.
    pub(crate) async fn background_commands_notice(&self) -> Option<String> {
        let processes = self.processes.clone();
        let listing = tokio::task::spawn_blocking(move || processes.background());
        let all = listing.await.unwrap_or_default();
        let mut running: Vec<String> = all
            .iter()
            .filter(|process| process.state == BackgroundState::Running)
            .map(|process| short_command(&process.command))
            .collect();
        // One command may have left several processes.
        running.dedup();
        ending_notice(&running)
    }

    /// Ends all remaining processes. Returns a notice about files they replaced, if any.
    pub(crate) async fn close(self) -> Option<String> {
        self.processes.shutdown().await;
        let (leftovers, home) = (self.temporary_directories, self.home);
        let clear_task = tokio::task::spawn_blocking(move || {
            let replaced = leftovers.first().and_then(|temporary| replaced_files(temporary));
            let end = Instant::now() + CLEARING_TIME;
            leftovers.iter().for_each(|directory| clear_until(directory, end, &home));
            // Also remove the session's directory if it is empty.
            if let Some(directory) = leftovers.first().and_then(|directory| directory.parent()) {
                let _ = std::fs::remove_dir(directory);
            }
            replaced
        });
        clear_task.await.unwrap_or_default()
    }
}

/// Returns the beginning of a command in one line.
fn short_command(command: &str) -> String {
    const MAX_LENGTH: usize = 60;
    let line = excerpt::one_line(command);
    match excerpt::truncate(&line, MAX_LENGTH) {
        whole if whole.len() == line.len() => line,
        start => format!("{start}…"),
    }
}

fn ending_notice(commands: &[String]) -> Option<String> {
    /// Maximum number of commands to name.
    const NAMED: usize = 3;
    let [named @ .., last] = commands else { return None };
    if named.is_empty() {
        return Some(format!("Stopped the background command `{last}`."));
    }
    let shown: Vec<String> =
        commands.iter().take(NAMED).map(|command| format!("`{command}`")).collect();
    let more = match commands.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(format!("Stopped {} background commands: {}{more}.", commands.len(), shown.join(", ")))
}

/// Removes a directory of commands, including subdirectories without permissions, which commands
/// and overlays create. Links are not followed.
pub(crate) fn clear(directory: &Path) {
    if let Err(error) = remove_tree(directory)
        && directory.is_dir()
    {
        warn(&error, directory);
    }
}

/// Like [`clear`], but moves to the trash what takes longer to remove.
fn clear_until(directory: &Path, end: Instant, home: &Path) {
    match remove_tree_until(directory, end) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            if let Err(error) = parallax_store::discard_directory(home, directory) {
                warn(&error, directory);
            }
        }
        Err(error) if directory.is_dir() => warn(&error, directory),
        _ => {}
    }
}

fn warn(error: &io::Error, directory: &Path) {
    tracing::info!(%error, directory = %directory.display(), "failed to remove a directory of commands");
}

fn main_model(main: &Arc<RwLock<String>>, model: Arc<dyn Model>) -> MainModel {
    let main = Arc::clone(main);
    Arc::new(move || model.catalog().resolve(&main.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Creates the tools.
pub(crate) fn build(
    launch: &SessionConfig,
    workspace: &Arc<Workspace>,
    seen_files: &Arc<SeenFiles>,
    artifacts: PathBuf,
    model: Arc<dyn Model>,
    plans: &Path,
) -> Toolbox {
    let settings = &launch.config.settings;
    let main = Arc::new(RwLock::new(launch.model_name()));
    let main_model = main_model(&main, Arc::clone(&model));
    let tasks = artifacts.join("tracker");
    let shell = shell_options(launch, artifacts);
    let sandbox = shell.sandbox.as_ref();
    let temporary_directories = sandbox
        .map_or_else(Vec::new, |sandbox| vec![sandbox.temporary.clone(), sandbox.overlays.clone()]);
    let home = launch.config.dirs.parallax.clone();
    let processes = Processes::new(shell.background_dir.clone());
    let user_shell = UserShell::new(shell.clone(), Arc::clone(workspace), processes.clone());
    let fetch = WebFetchOptions {
        client: launch.client_options(),
        allowed: Vec::new(),
        direct: settings.flag("experimental.directWebFetch"),
    };
    let (work, files) = (|| Arc::clone(workspace), || Arc::clone(seen_files));
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if settings.flag("general.topicUpdateNarration") {
        tools.push(Arc::new(UpdateTopic::new()));
    }
    let others: [Arc<dyn Tool>; 11] = [
        Arc::new(ListDirectory::new(work())),
        Arc::new(ReadFile::new(work(), files())),
        Arc::new(GrepSearch::new(work(), SEARCH_LIMIT)),
        Arc::new(Glob::new(work(), SEARCH_LIMIT)),
        Arc::new(Replace::new(work(), files()).with_plans(plans.to_owned())),
        Arc::new(
            WriteFile::new(work(), files(), UnseenOverwrite::Warn).with_plans(plans.to_owned()),
        ),
        Arc::new(WebFetch::new(Arc::clone(&model), Arc::clone(&main_model), fetch)),
        Arc::new(RunShellCommand::new(shell, work(), processes.clone())),
        Arc::new(ListBackgroundProcesses::new(processes.clone())),
        Arc::new(ReadBackgroundOutput::new(processes.clone())),
        Arc::new(KillBackgroundProcess::new(processes.clone())),
    ];
    tools.extend(others);
    // A wrong setting is reported when the session opens.
    let http_search = web_search::configured_search(launch).ok().flatten().map(Arc::new);
    let has_http_search = http_search.is_some();
    tools.push(Arc::new(GoogleWebSearch::new(model, main_model, http_search)));
    if settings.flag("experimental.taskTracker") {
        let tracker = Arc::new(Tracker::new(tasks));
        tools.extend(tracker_tools(&tracker));
    } else if settings.use_write_todos() {
        tools.push(Arc::new(WriteTodos::new()));
    }
    tools.push(Arc::new(SaveMemory::new(memory_files(launch), work(), files())));
    // Only an interactive session can ask the user.
    if launch.options.interactive {
        tools.push(Arc::new(AskUser::new()));
    }
    if launch.has_plan_mode() {
        let location = PlanLocation {
            folder: plans.to_owned(),
            unattended_mode: plans::approved_plan_mode(launch),
        };
        tools.push(Arc::new(EnterPlanMode::new(plans.to_owned())));
        tools.push(Arc::new(ExitPlanMode::new(location, work())));
    }
    tools.extend(launch.options.tools.0.iter().cloned());
    Toolbox {
        tools,
        processes,
        shell: Arc::new(user_shell),
        temporary_directories,
        home,
        main,
        has_http_search,
    }
}

/// Returns the files that `save_memory` writes to.
fn memory_files(launch: &SessionConfig) -> MemoryFiles {
    let config = &launch.config;
    let names = config.settings.memory_file_names();
    MemoryFiles {
        user: parallax_config::user_memory_file(&config.dirs, &names),
        project: parallax_config::project_memory_file(&config.cwd, &names),
        with_fact: parallax_config::add_fact,
    }
}

pub(crate) fn shell_options(launch: &SessionConfig, artifacts: PathBuf) -> ShellOptions {
    let settings = &launch.config.settings;
    let shell = settings.shell();
    let redaction = settings.environment_redaction();
    let mut options =
        ShellOptions::new(artifacts.join("tool-outputs"), artifacts.join("background"));
    let sandbox = sandbox::sandbox_options(launch, &artifacts);
    options.pager = shell.pager;
    options.inactivity_timeout = shell.inactivity_timeout;
    options.interactive_shell = shell.interactive;
    options.show_color = shell.show_color;
    options.background_completion = match shell.background_completion.as_str() {
        "notify" => BackgroundCompletion::Notify,
        "inject" => BackgroundCompletion::Inject,
        _ => BackgroundCompletion::Silent,
    };
    options.output_efficiency = shell.efficiency_hints;
    options.truncate_threshold = settings.truncate_tool_output_threshold().unwrap_or(0);
    options.redaction = RedactionOptions {
        enabled: redaction.enabled,
        allowed: redaction.allowed,
        blocked: redaction.blocked,
        credentials: redaction.credentials,
    };
    options.redact = launch.dirs().keys.redact();
    let environment = &launch.config.environment;
    options.dotenv_names = environment.names_of_project().map(str::to_owned).collect();
    let pairs = environment.user_file_variables();
    options.user_variables = pairs.map(|(name, value)| (name.into(), value.into())).collect();
    options.trusted_folder = launch.config.trust.trusted;
    let (dirs, directory) = (&launch.config.dirs, &launch.options.directory);
    options.in_own_worktree = parallax_config::worktrees::worktree_of(dirs, directory).is_some();
    options.sandbox = sandbox;
    options.block_substitution =
        settings.command_substitution() == parallax_config::CommandSubstitution::Block;
    options
}

/// Returns which variables are removed from the environment of programs that are not commands.
pub(crate) fn redaction(launch: &SessionConfig) -> parallax_exec::environment::Redaction {
    let set = launch.config.settings.environment_redaction();
    parallax_exec::environment::Redaction {
        enabled: set.enabled,
        allowed: set.allowed,
        blocked: set.blocked,
        credentials: set.credentials,
        dotenv_names: launch.config.environment.names_of_project().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_background_commands_are_listed_briefly() {
        let notice = |commands: &[&str]| {
            let commands: Vec<String> = commands.iter().map(|it| short_command(it)).collect();
            ending_notice(&commands)
        };
        assert_eq!(notice(&[]), None);
        assert_eq!(notice(&["a\n b"]).unwrap(), "Stopped the background command `a b`.");
        assert_eq!(
            notice(&["a", "b", "c", "d", "e"]).unwrap(),
            "Stopped 5 background commands: `a`, `b`, `c`, and 2 more."
        );
        let long = notice(&[&"x".repeat(100)]).unwrap();
        assert_eq!(long, format!("Stopped the background command `{}…`.", "x".repeat(60)));
    }
}
