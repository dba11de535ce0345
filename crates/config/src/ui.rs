//! Typed settings of the interactive front end.

use parallax_protocol::Object;
use serde_json::Value;

use crate::settings::Settings;

/// The `ui.*` settings and the `general.*` settings about the terminal.
#[derive(Debug, Clone, PartialEq)]
pub struct UiSettings {
    /// `ui.theme`: a theme name or a file.
    pub theme: Option<String>,
    /// `ui.autoThemeSwitching`.
    pub auto_theme: bool,
    /// `ui.customThemes`, unparsed.
    pub custom_themes: Object,
    /// `ui.useAlternateBuffer`.
    pub alternate_buffer: bool,
    /// `ui.inlineImages`.
    pub inline_images: InlineImages,
    /// `ui.hideTips`.
    pub hide_tips: bool,
    /// `ui.hideBanner`.
    pub hide_banner: bool,
    /// `ui.hideContextSummary`.
    pub hide_context_summary: bool,
    /// The footer items in order; `None` hides the footer (`ui.hideFooter`).
    pub footer: Option<Vec<FooterItem>>,
    /// Whether the terminal reports when a background command ends, because nothing else does:
    /// `tools.shell.backgroundCompletionBehavior` is `silent`.
    pub reports_background: bool,
    /// `general.checkpointing.enabled`: whether `/restore` has anything to restore.
    pub checkpointing: bool,
    /// `ui.footer.showLabels`.
    pub footer_labels: bool,
    /// Whether the user chose the items (`ui.footer.items`): each is then shown even if it has
    /// nothing noteworthy.
    pub footer_is_chosen: bool,
    /// `ui.statusLine.command`.
    pub status_line: Option<String>,
    /// `ui.showLineNumbers`.
    pub line_numbers: bool,
    /// Whether `ui.inlineThinkingMode` is `full`.
    pub thoughts: bool,
    /// `ui.accessibility.screenReader`.
    pub screen_reader: bool,
    /// What the window title shows.
    pub title: TitleMode,
    /// `ui.loadingPhrases`.
    pub loading_phrases: LoadingPhrases,
    /// `ui.customWittyPhrases`.
    pub witty_phrases: Vec<String>,
    /// `ui.compactToolOutput`.
    pub compact_tool_output: bool,
    /// Whether `ui.errorVerbosity` is `full`.
    pub full_errors: bool,
    /// `ui.escapePastedAtSymbols`.
    pub escape_pasted_at: bool,
    /// `ui.showShortcutsHint`.
    pub shortcuts_hint: bool,
    /// `ui.collapseDrawerDuringApproval`.
    pub collapse_for_questions: bool,
    /// `ui.showCitations`.
    pub citations: bool,
    /// `ui.showModelInfoInChat`.
    pub model_in_chat: bool,
    /// `ui.showUserIdentity`.
    pub user_identity: bool,
    /// `ui.useBackgroundColor`.
    pub background_color: bool,
    /// `ui.showSpinner`.
    pub spinner: bool,
    /// `ui.showHomeDirectoryWarning`.
    pub home_directory_warning: bool,
    /// `experimental.useOSC52Paste`.
    pub osc52_paste: bool,
    /// `experimental.useOSC52Copy`.
    pub osc52_copy: bool,
    /// `general.vimMode`.
    pub vim: bool,
    /// `general.preferredEditor`.
    pub preferred_editor: Option<String>,
    /// `general.openEditorInNewWindow`.
    pub editor_in_new_window: bool,
    /// How notifications are sent; `None` if they are disabled (`general.enableNotifications`).
    pub notifications: Option<NotificationMethod>,
}

/// What the window title shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleMode {
    /// The title is left unchanged (`ui.hideWindowTitle`).
    Unchanged,
    /// The program name and the directory.
    Static,
    /// The current activity (`ui.dynamicWindowTitle`).
    Dynamic,
    /// The current activity and the model's thoughts (`ui.showStatusInTitle`).
    DynamicWithThoughts,
}

/// What the spinner shows while the model works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoadingPhrases {
    /// Tips about features.
    Tips,
    /// Jokes.
    Witty,
    /// Both.
    All,
    /// Only that the model is working.
    #[default]
    Off,
}

/// How the terminal is asked to show a notification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NotificationMethod {
    /// What the terminal supports.
    #[default]
    Auto,
    /// OSC 9.
    Osc9,
    /// OSC 777.
    Osc777,
    /// The terminal bell.
    Bell,
}

/// How images are drawn in the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InlineImages {
    /// What the terminal reports as supported.
    #[default]
    Auto,
    /// Images are not drawn.
    Off,
    /// The kitty graphics protocol.
    Kitty,
    /// iTerm2 inline images.
    Iterm,
    /// Sixels.
    Sixel,
}

/// A footer item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FooterItem {
    /// The approval mode. Specific to Parallax.
    Mode,
    /// Whether the folder is trusted. Specific to Parallax.
    Trust,
    /// The working directory.
    Workspace,
    /// The git branch.
    GitBranch,
    /// The sandbox state.
    Sandbox,
    /// The model.
    ModelName,
    /// The context usage.
    ContextUsed,
    /// The session cost. Specific to Parallax.
    Cost,
    /// The remaining quota.
    Quota,
    /// The memory use of the program.
    MemoryUsage,
    /// The session ID.
    SessionId,
    /// The host name.
    Hostname,
    /// The authentication method.
    Auth,
    /// Lines added and removed.
    CodeChanges,
    /// The session's token count.
    TokenCount,
}

impl FooterItem {
    /// All items, in the order in which dialogs list them.
    pub const ALL: [Self; 15] = [
        Self::Mode,
        Self::Trust,
        Self::Workspace,
        Self::GitBranch,
        Self::Sandbox,
        Self::ModelName,
        Self::ContextUsed,
        Self::Cost,
        Self::Quota,
        Self::MemoryUsage,
        Self::SessionId,
        Self::Hostname,
        Self::Auth,
        Self::CodeChanges,
        Self::TokenCount,
    ];

    /// Returns the name used in `ui.footer.items`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Trust => "trust",
            Self::Workspace => "workspace",
            Self::GitBranch => "git-branch",
            Self::Sandbox => "sandbox",
            Self::ModelName => "model-name",
            Self::ContextUsed => "context-used",
            Self::Cost => "cost",
            Self::Quota => "quota",
            Self::MemoryUsage => "memory-usage",
            Self::SessionId => "session-id",
            Self::Hostname => "hostname",
            Self::Auth => "auth",
            Self::CodeChanges => "code-changes",
            Self::TokenCount => "token-count",
        }
    }

    /// Returns the label shown with `ui.footer.showLabels`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Trust => "trust",
            Self::Workspace => "workspace (/directory)",
            Self::GitBranch => "branch",
            Self::Sandbox => "sandbox",
            Self::ModelName => "/model",
            Self::ContextUsed => "context",
            Self::Cost => "/stats",
            Self::Quota => "quota",
            Self::MemoryUsage => "memory",
            Self::SessionId => "session",
            Self::Hostname => "machine",
            Self::Auth => "/auth",
            Self::CodeChanges => "diff",
            Self::TokenCount => "tokens",
        }
    }

    /// Returns a description for the settings dialog.
    pub fn description(self) -> &'static str {
        match self {
            Self::Mode => "the approval mode",
            Self::Trust => "whether the folder is trusted",
            Self::Workspace => "the last two components of the working directory",
            Self::GitBranch => "the git branch",
            Self::Sandbox => "the sandbox of commands",
            Self::ModelName => "the model, and the one that `auto` chose",
            Self::ContextUsed => "the context usage",
            Self::Cost => "the cost of the session",
            Self::Quota => "the remaining quota, if the service reports it",
            Self::MemoryUsage => "the memory usage of Parallax",
            Self::SessionId => "the beginning of the session ID",
            Self::Hostname => "the host name",
            Self::Auth => "the authentication method",
            Self::CodeChanges => "lines added and removed in this session",
            Self::TokenCount => "tokens sent, cached, and received",
        }
    }

    /// Returns the names that are not footer items.
    pub fn unknown_footer_items(words: &[String]) -> Vec<&str> {
        words.iter().map(String::as_str).filter(|word| Self::parse(word).is_none()).collect()
    }

    /// Returns all names for `ui.footer.items`, formatted for a message.
    pub fn list_names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Parses a name of `ui.footer.items`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|item| item.as_str() == word)
    }
}

impl UiSettings {
    /// Reads the UI settings.
    pub fn from_settings(settings: &Settings) -> Self {
        let flag = |key: &str| settings.flag(key);
        Self {
            theme: settings.text("ui.theme").map(|name| match name.as_str() {
                "VS" => "Default Light".to_owned(),
                "VS2015" => "Default".to_owned(),
                _ => name,
            }),
            auto_theme: flag("ui.autoThemeSwitching"),
            custom_themes: settings
                .get("ui.customThemes")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            alternate_buffer: flag("ui.useAlternateBuffer"),
            inline_images: match settings.text("ui.inlineImages").as_deref() {
                Some("off") => InlineImages::Off,
                Some("kitty") => InlineImages::Kitty,
                Some("iterm") => InlineImages::Iterm,
                Some("sixel") => InlineImages::Sixel,
                _ => InlineImages::Auto,
            },
            hide_tips: flag("ui.hideTips"),
            hide_banner: flag("ui.hideBanner"),
            hide_context_summary: flag("ui.hideContextSummary"),
            footer: (!flag("ui.hideFooter")).then(|| footer(settings)),
            reports_background: !matches!(
                settings.text("tools.shell.backgroundCompletionBehavior").as_deref(),
                Some("notify" | "inject")
            ),
            checkpointing: flag("general.checkpointing.enabled"),
            footer_labels: flag("ui.footer.showLabels"),
            footer_is_chosen: settings.get("ui.footer.items").is_some(),
            status_line: settings
                .text("ui.statusLine.command")
                .filter(|command| !command.trim().is_empty()),
            line_numbers: flag("ui.showLineNumbers"),
            thoughts: settings.text("ui.inlineThinkingMode").as_deref() == Some("full"),
            screen_reader: flag("ui.accessibility.screenReader"),
            title: if flag("ui.hideWindowTitle") {
                TitleMode::Unchanged
            } else if !flag("ui.dynamicWindowTitle") {
                TitleMode::Static
            } else if flag("ui.showStatusInTitle") {
                TitleMode::DynamicWithThoughts
            } else {
                TitleMode::Dynamic
            },
            loading_phrases: match settings.text("ui.loadingPhrases").as_deref() {
                Some("tips") => LoadingPhrases::Tips,
                Some("witty") => LoadingPhrases::Witty,
                Some("all") => LoadingPhrases::All,
                _ => LoadingPhrases::Off,
            },
            witty_phrases: settings.list("ui.customWittyPhrases"),
            compact_tool_output: flag("ui.compactToolOutput"),
            full_errors: settings.text("ui.errorVerbosity").as_deref() == Some("full"),
            escape_pasted_at: flag("ui.escapePastedAtSymbols"),
            shortcuts_hint: flag("ui.showShortcutsHint"),
            collapse_for_questions: flag("ui.collapseDrawerDuringApproval"),
            citations: flag("ui.showCitations"),
            model_in_chat: flag("ui.showModelInfoInChat"),
            user_identity: flag("ui.showUserIdentity"),
            background_color: flag("ui.useBackgroundColor"),
            spinner: flag("ui.showSpinner"),
            home_directory_warning: flag("ui.showHomeDirectoryWarning"),
            osc52_paste: flag("experimental.useOSC52Paste"),
            osc52_copy: flag("experimental.useOSC52Copy"),
            vim: flag("general.vimMode"),
            preferred_editor: settings.text("general.preferredEditor"),
            editor_in_new_window: flag("general.openEditorInNewWindow"),
            notifications: flag("general.enableNotifications").then(|| {
                match settings.text("general.notificationMethod").as_deref() {
                    Some("osc9") => NotificationMethod::Osc9,
                    Some("osc777") => NotificationMethod::Osc777,
                    Some("bell") => NotificationMethod::Bell,
                    _ => NotificationMethod::Auto,
                }
            }),
        }
    }
}

/// Returns a warning about unknown names in `ui.footer.items`.
pub(crate) fn footer_warning(settings: &Settings) -> Option<String> {
    const KEY: &str = "ui.footer.items";
    let items = settings.list(KEY);
    let unknown = FooterItem::unknown_footer_items(&items);
    let first = unknown.first()?;
    let file = match settings.origins(KEY).last() {
        Some(origin) => format!("{}: ", origin.file.display()),
        None => String::new(),
    };
    let more = match unknown.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    // A name from a project file may contain anything.
    let first: String = first.chars().filter(|char| !char.is_control()).take(40).collect();
    Some(format!(
        "{file}unknown item `{first}`{more} in `{KEY}`; known items: {}",
        FooterItem::list_names()
    ))
}

/// Returns the items of `ui.footer.items` if set (without unknown names), otherwise the default row
/// minus the items that the single switches hide.
fn footer(settings: &Settings) -> Vec<FooterItem> {
    if settings.get("ui.footer.items").is_some() {
        let items = settings.list("ui.footer.items");
        return items.iter().filter_map(|word| FooterItem::parse(word)).collect();
    }
    // The default row. A switch applies only if it is explicitly set, because the defaults of the
    // switches were made for another row.
    let is_set = |key: &str| settings.get(key).and_then(Value::as_bool) == Some(true);
    let unless = |key: &str, item| (!is_set(key)).then_some(item);
    [
        Some(FooterItem::Mode),
        unless("ui.footer.hideModelInfo", FooterItem::ModelName),
        unless("ui.footer.hideContextPercentage", FooterItem::ContextUsed),
        Some(FooterItem::TokenCount),
        Some(FooterItem::GitBranch),
        unless("ui.footer.hideSandboxStatus", FooterItem::Sandbox),
        Some(FooterItem::Trust),
        Some(FooterItem::Cost),
        is_set("ui.showMemoryUsage").then_some(FooterItem::MemoryUsage),
        unless("ui.footer.hideCWD", FooterItem::Workspace),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Default for UiSettings {
    /// Returns the settings with all defaults.
    fn default() -> Self {
        let mut warnings = Vec::new();
        let nothing = crate::environment::Environment::default();
        Self::from_settings(&Settings::from_layers(Vec::new(), &nothing, &mut warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::layers::{Layer, LayerFile};

    fn ui(merged: Value) -> UiSettings {
        let file = LayerFile {
            layer: Layer::User,
            path: "/settings.json".into(),
            text: String::new(),
            values: merged.as_object().cloned().unwrap_or_default(),
        };
        let mut warnings = Vec::new();
        let settings = Settings::from_layers(vec![file], &Environment::default(), &mut warnings);
        assert_eq!(warnings, Vec::<String>::new());
        UiSettings::from_settings(&settings)
    }

    #[test]
    fn footer_items_follow_the_list_or_the_switches() {
        use FooterItem::{
            ContextUsed, Cost, GitBranch, MemoryUsage, Mode, ModelName, Quota, Sandbox, TokenCount,
            Trust, Workspace,
        };
        let usual = vec![
            Mode,
            ModelName,
            ContextUsed,
            TokenCount,
            GitBranch,
            Sandbox,
            Trust,
            Cost,
            Workspace,
        ];
        assert_eq!(ui(serde_json::json!({})).footer, Some(usual));
        let switched = serde_json::json!({"ui": {"footer": {"hideModelInfo": true,
            "hideCWD": true}, "showMemoryUsage": true}});
        let left =
            vec![Mode, ContextUsed, TokenCount, GitBranch, Sandbox, Trust, Cost, MemoryUsage];
        assert_eq!(ui(switched).footer, Some(left));
        let listed = serde_json::json!({"ui": {"footer": {"items": ["quota", "x", "workspace"]}}});
        assert_eq!(ui(listed).footer, Some(vec![Quota, Workspace]));
        let words = ["quota", "x\u{1b}[2J", "y"].map(str::to_owned);
        assert_eq!(FooterItem::unknown_footer_items(&words), ["x\u{1b}[2J", "y"]);
        assert_eq!(ui(serde_json::json!({"ui": {"hideFooter": true}})).footer, None);
        for item in FooterItem::ALL {
            assert_eq!(FooterItem::parse(item.as_str()), Some(item));
        }
    }

    #[test]
    fn title_and_notification_settings_are_applied() {
        assert_eq!(ui(serde_json::json!({})).title, TitleMode::Dynamic);
        let set = |key: &str, value: bool| serde_json::json!({"ui": {key: value}});
        assert_eq!(ui(set("dynamicWindowTitle", false)).title, TitleMode::Static);
        assert_eq!(ui(set("showStatusInTitle", true)).title, TitleMode::DynamicWithThoughts);
        assert_eq!(ui(set("hideWindowTitle", true)).title, TitleMode::Unchanged);
        assert_eq!(ui(serde_json::json!({})).notifications, None);
        let bell = serde_json::json!({"general": {"enableNotifications": true, "notificationMethod": "bell"}});
        assert_eq!(ui(bell).notifications, Some(NotificationMethod::Bell));
    }
}
