//! The turn loop: accept the input, then request the model and run its calls until it gives its
//! final response. Each step is its own function, in `steps` or `model_step`.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::EndReason;

use super::Session;
use super::steps::OpenCalls;
use crate::function_response::FinishedResults;
use crate::hooks::Continuations;
use crate::inbox::TurnInput;
use crate::model_request::ModelReply;

/// What follows a step.
pub(super) enum NextStep {
    /// The model gets the results of its calls.
    Request,
    /// The model gave its final response.
    Finish,
}

impl Session {
    /// Runs a turn to its end; when its time is up and the user extends it, the turn continues. The
    /// history is valid afterwards in every case.
    ///
    /// # Errors
    /// Returns why the turn ended, if not with the model's final response.
    pub(super) async fn run_turn(
        &mut self,
        mut input: TurnInput,
        mut cancel: CancellationToken,
    ) -> Result<(), EndReason> {
        self.start_clock();
        loop {
            let timer = self.start_timer(&cancel);
            let ended = self.answer_until_hooks_agree(input, &cancel).await;
            drop(timer);
            self.budget.pause_clock();
            match (ended, self.current.timed_out()) {
                (Err(EndReason::Cancelled), Some(spent)) => {
                    cancel = self.extend_time(spent).await?;
                    input = TurnInput::Continue;
                }
                (ended, _) => return ended,
            }
        }
    }

    /// Answers an input, and the continuations that hooks request after it.
    async fn answer_until_hooks_agree(
        &mut self,
        mut input: TurnInput,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let mut continuations = Continuations::default();
        loop {
            let prompt = input.text().to_owned();
            self.process_input(input, cancel).await?;
            match self.run_end_hooks(&prompt, &mut continuations, cancel).await? {
                Some(continuation) => input = TurnInput::Continuation(continuation),
                None => return Ok(()),
            }
        }
    }

    /// Answers one input.
    async fn process_input(
        &mut self,
        input: TurnInput,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let (mut open_calls, added) = self.accept(input, cancel).await?;
        let ended = loop {
            match self.run_step(open_calls.take(), cancel).await {
                Ok(NextStep::Request) => {}
                Ok(NextStep::Finish) => break Ok(()),
                Err(reason) => break Err(reason),
            }
        };
        self.repair_history(&ended, added);
        ended
    }

    /// Runs one model request and its tool calls; in a resumed turn, the calls that are still open.
    async fn run_step(
        &mut self,
        open_calls: Option<OpenCalls>,
        cancel: &CancellationToken,
    ) -> Result<NextStep, EndReason> {
        let (calls, finished) = match open_calls {
            Some(open) => open,
            None => {
                self.check_limits(cancel)?;
                match self.request_model(cancel).await? {
                    // Steering messages received meanwhile become prompts.
                    ModelReply::Final => return Ok(NextStep::Finish),
                    ModelReply::RepetitionDetected => {
                        self.stop_repetition(cancel).await?;
                        return Ok(NextStep::Request);
                    }
                    ModelReply::ToolCalls(calls) => (calls, FinishedResults::new()),
                }
            }
        };
        let results = self.run_calls(&calls, finished, cancel).await;
        let found_loop = self.detect_loop(&calls, &results, cancel);
        let declined = self.append_results(results, found_loop.as_ref(), cancel)?;
        if self.has_agent_result() {
            return Ok(NextStep::Finish);
        }
        self.confirm_continuation(found_loop, declined, cancel).await?;
        Ok(NextStep::Request)
    }
}
