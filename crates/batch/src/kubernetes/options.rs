//! The options of a run on Kubernetes, and which values are valid.

use std::path::PathBuf;

use crate::error::BatchError;
use crate::kubernetes::network::EgressRule;

/// How the job is submitted.
#[derive(Debug, Clone)]
pub struct KubernetesOptions {
    /// The context of `kubectl`; `None`: the current one.
    pub context: Option<String>,
    /// The namespace; `None`: that of the context.
    pub namespace: Option<String>,
    /// The image of the pods.
    pub image: String,
    /// The Secret that pulls it.
    pub image_pull_secret: Option<String>,
    /// The Secret whose entries become environment variables of the tasks.
    pub secret: Option<String>,
    /// The Secret for cloning repositories.
    pub git_secret: Option<String>,
    /// The Kueue local queue.
    pub queue: Option<String>,
    /// The PersistentVolumeClaim for results; `None`: they are only in the logs of the pods.
    pub results_claim: Option<String>,
    /// What pods may connect to; empty: public addresses.
    pub egress: Vec<EgressRule>,
    /// Hosts of models, for the annotation that says what pods connect to.
    pub model_hosts: Vec<String>,
    /// Arguments of every task.
    pub arguments: Vec<String>,
    /// Maximum number of concurrent pods.
    pub jobs: usize,
    /// Number of retries for a failed task.
    pub retries: u32,
    /// Number of failed tasks after which the job ends; `None`: no limit.
    pub max_failed: Option<u32>,
    /// Seconds after which the job ends.
    pub deadline: u64,
    /// Memory limit of a pod in bytes.
    pub memory: Option<u64>,
    /// Processors of a pod, as Kubernetes writes them.
    pub cpus: Option<String>,
    /// Where manifests are written, instead of being applied.
    pub emit: Option<PathBuf>,
}

impl KubernetesOptions {
    /// Checks what becomes part of a manifest or a command.
    ///
    /// # Errors
    /// Returns an error if Kubernetes would reject a value.
    pub(crate) fn validate(&self) -> Result<(), BatchError> {
        let names = [
            ("--image-pull-secret", &self.image_pull_secret),
            ("--secret", &self.secret),
            ("--git-secret", &self.git_secret),
            ("--results-claim", &self.results_claim),
        ];
        for (option, name) in names {
            check(option, name.as_deref(), |name| is_name(name, 253))?;
        }
        check("--namespace", self.namespace.as_deref(), |name| {
            is_name(name, 63) && !name.contains('.')
        })?;
        // The name becomes a label.
        check("--queue", self.queue.as_deref(), |name| is_name(name, 63))?;
        check("--image", Some(&self.image), is_image)?;
        check("--cpus", self.cpus.as_deref(), is_quantity)?;
        check("--context", self.context.as_deref(), |name| {
            !name.is_empty() && !name.chars().any(char::is_control)
        })
    }
}

fn check(
    option: &str,
    value: Option<&str>,
    is_valid: impl FnOnce(&str) -> bool,
) -> Result<(), BatchError> {
    match value {
        Some(value) if !is_valid(value) => {
            let value = parallax_protocol::excerpt::one_line(value);
            Err(BatchError::Input(format!("`{option}`: `{value}` is not valid in Kubernetes")))
        }
        _ => Ok(()),
    }
}

/// Whether it is a name of an object: lowercase letters, digits, `-`, and `.`.
fn is_name(name: &str, longest: usize) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    name.len() <= longest && name.split('.').all(is_part)
}

fn is_image(image: &str) -> bool {
    let is_allowed = |char: char| {
        char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_' | '/' | ':' | '@' | '+')
    };
    let starts = image.starts_with(|char: char| char.is_ascii_alphanumeric());
    starts && image.len() <= 1000 && image.chars().all(is_allowed)
}

/// Whether it is a number of processors: `2`, `0.5`, or `500m`.
fn is_quantity(text: &str) -> bool {
    let number = text.strip_suffix('m').unwrap_or(text);
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain && number.parse::<f64>().is_ok_and(|number| number > 0.0 && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_kubernetes_names_are_rejected() {
        let good = ["a", "keys", "my-keys.v2", "0"];
        assert!(good.iter().all(|name| is_name(name, 63)), "{good:?}");
        let bad = ["", "A", "a_b", "-a", "a-", "a..b", "a\nb", "a b", "a\"", "$(x)"];
        assert!(!bad.iter().any(|name| is_name(name, 63)), "{bad:?}");
        assert!(is_image("registry.example:5000/team/parallax@sha256:0abc"));
        assert!(!["", "-x", "a b", "a\n", "a'"].iter().any(|image| is_image(image)));
        assert!(["2", "0.5", "500m"].iter().all(|text| is_quantity(text)));
        assert!(!["", "0", "-1", "1e3", "x", "1mm"].iter().any(|text| is_quantity(text)));
    }
}
