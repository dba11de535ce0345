//! Reloads agent and tool definitions that changed on disk before each prompt.

use std::sync::Arc;

use crate::session::Session;

impl Session {
    /// Reloads the definitions and reports changes. `turn` counts the turns of this process.
    pub(crate) async fn refresh_definitions(&mut self, turn: u64) {
        let agents = self.agents.subagents.as_ref().map(|subagents| {
            subagents.begin_turn(self.conversation.turn);
            Arc::clone(&subagents.agents)
        });
        let tools = self.registry.source();
        if agents.is_none() && tools.is_none() {
            return;
        }
        // Runs left by an earlier process; runs interrupted in this one were already reported.
        let left = turn == 1 && self.conversation.history.len() > 0;
        let looking = tokio::task::spawn_blocking(move || {
            let mut told = agents.as_ref().map(|agents| agents.refresh()).unwrap_or_default();
            told.extend(tools.iter().flat_map(|tools| tools.refresh()));
            let kept = agents.filter(|_| left).map(|agents| agents.kept()).unwrap_or_default();
            (kept, told)
        });
        match self.inbox.while_receiving(looking).await {
            Ok((kept, told)) => {
                self.conversation.interrupted_work = kept;
                for (level, text) in told {
                    self.inbox.notice(level, text);
                }
            }
            Err(error) => tracing::warn!(%error, "failed to reload changed definitions"),
        }
    }
}
