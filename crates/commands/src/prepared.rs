//! A command with its arguments, before it is expanded to a prompt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Part, PartView};
use parallax_protocol::event::{ApprovalRequest, Failure, FailureKind, Question};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::op::{ApprovalResponse, Prompt, TurnOverrides};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{Preview, ToolKind};
use parallax_protocol::typed_input::CommandApprover;
use parallax_tools::activate_skill::{SkillEntry, activation};
use tokio::time::{Instant, timeout_at};

use crate::catalog::{Catalog, CommandInfo};
use crate::command_overrides::{mode_of, turn_overrides};
use crate::expand::{Expander, delegation};
use crate::expansion_step::ExpansionStep;
use crate::preparation::CommandPreparation;
use crate::shell::{self, CheckedCommand};
use crate::{ExpansionContext, template_files as files};

/// A command with arguments filled in and decisions about its shell commands.
pub struct PreparedCommand {
    shared: Arc<ExpansionContext>,
    name: String,
    /// The whole line as typed.
    pub(crate) line: String,
    steps: Vec<ExpansionStep>,
    /// The arguments as typed, for file references in them.
    arguments: String,
    mode: ApprovalMode,
    /// Overrides for the turn from the command's file.
    overrides: Option<Box<TurnOverrides>>,
    /// Total time limit of its shell commands.
    timeout: Option<Duration>,
    /// The agent to delegate the work to.
    agent: Option<String>,
    notices: Vec<String>,
}

/// The result of expanding a command.
#[derive(Debug)]
pub struct ExpandedCommand {
    /// The prompt to send.
    pub prompt: Prompt,
    /// Notices for the user, one line each.
    pub notices: Vec<String>,
}

impl PreparedCommand {
    /// Prepares a command. The tuple contains the typed line and its part after the name. Blocking.
    pub(crate) fn new(
        shared: &Arc<ExpansionContext>,
        catalog: &Catalog,
        command: &CommandInfo,
        (line, arguments): (&str, &str),
        now: ApprovalMode,
    ) -> Result<Self, Failure> {
        let name = command.name.clone();
        let (mode, warning) = mode_of(&command.overrides, &command.source, now, shared.trusted);
        let mut preparation = CommandPreparation::new(shared, catalog, mode);
        let steps = preparation
            .steps(command, line, arguments)
            .map_err(|reason| Failure::new(FailureKind::Input, format!("`/{name}`: {reason}")))?;
        let (mut overrides, notices) = turn_overrides(&command.overrides, &command.source);
        overrides.mode = (mode != now).then_some(mode);
        let (agent, agent_notice) = match &command.overrides.agent {
            Some(agent) => shared.agent(agent),
            None => (None, None),
        };
        let notices =
            notices.into_iter().chain(warning).chain(agent_notice).chain(preparation.notices);
        let notices = notices.map(|notice| format!("`/{name}`: {notice}")).collect();
        let has_none = overrides == TurnOverrides::default();
        Ok(Self {
            timeout: overrides.timeout,
            overrides: (!has_none).then(|| Box::new(overrides)),
            agent,
            notices,
            ..Self::plain(
                Arc::clone(shared),
                command.name.clone(),
                steps,
                arguments.to_owned(),
                mode,
            )
        })
    }

    /// Creates a command without turn overrides.
    fn plain(
        shared: Arc<ExpansionContext>,
        name: String,
        steps: Vec<ExpansionStep>,
        arguments: String,
        mode: ApprovalMode,
    ) -> Self {
        Self {
            shared,
            line: String::new(),
            name,
            steps,
            arguments,
            mode,
            overrides: None,
            timeout: None,
            agent: None,
            notices: Vec::new(),
        }
    }

    /// Creates a command from the prompt of an MCP server.
    pub(crate) fn from_prompt(
        shared: Arc<ExpansionContext>,
        name: String,
        server: String,
        prompt: String,
        values: Vec<(String, String)>,
    ) -> Self {
        let steps = vec![ExpansionStep::Prompt { server, prompt, values }];
        // File references in the arguments are left to the server.
        Self::plain(shared, name, steps, String::new(), ApprovalMode::Default)
    }

    /// Creates a command that activates a skill and sends text.
    pub(crate) fn from_skill(
        shared: Arc<ExpansionContext>,
        name: String,
        skill: SkillEntry,
        text: String,
    ) -> Self {
        let steps = vec![ExpansionStep::Skill(skill), ExpansionStep::Text(format!("\n\n{text}"))];
        Self::plain(shared, name, steps, text, ApprovalMode::Default)
    }

    /// Returns the command's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the shell commands that need the user's approval.
    pub fn questions(&self) -> Vec<&str> {
        self.shell()
            .filter(|evaluated| evaluated.needs_approval)
            .map(|evaluated| evaluated.text.as_str())
            .collect()
    }

    /// Returns whether the command runs shell commands.
    pub fn runs_commands(&self) -> bool {
        self.shell().next().is_some()
    }

    /// Asks the user about each shell command that needs approval.
    ///
    /// # Errors
    /// Returns an error if the user denies one.
    pub async fn ask(&mut self, approver: &CommandApprover) -> Result<(), Failure> {
        while let Some(request) = self.next_request() {
            let response = approver(request.clone()).await;
            if !self.answer(&request, response) {
                return Err(Failure::new(
                    FailureKind::Input,
                    format!(
                        "`/{}`: its shell command `{}` was not approved; nothing was sent",
                        self.name, request.title
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Handles the answer to a request from [`Self::next_request`]. Returns whether it approves the
    /// command.
    pub fn answer(&mut self, request: &ApprovalRequest, response: ApprovalResponse) -> bool {
        let for_session = match response {
            ApprovalResponse::ProceedOnce => false,
            ApprovalResponse::ProceedAlways => !request.policy_decision.always_ask,
            _ => return false,
        };
        self.approve_command(&request.title, for_session);
        true
    }

    /// Returns the approval request for the next shell command that needs approval; its title is
    /// the command. A destructive command requires approval each time.
    pub fn next_request(&self) -> Option<ApprovalRequest> {
        static LAST_REQUEST: AtomicU64 = AtomicU64::new(0);
        let evaluated = self.shell().find(|evaluated| evaluated.needs_approval)?;
        let number = LAST_REQUEST.fetch_add(1, Ordering::Relaxed) + 1;
        let mut policy_decision = evaluated.policy_decision.clone();
        policy_decision.reason =
            format!("The command `/{}` runs it. {}", self.name, policy_decision.reason);
        let mut outcomes = vec![ApprovalResponse::ProceedOnce];
        outcomes.extend((!policy_decision.always_ask).then_some(ApprovalResponse::ProceedAlways));
        outcomes.push(ApprovalResponse::Cancel);
        let request = ApprovalRequest::for_session(
            ApprovalId::new(format!("command-{number}")),
            "run_shell_command",
            evaluated.text.clone(),
            policy_decision,
            Question::Exec,
            outcomes,
        );
        Some(ApprovalRequest {
            kind: ToolKind::Execute,
            preview: Some(Preview::Command {
                command: evaluated.text.clone(),
                directory: self.shared.workspace.root().to_owned(),
            }),
            ..request
        })
    }

    fn approve_command(&mut self, text: &str, for_session: bool) {
        if for_session {
            let mut agreed =
                self.shared.approved_commands.lock().unwrap_or_else(PoisonError::into_inner);
            agreed.insert(text.to_owned());
        }
        for step in &mut self.steps {
            if let ExpansionStep::Shell(evaluated) = step
                && evaluated.text == text
            {
                evaluated.needs_approval = false;
            }
        }
    }

    fn shell(&self) -> impl Iterator<Item = &CheckedCommand> {
        self.steps.iter().filter_map(|step| match step {
            ExpansionStep::Shell(evaluated) => Some(evaluated),
            _ => None,
        })
    }

    /// Reads files, runs shell commands, and returns the prompt.
    ///
    /// # Errors
    /// Returns an error if a shell command is not approved or cannot be started, or if the run is
    /// cancelled.
    pub async fn run(self, cancel: &CancellationToken) -> Result<ExpandedCommand, Failure> {
        let name = self.name.clone();
        let command_failure =
            |reason: String| Failure::new(FailureKind::Input, format!("`/{name}`: {reason}"));
        if let Some(command) = self.questions().first() {
            return Err(command_failure(format!(
                "its shell command `{command}` requires approval: allow it with a rule (see \
                 `parallax policy`), or run it in the terminal"
            )));
        }
        let Self {
            shared,
            line,
            steps,
            arguments,
            mode,
            overrides,
            timeout,
            agent,
            mut notices,
            ..
        } = self;
        let end = timeout.map(|timeout| (Instant::now() + timeout, timeout));
        let mut parts: Vec<Part> = Vec::new();
        for step in steps {
            match step {
                ExpansionStep::Text(text) => parts.push(Part::text(text)),
                ExpansionStep::File(path) => {
                    let shared = Arc::clone(&shared);
                    let read_task =
                        tokio::task::spawn_blocking(move || files::read(&shared, &path));
                    let brought =
                        read_task.await.map_err(|error| command_failure(error.to_string()))?;
                    parts.extend(brought.parts);
                    notices.extend(brought.notices);
                }
                ExpansionStep::Prompt { server, prompt, values } => {
                    let Some(servers) = &shared.servers else { continue };
                    let prompt_request = servers.prompt(&server, &prompt, &values);
                    parts.extend(prompt_request.await.map_err(command_failure)?);
                }
                ExpansionStep::Skill(skill) => {
                    let workspace = Arc::clone(&shared.workspace);
                    let read_task = tokio::task::spawn_blocking(move || {
                        let text = activation(&skill)?;
                        // As when the model activates the skill, its files become readable.
                        if let Some(folder) = skill.folder() {
                            workspace.allow_reading(folder);
                        }
                        Ok::<_, std::io::Error>(text)
                    });
                    let text =
                        read_task.await.map_err(|error| command_failure(error.to_string()))?;
                    let text = text.map_err(|error| command_failure(error.to_string()))?;
                    parts.push(Part::text(text));
                }
                ExpansionStep::Shell(evaluated) => {
                    let running = shell::run(&shared, &evaluated, mode, cancel);
                    let output = match end {
                        None => running.await,
                        // Dropping the future terminates the command.
                        Some((end, all)) => timeout_at(end, running).await.map_err(|_| {
                            command_failure(format!(
                                "`{}` was stopped after {} s (`timeout`)",
                                evaluated.text,
                                all.as_secs_f64()
                            ))
                        })?,
                    };
                    let output = output.map_err(|reason| {
                        command_failure(format!("`{}` failed to start: {reason}", evaluated.text))
                    })?;
                    parts.push(Part::text(output));
                }
            }
            if cancel.is_cancelled() {
                return Err(command_failure("cancelled".to_owned()));
            }
        }
        let mut prompt = prompt_of(parts);
        if prompt.text.trim().is_empty() && prompt.attachments.is_empty() {
            return Err(command_failure("its prompt is empty".to_owned()));
        }
        // File references in the arguments are read as in any prompt.
        let expander = Expander::new(&shared.workspace, &shared.seen_files, None);
        let expand_task = tokio::task::spawn_blocking(move || expander.prompt(arguments));
        let named = expand_task.await.map_err(|error| command_failure(error.to_string()))??;
        prompt.attachments.extend(named.attachments);
        prompt.attachments.extend(delegation(agent.as_slice()));
        prompt.overrides = overrides;
        prompt.typed_command = Some(line);
        Ok(ExpandedCommand { prompt, notices })
    }
}

/// Builds a prompt: text before the first media part becomes its text, and the rest is attached.
fn prompt_of(parts: Vec<Part>) -> Prompt {
    let mut prompt = Prompt::default();
    for part in parts {
        let is_text = matches!(part.view(), PartView::Text(_));
        if !is_text {
            prompt.attachments.push(part);
            continue;
        }
        let text = part.into_text().unwrap_or_default();
        match prompt.attachments.last_mut() {
            None => prompt.text.push_str(&text),
            Some(last) => {
                if let Err(apart) = last.try_join(Part::text(text)) {
                    prompt.attachments.push(apart);
                }
            }
        }
    }
    prompt
}
