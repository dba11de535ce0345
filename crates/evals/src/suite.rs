//! Runs cases with several models, several times, and in parallel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentProcess, AgentRun};
use crate::case::Case;
use crate::case_outcome::CaseOutcome;
use crate::error::EvalError;
use crate::judge::judge;
use crate::recording;
use crate::results::{CheckResult, JudgeUse, RunResult};
use crate::workspace::CaseWorkspace;
use crate::wrong_step::first_wrong_step;

/// Default time limit of a run.
const LIMIT: Duration = Duration::from_secs(600);

/// The error of a cancelled run.
const CANCELED: &str = "canceled";
/// The model name of runs that did not start, if no model was given.
const CONFIGURED: &str = "default";

/// The source of the model's responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerSource {
    /// The models.
    Model,
    /// The models, with a recording stored in the directory of each case.
    Record,
    /// The recording of each case, or one file for all cases.
    Replay(Option<PathBuf>),
}

/// The cases to run, with options.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The path of the agent program.
    pub program: PathBuf,
    /// The cases.
    pub cases: Vec<Case>,
    /// The models; empty for the configured one.
    pub models: Vec<String>,
    /// How often each case runs with each model.
    pub runs: u32,
    /// The number of parallel runs.
    pub jobs: usize,
    /// The source of the model's responses.
    pub answers: AnswerSource,
    /// Whether the directories of failed runs are kept.
    pub retains_failed: bool,
    /// Whether a replay also answers requests that differ from the recorded ones.
    pub allows_changed_requests: bool,
}

/// A scheduled run.
struct ScheduledRun {
    case: Case,
    model: Option<String>,
    number: u32,
}

impl Suite {
    /// Runs everything and calls `finished` for each run as it ends. Cancelling stops the active
    /// runs, which have no result. Returns the results so far, sorted by case, model, and run
    /// number.
    ///
    /// # Errors
    /// Returns an error if the options contradict each other.
    pub async fn run(
        &self,
        cancel: &CancellationToken,
        finished: &mut (dyn FnMut(&RunResult) + Send),
    ) -> Result<Vec<RunResult>, EvalError> {
        if self.answers == AnswerSource::Record && (self.runs > 1 || self.models.len() > 1) {
            return Err(EvalError::Usage(
                "`--record` stores one recording for each case: use it with one model and one run"
                    .to_owned(),
            ));
        }
        if let AnswerSource::Replay(file) = &self.answers {
            let case_recordings = || self.cases.iter().map(Case::recording).collect();
            let files = file.clone().map_or_else(case_recordings, |file| vec![file]);
            if let Some(missing) = files.iter().find(|file| !file.is_file()) {
                let problem = "the recording is missing; create it with `--record`";
                return Err(EvalError::path(missing, problem));
            }
        }
        let free = Arc::new(Semaphore::new(self.jobs.max(1)));
        let suite = Arc::new(self.clone());
        let mut running = JoinSet::new();
        for job in self.jobs() {
            let (suite, free, cancel) = (suite.clone(), free.clone(), cancel.clone());
            running.spawn(async move {
                let _permit = free.acquire_owned().await;
                match cancel.is_cancelled() {
                    true => None,
                    false => suite.run_job(job, &cancel).await,
                }
            });
        }
        let mut results = Vec::new();
        while let Some(done) = running.join_next().await {
            if let Ok(Some(result)) = done {
                finished(&result);
                results.push(result);
            }
        }
        if let Some(model) =
            results.iter().map(|it| &it.model).find(|it| *it != CONFIGURED).cloned()
            && self.models.is_empty()
        {
            // Runs that did not start would have used the same model.
            results.iter_mut().for_each(|result| result.model.clone_from(&model));
        }
        results.sort_by(|one: &RunResult, other| {
            (&one.case, &one.model, one.run).cmp(&(&other.case, &other.model, other.run))
        });
        Ok(results)
    }

    fn jobs(&self) -> Vec<ScheduledRun> {
        let models: Vec<Option<&String>> = match self.models.as_slice() {
            [] => vec![None],
            models => models.iter().map(Some).collect(),
        };
        let mut jobs = Vec::new();
        for case in &self.cases {
            for model in &models {
                for number in 1..=self.runs.max(1) {
                    jobs.push(ScheduledRun { case: case.clone(), model: model.cloned(), number });
                }
            }
        }
        jobs
    }

    /// Returns `None` for a run that was cancelled: it says nothing about the model.
    async fn run_job(&self, job: ScheduledRun, cancel: &CancellationToken) -> Option<RunResult> {
        let case = &job.case;
        let mut result = RunResult {
            case: case.name.clone(),
            model: job.model.clone().unwrap_or_else(|| CONFIGURED.to_owned()),
            run: job.number,
            pass: false,
            tokens: 0,
            // Of a run that ended before its first request.
            cost: Some(0.0),
            duration_ms: 0,
            tool_calls: 0,
            checks: Vec::new(),
            judge: None,
            session_id: None,
            tags: case.tags.clone(),
            wrong_step: None,
            devtools: None,
            error: None,
        };
        let of = case.clone();
        let workspace = match tokio::task::spawn_blocking(move || CaseWorkspace::create(&of)).await
        {
            Ok(Ok(workspace)) => workspace,
            Ok(Err(error)) => return Some(RunResult { error: Some(error.to_string()), ..result }),
            Err(error) => return Some(RunResult { error: Some(error.to_string()), ..result }),
        };
        let mut workspace = workspace;
        match self.measure(&job, &workspace, cancel).await {
            Ok((conversation, checks, judge)) => {
                let calls = conversation.calls.len();
                result.tool_calls = u64::try_from(calls).unwrap_or(u64::MAX);
                result.wrong_step = first_wrong_step(&conversation, &case.checks, &checks);
                result.tokens = conversation.tokens;
                result.cost = conversation.cost;
                let time = conversation.duration.as_millis();
                result.duration_ms = u64::try_from(time).unwrap_or(u64::MAX);
                if job.model.is_none()
                    && let Some(model) = conversation.model
                {
                    result.model = model;
                }
                result.session_id = conversation.session_id;
                result.error = conversation.error;
                result.pass = result.error.is_none() && checks.iter().all(|check| check.pass);
                result.checks = checks;
                result.judge = judge;
                let id = result.session_id.as_ref().filter(|_| !result.pass);
                result.devtools = id.map(|id| format!("parallax devtools {id}"));
            }
            Err(problem) => result.error = Some(problem),
        }
        let is_cancelled = cancel.is_cancelled() && result.error.as_deref() == Some(CANCELED);
        if self.retains_failed && !result.pass && !is_cancelled {
            workspace.persist();
            let note = format!("files: {}", workspace.path().display());
            let before = result.error.take().map(|error| format!("{error}; "));
            result.error = Some(before.unwrap_or_default() + &note);
        }
        // Removing a large project takes time.
        let _ = tokio::task::spawn_blocking(move || drop(workspace)).await;
        (!is_cancelled).then_some(result)
    }

    async fn measure(
        &self,
        job: &ScheduledRun,
        workspace: &CaseWorkspace,
        cancel: &CancellationToken,
    ) -> Result<(AgentRun, Vec<CheckResult>, Option<JudgeUse>), String> {
        let case = &job.case;
        tokio::select! {
            () = cancel.cancelled() => return Err(CANCELED.to_owned()),
            prepared = workspace.prepare(&case.setup) => prepared?,
        }
        let mut arguments = self.arguments(case, job.model.as_ref());
        let recorded = self.answers_of(workspace, "new-recording.jsonl", &case.recording())?;
        arguments.extend(recorded);
        let agent = AgentProcess {
            program: self.program.clone(),
            arguments,
            directory: workspace.path().to_owned(),
            timeout: case.limits.timeout.unwrap_or(LIMIT),
        };
        let conversation = agent.run_prompts(&case.prompts, cancel).await;
        if cancel.is_cancelled() {
            return Err(CANCELED.to_owned());
        }
        // A run that broke must not replace an earlier recording.
        if conversation.error.is_none() {
            self.store_recording(workspace, "new-recording.jsonl", &case.recording())?;
        }
        let outcome = CaseOutcome {
            case,
            program: &self.program,
            workspace: workspace.path(),
            conversation: &conversation,
        };
        let mut checks = tokio::select! {
            () = cancel.cancelled() => return Err(CANCELED.to_owned()),
            checks = outcome.check() => checks,
        };
        let mut used = None;
        if let Some(by) = &case.judge
            && conversation.error.is_none()
        {
            let changes = workspace.changes(&self.program).await;
            let model = by.model.as_ref().or(job.model.as_ref());
            let mut arguments = model_arguments(model);
            let stored = case.judge_recording_path();
            arguments.extend(self.answers_of(workspace, "new-judge.jsonl", &stored)?);
            let locations = (self.program.as_path(), workspace.outside_directory());
            let material = (&conversation, changes.as_str());
            let (found, output) = judge(by, case, material, locations, arguments, cancel).await;
            if cancel.is_cancelled() {
                return Err(CANCELED.to_owned());
            }
            self.store_recording(workspace, "new-judge.jsonl", &stored)?;
            used = Some(JudgeUse { tokens: output.tokens, cost: output.cost });
            checks.push(found);
        }
        Ok((conversation, checks, used))
    }

    fn arguments(&self, case: &Case, model: Option<&String>) -> Vec<String> {
        let mut arguments = model_arguments(model);
        arguments.extend(["--skip-trust", "--approval-mode", &case.approval_mode].map(Into::into));
        let limits = &case.limits;
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                arguments.extend([flag.to_owned(), value]);
            }
        };
        add("--max-turns", limits.max_turns.map(|it| it.to_string()));
        add("--max-cost", limits.max_cost.map(|it| it.to_string()));
        add("--max-tokens", limits.max_tokens.map(|it| it.to_string()));
        // The agent's option takes whole seconds.
        add("--timeout", limits.timeout.map(|it| format!("{}s", it.as_secs_f64().ceil())));
        arguments
    }

    /// Returns the arguments that select the source of responses.
    fn answers_of(
        &self,
        workspace: &CaseWorkspace,
        new: &str,
        stored: &Path,
    ) -> Result<Vec<String>, String> {
        let (flag, file) = match &self.answers {
            AnswerSource::Model => return Ok(Vec::new()),
            AnswerSource::Record => ("--record", workspace.outside_directory().join(new)),
            AnswerSource::Replay(other) => {
                let from = other.as_deref().unwrap_or(stored);
                let file =
                    recording::prepare(from, workspace.path(), workspace.outside_directory())
                        .map_err(|error| error.to_string())?;
                let flag = match self.allows_changed_requests {
                    true => "--replay-non-strict",
                    false => "--replay",
                };
                (flag, file)
            }
        };
        Ok(vec![flag.to_owned(), file.display().to_string()])
    }

    fn store_recording(
        &self,
        workspace: &CaseWorkspace,
        new: &str,
        stored: &Path,
    ) -> Result<(), String> {
        if self.answers != AnswerSource::Record {
            return Ok(());
        }
        recording::store(&workspace.outside_directory().join(new), workspace.path(), stored)
            .map_err(|error| error.to_string())
    }
}

fn model_arguments(model: Option<&String>) -> Vec<String> {
    let Some(model) = model else { return Vec::new() };
    // A script is relative to the user's working directory.
    let script = model.strip_prefix("script:").map(PathBuf::from).filter(|path| path.exists());
    let name = match script.and_then(|path| path.canonicalize().ok()) {
        Some(path) => format!("script:{}", path.display()),
        None => model.clone(),
    };
    vec![format!("--model={name}")]
}
