//! Selects the theme from the settings and the terminal background.

use std::path::Path;

use parallax_protocol::Object;
use parallax_screen::ColorDepth;
use parallax_sdk::settings::UiSettings;

use crate::theme::Theme;

/// Maximum size of a theme file in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The terminal properties that a theme depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalColors {
    /// The background color, once the terminal has reported it.
    pub(crate) background: Option<(u8, u8, u8)>,
    /// The color depth.
    pub(crate) depth: ColorDepth,
}

/// Returns the background color that `COLORFGBG` states: numbers of the 16 colors, foreground first
/// and background last (`15;0`, `0;default;15`). The color is black or white, because terminals
/// define the 16 colors as they like.
pub(crate) fn stated_background(colorfgbg: &str) -> Option<(u8, u8, u8)> {
    let (_, background) = colorfgbg.rsplit_once(';')?;
    match background.trim().parse::<u8>().ok()? {
        7 | 9..=15 => Some((255, 255, 255)),
        0..=6 | 8 => Some((0, 0, 0)),
        _ => None,
    }
}

/// Returns the theme for the settings and any problem with them. Without a setting, the theme
/// follows the terminal background, if known.
pub(crate) fn choose(settings: &UiSettings, terminal: TerminalColors) -> (Theme, Option<String>) {
    let (theme, problem) = choose_theme(settings, terminal.background);
    (adapt_theme(theme, settings, terminal), problem)
}

/// Adjusts bands and tints to the terminal, unless background colors are disabled.
pub(crate) fn adapt_theme(theme: Theme, settings: &UiSettings, terminal: TerminalColors) -> Theme {
    let theme = match terminal.background {
        Some(background) if settings.background_color => {
            theme.adapt_to_terminal(background, terminal.depth)
        }
        _ => theme,
    };
    with_bands(theme.reduce_to(terminal.depth), settings)
}

/// Returns the theme without backgrounds behind prompts, if they are disabled
/// (`ui.useBackgroundColor`).
fn with_bands(mut theme: Theme, settings: &UiSettings) -> Theme {
    if !settings.background_color {
        theme.band = None;
        theme.input_band = None;
        theme.focus_band = None;
    }
    theme
}

fn choose_theme(
    settings: &UiSettings,
    background: Option<(u8, u8, u8)>,
) -> (Theme, Option<String>) {
    if is_colorless() {
        return (Theme::no_color(), None);
    }
    let default_theme = || background.map(Theme::default_for).unwrap_or_default();
    let Some(name) = &settings.theme else { return (default_theme(), None) };
    match find_theme(name, &settings.custom_themes) {
        Ok(theme) => {
            let suits = background.is_none_or(|background| theme.is_readable_on(background));
            match (suits, settings.auto_theme) {
                (false, true) if theme.name.starts_with("Default") => (default_theme(), None),
                _ => (theme, None),
            }
        }
        Err(reason) => (default_theme(), Some(format!("`ui.theme`: {reason}"))),
    }
}

/// Whether the user disabled all colors.
pub(crate) fn is_colorless() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Returns a theme by name: a custom one, a built-in one, or a file in the home directory.
pub(crate) fn find_theme(name: &str, custom: &Object) -> Result<Theme, String> {
    if let Some(own) = custom.get(name) {
        let mut theme = Theme::custom(own).map_err(|error| error.to_string())?;
        name.clone_into(&mut theme.name);
        return Ok(theme);
    }
    if name.ends_with(".json") || name.contains('/') {
        return from_file(Path::new(name));
    }
    Theme::by_name(name).map_err(|error| error.to_string())
}

fn from_file(path: &Path) -> Result<Theme, String> {
    let error_text = |error: std::io::Error| format!("`{}`: {error}", path.display());
    let home = std::env::home_dir().ok_or("the home directory is unknown")?;
    let path = match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => path.to_owned(),
    };
    let real = path.canonicalize().map_err(error_text)?;
    let home = home.canonicalize().map_err(error_text)?;
    if !real.starts_with(&home) {
        return Err(format!("`{}` is not in your home directory", path.display()));
    }
    if std::fs::metadata(&real).map_err(error_text)?.len() > MAX_BYTES {
        return Err(format!("`{}` is too large for a theme", path.display()));
    }
    let text = std::fs::read_to_string(&real).map_err(error_text)?;
    Theme::from_json(&text).map_err(|error| error.to_string())
}

/// Returns all theme names, each with whether it is light.
pub(crate) fn names(custom: &Object) -> Vec<(String, bool)> {
    let own = custom.keys().cloned();
    let known = own.chain(Theme::names().map(str::to_owned));
    known
        .map(|name| {
            let light = find_theme(&name, custom).is_ok_and(|theme| theme.light);
            (name, light)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_is_read_from_the_last_number() {
        assert_eq!(stated_background("15;0"), Some((0, 0, 0)));
        assert_eq!(stated_background("0;default;15"), Some((255, 255, 255)));
        for unknown in ["", "15", "15;default", "15;300", "x;-1", "0;16"] {
            assert_eq!(stated_background(unknown), None, "{unknown}");
        }
    }
}
