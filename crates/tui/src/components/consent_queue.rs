//! Operations on extensions that wait for consent, one after the other.

use std::collections::VecDeque;
use std::path::PathBuf;

use parallax_extensions::{Extension, ExtensionUpdate, FetchedExtension};
use parallax_screen::Line;

use super::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;
use crate::theme::Theme;

/// An extension operation that waits for consent.
pub(crate) enum Consent {
    Install(Box<FetchedExtension>),
    Link(PathBuf),
    Update(Box<(Extension, ExtensionUpdate)>),
}

/// Operations that wait for consent; the first one is open.
#[derive(Default)]
pub(crate) struct ConsentQueue(VecDeque<(ListDialog, Consent)>);

impl ConsentQueue {
    /// Adds an operation. `lines` say what it would add.
    pub(crate) fn push(
        &mut self,
        title: String,
        lines: &[String],
        consent: Consent,
        theme: &Theme,
    ) {
        let row = |line: &String| Line::styled(format!("  {}", sanitize(line)), theme.text);
        let warning = "Extensions are third-party code: their programs run with your permissions.";
        let warnings = vec![Line::styled(warning, theme.warning)];
        let items = vec![ListItem::new("no", "No", ""), ListItem::new("yes", "Yes", "")];
        let list = ListDialog::new(title, items).warnings(warnings);
        self.0.push_back((list.intro(lines.iter().map(row).collect()), consent));
    }

    /// Returns the dialog of the first operation.
    pub(crate) fn dialog(&self) -> Option<Overlay> {
        let (list, _) = self.0.front()?;
        Some(Overlay::list(DialogPurpose::Consent, list.clone()))
    }

    /// Takes the first operation, which was answered.
    pub(crate) fn pop(&mut self) -> Option<Consent> {
        self.0.pop_front().map(|(.., consent)| consent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_shown_in_the_order_they_came() {
        let (mut queue, theme) = (ConsentQueue::default(), Theme::default());
        assert!(queue.dialog().is_none());
        for name in ["a", "b"] {
            queue.push(name.to_owned(), &[], Consent::Link(name.into()), &theme);
        }
        assert!(matches!(queue.pop(), Some(Consent::Link(path)) if path.ends_with("a")));
        assert!(queue.dialog().is_some_and(|it| it.purpose == DialogPurpose::Consent));
        queue.pop();
        assert!(queue.dialog().is_none());
    }
}
