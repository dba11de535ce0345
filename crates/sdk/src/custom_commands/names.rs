//! Names of the program's own commands, one list for all faces.

/// Names of Gemini CLI's own commands, which no file takes from them. Their aliases are
/// not reserved.
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

/// Aliases of commands that Gemini CLI has too. A file of the user or of the project
/// takes one: its author chose the name, and the command keeps its own.
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

/// Names of the program's commands that Gemini CLI does not have: a file or a
/// skill that somebody wrote for it takes them. Ours is then called with
/// [`OWN_PREFIX`], which always works.
pub const OWN: &[&str] = &[
    "budget",
    "commit",
    "commit:no-push",
    "commit:pr",
    "context",
    "continue",
    "cost",
    "debug",
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

/// What stands before the name of a command of ours, where something else may
/// have the plain name.
pub const OWN_PREFIX: &str = "parallax:";

/// Whether Gemini CLI has a command of this name: a file's command is called by
/// its longer name then.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether it is a command of ours that gives way: see [`OWN`].
pub fn is_own(name: &str) -> bool {
    OWN.contains(&name)
}

/// Whether it is only an alias of a command of the program: see [`ALIASES`].
pub fn is_alias(name: &str) -> bool {
    ALIASES.contains(&name)
}

/// The plain name of `parallax:NAME`; `None` when no command of ours has it.
pub fn own_of(name: &str) -> Option<&str> {
    name.strip_prefix(OWN_PREFIX).filter(|name| is_own(name))
}

/// Commands of other agents, and the command here that does the same.
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

/// Commands of other agents that have none here, and what to do in their place.
const HINTS: &[(&str, &str)] = &[
    (
        "doctor",
        "`parallax sandbox explain` and `parallax extensions doctor` check the installation",
    ),
    ("review", "say what to review in a prompt: Review the last commit"),
    ("update", UPDATE),
    ("upgrade", UPDATE),
];

const UPDATE: &str = "install the new version in the way this one was installed";

/// The command here that a command of another agent means: a name, perhaps with that of a
/// subcommand.
pub fn of_other_agent(name: &str) -> Option<&'static str> {
    OF_OTHER_AGENTS.iter().find(|(there, _)| *there == name).map(|(_, here)| *here)
}

/// What to do in place of a command of another agent.
pub fn hint_of_other_agent(name: &str) -> Option<&'static str> {
    HINTS.iter().find(|(there, _)| *there == name).map(|(_, hint)| *hint)
}
