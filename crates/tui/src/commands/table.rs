//! The table of slash commands.

/// The action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
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
    pub(crate) command: Command,
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

const fn is_panel(command: Command) -> bool {
    matches!(
        command,
        Command::AgentsPanel
            | Command::Auth
            | Command::Chat
            | Command::Editor
            | Command::ExtensionsPanel
            | Command::Footer
            | Command::Help
            | Command::Hooks
            | Command::McpPanel
            | Command::Mode
            | Command::Model
            | Command::Permissions
            | Command::Rewind
            | Command::Settings
            | Command::Shortcuts
            | Command::SkillsPanel
            | Command::StatsPanel
            | Command::Tasks
            | Command::Theme
    )
}

const fn plain(name: &'static str, command: Command, summary: &'static str) -> CommandSpec {
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
    plain("list", Command::ChatList, "List saved conversations").under(CHECKPOINTS);
const CHAT_SAVE: CommandSpec =
    plain("save", Command::ChatSave, "Save the conversation under a tag")
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_RESUME: CommandSpec =
    plain("resume", Command::ChatResume, "Resume a saved conversation")
        .aka(&["load"])
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_DELETE: CommandSpec =
    plain("delete", Command::ChatDelete, "Delete a saved conversation")
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_SHARE: CommandSpec = plain(
    "share",
    Command::ChatShare,
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
    plain("browse", Command::Chat, "Browse automatically saved sessions").under(AUTO),
    CHAT_LIST,
    CHAT_SAVE,
    CHAT_RESUME,
    CHAT_DELETE,
    CHAT_SHARE,
    plain("checkpoints", Command::ChatList, "List saved conversations")
        .aka(&["checkpoint"])
        .with(TAGS)
        .hidden(),
];

const EXTENSIONS: &[CommandSpec] = &[
    plain("list", Command::Extensions, "List installed extensions"),
    plain("install", Command::ExtensionsInstall, "Install from a URL, a directory, or an archive")
        .takes("SOURCE"),
    plain("link", Command::ExtensionsLink, "Use an extension in place, without copying it")
        .takes("FOLDER"),
    plain("update", Command::ExtensionsUpdate, "Update one or all extensions").takes("NAME|--all"),
    plain("uninstall", Command::ExtensionsUninstall, "Uninstall an extension")
        .aka(&["delete"])
        .takes("NAME"),
    plain("enable", Command::ExtensionsEnable, "Enable an extension").takes("NAME [workspace]"),
    plain("disable", Command::ExtensionsDisable, "Disable an extension").takes("NAME [workspace]"),
    plain("config", Command::ExtensionsConfig, "Set the values of its settings")
        .takes("NAME [SETTING]"),
    plain("explore", Command::ExtensionsExplore, "Open the extension gallery in the browser"),
    plain("reload", Command::ExtensionsReload, "Reload all extensions").aka(&["restart"]),
];

/// All commands, sorted by name.
pub(crate) static TABLE: &[CommandSpec] = &[
    plain("about", Command::About, "Show version, model, sandbox, and authentication").anytime(),
    plain("agents", Command::AgentsPanel, "Manage subagents").with(&[
        plain("list", Command::Agents, "List subagents with their descriptions"),
        plain("reload", Command::AgentsReload, "Reload their files").aka(&["refresh"]),
        plain("enable", Command::AgentsEnable, "Enable a subagent").takes("NAME"),
        plain("disable", Command::AgentsDisable, "Disable a subagent").takes("NAME"),
        plain("accept", Command::AgentsAccept, "Accept subagents of the project")
            .takes("[NAME]")
            .aka(&["acknowledge"]),
        plain("config", Command::AgentsConfig, "Show or change the settings of a subagent")
            .takes("NAME [SETTING VALUE]"),
    ]),
    plain("auth", Command::Auth, "Sign in").with(&[
        plain("signin", Command::Auth, "Sign in").aka(&["login"]),
        plain("signout", Command::AuthSignOut, "Delete the saved key").aka(&["logout"]),
    ]),
    plain("budget", Command::Budget, "Show or set budgets")
        .takes("[[prompt] cost|tokens|time AMOUNT|off]")
        .anytime(),
    plain("bug", Command::Bug, "Report a bug").takes("[TITLE]"),
    plain("chat", Command::Chat, "Browse, save, and share conversations").with(CHATS),
    plain("clear", Command::Clear, "Start a new session with empty context").aka(&["new"]),
    plain("commands", Command::CommandsList, "List custom commands").with(&[
        plain("list", Command::CommandsList, "List custom commands by source"),
        plain("reload", Command::CommandsReload, "Reload their files").aka(&["refresh"]),
    ]),
    plain("commit", Command::Commit, "Commit and push the changes").prompts(),
    plain("commit:no-push", Command::CommitNoPush, "Commit the changes without pushing").prompts(),
    plain("commit:pr", Command::CommitPr, "Commit the changes and open a pull request").prompts(),
    plain("compress", Command::Compress, "Compact the history, keeping what matters")
        .aka(&["summarize", "compact"])
        .takes("[FOCUS]")
        .anytime()
        .with(&[plain("undo", Command::CompressUndo, "Undo the latest compaction").anytime()]),
    plain("context", Command::Context, "Show what fills the context window; drop or pin results")
        .anytime(),
    plain("continue", Command::Continue, "Continue an interrupted turn").prompts(),
    plain("copy", Command::Copy, "Copy the last answer").anytime(),
    plain("debug", Command::Debug, "Show the log and all requests with size and time").anytime(),
    plain(
        "devtools",
        Command::DevTools,
        "Show the session in the browser, as it goes over the wire",
    )
    .takes("[--no-open]")
    .anytime(),
    plain("diff", Command::Diff, "Show what the agent's edits changed in this session").anytime(),
    plain("directory", Command::Directory, "Manage workspace directories").aka(&["dir"]).with(&[
        plain("add", Command::DirectoryAdd, "Add directories").takes("PATH[,PATH…]"),
        plain("show", Command::Directory, "List the directories"),
    ]),
    plain("docs", Command::Docs, "Open the documentation").takes("[PAGE]").anytime(),
    plain("editor", Command::Editor, "Choose the editor for prompts and changes"),
    plain("export-session", Command::ExportSession, "Export the whole session to a file")
        .takes("FILE"),
    plain("extensions", Command::ExtensionsPanel, "Manage extensions")
        .aka(&["extension"])
        .with(EXTENSIONS),
    plain("footer", Command::Footer, "Choose the items of the status line")
        .aka(&["statusline"])
        .anytime(),
    plain("fork", Command::Fork, "Continue in a copy: from here, or from before a prompt")
        .takes("[PROMPT]"),
    plain("help", Command::Help, "Show commands and keys").aka(&["?"]).anytime(),
    plain("hooks", Command::Hooks, "Manage hooks").with(&[
        plain("panel", Command::Hooks, "Show, enable, and disable hooks").aka(&["list", "show"]),
        plain("accept", Command::HooksAccept, "Accept the project's hooks as they are now"),
        plain("enable", Command::HooksEnable, "Enable a hook").takes("NAME"),
        plain("disable", Command::HooksDisable, "Disable a hook").takes("NAME"),
        plain("enable-all", Command::HooksEnableAll, "Enable all hooks"),
        plain("disable-all", Command::HooksDisableAll, "Disable all hooks"),
        plain("trace", Command::HooksTrace, "Show the hook runs of this session and their results"),
    ]),
    plain("ide", Command::Ide, "Connect to the editor").anytime().with(&[
        plain("status", Command::Ide, "Show the connection and the open files").anytime(),
        plain("enable", Command::IdeEnable, "Connect, now and in later sessions").anytime(),
        plain("disable", Command::IdeDisable, "Disconnect, now and in later sessions").anytime(),
        plain("install", Command::IdeInstall, "Install the companion extension").anytime(),
        plain("doctor", Command::IdeDoctor, "Explain why there is no connection").anytime(),
    ]),
    plain("init", Command::Init, "Generate a GEMINI.md for the project").prompts(),
    plain("load", Command::Load, "Resume a session, or load a file of another program")
        .takes("[ID|FILE]"),
    plain("mcp", Command::McpPanel, "Manage MCP servers").anytime().with(&[
        plain("list", Command::Mcp, "List servers with the names of their tools")
            .aka(&["ls", "nodesc"])
            .anytime(),
        plain("desc", Command::McpDescriptions, "Include descriptions").anytime(),
        plain("schema", Command::McpSchemas, "Include the schemas of tools").anytime(),
        plain("auth", Command::McpAuth, "Sign in to a server").takes("[SERVER]").anytime(),
        plain("reload", Command::McpReload, "Restart the servers").aka(&["refresh"]),
        plain("enable", Command::McpEnable, "Enable a server").takes("SERVER [--session]"),
        plain("disable", Command::McpDisable, "Disable a server").takes("SERVER [--session]"),
    ]),
    plain("memory", Command::Memory, "Manage context files").with(&[
        plain("show", Command::Memory, "Show the contents"),
        plain("list", Command::MemoryList, "List the files"),
        plain("reload", Command::MemoryReload, "Reload the files").aka(&["refresh"]),
        plain("add", Command::MemoryAdd, "Save a fact for all later sessions").takes("TEXT"),
        plain("inbox", Command::MemoryInbox, "List memory suggestions that wait for your approval")
            .anytime(),
    ]),
    plain("mode", Command::Mode, "Choose the approval mode"),
    plain("model", Command::Model, "Choose the model").with(&[
        plain("manage", Command::Model, "Choose the model"),
        plain("set", Command::ModelSet, "Use a model by name").takes("NAME [--persist]"),
        plain("why", Command::ModelWhy, "Explain how the model was chosen").anytime(),
    ]),
    plain("parallax", Command::Parallax, "Reach a goal with coordinated subagents").takes("GOAL"),
    plain("permissions", Command::Permissions, "Manage trusted folders").with(&[plain(
        "trust",
        Command::PermissionsTrust,
        "Trust a folder",
    )
    .takes("[FOLDER]")]),
    plain("plan", Command::Plan, "Plan first: no changes until you approve a plan")
        .takes("[WHAT]")
        .with(&[plain("copy", Command::PlanCopy, "Copy the plan")]),
    plain("policies", Command::Policies, "Show the rules in effect").with(&[plain(
        "list",
        Command::Policies,
        "Show the rules in effect",
    )]),
    plain("privacy", Command::Privacy, "Show what data is sent where").anytime(),
    plain("quit", Command::Quit, "Leave").aka(&["exit"]).takes("[--delete]").anytime(),
    plain("restore", Command::Restore, "Go back to before a file change and decide about it again")
        .takes("[NAME]"),
    plain("resume", Command::Chat, "Browse, save, and share conversations").with(CHATS),
    plain("rewind", Command::Rewind, "Go back to an earlier prompt: conversation, files, or both"),
    plain("settings", Command::Settings, "Show and change settings"),
    plain("shells", Command::Tasks, "Show background commands")
        .aka(&["tasks", "bg", "background", "bashes"])
        .anytime(),
    plain("shortcuts", Command::Shortcuts, "Show the keys").anytime(),
    plain("skills", Command::SkillsPanel, "Manage skills").takes("[nodesc] [all]").with(&[
        plain("list", Command::Skills, "List enabled skills").takes("[nodesc] [all]"),
        plain("enable", Command::SkillsEnable, "Enable a skill").takes("NAME"),
        plain("disable", Command::SkillsDisable, "Disable a skill").takes("NAME"),
        plain("link", Command::SkillsLink, "Use the skills of a directory in place")
            .takes("DIRECTORY [--scope user|workspace]"),
        plain("reload", Command::SkillsReload, "Reload their files").aka(&["refresh"]),
        plain("unload", Command::SkillsUnload, "Remove the text of a skill from the context")
            .takes("NAME"),
    ]),
    plain("stats", Command::StatsPanel, "Show tokens, cost, time, and tools of this session")
        .aka(&["usage", "cost"])
        .anytime()
        .with(&[
            plain("session", Command::Stats, "Show the session").anytime(),
            plain("model", Command::StatsModel, "Show statistics by model").anytime(),
            plain("tools", Command::StatsTools, "Show statistics by tool").anytime(),
        ]),
    plain(
        "terminal-setup",
        Command::TerminalSetup,
        "Configure Shift+Enter in the terminals of editors",
    ),
    plain("theme", Command::Theme, "Choose a theme").takes("[NAME]").opens(),
    plain("todos", Command::Todos, "Show the agent's to-do list").anytime(),
    plain("tools", Command::Tools, "List the model's tools").with(&[
        plain("list", Command::Tools, "Names only").aka(&["nodesc"]),
        plain("desc", Command::ToolsDescriptions, "Include the descriptions that the model sees")
            .aka(&["descriptions"]),
    ]),
    plain("transcript", Command::Transcript, "Show the whole transcript, to scroll and search")
        .anytime(),
    plain("undo", Command::Undo, "Undo the file changes of a turn").takes("[TURN] [--force]"),
    plain("vim", Command::Vim, "Turn vi keys on or off").anytime(),
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
