//! The known editors (`general.preferredEditor`), and how to start each so that it waits for the
//! file to be closed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::launch::Launch;

/// A known editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Editor {
    /// Its value in the setting.
    pub id: &'static str,
    /// Its display name.
    pub name: &'static str,
    /// Its program names, preferred one first.
    programs: &'static [&'static str],
    /// Arguments that make it wait until the file is closed.
    wait: &'static [&'static str],
    /// Argument that opens a new window.
    new_window: Option<&'static str>,
    /// Whether it runs in the terminal.
    pub in_terminal: bool,
}

const fn window(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    wait: &'static [&'static str],
    new_window: Option<&'static str>,
) -> Editor {
    Editor { id, name, programs, wait, new_window, in_terminal: false }
}

const fn terminal(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    wait: &'static [&'static str],
) -> Editor {
    Editor { id, name, programs, wait, new_window: None, in_terminal: true }
}

/// Supported by editors based on VS Code.
const NEW_WINDOW: Option<&str> = Some("--new-window");

/// All known editors.
pub const EDITORS: [Editor; 16] = [
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
pub struct EditorCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments before the file.
    pub arguments: Vec<OsString>,
    /// Whether it needs the terminal.
    pub in_terminal: bool,
}

impl Launch {
    /// Returns the known editors, each with whether it is installed. Blocking.
    pub fn editors(&self) -> Vec<(Editor, bool)> {
        EDITORS.into_iter().map(|editor| (editor, self.program_of(&editor).is_some())).collect()
    }

    /// Returns the editor to use: the one in settings if it is installed, otherwise `$VISUAL`,
    /// `$EDITOR`, or the first installed default. Variables from a project's `.env` are ignored.
    /// Blocking.
    pub fn editor_command(&self) -> Option<EditorCommand> {
        let ui = self.ui();
        let chosen = ui.preferred_editor.as_deref();
        let chosen = EDITORS.iter().find(|editor| Some(editor.id) == chosen);
        let start = |editor: &Editor| {
            let mut arguments: Vec<OsString> = editor.wait.iter().map(OsString::from).collect();
            if ui.editor_in_new_window {
                arguments.extend(editor.new_window.map(OsString::from));
            }
            Some(EditorCommand {
                program: self.program_of(editor)?.into_os_string(),
                arguments,
                in_terminal: editor.in_terminal,
            })
        };
        let of_variables = || {
            ["VISUAL", "EDITOR"].iter().find_map(|name| {
                let line = self.config.environment.of_process(name)?;
                let mut words = line.split_whitespace().map(OsString::from);
                let program = words.next()?;
                let stem = Path::new(&program).file_stem()?.to_str()?.to_owned();
                let known = EDITORS.iter().find(|editor| editor.programs.contains(&stem.as_str()));
                let mut arguments: Vec<OsString> = words.collect();
                // Without this, a graphical editor returns immediately.
                if let Some(known) = known.filter(|known| !known.in_terminal) {
                    let waits = |word: &OsString| word == "--wait" || word == "-w";
                    if !arguments.iter().any(waits) {
                        arguments.extend(known.wait.iter().map(OsString::from));
                    }
                }
                let in_terminal = known.is_none_or(|known| known.in_terminal);
                Some(EditorCommand { program, arguments, in_terminal })
            })
        };
        let usual = || {
            ["nano", "vi"].iter().find_map(|name| {
                let program = self.find_program(name)?.into_os_string();
                Some(EditorCommand { program, arguments: Vec::new(), in_terminal: true })
            })
        };
        chosen.and_then(start).or_else(of_variables).or_else(usual)
    }

    fn program_of(&self, editor: &Editor) -> Option<PathBuf> {
        editor.programs.iter().find_map(|name| self.find_program(name))
    }

    /// Finds a program in `PATH`. Relative directories are skipped, because they would refer to the
    /// project.
    fn find_program(&self, name: &str) -> Option<PathBuf> {
        let path = self.config.environment.of_process("PATH")?;
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|program| is_executable(program))
    }
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
