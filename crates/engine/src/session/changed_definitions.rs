//! Reloads agent and tool definitions that changed on disk before each prompt.

use std::sync::Arc;

use crate::agents::SubagentManager;
use crate::conversation::Conversation;
use crate::inbox::Inbox;
use crate::registry::Registry;

/// Reloads the definitions and reports changes. `is_first` says that this is the first turn of the
/// process.
pub(crate) async fn refresh_definitions(
    is_first: bool,
    subagents: Option<&SubagentManager>,
    registry: &Registry,
    conversation: &mut Conversation,
    inbox: &mut Inbox,
) {
    let agents = subagents.map(|subagents| {
        subagents.begin_turn(conversation.turn());
        Arc::clone(&subagents.agents)
    });
    let tools = registry.source();
    if agents.is_none() && tools.is_none() {
        return;
    }
    // Runs left by an earlier process; runs interrupted in this one were already reported.
    let left = is_first && conversation.history().len() > 0;
    let task = tokio::task::spawn_blocking(move || {
        let mut notices = agents.as_ref().map(|agents| agents.refresh()).unwrap_or_default();
        notices.extend(tools.iter().flat_map(|tools| tools.refresh()));
        let interrupted =
            agents.filter(|_| left).map(|agents| agents.interrupted_runs()).unwrap_or_default();
        (interrupted, notices)
    });
    match inbox.while_receiving(task).await {
        Ok((kept, report)) => {
            conversation.set_interrupted_work(kept);
            for (level, text) in report {
                inbox.notice(level, text);
            }
        }
        Err(error) => tracing::warn!(%error, "failed to reload changed definitions"),
    }
}
