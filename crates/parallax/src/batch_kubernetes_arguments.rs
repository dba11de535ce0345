//! The options of `parallax batch --on kubernetes`.

use std::path::PathBuf;

use clap::Args;
use parallax_batch::{EgressRule, seconds_of};

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

    /// Kueue local queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,

    /// Write the manifests to this directory without applying them
    #[arg(long, value_name = "DIR")]
    pub(crate) emit: Option<PathBuf>,

    /// PersistentVolumeClaim for all results
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

    /// Time limit for the job [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    pub(crate) deadline: Option<u64>,
}

impl KubernetesArguments {
    /// Returns the first option that was used.
    pub(crate) fn first_used_option(&self) -> Option<&'static str> {
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

/// Parses a duration as whole seconds.
fn deadline(text: &str) -> Result<u64, String> {
    let seconds = seconds_of(text).filter(|seconds| *seconds >= 1.0 && *seconds < 1e9);
    let seconds = seconds.and_then(|seconds| format!("{seconds:.0}").parse().ok());
    seconds.ok_or_else(|| "expected a duration such as 90, `10m`, or `24h`".to_owned())
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
