//! Text files as an editor has them: with changes that are not saved.

use std::path::Path;
use std::sync::Arc;

/// An editor that opens the files of the workspace.
pub trait EditorFiles: Send + Sync {
    /// The text of a file; `None`: the editor has no such file, or cannot be asked. Blocking.
    fn read(&self, path: &Path) -> Option<String>;

    /// Writes a file through the editor; `None`: it cannot, so that the disk is written. Blocking.
    ///
    /// # Errors
    /// The editor's message when it fails.
    fn write(&self, path: &Path, text: &str) -> Option<Result<(), String>>;
}

/// The editor of a session, if it has one.
#[derive(Clone, Default)]
pub struct SessionEditor(Option<Arc<dyn EditorFiles>>);

impl SessionEditor {
    /// Files are read and written through this editor.
    pub fn new(editor: Arc<dyn EditorFiles>) -> Self {
        Self(Some(editor))
    }

    /// The editor.
    pub fn get(&self) -> Option<&dyn EditorFiles> {
        self.0.as_deref()
    }
}

impl std::fmt::Debug for SessionEditor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("SessionEditor").field(&self.0.is_some()).finish()
    }
}

/// The same editor, or none.
impl PartialEq for SessionEditor {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        }
    }
}

impl Eq for SessionEditor {}
