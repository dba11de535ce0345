//! One model request: build it, stream it, judge the stream, try again.

use std::time::Instant;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::EndReason;
use parallax_protocol::model::Request;

use self::again::{Again, blocked, classify};
use self::rejected::{Rejected, is_rejection};
use self::stream::{Attempt, Ended, Played, only};
use crate::board::Call;
use crate::fallback::{self, Fell};
use crate::loop_guard::LoopGuard;
use crate::routing::{Ahead, Events};
use crate::session::Session;
use crate::verdict::{ATTEMPTS, Invalid};

mod again;
mod answered;
mod rejected;
mod request;
mod stream;
/// What the model said.
pub(crate) enum Reply {
    /// It wants calls run.
    Calls(Vec<Call>),
    /// It is done.
    Final,
    /// It wrote the same text again and again; the stream was cut.
    Chanting,
}

/// A request as it goes out.
struct Sent {
    request: Request,
    /// When it did.
    begun: Instant,
    /// What comes without sending it: the answer of a hook, or that to a request that was
    /// sent ahead.
    given: Option<Events>,
}

impl Session {
    /// Takes the answer to a request that was sent ahead. No hook chose its tools: where one
    /// does, none is sent.
    fn go_on_with(&mut self, ahead: Ahead) -> Sent {
        self.chosen_tools = None;
        let (request, begun, events) = ahead.take();
        Sent { request, begun, given: Some(events) }
    }

    /// Asks the model for the next step and keeps what it says.
    pub(crate) async fn ask_model(
        &mut self,
        guard: &mut LoopGuard,
        cancel: &CancellationToken,
    ) -> Result<Reply, EndReason> {
        let after_tool = self.history.ends_with_results();
        self.take_tools();
        let mut ahead = self.choose_model(cancel).await?;
        self.avoid_trouble(cancel).await?;
        let mut model = self.main_model();
        self.may_spend(&model, cancel).await?;
        self.make_room(cancel).await?;
        let mut nudged = false;
        let mut foreign_signature = 0u8;
        let mut made_room = false;
        let mut rejected = Rejected::default();
        let mut number = 0;
        loop {
            number += 1;
            let Sent { request, begun, given } = match ahead.take().filter(|it| it.is_to(&model)) {
                Some(ahead) => self.go_on_with(ahead),
                None => {
                    let request = self.request(&model, nudged, after_tool, number > 1)?;
                    let (request, hooked) = self.hook_before_model(request, cancel).await?;
                    Sent { request, begun: Instant::now(), given: hooked.map(only) }
                }
            };
            let seen = self.request_view(&request);
            let sent = self.history.len();
            let mut attempt = Attempt::new(begun, request.bytes());
            let played = Played { given, seen: seen.as_ref() };
            let mut ended = self.stream(request, played, &mut attempt, guard, cancel).await;
            self.tell_call(&model, &attempt, &ended);
            if let (Ended::Whole | Ended::Chanting, Some(seen)) = (&ended, &seen)
                && let Err(reason) = self.show_hooks(&mut attempt, seen, cancel).await
            {
                ended = Ended::Stopped(reason);
            }
            if let Some(usage) = attempt.answer.usage
                && !nudged
            {
                self.history.counted(sent, usage.prompt_token_count);
            }
            let trouble = match &ended {
                Ended::Failed(error) => fallback::cause(error),
                _ => None,
            };
            let rejects = matches!(&ended, Ended::Failed(error) if is_rejection(error));
            let mut most = ATTEMPTS;
            let again = match ended {
                Ended::Cancelled => {
                    // No hook has seen what came so far, so nobody does.
                    match self.holds_text() {
                        true => self.drop_shown(&mut attempt),
                        false => self.keep_partial(attempt, &model),
                    }
                    return Err(EndReason::Cancelled);
                }
                Ended::Chanting => {
                    self.keep_partial(attempt, &model);
                    return Ok(Reply::Chanting);
                }
                Ended::Stopped(reason) => {
                    self.drop_shown(&mut attempt);
                    return Err(reason);
                }
                Ended::Whole => match attempt.answer.blocked.clone() {
                    Some(reason) => Again::Stop(blocked(&reason, &attempt.answer)),
                    None => match Invalid::of(&attempt.answer, after_tool) {
                        None => {
                            self.models.well(&model);
                            self.settle_rejected(rejected);
                            return Ok(self.keep(attempt, &model));
                        }
                        Some(invalid) => {
                            let failure = invalid.failure(&attempt.answer);
                            most = invalid.max_attempts();
                            if number >= most {
                                Again::Stop(failure)
                            } else if invalid.wants_nudge() {
                                Again::Nudge(failure)
                            } else {
                                Again::Wait(failure, None)
                            }
                        }
                    },
                },
                Ended::Failed(error) => classify(&error, number, &mut foreign_signature),
            };
            self.drop_shown(&mut attempt);
            match again {
                Again::Stop(failure) if rejects => {
                    if !self.leave_out_named_tool(&failure)
                        && !self.remove_suspects(&mut rejected, &failure)
                    {
                        return Err(EndReason::Failed(self.rejection(rejected, failure)));
                    }
                    number = 0;
                }
                Again::Stop(mut failure) => {
                    let Some(cause) = trouble else { return Err(EndReason::Failed(failure)) };
                    if let Fell::No = self.fall_back(cause, &mut failure, cancel).await? {
                        return Err(EndReason::Failed(failure));
                    }
                    model = self.main_model();
                    self.may_spend(&model, cancel).await?;
                    number = 0;
                }
                Again::Unsign => self.unsign(),
                Again::MakeRoom(failure) => {
                    let is_shorter = !std::mem::replace(&mut made_room, true)
                        && self.make_room_by_force(cancel).await;
                    let goes_on =
                        is_shorter || (rejects && self.remove_suspects(&mut rejected, &failure));
                    if !goes_on {
                        return Err(EndReason::Failed(failure));
                    }
                }
                Again::Wait(failure, asked) => {
                    self.wait(&failure, (number, most), asked, &model, cancel).await?;
                }
                Again::Nudge(failure) => {
                    nudged = true;
                    self.wait(&failure, (number, most), None, &model, cancel).await?;
                }
            }
        }
    }
}
