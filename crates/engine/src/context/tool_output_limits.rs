//! Post-processes a tool result for the model: adds context files of the directories used, and
//! truncates a long result, whose full text goes to a file. The limit depends on the other
//! results of the batch, which share a part of the history.

use std::sync::Arc;

use parallax_protocol::context::FoundContextFile;
use parallax_protocol::event::ContextUsed;
use parallax_protocol::tool::{Effects, ToolResult};

use super::{ContextManager, RequestFrame, usage};
use crate::history::History;
use crate::inbox::Inbox;
use crate::options::SaveOutput;
use crate::tokens;

/// Tools that use a directory.
const PATH_TOOLS: [&str; 5] =
    ["read_file", "read_many_files", "list_directory", "write_file", "replace"];
/// Tools whose results are instructions or answers: they are never truncated.
const EXEMPT_TOOLS: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];
/// Tools that limit their results themselves: only the context window limits them here.
const SELF_LIMITING_TOOLS: [&str; 4] =
    ["read_file", "read_many_files", "run_shell_command", "read_background_output"];
/// Number of characters that a result may always have.
const MIN_LENGTH: usize = 2_000;
/// The share of a truncated result that its beginning gets, in percent.
const HEAD_PERCENT: usize = 20;

/// The other results of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingResults {
    /// Tokens of those that exist.
    pub(crate) tokens: u64,
    /// How many are missing.
    pub(crate) expected: u64,
}

impl PendingResults {
    /// Returns the tokens that the next result may use of the total: the first results may use half
    /// of it, the rest is shared evenly.
    fn share(self, all: u64) -> u64 {
        let even = all.saturating_sub(self.tokens) / (self.expected + 1);
        even.max((all / 2).saturating_sub(self.tokens))
    }
}

/// How long the next result of a batch may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResultLimits {
    tokens: u64,
}

impl ContextManager {
    /// Returns a function that finds the context files of the directories that a call with these
    /// effects uses; `None` if calls of the tool do not use directories. The function is blocking.
    pub(crate) fn context_search(
        &self,
        tool: &str,
    ) -> Option<impl FnOnce(&Effects) -> Vec<FoundContextFile> + Send + use<>> {
        let context = self.folder_context.clone().filter(|_| PATH_TOOLS.contains(&tool))?;
        Some(move |effects: &Effects| {
            let touched: Vec<_> = effects.reads.iter().chain(&effects.writes).cloned().collect();
            context.find(&touched)
        })
    }

    /// Prepares a result for the model. `name` is the tool's own name, and `found` the context
    /// files for the call.
    pub(crate) async fn prepare_result(
        &self,
        name: &str,
        limits: ResultLimits,
        found: Vec<FoundContextFile>,
        outcome: &mut ToolResult,
        inbox: &mut Inbox,
    ) {
        if let Some(context) = &self.folder_context
            && outcome.error.is_none()
            && !found.is_empty()
        {
            outcome.for_model.output.extend(context.send(found));
        }
        self.limit_result(name, limits, outcome, inbox).await;
    }

    /// Returns how many tokens the next result of a batch may have, besides the other results:
    /// space for the response stays free.
    pub(crate) fn result_limits(
        &self,
        frame: &RequestFrame,
        history: &History,
        pending: PendingResults,
    ) -> ResultLimits {
        let ContextUsed { tokens: used, window } = usage(frame, history);
        let free = window.saturating_sub(used).saturating_sub(pending.tokens) / 4 * 3;
        ResultLimits { tokens: free.min(pending.share(self.batch_token_limit(frame))) }
    }

    async fn limit_result(
        &self,
        name: &str,
        limits: ResultLimits,
        outcome: &mut ToolResult,
        inbox: &mut Inbox,
    ) {
        if EXEMPT_TOOLS.contains(&name) {
            return;
        }
        let options = &self.compaction.options;
        let setting =
            options.max_result_characters.filter(|_| !SELF_LIMITING_TOOLS.contains(&name));
        let texts = [
            Some(&mut outcome.for_model.output),
            outcome.error.as_mut().map(|error| &mut error.message),
        ];
        for text in texts.into_iter().flatten() {
            let max_length = max_characters(text, setting, limits.tokens);
            if text.len() <= max_length || text.chars().count() <= max_length {
                continue;
            }
            let (whole, tool) = (std::mem::take(text), name.to_owned());
            let save_output = match outcome.for_model.output_file.clone() {
                // The tool truncated it and saved the full text.
                Some(file) => {
                    Some(Arc::new(move |_: &str, _: &str| Ok(file.clone())) as SaveOutput)
                }
                None => options.save_output.clone(),
            };
            let truncate_task = tokio::task::spawn_blocking(move || {
                truncate_output(&tool, &whole, max_length, save_output.as_ref())
            });
            *text = inbox.while_receiving(truncate_task).await.unwrap_or_default();
        }
    }
}

/// Returns the maximum characters of a string by setting and available tokens.
fn max_characters(text: &str, setting: Option<usize>, left: u64) -> usize {
    let size = tokens::estimate_text(text);
    let fits = if size <= left {
        usize::MAX
    } else {
        let share = u128::from(left) * text.chars().count() as u128 / u128::from(size.max(1));
        usize::try_from(share).unwrap_or(usize::MAX).max(MIN_LENGTH)
    };
    setting.unwrap_or(usize::MAX).min(fits)
}

/// Truncates text at line endings where possible and names the file with the full text.
/// Blocking: writes the file.
pub(crate) fn truncate_output(
    tool: &str,
    whole: &str,
    limit: usize,
    save_output: Option<&SaveOutput>,
) -> String {
    let saved_text = match save_output.map(|keep| keep(tool, whole)) {
        Some(Ok(path)) => format!("The full output is in `{}`.", path.display()),
        Some(Err(_)) => "The full output could not be saved.".to_owned(),
        None => "The full output was not saved.".to_owned(),
    };
    let (head, tail) = head_and_tail(whole, limit);
    let (first, last) = (head.chars().count(), tail.chars().count());
    let omitted = whole.chars().count() - first - last;
    format!(
        "[Too long: the first {first} and the last {last} characters are shown. {saved_text}]\n\
         {head}\n\n... [{omitted} characters omitted] ...\n\n{tail}"
    )
}

/// Returns the beginning and the end of a string, of at most `limit` characters together.
fn head_and_tail(text: &str, limit: usize) -> (&str, &str) {
    let count = text.chars().count();
    if count <= limit {
        return (text, "");
    }
    let first = limit * HEAD_PERCENT / 100;
    let last = limit - first;
    let offset = |characters: usize| {
        text.char_indices().nth(characters).map_or(text.len(), |(offset, _)| offset)
    };
    let (head_end, tail_start) = (offset(first), offset(count - last));
    let head = text.get(..head_end).unwrap_or_default();
    let tail = text.get(tail_start..).unwrap_or_default();
    // A line that takes most of it is split.
    let head = match head.rfind('\n') {
        Some(end) if end >= head.len() / 2 => head.get(..end).unwrap_or(head),
        _ => head,
    };
    let tail = match tail.find('\n') {
        Some(end) if end < tail.len() / 2 => tail.get(end + 1..).unwrap_or(tail),
        _ => tail,
    };
    (head, tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_result_keeps_its_beginning_and_end_and_names_its_file() {
        let keep: SaveOutput = Arc::new(|tool, _| Ok(format!("/kept/{tool}.txt").into()));
        let whole: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
        let text = truncate_output("mcp_x", &whole, 500, Some(&keep));
        assert!(text.starts_with("[Too long: the first "), "{text}");
        assert!(text.contains("`/kept/mcp_x.txt`") && text.contains("]\nline 0\nline 1\n"));
        assert!(text.ends_with("line 998\nline 999\n") && !text.contains("\nne "), "{text}");
        assert!(text.len() < 800);
    }

    proptest! {
        #[test]
        fn results_of_one_step_stay_within_their_share(
            sizes in proptest::collection::vec(0u64..60_000, 1..60),
        ) {
            let (all, mut tokens) = (50_000, 0);
            for (index, size) in sizes.iter().enumerate() {
                let pending = PendingResults { tokens, expected: (sizes.len() - index - 1) as u64 };
                tokens += pending.share(all).min(*size);
            }
            prop_assert!(tokens <= all, "{tokens}");
            let total: u64 = sizes.iter().sum();
            prop_assert!(tokens == total || tokens >= all / 2, "{tokens} of {total}");
        }

        #[test]
        fn truncated_ends_match_the_original_and_fit(text in "(\\PC|\n){0,80}", most in 0usize..60) {
            let (head, tail) = head_and_tail(&text, most);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.chars().count() + tail.chars().count() <= most.max(text.chars().count().min(most)));
            prop_assert!(head.len() + tail.len() <= text.len());
        }
    }
}
