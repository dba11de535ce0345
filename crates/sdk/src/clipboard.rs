//! The clipboard of the person, by the programs that this system has for it.
//! Over SSH those would be the wrong machine's: there the terminal itself must
//! do it (OSC 52). All functions block.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_exec::{program, user_program};

/// A program that does not answer sooner does not answer.
const TIME: Duration = Duration::from_secs(2);
/// Larger pictures are not taken.
const MAX_IMAGE: u64 = 20 * 1024 * 1024;
/// Pictures saved earlier than this are removed.
const KEPT: Duration = Duration::from_secs(3600);

/// Whether the terminal should be asked instead of a program: the person sits
/// at another machine, or this is WSL.
pub fn belongs_to_terminal(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    ["SSH_TTY", "SSH_CONNECTION", "SSH_CLIENT", "WSL_DISTRO_NAME"]
        .iter()
        .any(|name| variable(name).is_some())
}

/// Puts text into the buffer of the tmux around us, which hands it on to the
/// clipboard of the terminal behind it whatever its settings are; whether it did.
/// tmux before 3.2 only keeps it.
pub fn copy_in_tmux(text: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    if variable("TMUX").is_none_or(|socket| socket.is_empty()) {
        return false;
    }
    let ways: [&[&str]; 2] = [&["load-buffer", "-w", "-"], &["load-buffer", "-"]];
    ways.iter().any(|way| user_program::feed("tmux", way, text.as_bytes(), TIME))
}

/// Puts text into the clipboard; whether a program took it.
pub fn copy(text: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
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

/// Saves the picture that the clipboard holds, if it holds one, into `folder`,
/// and tells its path. Pictures saved there long ago are removed.
pub fn save_image(folder: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
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
    parallax_exec::create_private_folder(folder).ok()?;
    remove_old(folder);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let path = folder.join(format!("clipboard-{}.{extension}", now.as_millis()));
    std::fs::write(&path, bytes).ok()?;
    Some(path)
}

fn remove_old(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with("clipboard-");
        let age = entry.metadata().and_then(|facts| facts.modified()).ok();
        let is_old = age.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > KEPT);
        if is_ours && is_old {
            // What cannot be removed now is removed next time.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
