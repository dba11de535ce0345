//! Protected files that the user saved while a command could write them.

use std::path::Path;

/// Returns a notice about protected files that were saved while a process of a command had them
/// open for writing, and about processes that were killed because files could not be hidden from
/// them. Everything is reported once. `temporary` is the sandbox directory of the session.
/// Blocking.
pub fn replaced_files(temporary: &Path) -> Option<String> {
    let replaced = parallax_sandbox::take_replaced(temporary);
    let names: Vec<String> =
        replaced.paths.iter().map(|path| format!("`{}`", path.display())).collect();
    let what = match names.len() {
        0 => None,
        1 => Some("A protected file was"),
        _ => Some("Protected files were"),
    };
    let saved = what.map(|what| {
        format!(
            "{what} saved while a process of a command had it open for writing. The process was \
             stopped. Check that the contents are yours: {}",
            names.join(", ")
        )
    });
    let unwatched = replaced.has_killed_unwatched.then(|| {
        "Processes that commands left behind were stopped, because files that appear later could \
         not be hidden from them: your user has no inotify instances or watches left (see \
         `sysctl fs.inotify`)."
            .to_owned()
    });
    let notices: Vec<String> = saved.into_iter().chain(unwatched).collect();
    (!notices.is_empty()).then(|| notices.join("\n"))
}
