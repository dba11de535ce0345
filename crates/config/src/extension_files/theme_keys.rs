//! The keys of themes in manifests.

/// The keys of a theme: groups, and the flat keys of older files.
pub(super) const THEME_KEYS: &[&str] = &[
    "name",
    "type",
    "background",
    "border",
    "status",
    "text",
    "ui",
    "AccentBlue",
    "AccentCyan",
    "AccentGreen",
    "AccentPurple",
    "AccentRed",
    "AccentYellow",
    "Background",
    "Comment",
    "DarkGray",
    "DiffAdded",
    "DiffModified",
    "DiffRemoved",
    "FocusBackground",
    "FocusColor",
    "Foreground",
    "GradientColors",
    "Gray",
    "InputBackground",
    "LightBlue",
    "MessageBackground",
];

/// The keys of each group, by its path.
pub(super) const THEME_GROUPS: &[(&str, &[&str])] = &[
    ("background", &["primary", "message", "input", "focus", "diff"]),
    ("background.diff", &["added", "removed"]),
    ("border", &["default", "focused"]),
    ("status", &["error", "success", "warning"]),
    ("text", &["primary", "secondary", "link", "accent", "response"]),
    ("ui", &["active", "comment", "dark", "focus", "gradient", "symbol"]),
];
