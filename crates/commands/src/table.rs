//! The table of built-in slash commands of all front ends: names, help, and where each one works.
//! The reference page is generated from it.

/// The action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashCommand {
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
    PoliciesPanel,
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
    ToolsPanel,
    ToolsDescriptions,
    Transcript,
    Undo,
    Vim,
}

/// A slash command as typed.
#[derive(Debug)]
pub struct CommandSpec {
    /// The name without the slash.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// One line for lists and help.
    pub summary: &'static str,
    /// The arguments as shown in help.
    pub arguments: &'static str,
    /// The action without a subcommand.
    pub command: SlashCommand,
    /// Whether the command may run while the agent is running.
    pub runs_during_turn: bool,
    pub subcommands: &'static [CommandSpec],
    /// Whether the command is hidden from lists and completion.
    pub hidden: bool,
    /// Whether the command opens a dialog when it has no arguments.
    pub opens_dialog: bool,
    /// Whether the command, without arguments, only opens a dialog or a panel. It leaves no row in
    /// the transcript.
    pub panel: bool,
    /// Whether the command sends a prompt to the model.
    pub prompts: bool,
    /// The heading of the command in the list.
    pub section: &'static str,
    /// Whether Gemini CLI has no such command. A custom command with the name overrides it.
    pub is_parallax_only: bool,
    /// How it is typed without a terminal; empty if it requires one.
    pub headless: &'static str,
    /// How editors list it: the name, what it does, and a hint about its arguments.
    pub editors: &'static [EditorCommand],
}

/// A command as editors list it: the name, what it does, and a hint about its arguments.
pub type EditorCommand = (&'static str, &'static str, &'static str);

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
            | SlashCommand::PoliciesPanel
            | SlashCommand::Rewind
            | SlashCommand::Settings
            | SlashCommand::Shortcuts
            | SlashCommand::SkillsPanel
            | SlashCommand::StatsPanel
            | SlashCommand::Tasks
            | SlashCommand::Theme
            | SlashCommand::ToolsPanel
    )
}

const fn plain(name: &'static str, command: SlashCommand, summary: &'static str) -> CommandSpec {
    CommandSpec {
        name,
        aliases: &[],
        summary,
        arguments: "",
        command,
        runs_during_turn: false,
        subcommands: &[],
        hidden: false,
        opens_dialog: false,
        panel: is_panel(command),
        prompts: false,
        section: "",
        is_parallax_only: false,
        headless: "",
        editors: &[],
    }
}

impl CommandSpec {
    const fn with_aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn with_arguments(mut self, arguments: &'static str) -> Self {
        self.arguments = arguments;
        self
    }

    /// Allows the command while the agent is running.
    const fn while_running(mut self) -> Self {
        self.runs_during_turn = true;
        self
    }

    const fn with_subcommands(mut self, subcommands: &'static [CommandSpec]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Hides the command from lists and completion.
    const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Marks a command that opens a dialog when it has no arguments.
    const fn opens_dialog(mut self) -> Self {
        self.opens_dialog = true;
        self
    }

    /// Marks a command that sends a prompt to the model: it never runs before it is typed in full.
    const fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// Marks a command that Gemini CLI does not have.
    const fn parallax_only(mut self) -> Self {
        self.is_parallax_only = true;
        self
    }

    /// Lets the command work without a terminal, typed like this.
    const fn headless(mut self, usage: &'static str) -> Self {
        self.headless = usage;
        self
    }

    /// Offers the command to editors.
    const fn editors(mut self, commands: &'static [EditorCommand]) -> Self {
        self.editors = commands;
        self
    }

    const fn in_section(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// Whether Enter in the completion list runs the command, because nothing needs to be typed
    /// after it.
    pub fn runs_on_enter(&self) -> bool {
        (self.arguments.is_empty() || self.opens_dialog) && !self.prompts
    }

    /// Whether this is the command's name or an alias.
    pub fn has_name(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

const CHAT_LIST: CommandSpec =
    plain("list", SlashCommand::ChatList, "List saved conversations").in_section(CHECKPOINTS);
const CHAT_SAVE: CommandSpec =
    plain("save", SlashCommand::ChatSave, "Save the conversation under a tag")
        .with_arguments("TAG")
        .in_section(CHECKPOINTS);
const CHAT_RESUME: CommandSpec =
    plain("resume", SlashCommand::ChatResume, "Resume a saved conversation")
        .with_aliases(&["load"])
        .with_arguments("TAG")
        .in_section(CHECKPOINTS);
const CHAT_DELETE: CommandSpec =
    plain("delete", SlashCommand::ChatDelete, "Delete a saved conversation")
        .with_arguments("TAG")
        .in_section(CHECKPOINTS);
const CHAT_SHARE: CommandSpec = plain(
    "share",
    SlashCommand::ChatShare,
    "Export the conversation to a file (.md, .json, .html, or .jsonl)",
)
.with_arguments("[FILE]")
.in_section(CHECKPOINTS);

/// Headings below `/chat` and `/resume`: automatically saved sessions, and conversations saved
/// under a tag.
const AUTO: &str = "auto";
const CHECKPOINTS: &str = "checkpoints";

/// Saved conversations; also below `checkpoints`, for compatibility.
const TAGS: &[CommandSpec] = &[CHAT_LIST, CHAT_SAVE, CHAT_RESUME, CHAT_DELETE, CHAT_SHARE];
const CHATS: &[CommandSpec] = &[
    plain("browse", SlashCommand::Chat, "Browse automatically saved sessions").in_section(AUTO),
    CHAT_LIST,
    CHAT_SAVE,
    CHAT_RESUME,
    CHAT_DELETE,
    CHAT_SHARE,
    plain("checkpoints", SlashCommand::ChatList, "List saved conversations")
        .with_aliases(&["checkpoint"])
        .with_subcommands(TAGS)
        .hidden(),
];

const EXTENSIONS: &[CommandSpec] = &[
    plain("list", SlashCommand::Extensions, "List installed extensions"),
    plain(
        "install",
        SlashCommand::ExtensionsInstall,
        "Install from a URL, a directory, or an archive",
    )
    .with_arguments("SOURCE"),
    plain("link", SlashCommand::ExtensionsLink, "Use an extension in place, without copying it")
        .with_arguments("FOLDER"),
    plain("update", SlashCommand::ExtensionsUpdate, "Update one or all extensions")
        .with_arguments("NAME|--all"),
    plain("uninstall", SlashCommand::ExtensionsUninstall, "Uninstall an extension")
        .with_aliases(&["delete"])
        .with_arguments("NAME"),
    plain("enable", SlashCommand::ExtensionsEnable, "Enable an extension")
        .with_arguments("NAME [workspace]"),
    plain("disable", SlashCommand::ExtensionsDisable, "Disable an extension")
        .with_arguments("NAME [workspace]"),
    plain("config", SlashCommand::ExtensionsConfig, "Set the values of an extension's settings")
        .with_arguments("NAME [SETTING]"),
    plain("explore", SlashCommand::ExtensionsExplore, "Open the extension gallery in the browser"),
    plain("reload", SlashCommand::ExtensionsReload, "Reload all extensions")
        .with_aliases(&["restart"]),
];

/// All commands, sorted by name.
pub static TABLE: &[CommandSpec] = &[
    plain("about", SlashCommand::About, "Show version, model, sandbox, and authentication")
        .while_running()
        .headless("/about")
        .editors(&[("about", "Show the version and the environment", "")]),
    plain("agents", SlashCommand::AgentsPanel, "Manage subagents")
        .with_subcommands(&[
            plain("list", SlashCommand::Agents, "List subagents with their descriptions"),
            plain("reload", SlashCommand::AgentsReload, "Reload the files of subagents")
                .with_aliases(&["refresh"]),
            plain("enable", SlashCommand::AgentsEnable, "Enable a subagent").with_arguments("NAME"),
            plain("disable", SlashCommand::AgentsDisable, "Disable a subagent")
                .with_arguments("NAME"),
            plain("accept", SlashCommand::AgentsAccept, "Accept subagents of the project")
                .with_arguments("[NAME]")
                .with_aliases(&["acknowledge"]),
            plain(
                "config",
                SlashCommand::AgentsConfig,
                "Show or change the settings of a subagent",
            )
            .with_arguments("NAME [SETTING VALUE]"),
        ])
        .headless("/agents [list]")
        .editors(&[("agents", "List subagents", "")]),
    plain("auth", SlashCommand::Auth, "Sign in").with_subcommands(&[
        plain("signin", SlashCommand::Auth, "Sign in").with_aliases(&["login"]),
        plain("signout", SlashCommand::AuthSignOut, "Delete the saved key")
            .with_aliases(&["logout"]),
    ]),
    plain("budget", SlashCommand::Budget, "Show or set budgets")
        .with_arguments("[[prompt] cost|tokens|time AMOUNT|off]")
        .while_running()
        .parallax_only(),
    plain("bug", SlashCommand::Bug, "Report a bug").with_arguments("[TITLE]"),
    plain("chat", SlashCommand::Chat, "Browse, save, and share conversations")
        .with_subcommands(CHATS)
        .headless("/chat list"),
    plain("clear", SlashCommand::Clear, "Start a new session with empty context")
        .with_aliases(&["new"]),
    plain("commands", SlashCommand::CommandsList, "List custom commands")
        .with_subcommands(&[
            plain("list", SlashCommand::CommandsList, "List custom commands by source"),
            plain("reload", SlashCommand::CommandsReload, "Reload the files of custom commands")
                .with_aliases(&["refresh"]),
        ])
        .headless("/commands [list]"),
    plain("commit", SlashCommand::Commit, "Commit and push the changes").prompts().parallax_only(),
    plain("commit:no-push", SlashCommand::CommitNoPush, "Commit the changes without pushing")
        .prompts()
        .parallax_only(),
    plain("commit:pr", SlashCommand::CommitPr, "Commit the changes and open a pull request")
        .prompts()
        .parallax_only(),
    plain("compress", SlashCommand::Compress, "Compact the history, keeping what matters")
        .with_aliases(&["summarize", "compact"])
        .with_arguments("[FOCUS]")
        .while_running()
        .with_subcommands(&[plain(
            "undo",
            SlashCommand::CompressUndo,
            "Undo the latest compaction",
        )
        .while_running()])
        .headless("/compress [FOCUS]")
        .editors(&[("compress", "Summarize the conversation to free context", "focus")]),
    plain(
        "context",
        SlashCommand::Context,
        "Show what fills the context window; drop or pin results",
    )
    .while_running()
    .parallax_only()
    .headless("/context")
    .editors(&[("context", "Show what fills the context", "")]),
    plain("continue", SlashCommand::Continue, "Continue an interrupted turn")
        .prompts()
        .parallax_only(),
    plain("copy", SlashCommand::Copy, "Copy the last answer").while_running(),
    plain("debug", SlashCommand::Debug, "Show the log and all requests with size and time")
        .while_running()
        .parallax_only(),
    plain("devtools", SlashCommand::DevTools, "Inspect the requests of the session in the browser")
        .with_arguments("[--no-open]")
        .while_running()
        .parallax_only(),
    plain("diff", SlashCommand::Diff, "Show what the agent's edits changed in this session")
        .while_running()
        .parallax_only(),
    plain("directory", SlashCommand::Directory, "Manage workspace directories")
        .with_aliases(&["dir"])
        .with_subcommands(&[
            plain("add", SlashCommand::DirectoryAdd, "Add directories")
                .with_arguments("PATH[,PATH…]"),
            plain("show", SlashCommand::Directory, "List the directories"),
        ])
        .headless("/directory [show]"),
    plain("docs", SlashCommand::Docs, "Open the documentation")
        .with_arguments("[PAGE]")
        .while_running(),
    plain("editor", SlashCommand::Editor, "Choose the editor for prompts and changes"),
    plain("export-session", SlashCommand::ExportSession, "Export the whole session to a file")
        .with_arguments("FILE"),
    plain("extensions", SlashCommand::ExtensionsPanel, "Manage extensions")
        .with_aliases(&["extension"])
        .with_subcommands(EXTENSIONS)
        .headless("/extensions [list]")
        .editors(&[
            ("extensions", "List extensions", ""),
            ("extensions list", "List extensions", ""),
            ("extensions explore", "Show the address of the extension gallery", ""),
            ("extensions enable", "Enable an extension", "NAME [workspace]"),
            ("extensions disable", "Disable an extension", "NAME [workspace]"),
            ("extensions install", "Install an extension", "URL | directory | archive"),
            ("extensions link", "Use an extension in place", "directory"),
            ("extensions uninstall", "Uninstall an extension", "NAME"),
            ("extensions update", "Update extensions", "NAME | --all"),
            ("extensions restart", "Reload all extensions", ""),
        ]),
    plain("footer", SlashCommand::Footer, "Choose the items of the status line")
        .with_aliases(&["statusline"])
        .while_running(),
    plain("fork", SlashCommand::Fork, "Continue in a copy: from here, or from before a prompt")
        .with_arguments("[PROMPT]")
        .parallax_only(),
    plain("help", SlashCommand::Help, "Show commands and keys")
        .with_aliases(&["?"])
        .while_running()
        .headless("/help")
        .editors(&[("help", "List commands", "")]),
    plain("hooks", SlashCommand::Hooks, "Manage hooks")
        .with_subcommands(&[
            plain("panel", SlashCommand::Hooks, "Show, enable, and disable hooks")
                .with_aliases(&["list", "show"]),
            plain("accept", SlashCommand::HooksAccept, "Accept the current hooks of the project"),
            plain("enable", SlashCommand::HooksEnable, "Enable a hook").with_arguments("NAME"),
            plain("disable", SlashCommand::HooksDisable, "Disable a hook").with_arguments("NAME"),
            plain("enable-all", SlashCommand::HooksEnableAll, "Enable all hooks"),
            plain("disable-all", SlashCommand::HooksDisableAll, "Disable all hooks"),
            plain(
                "trace",
                SlashCommand::HooksTrace,
                "Show the hook runs of this session and their results",
            ),
        ])
        .headless("/hooks [list]")
        .editors(&[("hooks", "List hooks", "")]),
    plain("ide", SlashCommand::Ide, "Connect to the editor")
        .while_running()
        .with_subcommands(&[
            plain("status", SlashCommand::Ide, "Show the connection and the open files")
                .while_running(),
            plain("enable", SlashCommand::IdeEnable, "Connect, now and in later sessions")
                .while_running(),
            plain("disable", SlashCommand::IdeDisable, "Disconnect, now and in later sessions")
                .while_running(),
            plain("install", SlashCommand::IdeInstall, "Install the companion extension")
                .while_running(),
            plain("doctor", SlashCommand::IdeDoctor, "Explain why the editor is not connected")
                .while_running(),
        ])
        .headless("/ide [status|doctor]"),
    plain("init", SlashCommand::Init, "Generate a GEMINI.md for the project")
        .prompts()
        .editors(&[("init", "Write a GEMINI.md for the project", "")]),
    plain("load", SlashCommand::Load, "Resume a session, or load a file of another program")
        .with_arguments("[ID|FILE]")
        .parallax_only(),
    plain("mcp", SlashCommand::McpPanel, "Manage MCP servers")
        .while_running()
        .with_subcommands(&[
            plain("list", SlashCommand::Mcp, "List servers with the names of their tools")
                .with_aliases(&["ls", "nodesc"])
                .while_running(),
            plain("desc", SlashCommand::McpDescriptions, "Include descriptions").while_running(),
            plain("schema", SlashCommand::McpSchemas, "Include the schemas of tools")
                .while_running(),
            plain("auth", SlashCommand::McpAuth, "Sign in to a server")
                .with_arguments("[SERVER]")
                .while_running(),
            plain("reload", SlashCommand::McpReload, "Restart the servers")
                .with_aliases(&["refresh"]),
            plain("enable", SlashCommand::McpEnable, "Enable a server")
                .with_arguments("SERVER [--session]"),
            plain("disable", SlashCommand::McpDisable, "Disable a server")
                .with_arguments("SERVER [--session]"),
        ])
        .headless("/mcp [list|desc|schema]")
        .editors(&[
            ("mcp", "List MCP servers and their tools", "list | desc | schema"),
            ("mcp reload", "Restart the MCP servers", ""),
        ]),
    plain("memory", SlashCommand::Memory, "Manage context files")
        .with_subcommands(&[
            plain("show", SlashCommand::Memory, "Show the contents"),
            plain("list", SlashCommand::MemoryList, "List the files"),
            plain("reload", SlashCommand::MemoryReload, "Reload the files")
                .with_aliases(&["refresh"]),
            plain("add", SlashCommand::MemoryAdd, "Save a fact for all later sessions")
                .with_arguments("TEXT"),
            plain("inbox", SlashCommand::MemoryInbox, "List memory suggestions (always empty)")
                .while_running(),
        ])
        .headless("/memory [show|list]")
        .editors(&[
            ("memory show", "Show the loaded context files", ""),
            ("memory list", "List the loaded context files", ""),
            ("memory refresh", "Reload the context files", ""),
            ("memory add", "Save a fact for all later sessions", "TEXT"),
            ("memory inbox", "List memory suggestions (always empty)", ""),
        ]),
    plain("mode", SlashCommand::Mode, "Choose the approval mode").parallax_only().editors(&[(
        "mode",
        "Show or change the approval mode",
        "default | autoEdit | plan | yolo",
    )]),
    plain("model", SlashCommand::Model, "Choose the model")
        .with_subcommands(&[
            plain("manage", SlashCommand::Model, "Choose the model"),
            plain("set", SlashCommand::ModelSet, "Use a model by name")
                .with_arguments("NAME [--persist]"),
            plain("why", SlashCommand::ModelWhy, "Explain how the model was chosen")
                .while_running(),
        ])
        .headless("/model [why]")
        .editors(&[("model", "Show or change the model", "NAME")]),
    plain("parallax", SlashCommand::Parallax, "Reach a goal with coordinated subagents")
        .with_arguments("GOAL")
        .parallax_only(),
    plain("permissions", SlashCommand::Permissions, "Manage trusted folders")
        .with_subcommands(&[plain("trust", SlashCommand::PermissionsTrust, "Trust a folder")
            .with_arguments("[FOLDER]")])
        .headless("/permissions"),
    plain("plan", SlashCommand::Plan, "Plan first: no changes until you approve a plan")
        .with_arguments("[WHAT]")
        .with_subcommands(&[plain("copy", SlashCommand::PlanCopy, "Copy the plan")])
        .headless("/plan TEXT")
        .editors(&[("plan", "Plan a task without changing anything", "task")]),
    plain("policies", SlashCommand::PoliciesPanel, "Show the rules in effect")
        .with_subcommands(&[plain("list", SlashCommand::Policies, "Show the rules in effect")])
        .headless("/policies [list]")
        .editors(&[("policies", "List policy rules", "")]),
    plain("privacy", SlashCommand::Privacy, "Show which data is sent, and where")
        .while_running()
        .headless("/privacy"),
    plain("quit", SlashCommand::Quit, "Exit")
        .with_aliases(&["exit"])
        .with_arguments("[--delete]")
        .while_running(),
    plain(
        "restore",
        SlashCommand::Restore,
        "Restore files to their state before a change and review it again",
    )
    .with_arguments("[NAME]")
    .headless("/restore [list]")
    .editors(&[
        ("restore list", "List the changes that can be restored", ""),
        ("restore", "Restore files to their state before a change", "NAME"),
    ]),
    plain("resume", SlashCommand::Chat, "Browse, save, and share conversations")
        .with_subcommands(CHATS),
    plain(
        "rewind",
        SlashCommand::Rewind,
        "Go back to an earlier prompt: conversation, files, or both",
    ),
    plain("settings", SlashCommand::Settings, "Show and change settings"),
    plain("shells", SlashCommand::Tasks, "Show background commands")
        .with_aliases(&["tasks", "bg", "background", "bashes"])
        .while_running(),
    plain("shortcuts", SlashCommand::Shortcuts, "Show the keys").while_running(),
    plain("skills", SlashCommand::SkillsPanel, "Manage skills")
        .with_arguments("[nodesc] [all]")
        .with_subcommands(&[
            plain("list", SlashCommand::Skills, "List enabled skills")
                .with_arguments("[nodesc] [all]"),
            plain("enable", SlashCommand::SkillsEnable, "Enable a skill").with_arguments("NAME"),
            plain("disable", SlashCommand::SkillsDisable, "Disable a skill").with_arguments("NAME"),
            plain("link", SlashCommand::SkillsLink, "Use the skills of a directory in place")
                .with_arguments("DIRECTORY [--scope user|workspace]"),
            plain("reload", SlashCommand::SkillsReload, "Reload the files of skills")
                .with_aliases(&["refresh"]),
            plain(
                "unload",
                SlashCommand::SkillsUnload,
                "Remove the text of a skill from the context",
            )
            .with_arguments("NAME"),
        ])
        .headless("/skills [list]")
        .editors(&[("skills", "List skills", "")]),
    plain("stats", SlashCommand::StatsPanel, "Show tokens, cost, time, and tools of this session")
        .with_aliases(&["usage", "cost"])
        .while_running()
        .with_subcommands(&[
            plain("session", SlashCommand::Stats, "Show the session").while_running(),
            plain("model", SlashCommand::StatsModel, "Show statistics by model").while_running(),
            plain("tools", SlashCommand::StatsTools, "Show statistics by tool").while_running(),
        ])
        .headless("/stats [session|model|tools]")
        .editors(&[("stats", "Show tokens, time, and cost", "")]),
    plain(
        "terminal-setup",
        SlashCommand::TerminalSetup,
        "Configure Shift+Enter in the terminals of editors",
    ),
    plain("theme", SlashCommand::Theme, "Choose a theme").with_arguments("[NAME]").opens_dialog(),
    plain("todos", SlashCommand::Todos, "Show the agent's to-do list")
        .while_running()
        .parallax_only()
        .headless("/todos"),
    plain("tools", SlashCommand::ToolsPanel, "List the model's tools")
        .with_subcommands(&[
            plain("list", SlashCommand::Tools, "Names only").with_aliases(&["nodesc"]),
            plain(
                "desc",
                SlashCommand::ToolsDescriptions,
                "Include the descriptions that the model sees",
            )
            .with_aliases(&["descriptions"]),
        ])
        .headless("/tools [desc]")
        .editors(&[("tools", "List tools", "")]),
    plain(
        "transcript",
        SlashCommand::Transcript,
        "Show the whole transcript, to scroll and search",
    )
    .while_running()
    .parallax_only(),
    plain("undo", SlashCommand::Undo, "Undo the file changes of a turn")
        .with_arguments("[TURN] [--force]")
        .parallax_only(),
    plain("vim", SlashCommand::Vim, "Turn vi keys on or off").while_running(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{built_in_names, is_alias, is_parallax_only, is_reserved};

    #[test]
    fn names_and_aliases_are_unique_per_kind() {
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
            let lists = [is_parallax_only(name), is_reserved(name), is_alias(name)];
            let count = lists.into_iter().filter(|is_in| *is_in).count();
            assert_eq!(count, 1, "{name} is of exactly one kind");
        }
        for name in built_in_names() {
            assert!(names().any(|known| *known == name), "{name} is not a command");
        }
        assert!(TABLE.is_sorted_by_key(|command| command.name));
    }
}
