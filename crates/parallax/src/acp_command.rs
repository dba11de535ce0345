//! `parallax --acp`: serves an editor over stdin and stdout.

use std::sync::Arc;

use parallax_acp::{Host, ManagementCommand, OpenRequest, SlashReply};
use parallax_commands::TABLE;
use parallax_headless::{ExitCode, Signals};
use parallax_protocol::event::Failure;
use parallax_protocol::typed_input::ExpandInput;
use parallax_sdk::trust::{PreparedConfig, TrustAnswer};
use parallax_sdk::{EventReader, OpenSession, SessionConfig};
use parallax_sessions::SessionChoice;

use crate::management_commands;
use crate::session_flags::SessionFlags;
use crate::start;

/// Serves until stdin ends or a signal arrives.
pub(crate) async fn run(flags: SessionFlags) -> ExitCode {
    let host = Arc::new(AcpHost { flags });
    let mut signals = Signals::listen();
    let (stopped, mut signal) = tokio::sync::oneshot::channel();
    let stop = async move {
        // Not awaited after stdin has ended.
        let _ = stopped.send(signals.next().await);
    };
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    parallax_acp::serve(host, input, tokio::io::stdout(), stop).await;
    signal.try_recv().map_or(ExitCode::SUCCESS, ExitCode::signal)
}

/// Opens the sessions of an editor.
pub(crate) struct AcpHost {
    pub(crate) flags: SessionFlags,
}

impl Host for AcpHost {
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn prepare(&self, request: OpenRequest) -> Result<SessionConfig, Failure> {
        let mut options = start::options(&self.flags)?;
        options.directory = request.directory;
        options.include_directories.extend(request.additional);
        if request.session != SessionChoice::New {
            options.session = request.session;
        }
        options.exact_session = true;
        options.includes_file_texts = true;
        options.editor = request.editor;
        options.mcp_servers = request.mcp_servers;
        if !request.can_ask_user {
            options.exclude_tools.push("ask_user".to_owned());
        }
        options.auth_method = request.authentication.method;
        options.variables.extend(request.authentication.variables);
        let launch = match SessionConfig::prepare_or_ask(options)? {
            PreparedConfig::Ready(launch) => *launch,
            // The protocol has no such question, so nothing in the directory is used.
            PreparedConfig::NeedsTrust(question) => question.answer(TrustAnswer::NotNow)?,
        };
        Ok(match request.prompter {
            Some(asker) => launch.with_user_prompter(asker),
            None => launch,
        })
    }

    fn providers(&self) -> Vec<String> {
        let launch = start::options(&self.flags).and_then(|mut options| {
            options.is_read_only = true;
            SessionConfig::prepare(options)
        });
        // Invalid flags are reported when a session opens.
        launch.map(|launch| launch.provider_manager().providers_with_keys()).unwrap_or_default()
    }

    fn expand(&self, session: &OpenSession) -> ExpandInput {
        start::expand(session)
    }

    fn slash<'a>(
        &'a self,
        session: &'a OpenSession,
        events: &'a mut EventReader,
        text: &'a str,
    ) -> SlashReply<'a> {
        Box::pin(async move {
            if let Some(answer) = start::engine_command(session, events, text).await? {
                return Ok(Some(answer.0.text));
            }
            Ok(start::info_command(session, text).await?.map(|report| report.text))
        })
    }

    fn management(&self, session: &OpenSession, text: &str) -> Option<ManagementCommand> {
        management_commands::command(session, text)
    }

    fn commands(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        TABLE.iter().flat_map(|command| command.editors).copied().collect()
    }
}
