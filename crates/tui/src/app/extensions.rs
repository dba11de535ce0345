//! `/extensions`: lists, installs, updates, configures, and removes extensions.

use std::path::PathBuf;

use parallax_extensions::{
    Extension, ExtensionHome, ExtensionUpdate, FetchOptions, GALLERY, Uninstalled,
};
use parallax_screen::Line;
use parallax_sdk::Launch;
use parallax_sdk::mcp_view::open_address;
use parallax_sdk::settings::SettingScope;

use super::App;
use crate::clean::clean;
use crate::commands::Command;
use crate::components::consent_queue::Consent;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{Field, FieldDialog, ListDialog, ListItem};
use crate::effect::Effect;
use crate::tokens::IDLE;

impl App {
    pub(super) fn extensions(&mut self, command: Command, arguments: &str) {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        match (command, words.as_slice()) {
            (Command::Extensions, _) => self.extensions_list(),
            (Command::ExtensionsExplore, _) => {
                open_address(GALLERY);
                self.info(format!("Extension gallery: {GALLERY}"));
            }
            (Command::ExtensionsReload, _) => self.read_all_again_told(),
            (Command::ExtensionsUpdate, []) => {
                self.error("No extension given: use `/extensions update NAME`.")
            }
            (Command::ExtensionsUpdate, names) => self.extensions_update(names),
            (Command::ExtensionsInstall, [source, ..]) => self.extension_install(source),
            (Command::ExtensionsLink, [..]) if !arguments.is_empty() => {
                self.extension_link(arguments.into());
            }
            (Command::ExtensionsUninstall, [name, ..]) => self.extension_uninstall(name),
            (Command::ExtensionsEnable, [name, scope @ ..]) => {
                self.extension_switch(name, true, scope);
            }
            (Command::ExtensionsDisable, [name, scope @ ..]) => {
                self.extension_switch(name, false, scope);
            }
            (Command::ExtensionsConfig, [name, setting @ ..]) => {
                self.extension_config(name, setting.first().copied());
            }
            _ => self.error("No extension given; `/extensions list` lists them."),
        }
    }

    fn extensions_list(&mut self) {
        self.ask(Launch::extensions, |app, found| {
            if found.all.is_empty() {
                app.info("No extensions installed. Install one with `/extensions install SOURCE`.");
            }
            let mut rows = Vec::new();
            for extension in &found.all {
                rows.extend(app.extension_rows(extension));
            }
            app.say_wrapped(rows);
        });
    }

    fn extension_rows(&self, extension: &Extension) -> Vec<Line> {
        let (sign, style) = match extension.active {
            true => ("✓", self.theme.success),
            false => (IDLE, self.theme.secondary),
        };
        let mut rows = vec![
            Line::styled(format!("{sign} "), style)
                .and(extension.name().to_owned(), self.theme.text.bold())
                .and(format!(" {}", clean(&extension.manifest.version)), self.theme.secondary),
        ];
        let mut more = |text: String| {
            rows.push(Line::styled(format!("  {text}"), self.theme.secondary));
        };
        if !extension.manifest.description.is_empty() {
            more(clean(&extension.manifest.description));
        }
        if extension.home == ExtensionHome::Gemini {
            more("installed by Gemini CLI".to_owned());
        }
        if let Some(install) = &extension.install {
            more(format!("from {} ({})", clean(&install.source), install.kind.as_str()));
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
            rows.push(Line::styled(text, self.theme.warning));
        }
        rows
    }

    fn extension_install(&mut self, source: &str) {
        let source = source.to_owned();
        self.toast("downloading the extension");
        self.ask(
            move |launch| {
                launch.extension_manager().fetch_extension(&source, &FetchOptions::default())
            },
            |app, fetched| match fetched {
                Ok(fetched) => {
                    let manifest = &fetched.manifest;
                    let title =
                        format!("Install `{}` {}?", manifest.name, clean(&manifest.version));
                    let lines = fetched.review.told();
                    app.ask_consent(title, &lines, Consent::Install(Box::new(fetched)));
                }
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn extension_link(&mut self, folder: PathBuf) {
        self.ask(
            move |launch| {
                launch
                    .extension_manager()
                    .review_extension(&folder)
                    .map(|reviewed| (folder, reviewed))
            },
            |app, reviewed| match reviewed {
                Ok((folder, (manifest, review))) => {
                    let title = format!("Link `{}`?", manifest.name);
                    app.ask_consent(title, &review.told(), Consent::Link(folder));
                }
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn extensions_update(&mut self, names: &[&str]) {
        let all = names.contains(&"--all");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.toast("checking for updates");
        self.ask(
            move |launch| {
                let known = launch.extensions();
                let wanted = |it: &&Extension| {
                    all || names.iter().any(|name| name.eq_ignore_ascii_case(it.name()))
                };
                let mut told = Vec::new();
                for extension in known.all.iter().filter(wanted) {
                    let name = extension.name().to_owned();
                    told.push(match launch.extension_manager().look_for_update(extension) {
                        Ok(None) => Ok((name, None)),
                        Ok(Some(update)) => Ok((name, Some((extension.clone(), update)))),
                        Err(failure) => Err(failure.message),
                    });
                }
                told
            },
            |app, told| {
                if told.is_empty() {
                    app.error("Unknown extension; `/extensions list` lists the extensions.");
                }
                for one in told {
                    match one {
                        Ok((name, None)) => app.info(format!("`{name}` is up to date.")),
                        Ok((_, Some(found))) => app.update_found(Box::new(found)),
                        Err(why) => app.error(why),
                    }
                }
            },
        );
    }

    /// Applies an update at once if it needs no additional permissions; otherwise asks.
    fn update_found(&mut self, found: Box<(Extension, ExtensionUpdate)>) {
        let (extension, update) = found.as_ref();
        if update.beyond.is_empty() && update.moved.is_none() {
            return self.consented(Consent::Update(found));
        }
        let version = clean(&update.fetched.manifest.version);
        let title = format!("`{}` {version} asks for more than you agreed to:", extension.name());
        let mut lines: Vec<String> =
            update.moved.iter().map(|from| format!("moved from {from}")).collect();
        lines.extend(update.beyond.iter().cloned());
        self.ask_consent(title, &lines, Consent::Update(found));
    }

    fn ask_consent(&mut self, title: String, lines: &[String], consent: Consent) {
        let width = self.window.width();
        self.extensions.consents.push(title, lines, consent, width, &self.theme);
        self.next_consent();
    }

    /// Opens the next consent dialog if none is open.
    fn next_consent(&mut self) {
        let is_open = self.dialogs.purpose() == Some(&Purpose::Consent);
        if is_open {
            return;
        }
        if let Some(overlay) = self.extensions.consents.dialog() {
            self.open(overlay);
        }
    }

    /// Handles the answer of the consent dialog.
    pub(super) fn consent_answer(&mut self, id: &str) {
        self.dialogs.close();
        let Some(consent) = self.extensions.consents.pop() else { return };
        match id {
            "yes" => self.consented(consent),
            _ if matches!(consent, Consent::Install(_)) => {
                self.info("Installation aborted. Nothing was changed.");
            }
            _ => self.info("Nothing was changed."),
        }
        self.next_consent();
    }

    fn consented(&mut self, consent: Consent) {
        self.ask(
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
                    let version = clean(&update.fetched.manifest.version);
                    Ok(format!("`{}` updated to version {version}.", extension.name()))
                }
            },
            |app, done| app.extension_changed(done),
        );
    }

    fn extension_changed(&mut self, done: Result<String, parallax_protocol::event::Failure>) {
        match done {
            Ok(text) => {
                self.info(text);
                self.read_all_again();
            }
            Err(failure) => self.error(failure.message),
        }
    }

    fn extension_uninstall(&mut self, name: &str) {
        let name = name.to_owned();
        self.ask(
            move |launch| {
                Ok(match launch.extension_manager().uninstall_extension(&name)? {
                    Uninstalled::Removed(_) => format!("Extension `{name}` uninstalled."),
                    Uninstalled::SwitchedOff(_) => format!(
                        "Extension `{name}` is managed by Gemini CLI, so its files stay. It is \
                         now disabled in Parallax."
                    ),
                })
            },
            |app, done| app.extension_changed(done),
        );
    }

    fn extension_switch(&mut self, name: &str, on: bool, scope: &[&str]) {
        let name = name.to_owned();
        let has = |word: &str| scope.iter().any(|it| it.to_ascii_lowercase().ends_with(word));
        let scope = match (has("workspace"), on) {
            (true, _) => Some(SettingScope::Workspace),
            (false, false) => Some(SettingScope::User),
            (false, true) => None,
        };
        self.ask(
            move |launch| {
                let extension = launch.extension_manager().switch_extension(&name, on, scope)?;
                let word = if on { "enabled" } else { "disabled" };
                Ok(format!("`{}` is {word}.", extension.name()))
            },
            |app, done| app.extension_changed(done),
        );
    }

    /// Asks which setting to change, then for its value.
    fn extension_config(&mut self, name: &str, setting: Option<&str>) {
        let (name, setting) = (name.to_owned(), setting.map(str::to_owned));
        self.ask(
            move |launch| launch.extension_manager().known_extension(&name),
            move |app, extension| {
                let extension = match extension {
                    Ok(extension) => extension,
                    Err(failure) => return app.error(failure.message),
                };
                if extension.values.is_empty() {
                    return app.info(format!("`{}` has no settings.", extension.name()));
                }
                if let Some(setting) = setting {
                    return app.extension_value_dialog(&extension, &setting);
                }
                let items = extension.values.iter().map(|value| {
                    let state = if value.value.is_some() { "set" } else { "not set" };
                    let line = Line::styled(clean(&value.setting.description), app.theme.secondary);
                    ListItem::new(value.setting.variable.clone(), clean(&value.setting.name), state)
                        .previewed(vec![line])
                });
                let title = format!("Settings of `{}`", extension.name());
                let list = ListDialog::new(title, items.collect());
                let purpose = Purpose::ExtensionSettings(extension.name().to_owned());
                app.open(Overlay::list(purpose, list));
            },
        );
    }

    /// Handles a setting chosen in the list.
    pub(super) fn extension_setting_chosen(&mut self, extension: &str, variable: &str) {
        self.dialogs.close();
        self.extension_config(extension, Some(variable));
    }

    fn extension_value_dialog(&mut self, extension: &Extension, setting: &str) {
        let known = extension.values.iter().find(|value| {
            value.setting.variable == setting || value.setting.name.eq_ignore_ascii_case(setting)
        });
        let Some(known) = known else {
            return self
                .error(format!("Extension `{}` has no setting `{setting}`.", extension.name()));
        };
        let known = &known.setting;
        let field = if known.sensitive { Field::masked() } else { Field::default() };
        let intro = vec![clean(&known.description), "Leave empty to clear the value.".to_owned()];
        let dialog = FieldDialog::new(clean(&known.name), intro, field);
        let purpose = Purpose::ExtensionValue(extension.name().to_owned(), known.variable.clone());
        self.open(Overlay::field(purpose, dialog));
    }

    /// Handles a typed setting value.
    pub(super) fn extension_value_typed(&mut self, extension: &str, variable: &str, value: &str) {
        self.dialogs.close();
        let (name, variable) = (extension.to_owned(), variable.to_owned());
        let value = value.to_owned();
        self.ask(
            move |launch| {
                let extension = launch.extension_manager().known_extension(&name)?;
                launch.extension_manager().set_extension_value(
                    &extension,
                    &variable,
                    SettingScope::User,
                    Some(&value),
                )?;
                Ok(format!("Saved `{variable}` of `{name}`."))
            },
            |app, done| app.extension_changed(done),
        );
    }

    /// Applies automatic extension updates that ask for no additional permissions. Runs once, when
    /// the first session is open.
    pub(crate) fn update_unasked(&mut self) {
        if self.extensions.looked_for_updates() {
            return;
        }
        let Some(launch) = self.launch.clone() else { return };
        self.effect(Effect::Run(Box::new(move || {
            let told = launch.extension_manager().update_unasked();
            Box::new(move |app| {
                for text in told {
                    app.info(text);
                }
            })
        })));
    }
}
