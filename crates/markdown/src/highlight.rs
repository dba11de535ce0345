//! Syntax highlighting. The grammars are loaded on a thread when the first turn begins, so that
//! they are ready before the model writes code. Until then, and beyond the limits, code is plain.
//!
//! A grammar's scopes are mapped to a few [`Role`]s, and the theme defines the style of each role.

mod load;
mod scopes;

use parallax_screen::{Line, Span, Style};
use syntect::parsing::{ParseState, ScopeStack};

pub use load::{is_loaded, is_pending, on_loaded, wait_a_moment};
pub use load::{load, wait_until_loaded};

use parallax_screen::theme::Theme;

/// Maximum size of highlighted code in bytes.
const MAX_BYTES: usize = 512 * 1024;
/// Maximum number of highlighted lines.
const MAX_LINES: usize = 10_000;
/// Maximum length of a highlighted line in bytes.
const MAX_LINE: usize = 2_000;

/// The role of a piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Role {
    Plain,
    Keyword,
    Text,
    Number,
    Comment,
    Function,
    Type,
    Added,
    Removed,
}

impl Role {
    /// Returns the style of the role.
    pub fn style(self, theme: &Theme) -> Style {
        match self {
            Self::Plain => theme.text,
            Self::Keyword => theme.keyword,
            Self::Text => theme.string,
            Self::Number => theme.number,
            Self::Comment => theme.comment,
            Self::Function => theme.function,
            Self::Type => theme.type_name,
            Self::Added => theme.added,
            Self::Removed => theme.removed,
        }
    }
}

/// The pieces of a line of code: the end of each in bytes, and its role. The last ends at the end
/// of the line; an empty line has none.
pub type Pieces = Vec<(usize, Role)>;

/// Highlights code line by line from its first line.
#[derive(Debug, Clone)]
pub struct Highlighter {
    language: String,
    state: HighlightState,
    bytes: usize,
    lines: usize,
}

#[derive(Debug, Clone)]
enum HighlightState {
    /// The grammars are not loaded yet.
    Waiting,
    /// At the start of the next line.
    On { parse: Box<ParseState>, scopes: ScopeStack },
    /// Plain from here on.
    Off,
}

impl Highlighter {
    /// Creates a highlighter for the language of a code fence or file extension. Starts loading the
    /// grammars.
    pub fn new(language: &str) -> Self {
        load();
        Self { language: language.to_owned(), state: HighlightState::Waiting, bytes: 0, lines: 0 }
    }

    /// Whether lines are plain only because the grammars are not loaded yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, HighlightState::Waiting)
    }

    /// Whether the grammars are loaded and one of them is for the language.
    pub fn has_grammar(&self) -> bool {
        load::if_loaded().is_some_and(|syntaxes| syntaxes.find(&self.language, "").is_some())
    }

    /// Returns the pieces of the next line, which is given without its line break.
    pub fn line(&mut self, text: &str) -> Pieces {
        self.begin(text);
        self.bytes += text.len() + 1;
        self.lines += 1;
        if self.bytes > MAX_BYTES || self.lines > MAX_LINES {
            self.state = HighlightState::Off;
        }
        let plain = || if text.is_empty() { Vec::new() } else { vec![(text.len(), Role::Plain)] };
        let Some(syntaxes) = load::if_loaded() else { return plain() };
        let HighlightState::On { parse, scopes } = &mut self.state else { return plain() };
        // The grammar skips this line; wrong colors below it are better than a frame that takes a
        // second.
        if text.len() > MAX_LINE {
            return plain();
        }
        let with_break = format!("{text}\n");
        let Ok(changes) = parse.parse_line(&with_break, &syntaxes.syntaxes) else {
            self.state = HighlightState::Off;
            return plain();
        };
        let mut pieces: Pieces = Vec::new();
        let mut push_span = |end: usize, role: Role| {
            let end = end.min(text.len());
            match pieces.last_mut() {
                Some((last, _)) if end <= *last => {}
                Some((last, same)) if *same == role => *last = end,
                _ if end > 0 => pieces.push((end, role)),
                _ => {}
            }
        };
        for (at, change) in &changes {
            push_span(*at, syntaxes.roles.role(scopes.as_slice()));
            if scopes.apply(change).is_err() {
                push_span(text.len(), Role::Plain);
                self.state = HighlightState::Off;
                return pieces;
            }
        }
        push_span(text.len(), syntaxes.roles.role(scopes.as_slice()));
        pieces
    }

    fn begin(&mut self, first_line: &str) {
        if !self.is_waiting() {
            return;
        }
        if let Some(syntaxes) = load::if_loaded() {
            self.state = match syntaxes.find(&self.language, first_line) {
                Some(syntax) => HighlightState::On {
                    parse: Box::new(ParseState::new(syntax)),
                    scopes: ScopeStack::new(),
                },
                None => HighlightState::Off,
            };
        }
    }
}

/// Highlights a line of a shell command on top of a style.
pub fn shell_line(highlighter: &mut Highlighter, text: &str, style: Style, theme: &Theme) -> Line {
    let mut start = 0;
    let mut line = Line::EMPTY;
    for (end, role) in highlighter.line(text) {
        let piece_style = match role {
            Role::Plain => style,
            role => style.patch(role.style(theme)),
        };
        line.push(Span::styled(text.get(start..end).unwrap_or("").to_owned(), piece_style));
        start = end;
    }
    line
}

/// Returns a highlighter for shell commands.
pub fn shell() -> Highlighter {
    Highlighter::new("bash")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(language: &str, code: &str) -> Vec<Vec<(String, Role)>> {
        wait_until_loaded();
        let mut highlighter = Highlighter::new(language);
        let named = |line: &str, pieces: Pieces| {
            let mut start = 0;
            let mut named = Vec::new();
            for (end, role) in pieces {
                named.push((line[start..end].to_owned(), role));
                start = end;
            }
            assert_eq!(start, line.len());
            named
        };
        code.lines().map(|line| named(line, highlighter.line(line))).collect()
    }

    #[test]
    fn syntax_scopes_are_mapped_to_roles() {
        let lines = roles("rust", "fn main() { // hi\n    let x: u8 = 12;\n    f(\"s\");\n}");
        assert!(lines[0].contains(&("fn".into(), Role::Keyword)), "{lines:?}");
        assert!(lines[0].contains(&("main".into(), Role::Function)), "{lines:?}");
        assert!(lines[0].iter().any(|(_, role)| *role == Role::Comment), "{lines:?}");
        assert!(lines[1].contains(&("12".into(), Role::Number)), "{lines:?}");
        assert!(lines[2].contains(&("\"s\"".into(), Role::Text)), "{lines:?}");
    }

    #[test]
    fn highlight_state_spans_lines() {
        let lines = roles("c", "/* a\nb */ int x;");
        assert_eq!(lines[1][0].1, Role::Comment);
    }

    #[test]
    fn highlight_limits_hold() {
        let long = "x".repeat(MAX_LINE + 1);
        assert_eq!(roles("rust", &long), vec![vec![(long, Role::Plain)]]);
        assert_eq!(roles("no-such-language", "fn x")[0].len(), 1);
    }
}
