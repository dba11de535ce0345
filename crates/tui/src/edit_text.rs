//! Opens text in the user's editor. Blocking; the caller must have released the terminal.

use std::io::Write;
use std::path::Path;

use parallax_exec::user_program;

use crate::editors::EditorCommand;

/// Opens `text` in the editor, as a file with this name in a temporary directory inside
/// `directory`, and returns the saved text. The file is removed.
///
/// # Errors
/// Returns a message for the user if there is no new text.
pub(crate) fn edit(
    editor: &EditorCommand,
    text: &str,
    name: &str,
    directory: &Path,
) -> Result<String, String> {
    let folder = tempfile::Builder::new()
        .prefix("parallax-")
        .tempdir_in(directory)
        .map_err(|error| format!("failed to create a temporary directory: {error}"))?;
    let path = folder.path().join(name);
    let error_text = |error: std::io::Error| format!("`{}`: {error}", path.display());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).map_err(error_text)?;
    file.write_all(text.as_bytes()).map_err(error_text)?;
    drop(file);
    let display_path = editor.program.display();
    match user_program::edit(&editor.program, &editor.arguments, &path) {
        Ok(true) => {
            let bytes = std::fs::read(&path).map_err(error_text)?;
            String::from_utf8(bytes).map_err(|_| "the text is not valid UTF-8".to_owned())
        }
        Ok(false) => {
            Err(format!("the editor `{display_path}` exited with an error; nothing was changed"))
        }
        Err(error) => Err(format!("failed to start the editor `{display_path}`: {error}")),
    }
}
