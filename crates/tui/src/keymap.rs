//! Key bindings: the default table, changed by `keybindings.json`. What a command does is defined
//! elsewhere.

mod command;
mod edit_keys;
mod file;
mod help;
pub mod key_text;
mod platform;

use std::collections::{HashMap, HashSet};

use parallax_screen::Key;

pub use command::{Group, KeyCommand, KeymapContext};
pub use platform::Platform;

/// The active key bindings.
#[derive(Debug, Clone)]
pub struct Keymap {
    platform: Platform,
    keys: HashMap<KeyCommand, Vec<Key>>,
    /// The commands of a key, in table order.
    commands: HashMap<Key, Vec<KeyCommand>>,
    /// User bindings, which replace the default meaning of a key.
    user_bindings: HashSet<(Key, KeyCommand)>,
    warnings: Vec<String>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self::load(Platform::HERE, "")
    }
}

impl Keymap {
    /// Returns the defaults of `platform` changed by the text of `keybindings.json` (empty without
    /// a file). Invalid entries are skipped and reported in [`warnings`](Self::warnings).
    pub fn load(platform: Platform, file: &str) -> Self {
        let mut keys: HashMap<KeyCommand, Vec<Key>> = HashMap::new();
        for command in KeyCommand::all() {
            // A test checks that every default is a valid key.
            let defaults =
                command.default_keys(platform).filter_map(|text| key_text::parse(text).ok());
            keys.insert(command, defaults.collect());
        }
        let (changes, mut warnings) = file::read(file);
        let mut user_bindings = HashSet::new();
        for change in changes {
            let bound = keys.entry(change.command).or_default();
            let before = bound.len();
            bound.retain(|key| *key != change.key);
            let is_new = bound.len() == before;
            user_bindings.remove(&(change.key, change.command));
            if !change.remove {
                // Repeating a default replaces nothing.
                if is_new {
                    user_bindings.insert((change.key, change.command));
                }
                // The help shows the user's own key first.
                bound.insert(0, change.key);
            } else if is_new {
                let label = key_text::label(change.key, platform);
                warnings.push(format!("`{}` is not bound to {label}", change.command.id()));
            }
        }
        let mut commands: HashMap<Key, Vec<KeyCommand>> = HashMap::new();
        for command in KeyCommand::all() {
            for key in keys.get(&command).into_iter().flatten() {
                commands.entry(*key).or_default().push(command);
            }
        }
        Self { platform, keys, commands, user_bindings, warnings }
    }

    /// Returns the invalid entries of `keybindings.json` and its conflicts, one sentence each.
    pub fn problems(&self) -> Vec<String> {
        self.warnings.iter().cloned().chain(self.conflicts()).collect()
    }

    /// Returns the problems in `keybindings.json`, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the platform of the bindings.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// Returns the commands of a key in a context, in the order in which to try them. Commands
    /// specific to the context come first.
    pub fn commands_for(
        &self,
        key: Key,
        context: KeymapContext,
    ) -> impl Iterator<Item = KeyCommand> {
        let key = key_text::normalize(key);
        let found = |key| self.commands.get(&key_text::normalize(key)).map(Vec::as_slice);
        // Most terminals send the same byte for these three.
        let alike = || ['7', '/'].into_iter().find_map(|char| found(Key::ctrl(char)));
        let commands = match found(key) {
            None if key == Key::ctrl('_') => alike().unwrap_or_default(),
            commands => commands.unwrap_or_default(),
        };
        let here = move |command: &KeyCommand| command.contexts().intersects(context);
        let is_own = move |command: &KeyCommand| self.user_bindings.contains(&(key, *command));
        let is_used = commands.iter().any(|command| here(command) && is_own(command));
        let counts = move |command: &KeyCommand| here(command) && (!is_used || is_own(command));
        commands.iter().copied().filter(counts)
    }

    /// Returns the first command of a key in a context.
    pub fn command(&self, key: Key, context: KeymapContext) -> Option<KeyCommand> {
        self.commands_for(key, context).next()
    }

    /// Whether the key is bound to this command in any context.
    pub fn is_bound(&self, key: Key, command: KeyCommand) -> bool {
        self.keys.get(&command).is_some_and(|keys| keys.contains(&key_text::normalize(key)))
    }

    /// Returns the keys of a command for display (`Ctrl+X`), most important first, without keys
    /// that are overridden in every context of the command.
    pub fn keys_of(&self, command: KeyCommand) -> Vec<String> {
        self.keys_within(command, &KeymapContext::EACH)
    }

    /// Returns the keys that run a command in a context.
    pub fn keys_in(&self, command: KeyCommand, context: KeymapContext) -> Vec<String> {
        self.keys_within(command, &[context])
    }

    fn keys_within(&self, command: KeyCommand, contexts: &[KeymapContext]) -> Vec<String> {
        let keys = self.keys.get(&command).map_or(&[][..], Vec::as_slice);
        let runs = |key: &&Key| {
            let here = |context: &KeymapContext| {
                self.commands_for(**key, *context).any(|it| it == command)
            };
            contexts.iter().any(here)
        };
        keys.iter().filter(runs).map(|key| key_text::label(*key, self.platform)).collect()
    }

    /// Returns the first key of a command for display; empty if it has none.
    pub fn key_of(&self, command: KeyCommand) -> String {
        self.keys_of(command).into_iter().next().unwrap_or_default()
    }

    /// Returns the first key of a command for a hint, in lower case (`ctrl+x`); empty if it has
    /// none.
    pub fn hint_key(&self, command: KeyCommand) -> String {
        self.key_of(command).to_lowercase()
    }

    /// Returns sentences about commands whose keys were overridden by user bindings.
    pub fn override_notices(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (key, command) in &self.user_bindings {
            let is_lost = |other: &KeyCommand| {
                !self.user_bindings.contains(&(*key, *other))
                    && other.contexts().intersects(command.contexts())
            };
            let others = self.commands.get(key).into_iter().flatten().copied();
            let lost: Vec<String> = others
                .filter(|other| is_lost(other) && KeyCommand::implemented().any(|it| it == *other))
                .map(|other| format!("`{}`", other.id()))
                .collect();
            if !lost.is_empty() {
                let label = key_text::label(*key, self.platform);
                let lost = lost.join(", ");
                found.push(format!("{label} runs `{}` instead of {lost}", command.id()));
            }
        }
        found.sort();
        found
    }

    /// Returns sentences about keys that run several commands in one context beyond the defaults.
    pub fn conflicts(&self) -> Vec<String> {
        let defaults = Self::load(self.platform, "");
        let mut found = Vec::new();
        for (key, commands) in &self.commands {
            for (index, first) in commands.iter().enumerate() {
                for second in commands.iter().skip(index + 1) {
                    let is_default =
                        defaults.is_bound(*key, *first) && defaults.is_bound(*key, *second);
                    let is_own =
                        |command: &KeyCommand| self.user_bindings.contains(&(*key, *command));
                    // A user binding replaces a default.
                    let is_override = is_own(first) != is_own(second);
                    if !is_default && !is_override && first.contexts().intersects(second.contexts())
                    {
                        let label = key_text::label(*key, self.platform);
                        found.push(format!(
                            "{label} runs both `{}` and `{}`",
                            first.id(),
                            second.id()
                        ));
                    }
                }
            }
        }
        found.sort();
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use parallax_screen::{KeyCode, Modifiers};

    use super::*;

    #[test]
    fn every_default_is_a_key_and_every_id_is_unique() {
        let mut ids = HashSet::new();
        for command in KeyCommand::all() {
            assert!(ids.insert(command.id()), "{} twice", command.id());
            assert_eq!(KeyCommand::from_id(command.id()), Some(command));
            for platform in [Platform::Linux, Platform::Mac, Platform::Windows] {
                for key in command.default_keys(platform) {
                    assert!(key_text::parse(key).is_ok(), "{key} of {}", command.id());
                }
            }
        }
    }

    #[test]
    fn key_file_adds_and_removes_bindings() {
        let file = r#"[
            // mine
            { "command": "edit.undo", "key": "ctrl+7" },
            { "command": "-edit.undo", "key": "ctrl+z" },
        ]"#;
        let keymap = Keymap::load(Platform::Linux, file);
        assert_eq!(keymap.warnings(), &[] as &[String]);
        assert_eq!(keymap.keys_of(KeyCommand::Undo), ["Ctrl+7", "Alt+Z", "Super+Z"]);
        assert_eq!(
            keymap.command(Key::ctrl('z'), KeymapContext::COMPOSER),
            Some(KeyCommand::Suspend)
        );
    }

    #[test]
    fn invalid_key_bindings_are_reported_and_skipped() {
        let file = r#"[
            { "command": "edit.undo", "key": "hyper+z" },
            { "command": "edit.nothing", "key": "ctrl+z" },
            { "command": "-edit.undo", "key": "ctrl+9" },
            { "command": "app.voiceModePTT", "key": "space" },
            { "key": "x" },
            7,
            { "command": "edit.undo", "key": "ctrl+8" }
        ]"#;
        let keymap = Keymap::load(Platform::Linux, file);
        assert_eq!(keymap.warnings().len(), 6, "{:?}", keymap.warnings());
        assert_eq!(keymap.key_of(KeyCommand::Undo), "Ctrl+8");
        for broken in ["{", "{}", "nonsense"] {
            assert_eq!(Keymap::load(Platform::Linux, broken).warnings().len(), 1, "{broken}");
        }
    }

    #[test]
    fn key_command_depends_on_the_context() {
        let keymap = Keymap::load(Platform::Linux, "");
        let enter = Key::plain(KeyCode::Enter);
        let of = |key, context| keymap.commands_for(key, context).collect::<Vec<_>>();
        assert_eq!(of(enter, KeymapContext::COMPOSER), [KeyCommand::Confirm, KeyCommand::Submit]);
        assert_eq!(
            of(enter, KeymapContext::SEARCH),
            [KeyCommand::Confirm, KeyCommand::SearchSubmit]
        );
        assert_eq!(
            of(Key::ctrl('y'), KeymapContext::COMPOSER),
            [KeyCommand::Yank, KeyCommand::ToggleYolo]
        );
        assert_eq!(of(Key::ctrl('y'), KeymapContext::LIST), [KeyCommand::ToggleYolo]);
        assert_eq!(of(Key::ctrl('k'), KeymapContext::BACKGROUND), [KeyCommand::BackgroundKill]);
        let shift_tab = Key::with(KeyCode::Tab, Modifiers::SHIFT);
        assert_eq!(of(shift_tab, KeymapContext::SHELL), [KeyCommand::UnfocusShell]);
        assert_eq!(
            of(Key::plain(KeyCode::Char('R')), KeymapContext::DIALOG),
            [KeyCommand::Restart]
        );
    }

    #[test]
    fn new_key_conflict_is_reported_and_an_intended_one_is_not() {
        assert_eq!(Keymap::load(Platform::Linux, "").conflicts(), [] as [String; 0]);
        let file = r#"[{ "command": "app.toggleMarkdown", "key": "ctrl+9" },
            { "command": "app.showFullTodos", "key": "ctrl+9" }]"#;
        let conflicts = Keymap::load(Platform::Linux, file).conflicts();
        assert_eq!(conflicts, ["Ctrl+9 runs both `app.showFullTodos` and `app.toggleMarkdown`"]);
    }

    #[test]
    fn user_binding_replaces_other_commands_of_its_context() {
        let file = r#"[{ "command": "input.submit", "key": "ctrl+t" }]"#;
        let keymap = Keymap::load(Platform::Linux, file);
        let of = |context| keymap.commands_for(Key::ctrl('t'), context).collect::<Vec<_>>();
        assert_eq!(of(KeymapContext::COMPOSER), [KeyCommand::Submit]);
        // The key keeps its meaning in dialogs.
        assert_eq!(of(KeymapContext::DIALOG), [KeyCommand::ShowFullTodos]);
        assert_eq!(keymap.conflicts(), [] as [String; 0]);
        let notice = "Ctrl+T runs `input.submit` instead of `app.showFullTodos`";
        assert_eq!(keymap.override_notices(), [notice]);
        assert_eq!(keymap.keys_in(KeyCommand::ShowFullTodos, KeymapContext::COMPOSER), [""; 0]);
        assert_eq!(keymap.keys_of(KeyCommand::ShowFullTodos), ["Ctrl+T"]);
        let same_binding = r#"[{ "command": "input.submit", "key": "enter" }]"#;
        let keymap = Keymap::load(Platform::Linux, same_binding);
        let enter = Key::plain(KeyCode::Enter);
        let of = keymap.commands_for(enter, KeymapContext::COMPOSER).collect::<Vec<_>>();
        assert_eq!(of, [KeyCommand::Confirm, KeyCommand::Submit]);
        assert_eq!(keymap.override_notices(), [""; 0]);
        // The key is replaced in every context, so it is not shown anymore.
        let log = r#"[{ "command": "app.showErrorDetails", "key": "ctrl+r" }]"#;
        let keymap = Keymap::load(Platform::Linux, log);
        assert_eq!(keymap.keys_of(KeyCommand::SearchStart), [""; 0]);
        assert_eq!(keymap.keys_of(KeyCommand::ShowErrorDetails), ["Ctrl+R", "F12"]);
    }
}
