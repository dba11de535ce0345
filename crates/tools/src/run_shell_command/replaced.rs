//! Protected files that the user saved while a command could write them.

use std::path::Path;

/// What the user is told of protected files that were saved while a process of a command
/// had them open for writing; each once. `temporary` is the sandbox's folder of the
/// session. Blocking.
pub fn replaced_files(temporary: &Path) -> Option<String> {
    let paths = parallax_sandbox::take_replaced(temporary);
    let names: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    let what = match names.len() {
        0 => return None,
        1 => "A protected file was",
        _ => "Protected files were",
    };
    Some(format!(
        "{what} saved while a process of a command had it open for writing. The process was \
         stopped. Check that the contents are yours: {}",
        names.join(", ")
    ))
}
