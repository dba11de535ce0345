//! Writes a summary in the background before it is needed, so that the user does not wait for
//! it.

use parallax_protocol::CancellationToken;
use tokio::task::JoinHandle;

use super::masking::MaskingLimits;
use super::split::HistorySplit;
use super::thresholds::target_tokens;
use super::{ANSWERS, CompactionInput, CompactionState, Compactor, model_summary};
use crate::inbox::Inbox;
use crate::view::tokens_of;

/// A summary that is being written in the background.
pub(super) struct BackgroundSummary {
    summary_task: JoinHandle<Result<String, String>>,
    /// It covers the contents before this index.
    covered_contents: usize,
    /// The epoch of the history that it belongs to.
    pub(super) epoch: u64,
    cancel: CancellationToken,
}

impl Drop for BackgroundSummary {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Compactor<'_> {
    /// Starts writing a summary in the background.
    pub(super) async fn start_background_summary(&mut self, threshold: u64) {
        let epoch = self.conversation.history().epoch();
        let written = self.context.compaction.job.as_ref().is_some_and(|job| job.epoch == epoch);
        if written || !self.context.compaction.usefulness.is_enabled() {
            return;
        }
        let limits = MaskingLimits {
            min_masked: 0,
            notes: true,
            ..self.context.compaction.options.masking_limits(threshold)
        };
        // Files are only written when the summary is used.
        let save_output = self.context.compaction.options.save_output.take();
        let input = self.input(limits).await;
        self.context.compaction.options.save_output = save_output;
        if input.estimate(&input.masked_view) <= target_tokens(input.before) {
            return;
        }
        // More contents will have been added when it is used.
        let budget = tokens_of(&input.masked_view) / 8;
        let Some(split) =
            HistorySplit::with_tail_budget(&input.masked_view, input.active, budget, ANSWERS)
        else {
            return;
        };
        if !input.is_worthwhile(split) {
            return;
        }
        let from = input.view.iter().skip(split.tail);
        let Some(covered_contents) = from.filter_map(|entry| entry.origin.content_index()).next()
        else {
            return;
        };
        let request = self.summary_request(&input, split, None);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let summary_task =
            tokio::spawn(async move { wait(model_summary::write(&request, &stop), &stop).await });
        self.context.compaction.job =
            Some(BackgroundSummary { summary_task, covered_contents, epoch, cancel });
    }
}

/// Returns the finished background summary with its split.
pub(super) async fn finished_summary(
    inbox: &mut Inbox,
    mut job: BackgroundSummary,
    input: &CompactionInput,
    cancel: &CancellationToken,
) -> Option<(HistorySplit, String)> {
    let split = HistorySplit::before_index(&input.masked_view, input.active, job.covered_contents)?;
    let summary_future =
        async { (&mut job.summary_task).await.unwrap_or_else(|_| Err("it crashed".into())) };
    let snapshot = inbox.while_receiving(wait(summary_future, cancel)).await.ok()?;
    Some((split, snapshot))
}

impl CompactionState {
    /// Whether a background summary is still being written.
    pub(super) fn is_summary_running(&self) -> bool {
        self.job.as_ref().is_some_and(|job| !job.summary_task.is_finished())
    }
}

/// Waits for a summary, or until it is cancelled.
pub(super) async fn wait(
    summary_future: impl Future<Output = Result<String, String>>,
    cancel: &CancellationToken,
) -> Result<String, String> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err("it was interrupted".into()),
        written = summary_future => written,
    }
}
