//! The `/context` dialog: shows what fills the context window, and drops or pins tool results.

use parallax_protocol::context::{ContextBreakdown, ContextItem, ResultPlace};
use parallax_protocol::op::Op;

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Body, Overlay, Purpose};
use crate::context_view;
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;
use crate::footer::count as number;

/// Maximum number of tool results offered, newest first.
const OFFERED: usize = 500;

impl App {
    /// Requests the context breakdown from the engine.
    pub(super) fn context(&mut self) {
        self.wants_context = true;
        if self.is_busy() {
            self.toast("the breakdown is shown before the next request");
        }
        self.effect(Effect::Send(Op::DescribeContext));
    }

    pub(super) fn context_is(&mut self, picture: &ContextBreakdown) {
        self.facts.context = (picture.tokens, picture.window);
        let rows = context_view::rows(picture, self.columns(), &self.theme);
        let items: Vec<ListItem> = picture.items.iter().take(OFFERED).map(item).collect();
        let wanted = std::mem::take(&mut self.wants_context);
        let before = match self.dialogs.overlay() {
            Some(Overlay { purpose: Purpose::Context, body: Body::List(list) }) => {
                Some(list.current().map(|item| item.id.clone()).unwrap_or_default())
            }
            _ if !wanted => return,
            _ if items.is_empty() => return self.say(rows),
            _ => None,
        };
        let list = ListDialog::new("Tool results in the context", items)
            .intro(rows)
            .hint("x drop · p pin · enter print the breakdown · esc back")
            .at(&before.unwrap_or_default());
        self.context_picture = Some(Box::new(picture.clone()));
        self.open(Overlay::list(Purpose::Context, list));
    }

    /// Prints the context breakdown.
    pub(super) fn print_context(&mut self) {
        self.dialogs.close();
        if let Some(picture) = self.context_picture.take() {
            let rows = context_view::rows(&picture, self.columns(), &self.theme);
            self.say(rows);
        }
    }

    /// Drops a tool result from the context.
    pub(super) fn leave_out(&mut self, id: &str) {
        if let Some(place) = self.context_item(id).map(|item| item.place) {
            self.effect(Effect::Send(Op::DropResults(vec![place])));
            self.effect(Effect::Send(Op::DescribeContext));
        }
    }

    /// Pins or unpins a tool result.
    pub(super) fn pin(&mut self, id: &str) {
        if let Some((place, on)) = self.context_item(id).map(|item| (item.place, !item.pinned)) {
            self.effect(Effect::Send(Op::Pin { place, on }));
            self.effect(Effect::Send(Op::DescribeContext));
        }
    }

    fn context_item(&self, id: &str) -> Option<&ContextItem> {
        let picture = self.context_picture.as_ref()?;
        picture.items.iter().find(|item| name(item.place) == id)
    }

    fn columns(&self) -> usize {
        usize::from(self.size.0).saturating_sub(1).max(1)
    }
}

fn item(item: &ContextItem) -> ListItem {
    let mut detail = format!("{} tokens", number(item.tokens));
    if item.dropped {
        detail.push_str(" · dropped");
    }
    if item.pinned {
        detail.push_str(" · pinned");
    }
    ListItem::new(name(item.place), clean(&item.title), detail)
}

/// Returns the row id of a place.
fn name(place: ResultPlace) -> String {
    format!("{}.{}", place.content, place.part)
}
