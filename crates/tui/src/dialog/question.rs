//! A question of the engine: may this call run? What would happen, why it is
//! asked, the answers, and the rule that an answer for longer would keep.

use std::cell::{Cell, RefCell};

use parallax_protocol::event::Ask;
use parallax_protocol::op::{AskOutcome, Decide};
use parallax_protocol::policy::{RuleDraft, RuleScope};
use parallax_protocol::tool::Preview;
use parallax_screen::{Key, Line, Style};

use self::choices::{Choice, choices};
use super::answer_form::{AnswerForm, FormAnswer};
use super::field::Field;
use super::{DialogKey, rule_text};
use crate::hunks::Hunks;
use crate::theme::Theme;

mod amount;
mod choices;
mod view;

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

/// What is being typed.
#[derive(Debug)]
enum Typing {
    Rule(Field, Option<String>),
    Feedback(Field),
    Amount(Field, Option<String>),
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
    /// Rows of the body that were shown last, and how far they can be scrolled.
    page: Cell<(usize, usize)>,
    /// For a screen reader: words in place of signs.
    pub(crate) plain: bool,
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
        let choices = choices(&ask);
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
            page: Cell::default(),
            plain: false,
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
            Some(Typing::Rule(field, _) | Typing::Feedback(field) | Typing::Amount(field, _)) => {
                field.insert(text)
            }
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
            DialogKey::PageUp => self.turn(false),
            DialogKey::PageDown => self.turn(true),
            DialogKey::Left if self.keeps_rules() => self.change_rule(false),
            DialogKey::Right if self.keeps_rules() => self.change_rule(true),
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
                Some('e') if self.has_pattern() => {
                    let text = self.draft().map(rule_text::pattern).unwrap_or_default();
                    self.typing = Some(Typing::Rule(Field::with(text), None));
                }
                _ => {}
            },
            _ => {}
        }
        QuestionAnswer::Stay
    }

    /// Whether an answer would keep the rule that is shown.
    fn keeps_rules(&self) -> bool {
        self.choices.iter().any(|choice| matches!(choice, Choice::Keep(_)))
    }

    /// Whether there is something in that rule to be edited.
    fn has_pattern(&self) -> bool {
        self.keeps_rules() && self.draft().is_some_and(|rule| !rule_text::pattern(rule).is_empty())
    }

    /// Turns a page of what would happen; a row of the old one stays in sight.
    fn turn(&mut self, down: bool) {
        let (shown, last) = self.page.get();
        let step = shown.saturating_sub(1).max(1);
        let at = self.scroll.min(last);
        self.scroll = if down { (at + step).min(last) } else { at.saturating_sub(step) };
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
            (Typing::Amount(field, _), DialogKey::Confirm) => self.raise_by(field),
            (mut typing, _) => {
                let (Typing::Rule(field, _) | Typing::Feedback(field) | Typing::Amount(field, _)) =
                    &mut typing;
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
            Some(Choice::Wider) => QuestionAnswer::Decided(Box::new(Decide {
                wider: true,
                ..Decide::new(self.ask.id.clone(), AskOutcome::ProceedOnce)
            })),
            Some(Choice::Outcome(outcome)) => self.decide(outcome),
            Some(Choice::Editor) => QuestionAnswer::Edit,
            Some(Choice::Hunks) => {
                if let Some(Preview::Diff(diff)) = &self.ask.preview {
                    self.hunks = Some(Hunks::of(&diff.diff));
                }
                QuestionAnswer::Stay
            }
            Some(Choice::Amount) => {
                self.typing = Some(Typing::Amount(Field::default(), None));
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
}

/// The style of a hunk's mark.
pub(crate) fn mark(taken: bool, theme: &Theme) -> (Style, &'static str) {
    if taken { (theme.success, "[x]") } else { (theme.secondary, "[ ]") }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::budget::{BudgetKind, BudgetSpent};
    use parallax_protocol::event::Question;
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
            wider: parallax_protocol::permissions::Permissions::default(),
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
    fn only_keys_that_do_something_are_named() {
        let mut server = ask();
        server.question = Question::Mcp;
        server.preview = None;
        server.outcomes = vec![
            AskOutcome::ProceedOnce,
            AskOutcome::ProceedAlwaysTool,
            AskOutcome::ProceedAlwaysServer,
            AskOutcome::Cancel,
        ];
        server.rules = vec![
            RuleDraft { tool_name: "mcp_s_t".to_owned(), ..RuleDraft::default() },
            RuleDraft { tool_name: "*".to_owned(), ..RuleDraft::default() },
        ];
        let text = |dialog: &QuestionDialog| -> String {
            dialog.view(80, 30, 1, &Theme::default()).rows.iter().map(Line::text).collect()
        };
        let mut dialog = QuestionDialog::new(server.clone());
        assert!(!text(&dialog).contains("rule"), "{}", text(&dialog));
        press(&mut dialog, plain('e'));
        assert!(!dialog.is_typing());
        // With a rule that is kept there is one to choose, but no pattern in it.
        server.outcomes.insert(3, AskOutcome::ProceedAlwaysAndSave);
        let mut dialog = QuestionDialog::new(server);
        assert!(text(&dialog).contains("narrower or wider rule"));
        press(&mut dialog, plain('e'));
        assert!(!dialog.is_typing() && !text(&dialog).contains("edit the rule"));
        assert!(text(&QuestionDialog::new(ask())).contains("e edit the rule"));
    }

    #[test]
    fn what_runs_is_told_before_a_text_with_gaps() {
        let mut question = ask();
        question.preview = Some(Preview::Command {
            command: format!("ls{}rm -rf x", "\n".repeat(24)),
            directory: "/p".into(),
        });
        question.verdict.parts = vec!["runs `ls`".to_owned(), "runs `rm -rf x`".to_owned()];
        let dialog = QuestionDialog::new(question);
        let rows: Vec<String> = dialog
            .view(80, 24, 1, &Theme::default())
            .rows
            .iter()
            .map(|row| row.text().trim().to_owned())
            .collect();
        let at = |text: &str| rows.iter().position(|row| row == text);
        assert!(at("· runs `rm -rf x`") < at("$ ls") && at("$ ls").is_some(), "{rows:?}");
        assert_eq!(at("(23 empty lines)").map(|at| at + 1), at("rm -rf x"), "{rows:?}");
    }

    #[test]
    fn the_wider_leave_is_a_choice_of_its_own_behind_what_was_asked_for() {
        let write = |path: &str| parallax_protocol::permissions::Permissions {
            file_system: parallax_protocol::permissions::FilePermissions {
                read: Vec::new(),
                write: vec![path.into()],
            },
            ..Default::default()
        };
        let mut question = ask();
        question.permissions = write("/var/tmp/aa/c.txt");
        question.wider = write("/var/tmp");
        let mut dialog = QuestionDialog::new(question);
        let rows = dialog.view(100, 30, 1, &Theme::default()).rows;
        let rows: Vec<String> = rows.iter().map(Line::text).collect();
        for text in [
            "  needs leave to write /var/tmp/aa/c.txt",
            "❯ 1. Yes, once, with leave to write /var/tmp/aa/c.txt",
            "  2. Yes, once, wider: with leave to write /var/tmp",
        ] {
            assert!(rows.iter().any(|row| row == text), "{text}: {rows:#?}");
        }
        for (key, wider) in [('1', false), ('2', true)] {
            let QuestionAnswer::Decided(decide) = press(&mut dialog, plain(key)) else {
                panic!("not decided");
            };
            assert_eq!((decide.outcome, decide.wider), (AskOutcome::ProceedOnce, wider));
        }
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
    fn a_budget_is_raised_by_what_it_was_or_by_another_amount() {
        let mut question = ask();
        question.question = Question::Budget;
        question.preview = Some(Preview::Budget(BudgetSpent {
            kind: BudgetKind::Tokens,
            scope: parallax_protocol::budget::BudgetScope::Session,
            limit: 1000.0,
            used: 1200.0,
        }));
        question.rules.clear();
        question.outcomes = vec![AskOutcome::ProceedOnce, AskOutcome::Cancel];
        let mut dialog = QuestionDialog::new(question.clone());
        let rows = dialog.view(60, 24, 1, &Theme::default()).rows;
        assert!(rows.iter().any(|row| row.text().contains("1. Yes, with 1000 tokens more")));
        let QuestionAnswer::Decided(decide) = press(&mut dialog, plain('1')) else {
            panic!("not decided");
        };
        assert_eq!((decide.outcome, decide.more), (AskOutcome::ProceedOnce, None));
        let mut dialog = QuestionDialog::new(question);
        press(&mut dialog, plain('2'));
        press(&mut dialog, plain('x'));
        assert!(matches!(press(&mut dialog, Key::plain(KeyCode::Enter)), QuestionAnswer::Stay));
        let rows = dialog.view(60, 24, 1, &Theme::default()).rows;
        assert!(rows.iter().any(|row| row.text().contains("50000, 50k or 2m")), "{rows:?}");
        press(&mut dialog, Key::plain(KeyCode::Backspace));
        dialog.paste("20k");
        let QuestionAnswer::Decided(decide) = press(&mut dialog, Key::plain(KeyCode::Enter)) else {
            panic!("not decided");
        };
        assert_eq!(decide.more, Some(20_000.0));
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
        let rows = |dialog: &QuestionDialog| -> Vec<String> {
            let rows = dialog.view(60, 20, 1, &Theme::default()).rows;
            rows.iter().map(Line::text).filter(|row| row.contains("echo ")).collect()
        };
        // A page is what is shown, but for a row that both have.
        let before = rows(&dialog);
        press(&mut dialog, Key::plain(KeyCode::PageDown));
        let after = rows(&dialog);
        assert_eq!(before.last().map(|row| row.trim()), after.first().map(|row| row.trim()));
        press(&mut dialog, Key::plain(KeyCode::PageUp));
        assert_eq!(rows(&dialog), before);
    }
}
