//! Terminal sequences other than rows: title, progress, notifications, the clipboard. Control
//! characters are removed from their text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::capabilities::{Capabilities, TerminalKind};
use crate::layout::truncate_text;
use crate::sanitize::one_row;

/// Maximum size in bytes of copied text: terminals drop longer sequences.
const COPY_CAP: usize = 1 << 20;
/// Maximum width in columns of a window title and of the title of a notification.
const TITLE_COLUMNS: usize = 200;
/// Maximum width in columns of the text of a notification.
const TEXT_COLUMNS: usize = 180;

/// Progress as shown in the terminal's tab or task bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskbarProgress {
    /// No progress is shown.
    None,
    /// The percentage done.
    Percent(u8),
    /// In progress, with unknown duration.
    Busy,
    /// Failed.
    Error,
}

/// The kind of notification sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationSequence {
    /// Selected by the terminal.
    Auto,
    /// OSC 9: one text.
    Osc9,
    /// OSC 777: title and text.
    Osc777,
    /// Only the bell.
    Bell,
}

pub(crate) fn title(text: &str) -> Vec<u8> {
    format!("\x1b]0;{}\x07", visible_row(text, TITLE_COLUMNS)).into_bytes()
}

pub(crate) fn progress(progress: TaskbarProgress) -> Vec<u8> {
    let state = match progress {
        TaskbarProgress::None => "0;0".to_owned(),
        TaskbarProgress::Percent(percent) => format!("1;{}", percent.min(100)),
        TaskbarProgress::Error => "2;100".to_owned(),
        TaskbarProgress::Busy => "3;0".to_owned(),
    };
    format!("\x1b]9;4;{state}\x07").into_bytes()
}

pub(crate) fn notification(
    way: NotificationSequence,
    title: &str,
    text: &str,
    capabilities: &Capabilities,
) -> Vec<u8> {
    let way = match (way, capabilities.outer) {
        (NotificationSequence::Auto, TerminalKind::Iterm) => NotificationSequence::Osc9,
        (
            NotificationSequence::Auto,
            TerminalKind::Alacritty
            | TerminalKind::AppleTerminal
            | TerminalKind::Vscode
            | TerminalKind::WindowsTerminal
            | TerminalKind::LinuxConsole
            | TerminalKind::Dumb,
        ) => NotificationSequence::Bell,
        (NotificationSequence::Auto, _) => NotificationSequence::Osc777,
        (way, _) => way,
    };
    let (title, text) = (visible_row(title, TITLE_COLUMNS), visible_row(text, TEXT_COLUMNS));
    match way {
        NotificationSequence::Bell | NotificationSequence::Auto => vec![0x07],
        NotificationSequence::Osc9 => {
            let separator = if title.is_empty() || text.is_empty() { "" } else { ": " };
            wrap_passthrough(
                format!("\x1b]9;{title}{separator}{text}\x07").as_bytes(),
                capabilities,
            )
        }
        NotificationSequence::Osc777 => {
            let (title, text) = (title.replace(';', ":"), text.replace(';', ":"));
            wrap_passthrough(format!("\x1b]777;notify;{title};{text}\x07").as_bytes(), capabilities)
        }
    }
}

/// Returns the sequence that copies text to the clipboard, or `None` if it is too long.
pub(crate) fn copy(text: &str, capabilities: &Capabilities) -> Option<Vec<u8>> {
    if text.len() > COPY_CAP {
        return None;
    }
    let sequence = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    let mut out = wrap_passthrough(sequence.as_bytes(), capabilities);
    if capabilities.terminal == TerminalKind::Tmux {
        // By default tmux passes nothing on; with `set-clipboard on` it handles the sequence
        // itself.
        out.extend_from_slice(sequence.as_bytes());
    }
    Some(out)
}

/// Returns the sequence that requests the clipboard text.
pub(crate) fn query_clipboard(capabilities: &Capabilities) -> Vec<u8> {
    wrap_passthrough(b"\x1b]52;c;?\x07", capabilities)
}

/// Wraps a sequence so that tmux or screen pass it on to the terminal behind them.
fn wrap_passthrough(sequence: &[u8], capabilities: &Capabilities) -> Vec<u8> {
    match capabilities.terminal {
        TerminalKind::Tmux => {
            let mut out = b"\x1bPtmux;".to_vec();
            for byte in sequence {
                if *byte == 0x1b {
                    out.push(0x1b);
                }
                out.push(*byte);
            }
            out.extend_from_slice(b"\x1b\\");
            out
        }
        // screen limits the length of strings, so a long sequence is split.
        TerminalKind::Screen => {
            sequence.chunks(240).flat_map(|piece| [b"\x1bP", piece, b"\x1b\\"].concat()).collect()
        }
        _ => sequence.to_vec(),
    }
}

/// Returns text as one short row in which nothing is hidden, as it is shown in the window.
fn visible_row(text: &str, columns: usize) -> String {
    truncate_text(&one_row(text), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(name: &'static str) -> Capabilities {
        Capabilities::detect(|variable| (variable == "TERM").then(|| name.to_owned()))
    }

    #[test]
    fn osc_text_cannot_end_its_sequence() {
        assert_eq!(title("a\x07\x1b]b\u{9c}c"), b"\x1b]0;ac\x07");
    }

    #[test]
    fn notification_text_is_short_and_shows_hidden_characters() {
        let text = format!("touch a\u{202e}b\u{200b} \x1b[31mred {}", "x".repeat(500));
        let sent = notification(NotificationSequence::Osc9, "", &text, &inside("xterm"));
        let sent = String::from_utf8(sent).expect("text");
        assert!(sent.starts_with("\x1b]9;touch a<U+202E>b<U+200B> red xxx"), "{sent:?}");
        assert!(sent.ends_with("x…\x07") && sent.chars().count() < 190, "{sent:?}");
    }

    #[test]
    fn tmux_forwards_or_stores_a_copy() {
        assert_eq!(
            copy("hi", &inside("tmux-256color")).unwrap(),
            b"\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\\x1b]52;c;aGk=\x07"
        );
        assert_eq!(copy("hi", &inside("xterm")).unwrap(), b"\x1b]52;c;aGk=\x07");
        assert_eq!(copy(&"x".repeat(COPY_CAP + 1), &inside("xterm")), None);
    }

    #[test]
    fn separators_in_a_notification_are_replaced() {
        let sent = notification(NotificationSequence::Osc777, "a;b", "c;d", &inside("xterm"));
        assert_eq!(sent, b"\x1b]777;notify;a:b;c:d\x07");
    }
}
