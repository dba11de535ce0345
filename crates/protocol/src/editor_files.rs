//! Text files as open in an editor, including unsaved changes.

use std::path::Path;
use std::sync::Arc;

/// An editor that has files of the workspace open.
pub trait EditorFiles: Send + Sync {
    /// Returns the text of a file; `None` if the editor does not have the file or is unavailable.
    /// Blocking.
    fn read(&self, path: &Path) -> Option<String>;

    /// Writes a file through the editor; `None` if that is impossible and the file must be written
    /// to disk. Blocking.
    ///
    /// # Errors
    /// Returns the message of the editor if writing fails.
    fn write(&self, path: &Path, text: &str) -> Option<Result<(), String>>;
}

/// The editor of a session, if it has one.
#[derive(Clone, Default)]
pub struct SessionEditor(Option<Arc<dyn EditorFiles>>);

impl SessionEditor {
    /// Reads and writes files through this editor.
    pub fn new(editor: Arc<dyn EditorFiles>) -> Self {
        Self(Some(editor))
    }

    /// Returns the editor.
    pub fn get(&self) -> Option<&dyn EditorFiles> {
        self.0.as_deref()
    }
}

impl std::fmt::Debug for SessionEditor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("SessionEditor").field(&self.0.is_some()).finish()
    }
}

/// Compares whether both are the same editor, or both are none.
impl PartialEq for SessionEditor {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        }
    }
}

impl Eq for SessionEditor {}
