//! A look at the files that agents and tools are made of, before each prompt: what
//! people changed meanwhile counts from then on.

use std::sync::Arc;

use crate::session::Session;

impl Session {
    /// Looks, and says what changed. `turn` counts those of this process.
    pub(crate) async fn look_at_files(&mut self, turn: u64) {
        let agents = self.family.as_ref().map(|family| {
            family.begin_turn(self.turn);
            Arc::clone(&family.agents)
        });
        let tools = self.registry.source();
        if agents.is_none() && tools.is_none() {
            return;
        }
        // What an earlier process left; who was interrupted in this one has said so.
        let left = turn == 1 && self.history.len() > 0;
        let looking = tokio::task::spawn_blocking(move || {
            let mut told = agents.as_ref().map(|agents| agents.refresh()).unwrap_or_default();
            told.extend(tools.iter().flat_map(|tools| tools.refresh()));
            let kept = agents.filter(|_| left).map(|agents| agents.kept()).unwrap_or_default();
            (kept, told)
        });
        match self.inbox.during(looking).await {
            Ok((kept, told)) => {
                self.kept_work = kept;
                for (level, text) in told {
                    self.inbox.notice(level, text);
                }
            }
            Err(error) => tracing::warn!(%error, "files that changed are not looked at"),
        }
    }
}
