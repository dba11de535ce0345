//! `parallax models`: lists and tests the models of all providers.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_models::ThinkingControl;
use parallax_protocol::Object;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::price::Rates;
use parallax_sdk::credential::Credential;
use parallax_sdk::model_listing::{KnownModel, ProviderListing};
use parallax_sdk::model_test::TestStep;
use serde_json::{Value, json};

use crate::auth_command::launch;

/// Time limit of a provider that the user named.
const LIMIT: Duration = Duration::from_secs(5);
/// Time limit of each provider if all are queried.
const LIMIT_OF_EACH: Duration = Duration::from_secs(1);

/// `parallax models`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct ModelsArguments {
    #[command(subcommand)]
    pub(crate) action: Option<ModelsAction>,

    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum ModelsAction {
    /// List the models of all reachable providers
    List {
        /// Only this provider
        provider: Option<String>,
    },
    /// Fetch the models from the providers, and save their limits
    Refresh {
        /// Only this provider
        provider: Option<String>,
    },
    /// Show the limits and the price of a model
    Show {
        /// The model, as for `--model`
        model: String,
    },
    /// Send small requests to a model and report what works
    Test {
        /// The model, as for `--model`
        model: String,
    },
}

/// Returns the format in which failures are printed.
pub(crate) fn format(arguments: &ModelsArguments) -> OutputFormat {
    if arguments.json { OutputFormat::Json } else { OutputFormat::Text }
}

/// Runs the subcommand and returns its output and exit code.
///
/// # Errors
/// Returns an error if the settings are invalid, or if the provider or model is unknown.
pub(crate) async fn run(arguments: ModelsArguments) -> Result<(String, ExitCode), Failure> {
    let launch = launch()?;
    let mut code = ExitCode::SUCCESS;
    let (text, value) = match arguments.action.unwrap_or(ModelsAction::List { provider: None }) {
        ModelsAction::List { provider } => {
            let mut known = launch.provider_manager().models_without_request();
            match provider.as_deref() {
                Some("gemini") => {
                    known.retain(|it| it.provider == "gemini");
                    let listing = launch.provider_manager().list_gemini_models(LIMIT).await;
                    list(known, listing.into_iter().collect())
                }
                // The models are those of the Gemini API; Vertex AI has no list.
                Some("vertex") => {
                    known.retain(|it| it.provider == "gemini");
                    list(known.iter().map(KnownModel::for_vertex).collect(), Vec::new())
                }
                Some(provider) => {
                    launch.provider_manager().require_provider(provider)?;
                    known.retain(|it| it.provider == provider);
                    let listings =
                        launch.provider_manager().list_models(Some(provider), LIMIT).await;
                    if let Some(Err(failure)) = listings.first().map(|it| &it.models)
                        && known.is_empty()
                    {
                        return Err(failure.clone());
                    }
                    list(known, listings)
                }
                None => {
                    let manager = launch.provider_manager();
                    let (google, listings) = tokio::join!(
                        manager.list_gemini_models(LIMIT_OF_EACH),
                        manager.list_models(None, LIMIT_OF_EACH)
                    );
                    list(known, google.into_iter().chain(listings).collect())
                }
            }
        }
        ModelsAction::Refresh { provider } => {
            let manager = launch.provider_manager();
            let google = match provider.as_deref() {
                None => manager.list_gemini_models(LIMIT).await,
                Some("gemini") => match manager.list_gemini_models(LIMIT).await {
                    Some(listing) => Some(listing),
                    None => return Err(missing_google_credentials(&manager.gemini_credential())),
                },
                Some("vertex") => {
                    return Err(input_failure(
                        "Vertex AI has no list of models; `parallax models list vertex` prints the \
                         known ones",
                    ));
                }
                Some(provider) => {
                    manager.require_provider(provider)?;
                    None
                }
            };
            let others = match provider.as_deref() {
                Some("gemini") => Vec::new(),
                provider => manager.list_models(provider, LIMIT).await,
            };
            refresh_summary(google.into_iter().chain(others).collect())?
        }
        ModelsAction::Show { model } => {
            if model.trim().is_empty() {
                return Err(input_failure("the model name is empty"));
            }
            let model = launch.provider_manager().describe_model(&model, LIMIT).await?;
            (format_model(&model), value_of(&model))
        }
        ModelsAction::Test { model } => {
            let is_text = !arguments.json;
            let show_step = |step: &TestStep| {
                if is_text {
                    let mut stdout = io::stdout().lock();
                    // A closed pipe does not end the test.
                    let _ = stdout.write_all(line_of(step).as_bytes());
                    let _ = stdout.flush();
                }
            };
            let test = launch.provider_manager().test_model(&model, show_step).await?;
            let steps = test.steps;
            let mut text = String::new();
            let entry = test.needed_quirks.map(|(provider, switches)| {
                let quirks: Object =
                    switches.into_iter().map(|(key, on)| (key.to_owned(), on.into())).collect();
                json!({"providers": {provider: {"quirks": quirks}}})
            });
            if let Some(entry) = &entry {
                let _ = writeln!(
                    text,
                    "\nThe server requires different requests. Add this to `~/.parallax/settings.json`:\n{entry:#}"
                );
            }
            if !steps.iter().any(|step| step.passed) {
                let message = steps.first().map(|step| step.detail.clone()).unwrap_or_default();
                return Err(Failure { kind: FailureKind::Api, message, status: None });
            }
            // Without structured output, an agent can still work.
            if steps.iter().any(|step| !step.passed && step.name != "json") {
                code = ExitCode::GENERAL;
            }
            let steps_json = steps.iter().map(
                |step| json!({"name": step.name, "passed": step.passed, "detail": step.detail}),
            );
            let mut value = json!({"model": model, "steps": steps_json.collect::<Vec<_>>()});
            if let Some(entry) = entry {
                value["settings"] = entry;
            }
            (text, value)
        }
    };
    Ok((if arguments.json { json_document(&value) } else { text }, code))
}

fn line_of(step: &TestStep) -> String {
    let mark = if step.passed { "ok" } else { "failed" };
    format!("{:<10} {mark:<7} {}\n", step.name, one_line(&step.detail))
}

fn input_failure(message: &str) -> Failure {
    Failure { kind: FailureKind::Input, message: message.to_owned(), status: None }
}

fn missing_google_credentials(credential: &Credential) -> Failure {
    let message = match credential {
        Credential::Missing { reason } => reason.clone(),
        Credential::Found { .. } | Credential::NotNeeded => {
            "the credentials of the Gemini API could not be read in time".to_owned()
        }
    };
    Failure { kind: FailureKind::Auth, message, status: None }
}

/// Returns the number of models of each provider, or why it could not be queried.
fn refresh_summary(listings: Vec<ProviderListing>) -> Result<(String, Value), Failure> {
    let mut text = String::new();
    let mut values = Vec::new();
    let mut failed = None;
    for listing in &listings {
        let provider = one_line(&listing.provider);
        match &listing.models {
            Ok(models) => {
                let count = models.len();
                let _ = writeln!(text, "{provider}: {count} models");
                values.push(json!({"provider": listing.provider, "models": count}));
            }
            Err(failure) => {
                let _ = writeln!(text, "{provider}: {}", one_line(&failure.message));
                values.push(json!({"provider": listing.provider, "error": failure.message}));
                failed.get_or_insert(failure);
            }
        }
    }
    if let (Some(failure), true) = (failed, listings.iter().all(|it| it.models.is_err())) {
        return Err(failure.clone());
    }
    if listings.is_empty() {
        text.push_str("No provider is set up. Add a key with `parallax auth add PROVIDER`.\n");
    }
    Ok((text, json!({"providers": values})))
}

fn list(known: Vec<KnownModel>, listings: Vec<ProviderListing>) -> (String, Value) {
    let mut models = known;
    let mut failures = Vec::new();
    for listing in listings {
        match listing.models {
            Ok(listed) => {
                // The built-in table also has models that this service does not offer.
                if listing.provider == "gemini" && !listed.is_empty() {
                    let is_offered = |name: &str| listed.iter().any(|model| model.name == name);
                    models.retain(|it| it.provider != "gemini" || is_offered(&it.name));
                }
                for model in listed {
                    if !models.iter().any(|it| it.name == model.name) {
                        models.push(model);
                    }
                }
            }
            Err(failure) => failures.push((listing.provider, failure.message)),
        }
    }
    let width = models.iter().map(|it| one_line(&it.name).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for model in &models {
        let line = format!(
            "{:<width$}  {:>9}  {}",
            one_line(&model.name),
            window(model),
            [price(model), one_line(&model.description)].join("  ").trim()
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for (provider, message) in &failures {
        let _ = writeln!(text, "{}: {}", one_line(provider), one_line(message));
    }
    let failed: Vec<Value> = failures
        .iter()
        .map(|(provider, message)| json!({"provider": provider, "error": message}))
        .collect();
    let values: Vec<Value> = models.iter().map(value_of).collect();
    (text, json!({"models": values, "unreachable": failed}))
}

/// Formats the context window, marked if it is an estimate.
fn window(model: &KnownModel) -> String {
    let tokens = match model.context_window {
        count if count >= 1_000_000 => format!("{:.1}M", count as f64 / 1_000_000.0),
        count => format!("{}k", count / 1_000),
    };
    if model.context_is_known { tokens } else { format!("~{tokens}") }
}

fn price(model: &KnownModel) -> String {
    let short = model.price.map(|price| price.short_prompts);
    short.map(|rates| format!("${}/${}", rates.input, rates.output)).unwrap_or_default()
}

fn format_model(model: &KnownModel) -> String {
    let known = if model.context_is_known { "" } else { " (assumed: set it in `providers`)" };
    let mut text = format!(
        "Model           {}\nProvider        {}\nContext window  {} tokens{known}\nMaximum output  {} tokens\n",
        one_line(&model.name),
        one_line(&model.provider),
        model.context_window,
        model.max_output
    );
    let input = match model.abilities.input.as_slice() {
        [] => "unknown".to_owned(),
        kinds => one_line(&kinds.join(", ")),
    };
    let thinking = match &model.abilities.thinking {
        ThinkingControl::Unknown => "unknown".to_owned(),
        ThinkingControl::Off => "none".to_owned(),
        ThinkingControl::Budget => "a budget in tokens".to_owned(),
        ThinkingControl::Levels(levels) => one_line(&levels.join(", ")),
    };
    let _ = writeln!(text, "Input           {input}\nThinking        {thinking}");
    let Some(price) = model.price else {
        text.push_str("Price           unknown\n");
        return text;
    };
    let _ = writeln!(text, "Price           {} (per million tokens)", rates(price.short_prompts));
    if let Some((above, long)) = price.long_prompts {
        let _ = writeln!(text, "                {} for prompts above {above} tokens", rates(long));
    }
    text
}

fn rates(rates: Rates) -> String {
    format!("${} input, ${} cached input, ${} output", rates.input, rates.cached, rates.output)
}

fn value_of(model: &KnownModel) -> Value {
    let rates = |rates: Rates| json!({"input": rates.input, "cached": rates.cached, "output": rates.output});
    let price = model.price.map(|price| {
        let mut value = rates(price.short_prompts);
        if let Some((above, long)) = price.long_prompts {
            value["abovePromptTokens"] = json!(above);
            value["above"] = rates(long);
        }
        value
    });
    let thinking = match &model.abilities.thinking {
        ThinkingControl::Unknown => Value::Null,
        ThinkingControl::Off => json!({"control": "none"}),
        ThinkingControl::Budget => json!({"control": "budget"}),
        ThinkingControl::Levels(levels) => json!({"control": "levels", "levels": levels}),
    };
    json!({"name": model.name, "provider": model.provider, "description": model.description,
        "contextWindow": model.context_window, "contextWindowKnown": model.context_is_known,
        "maxOutput": model.max_output, "input": model.abilities.input, "thinking": thinking,
        "price": price})
}
