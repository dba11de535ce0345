//! Connects to a model: API keys of Gemini and other providers, and local servers.

use std::time::Duration;

use parallax_protocol::price::Price;
use parallax_protocol::secret::Secret;
use parallax_sdk::credential::KeyKind;
use parallax_sdk::hosted_providers;
use parallax_sdk::model_listing::{KnownModel, ProviderListing};
use parallax_sdk::provider_credentials::{KeySource, ProviderCredential};
use parallax_sessions::SessionChoice;

use parallax_protocol::code_text::code_text as one_line;

use crate::app::App;
use crate::app::commands::choices;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};

/// What the sign-in dialog does not offer.
const OTHER_WAYS: &str = "Login with Google is not available. To use a Vertex AI project or a \
                          gateway, set environment variables; see `/docs models-and-keys`.";

/// The first prompt of the tour.
const TOUR: &str = "Show me around";

/// How long each provider may take to list its models.
const LIST_LIMIT: Duration = Duration::from_secs(1);
/// The time limit for a provider that was just selected.
const CHOSEN_LIMIT: Duration = Duration::from_secs(10);

/// Opens the dialog for connecting to a model. `reason` is why it is shown, if not because no key
/// is configured.
pub(crate) fn open(app: &mut App, reason: Option<&str>) {
    let reason = reason.or_else(|| app.session.keyless_reason());
    let line = |text: &str| parallax_screen::Line::styled(text.to_owned(), app.theme.secondary);
    let hosted = app
        .launch
        .as_ref()
        .map(|launch| launch.provider_manager().hosted_credentials())
        .unwrap_or_default();
    let items = auth_items(&hosted, &[], &[]);
    let list = ListDialog::new("How do you want to connect to a model?", items)
        .intro(reason.into_iter().chain([OTHER_WAYS]).map(line).collect());
    app.open(Overlay::list(DialogPurpose::Auth, list));
    if app.launch.is_none() {
        return;
    }
    // Looks for running local servers in the meantime.
    app.run_with_config(
        |launch| {
            let manager = launch.provider_manager();
            (manager.list_models_blocking(None, LIST_LIMIT), manager.providers_of_settings())
        },
        move |app, (listings, own)| {
            if let Some(list) = app.dialogs.list_for(&DialogPurpose::Auth) {
                list.replace(auth_items(&hosted, &listings, &own));
            }
        },
    );
}

pub(crate) fn handle_choice(app: &mut App, id: &str) {
    let kind = match id.split_once(':') {
        None if id == "gemini" => KeyKind::GeminiApi,
        None if id == "vertex" => KeyKind::VertexExpress,
        Some(("key", provider)) => return open_provider_key_dialog(app, provider),
        Some(("local", provider)) => return open_provider_models(app, provider),
        _ => {
            app.dialogs.close();
            // The tour starts by itself, and does not answer other prompts.
            app.session.set_waiting_prompt(None);
            app.prompt_queue.enqueue(TOUR.to_owned());
            return app.queue_effect(Effect::Reopen(
                Box::new(|options| {
                    options.model = Some("script:tour".to_owned());
                    options.ephemeral = true;
                }),
                SessionChoice::New,
            ));
        }
    };
    let intro = vec![
        "The key is verified with the service and saved so that only you can read it.".to_owned(),
    ];
    let title = match kind {
        KeyKind::GeminiApi => "Gemini API key",
        KeyKind::VertexExpress => "Vertex AI express key",
    };
    let dialog = FieldDialog::new(title, intro, Field::new_masked());
    app.open(Overlay::field(DialogPurpose::Key(kind), dialog));
}

fn open_provider_key_dialog(app: &mut App, provider: &str) {
    let intro = vec![
        "The key is verified with the service and saved so that only you can read it.".to_owned(),
    ];
    let dialog = FieldDialog::new(format!("API key for {provider}"), intro, Field::new_masked());
    app.open(Overlay::field(DialogPurpose::ProviderKey(provider.to_owned()), dialog));
}

pub(crate) fn provider_key_typed(app: &mut App, provider: String, key: &str) {
    if let Some(field) = app.dialogs.field_mut() {
        field.problem = None;
        field.busy = Some("verifying the key…".to_owned());
    }
    app.queue_effect(Effect::AddProviderKey(provider, Secret::new(key.trim())));
}

/// Handles the result of adding a key: verified, not verifiable, or rejected.
pub(crate) fn provider_key_added(
    app: &mut App,
    provider: &str,
    added: Result<Option<String>, String>,
) {
    match added {
        Ok(unchecked) => {
            app.dialogs.close();
            match unchecked {
                None => app.info("API key verified and saved."),
                Some(reason) => app.warn(format!("API key saved but not verified: {reason}")),
            }
            // The user entered the key for this.
            app.dialogs.set_by_key(true);
            open_provider_models(app, provider);
            app.dialogs.set_by_key(false);
        }
        Err(reason) => match app.dialogs.field_mut() {
            Some(field) => {
                field.busy = None;
                field.problem = Some(reason);
            }
            _ => app.error(reason),
        },
    }
}

/// Lets the user choose a model of a provider.
fn open_provider_models(app: &mut App, provider: &str) {
    let list = ListDialog::new("Select a model", Vec::new())
        .with_search()
        .with_empty_text("loading the provider's models…");
    app.open(Overlay::list(DialogPurpose::ProviderModel, list));
    let provider = provider.to_owned();
    app.run_with_config(
        {
            let provider = provider.clone();
            move |launch| {
                let mut models = launch.provider_manager().models_without_request();
                models.retain(|model| model.provider == provider);
                let listings =
                    launch.provider_manager().list_models_blocking(Some(&provider), CHOSEN_LIMIT);
                (models, listings)
            }
        },
        move |app, (mut models, listings)| {
            let mut problem = None;
            for listing in listings {
                match listing.models {
                    Ok(listed) => models.extend(listed),
                    Err(failure) => problem = Some(failure.message),
                }
            }
            let Some(list) = app.dialogs.list_for(&DialogPurpose::ProviderModel) else {
                return;
            };
            if models.is_empty() {
                let reason = problem.unwrap_or_else(|| format!("`{provider}` lists no models"));
                app.dialogs.close();
                return app.error(format!("{reason}. Choose one with `--model {provider}:NAME`."));
            }
            list.replace(models.iter().map(model_item).collect());
        },
    );
}

/// Uses a model of a provider that was just set up, now and in later sessions.
pub(crate) fn provider_model_chosen(app: &mut App, name: &str) {
    if name.is_empty() {
        return;
    }
    app.dialogs.close();
    choices::use_model(app, name, true);
}

/// Lists all available models; those of other providers are added when they answer.
pub(crate) fn open_model_dialog(app: &mut App) {
    let Some(launch) = &app.launch else { return app.report_not_ready() };
    let current_model = app.status_data.model.clone();
    let mut items: Vec<ListItem> = launch
        .provider_manager()
        .model_choices()
        .into_iter()
        .map(|choice| {
            let means = if choice.model == choice.name { String::new() } else { choice.model };
            let window = format!("{} tokens", crate::status_line::count(choice.context));
            let current = if choice.name == current_model { "current" } else { "" };
            let price = choice.price.map(price).unwrap_or_default();
            let detail = [current, &means, &choice.doc, &window, &price];
            let detail: Vec<&str> = detail.into_iter().filter(|part| !part.is_empty()).collect();
            ListItem::new(choice.name.clone(), choice.name, detail.join(" · "))
        })
        .collect();
    let known = launch.provider_manager().models_without_request();
    // The names of all providers, in the order of their tabs.
    let mut providers = vec!["gemini".to_owned()];
    for model in known.iter().filter(|it| it.provider != "gemini") {
        items.push(model_item_of(model, &mut providers));
    }
    let list = ListDialog::new("Select a model", items.clone())
        .with_search()
        .with_tabs(provider_tabs(&providers))
        .with_digits()
        .hint("enter use now · ctrl+s use now and in later sessions · esc close")
        .at(&app.status_data.model);
    app.open(Overlay::list(DialogPurpose::Model, list));
    app.run_with_config(
        |launch| launch.provider_manager().list_models_blocking(None, LIST_LIMIT),
        move |app, listings| {
            let Some(list) = app.dialogs.list_for(&DialogPurpose::Model) else {
                return;
            };
            let listed = listings.iter().filter_map(|it| it.models.as_ref().ok()).flatten();
            for model in listed {
                if !items.iter().any(|item| item.id == model.name) {
                    items.push(model_item_of(model, &mut providers));
                }
            }
            list.replace_with_tabs(items, provider_tabs(&providers));
        },
    );
}

/// Returns the item of a model, in the tab of its provider.
fn model_item_of(model: &KnownModel, providers: &mut Vec<String>) -> ListItem {
    let known = providers.iter().position(|provider| *provider == model.provider);
    let tab = known.unwrap_or_else(|| {
        providers.push(model.provider.clone());
        providers.len() - 1
    });
    ListItem { tab, ..model_item(model) }
}

/// Returns the titles of the tabs of providers.
fn provider_tabs(providers: &[String]) -> Vec<String> {
    let title = |provider: &String| match provider.as_str() {
        "gemini" => "Gemini".to_owned(),
        name => {
            let display_name = hosted_providers().find(|(hosted, _)| *hosted == name);
            display_name.map_or_else(|| one_line(name).into_owned(), |(_, title)| title.to_owned())
        }
    };
    providers.iter().map(title).collect()
}

/// Returns the price of a million tokens that are sent and received.
fn price(price: Price) -> String {
    let dollars = |amount: f64| match amount.fract() == 0.0 {
        true => format!("${amount:.0}"),
        false => format!("${amount:.2}"),
    };
    match price.short_prompts {
        rates if rates.input == 0.0 && rates.output == 0.0 => "free".to_owned(),
        rates => format!("{} in, {} out per 1M", dollars(rates.input), dollars(rates.output)),
    }
}

fn model_item(model: &KnownModel) -> ListItem {
    let guess = if model.context_is_known { "" } else { "about " };
    let window = format!("{guess}{} tokens", crate::status_line::count(model.context_window));
    let description = one_line(&model.description);
    let detail = match description.is_empty() {
        true => window,
        false => format!("{window} · {description}"),
    };
    ListItem::new(model.name.clone(), one_line(&model.name), detail)
}

/// Returns the ways to connect: the hosted providers that have a key first, then the others, the
/// local servers that are running, and the providers of the settings.
fn auth_items(
    hosted: &[ProviderCredential],
    listings: &[ProviderListing],
    own: &[ProviderCredential],
) -> Vec<ListItem> {
    let key_of = |name: &str| hosted.iter().find(|credential| credential.provider == name);
    let with_keys = hosted_providers().filter_map(|(provider, name)| {
        let detail = match &key_of(provider)?.source {
            KeySource::Variable(variable) => format!("with the key in {variable}"),
            KeySource::Command => "with the key of apiKeyCommand".to_owned(),
            _ => "with the stored key".to_owned(),
        };
        Some(ListItem::new(format!("local:{provider}"), format!("Use {name}"), detail))
    });
    let mut items: Vec<ListItem> = with_keys.collect();
    items.extend([
        ListItem::new("gemini", "Enter a Gemini API key", "from Google AI Studio"),
        ListItem::new("vertex", "Enter a Vertex AI express key", "from Google Cloud"),
        ListItem::new("demo", "Try it without a key", "an offline tour with scripted answers"),
    ]);
    // A variable or a command takes precedence over a stored key.
    let takes_key = |name: &str| key_of(name).is_none_or(|it| it.source == KeySource::Stored);
    items.extend(hosted_providers().filter(|(name, _)| takes_key(name)).map(|(provider, name)| {
        let detail = format!("for models with the prefix {provider}:");
        ListItem::new(format!("key:{provider}"), format!("Enter an {name} API key"), detail)
    }));
    for listing in listings {
        let Ok(models) = &listing.models else { continue };
        if hosted_providers().any(|(name, _)| name == listing.provider) || models.is_empty() {
            continue;
        }
        let count = match models.len() {
            1 => "1 model".to_owned(),
            count => format!("{count} models"),
        };
        items.push(ListItem::new(
            format!("local:{}", listing.provider),
            format!("Use {}", one_line(&listing.provider)),
            format!("{count} at {}", one_line(&listing.base_url)),
        ));
    }
    for credential in own {
        let ProviderCredential { provider, base_url, source, .. } = credential;
        let is_listed = |item: &ListItem| item.id == format!("local:{provider}");
        if items.iter().any(is_listed) {
            continue;
        }
        let (id, label) = match source {
            KeySource::Missing => ("key", format!("Enter an API key for {}", one_line(provider))),
            _ => ("local", format!("Use {}", one_line(provider))),
        };
        items.push(ListItem::new(format!("{id}:{provider}"), label, one_line(base_url)));
    }
    items
}
