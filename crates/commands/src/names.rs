//! Names of the built-in commands, shared by all front ends.

/// Names of Gemini CLI's built-in commands, which custom commands cannot override. Their aliases
/// are not reserved.
pub const RESERVED: &[&str] = &[
    "about",
    "agents",
    "auth",
    "bug",
    "chat",
    "clear",
    "commands",
    "compress",
    "copy",
    "directory",
    "docs",
    "editor",
    "export-session",
    "extensions",
    "footer",
    "help",
    "hooks",
    "ide",
    "init",
    "mcp",
    "memory",
    "model",
    "permissions",
    "plan",
    "policies",
    "privacy",
    "quit",
    "restore",
    "resume",
    "rewind",
    "settings",
    "setup-github",
    "shells",
    "shortcuts",
    "skills",
    "stats",
    "tasks",
    "terminal-setup",
    "theme",
    "tools",
    "upgrade",
    "vim",
];

/// Aliases of built-in commands that Gemini CLI has too. A file of the user or the project can
/// override one, because the command also has its main name.
const ALIASES: &[&str] = &[
    "?",
    "background",
    "bashes",
    "bg",
    "compact",
    "dir",
    "exit",
    "new",
    "statusline",
    "summarize",
    "usage",
];

/// Built-in commands that Gemini CLI does not have. A file or skill written for Gemini CLI
/// overrides them; the built-in command can then be called with [`OWN_PREFIX`], which always works.
pub const OWN: &[&str] = &[
    "budget",
    "commit",
    "commit:no-push",
    "commit:pr",
    "context",
    "continue",
    "cost",
    "debug",
    "devtools",
    "diff",
    "extension",
    "fork",
    "load",
    "mode",
    "parallax",
    "todos",
    "transcript",
    "undo",
];

/// Prefix for built-in commands whose plain name may be overridden.
pub const OWN_PREFIX: &str = "parallax:";

/// Returns whether Gemini CLI has a built-in command with this name. A custom command gets a longer
/// name then.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Returns whether this is a built-in command that custom commands override; see [`OWN`].
pub fn is_own(name: &str) -> bool {
    OWN.contains(&name)
}

/// Returns whether this is only an alias of a built-in command; see [`ALIASES`].
pub fn is_alias(name: &str) -> bool {
    ALIASES.contains(&name)
}

/// Returns the plain name of `parallax:NAME`, if it is a built-in command or an alias of one.
pub fn own_of(name: &str) -> Option<&str> {
    name.strip_prefix(OWN_PREFIX).filter(|name| is_own(name) || is_alias(name) || is_reserved(name))
}

/// Commands of other agents with the equivalent command here.
const OF_OTHER_AGENTS: &[(&str, &str)] = &[
    ("add-dir", "directory add"),
    ("allowed-tools", "policies"),
    ("approvals", "permissions"),
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
        "`parallax sandbox explain` and `parallax extensions doctor` check the installation",
    ),
    ("review", "describe the review in a prompt, for example: Review the last commit"),
    ("update", UPDATE),
    ("upgrade", UPDATE),
];

const UPDATE: &str = "install the new version the same way as this one";

/// Returns the command equivalent to a command of another agent, possibly with a subcommand.
pub fn of_other_agent(name: &str) -> Option<&'static str> {
    OF_OTHER_AGENTS.iter().find(|(there, _)| *there == name).map(|(_, here)| *here)
}

/// Returns what to do instead of a command of another agent.
pub fn hint_of_other_agent(name: &str) -> Option<&'static str> {
    HINTS.iter().find(|(there, _)| *there == name).map(|(_, hint)| *hint)
}

/// Names of Gemini CLI's commands that Parallax does not have.
const NONE_HERE: &[&str] = &["?", "setup-github", "upgrade"];

/// Returns the names of the built-in commands, for suggestions.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    let reserved = RESERVED.iter().filter(|name| !NONE_HERE.contains(name));
    reserved.chain(OWN).copied()
}
