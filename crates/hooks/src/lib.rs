//! The hooks of a session: loading, matching, and running them.
//!
//! Not in this crate: the definitions in settings files (`config`), and when hooks run (`engine`).

mod library;
mod matcher;
mod merge;
mod migrate;
mod own;
mod persistent_hooks;
mod quoting;
mod result;
mod test_run;
mod trace;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use parallax_config::Config;
use parallax_config::extensions::Extensions;
use parallax_config::hooks::{Hook, HookKind, HookList, HookSource, find_hooks};
use parallax_config::other_agents::foreign_tool;
use parallax_exec::environment::is_system_variable;
use parallax_exec::{PipedCommand, PipedOutput, ProcessExit, Processes};
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::{Failure, FailureKind, Level};
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome, Hooks};
use parallax_protocol::observer::{EventScope, HookRun, Observation, Observer, SpanSubject};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::trace_headers::TraceHeaders;
use parallax_protocol::{BoxFuture, CancellationToken, Object};
use parallax_tools::ShellOptions;
use parallax_tools::run_shell_command::{describe_removed_variables, prepare_sandbox};
use serde_json::Value;

pub use library::{HookInfo, HookLibrary};
use matcher::Matcher;
use merge::{into_input, merge};
pub use migrate::{MigratedHooks, migrate_hooks};
use parallax_checkpoints::{CheckpointManager, WorkspaceWatch};
use parallax_sessions::transcript::TranscriptFile;
use persistent_hooks::PersistentHooks;
use quoting::quote_variables;
use result::{HookResult, interpret};
pub use test_run::{HookTestResult, try_hooks};
use trace::Trace;
pub use trace::{HookTraceEntry, TRACE, hook_trace};

/// The hooks of a session.
pub(crate) struct SessionHooks {
    shared: Arc<HookContext>,
}

/// The hooks and everything that running them needs.
pub(crate) struct HookContext {
    hooks: Vec<Hook>,
    /// Whether to show the names of running hooks (`hooksConfig.notifications`).
    notifies: bool,
    /// The matcher of each hook, in the same order as `hooks`.
    matchers: Vec<Matcher>,
    processes: Processes,
    shell: ShellOptions,
    project: PathBuf,
    plans: PathBuf,
    session: String,
    transcript: TranscriptFile,
    checkpoint_manager: Option<Arc<CheckpointManager>>,
    mode: ApprovalMode,
    /// Whether the user was notified of the variables that hooks do not receive.
    has_reported_dropped: AtomicBool,
    /// For each project hook, its hash at the start of the session.
    hashes: Vec<Option<String>>,
    /// The long-running hook processes.
    persistent: PersistentHooks,
    trace: Trace,
    /// Log file for hooks of type `log` that name no file.
    log: PathBuf,
    observer: Option<Arc<dyn Observer>>,
}

/// The facts about a session that its hooks need.
pub struct HookSession {
    pub processes: Processes,
    pub shell: ShellOptions,
    pub session: String,
    pub journal: PathBuf,
    /// The keys that decrypt the journal.
    pub keys: parallax_store::Keys,
    /// Transcript file for hooks to read; `None` if none is written.
    pub transcript: Option<PathBuf>,
    pub plans: PathBuf,
    pub checkpoint_manager: Option<Arc<CheckpointManager>>,
    /// File that records hook runs; `None` if none is written.
    pub trace: Option<PathBuf>,
    pub observer: Option<Arc<dyn Observer>>,
}

/// A hook of an open session.
#[derive(Debug)]
pub struct RunningHook {
    pub(crate) hook: Hook,
    /// The hash of the files that a hook of the project runs, when the session was opened.
    hash: Option<String>,
}

impl RunningHook {
    /// Whether the hook has the same definition, whatever its files contain.
    pub(crate) fn is_defined_as(&self, hook: &Hook) -> bool {
        let key = |hook: &Hook| (hook.event, hook.source);
        let texts = |hook: &Hook| [&hook.matcher, &hook.name, &hook.command].map(String::clone);
        key(&self.hook) == key(hook) && texts(&self.hook) == texts(hook)
    }

    /// Whether the session runs the hook in its present form. Blocking.
    pub(crate) fn may_run(&self, hook: &Hook, project: &Path) -> bool {
        let is_of_project = hook.source == HookSource::Project;
        self.is_defined_as(hook) && (!is_of_project || self.hash == Some(hook.hash(project)))
    }
}

/// A value and notices for the user.
type Noticed<T> = (T, Vec<String>);

/// The hooks of a session, if there are any to run, and what identifies them.
pub struct HookSetup {
    /// Runs the hooks; `None` if none can run.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// The hooks that the session runs.
    pub running: Vec<RunningHook>,
    /// Notices for the user.
    pub warnings: Vec<String>,
}

/// Returns the hooks of all settings files. Blocking.
///
/// # Errors
/// Returns an error if a settings file is invalid.
pub fn hook_list(config: &Config, extensions: &Extensions) -> Result<HookList, Failure> {
    let mut list = find_hooks(config, extensions)
        .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))?;
    for hook in &list.hooks {
        if let Some(reason) = Matcher::parse(hook).1 {
            list.warnings.push(format!(
                "the matcher `{}` of the hook `{}` is not a valid pattern ({reason}), so it \
                     matches only a tool of exactly this name",
                code_text(&hook.matcher),
                code_text(hook.title())
            ));
        }
    }
    Ok(list)
}

/// Returns the hooks of a session. `list` reads them, and `hook_session` collects what running them
/// needs.
///
/// # Errors
/// Returns an error if a settings file is invalid.
pub fn session_hooks(
    config: &Config,
    list: impl FnOnce() -> Result<HookList, Failure>,
    mode: ApprovalMode,
    hook_session: impl FnOnce() -> HookSession,
) -> Result<HookSetup, Failure> {
    let (shared, warnings) = session_hook_runner(config, list, mode, hook_session)?;
    let pairs = shared.iter().flat_map(|shared| shared.hooks.iter().zip(&shared.hashes));
    let running =
        pairs.map(|(hook, hash)| RunningHook { hook: hook.clone(), hash: hash.clone() }).collect();
    let hooks = shared.map(|shared| Arc::new(SessionHooks { shared }) as Arc<dyn Hooks>);
    Ok(HookSetup { hooks, running, warnings })
}

pub(crate) fn session_hook_runner(
    config: &Config,
    list: impl FnOnce() -> Result<HookList, Failure>,
    mode: ApprovalMode,
    hook_session: impl FnOnce() -> HookSession,
) -> Result<Noticed<Option<Arc<HookContext>>>, Failure> {
    if !config.settings.flag("hooksConfig.enabled") {
        return Ok((None, Vec::new()));
    }
    let HookList { hooks, mut warnings } = list()?;
    // Problems of extension hooks are reported with their extension.
    let is_project_hook = |hook: &&Hook| hook.source == HookSource::Project;
    let waiting = hooks.iter().filter(is_project_hook);
    let unaccepted: Vec<_> = waiting
        .filter(|hook| !hook.accepted && !hook.disabled)
        .map(|hook| code_text(hook.title()))
        .collect();
    if !unaccepted.is_empty() {
        warnings.push(format!(
            "these hooks of the project are new or changed and do not run: `{}`; run `parallax \
                 hooks list` to see them and `parallax hooks accept` to accept them",
            unaccepted.join("`, `")
        ));
    }
    let hooks: Vec<Hook> =
        hooks.into_iter().filter(|hook| hook.accepted && !hook.disabled).collect();
    if hooks.is_empty() {
        return Ok((None, warnings));
    }
    let hook_session = hook_session();
    let HookSession {
        processes, shell, session, plans, checkpoint_manager, trace, observer, ..
    } = hook_session;
    let transcript =
        TranscriptFile::new(hook_session.journal, hook_session.keys, hook_session.transcript);
    let project = config.project.clone();
    let is_project_hook = |hook: &Hook| hook.source == HookSource::Project;
    let hash = |hook: &Hook| is_project_hook(hook).then(|| hook.hash(&project));
    let hashes = hooks.iter().map(hash).collect();
    let shared = HookContext {
        notifies: config.settings.flag("hooksConfig.notifications"),
        matchers: hooks.iter().map(|hook| Matcher::parse(hook).0).collect(),
        hooks,
        hashes,
        processes,
        shell,
        project: config.cwd.clone(),
        plans,
        session,
        transcript,
        mode,
        checkpoint_manager,
        has_reported_dropped: AtomicBool::new(false),
        persistent: PersistentHooks::default(),
        trace: Trace::new(trace),
        log: config.dirs.parallax.join("hooks.log"),
        observer,
    };
    Ok((Some(Arc::new(shared)), warnings))
}

impl Hooks for SessionHooks {
    fn has_subscriber(&self, event: HookEvent, chunk: bool) -> bool {
        self.shared.hooks.iter().any(|hook| hook.event == event && hook.chunks == chunk)
    }

    fn titles(&self, call: &HookCall) -> Vec<String> {
        if self.shared.notifies { self.shared.titles(call) } else { Vec::new() }
    }

    fn run(&self, call: HookCall, cancel: CancellationToken) -> BoxFuture<'static, HookOutcome> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.run(call, &cancel).await })
    }
}

/// What hooks run for.
#[derive(Clone)]
struct Trigger {
    /// The text that matchers are applied to.
    subject: String,
    /// The trace context for their processes.
    trace: Option<TraceHeaders>,
}

impl HookContext {
    /// Runs the matching hooks: in parallel, or one after another if any of them is sequential.
    /// Sequential hooks receive the input as changed by earlier ones.
    async fn run(self: Arc<Self>, call: HookCall, cancel: &CancellationToken) -> HookOutcome {
        let matching = self.matching(&call);
        if !matching.is_empty() {
            self.transcript.update().await;
        }
        let turn =
            || self.observer.as_ref()?.trace_headers(&EventScope::default(), SpanSubject::Turn);
        let trace = call.trace.or_else(turn);
        let trigger = Trigger { subject: call.matcher_subject, trace };
        let sequential =
            matching.iter().any(|index| self.hooks.get(*index).is_some_and(|hook| hook.sequential));
        let mut singles = Vec::with_capacity(matching.len());
        if sequential {
            let mut input = call.input;
            for index in matching {
                let single = self.run_hook(index, &trigger, input.clone(), cancel).await;
                into_input(&mut input, call.event, &single);
                let ends = single.stops_sequence();
                singles.push(single);
                if ends {
                    break;
                }
            }
        } else {
            let mut running = tokio::task::JoinSet::new();
            for (order, index) in matching.into_iter().enumerate() {
                let (shared, input) = (Arc::clone(&self), call.input.clone());
                let (cancel, trigger) = (cancel.clone(), trigger.clone());
                running.spawn(async move {
                    (order, shared.run_hook(index, &trigger, input, &cancel).await)
                });
            }
            let mut done: Vec<(usize, HookResult)> = running.join_all().await;
            done.sort_by_key(|(order, _)| *order);
            singles.extend(done.into_iter().map(|(_, single)| single));
        }
        let ran = !singles.is_empty();
        let mut outcome = merge(singles);
        if ran && !self.has_reported_dropped.swap(true, Ordering::Relaxed) {
            outcome.asides = self.dropped_variables();
        }
        outcome
    }

    /// Returns the names of the user's variables that hooks do not receive.
    fn dropped_variables(&self) -> Vec<String> {
        let dropped = self.shell.hook_environment(true).dropped;
        describe_removed_variables("hooks", &dropped)
    }

    /// Returns the indexes of the matching hooks, without duplicates.
    fn matching(&self, call: &HookCall) -> Vec<usize> {
        let mut seen = HashSet::new();
        (0..self.hooks.len())
            .filter(|index| {
                self.hooks.get(*index).zip(self.matchers.get(*index)).is_some_and(|(hook, of)| {
                    hook.event == call.event
                        && hook.chunks == call.chunk
                        && of.matches(&call.matcher_subject)
                        && seen.insert((hook.name.clone(), hook.command.clone()))
                })
            })
            .collect()
    }

    /// Returns the names of the matching hooks.
    fn titles(&self, call: &HookCall) -> Vec<String> {
        let hooks = self.matching(call).into_iter().filter_map(|index| self.hooks.get(index));
        hooks.map(|hook| hook.title().to_owned()).collect()
    }

    async fn run_hook(
        &self,
        index: usize,
        trigger: &Trigger,
        input: Object,
        cancel: &CancellationToken,
    ) -> HookResult {
        let Some(hook) = self.hooks.get(index).cloned() else { return HookResult::default() };
        let (started_at, started) = (Instant::now(), SystemTime::now());
        let observer = self.observer.as_ref().filter(|observer| observer.is_active());
        let read = observer.map(|_| self.input(&hook, input.clone()));
        let mut single = self.run_program(index, &hook, trigger, input, cancel).await;
        self.trace.note(&hook, &trigger.subject, started_at.elapsed(), &single).await;
        let end = single.end.take();
        if let (Some(observer), Some(read)) = (observer, read) {
            let run = observed_run(&hook, started, started_at.elapsed(), read, &single, end);
            observer.observe(&EventScope::default(), &Observation::HookEnded(&run));
        }
        single
    }

    async fn run_program(
        &self,
        index: usize,
        hook: &Hook,
        trigger: &Trigger,
        input: Object,
        cancel: &CancellationToken,
    ) -> HookResult {
        if hook.source == HookSource::Project {
            // The files that the hook runs may have changed since it was accepted.
            let (project, looked) = (self.project.clone(), hook.clone());
            let task = tokio::task::spawn_blocking(move || looked.hash(&project));
            let accepted = self.is_accepted(index, task.await.ok());
            if !accepted {
                return HookResult::from_failure(
                    hook,
                    "it changed since the session was opened and was not run; `parallax hooks list` \
                     shows it, and `/hooks accept` (or `parallax hooks accept` for the next \
                     session) accepts it",
                );
            }
        }
        match &hook.kind {
            HookKind::Command | HookKind::Process => {}
            HookKind::Log(file) => {
                let input = self.input(hook, input);
                return self.write_log(hook, file.as_deref(), input).await;
            }
            HookKind::Notify(words) => {
                return own::notification_result(hook, words, &trigger.subject);
            }
            HookKind::Invalid(reason) => return HookResult::from_failure(hook, reason),
        }
        let watch = self.watch(hook).await;
        let output = self.feed(hook, trigger, input, cancel).await;
        let note = match watch {
            Some(watch) => {
                let text = hook.command.clone();
                let end_task = tokio::task::spawn_blocking(move || watch.end(&text));
                end_task.await.ok().and_then(|done| done.note())
            }
            None => None,
        };
        let (mut single, skipped) = match output {
            Ok((end, skipped)) if end.exit.is_none() && !end.timed_out => {
                (HookResult::default(), skipped)
            }
            Ok((end, skipped)) => {
                let mut single = interpret(hook, &end);
                single.end = self.observer.is_some().then(|| Box::new(end));
                (single, skipped)
            }
            Err(reason) => (HookResult::from_failure(hook, &reason), Vec::new()),
        };
        single.skipped = skipped;
        single.title = hook.title().to_owned();
        single.messages.extend(note.map(|note| message(hook, Level::Warning, &note)));
        single
    }

    /// Watches protected files while a sandboxed hook runs, as for commands.
    async fn watch(&self, hook: &Hook) -> Option<WorkspaceWatch> {
        let checkpoint_manager = self.checkpoint_manager.clone();
        let checkpoint_manager =
            checkpoint_manager.filter(|_| hook.sandbox && self.mode != ApprovalMode::Yolo)?;
        tokio::task::spawn_blocking(move || checkpoint_manager.watch()).await.ok().flatten()
    }

    /// Returns whether a project hook is unchanged since the session began.
    fn is_accepted(&self, index: usize, now: Option<String>) -> bool {
        self.hashes.get(index).is_some_and(|before| before.is_some() && *before == now)
    }

    /// Builds the JSON input of a hook.
    fn input(&self, hook: &Hook, mut input: Object) -> Object {
        let text = |text: &str| Value::String(text.to_owned());
        for (name, value) in [
            ("session_id", text(&self.session)),
            ("transcript_path", text(&self.transcript.path().to_string_lossy())),
            ("cwd", text(&self.project.to_string_lossy())),
            ("hook_event_name", text(hook.alias.as_deref().unwrap_or(hook.event.as_str()))),
            // Scripts expect exactly three fractional digits.
            ("timestamp", text(&format!("{:.3}", Timestamp::now()))),
        ] {
            input.insert(name.to_owned(), value);
        }
        // A script written for another agent expects that agent's tool names.
        if hook.alias.is_some()
            && let Some(Value::String(name)) = input.get_mut("tool_name")
        {
            *name = foreign_tool(name).to_owned();
        }
        input
    }

    async fn feed(
        &self,
        hook: &Hook,
        trigger: &Trigger,
        input: Object,
        cancel: &CancellationToken,
    ) -> Result<(PipedOutput, Vec<String>), String> {
        let input = self.input(hook, input);
        let cannot = |reason: String| format!("failed to start: {reason}");
        if hook.kind == HookKind::Process {
            let start = async || {
                let environment = self.environment(hook, trigger);
                let (sandbox, environment) = self.confine(hook, environment).await?;
                let (text, folder) = (quote_variables(&hook.command), self.project.clone());
                let started =
                    self.processes.start_stdio_shell(text, folder, environment, sandbox).await;
                started.map_err(|error| error.to_string())
            };
            return self.persistent.send_event(hook, input, start, cancel).await;
        }
        let mut bytes = serde_json::to_vec(&input).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        let environment = self.environment(hook, trigger);
        let (sandbox, environment) = self.confine(hook, environment).await.map_err(cannot)?;
        let command = PipedCommand {
            text: quote_variables(&hook.command),
            directory: self.project.clone(),
            environment,
            input: bytes,
            timeout: hook.timeout,
            // One byte over the limit, to detect longer output.
            max_bytes: result::ANSWER + 1,
            sandbox,
            allows_background: true,
        };
        let output = self.processes.run_piped(command, cancel).await;
        output.map(|end| (end, Vec::new())).map_err(|error| cannot(error.to_string()))
    }

    /// Returns the environment of a hook: the user's variables without secrets (in the sandbox,
    /// those that commands receive), the variables for all hooks, and the hook's own.
    fn environment(
        &self,
        hook: &Hook,
        trigger: &Trigger,
    ) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        let is_user_hook = matches!(hook.source, HookSource::User | HookSource::System);
        let mut environment = match hook.sandbox {
            true => self.shell.environment().variables,
            false => self.shell.hook_environment(is_user_hook).variables,
        };
        if hook.extension.is_some() {
            // Only the user's variables that the extension's settings name.
            environment.retain(|(name, _)| is_system_variable(&name.to_string_lossy()));
        }
        let project = self.project.clone().into_os_string();
        let mut set: Vec<(String, std::ffi::OsString)> = vec![
            ("GEMINI_PROJECT_DIR".into(), project.clone()),
            ("GEMINI_CWD".into(), project.clone()),
            ("CLAUDE_PROJECT_DIR".into(), project),
            ("GEMINI_PLANS_DIR".into(), self.plans.clone().into()),
            ("GEMINI_SESSION_ID".into(), self.session.clone().into()),
        ];
        set.extend(hook.env.iter().map(|(name, value)| (name.clone(), value.into())));
        if let Some(trace) = &trigger.trace {
            trace.set_variables(&mut environment);
        }
        for (name, value) in set {
            environment.retain(|(known, _)| *known != *name);
            environment.push((name.into(), value));
        }
        environment
    }

    /// Prepares the sandbox for a hook that runs in one.
    async fn confine(
        &self,
        hook: &Hook,
        environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<
        (Option<parallax_sandbox::Plan>, Vec<(std::ffi::OsString, std::ffi::OsString)>),
        String,
    > {
        if !hook.sandbox {
            return Ok((None, environment));
        }
        let options = self.shell.sandbox.clone();
        let mut options = options.ok_or("the sandbox is not available in this program")?;
        options.enabled = true;
        let (command, project, mode) =
            (quote_variables(&hook.command), self.project.clone(), self.mode);
        let sandbox_task = tokio::task::spawn_blocking(move || {
            let roots = [project.clone()];
            let none = Permissions::default();
            prepare_sandbox(&options, &command, &project, &roots, mode, &none, environment)
        });
        let prepared = sandbox_task.await.map_err(|error| error.to_string())??;
        Ok((Some(prepared.0), prepared.1))
    }
}

/// Maximum characters of a hook's output that observers receive.
const OBSERVED_OUTPUT: usize = 64 * 1024;

/// Builds the description of a run for observers.
fn observed_run(
    hook: &Hook,
    started: SystemTime,
    took: Duration,
    input: Object,
    single: &HookResult,
    end: Option<Box<PipedOutput>>,
) -> HookRun {
    let text = |bytes: &[u8]| {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        text.truncate(text.floor_char_boundary(OBSERVED_OUTPUT));
        text
    };
    let exit_code = end.as_ref().and_then(|end| match end.exit {
        Some(ProcessExit::Exited { code }) => Some(code),
        _ => None,
    });
    let warned = single.messages.iter().find(|(level, _)| *level != Level::Info);
    let is_program = matches!(hook.kind, HookKind::Command | HookKind::Process);
    let success = if is_program { exit_code == Some(0) } else { warned.is_none() };
    HookRun {
        event: hook.event,
        kind: match &hook.kind {
            HookKind::Command | HookKind::Invalid(_) => "command",
            HookKind::Process => "process",
            HookKind::Log(_) => "log",
            HookKind::Notify(_) => "notify",
        },
        name: if hook.command.is_empty() { hook.title() } else { &hook.command }.to_owned(),
        started,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        success,
        exit_code,
        output: end.as_ref().and_then(|end| serde_json::from_slice(&end.stdout).ok()),
        stdout: end.as_ref().map_or_else(String::new, |end| text(&end.stdout)),
        stderr: end.as_ref().map_or_else(String::new, |end| text(&end.stderr)),
        input,
        error: warned.filter(|_| !success).map(|(_, text)| text.clone()),
    }
}

/// Formats a message from a hook for the user.
pub(crate) fn message(hook: &Hook, level: Level, text: &str) -> (Level, String) {
    (level, format!("hook `{}`: {text}", result::sanitize(hook.title(), 200)))
}

/// Formats the name of a hook for a message.
pub fn format_title(name: &str) -> String {
    result::sanitize(name, result::TITLE)
}
