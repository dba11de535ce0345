//! The `/context` dialog: shows what fills the context window, and drops or pins tool results.

use parallax_protocol::context::ContextBreakdown;
use parallax_protocol::op::Op;

use super::App;
use crate::components::context_view::ContextStep;
use crate::effect::Effect;

impl App {
    /// Requests the context breakdown from the engine.
    pub(super) fn context(&mut self) {
        self.context.request();
        if self.is_busy() {
            self.toast("the breakdown is shown before the next request");
        }
        self.effect(Effect::Send(Op::DescribeContext));
    }

    /// Takes a breakdown that the engine reported.
    pub(super) fn context_is(&mut self, breakdown: &ContextBreakdown) {
        self.facts.context = (breakdown.tokens, breakdown.window);
        let (width, open) = (self.window.width(), self.dialogs.overlay());
        match self.context.show(breakdown, open, width, &self.theme) {
            ContextStep::Nothing => {}
            ContextStep::Print(rows) => self.say(rows),
            ContextStep::Show(overlay) => self.open(overlay),
        }
    }

    /// Prints the context breakdown.
    pub(super) fn print_context(&mut self) {
        self.dialogs.close();
        if let Some(rows) = self.context.print(self.window.width(), &self.theme) {
            self.say(rows);
        }
    }

    /// Changes a tool result in the context, and shows the breakdown again.
    pub(super) fn change_context(&mut self, op: Option<Op>) {
        if let Some(op) = op {
            self.effect(Effect::Send(op));
            self.effect(Effect::Send(Op::DescribeContext));
        }
    }
}
