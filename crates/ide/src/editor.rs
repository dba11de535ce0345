//! Detects the editor whose terminal this is from environment variables.

use std::ffi::{OsStr, OsString};

/// The editor whose integrated terminal this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEditor {
    /// The identifier in the companion protocol.
    pub id: String,
    /// The display name.
    pub name: String,
}

impl HostEditor {
    fn new(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned() }
    }

    /// Returns the command that installs extensions, if the companion can be installed this way.
    pub fn install_command(&self) -> Option<&'static str> {
        match self.id.as_str() {
            "vscode" => Some("code"),
            "positron" => Some("positron"),
            "antigravity" => Some("agy"),
            _ => None,
        }
    }
}

/// Editors recognized by an environment variable: the variable, a required value, the identifier,
/// and the name.
const BY_VARIABLE: &[(&str, Option<&str>, &str, &str)] = &[
    ("ANTIGRAVITY_CLI_ALIAS", None, "antigravity", "Antigravity"),
    ("__COG_BASHRC_SOURCED", None, "devin", "Devin"),
    ("REPLIT_USER", None, "replit", "Replit"),
    ("CURSOR_TRACE_ID", None, "cursor", "Cursor"),
    ("CODESPACES", None, "codespaces", "GitHub Codespaces"),
    ("EDITOR_IN_CLOUD_SHELL", None, "cloudshell", "Cloud Shell"),
    ("CLOUD_SHELL", None, "cloudshell", "Cloud Shell"),
    ("TERM_PRODUCT", Some("Trae"), "trae", "Trae"),
    ("MONOSPACE_ENV", None, "firebasestudio", "Firebase Studio"),
    ("POSITRON", Some("1"), "positron", "Positron"),
    ("TERM_PROGRAM", Some("sublime"), "sublimetext", "Sublime Text"),
    ("TERM_PROGRAM", Some("Zed"), "zed", "Zed"),
    ("ZED_SESSION_ID", None, "zed", "Zed"),
    ("XCODE_VERSION_ACTUAL", None, "xcode", "Xcode"),
];

/// JetBrains products by a part of the process name.
const JETBRAINS: &[(&str, &str, &str)] = &[
    ("idea", "intellijidea", "IntelliJ IDEA"),
    ("webstorm", "webstorm", "WebStorm"),
    ("pycharm", "pycharm", "PyCharm"),
    ("goland", "goland", "GoLand"),
    ("studio", "androidstudio", "Android Studio"),
    ("clion", "clion", "CLion"),
    ("rustrover", "rustrover", "RustRover"),
    ("datagrip", "datagrip", "DataGrip"),
    ("phpstorm", "phpstorm", "PhpStorm"),
];

/// Returns the value of a variable that is set and not empty.
pub(crate) fn variable<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let found = variables.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
}

/// Detects the editor whose terminal this process runs in. `command` is the name of the editor's
/// process, if known.
pub fn detect(variables: &[(OsString, OsString)], command: Option<&str>) -> Option<HostEditor> {
    let get = |name: &str| variable(variables, name).and_then(OsStr::to_str);
    let in_jetbrains =
        get("TERMINAL_EMULATOR").is_some_and(|name| name.to_lowercase().contains("jetbrains"));
    let supported = matches!(get("TERM_PROGRAM"), Some("vscode" | "sublime" | "Zed"))
        || get("ZED_SESSION_ID").is_some()
        || get("XCODE_VERSION_ACTUAL").is_some()
        || in_jetbrains;
    if !supported {
        return None;
    }
    let matches = |name: &str, expected: &Option<&str>| match expected {
        Some(value) => get(name) == Some(*value),
        None => variable(variables, name).is_some(),
    };
    if let Some((_, _, id, name)) =
        BY_VARIABLE.iter().find(|(name, expected, _, _)| matches(name, expected))
    {
        return Some(HostEditor::new(id, name));
    }
    let command = command.map(str::to_lowercase);
    if in_jetbrains {
        let product = command
            .as_deref()
            .and_then(|command| JETBRAINS.iter().find(|(part, _, _)| command.contains(part)));
        let (id, name) = product.map_or(("jetbrains", "JetBrains IDE"), |(_, id, name)| (id, name));
        return Some(HostEditor::new(id, name));
    }
    match command {
        Some(command) if !command.contains("code") => Some(HostEditor::new("vscodefork", "IDE")),
        _ => Some(HostEditor::new("vscode", "VS Code")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_editor(variables: &[(&str, &str)], command: Option<&str>) -> Option<String> {
        let variables: Vec<(OsString, OsString)> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        detect(&variables, command).map(|editor| editor.id)
    }

    #[test]
    fn editors_are_recognized_by_their_variables() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: &[(Variables, Option<&str>, Option<&str>)] = &[
            (&[("TERM_PROGRAM", "vscode")], Some("/usr/share/code/code"), Some("vscode")),
            (&[("TERM_PROGRAM", "vscode")], None, Some("vscode")),
            (&[("TERM_PROGRAM", "vscode")], Some("/opt/windsurf/windsurf"), Some("vscodefork")),
            (&[("TERM_PROGRAM", "vscode"), ("CURSOR_TRACE_ID", "1")], None, Some("cursor")),
            (&[("TERM_PROGRAM", "vscode"), ("POSITRON", "1")], None, Some("positron")),
            (&[("TERM_PROGRAM", "vscode"), ("POSITRON", "0")], None, Some("vscode")),
            (&[("CURSOR_TRACE_ID", "1")], None, None),
            (&[("ZED_SESSION_ID", "1")], None, Some("zed")),
            (&[("TERMINAL_EMULATOR", "JetBrains-JediTerm")], Some("pycharm"), Some("pycharm")),
            (&[("TERMINAL_EMULATOR", "JetBrains-JediTerm")], None, Some("jetbrains")),
            (&[("TERM_PROGRAM", "iTerm.app")], None, None),
        ];
        for (variables, command, expected) in cases {
            assert_eq!(find_editor(variables, *command).as_deref(), *expected, "{variables:?}");
        }
    }
}
