//! `parallax batch --on kubernetes` and `parallax batch collect`.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use parallax_batch::{
    BatchDirectory, KubernetesOptions, Plan, QueueEvent, Summary, collect_kubernetes,
};
use parallax_headless::ExitCode;
use parallax_models::Providers;
use parallax_protocol::event::Failure;

use crate::batch_arguments::RunArguments;
use crate::batch_failure::{failure, input_failure, print_line, run_blocking};

/// Maximum number of concurrent pods.
const JOBS: usize = 10;
/// The host of models without a provider.
const GEMINI_HOST: &str = "generativelanguage.googleapis.com";

/// Returns the options of a run.
///
/// # Errors
/// Returns an error if there is no image.
pub(crate) fn options(plan: &Plan, run: &RunArguments) -> Result<KubernetesOptions, Failure> {
    let typed = &run.kubernetes;
    let Some(image) = typed.image.clone() else {
        return Err(input_failure(
            "`--on kubernetes` requires `--image`, an image with `parallax` and `git`".to_owned(),
        ));
    };
    let names: BTreeSet<&String> = plan.tasks.iter().flat_map(|task| &task.env).collect();
    if let Some(name) = names.first()
        && typed.secret.is_none()
    {
        return Err(input_failure(format!(
            "The plan passes the variable `{name}` to tasks: name the Secret that contains it with `--secret`"
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

/// Returns the hosts of the models of a plan, where their providers are built in.
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
/// Returns an error if nothing was submitted, or `kubectl` fails.
pub(crate) async fn collect(dir: PathBuf) -> Result<ExitCode, Failure> {
    let opened = dir.clone();
    let (directory, _lock) = run_blocking(move || {
        let directory = BatchDirectory::open(&opened)?;
        let lock = directory.lock()?;
        Ok((directory, lock))
    })
    .await?;
    let on_event = |event: QueueEvent| {
        if let QueueEvent::Ended(result) = event {
            print_line(&format!("{}: {}", result.id, result.state.as_str()));
        }
    };
    let collected = collect_kubernetes(&directory, on_event).await;
    let (found, missing) = collected.map_err(|error| failure(&error))?;
    run_blocking(move || Summary::read(&directory)?.write(&directory)).await?;
    print_line(&format!("Collected {found} results; {missing} tasks have none yet"));
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::GENERAL })
}
