//! `parallax auth`: the API keys of model providers.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::{Args, Subcommand};
use parallax_headless::{OutputFormat, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;
use parallax_sdk::credential::KeyKind;
use parallax_sdk::provider_credentials::{KeySource, ProviderCredential};
use parallax_sdk::{LaunchOptions, SessionConfig};
use serde_json::{Value, json};

use crate::hidden_input::HiddenInput;

/// Maximum size of a key in bytes.
const MAX_KEY: u64 = 64 * 1024;

/// `parallax auth`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct AuthArguments {
    #[command(subcommand)]
    pub(crate) action: AuthAction,

    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum AuthAction {
    /// Store the API key of a provider; it is read from the terminal or from stdin
    Add {
        /// The provider: a built-in one, such as `openai`, or an entry of the setting `providers`
        provider: String,
        /// Store the key without verifying it with the provider
        #[arg(long)]
        no_check: bool,
    },
    /// List the providers and where their keys are
    List,
    /// Remove the stored API key of a provider
    Remove {
        /// The provider
        provider: String,
    },
}

/// Returns the format in which failures are printed.
pub(crate) fn format(arguments: &AuthArguments) -> OutputFormat {
    if arguments.json { OutputFormat::Json } else { OutputFormat::Text }
}

/// Runs the subcommand and returns its output.
///
/// # Errors
/// Returns an error if the provider is unknown, the key is rejected, or a file cannot be written.
pub(crate) async fn run(arguments: AuthArguments) -> Result<String, Failure> {
    let launch = launch()?;
    let (text, value) = match arguments.action {
        AuthAction::Add { provider, no_check } => add(&launch, &provider, no_check).await?,
        AuthAction::List => list(&launch)?,
        AuthAction::Remove { provider } => remove(&launch, &provider)?,
    };
    Ok(if arguments.json { json_document(&value) } else { text })
}

/// Prepares the configuration of a session with the settings of the user and of this project.
pub(crate) fn launch() -> Result<SessionConfig, Failure> {
    let directory = std::env::current_dir()
        .map_err(|error| input_failure(format!("Failed to read the current directory: {error}")))?;
    SessionConfig::prepare(LaunchOptions {
        directory,
        variables: std::env::vars_os().collect(),
        is_read_only: true,
        version: env!("CARGO_PKG_VERSION"),
        ..LaunchOptions::default()
    })
}

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

/// Returns the kind of a Google key.
fn google_kind(provider: &str) -> Option<KeyKind> {
    match provider {
        "gemini" => Some(KeyKind::GeminiApi),
        "vertex" => Some(KeyKind::VertexExpress),
        _ => None,
    }
}

async fn add_google(
    launch: &SessionConfig,
    (provider, kind): (&str, KeyKind),
    no_check: bool,
) -> Result<(String, Value), Failure> {
    let key = read_key(provider)?;
    let mut text = format!("Stored the key for `{provider}`\n");
    let mut checked = Value::Null;
    if !no_check {
        let unchecked = match launch.provider_manager().check_key(kind, &key).await {
            Err(failure) if failure.kind == FailureKind::Auth => return Err(failure),
            Err(failure) => Some(failure.message),
            Ok(()) => None,
        };
        checked = json!(unchecked.is_none());
        if let Some(reason) = unchecked {
            let _ = writeln!(text, "The key was not checked: {}", one_line(&reason));
        }
    }
    let manager = launch.provider_manager();
    manager.store_key(kind, &key)?;
    // With two keys, which one is used must not be a surprise.
    if manager.stored_key_kinds()?.len() > 1 {
        let other = if kind == KeyKind::GeminiApi { "vertex" } else { "gemini" };
        let _ = writeln!(
            text,
            "Models without a provider in their name now use it; the key for `{other}` is kept (the \
             setting `security.auth.selectedType` selects one)"
        );
    }
    Ok((text, json!({"provider": provider, "stored": true, "checked": checked})))
}

async fn add(
    launch: &SessionConfig,
    provider: &str,
    no_check: bool,
) -> Result<(String, Value), Failure> {
    if let Some(kind) = google_kind(provider) {
        return add_google(launch, (provider, kind), no_check).await;
    }
    launch.provider_manager().require_provider(provider)?;
    let key = read_key(provider)?;
    let (mut text, mut checked) = (String::new(), Value::Null);
    let in_keychain = if no_check {
        launch.provider_manager().store_provider_key(provider, &key)?
    } else {
        let added = launch.provider_manager().add_provider_key(provider, &key).await?;
        checked = json!(added.unchecked.is_none());
        if let Some(reason) = added.unchecked {
            let _ = writeln!(text, "The key was not checked: {}", one_line(&reason));
        }
        added.in_keychain
    };
    let storage = match in_keychain {
        true => "the keychain".to_owned(),
        false => format!("`{}`", launch.home().join("provider-keys.json").display()),
    };
    text.insert_str(0, &format!("Stored the key for `{provider}` in {storage}\n"));
    let overriding = credential(launch, provider)?.filter(|it| it.source != KeySource::Stored);
    if let Some(KeySource::Variable(name)) = overriding.map(|it| it.source) {
        let _ = writeln!(text, "`{name}` is set and is used instead of the stored key");
    }
    let value = json!({"provider": provider, "stored": true, "keychain": in_keychain,
        "checked": checked});
    Ok((text, value))
}

fn credential(
    launch: &SessionConfig,
    provider: &str,
) -> Result<Option<ProviderCredential>, Failure> {
    let all = launch.provider_manager().provider_credentials()?;
    Ok(all.into_iter().find(|it| it.provider == provider))
}

/// Reads a key from stdin; a terminal does not echo it.
fn read_key(provider: &str) -> Result<Secret, Failure> {
    let stdin = io::stdin();
    let mut line = String::new();
    let is_terminal = stdin.is_terminal();
    let read = {
        let _silence = is_terminal.then(|| {
            let _ = write!(io::stderr(), "API key for {provider} (not shown): ");
            let _ = io::stderr().flush();
            HiddenInput::begin()
        });
        io::Read::take(stdin.lock(), MAX_KEY).read_line(&mut line)
    };
    if is_terminal {
        let _ = writeln!(io::stderr());
    }
    read.map_err(|error| input_failure(format!("Failed to read the key from stdin: {error}")))?;
    match line.trim() {
        "" => Err(input_failure(format!(
            "No key on stdin: enter it at the prompt or pipe it: printenv KEY | parallax auth add {provider}"
        ))),
        key => Ok(Secret::new(key)),
    }
}

fn list(launch: &SessionConfig) -> Result<(String, Value), Failure> {
    let manager = launch.provider_manager();
    let mut all = manager.google_credentials();
    all.extend(manager.provider_credentials()?);
    let mut text = String::new();
    let width = all.iter().map(|it| it.provider.len()).max().unwrap_or(0);
    for it in &all {
        let _ = writeln!(text, "{:width$}  {}", it.provider, describe(it));
    }
    let values = all.iter().map(|it| {
        let (source, variable) = match &it.source {
            KeySource::Variable(name) => ("environment", Some(name)),
            KeySource::Command => ("command", None),
            KeySource::Stored => ("stored", None),
            KeySource::Missing => ("missing", None),
            KeySource::NotNeeded => ("not-needed", None),
            KeySource::Project => ("project", None),
        };
        json!({"provider": it.provider, "baseUrl": it.base_url, "source": source,
            "variable": variable, "variables": it.variables})
    });
    let value = json!({"providers": values.collect::<Vec<_>>()});
    Ok((text, value))
}

fn describe(it: &ProviderCredential) -> String {
    match &it.source {
        KeySource::Variable(name) => format!("key in `{name}`"),
        KeySource::Command => "key from `apiKeyCommand`".to_owned(),
        KeySource::Stored => "key stored by `parallax auth add`".to_owned(),
        KeySource::Project => "credentials of the Google Cloud project".to_owned(),
        KeySource::NotNeeded => format!("no key needed ({})", one_line(&it.base_url)),
        KeySource::Missing => match it.variables.as_slice() {
            [] => "no key".to_owned(),
            names => format!(
                "no key: set `{}`, or run `parallax auth add {}`",
                names.join("` or `"),
                it.provider
            ),
        },
    }
}

fn remove(launch: &SessionConfig, provider: &str) -> Result<(String, Value), Failure> {
    let removed = match google_kind(provider) {
        Some(kind) => launch.provider_manager().forget_key(Some(kind))?,
        None => {
            let removed = launch.provider_manager().remove_provider_key(provider)?;
            // A key of a provider that the settings no longer have can still be removed.
            if !removed {
                launch.provider_manager().require_provider(provider)?;
            }
            removed
        }
    };
    let text = match removed {
        true => format!("Removed the stored key for `{}`\n", one_line(provider)),
        false => format!("No stored key for `{}`\n", one_line(provider)),
    };
    Ok((text, json!({"provider": provider, "removed": removed})))
}
