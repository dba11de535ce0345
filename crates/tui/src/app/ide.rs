//! The connection to the editor, as the user sees it.

use parallax_sdk::ide::CompanionSnapshot;

use super::App;

impl App {
    /// The connection, or what is known of the editor, has changed.
    pub(crate) fn companion_changed(&mut self, snapshot: CompanionSnapshot) {
        let count = snapshot.files.files.len();
        self.facts.open_files = snapshot.is_connected().then_some(count);
        self.companion = Some(snapshot);
    }
}
