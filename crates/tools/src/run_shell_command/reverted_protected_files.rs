//! Protected files that the user saved while a command could write them.

use std::path::Path;

/// Returns a notice about protected files that were saved while a process of a command had them
/// open for writing. Each file is reported once. `temporary` is the sandbox directory of the
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
