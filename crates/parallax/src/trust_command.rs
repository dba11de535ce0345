//! `parallax trust`: lists and changes trusted folders.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use parallax_config::trust::{self, TrustLevel, TrustReason};
use parallax_config::trust_state::{self, TrustState};
use parallax_config::{Acceptance, IgnoredSettings, LoadOptions, RuleFileSources, TrustPreview};
use parallax_headless::{json_document, one_line};
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::arguments::TrustAction;

/// Runs the subcommand and returns its output.
///
/// # Errors
/// Returns an error if a folder or file cannot be used.
pub(crate) fn run(action: TrustAction, json: bool) -> Result<String, Failure> {
    let current_directory = std::env::current_dir()
        .map_err(|error| input_failure(format!("Failed to read the current directory: {error}")))?;
    let output = match action {
        TrustAction::Status { path } => {
            status(&FolderState::for_existing_path(&current_directory, path)?)
        }
        TrustAction::Show { path } => {
            show(&FolderState::for_existing_path(&current_directory, path)?)
        }
        TrustAction::Add { path, parent, settings } => {
            let level = if parent { TrustLevel::TrustParent } else { TrustLevel::TrustFolder };
            add(FolderState::for_existing_path(&current_directory, path)?, level, settings)?
        }
        TrustAction::Remove { path } => {
            remove(FolderState::for_any_path(&current_directory, path)?)?
        }
        TrustAction::Deny { path } => {
            let mut folder_state = FolderState::for_existing_path(&current_directory, path)?;
            folder_state.set(Some(TrustLevel::DoNotTrust))?;
            status(&folder_state)
        }
        TrustAction::List => list(&FolderState::for_existing_path(&current_directory, None)?)?,
    };
    Ok(if json { json_document(&output.json) } else { output.text })
}

/// The result of a subcommand, as text and as JSON.
struct TrustOutput {
    text: String,
    json: Value,
}

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

fn config_failure(error: &parallax_config::ConfigError) -> Failure {
    Failure { kind: FailureKind::Config, message: error.to_string(), status: None }
}

/// A folder and its trust state.
struct FolderState {
    folder: PathBuf,
    options: LoadOptions,
    trust_state: TrustState,
}

impl FolderState {
    /// Returns the state of an existing folder.
    fn for_existing_path(current_directory: &Path, path: Option<PathBuf>) -> Result<Self, Failure> {
        let folder =
            path.map_or_else(|| current_directory.to_owned(), |path| current_directory.join(path));
        let real = std::fs::canonicalize(&folder).map_err(|error| {
            input_failure(format!("Failed to open `{}`: {error}", folder.display()))
        })?;
        if !real.is_dir() {
            return Err(input_failure(format!("`{}` is not a directory", folder.display())));
        }
        Self::for_directory(current_directory, real)
    }

    /// Returns the state of a folder that may no longer exist.
    fn for_any_path(current_directory: &Path, path: Option<PathBuf>) -> Result<Self, Failure> {
        let folder =
            path.map_or_else(|| current_directory.to_owned(), |path| current_directory.join(path));
        Self::for_directory(current_directory, std::fs::canonicalize(&folder).unwrap_or(folder))
    }

    fn for_directory(current_directory: &Path, folder: PathBuf) -> Result<Self, Failure> {
        let options = LoadOptions {
            cwd: current_directory.to_owned(),
            variables: std::env::vars_os().collect(),
            skip_trust: false,
            ignore_env: false,
        };
        let trust_state =
            trust_state::trust_state(&options, &folder).map_err(|error| config_failure(&error))?;
        Ok(Self { folder, options, trust_state })
    }

    fn set(&mut self, level: Option<TrustLevel>) -> Result<(), Failure> {
        trust::set(&self.trust_state.files, &self.folder, level)
            .map_err(|error| config_failure(&error))?;
        self.trust_state = trust_state::trust_state(&self.options, &self.folder)
            .map_err(|error| config_failure(&error))?;
        Ok(())
    }

    /// Returns the project's loosening settings with this decision of the user, in the format of
    /// the trust preview: `key (file)`.
    fn loosening_settings(&self, acceptance: Acceptance) -> Result<Vec<String>, Failure> {
        let (dirs, outer) = (&self.trust_state.dirs, &self.trust_state.outer);
        let files = parallax_config::loosening_settings(dirs, outer, &self.folder)
            .map_err(|error| config_failure(&error))?;
        let matching = files.iter().filter(|file| file.acceptance == acceptance);
        Ok(matching.flat_map(|file| self.named_keys(file)).collect())
    }

    fn named_keys(&self, file: &IgnoredSettings) -> Vec<String> {
        let path = file.file.strip_prefix(&self.folder).unwrap_or(&file.file);
        file.keys.iter().map(|key| format!("{key} ({})", path.display())).collect()
    }

    fn name(&self) -> String {
        one_line(&self.folder.display().to_string())
    }
}

fn status(folder_state: &FolderState) -> TrustOutput {
    let trust = &folder_state.trust_state.trust;
    let (reason, why) = match &trust.reason {
        TrustReason::Flag => ("flag", "`--skip-trust`".to_owned()),
        TrustReason::Variable => ("variable", "set by `GEMINI_CLI_TRUST_WORKSPACE`".to_owned()),
        TrustReason::FeatureOff => {
            ("setting", "the setting `security.folderTrust.enabled` is off".to_owned())
        }
        TrustReason::Rule { file, folder } => (
            "rule",
            format!(
                "set by the rule for `{}` in `{}`",
                one_line(folder),
                one_line(&file.display().to_string())
            ),
        ),
        TrustReason::Unknown => ("unknown", "no rule".to_owned()),
    };
    let word = if trust.trusted { "trusted" } else { "not trusted" };
    let mut text = format!("`{}` is {word}: {why}\n", folder_state.name());
    if trust.reason == TrustReason::Unknown {
        text.push_str(
            "`parallax trust show` shows what it would add; `parallax trust add` trusts it\n",
        );
    }
    let mut json = json!({
        "folder": folder_state.folder.to_string_lossy(),
        "trusted": trust.trusted,
        "reason": reason,
    });
    if let (TrustReason::Rule { file, folder }, Value::Object(fields)) = (&trust.reason, &mut json)
    {
        fields.insert("file".to_owned(), json!(file.to_string_lossy()));
        fields.insert("rule".to_owned(), json!(folder));
    }
    TrustOutput { text, json }
}

fn show(folder_state: &FolderState) -> TrustOutput {
    let mut output = status(folder_state);
    let survey = parallax_config::inspect(&folder_state.folder, &folder_state.trust_state.outer);
    // A file that cannot be used is among the preview's problems.
    let accepted = folder_state.loosening_settings(Acceptance::Accepted).unwrap_or_default();
    output.text.push_str(&preview_text(&survey, &accepted));
    if let Value::Object(fields) = &mut output.json {
        fields.insert("brings".to_owned(), survey.to_json());
        fields.insert("accepted_settings".to_owned(), json!(accepted));
    }
    output
}

/// Returns a trust preview as text. All names come from the folder, so control characters are
/// escaped.
fn preview_text(survey: &TrustPreview, accepted: &[String]) -> String {
    if survey.is_empty() {
        return "It contains no settings, commands, or other files that would take effect.\n"
            .to_owned();
    }
    let mut text = String::new();
    let mut list = |title: &str, items: Vec<String>| {
        if items.is_empty() {
            return;
        }
        let _ = writeln!(text, "{title}:");
        for item in items {
            let _ = writeln!(text, "  {}", code_text(&item));
        }
    };
    let hook =
        |it: &parallax_config::PreviewedHook| format!("{}: {} ({})", it.event, it.command, it.file);
    let server =
        |it: &parallax_config::PreviewedServer| format!("{}: {} ({})", it.name, it.target, it.file);
    let accepted_mark = |key: &String| match accepted.contains(key) {
        true => format!("{key}, accepted"),
        false => key.clone(),
    };
    list(
        "Settings that lower security",
        survey.loosening_settings.iter().map(accepted_mark).collect(),
    );
    list("Hooks", survey.hooks.iter().map(hook).collect());
    list("MCP servers", survey.mcp_servers.iter().map(server).collect());
    list("Programs in settings", survey.programs.clone());
    list("Commands", survey.commands.clone());
    list("Skills", survey.skills.clone());
    list("Agents", survey.agents.clone());
    list("Rules", survey.policies.clone());
    list("Context files", survey.context_files.clone());
    list("`.env` files", survey.env_files.clone());
    list("Not checked", survey.problems.clone());
    if survey.is_truncated {
        text.push_str("The list is not complete.\n");
    }
    text
}

fn add(mut place: FolderState, level: TrustLevel, settings: bool) -> Result<TrustOutput, Failure> {
    place.set(Some(level))?;
    let mut output = status(&place);
    let dirs = &place.trust_state.dirs;
    // The user has seen the current rules, so they are accepted.
    let rules =
        parallax_config::find_policy_files(&RuleFileSources::for_trusted(dirs, &place.folder));
    parallax_config::accept_workspace_rules(dirs, &place.folder, &rules.files)
        .map_err(|error| config_failure(&error))?;
    let mut accepted = Vec::new();
    if settings {
        let files = parallax_config::accept_settings(dirs, &place.trust_state.outer, &place.folder)
            .map_err(|error| config_failure(&error))?;
        accepted.extend(files.iter().flat_map(|file| place.named_keys(file)));
        for entry in &accepted {
            let _ = writeln!(output.text, "accepted: {}", code_text(entry));
        }
        if accepted.is_empty() {
            output.text.push_str("None of its settings lowers security.\n");
        }
    } else {
        accepted = place.loosening_settings(Acceptance::Accepted)?;
        let mut ignored = place.loosening_settings(Acceptance::Undecided)?;
        ignored.extend(place.loosening_settings(Acceptance::Declined)?);
        if !ignored.is_empty() {
            let list: Vec<_> = ignored.iter().map(|key| code_text(key)).collect();
            let _ = writeln!(
                output.text,
                "These settings lower security and are ignored: {}. Run `parallax trust add \
                 --settings` to accept them as they are now.",
                list.join(", ")
            );
        }
    }
    if let Value::Object(fields) = &mut output.json {
        fields.insert("accepted_settings".to_owned(), json!(accepted));
    }
    Ok(output)
}

fn remove(mut place: FolderState) -> Result<TrustOutput, Failure> {
    place.set(None)?;
    let mut output = status(&place);
    if let TrustReason::Rule { file, .. } = &place.trust_state.trust.reason
        && file != place.trust_state.files.writable_file()
    {
        output.text.push_str(
            "The file belongs to another program and was not changed. Run `parallax trust deny` \
             to override it.\n",
        );
    }
    Ok(output)
}

fn list(folder_state: &FolderState) -> Result<TrustOutput, Failure> {
    let rules = folder_state.trust_state.files.rules().map_err(|error| config_failure(&error))?;
    let mut text = String::new();
    for rule in &rules {
        let _ = writeln!(
            text,
            "{:<13} {} ({})",
            rule.level.as_str(),
            one_line(&rule.folder),
            one_line(&rule.file.display().to_string())
        );
    }
    if rules.is_empty() {
        text.push_str("No trust rules.\n");
    }
    let rules = rules.iter().map(|rule| {
        json!({
            "folder": rule.folder,
            "level": rule.level.as_str(),
            "file": rule.file.to_string_lossy(),
        })
    });
    Ok(TrustOutput { text, json: Value::Array(rules.collect()) })
}
