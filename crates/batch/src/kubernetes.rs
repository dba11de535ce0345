//! The Kubernetes executor: one Indexed Job, each of whose pods is `parallax batch run-task`.

mod collect;
mod job_status;
mod kubectl;
mod manifests;
mod network;
mod options;
mod record;
mod repository;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::directory::BatchDirectory;
use crate::error::BatchError;
use crate::plan::{Plan, PlannedTask, slug};
use crate::queue::{BatchOutcome, QueueEvent, QueueOptions};
use crate::result::TaskState;
use job_status::{JobStatus, MAX_INDEXES};
use kubectl::Kubectl;
use manifests::Manifests;
use record::{AttemptUsage, JobRecord, SubmittedJob};

pub use network::EgressRule;
pub use options::KubernetesOptions;

/// Minimum interval between polls of the cluster.
const POLL: Duration = Duration::from_secs(2);
/// Polls take at most this share of the time.
const POLL_SHARE: u32 = 5;
/// How long the cluster may be unreachable.
const SILENCE: Duration = Duration::from_secs(300);
/// How long stopped pods may take to end.
const DRAIN_TIME: Duration = Duration::from_secs(180);
/// Maximum number of characters of the plan's name in the job's name; pods get a longer name.
const NAME_LENGTH: usize = 30;

/// Why following a job ended.
enum FollowOutcome {
    /// The job ended.
    Ended,
    /// The job no longer exists.
    Missing,
    /// It was stopped; a later run submits the rest.
    Drained,
    /// The job is still running.
    StillRunning,
}

/// The context of a run.
struct KubernetesRun<'a, R> {
    kubectl: Kubectl,
    directory: &'a BatchDirectory,
    kubernetes: &'a KubernetesOptions,
    max_cost: Option<f64>,
    drain: &'a CancellationToken,
    detach: &'a CancellationToken,
    report: R,
    /// Cost of all results in US dollars.
    cost: f64,
    is_over_budget: bool,
    /// Why the job failed; safe to print.
    failure: Option<String>,
}

/// Submits the tasks of a plan that have no result yet, and follows them to the end. If an earlier
/// job still runs, it is followed instead. With `drain`, the job is stopped; with `detach`, it
/// keeps running.
///
/// # Errors
/// Returns an error if the plan cannot run in a cluster, or `kubectl` fails.
pub async fn run_kubernetes(
    directory: &BatchDirectory,
    plan: &Plan,
    options: &QueueOptions,
    kubernetes: &KubernetesOptions,
    (drain, detach): (&CancellationToken, &CancellationToken),
    mut report: impl FnMut(QueueEvent),
) -> Result<BatchOutcome, BatchError> {
    kubernetes.validate()?;
    let (read, record) = (plan.clone(), directory.clone());
    let tasks = blocking(move || {
        let tasks = repository::portable_tasks(&read)?;
        record.set_plan(&tasks)?;
        Ok(tasks)
    })
    .await?;
    let kubectl =
        Kubectl { context: kubernetes.context.clone(), namespace: kubernetes.namespace.clone() };
    let mut cost = 0.0;
    let mut waiting = BTreeSet::new();
    for task in &tasks {
        match directory.earlier_result(task, options.retry_failed) {
            Some(result) => {
                cost += result.cost;
                report(QueueEvent::Skipped(Box::new(result)));
            }
            None => {
                waiting.insert(task.id.clone());
            }
        }
    }
    let mut run = KubernetesRun {
        kubectl,
        directory,
        kubernetes,
        max_cost: options.max_cost,
        drain,
        detach,
        report,
        cost,
        is_over_budget: false,
        failure: None,
    };
    let mut followed = FollowOutcome::Ended;
    if !waiting.is_empty() && kubernetes.emit.is_none() {
        followed = run.follow_or_submit(plan, &tasks, &mut waiting).await?;
    } else if let Some(emit) = kubernetes.emit.clone() {
        run.emit(plan, &tasks, &waiting, emit).await?;
        followed = FollowOutcome::StillRunning;
    }
    if let Some(failure) = run.failure.take() {
        run.print_notice(format!(
            "The job failed, and {} tasks have no result: {failure}. Fix the cause and run the \
             same command again",
            waiting.len()
        ));
    } else if matches!(followed, FollowOutcome::Missing) && !waiting.is_empty() {
        run.print_notice(
            "The job no longer exists; run the same command again to run the remaining tasks"
                .to_owned(),
        );
    }
    let states = tasks.iter().map(|task| directory.task(&task.id).result_of(task));
    let all_succeeded =
        states.into_iter().all(|it| it.is_some_and(|it| it.state == TaskState::Succeeded));
    let drained = matches!(followed, FollowOutcome::Drained | FollowOutcome::StillRunning);
    Ok(BatchOutcome {
        budget_spent: run.is_over_budget && !waiting.is_empty(),
        was_drained: drained && !run.is_over_budget && !waiting.is_empty(),
        all_succeeded,
        cost: run.cost,
    })
}

/// Fetches the results of the newest job of a batch. Returns how many there are, and how many tasks
/// have none.
///
/// # Errors
/// Returns an error if nothing was submitted, or `kubectl` fails.
pub async fn collect_kubernetes(
    directory: &BatchDirectory,
    mut report: impl FnMut(QueueEvent),
) -> Result<(usize, usize), BatchError> {
    let read = directory.clone();
    let Some(job) = blocking(move || SubmittedJob::read(&read)).await? else {
        return Err(BatchError::Input(format!(
            "`{}` has no Kubernetes job; run `parallax batch PLAN --on kubernetes` first",
            directory.path().display()
        )));
    };
    let kubectl =
        Kubectl { context: job.record.context.clone(), namespace: job.record.namespace.clone() };
    let object = kubectl.get(&format!("job/{}", job.record.name)).await?;
    let status = object.as_ref().map(JobStatus::from_job).unwrap_or_default();
    let settled = status.finished_indexes();
    let has_result = |index: &usize| {
        job.tasks.get(*index).is_some_and(|task| directory.earlier_result(task, false).is_some())
    };
    let pending_indexes: BTreeSet<usize> =
        (0..job.tasks.len()).filter(|index| !has_result(index)).collect();
    let pending_indexes = match object {
        None => BTreeSet::new(),
        // Pods of other indexes have printed nothing yet.
        Some(_) if !status.has_ended => pending_indexes.intersection(&settled).copied().collect(),
        Some(_) => pending_indexes,
    };
    let found = collect::collect(&kubectl, directory, &job, &pending_indexes, &settled).await?;
    let count = found.len();
    for (_, result) in found {
        report(QueueEvent::Ended(Box::new(result)));
    }
    let missing = (0..job.tasks.len()).filter(|index| !has_result(index)).count();
    Ok((count, missing))
}

impl<R: FnMut(QueueEvent)> KubernetesRun<'_, R> {
    async fn follow_or_submit(
        &mut self,
        plan: &Plan,
        tasks: &[PlannedTask],
        waiting: &mut BTreeSet<String>,
    ) -> Result<FollowOutcome, BatchError> {
        let read = self.directory.clone();
        if let Some(job) = blocking(move || SubmittedJob::read(&read)).await? {
            let name = format!("job/{}", job.record.name);
            let earlier = Kubectl {
                context: job.record.context.clone(),
                namespace: job.record.namespace.clone(),
            };
            if let Some(object) = earlier.get(&name).await? {
                let status = JobStatus::from_job(&object);
                let has_ended = status.has_ended;
                self.print_notice(format!(
                    "Following the job {} of an earlier run",
                    job.record.name
                ));
                if status.is_suspended && self.kubernetes.queue.is_none() && !has_ended {
                    suspend(&earlier, &name, false).await?;
                }
                let current = std::mem::replace(&mut self.kubectl, earlier);
                // The results of an ended job were fetched already, and failed tasks wait to run
                // again.
                let collected =
                    if has_ended { self.collected_indexes(&job) } else { BTreeSet::new() };
                let followed = self.follow(&job, collected, waiting).await?;
                self.kubectl = current;
                let is_over = !has_ended || waiting.is_empty();
                if is_over || !matches!(followed, FollowOutcome::Ended) {
                    return Ok(followed);
                }
                // The rest needs a new job.
                self.failure = None;
            }
        }
        if self.is_over_budget() {
            self.is_over_budget = true;
            return Ok(FollowOutcome::Ended);
        }
        let (manifests, job) = self.prepare(plan, tasks, waiting)?;
        let (directory, folder) = (self.directory.clone(), record::folder(self.directory));
        let folder = folder.join(&job.record.name).join("manifests");
        let (job, manifests, folder) = blocking(move || {
            job.write(&directory)?;
            manifests::write(&manifests, &folder)?;
            Ok((job, manifests, folder))
        })
        .await?;
        self.apply(&job, manifests, folder).await?;
        self.print_notice(format!(
            "Submitted the job {} with {} tasks",
            job.record.name,
            job.tasks.len()
        ));
        self.follow(&job, BTreeSet::new(), waiting).await
    }

    /// Returns the objects for the tasks that wait.
    fn prepare(
        &self,
        plan: &Plan,
        tasks: &[PlannedTask],
        waiting: &BTreeSet<String>,
    ) -> Result<(Manifests, SubmittedJob), BatchError> {
        let stem = plan.file.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        let stem = slug(&stem).replace(['.', '_'], "-");
        let stem: String = stem.chars().take(NAME_LENGTH).collect();
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("parallax-{stem}-{}", id.get(..6).unwrap_or_default());
        let name = name.replace("--", "-");
        let tasks: Vec<PlannedTask> =
            tasks.iter().filter(|task| waiting.contains(&task.id)).cloned().collect();
        if tasks.len() > MAX_INDEXES {
            return Err(BatchError::Input(format!(
                "A Kubernetes job can have at most {MAX_INDEXES} tasks; split the plan"
            )));
        }
        let results = self.results_name(&stem);
        let manifests =
            manifests::manifests(&name, &results, &tasks, self.max_cost, self.kubernetes)?;
        let mut previous_attempts = BTreeMap::new();
        for task in &tasks {
            if let Some(result) = self.directory.task(&task.id).result_of(task)
                && result.state == TaskState::Cancelled
            {
                let usage = AttemptUsage {
                    cost: result.cost,
                    tokens: result.tokens,
                    attempts: result.attempts,
                };
                previous_attempts.insert(task.id.clone(), usage);
            }
        }
        let record = JobRecord {
            name,
            context: self.kubernetes.context.clone(),
            namespace: self.kubernetes.namespace.clone(),
            previous_attempts,
        };
        Ok((manifests, SubmittedJob { record, tasks }))
    }

    /// Returns the directory of the batch on the claim, the same for all of its jobs.
    fn results_name(&self, stem: &str) -> String {
        use sha2::Digest as _;
        let path = self.directory.path().as_os_str().as_encoded_bytes();
        let hash = crate::plan::hex(&sha2::Sha256::digest(path));
        format!("{stem}-{}", hash.get(..8).unwrap_or_default())
    }

    async fn emit(
        &mut self,
        plan: &Plan,
        tasks: &[PlannedTask],
        waiting: &BTreeSet<String>,
        to: PathBuf,
    ) -> Result<(), BatchError> {
        if waiting.is_empty() {
            return Err(BatchError::Input(
                "All tasks have a result; there is nothing to write".to_owned(),
            ));
        }
        let has_budget = self.max_cost.is_some() && self.kubernetes.results_claim.is_none();
        if has_budget {
            return Err(BatchError::Input(
                "With `--emit`, nothing would enforce `--max-cost`; use `--results-claim`, or \
                 `max_cost` in the plan"
                    .to_owned(),
            ));
        }
        let (manifests, job) = self.prepare(plan, tasks, waiting)?;
        let directory = self.directory.clone();
        blocking(move || {
            manifests::write(&manifests, &to)?;
            job.write(&directory)
        })
        .await
    }

    /// Applies the objects, then makes the job their owner, so that they are deleted with it.
    async fn apply(
        &self,
        job: &SubmittedJob,
        mut manifests: Manifests,
        directory: PathBuf,
    ) -> Result<(), BatchError> {
        let path = directory.to_string_lossy().into_owned();
        let words = ["apply", "--server-side", "--field-manager=parallax", "--filename", &path];
        self.kubectl.run(&words).await?;
        let Some(object) = self.kubectl.get(&format!("job/{}", job.record.name)).await? else {
            return Err(BatchError::Input(format!(
                "The job `{}` disappeared right after it was created",
                job.record.name
            )));
        };
        manifests::set_owner(&mut manifests.supports, &object);
        let to = directory.join("owned");
        let supports = Manifests { supports: manifests.supports, job: serde_json::Value::Null };
        let path = to.to_string_lossy().into_owned();
        blocking(move || manifests::write(&supports, &to)).await?;
        let words = ["apply", "--server-side", "--field-manager=parallax", "--filename", &path];
        self.kubectl.run(&words).await.map(drop)
    }

    /// Returns the indexes of a job whose results are in the directory.
    fn collected_indexes(&self, job: &SubmittedJob) -> BTreeSet<usize> {
        let tasks = job.tasks.iter().enumerate();
        tasks
            .filter(|(_, task)| self.directory.earlier_result(task, false).is_some())
            .map(|(index, _)| index)
            .collect()
    }

    /// Follows a job until its end, and removes the tasks that get a result from `waiting`.
    async fn follow(
        &mut self,
        job: &SubmittedJob,
        mut collected: BTreeSet<usize>,
        waiting: &mut BTreeSet<String>,
    ) -> Result<FollowOutcome, BatchError> {
        let name = format!("job/{}", job.record.name);
        let mut running = BTreeSet::new();
        let mut answered = Instant::now();
        let mut is_silent = false;
        let mut stopped: Option<Instant> = None;
        loop {
            let started_at = Instant::now();
            let polled = self.poll(job, &name, &mut collected, &mut running, waiting).await;
            let status = match polled {
                Ok(status) => {
                    (answered, is_silent) = (Instant::now(), false);
                    status
                }
                Err(error) if answered.elapsed() > SILENCE => return Err(error),
                // The cluster may be busy, or the network gone for a while.
                Err(error) => {
                    if !std::mem::replace(&mut is_silent, true) {
                        self.print_notice(format!("{error}. Retrying; the job keeps running"));
                    }
                    Some(JobStatus { active: 1, ..JobStatus::default() })
                }
            };
            let Some(status) = status else { return Ok(FollowOutcome::Missing) };
            if status.has_ended {
                self.failure = status.failure.filter(|_| !waiting.is_empty());
                return Ok(FollowOutcome::Ended);
            }
            let is_late = stopped.is_some_and(|since| since.elapsed() > DRAIN_TIME);
            if stopped.is_some() && (status.active == 0 || is_late) {
                self.collect_unsettled(job, &status, &mut collected, waiting).await?;
                self.kubectl.run(&["delete", &name, "--ignore-not-found", "--wait=false"]).await?;
                return Ok(FollowOutcome::Drained);
            }
            if stopped.is_none() && (self.drain.is_cancelled() || self.is_over_budget()) {
                self.is_over_budget = !self.drain.is_cancelled();
                self.stop(&name).await?;
                stopped = Some(Instant::now());
            }
            let pause = POLL.max(started_at.elapsed() * POLL_SHARE);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.detach.cancelled() => return Ok(FollowOutcome::StillRunning),
                () = self.drain.cancelled(), if stopped.is_none() => {}
            }
        }
    }

    /// Polls the job once. Returns `None` if it is gone.
    async fn poll(
        &mut self,
        job: &SubmittedJob,
        name: &str,
        collected: &mut BTreeSet<usize>,
        running: &mut BTreeSet<usize>,
        waiting: &mut BTreeSet<String>,
    ) -> Result<Option<JobStatus>, BatchError> {
        let Some(object) = self.kubectl.get(name).await? else { return Ok(None) };
        let status = JobStatus::from_job(&object);
        let settled = status.finished_indexes();
        let new = settled.difference(collected).copied().collect();
        self.collect_results(job, &new, &settled, collected, waiting).await?;
        if status.has_ended {
            self.collect_unsettled(job, &status, collected, waiting).await?;
            return Ok(Some(status));
        }
        let selector = format!("{}={}", collect::JOB_LABEL, job.record.name);
        let words = ["get", "pods", "--selector", &selector];
        let phase = ["--field-selector=status.phase=Running", "--output=name"];
        let text = self.kubectl.run(&[words.as_slice(), &phase].concat()).await?;
        for pod in text.lines().filter_map(|line| line.strip_prefix("pod/")) {
            let index = collect::index_of(&job.record.name, pod);
            if let Some(index) = index.filter(|index| !collected.contains(index))
                && running.insert(index)
                && let Some(task) = job.tasks.get(index)
            {
                (self.report)(QueueEvent::Started(task.id.clone()));
            }
        }
        Ok(Some(status))
    }

    /// Collects the output of pods whose index never settled.
    async fn collect_unsettled(
        &mut self,
        job: &SubmittedJob,
        status: &JobStatus,
        collected: &mut BTreeSet<usize>,
        waiting: &mut BTreeSet<String>,
    ) -> Result<(), BatchError> {
        let selector = format!("{}={}", collect::JOB_LABEL, job.record.name);
        let words = ["get", "pods", "--selector", &selector, "--output=name"];
        let text = self.kubectl.run(&words).await?;
        let pods = text.lines().filter_map(|line| line.strip_prefix("pod/"));
        let indexes = pods.filter_map(|pod| collect::index_of(&job.record.name, pod));
        let left = indexes.filter(|index| !collected.contains(index)).collect();
        self.collect_results(job, &left, &status.finished_indexes(), collected, waiting).await
    }

    /// Fetches the results of these indexes.
    async fn collect_results(
        &mut self,
        job: &SubmittedJob,
        indexes: &BTreeSet<usize>,
        settled: &BTreeSet<usize>,
        collected: &mut BTreeSet<usize>,
        waiting: &mut BTreeSet<String>,
    ) -> Result<(), BatchError> {
        let missing = indexes
            .iter()
            .copied()
            .filter(|index| job.tasks.get(*index).is_some_and(|task| waiting.contains(&task.id)));
        let missing: BTreeSet<usize> = missing.collect();
        let found = collect::collect(&self.kubectl, self.directory, job, &missing, settled).await?;
        for (_, result) in found {
            self.cost += result.cost;
            if result.state != TaskState::Cancelled {
                waiting.remove(&result.id);
                (self.report)(QueueEvent::Ended(Box::new(result)));
            }
        }
        collected.extend(indexes.iter().copied().filter(|index| settled.contains(index)));
        Ok(())
    }

    /// Stops the pods so that their logs stay where that is possible.
    async fn stop(&self, name: &str) -> Result<(), BatchError> {
        match self.kubernetes.queue {
            // Kueue would start it again.
            Some(_) => {
                let words = ["delete", name, "--ignore-not-found", "--wait=false"];
                self.kubectl.run(&words).await.map(drop)
            }
            None => suspend(&self.kubectl, name, true).await,
        }
    }

    fn print_notice(&mut self, text: String) {
        (self.report)(QueueEvent::Notice(text));
    }

    fn is_over_budget(&self) -> bool {
        self.max_cost.is_some_and(|limit| self.cost >= limit - 1e-9)
    }
}

async fn suspend(kubectl: &Kubectl, name: &str, suspended: bool) -> Result<(), BatchError> {
    let patch = format!(r#"{{"spec":{{"suspend":{suspended}}}}}"#);
    kubectl.run(&["patch", name, "--type=merge", "--patch", &patch]).await.map(drop)
}
