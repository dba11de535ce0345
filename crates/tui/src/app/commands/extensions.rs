//! `/extensions`: lists, installs, updates, configures, and removes extensions.

use std::path::PathBuf;

use parallax_extensions::{
    Extension, ExtensionHome, ExtensionUpdate, FetchOptions, GALLERY, UninstallResult,
};
use parallax_screen::Line;
use parallax_sdk::SessionConfig;
use parallax_sdk::mcp_view::open_address;
use parallax_sdk::settings::SettingScope;

use crate::app::App;
use crate::app::commands::{info, skills_and_hooks};
use crate::app::effect::Effect;
use crate::commands::SlashCommand;
use crate::components::consent_queue::Consent;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};
use crate::sanitize::sanitize;
use crate::tokens::IDLE;

pub(crate) fn run(app: &mut App, command: SlashCommand, arguments: &str) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    match (command, words.as_slice()) {
        (SlashCommand::Extensions, _) => list(app),
        (SlashCommand::ExtensionsPanel, _) => open_panel(app),
        (SlashCommand::ExtensionsExplore, _) => {
            open_address(GALLERY);
            app.info(format!("Extension gallery: {GALLERY}"));
        }
        (SlashCommand::ExtensionsReload, _) => skills_and_hooks::reload_all_and_confirm(app),
        (SlashCommand::ExtensionsUpdate, []) => {
            app.error("No extension given: use `/extensions update NAME`.")
        }
        (SlashCommand::ExtensionsUpdate, names) => update(app, names),
        (SlashCommand::ExtensionsInstall, [source, ..]) => install(app, source),
        (SlashCommand::ExtensionsLink, [..]) if !arguments.is_empty() => {
            link(app, arguments.into());
        }
        (SlashCommand::ExtensionsUninstall, [name, ..]) => uninstall(app, name),
        (SlashCommand::ExtensionsEnable, [name, scope @ ..]) => {
            set_enabled(app, name, true, scope);
        }
        (SlashCommand::ExtensionsDisable, [name, scope @ ..]) => {
            set_enabled(app, name, false, scope);
        }
        (SlashCommand::ExtensionsConfig, [name, setting @ ..]) => {
            configure(app, name, setting.first().copied());
        }
        _ => app.error("No extension given; `/extensions list` lists them."),
    }
}

fn list(app: &mut App) {
    with_extensions(app, |app, found| {
        let rows = found.iter().flat_map(|extension| extension_rows(app, extension)).collect();
        app.show_wrapped_rows(rows);
    });
}

/// Opens the extensions in a panel.
fn open_panel(app: &mut App) {
    if app.settings.screen_reader {
        return list(app);
    }
    with_extensions(app, |app, found| {
        let rows = |active: bool| -> Vec<Line> {
            let listed = found.iter().filter(|extension| extension.active == active);
            listed.flat_map(|extension| extension_rows(app, extension)).collect()
        };
        let pages = [("Enabled", rows(true)), ("Disabled", rows(false))];
        let pages = pages.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
        info::show_pages(app, "Extensions", pages);
    });
}

fn with_extensions(app: &mut App, show: impl FnOnce(&mut App, &[Extension]) + Send + 'static) {
    app.run_with_config(SessionConfig::extensions, |app, found| match found.all.as_slice() {
        [] => app.info("No extensions installed. Install one with `/extensions install SOURCE`."),
        all => show(app, all),
    });
}

fn extension_rows(app: &App, extension: &Extension) -> Vec<Line> {
    let (marker, style) = match extension.active {
        true => ("✓", app.theme.success),
        false => (IDLE, app.theme.secondary),
    };
    let mut rows = vec![
        Line::styled(format!("{marker} "), style)
            .with_span(extension.name().to_owned(), app.theme.text.bold())
            .with_span(format!(" {}", sanitize(&extension.manifest.version)), app.theme.secondary),
    ];
    let mut more = |text: String| {
        rows.push(Line::styled(format!("  {text}"), app.theme.secondary));
    };
    if !extension.manifest.description.is_empty() {
        more(sanitize(&extension.manifest.description));
    }
    if extension.home == ExtensionHome::Gemini {
        more("installed by Gemini CLI".to_owned());
    }
    if let Some(install) = &extension.install {
        more(format!("from {} ({})", sanitize(&install.source), install.kind.as_str()));
    }
    let missing: Vec<&str> = extension
        .values
        .iter()
        .filter(|value| value.value.is_none())
        .map(|value| value.setting.variable.as_str())
        .collect();
    if !missing.is_empty() {
        let text = format!(
            "  not set: {} (use `/extensions config {}`)",
            missing.join(", "),
            extension.name()
        );
        rows.push(Line::styled(text, app.theme.warning));
    }
    rows
}

fn install(app: &mut App, source: &str) {
    let source = source.to_owned();
    app.toast("downloading the extension");
    app.run_with_config(
        move |launch| launch.extension_manager().fetch_extension(&source, &FetchOptions::default()),
        |app, fetched| match fetched {
            Ok(fetched) => {
                let manifest = &fetched.manifest;
                let title = format!("Install `{}` {}?", manifest.name, sanitize(&manifest.version));
                let lines = fetched.review.consent_lines();
                ask_for_consent(app, title, &lines, Consent::Install(Box::new(fetched)));
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

fn link(app: &mut App, directory: PathBuf) {
    app.run_with_config(
        move |launch| {
            launch
                .extension_manager()
                .review_extension(&directory)
                .map(|reviewed| (directory, reviewed))
        },
        |app, reviewed| match reviewed {
            Ok((directory, (manifest, review))) => {
                let title = format!("Link `{}`?", manifest.name);
                ask_for_consent(app, title, &review.consent_lines(), Consent::Link(directory));
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

fn update(app: &mut App, names: &[&str]) {
    let all = names.contains(&"--all");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    app.toast("checking for updates");
    app.run_with_config(
        move |launch| {
            let known = launch.extensions();
            let is_selected = |it: &&Extension| {
                all || names.iter().any(|name| name.eq_ignore_ascii_case(it.name()))
            };
            let mut results = Vec::new();
            for extension in known.all.iter().filter(is_selected) {
                let name = extension.name().to_owned();
                results.push(match launch.extension_manager().check_for_update(extension) {
                    Ok(None) => Ok((name, None)),
                    Ok(Some(update)) => Ok((name, Some((extension.clone(), update)))),
                    Err(failure) => Err(failure.message),
                });
            }
            results
        },
        |app, report| {
            if report.is_empty() {
                app.error("Unknown extension; `/extensions list` lists the extensions.");
            }
            for one in report {
                match one {
                    Ok((name, None)) => app.info(format!("`{name}` is up to date.")),
                    Ok((_, Some(found))) => update_found(app, Box::new(found)),
                    Err(reason) => app.error(reason),
                }
            }
        },
    );
}

/// Applies an update at once if it needs no additional permissions; otherwise asks.
fn update_found(app: &mut App, found: Box<(Extension, ExtensionUpdate)>) {
    let (extension, update) = found.as_ref();
    if update.added_permissions.is_empty() && update.previous_source.is_none() {
        return handle_consent(app, Consent::Update(found));
    }
    let version = sanitize(&update.fetched.manifest.version);
    let title =
        format!("`{}` {version} requests more permissions than you agreed to:", extension.name());
    let mut lines: Vec<String> =
        update.previous_source.iter().map(|from| format!("moved from {from}")).collect();
    lines.extend(update.added_permissions.iter().cloned());
    ask_for_consent(app, title, &lines, Consent::Update(found));
}

fn ask_for_consent(app: &mut App, title: String, lines: &[String], consent: Consent) {
    app.extensions.consents.push(title, lines, consent, &app.theme);
    next_consent(app);
}

/// Opens the next consent dialog if none is open.
fn next_consent(app: &mut App) {
    let is_open = app.dialogs.purpose() == Some(&DialogPurpose::Consent);
    if is_open {
        return;
    }
    if let Some(overlay) = app.extensions.consents.dialog() {
        app.open(overlay);
    }
}

/// Handles the answer of the consent dialog.
pub(crate) fn handle_consent_answer(app: &mut App, id: &str) {
    app.dialogs.close();
    let Some(consent) = app.extensions.consents.pop() else { return };
    match id {
        "yes" => handle_consent(app, consent),
        _ if matches!(consent, Consent::Install(_)) => {
            app.info("Installation aborted. Nothing was changed.");
        }
        _ => app.info("Nothing was changed."),
    }
    next_consent(app);
}

fn handle_consent(app: &mut App, consent: Consent) {
    app.run_with_config(
        move |launch| match consent {
            Consent::Install(fetched) => {
                launch.extension_manager().install_extension(&fetched)?;
                Ok(format!("Extension `{}` installed successfully.", fetched.manifest.name))
            }
            Consent::Link(folder) => {
                launch.extension_manager().link_extension(&folder)?;
                Ok(format!("Extension `{}` linked.", folder.display()))
            }
            Consent::Update(found) => {
                let (extension, update) = *found;
                launch.extension_manager().update_extension(&extension, &update)?;
                let version = sanitize(&update.fetched.manifest.version);
                Ok(format!("`{}` updated to version {version}.", extension.name()))
            }
        },
        handle_change,
    );
}

fn handle_change(app: &mut App, done: Result<String, parallax_protocol::event::Failure>) {
    match done {
        Ok(text) => {
            app.info(text);
            skills_and_hooks::reload_all(app);
        }
        Err(failure) => app.error(failure.message),
    }
}

fn uninstall(app: &mut App, name: &str) {
    let name = name.to_owned();
    app.run_with_config(
        move |launch| {
            Ok(match launch.extension_manager().uninstall_extension(&name)? {
                UninstallResult::Removed(_) => format!("Extension `{name}` uninstalled."),
                UninstallResult::SwitchedOff(_) => format!(
                    "Extension `{name}` is managed by Gemini CLI, so its files were not removed. \
                     It is now disabled in Parallax."
                ),
            })
        },
        handle_change,
    );
}

fn set_enabled(app: &mut App, name: &str, on: bool, scope: &[&str]) {
    let name = name.to_owned();
    let has = |word: &str| scope.iter().any(|it| it.to_ascii_lowercase().ends_with(word));
    let scope = match (has("workspace"), on) {
        (true, _) => Some(SettingScope::Workspace),
        (false, false) => Some(SettingScope::User),
        (false, true) => None,
    };
    app.run_with_config(
        move |launch| {
            let extension = launch.extension_manager().switch_extension(&name, on, scope)?;
            let word = if on { "enabled" } else { "disabled" };
            Ok(format!("`{}` is {word}.", extension.name()))
        },
        handle_change,
    );
}

/// Asks which setting to change, then for its value.
fn configure(app: &mut App, name: &str, setting: Option<&str>) {
    let (name, setting) = (name.to_owned(), setting.map(str::to_owned));
    app.run_with_config(
        move |launch| launch.extension_manager().find_extension(&name),
        move |app, extension| {
            let extension = match extension {
                Ok(extension) => extension,
                Err(failure) => return app.error(failure.message),
            };
            if extension.values.is_empty() {
                return app.info(format!("`{}` has no settings.", extension.name()));
            }
            if let Some(setting) = setting {
                return open_value(app, &extension, &setting);
            }
            let items = extension.values.iter().map(|value| {
                let state = if value.value.is_some() { "set" } else { "not set" };
                let line = Line::styled(sanitize(&value.setting.description), app.theme.secondary);
                ListItem::new(value.setting.variable.clone(), sanitize(&value.setting.name), state)
                    .with_preview(vec![line])
            });
            let title = format!("Settings of `{}`", extension.name());
            let list = ListDialog::new(title, items.collect());
            let purpose = DialogPurpose::ExtensionSettings(extension.name().to_owned());
            app.open(Overlay::list(purpose, list));
        },
    );
}

/// Handles a setting chosen in the list.
pub(crate) fn setting_chosen(app: &mut App, extension: &str, variable: &str) {
    app.dialogs.close();
    configure(app, extension, Some(variable));
}

fn open_value(app: &mut App, extension: &Extension, setting: &str) {
    let known = extension.values.iter().find(|value| {
        value.setting.variable == setting || value.setting.name.eq_ignore_ascii_case(setting)
    });
    let Some(known) = known else {
        return app.error(format!("Extension `{}` has no setting `{setting}`.", extension.name()));
    };
    let known = &known.setting;
    let field = if known.sensitive { Field::new_masked() } else { Field::default() };
    let intro = vec![sanitize(&known.description), "Leave empty to clear the value.".to_owned()];
    let dialog = FieldDialog::new(sanitize(&known.name), intro, field);
    let purpose =
        DialogPurpose::ExtensionValue(extension.name().to_owned(), known.variable.clone());
    app.open(Overlay::field(purpose, dialog));
}

/// Handles a typed setting value.
pub(crate) fn value_typed(app: &mut App, extension: &str, variable: &str, value: &str) {
    app.dialogs.close();
    let (name, variable) = (extension.to_owned(), variable.to_owned());
    let value = value.to_owned();
    app.run_with_config(
        move |launch| {
            let extension = launch.extension_manager().find_extension(&name)?;
            launch.extension_manager().set_extension_value(
                &extension,
                &variable,
                SettingScope::User,
                Some(&value),
            )?;
            Ok(format!("Saved `{variable}` of `{name}`."))
        },
        handle_change,
    );
}

/// Applies automatic extension updates that ask for no additional permissions. Runs once, when
/// the first session is open.
pub(crate) fn update_automatically(app: &mut App) {
    if app.extensions.take_update_check() {
        return;
    }
    let Some(launch) = app.launch.clone() else { return };
    app.queue_effect(Effect::Run(Box::new(move || {
        let notices = launch.extension_manager().update_automatically();
        Box::new(move |app| {
            for text in notices {
                app.info(text);
            }
        })
    })));
}
