//! A prepared call of `run_shell_command`: runs the command and describes how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parallax_exec::{Command, CommandOutcome, FinishedCommand, LiveOutput, Mode, Processes};
use parallax_policy::bash::ShellLine;
use parallax_protocol::BoxFuture;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{
    Effects, Invocation, Preview, RunContext, SandboxOverhead, ToolResult,
};
use parallax_sandbox::{Plan, Tier};

use super::confined::{self, DenialEvidence, StartingCommand};
use super::control::{CommandControl, show};
use super::editor_terminal::EditorTerminalCall;
use super::{
    describe_removed_variables, granted_paths, precreated_path, replaced_files, report,
    supports_cache_layers,
};
use crate::sandbox_options::SandboxOptions;
use crate::shell_options::ShellOptions;

/// A prepared call.
pub(super) struct RunShellCommandCall {
    pub(super) title: String,
    /// Where the command runs instead of a process of Parallax.
    pub(super) in_editor: Option<EditorTerminalCall>,
    pub(super) effects: Effects,
    pub(super) command: String,
    pub(super) line: ShellLine,
    pub(super) roots: Vec<PathBuf>,
    pub(super) directory: PathBuf,
    pub(super) mode: Mode,
    pub(super) detach_after: Option<Duration>,
    pub(super) copy: PathBuf,
    pub(super) options: Arc<ShellOptions>,
    pub(super) processes: Processes,
    /// In front ends that do not show removed variables, the first command reports them.
    pub(super) report_removed_variables: Option<Arc<AtomicBool>>,
}

impl RunShellCommandCall {
    /// Returns the environment of the command.
    fn environment(&self, run: &RunContext) -> Vec<(OsString, OsString)> {
        let environment = self.options.environment();
        if self
            .report_removed_variables
            .as_ref()
            .is_some_and(|is_reported| !is_reported.swap(true, Ordering::Relaxed))
        {
            for line in describe_removed_variables("commands", &environment.dropped) {
                run.progress.emit_aside(&line);
            }
        }
        let mut variables = environment.variables;
        if self.mode == Mode::Pipe {
            // An editor without a terminal would wait forever.
            for name in ["GIT_EDITOR", "GIT_SEQUENCE_EDITOR"] {
                variables.retain(|(other, _)| other != name);
                variables.push((name.into(), "true".into()));
            }
        }
        if let Some(trace) = run.progress.trace_headers() {
            trace.set_variables(&mut variables);
        }
        variables
    }
}

impl Invocation for RunShellCommandCall {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Command { command: self.command.clone(), directory: self.directory.clone() })
    }

    fn broader_permissions(&self, permissions: &Permissions) -> Permissions {
        let sandbox = self.options.sandbox.as_ref();
        sandbox
            .map(|sandbox| granted_paths::broader_permissions(permissions, &sandbox.home))
            .unwrap_or_default()
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let variables = self.environment(&run);
            if let Some(in_editor) = self.in_editor {
                return in_editor
                    .run(&self.command, self.directory, variables, &self.options, &run)
                    .await;
            }
            let entry = StartingCommand {
                line: self.line.clone(),
                directory: self.directory.clone(),
                roots: self.roots,
                named_directories: self.effects.reads.into_iter().take(64).collect(),
                layers: false,
                mode: run.mode,
                permissions: run.permissions.clone(),
                requested_writes: run.requested.file_system.write.clone(),
                environment: variables,
            };
            let begun = Instant::now();
            let (options, processes) = (Arc::clone(&self.options), self.processes.clone());
            let prepare_task = tokio::task::spawn_blocking(move || {
                let sandbox = options.sandbox.as_ref();
                let confined = sandbox.is_some_and(|sandbox| sandbox.enabled);
                let layers = confined
                    && sandbox.is_some_and(supports_cache_layers)
                    && processes.has_namespaces();
                StartingCommand { layers, ..entry }.prepare(sandbox)
            });
            let prepared = match prepare_task.await.map_err(|error| error.to_string()) {
                Ok(Ok(prepared)) => prepared,
                Ok(Err(reason)) | Err(reason) => return report::preparation_error(&reason),
            };
            let unroutable = self.processes.unroutable_attempts();
            let is_confined = prepared.plan.is_some();
            let command = Command {
                text: self.command.clone(),
                before: None,
                directory: self.directory.clone(),
                environment: prepared.environment,
                sandbox: prepared.plan.clone(),
                mode: self.mode,
                copy: Some(self.copy),
                redact: self.options.redact.clone(),
                limits: self.options.limits(),
                color: self.options.show_color,
            };
            let running = match self.processes.start(command).await {
                Ok(running) => running,
                Err(error) => {
                    precreated_path::remove_unused(prepared.precreated).await;
                    return report::not_started(&error);
                }
            };
            let before = begun.elapsed();
            let mut after = Duration::ZERO;
            run.progress.process_group(running.pid());
            run.progress.control(Arc::new(CommandControl(running.control())));
            let progress = Arc::clone(&run.progress);
            let mut live = move |piece: LiveOutput<'_>| show(progress.as_ref(), piece);
            let outcome = match running.follow(&run.cancel, self.detach_after, &mut live).await {
                CommandOutcome::Finished(finished) => {
                    let ended = Instant::now();
                    let mut outcome = report::finished_result(&finished);
                    precreated_path::remove_unused(prepared.precreated).await;
                    if let Some(note) =
                        self.options.sandbox.as_ref().and_then(|it| replaced_files(&it.temporary))
                    {
                        run.progress.emit_aside(&note);
                    }
                    if let (Some(plan), Some(sandbox)) = (prepared.plan, &self.options.sandbox) {
                        let evidence = DenialEvidence {
                            needed_network: self.processes.unroutable_attempts() > unroutable,
                            // Landlock alone cannot hide files in the workspace.
                            has_placeholders: self.processes.has_namespaces()
                                && sandbox.tier != Tier::Landlock,
                        };
                        let confined = EndedCommand {
                            plan,
                            line: self.line,
                            directory: self.directory,
                            finished,
                            evidence,
                        };
                        confined.add_denials(sandbox, run.mode, &mut outcome).await;
                    }
                    after = ended.elapsed();
                    outcome
                }
                CommandOutcome::Detached(detached) => {
                    report::detached_result(&detached, &self.command, self.detach_after.is_some())
                }
            };
            let sandbox_overhead = is_confined.then(|| SandboxOverhead {
                before: milliseconds(before),
                after: milliseconds(after),
            });
            ToolResult { write_scope: prepared.write_scope, sandbox_overhead, ..outcome }
        })
    }
}

/// A confined command that has ended.
struct EndedCommand {
    plan: Plan,
    line: ShellLine,
    directory: PathBuf,
    finished: Box<FinishedCommand>,
    evidence: DenialEvidence,
}

impl EndedCommand {
    /// Adds what the sandbox denied to the result.
    async fn add_denials(
        self,
        sandbox: &SandboxOptions,
        mode: ApprovalMode,
        outcome: &mut ToolResult,
    ) {
        let (home, hidden) = (sandbox.home.clone(), sandbox.hidden_places.clone());
        let denial_task = tokio::task::spawn_blocking(move || {
            let Self { plan, line, directory, finished, evidence } = self;
            hidden.update_record();
            confined::denied_permissions(plan, &line, &directory, &home, &finished, evidence)
        });
        let (refused, words) = denial_task.await.unwrap_or_default();
        outcome.for_model.output.push_str(&words);
        if sandbox.table.mode(mode).allow_overrides {
            outcome.denied_permissions = refused;
        } else if !refused.is_empty() {
            let words = refused.descriptions().join(", ");
            outcome.for_model.output.push_str(&format!(
                "\n[The sandbox denied this command: {words}. In `{}` mode, no further permissions \
                 are granted (`allowOverrides` in `sandbox.toml`)]",
                mode.as_str()
            ));
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
