//! The answers of a terminal to queries.

/// The queries that a terminal answers, and the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// The name and version (XTVERSION).
    pub version: Option<&'static str>,
    /// The background color (OSC 11).
    pub background: Option<(u8, u8, u8)>,
    /// Whether it supports the kitty keyboard protocol.
    pub kitty_keyboard: bool,
    /// Whether it supports synchronized output (mode 2026).
    pub synchronized: bool,
    /// Whether it answers the queries that all terminals know: attributes (DA1), cursor position,
    /// and window size.
    pub answers_basic_queries: bool,
}

impl Answers {
    /// Returns a modern dark terminal that supports everything.
    pub fn modern() -> Self {
        Self {
            version: Some("ghostty 1.2.0"),
            background: Some((0x16, 0x18, 0x1d)),
            kitty_keyboard: true,
            synchronized: true,
            answers_basic_queries: true,
        }
    }

    /// Returns a terminal that answers only the basic queries.
    pub fn basic() -> Self {
        Self {
            version: None,
            background: None,
            kitty_keyboard: false,
            synchronized: false,
            answers_basic_queries: true,
        }
    }

    /// Returns a terminal that answers no queries.
    pub fn silent() -> Self {
        Self { answers_basic_queries: false, ..Self::basic() }
    }

    /// Returns the answer to a control sequence, if it is a query.
    pub(super) fn answer_to(&self, sequence: &str, now: &QueryState<'_>) -> Option<String> {
        if let Some(mode) = sequence.strip_prefix("\x1b[?").and_then(|rest| rest.strip_suffix("$p"))
        {
            return self.mode(mode, now);
        }
        match sequence {
            "\x1b[?u" => self.kitty_keyboard.then(|| format!("\x1b[?{}u", now.keyboard)),
            "\x1b[>q" | "\x1b[>0q" => self.version.map(|name| format!("\x1bP>|{name}\x1b\\")),
            "\x1b]11;?\x1b\\" | "\x1b]11;?\x07" => self.background.map(|(red, green, blue)| {
                format!("\x1b]11;rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}\x1b\\")
            }),
            "\x1b[c" | "\x1b[0c" => self.answers_basic_queries.then(|| "\x1b[?62;22c".to_owned()),
            "\x1b[18t" => self.answers_basic_queries.then(|| format!("\x1b[8;{};{}t", now.size.1, now.size.0)),
            "\x1b[6n" => self
                .answers_basic_queries
                .then(|| format!("\x1b[{};{}R", now.cursor.1 + 1, now.cursor.0 + 1)),
            _ => None,
        }
    }

    fn mode(&self, mode: &str, now: &QueryState<'_>) -> Option<String> {
        let number: u16 = mode.parse().ok()?;
        let known = self.synchronized && number == 2026;
        let state = match (known, now.modes.contains(&number)) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        (known || self.synchronized).then(|| format!("\x1b[?{number};{state}$y"))
    }
}

/// The state of the terminal at the time of a query.
pub(super) struct QueryState<'a> {
    /// Columns and rows.
    pub(super) size: (usize, usize),
    /// Column and row, from 0.
    pub(super) cursor: (usize, usize),
    /// Private modes that are on.
    pub(super) modes: &'a std::collections::BTreeSet<u16>,
    /// Flags of the kitty keyboard protocol.
    pub(super) keyboard: u16,
}
