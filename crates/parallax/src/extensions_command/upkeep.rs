//! Maintains installed extensions: synchronizes them with a lock file, diagnoses problems, and runs
//! their tests.

use std::fmt::Write as _;
use std::path::Path;

use parallax_extensions::{ExtensionHome, LockEntry};
use parallax_headless::{ExitCode, one_line};
use parallax_protocol::event::Failure;
use parallax_sdk::SessionConfig;
use serde_json::{Value, json};

use super::prompter::Prompter;
use super::{ask_for_settings, code_of, input_failure, uninstall};
use crate::command_result::CommandResult;
use crate::extension_descriptions::consent_text;

/// The options of `sync`.
pub(super) struct SyncArguments<'a> {
    /// A lock file other than the user's.
    pub(super) file: Option<&'a Path>,
    pub(super) consent: bool,
    /// Whether extensions that are not in the file are removed.
    pub(super) prune: bool,
}

/// Installs the extensions that a lock file names. A failure of one does not stop the others.
pub(super) fn sync(
    launch: &SessionConfig,
    what: &SyncArguments,
    prompter: &mut dyn Prompter,
) -> Result<CommandResult, Failure> {
    let locked = launch.extension_manager().locked_extensions(what.file)?;
    let (mut text, mut errors) = (String::new(), String::new());
    let (mut list, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for (name, locked) in &locked {
        let done = match locked {
            Some(locked) => sync_extension(launch, name, locked, what.consent, prompter),
            None => Err(input_failure(format!("Invalid entry of `{name}` in the lock file"))),
        };
        match done {
            Ok((word, more)) => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "Extension \"{}\": {word}.", one_line(name));
                text.push_str(&more);
                list.push(json!({"name": name, "done": word}));
            }
            Err(failure) => {
                let _ = writeln!(errors, "error: {}", one_line(&failure.message));
                list.push(json!({"name": name, "error": failure.message}));
                code = code_of(&failure);
            }
        }
    }
    let fresh = launch.reload()?.extensions();
    let is_extra = |name: &str| !locked.iter().any(|(known, _)| known == name);
    let extra: Vec<String> = fresh
        .all
        .iter()
        .filter(|it| it.home == ExtensionHome::Parallax && it.folder == it.installed)
        .map(|it| it.name().to_owned())
        .filter(|name| is_extra(name))
        .collect();
    if what.prune {
        let uninstalled = uninstall(launch, &extra, false);
        text.push_str(&uninstalled.text);
        errors.push_str(&uninstalled.errors);
        list.extend(uninstalled.json.as_array().cloned().unwrap_or_default());
        code = if uninstalled.code == ExitCode::SUCCESS { code } else { uninstalled.code };
    } else {
        for name in &extra {
            let _ = writeln!(
                text,
                "Extension \"{}\" is not in the lock file. Use `--prune` to remove it.",
                one_line(name)
            );
        }
    }
    if text.is_empty() && errors.is_empty() {
        text.push_str("The lock file lists no extensions.\n");
    }
    Ok(CommandResult { errors, code, ..CommandResult::new(text, Value::Array(list)) })
}

fn sync_extension(
    launch: &SessionConfig,
    name: &str,
    locked: &LockEntry,
    consent: bool,
    prompter: &mut dyn Prompter,
) -> Result<(&'static str, String), Failure> {
    if launch.extension_manager().matches_lock(name, locked) {
        return Ok(("already at the locked version", String::new()));
    }
    let fetched = launch.extension_manager().fetch_locked(name, locked)?;
    let source = &locked.install.source;
    prompter
        .confirm(&consent_text("installed", &fetched.manifest, &fetched.review, source), consent)?;
    launch.extension_manager().install_locked(&fetched)?;
    Ok(("installed at the locked version", ask_for_settings(launch, name, false, prompter)?))
}

/// Reports problems of extensions.
pub(super) fn doctor(launch: &SessionConfig, name: Option<&str>) -> Result<CommandResult, Failure> {
    if let Some(name) = name {
        launch.extension_manager().find_extension(name)?;
    }
    let found = parallax_doctor::examine_extensions(launch, name);
    let mut text = String::new();
    for trouble in &found {
        let line = match trouble.extension.is_empty() {
            true => trouble.description.clone(),
            false => format!("{}: {}", trouble.extension, trouble.description),
        };
        let _ = writeln!(text, "✗ {}", one_line(&line));
    }
    let count = launch.extensions().active().count();
    if found.is_empty() {
        let _ = writeln!(text, "{count} enabled extension(s) checked, no problems found");
    }
    let json: Vec<Value> = found
        .iter()
        .map(|trouble| json!({"extension": trouble.extension, "problem": trouble.description}))
        .collect();
    let code = if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::GENERAL };
    Ok(CommandResult { code, ..CommandResult::new(text, json!({"problems": json})) })
}

/// Runs the tests of the extension in a directory.
pub(super) fn test(
    launch: &SessionConfig,
    directory: &Path,
    names: &[String],
) -> Result<CommandResult, Failure> {
    let (manifest, _) = launch.extension_manager().review_extension(directory)?;
    let mut trials = launch.extension_manager().extension_tests(directory);
    if let Some(unknown) = names.iter().find(|name| trials.iter().all(|(known, _)| known != *name))
    {
        return Err(input_failure(format!("Test not found: `tests/{}.json`", one_line(unknown))));
    }
    trials.retain(|(name, _)| names.is_empty() || names.contains(name));
    if trials.is_empty() {
        return Err(input_failure(format!(
            "Extension `{}` has no tests. A test is a file `tests/NAME.json` with `prompt`, \
             `responses`, and `expect`.",
            manifest.name
        )));
    }
    let program = std::env::current_exe().map_err(|error| {
        input_failure(format!("Failed to determine the path of this program: {error}"))
    })?;
    let (mut text, mut list, mut failed) = (String::new(), Vec::new(), 0);
    for (name, trial) in &trials {
        let wrong = match trial {
            Ok(trial) => launch.extension_manager().try_extension(&program, directory, trial)?,
            Err(reason) => vec![format!("invalid test: {reason}")],
        };
        let marker = if wrong.is_empty() { "✓" } else { "✗" };
        let _ = writeln!(text, "{marker} {}", one_line(name));
        for reason in &wrong {
            let _ = writeln!(text, "    {}", one_line(reason));
        }
        failed += usize::from(!wrong.is_empty());
        list.push(json!({"name": name, "passed": wrong.is_empty(), "problems": wrong}));
    }
    let _ = writeln!(text, "{} test(s), {failed} failed", trials.len());
    let code = if failed == 0 { ExitCode::SUCCESS } else { ExitCode::GENERAL };
    Ok(CommandResult { code, ..CommandResult::new(text, Value::Array(list)) })
}
