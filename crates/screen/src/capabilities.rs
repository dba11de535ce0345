//! Terminal capabilities, from the environment and the terminal's answers.

use crate::image::GraphicsProtocol;
use crate::paint::PaintOptions;
use crate::sgr::ColorDepth;

/// Terminals with relevant differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum TerminalKind {
    Alacritty,
    AppleTerminal,
    Foot,
    Ghostty,
    Iterm,
    Kitty,
    Konsole,
    LinuxConsole,
    Screen,
    Tmux,
    Vscode,
    Vte,
    WezTerm,
    WindowsTerminal,
    Xterm,
    /// No cursor movement.
    Dumb,
    Unknown,
}

/// The capabilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The terminal that draws: tmux or screen when running inside one.
    pub terminal: TerminalKind,
    /// The terminal outside tmux or screen, as far as the environment says.
    pub outer: TerminalKind,
    /// The color depth.
    pub depth: ColorDepth,
    /// Whether links (OSC 8) are supported, or at least harmless.
    pub links: bool,
    /// Whether synchronized output is supported (mode 2026).
    pub synchronized: bool,
    /// Whether the kitty keyboard protocol is enabled.
    pub kitty_keyboard: bool,
    /// Whether the terminal has answered a query.
    pub answers: bool,
    /// Whether the kitty graphics protocol is supported.
    pub kitty_graphics: bool,
    /// Whether sixels are supported.
    pub sixel: bool,
    /// Number of sixel colors, if reported.
    pub sixel_colors: Option<u16>,
    /// The width and height of a cell in pixels, if reported.
    pub cell: Option<(u16, u16)>,
}

impl Capabilities {
    /// Detects the capabilities from the environment; `variable` reads a variable.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).unwrap_or_default();
        let outer = from_environment(&variable);
        let term = variable("TERM");
        let terminal = if !variable("TMUX").is_empty() || term.starts_with("tmux") {
            TerminalKind::Tmux
        } else if !variable("STY").is_empty() || term.starts_with("screen") {
            TerminalKind::Screen
        } else {
            outer
        };
        let mut capabilities = Self {
            terminal,
            outer,
            depth: depth(&variable, terminal, outer),
            links: false,
            synchronized: false,
            kitty_keyboard: false,
            answers: false,
            kitty_graphics: false,
            sixel: false,
            sixel_colors: None,
            cell: None,
        };
        capabilities.apply_terminal(terminal);
        capabilities
    }

    /// Sets the capabilities of an identified terminal.
    fn apply_terminal(&mut self, terminal: TerminalKind) {
        use TerminalKind as T;
        self.terminal = terminal;
        self.links = matches!(
            terminal,
            T::Alacritty
                | T::Foot
                | T::Ghostty
                | T::Iterm
                | T::Kitty
                | T::Konsole
                | T::Vscode
                | T::Vte
                | T::WezTerm
                | T::WindowsTerminal
        );
        self.synchronized |= matches!(
            terminal,
            T::Alacritty | T::Foot | T::Ghostty | T::Iterm | T::Kitty | T::WezTerm
        );
    }

    /// Identifies the terminal from its reported name and version.
    pub(crate) fn identify(&mut self, version: &str) {
        let lower = version.to_ascii_lowercase();
        let known = [
            ("tmux", TerminalKind::Tmux),
            ("kitty", TerminalKind::Kitty),
            ("wezterm", TerminalKind::WezTerm),
            ("iterm2", TerminalKind::Iterm),
            ("ghostty", TerminalKind::Ghostty),
            ("alacritty", TerminalKind::Alacritty),
            ("foot", TerminalKind::Foot),
            ("vte", TerminalKind::Vte),
            ("konsole", TerminalKind::Konsole),
            ("xterm.js", TerminalKind::Vscode),
            ("windows terminal", TerminalKind::WindowsTerminal),
            ("xterm", TerminalKind::Xterm),
        ];
        if let Some((_, terminal)) = known.iter().find(|(name, _)| lower.starts_with(name)) {
            self.apply_terminal(*terminal);
        }
    }

    /// Whether rows that become too long for the window are wrapped; `None` if unknown.
    pub fn wraps_on_resize(&self) -> Option<bool> {
        match self.terminal {
            TerminalKind::Xterm
            | TerminalKind::LinuxConsole
            | TerminalKind::Screen
            | TerminalKind::Dumb => Some(false),
            TerminalKind::Unknown => None,
            _ => Some(true),
        }
    }

    /// Returns the graphics protocol, if any.
    pub fn graphics(&self) -> Option<GraphicsProtocol> {
        use TerminalKind as T;
        match self.terminal {
            // They draw what they support themselves and hide the rest from the terminal behind
            // them.
            T::Tmux | T::Screen => self.sixel.then_some(GraphicsProtocol::Sixel),
            T::Dumb | T::LinuxConsole => None,
            T::Iterm | T::WezTerm => Some(GraphicsProtocol::Iterm),
            T::Kitty | T::Ghostty => Some(GraphicsProtocol::Kitty),
            _ if self.kitty_graphics => Some(GraphicsProtocol::Kitty),
            // Its image add-on supports both, and this one keeps all colors.
            T::Vscode if self.sixel => Some(GraphicsProtocol::Iterm),
            _ => self.sixel.then_some(GraphicsProtocol::Sixel),
        }
    }

    /// Whether images may be sent with this protocol if the user asks for it: a multiplexer
    /// misreads unknown sequences.
    pub fn may_send(&self, graphics: GraphicsProtocol) -> bool {
        match self.terminal {
            TerminalKind::Tmux | TerminalKind::Screen => graphics == GraphicsProtocol::Sixel,
            TerminalKind::Dumb | TerminalKind::LinuxConsole => false,
            _ => true,
        }
    }

    /// Whether kitty graphics may be queried: tmux takes the query for a title, and others print
    /// it.
    pub(crate) fn may_be_asked_for_graphics(&self) -> bool {
        !matches!(
            self.terminal,
            TerminalKind::Tmux | TerminalKind::Screen | TerminalKind::AppleTerminal
        )
    }

    /// Whether queries may be sent: the Linux console and dumb terminals would print them.
    pub(crate) fn accepts_queries(&self) -> bool {
        !matches!(self.terminal, TerminalKind::Dumb | TerminalKind::LinuxConsole)
    }

    pub(crate) fn paint_options(&self) -> PaintOptions {
        PaintOptions { depth: self.depth, links: self.links, synchronized: self.synchronized }
    }
}

fn from_environment(variable: &impl Fn(&str) -> String) -> TerminalKind {
    let program = variable("TERM_PROGRAM").to_ascii_lowercase();
    let by_program = match program.as_str() {
        "iterm.app" => Some(TerminalKind::Iterm),
        "ghostty" => Some(TerminalKind::Ghostty),
        "apple_terminal" => Some(TerminalKind::AppleTerminal),
        "vscode" => Some(TerminalKind::Vscode),
        "wezterm" => Some(TerminalKind::WezTerm),
        "alacritty" => Some(TerminalKind::Alacritty),
        _ => None,
    };
    if let Some(terminal) = by_program {
        return terminal;
    }
    for (name, terminal) in [
        ("KITTY_WINDOW_ID", TerminalKind::Kitty),
        ("GHOSTTY_RESOURCES_DIR", TerminalKind::Ghostty),
        ("ALACRITTY_WINDOW_ID", TerminalKind::Alacritty),
        ("WT_SESSION", TerminalKind::WindowsTerminal),
        ("WEZTERM_PANE", TerminalKind::WezTerm),
        ("ITERM_SESSION_ID", TerminalKind::Iterm),
        ("KONSOLE_VERSION", TerminalKind::Konsole),
        ("VTE_VERSION", TerminalKind::Vte),
        ("XTERM_VERSION", TerminalKind::Xterm),
    ] {
        if !variable(name).is_empty() {
            return terminal;
        }
    }
    match variable("TERM").as_str() {
        "dumb" => TerminalKind::Dumb,
        "linux" => TerminalKind::LinuxConsole,
        "xterm-kitty" => TerminalKind::Kitty,
        "xterm-ghostty" => TerminalKind::Ghostty,
        "alacritty" | "alacritty-direct" => TerminalKind::Alacritty,
        "wezterm" => TerminalKind::WezTerm,
        term if term.starts_with("foot") => TerminalKind::Foot,
        _ => TerminalKind::Unknown,
    }
}

fn depth(
    variable: &impl Fn(&str) -> String,
    terminal: TerminalKind,
    outer: TerminalKind,
) -> ColorDepth {
    // By convention, any non-empty value counts.
    if !variable("NO_COLOR").is_empty() {
        return ColorDepth::None;
    }
    match variable("FORCE_COLOR").as_str() {
        "0" | "false" => return ColorDepth::None,
        "1" | "true" => return ColorDepth::Ansi16,
        "2" => return ColorDepth::Ansi256,
        "3" => return ColorDepth::True,
        _ => {}
    }
    let term = variable("TERM");
    if terminal == TerminalKind::Dumb {
        return ColorDepth::None;
    }
    if matches!(variable("COLORTERM").as_str(), "truecolor" | "24bit")
        && terminal != TerminalKind::Screen
    {
        return ColorDepth::True;
    }
    use TerminalKind as T;
    match terminal {
        T::Alacritty
        | T::Foot
        | T::Ghostty
        | T::Iterm
        | T::Kitty
        | T::Konsole
        | T::Vscode
        | T::Vte
        | T::WezTerm
        | T::WindowsTerminal => ColorDepth::True,
        T::LinuxConsole => ColorDepth::Ansi16,
        T::AppleTerminal => ColorDepth::Ansi256,
        _ if term.ends_with("-direct") => ColorDepth::True,
        _ if term.contains("256color") => ColorDepth::Ansi256,
        T::Tmux if outer != T::Unknown => ColorDepth::Ansi256,
        _ => ColorDepth::Ansi16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> Capabilities {
        Capabilities::detect(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn color_depth_follows_the_environment() {
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(detect(&[xterm]).depth, ColorDepth::Ansi256);
        assert_eq!(detect(&[xterm, ("COLORTERM", "truecolor")]).depth, ColorDepth::True);
        assert_eq!(detect(&[xterm, ("NO_COLOR", "1")]).depth, ColorDepth::None);
        assert_eq!(detect(&[xterm, ("NO_COLOR", "")]).depth, ColorDepth::Ansi256);
        assert_eq!(detect(&[xterm, ("FORCE_COLOR", "3")]).depth, ColorDepth::True);
        assert_eq!(detect(&[("TERM", "dumb")]).depth, ColorDepth::None);
        assert_eq!(detect(&[("TERM", "linux")]).depth, ColorDepth::Ansi16);
    }

    #[test]
    fn multiplexer_hides_the_outer_terminal() {
        let inside = detect(&[("TMUX", "/x"), ("TERM", "tmux-256color"), ("KITTY_WINDOW_ID", "1")]);
        assert_eq!((inside.terminal, inside.outer), (TerminalKind::Tmux, TerminalKind::Kitty));
        assert_eq!((inside.wraps_on_resize(), inside.links), (Some(true), false));
    }

    #[test]
    fn terminal_reply_overrides_the_environment() {
        let mut remote = detect(&[("TERM", "xterm-256color")]);
        assert_eq!(remote.wraps_on_resize(), None);
        remote.identify("XTerm(390)");
        assert_eq!(remote.wraps_on_resize(), Some(false));
        remote.identify("xterm.js(5.6.0)");
        assert_eq!(remote.wraps_on_resize(), Some(true));
    }

    #[test]
    fn image_protocol_follows_the_terminal() {
        let by_name = |name, value| detect(&[(name, value)]).graphics();
        assert_eq!(by_name("KITTY_WINDOW_ID", "1"), Some(GraphicsProtocol::Kitty));
        assert_eq!(by_name("TERM", "xterm-ghostty"), Some(GraphicsProtocol::Kitty));
        assert_eq!(by_name("TERM_PROGRAM", "iTerm.app"), Some(GraphicsProtocol::Iterm));
        assert_eq!(by_name("TERM_PROGRAM", "WezTerm"), Some(GraphicsProtocol::Iterm));
        for name in ["vscode", "Apple_Terminal", "alacritty", "xyz"] {
            assert_eq!(by_name("TERM_PROGRAM", name), None, "{name}");
        }
        let output = |variables: &[_], kitty, sixel| {
            Capabilities { kitty_graphics: kitty, sixel, ..detect(variables) }.graphics()
        };
        assert_eq!(output(&[("TERM", "xterm")], false, true), Some(GraphicsProtocol::Sixel));
        assert_eq!(
            output(&[("KONSOLE_VERSION", "230800")], true, true),
            Some(GraphicsProtocol::Kitty)
        );
        assert_eq!(
            output(&[("TERM_PROGRAM", "vscode")], false, true),
            Some(GraphicsProtocol::Iterm)
        );
        let inside = [("TMUX", "/x"), ("KITTY_WINDOW_ID", "1")];
        assert_eq!(output(&inside, true, false), None);
        assert_eq!(output(&inside, false, true), Some(GraphicsProtocol::Sixel));
        assert!(!detect(&inside).may_send(GraphicsProtocol::Kitty));
        assert!(detect(&[("TERM", "xterm")]).may_send(GraphicsProtocol::Kitty));
    }
}
