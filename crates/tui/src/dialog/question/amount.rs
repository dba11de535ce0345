//! Raises an exhausted budget.

use parallax_protocol::budget::{BudgetKind, ExhaustedBudget};
use parallax_protocol::op::{ApprovalResponse, RequestDecision};
use parallax_protocol::tool::Preview;

use super::{ActiveInput, QuestionAnswer, QuestionDialog};
use crate::dialog::field::Field;

impl QuestionDialog {
    /// Returns the budget of the request.
    pub(super) fn budget(&self) -> Option<ExhaustedBudget> {
        match self.request.preview {
            Some(Preview::Budget(spent)) => Some(spent),
            _ => None,
        }
    }

    /// Handles a typed amount.
    pub(super) fn raise_budget(&mut self, field: Field) -> QuestionAnswer {
        let increase = self.budget().and_then(|spent| spent.kind.parse_amount(field.text()));
        if increase.is_some() {
            let id = self.request.id.clone();
            let decide = RequestDecision {
                increase,
                ..RequestDecision::new(id, ApprovalResponse::ProceedOnce)
            };
            return QuestionAnswer::Decided(Box::new(decide));
        }
        let like = match self.budget().map(|spent| spent.kind) {
            Some(BudgetKind::Tokens) => "50000, 50k or 2m",
            Some(BudgetKind::Time) => "90s, 10m or 1h",
            _ => "0.50 or $2",
        };
        self.typing =
            Some(ActiveInput::Amount(field, Some(format!("expected an amount such as {like}"))));
        QuestionAnswer::Stay
    }
}
