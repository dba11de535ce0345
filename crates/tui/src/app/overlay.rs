//! The one dialog that may lie over the composer, and what it is for.

use std::path::PathBuf;

use parallax_protocol::ids::SteerId;
use parallax_protocol::policy::ApprovalMode;
use parallax_screen::Key;
use parallax_sdk::agents::{Agent, AgentSetting};
use parallax_sdk::credential::KeyKind;

use crate::dialog::{DialogKey, DialogView, FieldDialog, ListDialog, Panel, Response};
use crate::theme::Theme;

/// What a dialog's answer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// May anything of this folder be read?
    Trust,
    /// Is the connection to the editor wanted?
    Ide,
    /// May settings of the project loosen what holds?
    LooseSettings,
    /// Rules of the project are new or changed.
    PolicyUpdate,
    Auth,
    /// What fills the context.
    Context,
    Key(KeyKind),
    /// The key of this provider.
    ProviderKey(String),
    /// Which model of a provider that was just set up?
    ProviderModel,
    Model,
    /// The theme before, in case it is given up.
    Theme(Box<Theme>),
    Sessions,
    /// Delete this session?
    DeleteSession(String),
    Tags,
    Rewind,
    RewindHow(u64),
    Restore,
    /// Whether to continue the interrupted turn.
    CutOff,
    Settings,
    /// A value for this setting.
    SettingValue(String),
    Editor,
    /// What the footer shows.
    Footer,
    Help,
    /// The pages of the guide.
    Docs,
    /// One of them.
    DocsPage,
    Permissions,
    Mode,
    /// Is the first of these folders to be trusted and added?
    AddFolder(Vec<PathBuf>),
    /// This mode although the folder is one that holds everything.
    Yolo(ApprovalMode),
    Tasks,
    /// The panel of hooks.
    Hooks,
    /// May an extension be installed, linked or updated?
    Consent,
    /// Which setting of this extension?
    ExtensionSettings(String),
    /// A value for this setting of this extension.
    ExtensionValue(String, String),
    /// Is the question of an MCP server answered at all?
    ServerQuestion,
    /// A field of its form.
    ServerField,
    /// Approval of the shell commands in a custom command.
    CustomShell,
    /// Approval of agents of the project, starting with the first.
    AcceptAgents(Vec<Agent>),
    /// What this agent is set to.
    AgentSettings(String),
    /// A value for this setting of this agent.
    AgentSetting(String, AgentSetting),
    /// What is queued, to be edited or removed.
    Queue,
    /// Shall a prompt be sent that brings in this much?
    LargePrompt {
        text: String,
        steer: Option<SteerId>,
    },
    /// May these be read, which the prompt names?
    Outside {
        text: String,
        steer: Option<SteerId>,
        paths: Vec<PathBuf>,
    },
}

/// A dialog of one of the kinds.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    List(Box<ListDialog>),
    Field(FieldDialog),
    Panel(Panel),
}

/// A dialog and what it is for.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) purpose: Purpose,
    pub(crate) body: Body,
}

impl Overlay {
    pub(crate) fn list(purpose: Purpose, list: ListDialog) -> Self {
        Self { purpose, body: Body::List(Box::new(list)) }
    }

    pub(crate) fn field(purpose: Purpose, field: FieldDialog) -> Self {
        Self { purpose, body: Body::Field(field) }
    }

    pub(crate) fn panel(purpose: Purpose, panel: Panel) -> Self {
        Self { purpose, body: Body::Panel(panel) }
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> Response {
        match &mut self.body {
            Body::List(list) => list.key(key, raw),
            Body::Field(field) => field.key(key, raw),
            Body::Panel(panel) => panel.key(key, raw),
        }
    }

    /// Whether letters are text here.
    pub(crate) fn is_typing(&self) -> bool {
        match &self.body {
            Body::List(list) => list.is_searched(),
            Body::Field(_) => true,
            Body::Panel(panel) => panel.is_typing(),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        match &mut self.body {
            Body::List(list) => list.paste(text),
            Body::Field(field) => field.paste(text),
            Body::Panel(panel) => panel.paste(text),
        }
    }

    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        match &self.body {
            Body::List(list) => list.view(width, height, theme),
            Body::Field(field) => field.view(width, theme),
            Body::Panel(panel) => panel.view(width, height, theme),
        }
    }
}
