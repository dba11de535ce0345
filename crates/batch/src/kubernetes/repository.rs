//! Repositories as a pod can clone them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::BatchError;
use crate::plan::{Plan, PlannedTask, Repository, is_url};

/// How long git may take.
const GIT_TIME: Duration = Duration::from_secs(30);
/// Maximum number of bytes that git may print.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// Where a repository is cloned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitHost {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// Returns the tasks of a plan with directories replaced by the URLs of their remotes `origin`.
/// Blocking.
pub(crate) fn portable_tasks(plan: &Plan) -> Result<Vec<PlannedTask>, BatchError> {
    let mut known: BTreeMap<PathBuf, (String, String)> = BTreeMap::new();
    let mut tasks = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let invalid = |message: String| BatchError::Plan {
            file: plan.file.clone(),
            message: format!("task `{}`: {message}", task.id),
        };
        let mut task = task.clone();
        if let Repository::Directory(directory) = &task.repository {
            let found = match known.get(directory) {
                Some(found) => found.clone(),
                None => origin(directory).map_err(invalid)?,
            };
            known.insert(directory.clone(), found.clone());
            let (url, branch) = found;
            task.reference = task.reference.or(Some(branch));
            task.repository = Repository::Url(url);
        }
        git_host(&task).map_err(invalid)?;
        tasks.push(task);
    }
    Ok(tasks)
}

/// Returns the host of a task's repository.
pub(crate) fn git_host(task: &PlannedTask) -> Result<GitHost, String> {
    let Repository::Url(url) = &task.repository else {
        return Err("the repository must be a URL".to_owned());
    };
    if url.chars().any(|char| char.is_control() || char.is_whitespace()) {
        return Err("the repository URL contains a space or control character".to_owned());
    }
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme, rest.split('/').next().unwrap_or_default()),
        // As in `git@host:path`.
        None => ("ssh", url.split(':').next().unwrap_or_default()),
    };
    let (user, host) = match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, rest),
    };
    let port = match scheme {
        "https" => 443,
        "http" => 80,
        "ssh" => 22,
        "git" => 9418,
        _ => return Err(format!("a pod cannot clone from `{scheme}://`")),
    };
    let has_secret = user.is_some_and(|user| scheme != "ssh" || user.contains(':'));
    if has_secret {
        return Err(
            "the repository URL contains a password or token, which everyone who can read \
                    the job would see; remove it, and use `--git-secret`"
                .to_owned(),
        );
    }
    let (name, port) = match host.rsplit_once(':') {
        // Not the colons within an IPv6 address.
        Some((name, number)) if !number.ends_with(']') => {
            (name, number.parse().map_err(|_| format!("`{host}` is not a valid host"))?)
        }
        _ => (host, port),
    };
    if name.is_empty() {
        return Err("the repository URL has no host".to_owned());
    }
    Ok(GitHost { name: name.to_owned(), port })
}

/// Returns the address of `origin`, and the branch of the checkout, which must exist there.
fn origin(directory: &Path) -> Result<(String, String), String> {
    let display_path = directory.display();
    let line = |arguments: &[&str]| {
        let bytes = parallax_exec::program::output(
            "git",
            arguments,
            directory,
            &[],
            MAX_OUTPUT_BYTES,
            GIT_TIME,
        )?;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.trim_end_matches('\n').to_owned())
    };
    let url = line(&["remote", "get-url", "origin"]).filter(|url| is_url(url)).ok_or_else(|| {
        format!(
            "pods cannot read `{display_path}`, and it has no remote `origin` with a URL; name the URL \
             in `repo`"
        )
    })?;
    let branch = line(&["symbolic-ref", "--quiet", "--short", "HEAD"]).ok_or_else(|| {
        format!("`{display_path}` has no branch checked out; specify one in `ref`")
    })?;
    let remote = format!("refs/remotes/origin/{branch}");
    let is_pushed = line(&["merge-base", "--is-ancestor", "HEAD", &remote]).is_some();
    if !is_pushed {
        return Err(format!(
            "the branch `{branch}` of `{display_path}` is not pushed to `origin`, where pods clone it; \
             push it"
        ));
    }
    Ok((url, branch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_hosts_are_found_and_secrets_rejected() {
        let host = |url: &str| {
            let plan = format!(r#"{{"id": "a", "prompt": "b", "repo": "{url}"}}"#);
            let directory = tempfile::tempdir().expect("a directory");
            let file = directory.path().join("plan.jsonl");
            std::fs::write(&file, plan).expect("a plan");
            let plan = Plan::load(&file).expect("a plan");
            git_host(plan.tasks.first().expect("a task")).map(|host| (host.name, host.port))
        };
        let found = |name: &str, port| Ok((name.to_owned(), port));
        assert_eq!(host("https://git.example/a/b.git"), found("git.example", 443));
        assert_eq!(host("https://git.example:8443/a"), found("git.example", 8443));
        assert_eq!(host("ssh://git@git.example/a"), found("git.example", 22));
        assert_eq!(host("git@git.example:a/b"), found("git.example", 22));
        assert_eq!(host("https://[2001:db8::1]/a"), found("[2001:db8::1]", 443));
        for invalid in [
            "https://token@git.example/a",
            "https://u:p@git.example/a",
            "file:///a",
            "ssh://u:p@git.example/a",
            "https:///a",
            "https://git.example:x/a",
        ] {
            assert!(host(invalid).is_err(), "{invalid}");
        }
    }
}
