//! Names of the built-in commands: which ones custom commands may override, and what other agents
//! call them.

use crate::table::TABLE;

/// Gemini CLI names that are aliases here, and reserved like its other names.
const RESERVED_ALIASES: &[&str] = &["tasks"];

/// Names of Gemini CLI's commands that Parallax does not have.
const UNSUPPORTED_COMMANDS: &[&str] = &["setup-github", "upgrade"];

/// Aliases that Gemini CLI does not have, neither as names nor as aliases.
const OWN_ALIASES: &[&str] = &["cost", "extension"];

/// Prefix for built-in commands whose plain name may be overridden.
pub const OWN_PREFIX: &str = "parallax:";

/// Returns whether Gemini CLI has a built-in command with this name, so that custom commands cannot
/// override it: a custom command gets a longer name then. Its aliases are not reserved.
pub fn is_reserved(name: &str) -> bool {
    names(false).any(|known| known == name)
        || RESERVED_ALIASES.contains(&name)
        || UNSUPPORTED_COMMANDS.contains(&name)
}

/// Returns whether Parallax alone has a built-in command with this name. A file or skill written
/// for Gemini CLI overrides it; the built-in command can then be called with [`OWN_PREFIX`], which
/// always works.
pub fn is_parallax_only(name: &str) -> bool {
    names(true).any(|known| known == name) || OWN_ALIASES.contains(&name)
}

/// Returns whether this is only an alias of a built-in command that Gemini CLI has too. A file can
/// override it, because the command also has its main name.
pub fn is_alias(name: &str) -> bool {
    let is_known = TABLE.iter().any(|command| command.aliases.contains(&name));
    is_known && !is_parallax_only(name) && !is_reserved(name)
}

/// Returns the names of the table that only Parallax has, or the others.
fn names(own: bool) -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(move |command| command.is_parallax_only == own).map(|command| command.name)
}

/// Returns the plain name of `parallax:NAME`, if it is a built-in command or an alias of one.
pub fn strip_parallax_prefix(name: &str) -> Option<&str> {
    name.strip_prefix(OWN_PREFIX)
        .filter(|name| is_parallax_only(name) || is_alias(name) || is_reserved(name))
}

/// Commands of other agents with the equivalent command here.
const OF_OTHER_AGENTS: &[(&str, &str)] = &[
    ("add-dir", "directory add"),
    ("allowed-tools", "policies"),
    ("approvals", "mode"),
    ("config", "settings"),
    ("export", "export-session"),
    ("feedback", "bug"),
    ("history", "resume"),
    ("keybindings", "shortcuts"),
    ("keys", "shortcuts"),
    ("login", "auth signin"),
    ("logout", "auth signout"),
    ("models", "model"),
    ("q", "quit"),
    ("sandbox", "about"),
    ("sessions", "resume"),
    ("status", "about"),
    ("todo", "todos"),
    ("trust", "permissions"),
];

/// Commands of other agents without an equivalent, with a hint about alternatives.
const HINTS: &[(&str, &str)] = &[
    (
        "doctor",
        "`parallax doctor` in a shell checks the installation, `parallax sandbox explain` the sandbox",
    ),
    ("review", "describe the review in a prompt, for example: Review the last commit"),
    ("update", UPDATE),
    ("upgrade", UPDATE),
];

const UPDATE: &str = "install the new version the way you installed this one";

/// Returns the command equivalent to a command of another agent, possibly with a subcommand.
pub fn equivalent_command(name: &str) -> Option<&'static str> {
    OF_OTHER_AGENTS
        .iter()
        .find(|(other_name, _)| *other_name == name)
        .map(|(_, own_name)| *own_name)
}

/// Returns what to do instead of a command of another agent.
pub fn other_agent_hint(name: &str) -> Option<&'static str> {
    HINTS.iter().find(|(other_name, _)| *other_name == name).map(|(_, hint)| *hint)
}

/// Returns the names of the built-in commands, for suggestions.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    let sorted = |own, aliases: &[&'static str]| {
        let mut all: Vec<&'static str> = names(own).chain(aliases.iter().copied()).collect();
        all.sort_unstable();
        all
    };
    sorted(false, RESERVED_ALIASES).into_iter().chain(sorted(true, OWN_ALIASES))
}
