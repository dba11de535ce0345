//! Reserves what a model request may cost.

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::ExhaustedBudget;
use parallax_protocol::event::{EndReason, Failure, FailureKind};
use parallax_protocol::model::Request;

use super::Session;
use crate::approvals::{UserRequests, request_increase};
use crate::budget::{RequestPrice, Reservation, ReservationError};

impl Session {
    /// Reserves what a request may cost, and limits its output to what a budget covers. Asks the
    /// user to raise a budget that does not cover it.
    ///
    /// # Errors
    /// Returns the end reason if the request must not be sent.
    pub(super) async fn reserve_cost(
        &mut self,
        request: &mut Request,
        is_continuation: bool,
        cancel: &CancellationToken,
    ) -> Result<Option<Reservation>, EndReason> {
        let Some(price) = self.client.catalog().price(&request.model) else { return Ok(None) };
        let prompt = {
            let fixed = self.frame().fixed_tokens();
            self.conversation.history().estimate(fixed)
        };
        let cached = self.conversation.history().cached_tokens(&request.model);
        let max_output = crate::budget::max_output(self.client.catalog(), request);
        let mut price = RequestPrice::new(price, prompt, cached, max_output);
        if is_continuation {
            // The service continues an answer only with the same settings.
            price = price.with_fixed_output();
        }
        loop {
            let ledger = self.budget.ledger();
            let reserve_future = async {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    reserved = ledger.reserve(price) => Some(reserved),
                }
            };
            match self.inbox.while_receiving(reserve_future).await {
                None => return Err(EndReason::Cancelled),
                Some(Ok(reservation)) => {
                    if let Some((tokens, _)) =
                        reservation.as_ref().and_then(Reservation::output_limit)
                    {
                        request.generation.insert("maxOutputTokens".to_owned(), tokens.into());
                    }
                    return Ok(reservation);
                }
                Some(Err(ReservationError::Exhausted(budget))) => {
                    self.raise_budget(budget, cancel).await?;
                }
                Some(Err(ReservationError::Unavailable(message))) => {
                    let kind = FailureKind::Config;
                    return Err(EndReason::Failed(Failure { kind, message, status: None }));
                }
            }
        }
    }

    /// Asks the user to raise a budget.
    ///
    /// # Errors
    /// Returns the end reason if the limit stays.
    pub(super) async fn raise_budget(
        &mut self,
        exhausted: ExhaustedBudget,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let Self { budget, inbox, hooks, approvals, .. } = self;
        let mut users = UserRequests { inbox, hooks, approvals };
        match request_increase(budget, exhausted, &mut users, cancel).await? {
            true => Ok(()),
            false => Err(EndReason::Budget(exhausted)),
        }
    }
}
