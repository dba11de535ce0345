//! The known editors (`general.preferredEditor`), and how to start each so that it waits for the
//! file to be closed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_sdk::SessionConfig;

/// A known editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Editor {
    /// The value in the setting.
    pub id: &'static str,
    /// The display name.
    pub name: &'static str,
    /// The program names, preferred one first.
    programs: &'static [&'static str],
    /// Arguments that make it wait until the file is closed.
    wait_arguments: &'static [&'static str],
    /// Argument that opens a new window.
    new_window: Option<&'static str>,
    /// Whether it runs in the terminal.
    pub in_terminal: bool,
}

const fn window(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    wait_arguments: &'static [&'static str],
    new_window: Option<&'static str>,
) -> Editor {
    Editor { id, name, programs, wait_arguments, new_window, in_terminal: false }
}

const fn terminal(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    wait_arguments: &'static [&'static str],
) -> Editor {
    Editor { id, name, programs, wait_arguments, new_window: None, in_terminal: true }
}

/// Supported by editors based on VS Code.
const NEW_WINDOW: Option<&str> = Some("--new-window");

/// All known editors.
pub(crate) const EDITORS: [Editor; 16] = [
    window("vscode", "VS Code", &["code"], &["--wait"], NEW_WINDOW),
    window("vscodium", "VSCodium", &["codium"], &["--wait"], NEW_WINDOW),
    window("windsurf", "Windsurf", &["windsurf"], &["--wait"], NEW_WINDOW),
    window("cursor", "Cursor", &["cursor"], &["--wait"], NEW_WINDOW),
    window("zed", "Zed", &["zed", "zeditor"], &["--wait"], Some("--new")),
    window("antigravity", "Antigravity", &["antigravity", "agy"], &["--wait"], NEW_WINDOW),
    window("sublimetext", "Sublime Text", &["subl"], &["--wait"], NEW_WINDOW),
    window("lapce", "Lapce", &["lapce"], &["--wait"], Some("--new")),
    window("nova", "Nova", &["nova"], &["--wait"], None),
    window("bbedit", "BBEdit", &["bbedit"], &["--wait"], Some("--new-window")),
    terminal("vim", "Vim", &["vim"], &["-i", "NONE"]),
    terminal("neovim", "Neovim", &["nvim"], &["-i", "NONE"]),
    terminal("emacs", "Emacs", &["emacs"], &["-nw"]),
    terminal("hx", "Helix", &["hx", "helix"], &[]),
    terminal("emacsclient", "Emacs (client)", &["emacsclient"], &["-t"]),
    terminal("micro", "Micro", &["micro"], &[]),
];

/// A command line that opens a file and ends when it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditorCommand {
    /// The program.
    pub program: OsString,
    /// The arguments before the file.
    pub arguments: Vec<OsString>,
    /// Whether it needs the terminal.
    pub in_terminal: bool,
}

/// Returns the known editors, each with whether it is installed. Blocking.
pub(crate) fn installed_editors(launch: &SessionConfig) -> Vec<(Editor, bool)> {
    EDITORS.into_iter().map(|editor| (editor, program_of(launch, &editor).is_some())).collect()
}

/// Returns the editor to use: the one in settings if it is installed, otherwise `$VISUAL`,
/// `$EDITOR`, or the first installed default. Variables from a project's `.env` are ignored.
/// Blocking.
pub(crate) fn command(launch: &SessionConfig) -> Option<EditorCommand> {
    let ui = launch.settings_manager().ui();
    let chosen = ui.preferred_editor.as_deref();
    let chosen = EDITORS.iter().find(|editor| Some(editor.id) == chosen);
    let start = |editor: &Editor| {
        let mut arguments: Vec<OsString> =
            editor.wait_arguments.iter().map(OsString::from).collect();
        if ui.editor_in_new_window {
            arguments.extend(editor.new_window.map(OsString::from));
        }
        Some(EditorCommand {
            program: program_of(launch, editor)?.into_os_string(),
            arguments,
            in_terminal: editor.in_terminal,
        })
    };
    let editor_from_variables = || {
        ["VISUAL", "EDITOR"].iter().find_map(|name| {
            let line = launch.config().environment.process_variable(name)?;
            let mut words = line.split_whitespace().map(OsString::from);
            let program = words.next()?;
            let stem = Path::new(&program).file_stem()?.to_str()?.to_owned();
            let known = EDITORS.iter().find(|editor| editor.programs.contains(&stem.as_str()));
            let mut arguments: Vec<OsString> = words.collect();
            // Without this, a graphical editor returns immediately.
            if let Some(known) = known.filter(|known| !known.in_terminal) {
                let waits = |word: &OsString| word == "--wait" || word == "-w";
                if !arguments.iter().any(waits) {
                    arguments.extend(known.wait_arguments.iter().map(OsString::from));
                }
            }
            let in_terminal = known.is_none_or(|known| known.in_terminal);
            Some(EditorCommand { program, arguments, in_terminal })
        })
    };
    let usual = || {
        ["nano", "vi"].iter().find_map(|name| {
            let program = find_program(launch, name)?.into_os_string();
            Some(EditorCommand { program, arguments: Vec::new(), in_terminal: true })
        })
    };
    chosen.and_then(start).or_else(editor_from_variables).or_else(usual)
}

fn program_of(launch: &SessionConfig, editor: &Editor) -> Option<PathBuf> {
    editor.programs.iter().find_map(|name| find_program(launch, name))
}

/// Finds a program on `PATH`. Relative directories are skipped, because they would refer to the
/// project.
fn find_program(launch: &SessionConfig, name: &str) -> Option<PathBuf> {
    let path = launch.config().environment.process_variable("PATH")?;
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|program| is_executable(program))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path)
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_launch::TestHome;

    #[cfg(unix)]
    #[test]
    fn preferred_editor_is_used_when_installed() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = TestHome::new();
        for name in ["bin/nvim", "bin/code"] {
            home.write(name, "#!/bin/sh\n");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(home.path().join(name), mode).expect("set");
        }
        let path = home.path().join("bin").display().to_string();
        let launch = |variables: &[(&str, &str)]| {
            let mut all = vec![("PATH", path.as_str())];
            all.extend(variables);
            home.launch(&all)
        };
        let there: Vec<&str> = installed_editors(&launch(&[]))
            .into_iter()
            .filter_map(|(editor, there)| there.then_some(editor.id))
            .collect();
        assert_eq!(there, ["vscode", "neovim"]);
        assert_eq!(command(&launch(&[])), None);
        let found = command(&launch(&[("EDITOR", "code -r")])).expect("an editor");
        assert_eq!(found.arguments, ["-r", "--wait"]);
        assert!(!found.in_terminal);
        home.write(".parallax/settings.json", r#"{"general": {"preferredEditor": "neovim"}}"#);
        let found = command(&launch(&[("EDITOR", "code")])).expect("an editor");
        assert!(found.in_terminal && found.program.to_string_lossy().ends_with("bin/nvim"));
    }
}
