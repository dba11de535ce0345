//! The options of `parallax batch --on kubernetes`.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use parallax_batch::{
    BatchDirectory, EgressRule, KubernetesOptions, Plan, QueueEvent, Summary, collect_kubernetes,
    seconds_of,
};
use parallax_headless::ExitCode;
use parallax_models::Providers;
use parallax_protocol::event::Failure;

use crate::batch_arguments::RunArguments;
use crate::batch_command::{blocking, failure, input, say};

/// Pods at a time.
const JOBS: usize = 10;
/// Where the models are that no provider has.
const GEMINI_HOST: &str = "generativelanguage.googleapis.com";

/// Options for `--on kubernetes`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct KubernetesArguments {
    /// Image of the pods, with `parallax` and `git`
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// Secret whose entries become environment variables of the tasks, such as `GEMINI_API_KEY`
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Option<String>,

    /// Secret for cloning repositories (basic-auth or ssh-auth)
    #[arg(long, value_name = "NAME")]
    pub(crate) git_secret: Option<String>,

    /// Secret for pulling the image
    #[arg(long, value_name = "NAME")]
    pub(crate) image_pull_secret: Option<String>,

    /// Namespace [default: that of the context]
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Context of kubectl [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Local queue of Kueue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,

    /// Write the manifests into this directory, and apply nothing
    #[arg(long, value_name = "DIR")]
    pub(crate) emit: Option<PathBuf>,

    /// PersistentVolumeClaim that keeps all results
    #[arg(long, value_name = "NAME")]
    pub(crate) results_claim: Option<String>,

    /// Addresses that pods may connect to, as CIDR or CIDR:PORT; can be repeated [default: public
    /// addresses]
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) allow_egress: Vec<EgressRule>,

    /// Number of retries of a failed task [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,

    /// End the job when more than this many tasks have failed
    #[arg(long, value_name = "N")]
    pub(crate) max_failed: Option<u32>,

    /// Processors of a pod, such as `2` or `500m`
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,

    /// How long the job may take [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    pub(crate) deadline: Option<u64>,
}

impl KubernetesArguments {
    /// The first option that was used.
    pub(crate) fn used(&self) -> Option<&'static str> {
        let used = [
            ("--image", self.image.is_some()),
            ("--secret", self.secret.is_some()),
            ("--git-secret", self.git_secret.is_some()),
            ("--image-pull-secret", self.image_pull_secret.is_some()),
            ("--namespace", self.namespace.is_some()),
            ("--context", self.context.is_some()),
            ("--queue", self.queue.is_some()),
            ("--emit", self.emit.is_some()),
            ("--results-claim", self.results_claim.is_some()),
            ("--allow-egress", !self.allow_egress.is_empty()),
            ("--retries", self.retries.is_some()),
            ("--max-failed", self.max_failed.is_some()),
            ("--cpus", self.cpus.is_some()),
            ("--deadline", self.deadline.is_some()),
        ];
        used.into_iter().find(|(_, is_used)| *is_used).map(|(option, _)| option)
    }
}

/// Whole seconds.
fn deadline(text: &str) -> Result<u64, String> {
    let seconds = seconds_of(text).filter(|seconds| *seconds >= 1.0 && *seconds < 1e9);
    let seconds = seconds.and_then(|seconds| format!("{seconds:.0}").parse().ok());
    seconds.ok_or_else(|| "expected a duration such as 90, `10m`, or `24h`".to_owned())
}

/// The options of a run.
///
/// # Errors
/// When there is no image.
pub(crate) fn options(plan: &Plan, run: &RunArguments) -> Result<KubernetesOptions, Failure> {
    let typed = &run.kubernetes;
    let Some(image) = typed.image.clone() else {
        return Err(input(
            "`--on kubernetes` requires `--image`, an image with `parallax` and `git`".to_owned(),
        ));
    };
    let names: BTreeSet<&String> = plan.tasks.iter().flat_map(|task| &task.env).collect();
    if let Some(name) = names.first()
        && typed.secret.is_none()
    {
        return Err(input(format!(
            "The plan passes the variable `{name}` on; name the Secret that has it with `--secret`"
        )));
    }
    Ok(KubernetesOptions {
        context: typed.context.clone(),
        namespace: typed.namespace.clone(),
        image,
        image_pull_secret: typed.image_pull_secret.clone(),
        secret: typed.secret.clone(),
        git_secret: typed.git_secret.clone(),
        queue: typed.queue.clone(),
        results_claim: typed.results_claim.clone(),
        egress: typed.allow_egress.clone(),
        model_hosts: model_hosts(plan),
        arguments: if run.task.skip_trust { vec!["--skip-trust".to_owned()] } else { Vec::new() },
        jobs: run.jobs.map_or(JOBS, NonZeroUsize::get),
        retries: typed.retries.unwrap_or(1),
        max_failed: typed.max_failed,
        deadline: typed.deadline.unwrap_or(24 * 60 * 60),
        memory: run.task.memory.map(std::num::NonZeroU64::get),
        cpus: typed.cpus.clone(),
        emit: typed.emit.clone(),
    })
}

/// The hosts of the models of a plan, where their providers are built in.
fn model_hosts(plan: &Plan) -> Vec<String> {
    let providers = Providers::built_in(&|_| None);
    let host = |model: Option<&str>| {
        let provider = model.and_then(|model| providers.split(model));
        let url = provider.map(|(provider, _)| provider.base_url.as_str());
        let rest = url.map(|url| url.split_once("://").map_or(url, |(_, rest)| rest));
        let host = rest.and_then(|rest| rest.split(['/', ':']).next());
        host.unwrap_or(GEMINI_HOST).to_owned()
    };
    let hosts: BTreeSet<String> =
        plan.tasks.iter().map(|task| host(task.model.as_deref())).collect();
    hosts.into_iter().collect()
}

/// `parallax batch collect`.
///
/// # Errors
/// When nothing was submitted, or `kubectl` fails.
pub(crate) async fn collect(dir: PathBuf) -> Result<ExitCode, Failure> {
    let opened = dir.clone();
    let (directory, _lock) = blocking(move || {
        let directory = BatchDirectory::open(&opened)?;
        let lock = directory.lock()?;
        Ok((directory, lock))
    })
    .await?;
    let report = |event: QueueEvent| {
        if let QueueEvent::Ended(result) = event {
            say(&format!("{}: {}", result.id, result.state.as_str()));
        }
    };
    let collected = collect_kubernetes(&directory, report).await;
    let (found, missing) = collected.map_err(|error| failure(&error))?;
    blocking(move || Summary::read(&directory).write(&directory)).await?;
    say(&format!("Collected {found} results; {missing} tasks have none yet"));
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::GENERAL })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_whole_seconds() {
        assert_eq!(deadline("24h"), Ok(86_400));
        assert_eq!(deadline("90"), Ok(90));
        assert!(["", "0", "x", "1e99"].iter().all(|text| deadline(text).is_err()));
    }
}
