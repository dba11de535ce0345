//! What is found in a shell line.

/// A shell line taken apart. Every simple command that bash could start while it
/// runs the line is in `commands`, wherever it stands: in lists, pipes,
/// substitutions, function bodies, here-documents, behind wrappers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The commands, in the order of the text. A wrapper (`env`, `sudo`,
    /// `xargs`, …) and what it starts are two entries.
    pub commands: Vec<Command>,
    /// All redirections, here-documents included.
    pub redirections: Vec<Redirection>,
    /// Why the line cannot be judged; then what else is found is not all. No
    /// rule may allow such a line, except in yolo mode.
    pub trouble: Option<String>,
    /// Why part of what an expanded line runs cannot be seen in it, although the line
    /// makes that part itself.
    pub hidden: Option<&'static str>,
    /// What the commands and redirections do not tell: words of a person's
    /// dialog (`command substitution`, `function definition`, `background job`).
    pub features: Vec<&'static str>,
}

impl Line {
    /// What the line runs and writes, one thing each, for a person who is asked.
    /// Empty for a single command that writes no file: the line says it.
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
                file.map_or_else(|| "a file named by a variable".into(), one_line)
            ));
        }
        parts.extend(self.features.iter().map(|feature| format!("has a {feature}")));
        if commands <= 1 && parts.len() == commands { Vec::new() } else { parts }
    }

    /// The commands that need leave of their own.
    pub fn own_commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().filter(|command| !command.handed_on)
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, after quotes and escapes. Never empty:
    /// an assignment alone is a command whose only word is empty.
    pub words: Vec<Word>,
    /// Assignments in front of it (`A=1 make`), or standing alone.
    pub assignments: Vec<Assignment>,
    /// Wrappers that start it, outermost first, by base name.
    pub wrappers: Vec<String>,
    /// Whether it is part of the words of a command that finds programs (`uv run
    /// x`, `npx x`): what allows that command allows this one, and what is
    /// forbidden of this one is forbidden of both.
    pub handed_on: bool,
    /// Where it stands.
    pub place: Place,
    /// Whether it is started with `&` or as a co-process.
    pub background: bool,
    /// Its text in the line, for people.
    pub source: String,
}

impl Command {
    /// The program's base name, when the text tells it.
    pub fn name(&self) -> Option<&str> {
        let text = self.words.first()?.text.as_deref()?;
        Some(text.rsplit('/').next().unwrap_or(text))
    }

    /// The arguments.
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// What it is after quotes and escapes; `None` when only the run tells
    /// (it holds an expansion or substitution).
    pub text: Option<String>,
    /// As written.
    pub source: String,
    /// Whether an unquoted `*`, `?`, `[`, brace or `~` may make other words of it.
    pub glob: bool,
    /// Whether part of it was quoted or escaped.
    pub quoted: bool,
}

/// `NAME=value` in front of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// The value.
    pub value: Word,
}

/// Where a command stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    /// In the line itself: lists, pipes, groups, conditions, loops.
    #[default]
    Line,
    /// In `$(…)`, back-ticks, `<(…)`, `>(…)`.
    Substitution,
    /// In the body of a function.
    Function,
    /// In a text that a shell reads (`sh -c`, `eval`, a here-document of `bash`).
    Script,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// Which way.
    pub kind: RedirectionKind,
    /// The file; for `2>&1` the number; for here-documents the text.
    pub target: Word,
    /// Whether no command stands with it: then the file is only emptied.
    pub alone: bool,
}

/// Ways of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectionKind {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`, `<>`
    Write,
    /// `>>`, `&>>`
    Append,
    /// `2>&1`, `<&3`, `>&-`: no file.
    Descriptor,
    /// `<<`
    HereDocument,
    /// `<<<`
    HereString,
}
