//! Lets the client role of the official Rust library run the program as its agent: a session with
//! an approval, and loading it in another process.
//!
//! usage: rust-editor COMMAND-OF-THE-AGENT, in the directory of the project

use std::path::Path;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, LoadSessionRequest, NewSessionRequest, PermissionOptionKind,
    PromptRequest, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
    TextContent,
};
use agent_client_protocol::{AcpAgent, Agent, Client, Error};

type Updates = Arc<Mutex<Vec<SessionUpdate>>>;

/// Starts an agent, and prompts it in a new session or loads one. Returns the id and the updates.
async fn talk(
    command: &str,
    project: &Path,
    loaded: Option<SessionId>,
) -> Result<(SessionId, Vec<SessionUpdate>), Error> {
    let updates = Updates::default();
    let seen = Arc::clone(&updates);
    let id = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _connection| {
                seen.lock().expect("the updates").push(notification.update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                let mut options = request.options.iter();
                let once = options.find(|it| it.kind == PermissionOptionKind::AllowOnce);
                let once = once.expect("an option for one call").option_id.clone();
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(once)),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(AcpAgent::from_str(command)?, async |agent: ConnectionTo<Agent>| {
            let start = InitializeRequest::new(ProtocolVersion::V1);
            let ready = agent.send_request(start).block_task().await?;
            assert!(ready.agent_capabilities.load_session, "{ready:?}");
            if let Some(id) = loaded {
                let load = LoadSessionRequest::new(id.clone(), project);
                agent.send_request(load).block_task().await?;
                return Ok(id);
            }
            let opened = agent.send_request(NewSessionRequest::new(project)).block_task().await?;
            let text = ContentBlock::Text(TextContent::new("write it"));
            let prompt = PromptRequest::new(opened.session_id.clone(), vec![text]);
            let done = agent.send_request(prompt).block_task().await?;
            assert_eq!(done.stop_reason, StopReason::EndTurn);
            Ok(opened.session_id)
        })
        .await?;
    let updates = std::mem::take(&mut *updates.lock().expect("the updates"));
    Ok((id, updates))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let command = std::env::args().nth(1).expect("the command of the agent");
    let project = std::env::current_dir()?;
    let (id, updates) = talk(&command, &project, None).await?;
    assert_eq!(std::fs::read_to_string(project.join("b.txt"))?, "hello\n");
    let has = |updates: &[SessionUpdate], is: fn(&SessionUpdate) -> bool| updates.iter().any(is);
    assert!(has(&updates, |it| matches!(it, SessionUpdate::ToolCall(_))), "{updates:?}");
    assert!(has(&updates, |it| matches!(it, SessionUpdate::Plan(_))), "{updates:?}");
    let (_, history) = talk(&command, &project, Some(id)).await?;
    assert!(has(&history, |it| matches!(it, SessionUpdate::UserMessageChunk(_))), "{history:?}");
    assert!(has(&history, |it| matches!(it, SessionUpdate::AgentMessageChunk(_))), "{history:?}");
    Ok(())
}
