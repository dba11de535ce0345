//! What commands there are.

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    About,
    Agents,
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
    Diff,
    Directory,
    DirectoryAdd,
    Docs,
    Editor,
    Extensions,
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
    Init,
    Load,
    Mcp,
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
    SkillsDisable,
    SkillsEnable,
    SkillsLink,
    SkillsReload,
    SkillsUnload,
    Stats,
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

/// One command as it is typed.
#[derive(Debug)]
pub(crate) struct CommandSpec {
    /// Without the slash.
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// One line for lists and help.
    pub(crate) summary: &'static str,
    /// What may follow, as help shows it.
    pub(crate) arguments: &'static str,
    /// What it does without a subcommand.
    pub(crate) command: Command,
    /// Whether it may run while the agent works.
    pub(crate) concurrent: bool,
    pub(crate) subcommands: &'static [CommandSpec],
    /// Neither listed nor completed.
    pub(crate) hidden: bool,
    /// Without arguments it opens a dialog, which is mostly what is wanted.
    pub(crate) opens: bool,
    /// It is sent to the model.
    pub(crate) prompts: bool,
    /// The heading that it stands under in the list.
    pub(crate) section: &'static str,
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

    /// May run while the agent works.
    const fn anytime(mut self) -> Self {
        self.concurrent = true;
        self
    }

    const fn with(mut self, subcommands: &'static [CommandSpec]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Neither listed nor completed.
    const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Opens a dialog where nothing is said behind it.
    const fn opens(mut self) -> Self {
        self.opens = true;
        self
    }

    /// Sends something to the model: never run before it stands there in full.
    const fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    const fn under(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// Whether Enter in the list runs it, for want of anything to be typed.
    pub(crate) fn runs_at_once(&self) -> bool {
        (self.arguments.is_empty() || self.opens) && !self.prompts
    }

    /// Whether it goes by this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

const CHAT_LIST: CommandSpec =
    plain("list", Command::ChatList, "Saved conversations").under(CHECKPOINTS);
const CHAT_SAVE: CommandSpec =
    plain("save", Command::ChatSave, "Save the conversation under a tag")
        .takes("TAG")
        .under(CHECKPOINTS);
const CHAT_RESUME: CommandSpec =
    plain("resume", Command::ChatResume, "Go on with a saved conversation")
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
    "Write the conversation to a file (.md, .json, .html or .jsonl)",
)
.takes("[FILE]")
.under(CHECKPOINTS);

/// Headings below `/chat` and `/resume`: sessions are kept by themselves, others
/// under a name.
const AUTO: &str = "auto";
const CHECKPOINTS: &str = "checkpoints";

/// Saved conversations; also below `checkpoints`, where fingers know them.
const TAGS: &[CommandSpec] = &[CHAT_LIST, CHAT_SAVE, CHAT_RESUME, CHAT_DELETE, CHAT_SHARE];
const CHATS: &[CommandSpec] = &[
    plain("browse", Command::Chat, "Sessions, kept by themselves").under(AUTO),
    CHAT_LIST,
    CHAT_SAVE,
    CHAT_RESUME,
    CHAT_DELETE,
    CHAT_SHARE,
    plain("checkpoints", Command::ChatList, "Saved conversations")
        .aka(&["checkpoint"])
        .with(TAGS)
        .hidden(),
];

const EXTENSIONS: &[CommandSpec] = &[
    plain("list", Command::Extensions, "What is installed"),
    plain("install", Command::ExtensionsInstall, "From an address, a folder or an archive")
        .takes("SOURCE"),
    plain("link", Command::ExtensionsLink, "Use the one of a folder where it is").takes("FOLDER"),
    plain("update", Command::ExtensionsUpdate, "Bring one or all up to date").takes("NAME|--all"),
    plain("uninstall", Command::ExtensionsUninstall, "Remove one").aka(&["delete"]).takes("NAME"),
    plain("enable", Command::ExtensionsEnable, "Switch one on").takes("NAME [workspace]"),
    plain("disable", Command::ExtensionsDisable, "Switch one off").takes("NAME [workspace]"),
    plain("config", Command::ExtensionsConfig, "Give its settings their values")
        .takes("NAME [SETTING]"),
    plain("explore", Command::ExtensionsExplore, "Open the gallery in the browser"),
    plain("reload", Command::ExtensionsReload, "Read all of them again").aka(&["restart"]),
];

/// All commands, by name.
pub(crate) static TABLE: &[CommandSpec] = &[
    plain("about", Command::About, "Version, model, sandbox and sign-in").anytime(),
    plain("agents", Command::Agents, "The sub-agents").with(&[
        plain("list", Command::Agents, "Their names and what they are for"),
        plain("reload", Command::AgentsReload, "Read their files again").aka(&["refresh"]),
        plain("enable", Command::AgentsEnable, "Let one be started").takes("NAME"),
        plain("disable", Command::AgentsDisable, "Switch one off").takes("NAME"),
        plain("accept", Command::AgentsAccept, "Agree to agents of the project")
            .takes("[NAME]")
            .aka(&["acknowledge"]),
        plain("config", Command::AgentsConfig, "See and change what one is set to")
            .takes("NAME [SETTING VALUE]"),
    ]),
    plain("auth", Command::Auth, "Sign in").with(&[
        plain("signin", Command::Auth, "Sign in").aka(&["login"]),
        plain("signout", Command::AuthSignOut, "Forget the saved key").aka(&["logout"]),
    ]),
    plain("budget", Command::Budget, "What may be spent and what is; set a limit")
        .takes("[[prompt] cost|tokens|time AMOUNT|off]")
        .anytime(),
    plain("bug", Command::Bug, "Report a defect").takes("[TITLE]"),
    plain("chat", Command::Chat, "Browse, save and share conversations").with(CHATS),
    plain("clear", Command::Clear, "Begin anew: a new session, nothing in its context")
        .aka(&["new"]),
    plain("commands", Command::CommandsList, "Your own commands, and who brings them").with(&[
        plain("list", Command::CommandsList, "By whose they are"),
        plain("reload", Command::CommandsReload, "Read their files again").aka(&["refresh"]),
    ]),
    plain("commit", Command::Commit, "Have the changes committed and pushed").prompts(),
    plain("commit:no-push", Command::CommitNoPush, "Have the changes committed, not pushed")
        .prompts(),
    plain("commit:pr", Command::CommitPr, "Have the changes committed, and a pull request opened")
        .prompts(),
    plain("compress", Command::Compress, "Make the history shorter, with what matters kept")
        .aka(&["summarize", "compact"])
        .takes("[FOCUS]")
        .anytime()
        .with(&[plain("undo", Command::CompressUndo, "Take the newest one back").anytime()]),
    plain("context", Command::Context, "What fills the model's window; leave out, hold on to")
        .anytime(),
    plain("continue", Command::Continue, "Go on with a turn that was cut off").prompts(),
    plain("copy", Command::Copy, "Copy the last answer").anytime(),
    plain("debug", Command::Debug, "The log, and every request with its size and time").anytime(),
    plain("diff", Command::Diff, "What the agent changed in this session").anytime(),
    plain("directory", Command::Directory, "Folders of the workspace").aka(&["dir"]).with(&[
        plain("add", Command::DirectoryAdd, "Add folders").takes("PATH[,PATH…]"),
        plain("show", Command::Directory, "Show the folders"),
    ]),
    plain("docs", Command::Docs, "Open the guide").takes("[PAGE]").anytime(),
    plain("editor", Command::Editor, "Choose the editor for prompts and changes"),
    plain("export-session", Command::ExportSession, "Write the whole session to a file")
        .takes("FILE"),
    plain("extensions", Command::Extensions, "Extensions: what is installed, and changing that")
        .aka(&["extension"])
        .with(EXTENSIONS),
    plain("footer", Command::Footer, "Choose what the footer shows, and in which order")
        .aka(&["statusline"])
        .anytime(),
    plain("fork", Command::Fork, "Go on in a copy: from here, or from before a prompt")
        .takes("[PROMPT]"),
    plain("help", Command::Help, "Commands and keys").aka(&["?"]).anytime(),
    plain("hooks", Command::Hooks, "Programs that hear of what happens").with(&[
        plain("panel", Command::Hooks, "See and switch them").aka(&["list", "show"]),
        plain("accept", Command::HooksAccept, "Accept the project's hooks as they are now"),
        plain("enable", Command::HooksEnable, "Switch one on").takes("NAME"),
        plain("disable", Command::HooksDisable, "Switch one off").takes("NAME"),
        plain("enable-all", Command::HooksEnableAll, "Switch all on"),
        plain("disable-all", Command::HooksDisableAll, "Switch all off"),
        plain("trace", Command::HooksTrace, "Which ran in this session, and what they answered"),
    ]),
    plain("init", Command::Init, "Have a GEMINI.md written for the project").prompts(),
    plain("load", Command::Load, "Go on with a session, or with a file of another program")
        .takes("[ID|FILE]"),
    plain("mcp", Command::Mcp, "MCP servers: how they stand and what they offer").anytime().with(
        &[
            plain("list", Command::Mcp, "With the names of what they offer")
                .aka(&["ls", "nodesc"])
                .anytime(),
            plain("desc", Command::McpDescriptions, "With descriptions").anytime(),
            plain("schema", Command::McpSchemas, "With the schemas of tools").anytime(),
            plain("auth", Command::McpAuth, "Sign in to a server").takes("[SERVER]").anytime(),
            plain("reload", Command::McpReload, "Start them again").aka(&["refresh"]),
            plain("enable", Command::McpEnable, "Switch a server on").takes("SERVER [--session]"),
            plain("disable", Command::McpDisable, "Switch a server off")
                .takes("SERVER [--session]"),
        ],
    ),
    plain("memory", Command::Memory, "What the model is told of you and the project").with(&[
        plain("show", Command::Memory, "The whole text"),
        plain("list", Command::MemoryList, "The files"),
        plain("reload", Command::MemoryReload, "Read the files again").aka(&["refresh"]),
        plain("add", Command::MemoryAdd, "Keep a fact for all later sessions").takes("TEXT"),
        plain("inbox", Command::MemoryInbox, "What waits for your word").anytime(),
    ]),
    plain("mode", Command::Mode, "Choose what runs without a question"),
    plain("model", Command::Model, "Choose the model").with(&[
        plain("manage", Command::Model, "Choose the model"),
        plain("set", Command::ModelSet, "Use a model by name").takes("NAME [--persist]"),
        plain("why", Command::ModelWhy, "Which model answers, and why").anytime(),
    ]),
    plain("parallax", Command::Parallax, "Have sub-agents reach a goal, coordinated").takes("GOAL"),
    plain("permissions", Command::Permissions, "Trust of this folder").with(&[plain(
        "trust",
        Command::PermissionsTrust,
        "Trust a folder",
    )
    .takes("[FOLDER]")]),
    plain("plan", Command::Plan, "Plan first: nothing is changed until you agree to a plan")
        .takes("[WHAT]")
        .with(&[plain("copy", Command::PlanCopy, "Copy the plan")]),
    plain("policies", Command::Policies, "The rules in force").with(&[plain(
        "list",
        Command::Policies,
        "The rules in force",
    )]),
    plain("privacy", Command::Privacy, "What is sent where").anytime(),
    plain("quit", Command::Quit, "Leave").aka(&["exit"]).takes("[--delete]").anytime(),
    plain("restore", Command::Restore, "Go back to before a change of a file, and be asked again")
        .takes("[NAME]"),
    plain("resume", Command::Chat, "Browse, save and share conversations").with(CHATS),
    plain("rewind", Command::Rewind, "Go back to an earlier prompt: conversation, files or both"),
    plain("settings", Command::Settings, "See and change settings"),
    plain("shells", Command::Tasks, "Commands that run in the background")
        .aka(&["tasks", "bg", "background", "bashes"])
        .anytime(),
    plain("shortcuts", Command::Shortcuts, "The keys").anytime(),
    plain("skills", Command::Skills, "Skills that the agent can use").takes("[nodesc] [all]").with(
        &[
            plain("list", Command::Skills, "Those that are on").takes("[nodesc] [all]"),
            plain("enable", Command::SkillsEnable, "Switch one on").takes("NAME"),
            plain("disable", Command::SkillsDisable, "Switch one off").takes("NAME"),
            plain("link", Command::SkillsLink, "Use those of a folder where they are")
                .takes("FOLDER [--scope user|workspace]"),
            plain("reload", Command::SkillsReload, "Read their files again").aka(&["refresh"]),
            plain("unload", Command::SkillsUnload, "Take what one told out of the context")
                .takes("NAME"),
        ],
    ),
    plain("stats", Command::Stats, "Tokens, cost, time and tools of this session")
        .aka(&["usage", "cost"])
        .anytime()
        .with(&[
            plain("session", Command::Stats, "The session").anytime(),
            plain("model", Command::StatsModel, "By model").anytime(),
            plain("tools", Command::StatsTools, "By tool").anytime(),
        ]),
    plain("terminal-setup", Command::TerminalSetup, "Shift+Enter for editors' terminals"),
    plain("theme", Command::Theme, "Choose the colours").takes("[NAME]").opens(),
    plain("todos", Command::Todos, "The agent's list of what is to be done").anytime(),
    plain("tools", Command::Tools, "The tools of the model").with(&[
        plain("list", Command::Tools, "Their names").aka(&["nodesc"]),
        plain("desc", Command::ToolsDescriptions, "With what the model is told of them")
            .aka(&["descriptions"]),
    ]),
    plain("transcript", Command::Transcript, "All of it on the whole window, to scroll and search")
        .anytime(),
    plain("undo", Command::Undo, "Give files back what they were before a turn")
        .takes("[TURN] [--force]"),
    plain("vim", Command::Vim, "Keys of vim in the composer, on and off").anytime(),
];

#[cfg(test)]
mod tests {
    use parallax_sdk::custom_commands::{OWN, RESERVED, is_alias};

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
            assert!(names().any(|known| known == name), "{name} is no command");
        }
        assert!(TABLE.is_sorted_by_key(|command| command.name));
    }

    #[test]
    fn every_name_can_be_told_where_no_terminal_is() {
        let known: Vec<&str> = parallax_sdk::telling::built_in().collect();
        for command in TABLE {
            assert!(known.contains(&command.name), "{}", command.name);
        }
    }
}
