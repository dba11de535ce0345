//! The dialog over the composer and its purpose.

use std::path::PathBuf;

use parallax_protocol::ids::SteerId;
use parallax_protocol::policy::ApprovalMode;
use parallax_screen::Key;
use parallax_sdk::agents::{Agent, AgentSetting};
use parallax_sdk::credential::KeyKind;

use crate::dialog::{DialogKey, DialogResponse, DialogView, FieldDialog, ListDialog, Panel};
use crate::theme::Theme;

/// What the result of a dialog is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DialogPurpose {
    /// Whether to trust this folder.
    Trust,
    /// Whether to connect to the editor.
    Ide,
    /// Whether to accept project settings that lower security.
    LooseSettings,
    /// Whether to accept new or changed policy rules of the project.
    PolicyUpdate,
    Auth,
    /// Shows the context breakdown.
    Context,
    Key(KeyKind),
    /// The API key of this provider.
    ProviderKey(String),
    /// The model of a provider that was just set up.
    ProviderModel,
    Model,
    /// The previous theme, restored if the dialog is cancelled.
    Theme(Box<Theme>),
    Sessions,
    /// Whether to delete this session.
    DeleteSession(String),
    Tags,
    Rewind,
    RewindHow(u64),
    Restore,
    /// Whether to continue the interrupted turn.
    ContinueTurn,
    Settings,
    /// The value of this setting.
    SettingValue(String),
    Editor,
    /// Which items the footer shows.
    Footer,
    Help,
    /// Text pages that need no answer.
    Pages,
    /// The list of guide pages.
    Docs,
    /// A guide page.
    DocsPage,
    Permissions,
    Mode,
    /// Whether to trust and add the first of these directories.
    AddFolder(Vec<PathBuf>),
    /// Whether to switch to this mode although the directory contains all files.
    Yolo(ApprovalMode),
    Tasks,
    /// The hooks dialog.
    Hooks,
    /// The list of skills.
    Skills,
    /// The list of subagents.
    Agents,
    /// Whether to install, link, or update an extension.
    Consent,
    /// The settings of this extension.
    ExtensionSettings(String),
    /// The value of this setting of this extension.
    ExtensionValue(String, String),
    /// Whether to answer the request of an MCP server.
    ServerQuestion,
    /// A field of the form of an MCP server.
    ServerField,
    /// Approval of agents of the project, starting with the first.
    AcceptAgents(Vec<Agent>),
    /// The settings of this agent.
    AgentSettings(String),
    /// The value of this setting of this agent.
    AgentSetting(String, AgentSetting),
    /// The queued messages, to be edited or removed.
    Queue,
    /// Whether to send a prompt this large.
    LargePrompt {
        text: String,
        steer: Option<SteerId>,
    },
    /// Whether these paths, mentioned in the prompt, may be read.
    OutsideFiles {
        text: String,
        steer: Option<SteerId>,
        paths: Vec<PathBuf>,
    },
}

impl DialogPurpose {
    /// Whether the dialog is one that the user browses, which takes most of the window. Questions
    /// stay below the conversation instead.
    pub(crate) fn is_browsable(&self) -> bool {
        matches!(
            self,
            Self::Context
                | Self::Model
                | Self::Theme(_)
                | Self::Sessions
                | Self::DeleteSession(_)
                | Self::Tags
                | Self::Rewind
                | Self::RewindHow(_)
                | Self::Restore
                | Self::Settings
                | Self::SettingValue(_)
                | Self::Footer
                | Self::Help
                | Self::Pages
                | Self::Docs
                | Self::DocsPage
                | Self::Tasks
                | Self::Hooks
                | Self::Skills
                | Self::Agents
                | Self::ExtensionSettings(_)
                | Self::ExtensionValue(..)
                | Self::AgentSettings(_)
                | Self::AgentSetting(..)
        )
    }
}

/// The kind of dialog.
#[derive(Debug, Clone)]
pub(crate) enum OverlayBody {
    List(Box<ListDialog>),
    Field(FieldDialog),
    Panel(Panel),
}

/// A dialog and its purpose.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) purpose: DialogPurpose,
    pub(crate) body: OverlayBody,
}

impl Overlay {
    pub(crate) fn list(purpose: DialogPurpose, list: ListDialog) -> Self {
        Self { purpose, body: OverlayBody::List(Box::new(list)) }
    }

    pub(crate) fn field(purpose: DialogPurpose, field: FieldDialog) -> Self {
        Self { purpose, body: OverlayBody::Field(field) }
    }

    pub(crate) fn panel(purpose: DialogPurpose, panel: Panel) -> Self {
        Self { purpose, body: OverlayBody::Panel(panel) }
    }

    /// Returns the list, if it is one.
    pub(crate) fn list_mut(&mut self) -> Option<&mut ListDialog> {
        match &mut self.body {
            OverlayBody::List(list) => Some(list),
            _ => None,
        }
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> DialogResponse {
        match &mut self.body {
            OverlayBody::List(list) => list.key(key, raw),
            OverlayBody::Field(field) => field.key(key, raw),
            OverlayBody::Panel(panel) => panel.key(key, raw),
        }
    }

    /// Whether letters are typed as text.
    pub(crate) fn is_typing(&self) -> bool {
        match &self.body {
            OverlayBody::List(list) => list.is_searched(),
            OverlayBody::Field(_) | OverlayBody::Panel(_) => true,
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        match &mut self.body {
            OverlayBody::List(list) => list.paste(text),
            OverlayBody::Field(field) => field.paste(text),
            OverlayBody::Panel(panel) => panel.paste(text),
        }
    }

    /// Returns the rows for a screen reader.
    pub(crate) fn screen_reader_view(
        &self,
        width: usize,
        height: usize,
        theme: &Theme,
    ) -> DialogView {
        match &self.body {
            OverlayBody::List(list) => list.screen_reader_view(width, theme),
            OverlayBody::Panel(panel) => panel.screen_reader_view(width, theme),
            OverlayBody::Field(_) => self.view(width, height, theme),
        }
    }

    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        match &self.body {
            OverlayBody::List(list) => list.view(width, height, theme),
            OverlayBody::Field(field) => field.view(width, height, theme),
            OverlayBody::Panel(panel) => panel.view(width, height, theme),
        }
    }
}
