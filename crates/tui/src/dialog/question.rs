//! The approval dialog: whether a tool call may run. Shows what would happen, why approval is
//! required, the answers, and the rule that a permanent answer would save.

use std::cell::{Cell, RefCell};

use parallax_protocol::event::ApprovalRequest;
use parallax_protocol::op::{ApprovalResponse, RequestDecision};
use parallax_protocol::policy::{RuleScope, SuggestedRule};
use parallax_protocol::tool::Preview;
use parallax_screen::{Key, Line};

use self::choices::{Choice, choices};
use super::answer_form::{AnswerForm, FormResult};
use super::field::Field;
use super::{DialogKey, rule_text};
use crate::diff_view::first_change;
use crate::hunks::Hunks;

mod amount;
mod body;
mod choices;
mod danger;
mod excerpt;
mod low;
#[cfg(test)]
mod tests;
mod view;

/// The result of a key.
#[derive(Debug)]
pub(crate) enum QuestionAnswer {
    /// The dialog stays open.
    Stay,
    /// The user answered.
    Decided(Box<RequestDecision>),
    /// Edit the change in the user's editor.
    Edit,
    /// Apply only these hunks of the change.
    Hunks(Vec<usize>),
}

/// The text being typed.
#[derive(Debug)]
enum ActiveInput {
    Rule(Field, Option<String>),
    Feedback(Field),
    Amount(Field, Option<String>),
}

impl ActiveInput {
    fn field(&mut self) -> &mut Field {
        match self {
            Self::Rule(field, _) | Self::Feedback(field) | Self::Amount(field, _) => field,
        }
    }
}

/// The visible rows of the body.
#[derive(Debug, Clone, Copy, Default)]
struct BodyPage {
    first: usize,
    shown_rows: usize,
    /// The maximum of `first`.
    last: usize,
}

/// Cached rows of the body, with the parameters they were rendered for.
#[derive(Debug, Default)]
struct RenderedBody {
    width: usize,
    theme: String,
    is_colored: bool,
    rows: Vec<Line>,
}

/// An open approval request and the state of its answer.
#[derive(Debug)]
pub(crate) struct QuestionDialog {
    pub(crate) request: Box<ApprovalRequest>,
    choices: Vec<Choice>,
    cursor: usize,
    /// The index of the suggested rule shown.
    rule: usize,
    /// The rule as edited by the user.
    edited: Option<SuggestedRule>,
    /// The row of the body that the user scrolled to.
    scroll: Option<usize>,
    /// The part of the body shown last.
    body_page: Cell<BodyPage>,
    /// Whether a saved rule applies in all projects.
    saves_for_all_projects: bool,
    /// Whether the rule that requires approval is shown with its source and priority.
    shows_rule: bool,
    /// Whether to use words instead of symbols, for screen readers.
    pub(crate) plain: bool,
    /// The name of the editor that shows the change too.
    pub(crate) in_editor: Option<String>,
    typing: Option<ActiveInput>,
    /// The selection of hunks, while open.
    hunks: Option<Hunks>,
    /// The cached rows of a plan or diff, which are slow to render.
    rendered_body: RefCell<RenderedBody>,
    /// The form of the model's user questions, shown instead of all that.
    form: Option<AnswerForm>,
}

impl QuestionDialog {
    pub(crate) fn new(request: Box<ApprovalRequest>) -> Self {
        let rule = request.rules.iter().position(|rule| rule.is_default).unwrap_or(0);
        let choices = choices(&request);
        let form = match &request.preview {
            Some(Preview::Questions { questions }) => Some(AnswerForm::new(questions)),
            _ => None,
        };
        Self {
            request,
            choices,
            cursor: 0,
            rule,
            edited: None,
            scroll: None,
            body_page: Cell::default(),
            saves_for_all_projects: false,
            shows_rule: false,
            plain: false,
            in_editor: None,
            typing: None,
            hunks: None,
            rendered_body: RefCell::default(),
            form,
        }
    }

    fn selected_rule(&self) -> Option<&SuggestedRule> {
        self.edited.as_ref().or_else(|| self.request.rules.get(self.rule))
    }

    /// Returns the page of the form, if the request has one.
    pub(crate) fn page(&self) -> usize {
        self.form.as_ref().map_or(0, AnswerForm::page)
    }

    /// Whether letters are typed as text.
    pub(crate) fn is_typing(&self) -> bool {
        self.typing.is_some() || self.form.as_ref().is_some_and(AnswerForm::is_typing)
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(form) = &mut self.form {
            form.paste(text);
        }
        if let Some(typing) = &mut self.typing {
            typing.field().insert(text);
        }
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> QuestionAnswer {
        if let Some(form) = &mut self.form {
            return match form.key(key, raw) {
                FormResult::Stay => QuestionAnswer::Stay,
                FormResult::Dismissed => self.decide(ApprovalResponse::Cancel),
                FormResult::Done(answers) => QuestionAnswer::Decided(Box::new(RequestDecision {
                    answers: Some(answers),
                    ..RequestDecision::new(self.request.id.clone(), ApprovalResponse::ProceedOnce)
                })),
            };
        }
        if let Some(typing) = self.typing.take() {
            return self.type_key(typing, key, raw);
        }
        if let Some(hunks) = self.hunks.take() {
            return self.hunk_key(hunks, key);
        }
        match key {
            DialogKey::Cancel => return self.decide(ApprovalResponse::Cancel),
            DialogKey::Up => {
                self.cursor = self.cursor.checked_sub(1).unwrap_or(self.choices.len() - 1);
            }
            DialogKey::Down => self.cursor = (self.cursor + 1) % self.choices.len(),
            DialogKey::PageUp => self.scroll_page(false),
            DialogKey::PageDown => self.scroll_page(true),
            DialogKey::Left if self.saves_rules() => self.change_rule(false),
            DialogKey::Right if self.saves_rules() => self.change_rule(true),
            DialogKey::Next | DialogKey::Previous if self.choices.contains(&Choice::Save) => {
                self.saves_for_all_projects ^= true;
            }
            DialogKey::Confirm => return self.choose(),
            DialogKey::Other(key) => match key.character() {
                Some(digit @ '1'..='9') => {
                    let index = digit as usize - '1' as usize;
                    if index < self.choices.len() {
                        self.cursor = index;
                        return self.choose();
                    }
                }
                Some('j') => return self.key(DialogKey::Down, raw),
                Some('k') => return self.key(DialogKey::Up, raw),
                Some('?') => {
                    self.shows_rule = !self.shows_rule;
                    // The rule may be above the body.
                    self.scroll = None;
                }
                None if key == Key::ctrl('x') && self.choices.contains(&Choice::Editor) => {
                    return QuestionAnswer::Edit;
                }
                Some('e') if self.can_edit() => {
                    let text = self.selected_rule().map(rule_text::pattern).unwrap_or_default();
                    self.typing = Some(ActiveInput::Rule(Field::with(text), None));
                }
                _ => {}
            },
            _ => {}
        }
        QuestionAnswer::Stay
    }

    /// Whether one of the answers allows the call once.
    pub(crate) fn has_allow_once(&self) -> bool {
        self.form.is_none() && self.choices.contains(&Choice::Once)
    }

    /// Moves the cursor to the answer with this number, if any.
    pub(crate) fn select_number(&mut self, digit: char) {
        let at = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()?.checked_sub(1));
        if let Some(at) = at.filter(|at| *at < self.choices.len()) {
            self.cursor = at;
        }
    }

    /// Moves the cursor to the answer that allows the call once. Returns whether there is one.
    pub(crate) fn select_yes(&mut self) -> bool {
        let index = self.choices.iter().position(|choice| *choice == Choice::Once);
        self.cursor = index.unwrap_or(self.cursor);
        index.is_some()
    }

    /// Scrolls the body by a page. One row stays visible, unless there are only a few.
    fn scroll_page(&mut self, down: bool) {
        let BodyPage { first, shown_rows, last } = self.body_page.get();
        let step = if shown_rows > 4 { shown_rows - 1 } else { shown_rows.max(1) };
        let at = self.scroll.unwrap_or(first).min(last);
        self.scroll = Some(if down { (at + step).min(last) } else { at.saturating_sub(step) });
    }

    /// Returns the row of the body where a file change begins.
    fn first_change(&self, body: &[Line]) -> usize {
        match &self.request.preview {
            Some(Preview::Diff(_)) => first_change(body),
            _ => 0,
        }
    }

    /// Records that `shown_rows` of `rows` rows of the body are visible and returns the first.
    /// Until the user scrolls, the change that begins at row `change` is visible.
    fn update_scroll(&self, rows: usize, shown_rows: usize, change: usize) -> usize {
        let last = rows - shown_rows.min(rows);
        let start = if 2 * change < shown_rows { 0 } else { change };
        let first = self.scroll.unwrap_or(start).min(last);
        self.body_page.set(BodyPage { first, shown_rows, last });
        first
    }

    /// Whether an answer would save the displayed rule.
    fn saves_rules(&self) -> bool {
        self.choices.iter().any(|choice| choice.saves_rule())
    }

    /// Whether the displayed rule can be edited.
    fn can_edit(&self) -> bool {
        self.saves_rules() && self.selected_rule().is_some()
    }

    fn change_rule(&mut self, broader: bool) {
        self.edited = None;
        let last = self.request.rules.len().saturating_sub(1);
        self.rule = if broader { (self.rule + 1).min(last) } else { self.rule.saturating_sub(1) };
    }

    fn hunk_key(&mut self, mut hunks: Hunks, key: DialogKey) -> QuestionAnswer {
        match key {
            DialogKey::Cancel => return QuestionAnswer::Stay,
            DialogKey::Confirm => return QuestionAnswer::Hunks(hunks.selected_indexes()),
            DialogKey::Up => hunks.step(-1),
            DialogKey::Down => hunks.step(1),
            DialogKey::Other(key) if key.character() == Some(' ') => hunks.toggle(),
            _ => {}
        }
        self.hunks = Some(hunks);
        QuestionAnswer::Stay
    }

    fn type_key(&mut self, typing: ActiveInput, key: DialogKey, raw: Key) -> QuestionAnswer {
        match (typing, key) {
            (_, DialogKey::Cancel) => QuestionAnswer::Stay,
            (ActiveInput::Feedback(field), DialogKey::Confirm) => {
                let mut decide =
                    RequestDecision::new(self.request.id.clone(), ApprovalResponse::Cancel);
                let words = field.text().trim();
                decide.feedback = (!words.is_empty()).then(|| words.to_owned());
                QuestionAnswer::Decided(Box::new(decide))
            }
            (ActiveInput::Rule(field, _), DialogKey::Confirm) => {
                if let Some(rule) = self.selected_rule() {
                    match rule_text::with_pattern(rule, field.text()) {
                        Ok(rule) => self.edited = Some(rule),
                        Err(reason) => self.typing = Some(ActiveInput::Rule(field, Some(reason))),
                    }
                }
                QuestionAnswer::Stay
            }
            (ActiveInput::Amount(field, _), DialogKey::Confirm) => self.raise_budget(field),
            (mut typing, _) => {
                typing.field().key(raw);
                self.typing = Some(typing);
                QuestionAnswer::Stay
            }
        }
    }

    fn choose(&mut self) -> QuestionAnswer {
        match self.choices.get(self.cursor).copied() {
            None | Some(Choice::No) => self.decide(ApprovalResponse::Cancel),
            Some(Choice::Once) => self.decide(ApprovalResponse::ProceedOnce),
            Some(Choice::AllowBroader) => QuestionAnswer::Decided(Box::new(RequestDecision {
                broader_permissions: true,
                ..RequestDecision::new(self.request.id.clone(), ApprovalResponse::ProceedOnce)
            })),
            Some(Choice::Response(outcome @ ApprovalResponse::ProceedAlwaysTool)) => {
                QuestionAnswer::Decided(Box::new(RequestDecision {
                    rule: self.selected_rule().cloned(),
                    ..RequestDecision::new(self.request.id.clone(), outcome)
                }))
            }
            Some(Choice::Response(outcome)) => self.decide(outcome),
            Some(Choice::Editor) => QuestionAnswer::Edit,
            Some(Choice::Hunks) => {
                if let Some(Preview::Diff(diff)) = &self.request.preview {
                    self.hunks = Some(Hunks::parse(&diff.diff));
                }
                QuestionAnswer::Stay
            }
            Some(Choice::Amount) => {
                self.typing = Some(ActiveInput::Amount(Field::default(), None));
                QuestionAnswer::Stay
            }
            Some(Choice::DenyWithFeedback) => {
                self.typing = Some(ActiveInput::Feedback(Field::default()));
                QuestionAnswer::Stay
            }
            Some(Choice::AllowForSession) => self.save_rule(RuleScope::Session),
            Some(Choice::Save) if self.saves_for_all_projects => self.save_rule(RuleScope::Always),
            Some(Choice::Save) => self.save_rule(RuleScope::Project),
        }
    }

    /// Allows the call and saves the displayed rule.
    fn save_rule(&self, scope: RuleScope) -> QuestionAnswer {
        let outcome = match scope {
            RuleScope::Session => ApprovalResponse::ProceedAlways,
            RuleScope::Project | RuleScope::Always => ApprovalResponse::ProceedAlwaysAndSave,
        };
        QuestionAnswer::Decided(Box::new(RequestDecision {
            rule: self.selected_rule().cloned(),
            scope: Some(scope),
            ..RequestDecision::new(self.request.id.clone(), outcome)
        }))
    }

    fn decide(&self, outcome: ApprovalResponse) -> QuestionAnswer {
        let ends_turn = outcome == ApprovalResponse::Cancel;
        let decide =
            RequestDecision { ends_turn, ..RequestDecision::new(self.request.id.clone(), outcome) };
        QuestionAnswer::Decided(Box::new(decide))
    }
}
