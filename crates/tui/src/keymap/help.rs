//! The key table as rows for the screen and as Markdown for the documentation.

use std::fmt::Write as _;

use parallax_screen::Line;

use super::{Group, KeyCommand, Keymap, Platform};
use crate::layout::two_columns;
use crate::theme::Theme;

/// Column of the description, unless the keys need more.
const KEYS_COLUMNS: usize = 32;

impl Keymap {
    /// Returns all commands with their keys, under headings, without unbound commands. Long rows
    /// wrap.
    pub fn help_rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let mut rows = Vec::new();
        for group in Group::ALL {
            if !KeyCommand::implemented().any(|command| command.group() == group) {
                continue;
            }
            if !rows.is_empty() {
                rows.push(Line::EMPTY);
            }
            rows.push(Line::styled(group.title(), theme.link.bold()));
            for command in KeyCommand::implemented().filter(|command| command.group() == group) {
                let mut keys = self.keys_of(command);
                if command == KeyCommand::ToggleYolo && keys.len() > 1 {
                    // The row of that command lists the key.
                    let yank_keys = self.keys_of(KeyCommand::Yank);
                    keys.retain(|key| !yank_keys.contains(key));
                }
                let keys = keys.join(", ");
                if keys.is_empty() {
                    continue;
                }
                let keys = Line::styled(format!("  {keys}"), theme.accent);
                let what = Line::styled(command.description(), theme.text);
                rows.extend(two_columns(keys, what, KEYS_COLUMNS, width));
            }
        }
        rows
    }

    /// Returns the default table as the guide page `keys.md`.
    pub fn markdown() -> String {
        let mut text = String::from(
            "# Keys\n\nFor users of the terminal interface: all key commands with their default \
             keys. `?` and `/help` show the keys in effect.\n\nTo change keys, write \
             `~/.gemini/keybindings.json`, an array of\n`{ \"command\": \"edit.undo\", \"key\": \
             \"ctrl+7\" }`; comments are allowed. A `-` before the command removes a \
             key.\nModifiers are `ctrl`, `shift`, `alt` (`opt`, `option`), and `cmd` (`meta`). A \
             key that you bind replaces the default\ncommands of that key in the same context. At \
             startup, a line lists the replaced commands and duplicate keys.\n\nNext: [The \
             terminal](terminal.md) and [Commands](commands.md).\n",
        );
        let [linux, mac, windows] = [Platform::Linux, Platform::Mac, Platform::Windows]
            .map(|platform| Self::load(platform, ""));
        for group in Group::ALL {
            if !KeyCommand::implemented().any(|command| command.group() == group) {
                continue;
            }
            let _ = write!(
                text,
                "\n## {}\n\n| Command | Keys | Action |\n| --- | --- | --- |\n",
                group.title()
            );
            for command in KeyCommand::implemented().filter(|command| command.group() == group) {
                let keys = |keymap: &Self| {
                    let quoted = keymap.keys_of(command).into_iter().map(|key| format!("`{key}`"));
                    quoted.collect::<Vec<_>>().join(" ")
                };
                let mut cell = keys(&linux);
                // Only list other sets of keys, not other names such as `Option` for `Alt`.
                let set = |platform| command.default_keys(platform).collect::<Vec<_>>();
                if set(Platform::Mac) != set(Platform::Linux) {
                    let _ = write!(cell, " (macOS: {}; Windows: {})", keys(&mac), keys(&windows));
                }
                let _ =
                    writeln!(text, "| `{}` | {cell} | {} |", command.id(), command.description());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_page_lists_all_key_commands() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(page, Keymap::markdown()).unwrap();
        }
        let written = std::fs::read_to_string(page).unwrap_or_default();
        assert!(
            written == Keymap::markdown(),
            "docs/keys.md is out of date: run with UPDATE_DOCS=1"
        );
    }

    #[test]
    fn help_shows_a_rebound_key_first() {
        let file = r#"[{ "command": "app.clearScreen", "key": "f5" }]"#;
        let rows = Keymap::load(Platform::Linux, file).help_rows(79, &Theme::default());
        let row =
            rows.iter().map(Line::text).find(|row| row.contains("Redraw the screen")).unwrap();
        assert!(row.starts_with("  F5, Ctrl+L  "), "{row}");
    }
}
