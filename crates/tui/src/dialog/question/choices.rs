//! The answers to an approval request: which are available, their order, and their text.

use parallax_protocol::event::{ApprovalRequest, Question};
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::SuggestedRule;
use parallax_protocol::tool::Preview;

use super::QuestionDialog;
use crate::dialog::rule_text;
use crate::hunks::Hunks;

/// An answer that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Once,
    /// Allow once with broader permissions.
    AllowBroader,
    /// Allow, and apply the rule to this session.
    AllowForSession,
    /// Allow, and save the rule on disk, in the scope selected with a key.
    Save,
    /// Allow an MCP server's tool, or all its tools, for the session.
    Response(ApprovalResponse),
    Hunks,
    Editor,
    /// An amount other than the suggested one.
    Amount,
    DenyWithFeedback,
    No,
}

impl Choice {
    /// Whether the answer applies a rule to later calls.
    pub(super) fn saves_rule(&self) -> bool {
        matches!(
            self,
            Self::AllowForSession
                | Self::Save
                | Self::Response(ApprovalResponse::ProceedAlwaysTool)
        )
    }
}

/// Returns the answers to a request, in order.
pub(super) fn choices(request: &ApprovalRequest) -> Vec<Choice> {
    let has = |outcome| request.outcomes.contains(&outcome);
    let mut choices = vec![Choice::Once];
    if request.question == Question::Fallback {
        let outcomes = [ApprovalResponse::ProceedAlways, ApprovalResponse::Retry];
        choices.extend(outcomes.into_iter().filter(|it| has(*it)).map(Choice::Response));
        choices.push(Choice::No);
        return choices;
    }
    if request.question == Question::Loop {
        return vec![Choice::No, Choice::Response(ApprovalResponse::ProceedAlways)];
    }
    if request.question == Question::Budget {
        return vec![Choice::Once, Choice::Amount, Choice::No];
    }
    if request.question == Question::ExitPlanMode && has(ApprovalResponse::ProceedAlways) {
        // Both answers start the work; most users want to review the edits.
        choices.insert(0, Choice::Response(ApprovalResponse::ProceedAlways));
    }
    if !request.broader_permissions.is_empty() {
        choices.push(Choice::AllowBroader);
    }
    if has(ApprovalResponse::ProceedAlways) && request.question == Question::Edit {
        // Without a rule, the engine switches to auto-edit mode.
        choices.push(Choice::Response(ApprovalResponse::ProceedAlways));
    }
    if has(ApprovalResponse::ProceedAlways) && !request.rules.is_empty() {
        choices.push(Choice::AllowForSession);
    } else if !matches!(request.question, Question::Edit | Question::ExitPlanMode)
        && has(ApprovalResponse::ProceedAlways)
    {
        choices.push(Choice::Response(ApprovalResponse::ProceedAlways));
    }
    for outcome in [ApprovalResponse::ProceedAlwaysTool, ApprovalResponse::ProceedAlwaysServer] {
        if has(outcome) {
            choices.push(Choice::Response(outcome));
        }
    }
    if has(ApprovalResponse::ProceedAlwaysAndSave) && !request.rules.is_empty() {
        choices.push(Choice::Save);
    }
    if has(ApprovalResponse::ModifyWithEditor) {
        if matches!(&request.preview, Some(Preview::Diff(diff)) if Hunks::parse(&diff.diff).len() > 1)
        {
            choices.push(Choice::Hunks);
        }
        choices.push(Choice::Editor);
    }
    // A command of the user has no model that could read the feedback.
    choices.extend((!request.call.as_str().is_empty()).then_some(Choice::DenyWithFeedback));
    choices.push(Choice::No);
    choices
}

impl QuestionDialog {
    /// Returns the whole rule that an answer would save, if its label does not say it already.
    pub(super) fn rule_detail(&self, choice: Choice) -> Option<String> {
        let rule = self.selected_rule().filter(|_| choice.saves_rule())?;
        let words = rule_text::describe(rule);
        let words = match self.runs_unnamed_programs(rule) {
            true => format!("{words}; the other commands need no rule"),
            false => words,
        };
        let is_said = choice != Choice::AllowForSession || !self.is_about_shown_file();
        (words != rule_text::short_description(rule) || !is_said).then_some(words)
    }

    /// Whether the shown rule covers exactly the file that the request shows.
    fn is_about_shown_file(&self) -> bool {
        let Some(Preview::Diff(diff)) = &self.request.preview else { return false };
        self.selected_rule().and_then(|rule| rule.path_glob.as_deref()).is_some_and(|glob| {
            !glob.contains(['*', '?', '[', '{']) && diff.file_path.ends_with(glob)
        })
    }

    /// Whether the line runs programs that the rule does not name because they need none.
    fn runs_unnamed_programs(&self, rule: &SuggestedRule) -> bool {
        let program = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
        let named: Vec<String> = rule.command_prefix.iter().map(|prefix| program(prefix)).collect();
        let mut runs =
            self.request.policy_decision.parts.iter().filter_map(|part| part.strip_prefix("runs "));
        let is_more = !named.is_empty() && runs.any(|command| !named.contains(&program(command)));
        is_more && self.edited.is_none()
    }

    /// Returns the label for a row that is too short for the usual one.
    pub(super) fn short_label(&self, choice: Choice) -> Option<&'static str> {
        if matches!(
            self.request.question,
            Question::ExitPlanMode | Question::Fallback | Question::Loop
        ) {
            return None;
        }
        Some(match choice {
            Choice::AllowForSession if self.is_about_shown_file() => "Yes, all edits to this file",
            Choice::Response(_) if self.request.question == Question::Edit => {
                "Yes, in auto-edit mode"
            }
            Choice::Editor => "Edit it first",
            Choice::DenyWithFeedback => "No, and say what to do",
            _ => return None,
        })
    }

    pub(super) fn label(&self, choice: Choice) -> String {
        let rule = || {
            let text = self.selected_rule().map(rule_text::short_description).unwrap_or_default();
            match &self.request.preview {
                // The name that the server uses.
                Some(Preview::Mcp { server, tool, .. }) => {
                    text.replacen(&self.request.name, &format!("{tool} of {server}"), 1)
                }
                _ => text,
            }
        };
        if self.request.question == Question::ExitPlanMode {
            let words = match choice {
                Choice::Response(_) => "Yes, and auto-approve edits",
                Choice::Editor => "Edit the plan first (ctrl+x)",
                Choice::DenyWithFeedback => "No, and say what to change",
                Choice::No => "No, keep planning (esc)",
                _ => "Yes, but ask before edits",
            };
            return words.to_owned();
        }
        if self.request.question == Question::Fallback {
            let words = match choice {
                Choice::Response(ApprovalResponse::Retry) => "Try the same model again",
                Choice::Response(_) => "Yes, for the rest of this session",
                Choice::No => "No, stop (esc)",
                _ => "Yes, for this prompt",
            };
            return words.to_owned();
        }
        if self.request.question == Question::Loop {
            let words = match choice {
                Choice::No => "Yes, stop (esc)",
                _ => "No, continue, and turn off loop detection this session",
            };
            return words.to_owned();
        }
        if let Some(spent) = self.budget() {
            return match choice {
                Choice::Amount => "Yes, with another amount".to_owned(),
                Choice::No => "No, stop (esc)".to_owned(),
                _ => format!("Yes, with {} more", spent.format_amount(spent.limit)),
            };
        }
        match choice {
            Choice::Once if !self.request.broader_permissions.is_empty() => {
                format!("Yes, allow once, with {}", self.request.permissions.describe())
            }
            Choice::Once => "Yes, allow once".to_owned(),
            Choice::AllowBroader => {
                format!(
                    "Yes, allow once with more permissions: {}",
                    self.request.broader_permissions.describe()
                )
            }
            Choice::AllowForSession if self.is_about_shown_file() => {
                "Yes, allow edits to this file this session".to_owned()
            }
            Choice::AllowForSession => format!("Yes, allow for this session: {}", rule()),
            Choice::Save if self.saves_for_all_projects => {
                format!("Yes, always allow in all projects: {}", rule())
            }
            Choice::Save => format!("Yes, always allow in this project: {}", rule()),
            Choice::Response(ApprovalResponse::ProceedAlwaysTool) => {
                format!("Yes, allow for this session: {}", rule())
            }
            Choice::Response(ApprovalResponse::ProceedAlwaysServer) => {
                let widest = self.request.rules.last().map(rule_text::short_description);
                format!("Yes, allow for this session: {}", widest.unwrap_or_default())
            }
            Choice::Response(_) if self.request.question == Question::Edit => {
                "Yes, and switch to auto-edit mode".to_owned()
            }
            Choice::Response(_) => "Yes, allow for this session".to_owned(),
            Choice::Hunks => "Select hunks to apply".to_owned(),
            Choice::Editor => "Edit it in the external editor first".to_owned(),
            Choice::Amount => "Yes, with another amount".to_owned(),
            Choice::DenyWithFeedback => "No, and tell the model what to do instead".to_owned(),
            Choice::No => "No (esc)".to_owned(),
        }
    }
}
