//! What a rule is. Built-in rules, settings and (later) rule files all become
//! this type.

use std::fmt;
use std::path::{Path, PathBuf};

use parallax_protocol::policy::{ApprovalMode, Decision};

use crate::call::Call;
use crate::names::canonical;
use crate::paths;
use crate::shell::{self, Part};

/// Which tools a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPattern {
    /// Every tool (`*`).
    Any,
    /// Tools whose name begins so (`mcp_server_*`).
    Prefix(String),
    /// One tool.
    Exact(String),
}

impl ToolPattern {
    /// Reads a pattern as settings write it; old and class-style names become
    /// the registered ones.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some("") => Self::Any,
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(canonical(text).to_owned()),
        }
    }

    /// Whether it covers one of the names.
    pub(crate) fn matches(&self, names: &[&str]) -> bool {
        match self {
            Self::Any => true,
            Self::Prefix(prefix) => names.iter().any(|name| name.starts_with(prefix.as_str())),
            Self::Exact(exact) => names.iter().any(|name| name == exact),
        }
    }
}

/// The first words of a command, compared word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPrefix(Vec<String>);

impl CommandPrefix {
    /// Reads a prefix such as `git status`; a trailing `*` or `:*` is dropped.
    /// An empty prefix covers every command.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")).unwrap_or(text);
        let text = if text == "*" { "" } else { text };
        match shell::plain(text) {
            Some(parts) if parts.len() == 1 => {
                Self(parts.into_iter().flatten().map(|word| word.text).collect())
            }
            _ => Self(text.split_whitespace().map(str::to_owned).collect()),
        }
    }

    fn covers_words<'a>(&self, words: impl Iterator<Item = &'a str>) -> bool {
        let mut words = words;
        self.0.iter().all(|want| words.next() == Some(want.as_str()))
    }

    fn covers(&self, part: &Part) -> bool {
        self.covers_words(part.iter().map(|word| word.text.as_str()))
    }
}

/// Where the files that a call writes must lie for the rule to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathScope {
    /// Anywhere.
    Anywhere,
    /// All inside the workspace, and none of them protected (`.git`, `.env*`,
    /// `node_modules`, settings that run programs).
    Workspace,
    /// All of them `.md` files inside this folder.
    MarkdownIn(PathBuf),
}

impl PathScope {
    fn matches(&self, call: &Call<'_>) -> bool {
        let writes = &call.query.effects.writes;
        match self {
            Self::Anywhere => true,
            Self::Workspace => {
                let roots = call.query.workspace;
                !writes.is_empty()
                    && writes
                        .iter()
                        .all(|path| paths::inside(path, roots) && !paths::is_protected(path, roots))
            }
            Self::MarkdownIn(folder) => {
                !writes.is_empty() && writes.iter().all(|path| is_markdown_in(path, folder))
            }
        }
    }
}

fn is_markdown_in(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder) && path.extension().is_some_and(|extension| extension == "md")
}

/// The final priority in thousandths: tier × 1000 + the rule's own 0–999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Who made a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The program.
    BuiltIn,
    /// A setting or the flag that stands for it; the text names it.
    Setting(&'static str),
}

/// One rule. All conditions must hold; the first rule by priority decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it is called in verdicts.
    pub name: String,
    /// Who made it.
    pub source: Source,
    /// Its rank.
    pub priority: Priority,
    /// The tools; one of them must match.
    pub tools: Vec<ToolPattern>,
    /// For shell calls: one must match. Empty means any command.
    pub commands: Vec<CommandPrefix>,
    /// With `commands` and [`Decision::Allow`]: parts of a list or pipe that are
    /// known to be harmless need not be covered.
    pub safe_parts: bool,
    /// The modes it holds in; empty means all.
    pub modes: Vec<ApprovalMode>,
    /// Only with (`true`) or only without (`false`) somebody to ask.
    pub interactive: Option<bool>,
    /// Where the files written must lie.
    pub paths: PathScope,
    /// What it decides.
    pub decision: Decision,
    /// An allowed command may redirect to and from files.
    pub allow_redirection: bool,
    /// What the model reads on a denial.
    pub deny_message: Option<String>,
}

impl Rule {
    /// A rule without conditions.
    pub fn new(name: impl Into<String>, priority: u32, decision: Decision) -> Self {
        Self {
            name: name.into(),
            source: Source::BuiltIn,
            priority: Priority(priority),
            tools: Vec::new(),
            commands: Vec::new(),
            safe_parts: false,
            modes: Vec::new(),
            interactive: None,
            paths: PathScope::Anywhere,
            decision,
            allow_redirection: false,
            deny_message: None,
        }
    }

    /// The name as verdicts give it: what, who and rank.
    pub fn label(&self) -> String {
        match self.source {
            Source::BuiltIn => format!("{} (built in, {})", self.name, self.priority),
            Source::Setting(key) => format!("{} (`{key}`, {})", self.name, self.priority),
        }
    }

    /// Whether it is about such calls at all, whatever their arguments.
    pub(crate) fn concerns(&self, names: &[&str], mode: ApprovalMode, interactive: bool) -> bool {
        (self.modes.is_empty() || self.modes.contains(&mode))
            && self.interactive.is_none_or(|wanted| wanted == interactive)
            && self.tools.iter().any(|pattern| pattern.matches(names))
    }

    pub(crate) fn matches(&self, call: &Call<'_>) -> bool {
        self.concerns(&call.names, call.mode, call.query.interactive)
            && self.paths.matches(call)
            && self.covers_commands(call)
    }

    fn covers_commands(&self, call: &Call<'_>) -> bool {
        if self.commands.is_empty() {
            return true;
        }
        let Some(line) = &call.shell else { return false };
        if self.decision == Decision::Allow {
            // Every part must be understood and covered.
            return line.plain().is_some_and(|parts| {
                parts.iter().all(|part| {
                    self.commands.iter().any(|prefix| prefix.covers(part))
                        || (self.safe_parts && line.is_safe_part(part))
                })
            });
        }
        // One part is enough, and what is not understood is searched as well.
        let loose = line.loose();
        loose.too_much
            || loose.programs().any(|(program, arguments)| {
                let words = || std::iter::once(program).chain(arguments.iter().map(String::as_str));
                self.commands.iter().any(|prefix| prefix.covers_words(words()))
            })
    }
}
