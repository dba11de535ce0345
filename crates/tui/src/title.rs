//! The window title, padded to 80 columns, because some terminals leave the rest of a longer old
//! title visible.

use parallax_screen::{text_width, truncate};

use crate::layout::truncate_text;

/// Maximum width of a title in columns.
const COLUMNS: usize = 80;

/// The state shown in the title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TitleState {
    Ready,
    Asking,
    /// A command has been silent for long.
    Slow,
    /// Working, with the subject of the current thought.
    Working(String),
}

/// Returns the title. `subject` is whether it includes what the agent is working on.
pub(crate) fn title(state: &TitleState, directory: &str, subject: bool) -> String {
    let text = match state {
        TitleState::Ready => format!("◇  Ready ({directory})"),
        TitleState::Asking => format!("✋  Action Required ({directory})"),
        TitleState::Slow => format!("⏲  Working… ({directory})"),
        TitleState::Working(what) if subject && !what.is_empty() => {
            let room = COLUMNS.saturating_sub(6 + text_width(directory));
            format!("✦  {} ({directory})", truncate_text(what, room))
        }
        TitleState::Working(_) => format!("✦  Working… ({directory})"),
    };
    pad(&text)
}

/// Returns the constant title.
pub(crate) fn fixed_title(directory: &str) -> String {
    pad(&format!("Parallax ({directory})"))
}

fn pad(text: &str) -> String {
    let clean = crate::sanitize::one_row(text);
    let cut = truncate(&clean, COLUMNS);
    format!("{cut}{}", " ".repeat(COLUMNS - text_width(cut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_padded_to_eighty_columns() {
        let long = "日本語 ".repeat(40);
        for state in [
            TitleState::Ready,
            TitleState::Asking,
            TitleState::Slow,
            TitleState::Working(long.clone()),
            TitleState::Working(String::new()),
        ] {
            for directory in ["app", long.as_str(), "a\u{1b}]0;x\u{7}", "\u{202e}ppa"] {
                let title = title(&state, directory, true);
                assert_eq!(text_width(&title), 80, "{title:?}");
                assert!(!title.contains(|char: char| char.is_control() || char == '\u{202e}'));
            }
        }
    }
}
