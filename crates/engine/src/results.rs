//! What comes to a result before the model gets it: context files of the
//! folders that were touched are added, and of what is too long only the ends
//! stay, with all of it in a file. What is too long depends on the results that
//! the same answer has already: together they get a share of the history.

use std::sync::Arc;

use parallax_protocol::event::ContextUsed;
use parallax_protocol::tool::{Effects, Outcome};

use crate::compaction::KeepOutput;
use crate::session::Session;
use crate::tokens;

/// Tools that lead into a folder.
const LEADING: [&str; 5] =
    ["read_file", "read_many_files", "list_directory", "write_file", "replace"];
/// Tools whose results are instructions or answers: they stay whole.
const EXEMPT: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];
/// Tools that bound their results themselves: here only the window does.
const BOUNDED: [&str; 4] =
    ["read_file", "read_many_files", "run_shell_command", "read_background_output"];
/// Characters that a result may have in any case.
const SHORTEST: usize = 2_000;
/// The part of a long result that its beginning gets, in percent.
const HEAD_PERCENT: usize = 20;

/// The results of an answer beside the one that is taken in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// Tokens of those that are there already.
    pub(crate) tokens: u64,
    /// How many are still to come.
    pub(crate) to_come: u64,
}

impl Pending {
    /// The tokens that the next result may have, of so many for all: the first
    /// half goes to whoever comes first, the rest is shared by those to come.
    fn share(self, all: u64) -> u64 {
        let even = all.saturating_sub(self.tokens) / (self.to_come + 1);
        even.max((all / 2).saturating_sub(self.tokens))
    }
}

impl Session {
    /// Makes the result of a call ready for the model. `name` is the tool's own.
    pub(crate) async fn make_ready(
        &mut self,
        name: &str,
        pending: Pending,
        effects: &Effects,
        outcome: &mut Outcome,
    ) {
        self.add_folder_context(name, effects, outcome).await;
        self.bound_result(name, pending, outcome).await;
    }

    async fn add_folder_context(&mut self, name: &str, effects: &Effects, outcome: &mut Outcome) {
        let Some(context) = self.folder_context.clone() else { return };
        if outcome.error.is_some() || !LEADING.contains(&name) {
            return;
        }
        let touched: Vec<_> = effects.reads.iter().chain(&effects.writes).cloned().collect();
        let looking = tokio::task::spawn_blocking(move || context.discover(&touched));
        // A panic there is a defect of ours and no reason to lose the result.
        if let Ok(Some(text)) = self.inbox.during(looking).await {
            outcome.for_model.output.push_str(&text);
        }
    }

    async fn bound_result(&mut self, name: &str, pending: Pending, outcome: &mut Outcome) {
        if EXEMPT.contains(&name) {
            return;
        }
        let left = self.tokens_left(pending.tokens).min(pending.share(self.round_tokens()));
        let setting = self.compacting.room.longest_result.filter(|_| !BOUNDED.contains(&name));
        let texts = [
            Some(&mut outcome.for_model.output),
            outcome.error.as_mut().map(|error| &mut error.message),
        ];
        for text in texts.into_iter().flatten() {
            let most = longest(text, setting, left);
            if text.len() <= most || text.chars().count() <= most {
                continue;
            }
            let (whole, tool) = (std::mem::take(text), name.to_owned());
            let keep_output = match outcome.for_model.whole.clone() {
                // The tool has cut it before, and kept what it cut.
                Some(file) => {
                    Some(Arc::new(move |_: &str, _: &str| Ok(file.clone())) as KeepOutput)
                }
                None => self.compacting.room.keep_output.clone(),
            };
            let cutting =
                tokio::task::spawn_blocking(move || cut(&tool, &whole, most, keep_output.as_ref()));
            *text = self.inbox.during(cutting).await.unwrap_or_default();
        }
    }

    /// Tokens that a result may take beside the results that are there, with some
    /// left for the answer.
    fn tokens_left(&mut self, pending: u64) -> u64 {
        let model = self.main_model();
        let ContextUsed { tokens: used, window } = self.context(&model);
        window.saturating_sub(used).saturating_sub(pending) / 4 * 3
    }
}

/// Characters that a text may have: what the setting says, and what fits.
fn longest(text: &str, setting: Option<usize>, left: u64) -> usize {
    let size = tokens::of_text(text);
    let fits = if size <= left {
        usize::MAX
    } else {
        let share = u128::from(left) * text.chars().count() as u128 / u128::from(size.max(1));
        usize::try_from(share).unwrap_or(usize::MAX).max(SHORTEST)
    };
    setting.unwrap_or(usize::MAX).min(fits)
}

/// The ends of a text, cut between lines where there are lines, with where the
/// whole is. Blocking: the whole is written to a file.
pub(crate) fn cut(
    tool: &str,
    whole: &str,
    most: usize,
    keep_output: Option<&KeepOutput>,
) -> String {
    let place = match keep_output.map(|keep| keep(tool, whole)) {
        Some(Ok(path)) => format!("The full output is in `{}`.", path.display()),
        Some(Err(_)) => "The full output could not be saved.".to_owned(),
        None => "The full output was not saved.".to_owned(),
    };
    let (head, tail) = ends_at_lines(whole, most);
    let (first, last) = (head.chars().count(), tail.chars().count());
    let omitted = whole.chars().count() - first - last;
    format!(
        "[Too long: the first {first} and the last {last} characters are shown. {place}]\n\
         {head}\n\n... [{omitted} characters omitted] ...\n\n{tail}"
    )
}

/// The beginning and the end of a text, of at most so many characters together.
fn ends_at_lines(text: &str, most: usize) -> (&str, &str) {
    let count = text.chars().count();
    if count <= most {
        return (text, "");
    }
    let first = most * HEAD_PERCENT / 100;
    let last = most - first;
    let at =
        |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    let (head_end, tail_start) = (at(first), at(count - last));
    let head = text.get(..head_end).unwrap_or_default();
    let tail = text.get(tail_start..).unwrap_or_default();
    // A line that would take most of it is cut where it must be.
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
    fn a_long_result_keeps_its_ends_and_names_its_file() {
        let keep: KeepOutput = Arc::new(|tool, _| Ok(format!("/kept/{tool}.txt").into()));
        let whole: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
        let text = cut("mcp_x", &whole, 500, Some(&keep));
        assert!(text.starts_with("[Too long: the first "), "{text}");
        assert!(text.contains("`/kept/mcp_x.txt`") && text.contains("]\nline 0\nline 1\n"));
        assert!(text.ends_with("line 998\nline 999\n") && !text.contains("\nne "), "{text}");
        assert!(text.len() < 800);
    }

    proptest! {
        #[test]
        fn results_of_one_answer_stay_within_their_share(
            sizes in proptest::collection::vec(0u64..60_000, 1..60),
        ) {
            let (all, mut tokens) = (50_000, 0);
            for (at, size) in sizes.iter().enumerate() {
                let pending = Pending { tokens, to_come: (sizes.len() - at - 1) as u64 };
                tokens += pending.share(all).min(*size);
            }
            prop_assert!(tokens <= all, "{tokens}");
            let wanted: u64 = sizes.iter().sum();
            prop_assert!(tokens == wanted || tokens >= all / 2, "{tokens} of {wanted}");
        }

        #[test]
        fn the_ends_are_ends_and_short_enough(text in "(\\PC|\n){0,80}", most in 0usize..60) {
            let (head, tail) = ends_at_lines(&text, most);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.chars().count() + tail.chars().count() <= most.max(text.chars().count().min(most)));
            prop_assert!(head.len() + tail.len() <= text.len());
        }
    }
}
