//! The `/context` dialog: what fills the context window; tool results can be dropped or pinned.

use parallax_protocol::context::{ContextBreakdown, ContextItem, ResultLocation};
use parallax_protocol::op::Op;
use parallax_screen::Line;

use super::dialog_stack::{DialogPurpose, Overlay, OverlayBody};
use crate::context_view::rows;
use crate::dialog::{ListDialog, ListItem, RowLayout};
use crate::sanitize::sanitize;
use crate::status_line::count;
use crate::theme::Theme;

/// Maximum number of tool results offered, newest first.
const OFFERED: usize = 500;

/// What to do with a breakdown.
pub(crate) enum ContextStep {
    /// It was not requested.
    Nothing,
    /// Print these rows: there is nothing to choose.
    Print(Vec<Line>),
    /// Open the dialog.
    Show(Overlay),
}

/// The context breakdown, while its dialog is open or requested.
#[derive(Debug, Default)]
pub(crate) struct ContextView {
    /// Whether a breakdown was requested for display.
    is_requested: bool,
    /// The breakdown that the dialog shows.
    breakdown: Option<Box<ContextBreakdown>>,
}

impl ContextView {
    /// Records that the breakdown is requested for display.
    pub(crate) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Takes a breakdown that the engine reported. `open` is the dialog that is open.
    pub(crate) fn show(
        &mut self,
        breakdown: &ContextBreakdown,
        open: Option<&Overlay>,
        width: usize,
        theme: &Theme,
    ) -> ContextStep {
        let items: Vec<ListItem> = breakdown.items.iter().take(OFFERED).map(item).collect();
        let is_wanted = std::mem::take(&mut self.is_requested);
        let before = match open {
            Some(Overlay { purpose: DialogPurpose::Context, body: OverlayBody::List(list) }) => {
                Some(list.current().map(|item| item.id.clone()).unwrap_or_default())
            }
            _ if !is_wanted => return ContextStep::Nothing,
            _ if items.is_empty() => return ContextStep::Print(rows(breakdown, width, theme)),
            _ => None,
        };
        let shown = breakdown.clone();
        let intro = RowLayout::new(move |width, theme| {
            let mut rows = rows(&shown, width, theme);
            if let Some(first) = rows.first_mut().filter(|first| first.spans.len() > 1) {
                // The title of the dialog.
                first.spans.remove(0);
            }
            rows
        });
        let list = ListDialog::new("Context", items)
            .intro_layout(intro)
            .hint("x drop · p pin · enter print the breakdown · esc back")
            .at(&before.unwrap_or_default());
        self.breakdown = Some(Box::new(breakdown.clone()));
        ContextStep::Show(Overlay::list(DialogPurpose::Context, list))
    }

    /// Takes the breakdown of the dialog as rows to print.
    pub(crate) fn print(&mut self, width: usize, theme: &Theme) -> Option<Vec<Line>> {
        self.breakdown.take().map(|breakdown| rows(&breakdown, width, theme))
    }

    /// Returns the operation that drops a tool result from the context.
    pub(crate) fn drop_result(&self, id: &str) -> Option<Op> {
        self.item(id).map(|item| Op::DropResults(vec![item.place]))
    }

    /// Returns the operation that pins or unpins a tool result.
    pub(crate) fn pin(&self, id: &str) -> Option<Op> {
        self.item(id).map(|item| Op::Pin { place: item.place, on: !item.pinned })
    }

    fn item(&self, id: &str) -> Option<&ContextItem> {
        self.breakdown.as_ref()?.items.iter().find(|item| name(item.place) == id)
    }
}

fn item(item: &ContextItem) -> ListItem {
    let noun = if item.tokens == 1 { "token" } else { "tokens" };
    let mut detail = format!("{} {noun}", count(item.tokens));
    if item.is_dropped {
        detail.push_str(" · dropped");
    }
    if item.pinned {
        detail.push_str(" · pinned");
    }
    ListItem::new(name(item.place), sanitize(&item.title), detail)
}

/// Returns the row id of a place.
fn name(position: ResultLocation) -> String {
    format!("{}.{}", position.content, position.part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakdown_is_shown_only_on_request() {
        let breakdown = ContextBreakdown {
            tokens: 1,
            window: 2,
            mark: 2,
            blocks: Vec::new(),
            items: Vec::new(),
        };
        let (mut view, theme) = (ContextView::default(), Theme::default());
        let show = |view: &mut ContextView| view.show(&breakdown, None, 80, &theme);
        assert!(matches!(show(&mut view), ContextStep::Nothing));
        view.request();
        assert!(matches!(show(&mut view), ContextStep::Print(_)));
        assert!(matches!(show(&mut view), ContextStep::Nothing));
        assert!(view.pin("0.0").is_none() && view.drop_result("0.0").is_none());
    }
}
