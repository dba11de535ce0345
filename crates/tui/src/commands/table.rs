//! The table of slash commands.

/// The action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlashCommand {
    About,
    Agents,
    AgentsPanel,
    AgentsAccept,
    AgentsConfig,
    AgentsDisable,
    AgentsEnable,
    AgentsReload,
    Auth,
    AuthSignOut,
    Budget,
    Bug,
    Chat,
    ChatList,
    ChatSave,
    ChatResume,
    ChatDelete,
    ChatShare,
    Clear,
    Commit,
    CommitNoPush,
    CommitPr,
    CommandsList,
    CommandsReload,
    Compress,
    CompressUndo,
    Context,
    Continue,
    Copy,
    Debug,
    DevTools,
    Diff,
    Directory,
    DirectoryAdd,
    Docs,
    Editor,
    Extensions,
    ExtensionsPanel,
    ExtensionsConfig,
    ExtensionsDisable,
    ExtensionsEnable,
    ExtensionsExplore,
    ExtensionsInstall,
    ExtensionsLink,
    ExtensionsReload,
    ExtensionsUninstall,
    ExtensionsUpdate,
    ExportSession,
    Footer,
    Fork,
    Help,
    Hooks,
    HooksAccept,
    HooksDisable,
    HooksDisableAll,
    HooksTrace,
    HooksEnable,
    HooksEnableAll,
    Ide,
    IdeDisable,
    IdeDoctor,
    IdeEnable,
    IdeInstall,
    Init,
    Load,
    Mcp,
    McpPanel,
    McpAuth,
    McpDescriptions,
    McpDisable,
    McpEnable,
    McpReload,
    McpSchemas,
    Memory,
    MemoryAdd,
    MemoryList,
    MemoryReload,
    MemoryInbox,
    Mode,
    Model,
    ModelSet,
    ModelWhy,
    Parallax,
    Permissions,
    PermissionsTrust,
    Plan,
    PlanCopy,
    Policies,
    Privacy,
    Quit,
    Restore,
    Rewind,
    Settings,
    Shortcuts,
    Skills,
    SkillsPanel,
    SkillsDisable,
    SkillsEnable,
    SkillsLink,
    SkillsReload,
    SkillsUnload,
    Stats,
    StatsPanel,
    StatsModel,
    StatsTools,
    Tasks,
    TerminalSetup,
    Theme,
    Todos,
    Tools,
    ToolsDescriptions,
    Transcript,
    Undo,
    Vim,
}

/// A slash command as typed.
#[derive(Debug)]
pub(crate) struct CommandSpec {
    /// The name without the slash.
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// One line for lists and help.
    pub(crate) summary: &'static str,
    /// The arguments as shown in help.
    pub(crate) arguments: &'static str,
    /// The action without a subcommand.
    pub(crate) command: SlashCommand,
    /// Whether the command may run while the agent is running.
    pub(crate) concurrent: bool,
    pub(crate) subcommands: &'static [CommandSpec],
    /// Whether the command is hidden from lists and completion.
    pub(crate) hidden: bool,
    /// Whether the command opens a dialog when it has no arguments.
    pub(crate) opens: bool,
    /// Whether the command, without arguments, only opens a dialog or a panel. It leaves no row in the
    /// transcript.
    pub(crate) panel: bool,
    /// Whether the command sends a prompt to the model.
    pub(crate) prompts: bool,
    /// The heading of the command in the list.
    pub(crate) section: &'static str,
}

const fn is_panel(command: SlashCommand) -> bool {
    matches!(
        command,
        SlashCommand::AgentsPanel
            | SlashCommand::Auth
            | SlashCommand::Chat
            | SlashCommand::Editor
            | SlashCommand::ExtensionsPanel
            | SlashCommand::Footer
            | SlashCommand::Help
            | SlashCommand::Hooks
            | SlashCommand::McpPanel
            | SlashCommand::Mode
            | SlashCommand::Model
            | SlashCommand::Permissions
            | SlashCommand::Rewind
            | SlashCommand::Settings
            | SlashCommand::Shortcuts
            | SlashCommand::SkillsPanel
            | SlashCommand::StatsPanel
            | SlashCommand::Tasks
            | SlashCommand::Theme
    )
}

const fn plain(name: &'static str, command: SlashCommand, summary: &'static str) -> CommandSpec {
    CommandSpec {
        name,
        aliases: &[],
        summary,
        arguments: "",
        command,
        concurrent: false,
        subcommands: &[],
        hidden: false,
        opens: false,
        panel: is_panel(command),
        prompts: false,
        section: "",
    }
}

impl CommandSpec {
    const fn aka(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn takes(mut self, arguments: &'static str) -> Self {
        self.arguments = arguments;
        self
    }

    /// Allows the command while the agent is running.
    const fn anytime(mut self) -> Self {
        self.concurrent = true;
        self
    }

    const fn with(mut self, subcommands: &'static [CommandSpec]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Hides the command from lists and completion.
    const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Marks a command that opens a dialog when it has no arguments.
    const fn opens(mut self) -> Self {
        self.opens = true;
        self
    }

    /// Marks a command that sends a prompt to the model: it never runs before it is typed in full.
    const fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    const fn under(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// Whether Enter in the completion list runs the command, because nothing needs to be typed
    /// after it.
    pub(crate) fn runs_at_once(&self) -> bool {
        (self.arguments.is_empty() || self.opens) && !self.prompts
    }

    /// Whether this is the command's name or an alias.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

const CHAT_LIST: CommandSpec =
    plain("list", SlashCommand::ChatList, "List saved conversations").under(CHECKPOINTS);
const CHAT_SAVE: CommandSpec =
    plain("save", SlashCommand::ChatSave, "Save the conversation under a tag")
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_RESUME: CommandSpec =
    plain("resume", SlashCommand::ChatResume, "Resume a saved conversation")
        .aka(&["load"])
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_DELETE: CommandSpec =
    plain("delete", SlashCommand::ChatDelete, "Delete a saved conversation")
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_SHARE: CommandSpec = plain(
    "share",
    SlashCommand::ChatShare,
    "Export the conversation to a file (.md, .json, .html, or .jsonl)",
)
.takes("[FILE]")
.under(CHECKPOINTS);

/// Headings below `/chat` and `/resume`: automatically saved sessions, and conversations saved
/// under a tag.
const AUTO: &str = "auto";
const CHECKPOINTS: &str = "checkpoints";

/// Saved conversations; also below `checkpoints`, for compatibility.
const TAGS: &[CommandSpec] = &[CHAT_LIST, CHAT_SAVE, CHAT_RESUME, CHAT_DELETE, CHAT_SHARE];
const CHATS: &[CommandSpec] = &[
    plain("browse", SlashCommand::Chat, "Browse automatically saved sessions").under(AUTO),
    CHAT_LIST,
    CHAT_SAVE,
    CHAT_RESUME,
    CHAT_DELETE,
    CHAT_SHARE,
    plain("checkpoints", SlashCommand::ChatList, "List saved conversations")
        .aka(&["checkpoint"])
        .with(TAGS)
        .hidden(),
];

const EXTENSIONS: &[CommandSpec] = &[
    plain("list", SlashCommand::Extensions, "List installed extensions"),
    plain(
        "install",
        SlashCommand::ExtensionsInstall,
        "Install from a URL, a directory, or an archive",
    )
    .takes("SOURCE"),
    plain("link", SlashCommand::ExtensionsLink, "Use an extension in place, without copying it")
        .takes("FOLDER"),
    plain("update", SlashCommand::ExtensionsUpdate, "Update one or all extensions")
        .takes("NAME|--all"),
    plain("uninstall", SlashCommand::ExtensionsUninstall, "Uninstall an extension")
        .aka(&["delete"])
        .takes("NAME"),
    plain("enable", SlashCommand::ExtensionsEnable, "Enable an extension")
        .takes("NAME [workspace]"),
    plain("disable", SlashCommand::ExtensionsDisable, "Disable an extension")
        .takes("NAME [workspace]"),
    plain("config", SlashCommand::ExtensionsConfig, "Set the values of its settings")
        .takes("NAME [SETTING]"),
    plain("explore", SlashCommand::ExtensionsExplore, "Open the extension gallery in the browser"),
    plain("reload", SlashCommand::ExtensionsReload, "Reload all extensions").aka(&["restart"]),
];

/// All commands, sorted by name.
pub(crate) static TABLE: &[CommandSpec] = &[
    plain("about", SlashCommand::About, "Show version, model, sandbox, and authentication")
        .anytime(),
    plain("agents", SlashCommand::AgentsPanel, "Manage subagents").with(&[
        plain("list", SlashCommand::Agents, "List subagents with their descriptions"),
        plain("reload", SlashCommand::AgentsReload, "Reload their files").aka(&["refresh"]),
        plain("enable", SlashCommand::AgentsEnable, "Enable a subagent").takes("NAME"),
        plain("disable", SlashCommand::AgentsDisable, "Disable a subagent").takes("NAME"),
        plain("accept", SlashCommand::AgentsAccept, "Accept subagents of the project")
            .takes("[NAME]")
            .aka(&["acknowledge"]),
        plain("config", SlashCommand::AgentsConfig, "Show or change the settings of a subagent")
            .takes("NAME [SETTING VALUE]"),
    ]),
    plain("auth", SlashCommand::Auth, "Sign in").with(&[
        plain("signin", SlashCommand::Auth, "Sign in").aka(&["login"]),
        plain("signout", SlashCommand::AuthSignOut, "Delete the saved key").aka(&["logout"]),
    ]),
    plain("budget", SlashCommand::Budget, "Show or set budgets")
        .takes("[[prompt] cost|tokens|time AMOUNT|off]")
        .anytime(),
    plain("bug", SlashCommand::Bug, "Report a bug").takes("[TITLE]"),
    plain("chat", SlashCommand::Chat, "Browse, save, and share conversations").with(CHATS),
    plain("clear", SlashCommand::Clear, "Start a new session with empty context").aka(&["new"]),
    plain("commands", SlashCommand::CommandsList, "List custom commands").with(&[
        plain("list", SlashCommand::CommandsList, "List custom commands by source"),
        plain("reload", SlashCommand::CommandsReload, "Reload their files").aka(&["refresh"]),
    ]),
    plain("commit", SlashCommand::Commit, "Commit and push the changes").prompts(),
    plain("commit:no-push", SlashCommand::CommitNoPush, "Commit the changes without pushing")
        .prompts(),
    plain("commit:pr", SlashCommand::CommitPr, "Commit the changes and open a pull request")
        .prompts(),
    plain("compress", SlashCommand::Compress, "Compact the history, keeping what matters")
        .aka(&["summarize", "compact"])
        .takes("[FOCUS]")
        .anytime()
        .with(&[plain("undo", SlashCommand::CompressUndo, "Undo the latest compaction").anytime()]),
    plain(
        "context",
        SlashCommand::Context,
        "Show what fills the context window; drop or pin results",
    )
    .anytime(),
    plain("continue", SlashCommand::Continue, "Continue an interrupted turn").prompts(),
    plain("copy", SlashCommand::Copy, "Copy the last answer").anytime(),
    plain("debug", SlashCommand::Debug, "Show the log and all requests with size and time")
        .anytime(),
    plain(
        "devtools",
        SlashCommand::DevTools,
        "Show the session in the browser, as it goes over the wire",
    )
    .takes("[--no-open]")
    .anytime(),
    plain("diff", SlashCommand::Diff, "Show what the agent's edits changed in this session")
        .anytime(),
    plain("directory", SlashCommand::Directory, "Manage workspace directories").aka(&["dir"]).with(
        &[
            plain("add", SlashCommand::DirectoryAdd, "Add directories").takes("PATH[,PATH…]"),
            plain("show", SlashCommand::Directory, "List the directories"),
        ],
    ),
    plain("docs", SlashCommand::Docs, "Open the documentation").takes("[PAGE]").anytime(),
    plain("editor", SlashCommand::Editor, "Choose the editor for prompts and changes"),
    plain("export-session", SlashCommand::ExportSession, "Export the whole session to a file")
        .takes("FILE"),
    plain("extensions", SlashCommand::ExtensionsPanel, "Manage extensions")
        .aka(&["extension"])
        .with(EXTENSIONS),
    plain("footer", SlashCommand::Footer, "Choose the items of the status line")
        .aka(&["statusline"])
        .anytime(),
    plain("fork", SlashCommand::Fork, "Continue in a copy: from here, or from before a prompt")
        .takes("[PROMPT]"),
    plain("help", SlashCommand::Help, "Show commands and keys").aka(&["?"]).anytime(),
    plain("hooks", SlashCommand::Hooks, "Manage hooks").with(&[
        plain("panel", SlashCommand::Hooks, "Show, enable, and disable hooks")
            .aka(&["list", "show"]),
        plain("accept", SlashCommand::HooksAccept, "Accept the project's hooks as they are now"),
        plain("enable", SlashCommand::HooksEnable, "Enable a hook").takes("NAME"),
        plain("disable", SlashCommand::HooksDisable, "Disable a hook").takes("NAME"),
        plain("enable-all", SlashCommand::HooksEnableAll, "Enable all hooks"),
        plain("disable-all", SlashCommand::HooksDisableAll, "Disable all hooks"),
        plain(
            "trace",
            SlashCommand::HooksTrace,
            "Show the hook runs of this session and their results",
        ),
    ]),
    plain("ide", SlashCommand::Ide, "Connect to the editor").anytime().with(&[
        plain("status", SlashCommand::Ide, "Show the connection and the open files").anytime(),
        plain("enable", SlashCommand::IdeEnable, "Connect, now and in later sessions").anytime(),
        plain("disable", SlashCommand::IdeDisable, "Disconnect, now and in later sessions")
            .anytime(),
        plain("install", SlashCommand::IdeInstall, "Install the companion extension").anytime(),
        plain("doctor", SlashCommand::IdeDoctor, "Explain why there is no connection").anytime(),
    ]),
    plain("init", SlashCommand::Init, "Generate a GEMINI.md for the project").prompts(),
    plain("load", SlashCommand::Load, "Resume a session, or load a file of another program")
        .takes("[ID|FILE]"),
    plain("mcp", SlashCommand::McpPanel, "Manage MCP servers").anytime().with(&[
        plain("list", SlashCommand::Mcp, "List servers with the names of their tools")
            .aka(&["ls", "nodesc"])
            .anytime(),
        plain("desc", SlashCommand::McpDescriptions, "Include descriptions").anytime(),
        plain("schema", SlashCommand::McpSchemas, "Include the schemas of tools").anytime(),
        plain("auth", SlashCommand::McpAuth, "Sign in to a server").takes("[SERVER]").anytime(),
        plain("reload", SlashCommand::McpReload, "Restart the servers").aka(&["refresh"]),
        plain("enable", SlashCommand::McpEnable, "Enable a server").takes("SERVER [--session]"),
        plain("disable", SlashCommand::McpDisable, "Disable a server").takes("SERVER [--session]"),
    ]),
    plain("memory", SlashCommand::Memory, "Manage context files").with(&[
        plain("show", SlashCommand::Memory, "Show the contents"),
        plain("list", SlashCommand::MemoryList, "List the files"),
        plain("reload", SlashCommand::MemoryReload, "Reload the files").aka(&["refresh"]),
        plain("add", SlashCommand::MemoryAdd, "Save a fact for all later sessions").takes("TEXT"),
        plain(
            "inbox",
            SlashCommand::MemoryInbox,
            "List memory suggestions that wait for your approval",
        )
        .anytime(),
    ]),
    plain("mode", SlashCommand::Mode, "Choose the approval mode"),
    plain("model", SlashCommand::Model, "Choose the model").with(&[
        plain("manage", SlashCommand::Model, "Choose the model"),
        plain("set", SlashCommand::ModelSet, "Use a model by name").takes("NAME [--persist]"),
        plain("why", SlashCommand::ModelWhy, "Explain how the model was chosen").anytime(),
    ]),
    plain("parallax", SlashCommand::Parallax, "Reach a goal with coordinated subagents")
        .takes("GOAL"),
    plain("permissions", SlashCommand::Permissions, "Manage trusted folders").with(&[plain(
        "trust",
        SlashCommand::PermissionsTrust,
        "Trust a folder",
    )
    .takes("[FOLDER]")]),
    plain("plan", SlashCommand::Plan, "Plan first: no changes until you approve a plan")
        .takes("[WHAT]")
        .with(&[plain("copy", SlashCommand::PlanCopy, "Copy the plan")]),
    plain("policies", SlashCommand::Policies, "Show the rules in effect").with(&[plain(
        "list",
        SlashCommand::Policies,
        "Show the rules in effect",
    )]),
    plain("privacy", SlashCommand::Privacy, "Show what data is sent where").anytime(),
    plain("quit", SlashCommand::Quit, "Leave").aka(&["exit"]).takes("[--delete]").anytime(),
    plain(
        "restore",
        SlashCommand::Restore,
        "Go back to before a file change and decide about it again",
    )
    .takes("[NAME]"),
    plain("resume", SlashCommand::Chat, "Browse, save, and share conversations").with(CHATS),
    plain(
        "rewind",
        SlashCommand::Rewind,
        "Go back to an earlier prompt: conversation, files, or both",
    ),
    plain("settings", SlashCommand::Settings, "Show and change settings"),
    plain("shells", SlashCommand::Tasks, "Show background commands")
        .aka(&["tasks", "bg", "background", "bashes"])
        .anytime(),
    plain("shortcuts", SlashCommand::Shortcuts, "Show the keys").anytime(),
    plain("skills", SlashCommand::SkillsPanel, "Manage skills").takes("[nodesc] [all]").with(&[
        plain("list", SlashCommand::Skills, "List enabled skills").takes("[nodesc] [all]"),
        plain("enable", SlashCommand::SkillsEnable, "Enable a skill").takes("NAME"),
        plain("disable", SlashCommand::SkillsDisable, "Disable a skill").takes("NAME"),
        plain("link", SlashCommand::SkillsLink, "Use the skills of a directory in place")
            .takes("DIRECTORY [--scope user|workspace]"),
        plain("reload", SlashCommand::SkillsReload, "Reload their files").aka(&["refresh"]),
        plain("unload", SlashCommand::SkillsUnload, "Remove the text of a skill from the context")
            .takes("NAME"),
    ]),
    plain("stats", SlashCommand::StatsPanel, "Show tokens, cost, time, and tools of this session")
        .aka(&["usage", "cost"])
        .anytime()
        .with(&[
            plain("session", SlashCommand::Stats, "Show the session").anytime(),
            plain("model", SlashCommand::StatsModel, "Show statistics by model").anytime(),
            plain("tools", SlashCommand::StatsTools, "Show statistics by tool").anytime(),
        ]),
    plain(
        "terminal-setup",
        SlashCommand::TerminalSetup,
        "Configure Shift+Enter in the terminals of editors",
    ),
    plain("theme", SlashCommand::Theme, "Choose a theme").takes("[NAME]").opens(),
    plain("todos", SlashCommand::Todos, "Show the agent's to-do list").anytime(),
    plain("tools", SlashCommand::Tools, "List the model's tools").with(&[
        plain("list", SlashCommand::Tools, "Names only").aka(&["nodesc"]),
        plain(
            "desc",
            SlashCommand::ToolsDescriptions,
            "Include the descriptions that the model sees",
        )
        .aka(&["descriptions"]),
    ]),
    plain(
        "transcript",
        SlashCommand::Transcript,
        "Show the whole transcript, to scroll and search",
    )
    .anytime(),
    plain("undo", SlashCommand::Undo, "Undo the file changes of a turn").takes("[TURN] [--force]"),
    plain("vim", SlashCommand::Vim, "Turn vi keys on or off").anytime(),
];

#[cfg(test)]
mod tests {
    use parallax_commands::{OWN, RESERVED, is_alias};

    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        fn check(commands: &[CommandSpec]) {
            let mut names: Vec<&str> = Vec::new();
            for command in commands {
                names.push(command.name);
                names.extend(command.aliases);
                check(command.subcommands);
            }
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
        }
        check(TABLE);
        let names = || TABLE.iter().flat_map(|it| std::iter::once(&it.name).chain(it.aliases));
        for name in names() {
            let lists = [OWN.contains(name), RESERVED.contains(name), is_alias(name)];
            let count = lists.into_iter().filter(|is_in| *is_in).count();
            assert_eq!(count, 1, "{name} is in exactly one list");
        }
        for name in OWN {
            assert!(names().any(|known| known == name), "{name} is not a command");
        }
        assert!(TABLE.is_sorted_by_key(|command| command.name));
    }

    #[test]
    fn every_name_can_be_told_where_no_terminal_is() {
        let known: Vec<&str> = parallax_commands::built_in_names().collect();
        for command in TABLE {
            assert!(known.contains(&command.name), "{}", command.name);
        }
    }
}
