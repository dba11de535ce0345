//! The editor of a session: text files as open in it, including unsaved changes.

use std::path::Path;
use std::sync::Arc;

use crate::editor_terminal::EditorTerminal;

/// An editor that has files of the workspace open.
pub trait EditorFiles: Send + Sync {
    /// Returns the text of a file; `None` if the editor does not have the file, so that the disk
    /// counts. Blocking.
    ///
    /// # Errors
    /// Returns the message from the editor if it refuses to read the file or does not respond.
    fn read(&self, path: &Path) -> Result<Option<String>, String>;

    /// Writes a file through the editor; `None` if that is impossible and the file must be written
    /// to disk. Blocking.
    ///
    /// # Errors
    /// Returns the message from the editor if writing fails.
    fn write(&self, path: &Path, text: &str) -> Option<Result<(), String>>;
}

/// The editor of a session, if it has one.
#[derive(Clone, Default)]
pub struct SessionEditor {
    files: Option<Arc<dyn EditorFiles>>,
    terminal: Option<Arc<dyn EditorTerminal>>,
}

impl SessionEditor {
    /// Reads and writes files through this editor.
    #[must_use]
    pub fn with_files(mut self, files: Arc<dyn EditorFiles>) -> Self {
        self.files = Some(files);
        self
    }

    /// Runs commands without a sandbox in terminals of this editor.
    #[must_use]
    pub fn with_terminal(mut self, terminal: Arc<dyn EditorTerminal>) -> Self {
        self.terminal = Some(terminal);
        self
    }

    /// Returns the editor that reads and writes files.
    pub fn files(&self) -> Option<&dyn EditorFiles> {
        self.files.as_deref()
    }

    /// Returns the editor that runs commands, while it is connected.
    pub fn terminal(&self) -> Option<&Arc<dyn EditorTerminal>> {
        self.terminal.as_ref().filter(|terminal| terminal.is_connected())
    }
}

impl std::fmt::Debug for SessionEditor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SessionEditor")
            .field("files", &self.files.is_some())
            .field("terminal", &self.terminal.is_some())
            .finish()
    }
}

/// Compares whether both are the same editor, or both are none.
impl PartialEq for SessionEditor {
    fn eq(&self, other: &Self) -> bool {
        is_same_arc(self.files.as_ref(), other.files.as_ref())
            && is_same_arc(self.terminal.as_ref(), other.terminal.as_ref())
    }
}

fn is_same_arc<T: ?Sized>(one: Option<&Arc<T>>, two: Option<&Arc<T>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        (one, two) => one.is_none() && two.is_none(),
    }
}

impl Eq for SessionEditor {}
