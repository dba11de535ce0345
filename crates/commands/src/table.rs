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
    pub concurrent: bool,
    pub subcommands: &'static [CommandSpec],
    /// Whether the command is hidden from lists and completion.
    pub hidden: bool,
    /// Whether the command opens a dialog when it has no arguments.
    pub opens: bool,
    /// Whether the command, without arguments, only opens a dialog or a panel. It leaves no row in
    /// the transcript.
    pub panel: bool,
    /// Whether the command sends a prompt to the model.
    pub prompts: bool,
    /// The heading of the command in the list.
    pub section: &'static str,
    /// Whether Gemini CLI has no such command. A custom command with the name overrides it.
    pub own: bool,
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
        own: false,
        headless: "",
        editors: &[],
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

    /// Marks a command that Gemini CLI does not have.
    const fn own(mut self) -> Self {
        self.own = true;
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

    const fn under(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// Whether Enter in the completion list runs the command, because nothing needs to be typed
    /// after it.
    pub fn runs_at_once(&self) -> bool {
        (self.arguments.is_empty() || self.opens) && !self.prompts
    }

    /// Whether this is the command's name or an alias.
    pub fn is(&self, name: &str) -> bool {
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
pub static TABLE: &[CommandSpec] = &[
    plain("about", SlashCommand::About, "Show version, model, sandbox, and authentication")
        .anytime()
        .headless("/about")
        .editors(&[("about", "Show the version and the environment", "")]),
    plain("agents", SlashCommand::AgentsPanel, "Manage subagents")
        .with(&[
            plain("list", SlashCommand::Agents, "List subagents with their descriptions"),
            plain("reload", SlashCommand::AgentsReload, "Reload their files").aka(&["refresh"]),
            plain("enable", SlashCommand::AgentsEnable, "Enable a subagent").takes("NAME"),
            plain("disable", SlashCommand::AgentsDisable, "Disable a subagent").takes("NAME"),
            plain("accept", SlashCommand::AgentsAccept, "Accept subagents of the project")
                .takes("[NAME]")
                .aka(&["acknowledge"]),
            plain(
                "config",
                SlashCommand::AgentsConfig,
                "Show or change the settings of a subagent",
            )
            .takes("NAME [SETTING VALUE]"),
        ])
        .headless("/agents [list]")
        .editors(&[("agents", "List subagents", "")]),
    plain("auth", SlashCommand::Auth, "Sign in").with(&[
        plain("signin", SlashCommand::Auth, "Sign in").aka(&["login"]),
        plain("signout", SlashCommand::AuthSignOut, "Delete the saved key").aka(&["logout"]),
    ]),
    plain("budget", SlashCommand::Budget, "Show or set budgets")
        .takes("[[prompt] cost|tokens|time AMOUNT|off]")
        .anytime()
        .own(),
    plain("bug", SlashCommand::Bug, "Report a bug").takes("[TITLE]"),
    plain("chat", SlashCommand::Chat, "Browse, save, and share conversations")
        .with(CHATS)
        .headless("/chat list"),
    plain("clear", SlashCommand::Clear, "Start a new session with empty context").aka(&["new"]),
    plain("commands", SlashCommand::CommandsList, "List custom commands")
        .with(&[
            plain("list", SlashCommand::CommandsList, "List custom commands by source"),
            plain("reload", SlashCommand::CommandsReload, "Reload their files").aka(&["refresh"]),
        ])
        .headless("/commands [list]"),
    plain("commit", SlashCommand::Commit, "Commit and push the changes").prompts().own(),
    plain("commit:no-push", SlashCommand::CommitNoPush, "Commit the changes without pushing")
        .prompts()
        .own(),
    plain("commit:pr", SlashCommand::CommitPr, "Commit the changes and open a pull request")
        .prompts()
        .own(),
    plain("compress", SlashCommand::Compress, "Compact the history, keeping what matters")
        .aka(&["summarize", "compact"])
        .takes("[FOCUS]")
        .anytime()
        .with(&[plain("undo", SlashCommand::CompressUndo, "Undo the latest compaction").anytime()])
        .headless("/compress [FOCUS]")
        .editors(&[("compress", "Summarize the conversation to free context", "focus")]),
    plain(
        "context",
        SlashCommand::Context,
        "Show what fills the context window; drop or pin results",
    )
    .anytime()
    .own()
    .headless("/context")
    .editors(&[("context", "Show what fills the context", "")]),
    plain("continue", SlashCommand::Continue, "Continue an interrupted turn").prompts().own(),
    plain("copy", SlashCommand::Copy, "Copy the last answer").anytime(),
    plain("debug", SlashCommand::Debug, "Show the log and all requests with size and time")
        .anytime()
        .own(),
    plain("devtools", SlashCommand::DevTools, "Inspect the requests of the session in the browser")
        .takes("[--no-open]")
        .anytime()
        .own(),
    plain("diff", SlashCommand::Diff, "Show what the agent's edits changed in this session")
        .anytime()
        .own(),
    plain("directory", SlashCommand::Directory, "Manage workspace directories")
        .aka(&["dir"])
        .with(&[
            plain("add", SlashCommand::DirectoryAdd, "Add directories").takes("PATH[,PATH…]"),
            plain("show", SlashCommand::Directory, "List the directories"),
        ])
        .headless("/directory [show]"),
    plain("docs", SlashCommand::Docs, "Open the documentation").takes("[PAGE]").anytime(),
    plain("editor", SlashCommand::Editor, "Choose the editor for prompts and changes"),
    plain("export-session", SlashCommand::ExportSession, "Export the whole session to a file")
        .takes("FILE"),
    plain("extensions", SlashCommand::ExtensionsPanel, "Manage extensions")
        .aka(&["extension"])
        .with(EXTENSIONS)
        .headless("/extensions [list]")
        .editors(&[("extensions", "List extensions", "")]),
    plain("footer", SlashCommand::Footer, "Choose the items of the status line")
        .aka(&["statusline"])
        .anytime(),
    plain("fork", SlashCommand::Fork, "Continue in a copy: from here, or from before a prompt")
        .takes("[PROMPT]")
        .own(),
    plain("help", SlashCommand::Help, "Show commands and keys")
        .aka(&["?"])
        .anytime()
        .headless("/help")
        .editors(&[("help", "List commands", "")]),
    plain("hooks", SlashCommand::Hooks, "Manage hooks")
        .with(&[
            plain("panel", SlashCommand::Hooks, "Show, enable, and disable hooks")
                .aka(&["list", "show"]),
            plain(
                "accept",
                SlashCommand::HooksAccept,
                "Accept the project's hooks as they are now",
            ),
            plain("enable", SlashCommand::HooksEnable, "Enable a hook").takes("NAME"),
            plain("disable", SlashCommand::HooksDisable, "Disable a hook").takes("NAME"),
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
        .anytime()
        .with(&[
            plain("status", SlashCommand::Ide, "Show the connection and the open files").anytime(),
            plain("enable", SlashCommand::IdeEnable, "Connect, now and in later sessions")
                .anytime(),
            plain("disable", SlashCommand::IdeDisable, "Disconnect, now and in later sessions")
                .anytime(),
            plain("install", SlashCommand::IdeInstall, "Install the companion extension").anytime(),
            plain("doctor", SlashCommand::IdeDoctor, "Explain why the editor is not connected")
                .anytime(),
        ])
        .headless("/ide [status|doctor]"),
    plain("init", SlashCommand::Init, "Generate a GEMINI.md for the project")
        .prompts()
        .editors(&[("init", "Write a GEMINI.md for the project", "")]),
    plain("load", SlashCommand::Load, "Resume a session, or load a file of another program")
        .takes("[ID|FILE]")
        .own(),
    plain("mcp", SlashCommand::McpPanel, "Manage MCP servers")
        .anytime()
        .with(&[
            plain("list", SlashCommand::Mcp, "List servers with the names of their tools")
                .aka(&["ls", "nodesc"])
                .anytime(),
            plain("desc", SlashCommand::McpDescriptions, "Include descriptions").anytime(),
            plain("schema", SlashCommand::McpSchemas, "Include the schemas of tools").anytime(),
            plain("auth", SlashCommand::McpAuth, "Sign in to a server").takes("[SERVER]").anytime(),
            plain("reload", SlashCommand::McpReload, "Restart the servers").aka(&["refresh"]),
            plain("enable", SlashCommand::McpEnable, "Enable a server").takes("SERVER [--session]"),
            plain("disable", SlashCommand::McpDisable, "Disable a server")
                .takes("SERVER [--session]"),
        ])
        .headless("/mcp [list|desc|schema]")
        .editors(&[("mcp", "List MCP servers and their tools", "list | desc | schema")]),
    plain("memory", SlashCommand::Memory, "Manage context files")
        .with(&[
            plain("show", SlashCommand::Memory, "Show the contents"),
            plain("list", SlashCommand::MemoryList, "List the files"),
            plain("reload", SlashCommand::MemoryReload, "Reload the files").aka(&["refresh"]),
            plain("add", SlashCommand::MemoryAdd, "Save a fact for all later sessions")
                .takes("TEXT"),
            plain(
                "inbox",
                SlashCommand::MemoryInbox,
                "List memory suggestions that wait for your approval",
            )
            .anytime(),
        ])
        .headless("/memory [show|list]")
        .editors(&[
            ("memory show", "Show the loaded context files", ""),
            ("memory list", "List the loaded context files", ""),
        ]),
    plain("mode", SlashCommand::Mode, "Choose the approval mode").own().editors(&[(
        "mode",
        "Show or change the approval mode",
        "default | autoEdit | plan | yolo",
    )]),
    plain("model", SlashCommand::Model, "Choose the model")
        .with(&[
            plain("manage", SlashCommand::Model, "Choose the model"),
            plain("set", SlashCommand::ModelSet, "Use a model by name").takes("NAME [--persist]"),
            plain("why", SlashCommand::ModelWhy, "Explain how the model was chosen").anytime(),
        ])
        .headless("/model [why]")
        .editors(&[("model", "Show or change the model", "NAME")]),
    plain("parallax", SlashCommand::Parallax, "Reach a goal with coordinated subagents")
        .takes("GOAL")
        .own(),
    plain("permissions", SlashCommand::Permissions, "Manage trusted folders")
        .with(&[plain("trust", SlashCommand::PermissionsTrust, "Trust a folder").takes("[FOLDER]")])
        .headless("/permissions"),
    plain("plan", SlashCommand::Plan, "Plan first: no changes until you approve a plan")
        .takes("[WHAT]")
        .with(&[plain("copy", SlashCommand::PlanCopy, "Copy the plan")])
        .headless("/plan TEXT")
        .editors(&[("plan", "Plan a task without changing anything", "task")]),
    plain("policies", SlashCommand::Policies, "Show the rules in effect")
        .with(&[plain("list", SlashCommand::Policies, "Show the rules in effect")])
        .headless("/policies [list]")
        .editors(&[("policies", "List policy rules", "")]),
    plain("privacy", SlashCommand::Privacy, "Show what data is sent where")
        .anytime()
        .headless("/privacy"),
    plain("quit", SlashCommand::Quit, "Exit").aka(&["exit"]).takes("[--delete]").anytime(),
    plain(
        "restore",
        SlashCommand::Restore,
        "Restore files to before a change and review the change again",
    )
    .takes("[NAME]")
    .headless("/restore [list]")
    .editors(&[("restore list", "List the changes that can be restored", "")]),
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
    plain("skills", SlashCommand::SkillsPanel, "Manage skills")
        .takes("[nodesc] [all]")
        .with(&[
            plain("list", SlashCommand::Skills, "List enabled skills").takes("[nodesc] [all]"),
            plain("enable", SlashCommand::SkillsEnable, "Enable a skill").takes("NAME"),
            plain("disable", SlashCommand::SkillsDisable, "Disable a skill").takes("NAME"),
            plain("link", SlashCommand::SkillsLink, "Use the skills of a directory in place")
                .takes("DIRECTORY [--scope user|workspace]"),
            plain("reload", SlashCommand::SkillsReload, "Reload their files").aka(&["refresh"]),
            plain(
                "unload",
                SlashCommand::SkillsUnload,
                "Remove the text of a skill from the context",
            )
            .takes("NAME"),
        ])
        .headless("/skills [list]")
        .editors(&[("skills", "List skills", "")]),
    plain("stats", SlashCommand::StatsPanel, "Show tokens, cost, time, and tools of this session")
        .aka(&["usage", "cost"])
        .anytime()
        .with(&[
            plain("session", SlashCommand::Stats, "Show the session").anytime(),
            plain("model", SlashCommand::StatsModel, "Show statistics by model").anytime(),
            plain("tools", SlashCommand::StatsTools, "Show statistics by tool").anytime(),
        ])
        .headless("/stats [session|model|tools]")
        .editors(&[("stats", "Show tokens, time, and cost", "")]),
    plain(
        "terminal-setup",
        SlashCommand::TerminalSetup,
        "Configure Shift+Enter in the terminals of editors",
    ),
    plain("theme", SlashCommand::Theme, "Choose a theme").takes("[NAME]").opens(),
    plain("todos", SlashCommand::Todos, "Show the agent's to-do list")
        .anytime()
        .own()
        .headless("/todos"),
    plain("tools", SlashCommand::Tools, "List the model's tools")
        .with(&[
            plain("list", SlashCommand::Tools, "Names only").aka(&["nodesc"]),
            plain(
                "desc",
                SlashCommand::ToolsDescriptions,
                "Include the descriptions that the model sees",
            )
            .aka(&["descriptions"]),
        ])
        .headless("/tools [desc]")
        .editors(&[("tools", "List tools", "")]),
    plain(
        "transcript",
        SlashCommand::Transcript,
        "Show the whole transcript, to scroll and search",
    )
    .anytime()
    .own(),
    plain("undo", SlashCommand::Undo, "Undo the file changes of a turn")
        .takes("[TURN] [--force]")
        .own(),
    plain("vim", SlashCommand::Vim, "Turn vi keys on or off").anytime(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{built_in_names, is_alias, is_own, is_reserved};

    #[test]
    fn names_and_aliases_are_unique_and_of_one_kind() {
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
            let lists = [is_own(name), is_reserved(name), is_alias(name)];
            let count = lists.into_iter().filter(|is_in| *is_in).count();
            assert_eq!(count, 1, "{name} is of exactly one kind");
        }
        for name in built_in_names() {
            assert!(names().any(|known| *known == name), "{name} is not a command");
        }
        assert!(TABLE.is_sorted_by_key(|command| command.name));
    }
}
