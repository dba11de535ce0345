//! Accesses the user's clipboard with the programs of the operating system. Over SSH these would
//! use the wrong machine; there the terminal itself must access it (OSC 52). All functions block.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_exec::{program, user_program};

/// Timeout of a program.
const TIME: Duration = Duration::from_secs(2);
/// Maximum size of an image in bytes.
const MAX_IMAGE: u64 = 20 * 1024 * 1024;
/// Age after which saved images are removed.
const KEPT: Duration = Duration::from_secs(3600);

/// Returns whether to use the terminal instead of a program, because the user is on another machine
/// or this is WSL.
pub(crate) fn uses_terminal_clipboard(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    ["SSH_TTY", "SSH_CONNECTION", "SSH_CLIENT", "WSL_DISTRO_NAME"]
        .iter()
        .any(|name| variable(name).is_some())
}

/// Copies text to the buffer of the surrounding tmux, which passes it on to the terminal's
/// clipboard regardless of its settings. tmux before 3.2 only stores it in the buffer. Returns
/// whether it succeeded.
pub(crate) fn copy_in_tmux(text: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    if variable("TMUX").is_none_or(|socket| socket.is_empty()) {
        return false;
    }
    let ways: [&[&str]; 2] = [&["load-buffer", "-w", "-"], &["load-buffer", "-"]];
    ways.iter().any(|way| user_program::feed("tmux", way, text.as_bytes(), TIME))
}

/// Copies text to the clipboard. Returns whether a program succeeded.
pub(crate) fn copy(text: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let wayland = variable("WAYLAND_DISPLAY").is_some();
    let x11 = variable("DISPLAY").is_some();
    let mut programs: Vec<(&str, &[&str])> = vec![("pbcopy", &[])];
    if wayland {
        programs.push(("wl-copy", &[]));
    }
    if x11 {
        programs.push(("xclip", &["-selection", "clipboard"]));
        programs.push(("xsel", &["--clipboard", "--input"]));
    }
    programs
        .iter()
        .any(|(program, arguments)| user_program::feed(program, arguments, text.as_bytes(), TIME))
}

/// Saves the image on the clipboard, if any, to `directory` and returns its path. Removes old
/// images from there.
pub(crate) fn save_image(
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let wayland = variable("XDG_SESSION_TYPE").is_some_and(|kind| kind == "wayland")
        || variable("WAYLAND_DISPLAY").is_some();
    let read = |program: &str, arguments: &[&str], limit: u64| {
        program::output(program, arguments, Path::new("/"), &[], limit, TIME)
    };
    let targets = match wayland {
        true => read("wl-paste", &["--list-types"], 64 * 1024),
        false => read("xclip", &["-selection", "clipboard", "-t", "TARGETS", "-o"], 64 * 1024),
    }?;
    let targets = String::from_utf8_lossy(&targets);
    let (mime, extension) = [
        ("image/png", "png"),
        ("image/jpeg", "jpg"),
        ("image/webp", "webp"),
        ("image/heic", "heic"),
        ("image/heif", "heif"),
    ]
    .into_iter()
    .find(|(mime, _)| targets.lines().any(|line| line.trim() == *mime))?;
    let bytes = match wayland {
        true => read("wl-paste", &["--type", mime], MAX_IMAGE),
        false => read("xclip", &["-selection", "clipboard", "-t", mime, "-o"], MAX_IMAGE),
    }?;
    if bytes.is_empty() {
        return None;
    }
    parallax_exec::create_private_folder(directory).ok()?;
    remove_old(directory);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let path = directory.join(format!("clipboard-{}.{extension}", now.as_millis()));
    std::fs::write(&path, bytes).ok()?;
    Some(path)
}

fn remove_old(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with("clipboard-");
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_old = age.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > KEPT);
        if is_ours && is_old {
            // A file that cannot be removed now is removed next time.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
