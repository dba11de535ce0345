//! A question of the engine: may this call run? What would happen, why it is
//! asked, the answers, and the rule that an answer for longer would keep.

use std::cell::RefCell;

use parallax_protocol::event::{Ask, Question};
use parallax_protocol::op::{AskOutcome, Decide};
use parallax_protocol::policy::{RuleDraft, RuleScope};
use parallax_protocol::tool::Preview;
use parallax_screen::{Key, Line, Span, Style, wrap};

use super::answer_form::{AnswerForm, FormAnswer};
use super::field::Field;
use super::{DialogKey, DialogView, rule_text};
use crate::app::cut;
use crate::diff_view::{self, DiffLook};
use crate::hunks::Hunks;
use crate::markdown::{Look, render};
use crate::theme::Theme;

/// What came of a key.
#[derive(Debug)]
pub(crate) enum QuestionAnswer {
    /// Still open.
    Stay,
    /// Answered.
    Decided(Box<Decide>),
    /// The change is to be edited in the person's editor.
    Edit,
    /// Only these hunks of the change are wanted, by number.
    Hunks(Vec<usize>),
}

/// One answer that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Once,
    Keep(RuleScope),
    /// An MCP server's tool, or all its tools, for the session.
    Outcome(AskOutcome),
    Hunks,
    Editor,
    Tell,
    No,
}

/// What is being typed.
#[derive(Debug)]
enum Typing {
    Rule(Field, Option<String>),
    Feedback(Field),
}

/// An open question and how far the answer is.
#[derive(Debug)]
pub(crate) struct QuestionDialog {
    pub(crate) ask: Box<Ask>,
    choices: Vec<Choice>,
    cursor: usize,
    /// Which of the offered rules is shown.
    rule: usize,
    /// The rule as the person changed it.
    edited: Option<RuleDraft>,
    /// Rows of the body that are scrolled away.
    scroll: usize,
    typing: Option<Typing>,
    /// Taking and leaving single hunks.
    hunks: Option<Hunks>,
    /// The rows of a plan for a width: they take a while to make.
    plan: RefCell<(usize, Vec<Line>)>,
    /// The model's own questions, in place of all that.
    form: Option<AnswerForm>,
}

impl QuestionDialog {
    pub(crate) fn new(ask: Box<Ask>) -> Self {
        let has = |outcome| ask.outcomes.contains(&outcome);
        let mut choices = vec![Choice::Once];
        if ask.question == Question::Fallback {
            let outcomes = [AskOutcome::ProceedAlways, AskOutcome::Retry];
            choices.extend(outcomes.into_iter().filter(|it| has(*it)).map(Choice::Outcome));
            choices.push(Choice::No);
            return Self::with(ask, choices);
        }
        if ask.question == Question::ExitPlanMode && has(AskOutcome::ProceedAlways) {
            // The work begins either way; most people want to see the edits go by.
            choices.insert(0, Choice::Outcome(AskOutcome::ProceedAlways));
        }
        if has(AskOutcome::ProceedAlways) && ask.question == Question::Edit {
            // Without a rule the engine goes over to auto-edit.
            choices.push(Choice::Outcome(AskOutcome::ProceedAlways));
        }
        if has(AskOutcome::ProceedAlways) && !ask.rules.is_empty() {
            choices.push(Choice::Keep(RuleScope::Session));
        } else if !matches!(ask.question, Question::Edit | Question::ExitPlanMode)
            && has(AskOutcome::ProceedAlways)
        {
            choices.push(Choice::Outcome(AskOutcome::ProceedAlways));
        }
        for outcome in [AskOutcome::ProceedAlwaysTool, AskOutcome::ProceedAlwaysServer] {
            if has(outcome) {
                choices.push(Choice::Outcome(outcome));
            }
        }
        if has(AskOutcome::ProceedAlwaysAndSave) && !ask.rules.is_empty() {
            choices.push(Choice::Keep(RuleScope::Project));
            choices.push(Choice::Keep(RuleScope::Always));
        }
        if has(AskOutcome::ModifyWithEditor) {
            if matches!(&ask.preview, Some(Preview::Diff(diff)) if Hunks::of(&diff.diff).len() > 1)
            {
                choices.push(Choice::Hunks);
            }
            choices.push(Choice::Editor);
        }
        choices.push(Choice::Tell);
        choices.push(Choice::No);
        Self::with(ask, choices)
    }

    fn with(ask: Box<Ask>, choices: Vec<Choice>) -> Self {
        let form = match &ask.preview {
            Some(Preview::Questions { questions }) => Some(AnswerForm::new(questions)),
            _ => None,
        };
        Self {
            ask,
            choices,
            cursor: 0,
            rule: 0,
            edited: None,
            scroll: 0,
            typing: None,
            hunks: None,
            plan: RefCell::default(),
            form,
        }
    }

    fn draft(&self) -> Option<&RuleDraft> {
        self.edited.as_ref().or_else(|| self.ask.rules.get(self.rule))
    }

    /// Whether letters are text now.
    pub(crate) fn is_typing(&self) -> bool {
        self.typing.is_some() || self.form.as_ref().is_some_and(AnswerForm::is_typing)
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(form) = &mut self.form {
            form.paste(text);
        }
        match &mut self.typing {
            Some(Typing::Rule(field, _) | Typing::Feedback(field)) => field.insert(text),
            None => {}
        }
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> QuestionAnswer {
        if let Some(form) = &mut self.form {
            return match form.key(key, raw) {
                FormAnswer::Stay => QuestionAnswer::Stay,
                FormAnswer::Dismissed => self.decide(AskOutcome::Cancel),
                FormAnswer::Done(answers) => QuestionAnswer::Decided(Box::new(Decide {
                    answers: Some(answers),
                    ..Decide::new(self.ask.id.clone(), AskOutcome::ProceedOnce)
                })),
            };
        }
        if let Some(typing) = self.typing.take() {
            return self.type_key(typing, key, raw);
        }
        if let Some(mut hunks) = self.hunks.take() {
            match key {
                DialogKey::Cancel => return QuestionAnswer::Stay,
                DialogKey::Confirm => return QuestionAnswer::Hunks(hunks.taken()),
                DialogKey::Up => hunks.step(-1),
                DialogKey::Down => hunks.step(1),
                DialogKey::Other(key) if key.typed() == Some(' ') => hunks.toggle(),
                _ => {}
            }
            self.hunks = Some(hunks);
            return QuestionAnswer::Stay;
        }
        match key {
            DialogKey::Cancel => return self.decide(AskOutcome::Cancel),
            DialogKey::Up => {
                self.cursor = self.cursor.checked_sub(1).unwrap_or(self.choices.len() - 1);
            }
            DialogKey::Down => self.cursor = (self.cursor + 1) % self.choices.len(),
            DialogKey::PageUp => self.scroll = self.scroll.saturating_sub(5),
            DialogKey::PageDown => self.scroll += 5,
            DialogKey::Left => self.change_rule(false),
            DialogKey::Right => self.change_rule(true),
            DialogKey::Confirm => return self.choose(),
            DialogKey::Other(key) => match key.typed() {
                Some(digit @ '1'..='9') => {
                    let index = digit as usize - '1' as usize;
                    if index < self.choices.len() {
                        self.cursor = index;
                        return self.choose();
                    }
                }
                Some('j') => return self.key(DialogKey::Down, raw),
                Some('k') => return self.key(DialogKey::Up, raw),
                None if key == Key::ctrl('x') && self.choices.contains(&Choice::Editor) => {
                    return QuestionAnswer::Edit;
                }
                Some('e') if self.draft().is_some() => {
                    let text = self.draft().map(rule_text::pattern).unwrap_or_default();
                    self.typing = Some(Typing::Rule(Field::with(text), None));
                }
                _ => {}
            },
            _ => {}
        }
        QuestionAnswer::Stay
    }

    fn change_rule(&mut self, wider: bool) {
        self.edited = None;
        let last = self.ask.rules.len().saturating_sub(1);
        self.rule = if wider { (self.rule + 1).min(last) } else { self.rule.saturating_sub(1) };
    }

    fn type_key(&mut self, typing: Typing, key: DialogKey, raw: Key) -> QuestionAnswer {
        match (typing, key) {
            (_, DialogKey::Cancel) => QuestionAnswer::Stay,
            (Typing::Feedback(field), DialogKey::Confirm) => {
                let mut decide = Decide::new(self.ask.id.clone(), AskOutcome::Cancel);
                let words = field.text().trim();
                decide.feedback = (!words.is_empty()).then(|| words.to_owned());
                QuestionAnswer::Decided(Box::new(decide))
            }
            (Typing::Rule(field, _), DialogKey::Confirm) => {
                if let Some(draft) = self.draft() {
                    match rule_text::with_pattern(draft, field.text()) {
                        Ok(rule) => self.edited = Some(rule),
                        Err(why) => self.typing = Some(Typing::Rule(field, Some(why))),
                    }
                }
                QuestionAnswer::Stay
            }
            (mut typing, _) => {
                let (Typing::Rule(field, _) | Typing::Feedback(field)) = &mut typing;
                field.key(raw);
                self.typing = Some(typing);
                QuestionAnswer::Stay
            }
        }
    }

    fn choose(&mut self) -> QuestionAnswer {
        match self.choices.get(self.cursor).copied() {
            None | Some(Choice::No) => self.decide(AskOutcome::Cancel),
            Some(Choice::Once) => self.decide(AskOutcome::ProceedOnce),
            Some(Choice::Outcome(outcome)) => self.decide(outcome),
            Some(Choice::Editor) => QuestionAnswer::Edit,
            Some(Choice::Hunks) => {
                if let Some(Preview::Diff(diff)) = &self.ask.preview {
                    self.hunks = Some(Hunks::of(&diff.diff));
                }
                QuestionAnswer::Stay
            }
            Some(Choice::Tell) => {
                self.typing = Some(Typing::Feedback(Field::default()));
                QuestionAnswer::Stay
            }
            Some(Choice::Keep(scope)) => {
                let outcome = match scope {
                    RuleScope::Session => AskOutcome::ProceedAlways,
                    RuleScope::Project | RuleScope::Always => AskOutcome::ProceedAlwaysAndSave,
                };
                let mut decide = Decide::new(self.ask.id.clone(), outcome);
                decide.rule = self.draft().cloned();
                decide.scope = Some(scope);
                QuestionAnswer::Decided(Box::new(decide))
            }
        }
    }

    fn decide(&self, outcome: AskOutcome) -> QuestionAnswer {
        let ends = outcome == AskOutcome::Cancel;
        let decide = Decide { ends, ..Decide::new(self.ask.id.clone(), outcome) };
        QuestionAnswer::Decided(Box::new(decide))
    }

    /// The rows, `height` at most: the answers are always in sight, what would
    /// happen is scrolled where it does not fit.
    pub(crate) fn view(
        &self,
        width: usize,
        height: usize,
        waiting: usize,
        theme: &Theme,
    ) -> DialogView {
        if let Some(form) = &self.form {
            return form.view(width, height, theme);
        }
        let mut head = self.head(width, waiting, theme);
        let mut body = self.body(width, theme);
        let (mut foot, cursor) = self.foot(width, theme);
        let mut why = self.why(width, theme);
        // In a low window the answers stay in sight, then what would happen, then
        // why it is asked.
        let needs = |rows: &[&Vec<Line>]| rows.iter().map(|rows| rows.len()).sum::<usize>();
        if needs(&[&head, &why, &foot]) + body.len().min(3) > height {
            why.truncate(height.saturating_sub(needs(&[&head, &foot]) + body.len().min(3)));
        }
        if needs(&[&head, &foot]) + 1 > height && self.typing.is_none() && self.hunks.is_none() {
            head.truncate(1);
            let room = height.saturating_sub(head.len() + usize::from(!body.is_empty())).max(1);
            foot = self.answers_within(width, room, theme);
        }
        let room = height.saturating_sub(needs(&[&head, &why, &foot]));
        let mut rows = head;
        if body.len() <= room {
            rows.append(&mut body);
        } else if room > 0 {
            let shown = room.saturating_sub(1).max(1);
            let scroll = self.scroll.min(body.len() - shown);
            let below = body.len() - shown - scroll;
            rows.extend(body.into_iter().skip(scroll).take(shown));
            if room > shown {
                let hint = format!("  ↑ {scroll} more · ↓ {below} more · page up/down");
                rows.push(Line::styled(hint, theme.secondary));
            }
        }
        rows.append(&mut why);
        let at = rows.len();
        rows.extend(foot);
        rows.truncate(height.max(1));
        DialogView { rows, cursor: cursor.map(|(column, row)| (column, row + at)) }
    }

    /// Why it is asked, and by which rule.
    fn why(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let why = format!("why asked: {} [{}]", self.ask.verdict.why, self.ask.verdict.rule);
        wrap(&Line::styled(why, theme.secondary), width, &[Span::raw("  ")])
    }

    /// The answers in one row each, those around the cursor.
    fn answers_within(&self, width: usize, rows: usize, theme: &Theme) -> Vec<Line> {
        let rows = rows.min(self.choices.len()).max(1);
        let last = self.choices.len().saturating_sub(rows);
        let first = self.cursor.saturating_sub(rows / 2).min(last);
        let shown = self.choices.iter().enumerate().skip(first).take(rows);
        shown.map(|(index, choice)| cut(self.answer(index, *choice, theme), width)).collect()
    }

    fn answer(&self, index: usize, choice: Choice, theme: &Theme) -> Line {
        let chosen = index == self.cursor;
        let sign = if chosen { "❯ " } else { "  " };
        let style = if chosen { theme.selected } else { theme.text };
        Line::styled(sign, theme.accent)
            .and(format!("{}. {}", index + 1, self.label(choice)), style)
    }

    fn head(&self, width: usize, waiting: usize, theme: &Theme) -> Vec<Line> {
        let question = match self.ask.question {
            Question::Edit => "Apply this change?",
            Question::Exec => "Run this command?",
            Question::Mcp => "Call this tool?",
            Question::SandboxExpansion => "The sandbox refused this. Run it again with more leave?",
            Question::Fallback => "Shall another model answer?",
            Question::ExitPlanMode => "Shall the work on this plan begin?",
            Question::AskUser => "Your answer?",
            Question::Info => "Allow this?",
        };
        let mut title = Line::styled("? ", theme.warning.bold()).and(question, theme.text.bold());
        if waiting > 1 {
            title = title.and(format!("  1 of {waiting}"), theme.secondary);
        }
        let mut rows = vec![title];
        if let Some(Preview::Plan { path, .. }) = &self.ask.preview {
            let place = Line::styled(path.display().to_string(), theme.secondary);
            rows.extend(wrap(&place, width, &[Span::raw("  ")]));
            return rows;
        }
        if self.ask.question == Question::Fallback {
            let what = Line::styled(self.ask.title.clone(), theme.text);
            rows.extend(wrap(&what, width, &[Span::raw("  ")]));
            return rows;
        }
        if let Some(agent) = &self.ask.agent {
            rows.push(Line::styled(format!("  for the sub-agent {agent}"), theme.secondary));
        }
        let what = Line::styled(format!("{} ", self.ask.name), theme.text.bold())
            .and(self.ask.title.clone(), theme.text);
        if !matches!(self.ask.preview, Some(Preview::Command { .. })) {
            rows.extend(wrap(&what, width, &[Span::raw("  ")]));
        }
        rows
    }

    fn body(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let mut rows = Vec::new();
        let hang = [Span::raw("    ")];
        match &self.ask.preview {
            Some(Preview::Command { command, directory }) => {
                for (index, line) in command.split('\n').enumerate() {
                    let sign = if index == 0 { "  $ " } else { "    " };
                    let line = Line::styled(sign, theme.accent).and(tabs(line), theme.text.bold());
                    rows.extend(wrap(&line, width, &hang));
                }
                let place = format!("  in {}", directory.display());
                rows.extend(wrap(&Line::styled(place, theme.secondary), width, &hang));
                self.parts(&mut rows, width, theme);
            }
            Some(Preview::Diff(diff)) => {
                rows.extend(diff_view::rows(diff, &DiffLook::new(theme, width)));
            }
            Some(Preview::Urls { prompt, urls }) => {
                for url in urls {
                    let line = Line::styled("  ", theme.text).and(url.clone(), theme.link);
                    rows.extend(wrap(&line, width, &hang));
                    if !url.is_ascii() || url.contains("xn--") {
                        let warning = "    the address has letters that may look like others";
                        rows.push(Line::styled(warning, theme.warning));
                    }
                }
                let line = Line::styled(format!("  {}", tabs(prompt)), theme.secondary);
                rows.extend(wrap(&line, width, &hang));
            }
            Some(Preview::Mcp { server, tool, description, arguments }) => {
                let of = format!("  {} of {}", tabs(tool), tabs(server));
                rows.extend(wrap(&Line::styled(of, theme.text.bold()), width, &hang));
                for line in description.lines() {
                    let line = Line::styled(format!("  {}", tabs(line)), theme.secondary);
                    rows.extend(wrap(&line, width, &hang));
                }
                for (name, value) in arguments {
                    let line = Line::styled(format!("  {}: ", tabs(name)), theme.accent)
                        .and(tabs(&value.to_string()), theme.text);
                    rows.extend(wrap(&line, width, &hang));
                }
            }
            Some(Preview::Plan { text, .. }) => rows = self.plan_rows(text, width, theme),
            // These have a dialog of their own.
            Some(Preview::Questions { .. }) | None => {}
        }
        if let Some(hunks) = &self.hunks {
            rows = hunks.rows(width, theme);
        }
        let leave = self.ask.permissions.words();
        if !leave.is_empty() {
            let line =
                Line::styled("  needs ", theme.warning).and(leave.join(", "), theme.warning.bold());
            rows.extend(wrap(&line, width, &hang));
        }
        for what in &self.ask.not_undoable {
            let line = Line::styled(format!("  cannot be undone: {what}"), theme.warning);
            rows.extend(wrap(&line, width, &hang));
        }
        rows
    }

    fn plan_rows(&self, text: &str, width: usize, theme: &Theme) -> Vec<Line> {
        let mut made = self.plan.borrow_mut();
        if made.0 != width {
            *made = (width, render(text, &Look::new(theme, width)));
        }
        made.1.clone()
    }

    /// What a line of several parts runs and writes.
    fn parts(&self, rows: &mut Vec<Line>, width: usize, theme: &Theme) {
        for part in &self.ask.verdict.parts {
            let style = if part.starts_with("runs") { theme.secondary } else { theme.warning };
            let line = Line::styled("  · ", theme.border).and(tabs(part), style);
            rows.extend(wrap(&line, width, &[Span::raw("    ")]));
        }
    }

    fn foot(&self, width: usize, theme: &Theme) -> (Vec<Line>, Option<(usize, usize)>) {
        let hang = [Span::raw("  ")];
        let mut rows = Vec::new();
        if self.hunks.is_some() {
            let hint = "space take or leave · ↑↓ hunks · enter apply what is taken · esc back";
            rows.extend(wrap(&Line::styled(hint, theme.secondary), width, &hang));
            return (rows, None);
        }
        if let Some(typing) = &self.typing {
            let (label, field, problem) = match typing {
                Typing::Rule(field, problem) => ("rule: ", field, problem.as_deref()),
                Typing::Feedback(field) => ("tell the model: ", field, None),
            };
            if let Some(problem) = problem {
                rows.extend(wrap(&Line::styled(problem.to_owned(), theme.error), width, &hang));
            }
            let (text, column) = field.row(width.saturating_sub(label.len() + 1));
            let at = (label.len() + column, rows.len());
            rows.push(Line::styled(label, theme.accent).and(text, theme.text));
            rows.push(Line::styled("enter accept · esc back", theme.secondary));
            return (rows, Some(at));
        }
        for (index, choice) in self.choices.iter().enumerate() {
            let line = self.answer(index, *choice, theme);
            rows.extend(wrap(&line, width, &[Span::raw("     ")]));
        }
        if self.draft().is_some() {
            let widen =
                if self.ask.rules.len() > 1 { "←→ narrower or wider rule · " } else { "" };
            let hint = format!("{widen}e edit the rule · esc no");
            rows.extend(wrap(&Line::styled(hint, theme.secondary), width, &hang));
        }
        (rows, None)
    }

    fn label(&self, choice: Choice) -> String {
        let rule = || self.draft().map(rule_text::words).unwrap_or_default();
        if self.ask.question == Question::ExitPlanMode {
            let words = match choice {
                Choice::Outcome(_) => "Yes, and edits are applied without a question",
                Choice::Editor => "Edit the plan first (ctrl+x)",
                Choice::Tell => "No, and say what should be different",
                Choice::No => "No, go on planning (esc)",
                _ => "Yes, and edits are asked about",
            };
            return words.to_owned();
        }
        if self.ask.question == Question::Fallback {
            let words = match choice {
                Choice::Outcome(AskOutcome::Retry) => "Try the same model again",
                Choice::Outcome(_) => "Yes, for the rest of this session",
                Choice::No => "No, stop here (esc)",
                _ => "Yes, for this prompt",
            };
            return words.to_owned();
        }
        match choice {
            Choice::Once => "Yes, once".to_owned(),
            Choice::Keep(RuleScope::Session) => format!("Yes, and this session: {}", rule()),
            Choice::Keep(RuleScope::Project) => {
                format!("Yes, and always in this project: {}", rule())
            }
            Choice::Keep(RuleScope::Always) => format!("Yes, and always, everywhere: {}", rule()),
            Choice::Outcome(AskOutcome::ProceedAlwaysTool) => {
                "Yes, and this tool of the server this session".to_owned()
            }
            Choice::Outcome(AskOutcome::ProceedAlwaysServer) => {
                "Yes, and all tools of the server this session".to_owned()
            }
            Choice::Outcome(_) if self.ask.question == Question::Edit => {
                "Yes, and all edits of this session (auto-edit mode)".to_owned()
            }
            Choice::Outcome(_) => "Yes, and its like this session".to_owned(),
            Choice::Hunks => "Choose among the hunks".to_owned(),
            Choice::Editor => "Edit it in the editor first".to_owned(),
            Choice::Tell => "No, and tell the model what to do instead".to_owned(),
            Choice::No => "No (esc)".to_owned(),
        }
    }
}

/// Tabs as spaces; other control characters are the screen's business.
fn tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

/// The style of a hunk's mark.
pub(crate) fn mark(taken: bool, theme: &Theme) -> (Style, &'static str) {
    if taken { (theme.success, "[x]") } else { (theme.secondary, "[ ]") }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::ids::{AskId, CallId};
    use parallax_protocol::policy::{Decision, Verdict};
    use parallax_protocol::tool::ToolKind;
    use parallax_screen::KeyCode;

    use super::*;

    fn plain(char: char) -> Key {
        Key::plain(KeyCode::Char(char))
    }

    fn ask() -> Box<Ask> {
        let rule = |prefix: &str| RuleDraft {
            tool_name: "run_shell_command".to_owned(),
            command_prefix: vec![prefix.to_owned()],
            ..RuleDraft::default()
        };
        Box::new(Ask {
            id: AskId::new("ask-1"),
            call: CallId::new("call-1"),
            agent: None,
            name: "run_shell_command".to_owned(),
            kind: ToolKind::Execute,
            title: "cargo test".to_owned(),
            preview: Some(Preview::Command {
                command: "cargo test --workspace\n\u{1b}[2Jecho".to_owned(),
                directory: "/p".into(),
            }),
            verdict: Verdict::new(Decision::Ask, "built-in: shell", "commands are asked about"),
            outcomes: vec![
                AskOutcome::ProceedOnce,
                AskOutcome::ProceedAlways,
                AskOutcome::ProceedAlwaysAndSave,
                AskOutcome::Cancel,
            ],
            question: Question::Exec,
            rules: vec![rule("cargo test"), rule("cargo")],
            permissions: parallax_protocol::permissions::Permissions::default(),
            not_undoable: Vec::new(),
        })
    }

    fn press(dialog: &mut QuestionDialog, key: Key) -> QuestionAnswer {
        dialog.key(DialogKey::of(key), key)
    }

    #[test]
    fn the_rule_that_is_shown_is_the_rule_that_is_kept() {
        let mut dialog = QuestionDialog::new(ask());
        press(&mut dialog, Key::plain(KeyCode::Right));
        let shown: String =
            dialog.view(80, 30, 1, &Theme::default()).rows.iter().map(Line::text).collect();
        assert!(shown.contains("`cargo …`") && !shown.contains("`cargo test …`"), "{shown}");
        press(&mut dialog, plain('e'));
        for char in " build".chars() {
            press(&mut dialog, plain(char));
        }
        press(&mut dialog, Key::plain(KeyCode::Enter));
        let QuestionAnswer::Decided(decide) = press(&mut dialog, plain('3')) else {
            panic!("not decided");
        };
        assert_eq!(decide.outcome, AskOutcome::ProceedAlwaysAndSave);
        assert_eq!(decide.scope, Some(RuleScope::Project));
        assert_eq!(decide.rule.expect("a rule").command_prefix, ["cargo build"]);
    }

    #[test]
    fn words_for_the_model_go_with_a_refusal() {
        let mut dialog = QuestionDialog::new(ask());
        press(&mut dialog, plain('5'));
        for char in "use nextest".chars() {
            press(&mut dialog, plain(char));
        }
        let QuestionAnswer::Decided(decide) = press(&mut dialog, Key::plain(KeyCode::Enter)) else {
            panic!("not decided");
        };
        assert_eq!(decide.outcome, AskOutcome::Cancel);
        assert_eq!(decide.feedback.as_deref(), Some("use nextest"));
    }

    #[test]
    fn a_plan_is_read_scrolled_and_answered() {
        let mut plan = ask();
        plan.question = Question::ExitPlanMode;
        plan.preview = Some(Preview::Plan {
            path: "/p/plans/x.md".into(),
            text: (0..99).map(|step| format!("- **step** {step}\n")).collect(),
        });
        plan.rules.clear();
        plan.outcomes = vec![
            AskOutcome::ProceedOnce,
            AskOutcome::ProceedAlways,
            AskOutcome::ModifyWithEditor,
            AskOutcome::Cancel,
        ];
        let mut dialog = QuestionDialog::new(plan.clone());
        let text = |dialog: &QuestionDialog| -> Vec<String> {
            dialog.view(60, 24, 1, &Theme::default()).rows.iter().map(Line::text).collect()
        };
        let rows = text(&dialog);
        assert!(rows.iter().any(|row| row.contains("step 0") && !row.contains("**")), "{rows:?}");
        assert!(rows.iter().any(|row| row.contains("1. Yes, and edits are applied")), "{rows:?}");
        press(&mut dialog, Key::plain(KeyCode::PageDown));
        assert!(!text(&dialog).iter().any(|row| row.ends_with("step 0")));
        assert!(matches!(press(&mut dialog, Key::ctrl('x')), QuestionAnswer::Edit));
        for (key, outcome) in [('1', AskOutcome::ProceedAlways), ('2', AskOutcome::ProceedOnce)] {
            let mut dialog = QuestionDialog::new(plan.clone());
            let QuestionAnswer::Decided(decide) = press(&mut dialog, plain(key)) else {
                panic!("not decided");
            };
            assert_eq!(decide.outcome, outcome);
        }
    }

    #[test]
    fn another_model_is_taken_once_for_good_or_not() {
        let mut question = ask();
        question.question = Question::Fallback;
        question.preview = None;
        question.rules.clear();
        question.outcomes = vec![
            AskOutcome::ProceedOnce,
            AskOutcome::ProceedAlways,
            AskOutcome::Retry,
            AskOutcome::Cancel,
        ];
        for (key, outcome) in ['1', '2', '3', '4'].into_iter().zip(question.outcomes.clone()) {
            let mut dialog = QuestionDialog::new(question.clone());
            let QuestionAnswer::Decided(decide) = press(&mut dialog, plain(key)) else {
                panic!("not decided");
            };
            assert_eq!(decide.outcome, outcome);
        }
    }

    #[test]
    fn answers_stay_in_sight_of_a_long_command() {
        let mut long = ask();
        long.preview = Some(Preview::Command {
            command: (0..200).map(|line| format!("echo {line}\n")).collect(),
            directory: "/p".into(),
        });
        let mut dialog = QuestionDialog::new(long);
        for height in [2, 4, 6, 9, 12, 20, 40] {
            let view = dialog.view(30, height, 1, &Theme::default());
            assert!(view.rows.len() <= height);
            let rows: Vec<String> = view.rows.iter().map(Line::text).collect();
            assert!(rows.iter().any(|row| row.contains("❯ 1. Yes, once")), "{height}: {rows:?}");
        }
        press(&mut dialog, Key::plain(KeyCode::Up));
        let rows = dialog.view(30, 4, 1, &Theme::default()).rows;
        assert!(rows.iter().any(|row| row.text().contains("❯ 6. No")));
        press(&mut dialog, Key::plain(KeyCode::PageDown));
        let rows = dialog.view(60, 20, 1, &Theme::default()).rows;
        assert!(!rows.iter().any(|row| row.text().ends_with("echo 0")));
    }
}
