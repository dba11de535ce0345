//! Keeps the history within the context window: old results are masked first, then the older
//! part is replaced by a summary from the model, or from the program if the model fails.
//! Nothing is lost: the journal keeps everything.
//!
//! Requests share a prefix, which the provider's cache depends on; so compaction is rare and
//! removes a lot at once.

mod background_summary;
mod call_results;
mod drop_results;
mod full_output;
mod masking;
mod model_summary;
mod split;
mod summary;
mod thresholds;
mod transcript;

use std::collections::HashMap;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{
    Compaction, CompactionCause, CompactionMethod, ContextUsed, EndReason, EventBody,
    NOTHING_TO_COMPRESS,
};
use parallax_protocol::model::Model;
use parallax_protocol::tool::ToolKind;

use self::background_summary::{BackgroundSummary, wait};
use self::masking::MaskingLimits;
use self::split::HistorySplit;
use self::summary::{PinnedResults, PreservedDetails};
use self::thresholds::{SummaryUsefulness, is_worthwhile, target_tokens};
use super::{ContextManager, RequestFrame, usage};
use crate::budget::Ledger;
use crate::conversation::Conversation;
use crate::event_bus::EventBus;
use crate::hooks::HookRunner;
use crate::inbox::{ContextEdit, ContextOp, Inbox};
use crate::invariants;
use crate::options::CompactionOptions;
use crate::usage_tracking::UsageTrackingModel;
use crate::view::{ViewEntry, contents_of, tokens_of};

pub(super) use self::call_results::{CallResult, answered_calls};
pub(super) use self::masking::position_of_result;
pub(super) use self::summary::call_title;

/// Number of model messages that always keep their results.
const ANSWERS: usize = 2;
/// Size of the unsummarized tail in percent of the history: together with the summary it must
/// stay below the goal.
const TAIL_PERCENT: u64 = 20;
/// Maximum size of a summary in percent of what it replaces.
const SUMMARY_PERCENT: u64 = 50;
/// Minimum and maximum size of a summary in tokens.
const SUMMARY_TOKENS: (u64, u64) = (400, 12_000);
/// Change in tokens after which old results are scanned again.
const RESCAN_TOKENS: u64 = 2_000;

/// The compaction state of a session.
pub(super) struct CompactionState {
    pub(super) options: CompactionOptions,
    /// The summary being written in the background.
    job: Option<BackgroundSummary>,
    /// Thresholds below this token count do not apply: the last compaction did not get below the
    /// threshold.
    next_threshold: u64,
    /// The user undid a compaction: only the user or a full window triggers another.
    is_paused: bool,
    /// The token count of the last scan of old results.
    scanned_at: u64,
    /// How often the distance to the next compaction was doubled because the gains were small.
    backoff_doublings: u32,
    /// Large gains in a row since then.
    consecutive_large_gains: u32,
    /// Whether summaries are worth their requests.
    usefulness: SummaryUsefulness,
    /// The user was warned that the threshold is too low.
    warned_low: bool,
    /// The user was warned that the newest messages alone exceed the threshold.
    warned_above: bool,
}

impl CompactionState {
    pub(super) fn new(options: CompactionOptions) -> Self {
        Self {
            options,
            job: None,
            next_threshold: 0,
            is_paused: false,
            scanned_at: 0,
            backoff_doublings: 0,
            consecutive_large_gains: 0,
            usefulness: SummaryUsefulness::default(),
            warned_low: false,
            warned_above: false,
        }
    }

    /// Whether to scan old results again: not on every request, since a scan reads all of them.
    fn should_scan(&mut self, tokens: u64) -> bool {
        let changed = tokens.abs_diff(self.scanned_at) >= RESCAN_TOKENS;
        if changed {
            self.scanned_at = tokens;
        }
        changed
    }
}

/// The input of a compaction.
struct CompactionInput {
    /// The current view.
    view: Vec<ViewEntry>,
    /// The view with masked results.
    masked_view: Vec<ViewEntry>,
    kinds: Arc<HashMap<String, ToolKind>>,
    active: Option<usize>,
    /// Tokens of the request outside the view.
    fixed: u64,
    /// The estimate of the whole request, based on the service's count.
    before: u64,
    /// The context window of the model.
    window: u64,
}

impl CompactionInput {
    /// Estimates a request with another view, calibrated like `before`.
    fn estimate(&self, view: &[ViewEntry]) -> u64 {
        let raw = u128::from(self.fixed + tokens_of(&self.view)).max(1);
        let new = u128::from(self.fixed + tokens_of(view));
        u64::try_from(u128::from(self.before) * new / raw).unwrap_or(u64::MAX)
    }

    /// Returns by how many tokens, in local estimates, a view exceeds the limit.
    fn excess_tokens(&self, view: &[ViewEntry], fits: u64) -> u64 {
        let raw = u128::from(self.fixed + tokens_of(&self.view));
        let over = u128::from(self.estimate(view).saturating_sub(fits));
        u64::try_from((over * raw).div_ceil(u128::from(self.before.max(1)))).unwrap_or(u64::MAX)
    }

    /// Whether a summary would save noticeably more than masking alone.
    fn is_worthwhile(&self, split: HistorySplit) -> bool {
        let raw = self.fixed + tokens_of(&self.masked_view);
        let summary = split.dropped_tokens(&self.masked_view) * SUMMARY_PERCENT / 100;
        is_worthwhile(raw, raw - summary.min(raw))
    }

    /// Returns the maximum size of the summary for a split.
    fn summary_limit(&self, split: HistorySplit) -> u64 {
        let dropped = split.dropped_tokens(&self.view);
        (dropped * SUMMARY_PERCENT / 100).clamp(SUMMARY_TOKENS.0.min(dropped), SUMMARY_TOKENS.1)
    }
}

/// Compacts the history, or edits it as the user requested.
pub(crate) struct Compactor<'a> {
    pub(crate) context: &'a mut ContextManager,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) hooks: &'a HookRunner,
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) bus: &'a EventBus,
    /// The model that writes summaries.
    pub(crate) summarizer: Summarizer,
    /// What every request contains besides the history.
    pub(crate) frame: RequestFrame,
    /// The kind of each tool, by all its names.
    pub(crate) kinds: Arc<HashMap<String, ToolKind>>,
}

/// The model that writes summaries, and where its requests are counted.
#[derive(Clone)]
pub(crate) struct Summarizer {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) ledger: Ledger,
}

impl Compactor<'_> {
    /// Makes the next request fit if it exceeds a threshold.
    ///
    /// # Errors
    /// Returns the end reason if the turn was interrupted; the history is then unchanged.
    pub(crate) async fn compact_if_needed(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let ContextUsed { tokens, window } = self.usage();
        let threshold = self.threshold();
        self.warn_low_threshold(threshold, window);
        if tokens > window {
            self.compact(CompactionCause::Overflow, None, cancel).await;
        } else if tokens >= threshold.max(self.context.compaction.next_threshold)
            && !self.context.compaction.is_paused
        {
            // Slightly above the threshold, do not wait for a summary that is still being written.
            let patient = tokens < (threshold + threshold / 4).min(window - window / 10);
            if !(patient && self.context.compaction.is_summary_running()) {
                self.compact(CompactionCause::Threshold, None, cancel).await;
            }
        } else if tokens >= (threshold / 2).min(self.context.compaction.options.masking_threshold())
        {
            if self.context.compaction.should_scan(tokens) {
                self.mask_old_results(threshold.max(self.context.compaction.next_threshold)).await;
            }
            if tokens >= threshold.max(self.context.compaction.next_threshold) / 5 * 4
                && !self.context.compaction.is_paused
            {
                self.start_background_summary(threshold).await;
            }
        }
        if cancel.is_cancelled() { Err(EndReason::Cancelled) } else { Ok(()) }
    }

    /// Compacts after the service rejected the request as too long. Returns whether the history is
    /// shorter now.
    pub(crate) async fn compact_after_overflow(&mut self, cancel: &CancellationToken) -> bool {
        self.compact(CompactionCause::Overflow, None, cancel).await
    }

    /// Edits or describes the context as the user requested.
    pub(crate) async fn apply(&mut self, op: ContextOp, cancel: &CancellationToken) {
        match op {
            ContextOp::Edit(edit) => self.apply_edit(edit, cancel).await,
            ContextOp::Describe => {
                let breakdown = self.context.breakdown(&self.frame, self.conversation);
                self.bus.send(EventBody::ContextBreakdown(Box::new(breakdown)));
            }
        }
    }

    fn usage(&self) -> ContextUsed {
        usage(&self.frame, self.conversation.history())
    }

    fn threshold(&self) -> u64 {
        self.context.threshold(&self.frame)
    }

    async fn apply_edit(&mut self, edit: ContextEdit, cancel: &CancellationToken) {
        match edit {
            ContextEdit::Compact { focus } => {
                self.context.compaction.is_paused = false;
                self.compact(CompactionCause::Manual, focus, cancel).await;
            }
            ContextEdit::DropResults(places) => self.drop_results(places).await,
            ContextEdit::UnloadSkill(name) => self.unload_skill(&name).await,
            ContextEdit::Pin(location, on) => self.pin(location, on),
            ContextEdit::UndoCompaction => {
                let before = self.current_tokens();
                let undone = self.conversation.history_mut().undo_compaction();
                self.context.compaction.is_paused |= undone;
                self.context.compaction.job = None;
                if undone {
                    self.context.resume_directory_context(self.conversation.history());
                }
                self.context.forget_editor_context();
                let remark = (!undone).then(|| "no compaction to undo".to_owned());
                let after = self.current_tokens();
                self.emit_compaction(Compaction {
                    cause: CompactionCause::Undo,
                    how: None,
                    before,
                    after,
                    remark,
                });
            }
        }
    }

    fn current_tokens(&self) -> u64 {
        self.usage().tokens
    }

    fn emit_compaction(&mut self, compaction: Compaction) {
        self.bus.send(EventBody::Compaction(compaction));
        self.context.emit_usage(&self.frame, self.conversation.history(), self.bus);
    }

    /// Compacts the history and reports the result. Returns whether it is shorter.
    async fn compact(
        &mut self,
        cause: CompactionCause,
        focus: Option<String>,
        cancel: &CancellationToken,
    ) -> bool {
        let hooked = self.hooks.pre_compress(cause, self.inbox, cancel).await;
        let focus = focus.into_iter().chain(hooked).reduce(|all, one| format!("{all}\n{one}"));
        let window = self.frame.limits.context;
        let threshold = self.threshold();
        let mut limits = MaskingLimits {
            min_masked: 0,
            notes: true,
            ..self.context.compaction.options.masking_limits(threshold)
        };
        let mut input = self.input(limits).await;
        let before = input.before;
        // A request that the service rejected although it fits the known context window must shrink
        // a lot, since the real limit is unknown.
        let is_declined = cause == CompactionCause::Overflow && before <= window;
        let fits = if is_declined { before / 2 } else { window / 10 * 9 };
        let (mut how, mut remark) = (None, None);
        let mut shorter = input.masked_view.clone();
        let by_results = input.estimate(&shorter);
        // Saving 60 % is enough, unless the user asked for a summary.
        let enough = cause == CompactionCause::Threshold && by_results <= target_tokens(before);
        if is_worthwhile(before, by_results) {
            how = Some(CompactionMethod::Results);
        }
        if !enough {
            let budget = tokens_of(&input.masked_view) * TAIL_PERCENT / 100;
            let split =
                HistorySplit::with_tail_budget(&input.masked_view, input.active, budget, ANSWERS);
            let pays = split.is_some_and(|split| input.is_worthwhile(split));
            let asks = cause != CompactionCause::Threshold
                || (pays || self.context.compaction.job.is_some())
                    && self.context.compaction.usefulness.is_due();
            if asks
                && let Some((view, made, reason)) =
                    self.summarized_view(&input, split, focus, cancel).await
            {
                let used = is_worthwhile(input.estimate(&shorter), input.estimate(&view));
                self.record_summary_use(used || cause != CompactionCause::Threshold);
                if used {
                    (shorter, how, remark) = (view, Some(made), reason);
                }
            }
            if input.estimate(&shorter) > target_tokens(before) {
                // Mask large results among the last messages too, except the newest.
                let tighter = MaskingLimits { protect: 0, ..limits };
                if let Some(view) = self.mask_results(&shorter, tighter).await {
                    how = how.or(Some(CompactionMethod::Results));
                    shorter = view;
                }
            }
            // The model has not seen the newest results yet: it gets as much of them as fits.
            if input.estimate(&shorter) > fits && limits.protect_newest {
                let over = input.excess_tokens(&shorter, fits);
                if let Some(view) = self.mask_newest(&shorter, over).await {
                    how = how.or(Some(CompactionMethod::Results));
                    shorter = view;
                }
            }
        }
        if cancel.is_cancelled() {
            self.emit_compaction(unchanged(cause, before, "it was interrupted"));
            return false;
        }
        if cause == CompactionCause::Overflow && input.estimate(&shorter) > fits {
            // Last resort: no model, one message, no full result.
            limits = MaskingLimits { protect: 0, protect_newest: false, ..limits };
            input = self.input(limits).await;
            let split = HistorySplit::with_tail_budget(&input.masked_view, input.active, 0, 1);
            if let Some(split) = split {
                let view = mechanical_view(self.conversation, &input, split);
                if input.estimate(&view) < input.estimate(&shorter) {
                    (shorter, how) = (view, Some(CompactionMethod::Mechanical));
                }
            } else if input.estimate(&input.masked_view) < input.estimate(&shorter) {
                shorter = input.masked_view.clone();
                how = Some(CompactionMethod::Results);
            }
        }
        let after = input.estimate(&shorter);
        let Some(how) =
            how.filter(|_| invariants::structure_violation(&contents_of(&shorter)).is_none())
        else {
            self.context.compaction.next_threshold = before + threshold / 4;
            let reason =
                format!("{NOTHING_TO_COMPRESS} The history is short, or all of it is recent.");
            self.emit_compaction(unchanged(cause, before, &reason));
            return false;
        };
        if after > target_tokens(before) && remark.is_none() {
            let fixed = input.fixed * 100 / before.max(1);
            remark = Some(format!(
                "the system prompt and the tools use {fixed} % of it; the prompt, the last \
                    responses, and the newest result are always kept"
            ));
        }
        self.apply_view(shorter, how, before, after);
        self.context.compaction.learn(cause, (before, after), threshold, window);
        self.warn_above_threshold(cause, after, threshold);
        self.emit_compaction(Compaction { cause, how: Some(how), before, after, remark });
        true
    }

    fn apply_view(&mut self, view: Vec<ViewEntry>, how: CompactionMethod, before: u64, after: u64) {
        let job = self.context.compaction.job.take();
        self.conversation.history_mut().compact(view, how, before, after);
        // A background summary stays valid if only results were masked.
        self.context.compaction.job =
            job.filter(|_| how == CompactionMethod::Results).map(|mut job| {
                job.epoch = self.conversation.history().epoch();
                job
            });
        self.context.drop_lost_context(self.conversation.history());
        self.conversation.report_storage_error(self.inbox.notices());
    }

    /// Masks old results alone once there are enough of them.
    async fn mask_old_results(&mut self, threshold: u64) {
        let limits = self.context.compaction.options.masking_limits(threshold);
        let input = self.input(limits).await;
        let (before, after) = (input.before, input.estimate(&input.masked_view));
        if !is_worthwhile(before, after) {
            return;
        }
        self.apply_view(input.masked_view, CompactionMethod::Results, before, after);
        self.emit_compaction(Compaction {
            cause: CompactionCause::Threshold,
            how: Some(CompactionMethod::Results),
            before,
            after,
            remark: (after > target_tokens(before)).then(|| {
                format!(
                    "only results before the newest {} tokens of results were masked; no summary \
                        is needed yet",
                    limits.protect
                )
            }),
        });
    }

    /// Collects the input of a compaction, including the masked view.
    async fn input(&mut self, limits: MaskingLimits) -> CompactionInput {
        let ContextUsed { tokens: before, window } = self.usage();
        let fixed = self.frame.fixed_tokens();
        let view = self.conversation.history().view().to_vec();
        let kinds = Arc::clone(&self.kinds);
        let short = self.mask_results(&view, limits).await;
        let active = self
            .conversation
            .newest_input()
            .and_then(|at| view.iter().position(|entry| entry.origin.content_index() == Some(at)));
        CompactionInput {
            masked_view: short.unwrap_or_else(|| view.clone()),
            view,
            kinds,
            active,
            fixed,
            before,
            window,
        }
    }

    /// Returns the view with masked results; `None` when there is nothing to mask.
    async fn mask_results(
        &mut self,
        view: &[ViewEntry],
        limits: MaskingLimits,
    ) -> Option<Vec<ViewEntry>> {
        let save_output = self.context.compaction.options.save_output.clone();
        let (entries, kinds) = (view.to_vec(), Arc::clone(&self.kinds));
        let pins = self.conversation.history().pins().clone();
        let mask_task = tokio::task::spawn_blocking(move || {
            masking::mask_results(&entries, limits, &kinds, &pins, save_output.as_ref())
        });
        self.inbox.while_receiving(mask_task).await.ok().flatten()
    }

    /// Returns the view with the newest results reduced by `over` tokens; `None` when there is
    /// nothing to mask.
    async fn mask_newest(&mut self, view: &[ViewEntry], over: u64) -> Option<Vec<ViewEntry>> {
        let save_output = self.context.compaction.options.save_output.clone();
        let (entries, kinds) = (view.to_vec(), Arc::clone(&self.kinds));
        let pins = self.conversation.history().pins().clone();
        let mask_task = tokio::task::spawn_blocking(move || {
            masking::mask_newest_results(&entries, over, &kinds, &pins, save_output.as_ref())
        });
        self.inbox.while_receiving(mask_task).await.ok().flatten()
    }

    /// Returns the summarized view, the compaction method, and an optional notice.
    async fn summarized_view(
        &mut self,
        input: &CompactionInput,
        split: Option<HistorySplit>,
        focus: Option<String>,
        cancel: &CancellationToken,
    ) -> Option<(Vec<ViewEntry>, CompactionMethod, Option<String>)> {
        let ready_summary = match self.context.compaction.job.take() {
            Some(job) if focus.is_none() && job.epoch == self.conversation.history().epoch() => {
                background_summary::finished_summary(self.inbox, job, input, cancel).await
            }
            _ => None,
        };
        let (split, snapshot) = match ready_summary {
            Some((split, snapshot)) => (split, Ok(snapshot)),
            None => {
                let split = split?;
                let request = self.summary_request(input, split, focus);
                let summary_future = model_summary::write(&request, cancel);
                (split, self.inbox.while_receiving(wait(summary_future, cancel)).await)
            }
        };
        match snapshot {
            Ok(snapshot) => {
                let details = collect_details(self.conversation, input, split);
                let view = summary::replace(&input.masked_view, split, &details, &snapshot);
                Some((view, CompactionMethod::Snapshot, None))
            }
            Err(_) if cancel.is_cancelled() => None,
            Err(reason) => {
                let remark = format!(
                    "the model did not write a summary ({reason}), so Parallax generated one"
                );
                Some((
                    mechanical_view(self.conversation, input, split),
                    CompactionMethod::Mechanical,
                    Some(remark),
                ))
            }
        }
    }

    /// Returns the request for a summary. It includes the full results where they fit.
    fn summary_request(
        &self,
        input: &CompactionInput,
        split: HistorySplit,
        focus: Option<String>,
    ) -> model_summary::SummaryRequest {
        let Summarizer { model, ledger } = self.summarizer.clone();
        let catalog = model.catalog();
        let name = catalog.utility(model_summary::ROLE, &self.frame.model);
        let alias = catalog.utility_alias(model_summary::ROLE, &self.frame.model);
        let window = catalog.limits(&name).context;
        let characters = usize::try_from(window / 2).unwrap_or(usize::MAX).saturating_mul(3);
        let whole = input.view.iter().take(split.tail);
        model_summary::SummaryRequest {
            model: Arc::new(UsageTrackingModel::new(model, self.bus.clone()).with_ledger(ledger)),
            name,
            alias,
            transcript: transcript::transcript(whole, characters),
            limit: input.summary_limit(split),
            focus,
            probe: self.context.compaction.options.probe,
        }
    }
}

/// Returns the view with a summary that the program writes.
fn mechanical_view(
    conversation: &Conversation,
    input: &CompactionInput,
    split: HistorySplit,
) -> Vec<ViewEntry> {
    let calls = call_results::answered_calls(input.view.iter().map(|entry| &entry.content));
    let characters = usize::try_from(input.summary_limit(split)).unwrap_or(usize::MAX);
    let summary = summary::mechanical_summary(
        &input.view,
        split,
        &calls,
        characters.saturating_mul(3).max(600),
    );
    let details = collect_details(conversation, input, split);
    summary::replace(&input.masked_view, split, &details, &summary)
}

/// Collects details about the whole session that are copied verbatim instead of summarized.
fn collect_details(
    conversation: &Conversation,
    input: &CompactionInput,
    split: HistorySplit,
) -> PreservedDetails {
    let calls: Vec<CallResult> =
        call_results::answered_calls(conversation.history().contents().iter());
    let changes =
        |name: &str| matches!(input.kinds.get(name), Some(ToolKind::Edit | ToolKind::Delete));
    let files = call_results::files(&calls, changes);
    let is_paused = PinnedResults {
        pins: conversation.history().pins(),
        characters: usize::try_from(input.window).unwrap_or(usize::MAX),
    };
    let details = PreservedDetails::collect(
        &input.view,
        split,
        conversation.prompts(),
        &calls,
        files,
        &is_paused,
    );
    details.with_plan(conversation.plan())
}

fn unchanged(cause: CompactionCause, tokens: u64, reason: &str) -> Compaction {
    Compaction { cause, how: None, before: tokens, after: tokens, remark: Some(reason.to_owned()) }
}
