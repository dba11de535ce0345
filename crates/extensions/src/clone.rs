//! Clones Git repositories without running anything from them: no hooks, templates, filters,
//! submodules, or remote helpers.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parallax_exec::program::output;
use parallax_exec::shell::quote_word;
use parallax_exec::{PipedCommand, ProcessExit, Processes};
use parallax_protocol::CancellationToken;

/// Timeout of a clone.
const TIME: Duration = Duration::from_secs(180);
/// Timeout of looking up a commit.
const LOOK: Duration = Duration::from_secs(30);
/// Maximum bytes of git's output.
const MAX_OUTPUT: u64 = 4 * 1024 * 1024;

/// Options that prevent git from starting other programs.
const HARMLESS: [&str; 12] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "init.templateDir=",
    "-c",
    "submodule.recurse=false",
    "-c",
    "fetch.recurseSubmodules=no",
];

/// How git runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct GitOptions<'a> {
    /// Sent to GitHub.
    pub(crate) token: Option<&'a str>,
    /// Ends git and everything it started. Such a git has no terminal, so it cannot ask for a
    /// passphrase.
    pub(crate) cancel: Option<&'a CancellationToken>,
    /// The environment variables of the process.
    pub(crate) variables: &'a [(OsString, OsString)],
}

/// Returns whether a string is a Git URL.
pub(crate) fn is_git_address(source: &str) -> bool {
    let schemes = ["https://", "http://", "ssh://", "git://", "file://", "git@"];
    schemes.iter().any(|scheme| source.starts_with(scheme))
}

/// Clones a repository into the subdirectory `repository` of `directory`, at its newest commit or
/// at `reference` (a branch, tag, or commit). Returns the commit. Blocking.
///
/// # Errors
/// Returns why the clone failed, in one sentence.
pub(crate) fn clone(
    address: &str,
    reference: Option<&str>,
    directory: &Path,
    options: GitOptions<'_>,
) -> Result<String, String> {
    let repository = directory.join("repository");
    std::fs::create_dir_all(&repository).map_err(|error| error.to_string())?;
    let git =
        |arguments: &[&str], time: Duration| run(arguments, &repository, address, options, time);
    let failed =
        |what: &str| format!("{what} of `{address}` failed: run `git clone {address}` to see why");
    git(&["init", "--quiet"], LOOK)
        .ok_or("failed to start git: check that it is installed and on `PATH`")?;
    let requested = reference.unwrap_or("HEAD");
    git(&["fetch", "--quiet", "--depth", "1", "--no-tags", "--", address, requested], TIME)
        .ok_or_else(|| match reference {
            Some(reference) => failed(&format!("the fetch of `{reference}`")),
            None => failed("the fetch"),
        })?;
    git(&["checkout", "--quiet", "--detach", "FETCH_HEAD"], TIME)
        .ok_or_else(|| failed("the checkout"))?;
    let commit = git(&["rev-parse", "HEAD"], LOOK).ok_or_else(|| failed("the checkout"))?;
    Ok(String::from_utf8_lossy(&commit).trim().to_owned())
}

/// Returns the current commit of `reference` or of the default branch. Blocking.
///
/// # Errors
/// Returns why it could not be looked up.
pub(crate) fn remote_commit(
    address: &str,
    reference: Option<&str>,
    options: GitOptions<'_>,
) -> Result<String, String> {
    let requested = reference.unwrap_or("HEAD");
    // A commit id needs no lookup.
    if requested.len() == 40 && requested.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(requested.to_owned());
    }
    let here = std::env::temp_dir();
    let output =
        run(&["ls-remote", "--quiet", "--", address, requested], &here, address, options, LOOK)
            .ok_or_else(|| {
                format!(
                    "failed to query `{address}`: run `git ls-remote {address}` to \
                see why"
                )
            })?;
    let output = String::from_utf8_lossy(&output).into_owned();
    // An annotated tag is listed twice; the line with `^{}` has its commit.
    let peeled = output.lines().find(|line| line.ends_with("^{}"));
    let line = peeled.or_else(|| output.lines().next()).unwrap_or_default();
    let commit = line.split_whitespace().next().unwrap_or_default();
    match commit.is_empty() {
        true => Err(format!("`{address}` has no `{requested}`")),
        false => Ok(commit.to_owned()),
    }
}

fn run(
    arguments: &[&str],
    directory: &Path,
    address: &str,
    options: GitOptions<'_>,
    time: Duration,
) -> Option<Vec<u8>> {
    let mut variables = vec![
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file"),
        ("GCM_INTERACTIVE", "never"),
    ];
    // Passed as an environment variable, so that process lists do not show it.
    let header = options
        .token
        .filter(|_| address.starts_with("https://github.com/"))
        .map(|token| BASE64_STANDARD.encode(format!("x-access-token:{token}")))
        .map(|secret| format!("Authorization: Basic {secret}"));
    if let Some(header) = &header {
        variables.extend([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "http.https://github.com/.extraheader"),
            ("GIT_CONFIG_VALUE_0", header.as_str()),
        ]);
    }
    let all = HARMLESS.iter().chain(arguments);
    match options.cancel {
        None => output("git", all, directory, &variables, MAX_OUTPUT, time),
        Some(cancel) => {
            let words: Vec<String> = all.map(|word| quote_word(word)).collect();
            let added = variables.iter().map(|(name, value)| (name.into(), value.into()));
            let command = PipedCommand {
                text: format!("exec git {}", words.join(" ")),
                directory: directory.to_owned(),
                environment: options.variables.iter().cloned().chain(added).collect(),
                input: Vec::new(),
                timeout: time,
                max_bytes: MAX_OUTPUT as usize,
                sandbox: None,
                allows_background: false,
            };
            run_cancellable(command, cancel)
        }
    }
}

/// Runs a command, and ends everything it started when `cancel` is cancelled. Returns the output if
/// it succeeded.
fn run_cancellable(command: PipedCommand, cancel: &CancellationToken) -> Option<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let processes = Processes::new(std::env::temp_dir());
    let ended = runtime.block_on(async {
        let ended = processes.run_piped(command, cancel).await;
        processes.shutdown().await;
        ended
    });
    let ended = ended.ok()?;
    (ended.exit == Some(ProcessExit::Exited { code: 0 })).then_some(ended.stdout)
}
