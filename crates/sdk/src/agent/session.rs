//! A session of an agent, and its turns as typed events.

use parallax_engine::EventReader;
use parallax_protocol::event::{EndReason, EventBody, ItemDone, ItemStart, Level, TurnEnded};
use parallax_protocol::op::{self, Op, Prompt, RequestDecision};

use super::{AgentError, ApprovalResponse, Approver};
use crate::open::OpenSession;

/// An event of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// The next part of the answer.
    Text(String),
    /// A summary of the model's thinking.
    Thought(String),
    /// A tool call began.
    ToolStarted {
        /// Id of the tool call.
        call: String,
        /// Name of the tool.
        name: String,
        /// The arguments as JSON.
        arguments: String,
    },
    /// A tool call ended.
    ToolEnded {
        /// Id of the tool call.
        call: String,
        /// Name of the tool.
        name: String,
        /// One-line description of what was done.
        title: String,
        /// The error, if the call failed or was denied.
        error: Option<String>,
    },
    /// A warning or an error for the user.
    Notice(String),
    /// The turn ended; contains the whole answer. This is the last event of a turn.
    Ended(String),
}

/// An open session of an agent.
pub struct AgentSession {
    open: OpenSession,
    events: EventReader,
    approver: Option<Approver>,
}

impl AgentSession {
    pub(crate) fn new(open: OpenSession, events: EventReader, approver: Option<Approver>) -> Self {
        Self { open, events, approver }
    }

    /// Returns the session id, for [`super::Agent::resume`].
    pub fn id(&self) -> &str {
        self.open.id.as_str()
    }

    /// Sends a prompt. Read the turn with [`AgentTurn::next`].
    ///
    /// # Errors
    /// Returns an error if the session is closed.
    pub async fn prompt(&mut self, text: impl Into<String>) -> Result<AgentTurn<'_>, AgentError> {
        let prompt = Prompt { text: text.into(), ..Prompt::default() };
        let sent = self.open.ops().send(Op::Prompt(prompt)).await;
        sent.map_err(|_| AgentError::Closed)?;
        Ok(AgentTurn { session: self, answer: String::new(), is_over: false })
    }

    /// Sends a prompt and waits for the answer.
    ///
    /// # Errors
    /// Returns an error if the turn fails or ends early.
    pub async fn send(&mut self, text: impl Into<String>) -> Result<String, AgentError> {
        let mut turn = self.prompt(text).await?;
        while let Some(event) = turn.next().await? {
            if let AgentEvent::Ended(answer) = event {
                return Ok(answer);
            }
        }
        Err(AgentError::Closed)
    }

    /// Interrupts the running turn.
    pub async fn interrupt(&self) {
        // Fails only if the session has ended, which has no running turn.
        let _ = self.open.ops().send(Op::Interrupt).await;
    }

    /// Closes the session: saves it and ends its child processes. Returns notices for the user.
    pub async fn close(self) -> Vec<String> {
        self.open.close().await
    }
}

/// A running turn.
pub struct AgentTurn<'a> {
    session: &'a mut AgentSession,
    answer: String,
    is_over: bool,
}

impl AgentTurn<'_> {
    /// Returns the next event, or `None` after the last one.
    ///
    /// # Errors
    /// Returns an error if the turn fails or ends early.
    pub async fn next(&mut self) -> Result<Option<AgentEvent>, AgentError> {
        while !self.is_over {
            let event = self.session.events.next().await.ok_or(AgentError::Closed)?;
            match event.body {
                EventBody::ApprovalRequested(ask) => {
                    let decide = match self.session.approver.as_ref().map(|decide| decide(&ask)) {
                        Some(ApprovalResponse::Allow) => {
                            RequestDecision::new(ask.id.clone(), op::ApprovalResponse::ProceedOnce)
                        }
                        Some(ApprovalResponse::Deny(feedback)) => RequestDecision {
                            feedback,
                            ..RequestDecision::new(ask.id.clone(), op::ApprovalResponse::Cancel)
                        },
                        None => RequestDecision::new(ask.id.clone(), op::ApprovalResponse::Cancel),
                    };
                    let sent = self.session.open.ops().send(Op::Decide(Box::new(decide))).await;
                    sent.map_err(|_| AgentError::Closed)?;
                }
                EventBody::TurnEnded(ended) => return self.handle_end(ended).map(Some),
                body => {
                    if let Some(event) = self.event(body) {
                        return Ok(Some(event));
                    }
                }
            }
        }
        Ok(None)
    }

    fn event(&mut self, body: EventBody) -> Option<AgentEvent> {
        Some(match body {
            EventBody::ItemDelta { item, text } if item.as_str().starts_with("text") => {
                AgentEvent::Text(text)
            }
            EventBody::ItemStarted { start: ItemStart::Tool(start), .. } => {
                AgentEvent::ToolStarted {
                    call: start.call.to_string(),
                    name: start.name,
                    arguments: serde_json::to_string(&start.args).unwrap_or_default(),
                }
            }
            EventBody::ItemDone { done, .. } => match done {
                ItemDone::Text { text, is_dropped: false } => {
                    // A turn may have text before each group of tool calls; the last one is the
                    // answer.
                    self.answer.clone_from(&text);
                    return None;
                }
                ItemDone::Thought { text } => AgentEvent::Thought(text),
                ItemDone::Tool(done) => AgentEvent::ToolEnded {
                    call: done.call.to_string(),
                    name: done.name,
                    title: done.title,
                    error: done.error.map(|(_, message)| message),
                },
                ItemDone::Notice { level, text, .. } if level != Level::Info => {
                    AgentEvent::Notice(text)
                }
                _ => return None,
            },
            _ => return None,
        })
    }

    fn handle_end(&mut self, ended: TurnEnded) -> Result<AgentEvent, AgentError> {
        self.is_over = true;
        match ended.reason {
            EndReason::Done => Ok(AgentEvent::Ended(std::mem::take(&mut self.answer))),
            EndReason::Failed(failure) => Err(failure.into()),
            EndReason::Cancelled => Err(AgentError::Ended("it was interrupted".to_owned())),
            EndReason::MaxTurns { limit } => {
                Err(AgentError::Ended(format!("reached the limit of {limit} model requests")))
            }
            EndReason::Budget(spent) => Err(AgentError::Ended(spent.to_string())),
            EndReason::Loop { detail } => Err(AgentError::Ended(detail)),
            EndReason::Stopped { reason, .. } => Err(AgentError::Ended(reason)),
        }
    }
}
