//! Slash commands while a session of another process is shown.

use crate::app::App;
use crate::app::effect::Effect;
use crate::commands::SlashCommand;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandTarget {
    /// Here: it concerns the view, or sends operations.
    View,
    /// In the session, which answers with its output.
    Session,
    /// In the session, as a prompt.
    Prompt,
    /// Nowhere: it would open another session, or change what only the session's process holds.
    Unavailable,
}

/// Runs a typed command in the session, or reports that it is not available. Returns whether it
/// did; otherwise the command runs here.
pub(crate) fn run(app: &mut App, command: SlashCommand, arguments: &str, text: &str) -> bool {
    if !app.session.is_attached() {
        return false;
    }
    match target(command, arguments) {
        CommandTarget::View => return false,
        CommandTarget::Session => app.queue_effect(Effect::AskOtherProcess(text.trim().to_owned())),
        CommandTarget::Prompt => app.submit(text.trim().to_owned()),
        CommandTarget::Unavailable => {
            let name = text.split_whitespace().next().unwrap_or_default();
            app.error(format!(
                "{name} is not available in an attached session. Type /quit or press Ctrl+D to \
                 detach; the session keeps running."
            ));
        }
    }
    true
}

/// Handles a command that is unknown here. Returns whether the session may know it.
pub(crate) fn run_unknown(app: &mut App, text: &str) -> bool {
    if !app.session.is_attached() {
        return false;
    }
    match text.trim() {
        "/detach" => app.queue_effect(Effect::Quit { delete: false }),
        text => app.submit(text.to_owned()),
    }
    true
}

fn target(command: SlashCommand, arguments: &str) -> CommandTarget {
    let has_arguments = !arguments.trim().is_empty();
    match command {
        SlashCommand::About
        | SlashCommand::Bug
        | SlashCommand::ChatSave
        | SlashCommand::ChatShare
        | SlashCommand::Compress
        | SlashCommand::CompressUndo
        | SlashCommand::Context
        | SlashCommand::Continue
        | SlashCommand::Copy
        | SlashCommand::Debug
        | SlashCommand::DevTools
        | SlashCommand::Diff
        | SlashCommand::DirectoryAdd
        | SlashCommand::Docs
        | SlashCommand::Editor
        | SlashCommand::ExportSession
        | SlashCommand::Footer
        | SlashCommand::Help
        | SlashCommand::MemoryAdd
        | SlashCommand::Mode
        | SlashCommand::Model
        | SlashCommand::ModelSet
        | SlashCommand::Privacy
        | SlashCommand::Rewind
        | SlashCommand::Settings
        | SlashCommand::Shortcuts
        | SlashCommand::Stats
        | SlashCommand::StatsPanel
        | SlashCommand::StatsModel
        | SlashCommand::StatsTools
        | SlashCommand::Tasks
        | SlashCommand::TerminalSetup
        | SlashCommand::Theme
        | SlashCommand::Todos
        | SlashCommand::Transcript
        | SlashCommand::Undo
        | SlashCommand::Vim => CommandTarget::View,
        SlashCommand::Budget if has_arguments => CommandTarget::View,
        SlashCommand::Quit if !has_arguments => CommandTarget::View,
        SlashCommand::Agents
        | SlashCommand::AgentsPanel
        | SlashCommand::ChatList
        | SlashCommand::CommandsList
        | SlashCommand::Directory
        | SlashCommand::Extensions
        | SlashCommand::ExtensionsPanel
        | SlashCommand::Hooks
        | SlashCommand::Ide
        | SlashCommand::IdeDoctor
        | SlashCommand::Mcp
        | SlashCommand::McpPanel
        | SlashCommand::McpDescriptions
        | SlashCommand::McpSchemas
        | SlashCommand::Memory
        | SlashCommand::MemoryInbox
        | SlashCommand::MemoryList
        | SlashCommand::ModelWhy
        | SlashCommand::Policies
        | SlashCommand::PoliciesPanel
        | SlashCommand::Skills
        | SlashCommand::SkillsPanel
        | SlashCommand::Tools
        | SlashCommand::ToolsPanel
        | SlashCommand::ToolsDescriptions => CommandTarget::Session,
        SlashCommand::Restore if !has_arguments => CommandTarget::Session,
        SlashCommand::Permissions if !has_arguments => CommandTarget::Session,
        SlashCommand::Commit
        | SlashCommand::CommitNoPush
        | SlashCommand::CommitPr
        | SlashCommand::Init
        | SlashCommand::Parallax => CommandTarget::Prompt,
        SlashCommand::Plan if has_arguments => CommandTarget::Prompt,
        SlashCommand::AgentsAccept
        | SlashCommand::AgentsConfig
        | SlashCommand::AgentsDisable
        | SlashCommand::AgentsEnable
        | SlashCommand::AgentsReload
        | SlashCommand::Auth
        | SlashCommand::AuthSignOut
        | SlashCommand::Budget
        | SlashCommand::Chat
        | SlashCommand::ChatResume
        | SlashCommand::ChatDelete
        | SlashCommand::Clear
        | SlashCommand::CommandsReload
        | SlashCommand::ExtensionsConfig
        | SlashCommand::ExtensionsDisable
        | SlashCommand::ExtensionsEnable
        | SlashCommand::ExtensionsExplore
        | SlashCommand::ExtensionsInstall
        | SlashCommand::ExtensionsLink
        | SlashCommand::ExtensionsReload
        | SlashCommand::ExtensionsUninstall
        | SlashCommand::ExtensionsUpdate
        | SlashCommand::Fork
        | SlashCommand::HooksAccept
        | SlashCommand::HooksDisable
        | SlashCommand::HooksDisableAll
        | SlashCommand::HooksEnable
        | SlashCommand::HooksEnableAll
        | SlashCommand::HooksTrace
        | SlashCommand::IdeDisable
        | SlashCommand::IdeEnable
        | SlashCommand::IdeInstall
        | SlashCommand::Load
        | SlashCommand::McpAuth
        | SlashCommand::McpDisable
        | SlashCommand::McpEnable
        | SlashCommand::McpReload
        | SlashCommand::MemoryReload
        | SlashCommand::Permissions
        | SlashCommand::PermissionsTrust
        | SlashCommand::Plan
        | SlashCommand::PlanCopy
        | SlashCommand::Quit
        | SlashCommand::Restore
        | SlashCommand::SkillsDisable
        | SlashCommand::SkillsEnable
        | SlashCommand::SkillsLink
        | SlashCommand::SkillsReload
        | SlashCommand::SkillsUnload => CommandTarget::Unavailable,
    }
}
