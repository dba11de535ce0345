//! The result of analyzing a shell line.

/// An analyzed shell line. `commands` contains every simple command that bash could start while it
/// runs the line: in lists, pipes, substitutions, function bodies, here-documents, and after
/// wrappers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellLine {
    /// The commands in source order. A wrapper (`env`, `sudo`, `xargs`, …) and the command it
    /// starts are two entries.
    pub commands: Vec<Command>,
    /// All redirections, including here-documents.
    pub redirections: Vec<Redirection>,
    /// Why the line cannot be analyzed; the other fields are then incomplete. No rule may allow
    /// such a line, except in yolo mode.
    pub unanalyzable_reason: Option<String>,
    /// Why a part of what an expanded line runs is not visible in it, although the line itself
    /// produces that part.
    pub hidden: Option<&'static str>,
    /// What the commands and redirections do not show, in the words of the approval dialog
    /// (`command substitution`, `function definition`, `background job`).
    pub features: Vec<&'static str>,
}

impl ShellLine {
    /// Returns what the line runs and writes, one item each, for an approval request. Empty for a
    /// single command that writes no file, which the line itself shows.
    pub fn parts(&self) -> Vec<String> {
        let named = |command: &&Command| !command.source.trim().is_empty();
        let mut parts: Vec<String> = Vec::new();
        for command in self.commands.iter().filter(named) {
            let part = format!("runs {}", one_line(&command.source));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        let commands = parts.len();
        for redirection in &self.redirections {
            let what = match redirection.kind {
                RedirectionKind::Write => "writes to",
                RedirectionKind::Append => "appends to",
                RedirectionKind::Read => "reads from",
                _ => continue,
            };
            let file = redirection.target.text.as_deref();
            parts.push(format!(
                "{what} {}",
                file.map_or_else(|| "a file whose name is in a variable".into(), one_line)
            ));
        }
        parts.extend(self.features.iter().map(|feature| format!("has a {feature}")));
        if commands <= 1 && parts.len() == commands { Vec::new() } else { parts }
    }

    /// Returns the commands that need to be allowed by themselves.
    pub fn own_commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().filter(|command| !command.is_passed_on)
    }
}

/// Returns a command in one line. Only the white space of the shell is collapsed: the other
/// characters, such as carriage returns, stay visible.
fn one_line(text: &str) -> String {
    let words = text.split([' ', '\t', '\n']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, after quotes and escapes. Never empty: an assignment alone is
    /// a command with a single empty word.
    pub words: Vec<Word>,
    /// Assignments before the command (`A=1 make`) or on their own.
    pub assignments: Vec<Assignment>,
    /// Wrappers that start the command, outermost first, by base name.
    pub wrappers: Vec<String>,
    /// Whether the command is part of the words of a command that finds programs (`uv run x`, `npx
    /// x`). A rule that allows that command allows this one, and a rule that denies this one denies
    /// both.
    pub is_passed_on: bool,
    /// Where the command is in the line.
    pub position: CommandPosition,
    /// Whether it is started with `&` or as a coprocess.
    pub background: bool,
    /// For a command that the line itself starts alone: the list of commands joined by `&&` that it
    /// belongs to. It runs only if all earlier commands of the same list succeeded.
    pub and_chain: Option<usize>,
    /// The source text, for display.
    pub source: String,
}

impl Command {
    /// Returns the base name of the program, if the text determines it.
    pub fn name(&self) -> Option<&str> {
        let text = self.words.first()?.text.as_deref()?;
        Some(text.rsplit('/').next().unwrap_or(text))
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The word after quotes and escapes; `None` if it is known only at run time because it
    /// contains an expansion or substitution.
    pub text: Option<String>,
    /// The word as written.
    pub source: String,
    /// Whether an unquoted `*`, `?`, `[`, brace, or `~` may turn it into other words.
    pub glob: bool,
    /// Whether a part of it was quoted or escaped.
    pub quoted: bool,
}

/// `NAME=value` before a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// The value.
    pub value: Word,
}

/// The position of a command in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommandPosition {
    /// In the line itself: lists, pipes, groups, conditions, loops.
    #[default]
    Line,
    /// In `$(…)`, backticks, `<(…)`, or `>(…)`.
    Substitution,
    /// In the body of a function.
    Function,
    /// In a string that a shell reads (`sh -c`, `eval`, a here-document of `bash`).
    Script,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// The kind.
    pub kind: RedirectionKind,
    /// The file; the number for `2>&1`; the text for here-documents.
    pub target: Word,
    /// Whether the redirection has no command, so that the file is only truncated.
    pub is_standalone: bool,
}

/// Kinds of redirections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectionKind {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`, `<>`
    Write,
    /// `>>`, `&>>`
    Append,
    /// `2>&1`, `<&3`, `>&-`: not a file.
    Descriptor,
    /// `<<`
    HereDocument,
    /// `<<<`
    HereString,
}

#[cfg(test)]
mod tests {
    use super::super::analyze;

    #[test]
    fn parts_keep_characters_that_only_look_like_spaces() {
        let line = analyze("echo  ok #\r rm -rf ~/x\necho a\u{2028}b");
        assert!(line.parts().contains(&"runs echo a\u{2028}b".to_owned()), "{:?}", line.parts());
        let first = line.parts().first().cloned().unwrap_or_default();
        assert!(first.starts_with("runs echo ok"), "{first}");
    }
}
