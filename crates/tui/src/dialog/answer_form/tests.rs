use parallax_protocol::question::QuestionOption;
use parallax_screen::KeyCode;
use serde_json::json;

use super::*;

#[test]
fn yes_no_question_accepts_other_text() {
    let mut question = choice(false);
    question.kind = QuestionKind::YesNo;
    question.options = Vec::new();
    let form = AnswerForm::new(&[question]);
    let rows = form.view(60, 20, &Theme::default(), false).rows;
    let text: Vec<String> = rows.iter().map(Line::text).collect();
    assert!(text.iter().any(|row| row.contains("3. Other:")), "{text:?}");
}

fn choice(multi_select: bool) -> UserQuestion {
    let option = |label: &str| QuestionOption { label: label.into(), description: "d".into() };
    UserQuestion {
        question: "Which?".into(),
        header: "Way".into(),
        kind: QuestionKind::Choice,
        options: vec![option("left"), option("right")],
        multi_select,
        placeholder: None,
    }
}

fn plain(kind: QuestionKind) -> UserQuestion {
    UserQuestion { kind, options: Vec::new(), ..choice(false) }
}

fn press(form: &mut AnswerForm, key: Key) -> FormResult {
    form.key(DialogKey::from_default_key(key), key)
}

fn type_in(form: &mut AnswerForm, text: &str) {
    for char in text.chars() {
        assert_eq!(press(form, Key::plain(KeyCode::Char(char))), FormResult::Stay);
    }
}

fn done(answers: Value) -> FormResult {
    match answers {
        Value::Object(answers) => FormResult::Done(answers),
        _ => FormResult::Stay,
    }
}

const ENTER: Key = Key::plain(KeyCode::Enter);
const DOWN: Key = Key::plain(KeyCode::Down);

#[test]
fn single_question_is_answered_with_one_key() {
    let mut form = AnswerForm::new(&[choice(false)]);
    assert_eq!(press(&mut form, Key::plain(KeyCode::Char('2'))), done(json!({"0": "right"})));
    let mut form = AnswerForm::new(&[choice(false)]);
    press(&mut form, DOWN);
    assert_eq!(press(&mut form, ENTER), done(json!({"0": "right"})));
    let mut form = AnswerForm::new(&[choice(false)]);
    assert_eq!(press(&mut form, Key::plain(KeyCode::Escape)), FormResult::Dismissed);
}

#[test]
fn free_text_is_accepted_as_an_answer() {
    let mut form = AnswerForm::new(&[choice(false)]);
    press(&mut form, DOWN);
    press(&mut form, DOWN);
    assert!(form.is_typing());
    type_in(&mut form, "back 2 jk");
    assert_eq!(press(&mut form, ENTER), done(json!({"0": "back 2 jk"})));
}

#[test]
fn multi_select_and_paging_work() {
    let mut form = AnswerForm::new(&[
        choice(true),
        plain(QuestionKind::Text),
        plain(QuestionKind::YesNo),
        choice(false),
    ]);
    press(&mut form, Key::plain(KeyCode::Char('1')));
    press(&mut form, Key::plain(KeyCode::Char('2')));
    press(&mut form, DOWN);
    type_in(&mut form, "up");
    press(&mut form, ENTER);
    assert_eq!(press(&mut form, ENTER), FormResult::Stay);
    assert!(form.is_typing());
    type_in(&mut form, "words");
    press(&mut form, ENTER);
    press(&mut form, Key::plain(KeyCode::Char('2')));
    press(&mut form, Key::plain(KeyCode::Tab));
    let view = form.view(40, 20, &Theme::default(), false);
    assert!(view.rows.iter().any(|row| row.text().contains("not answered")));
    assert_eq!(
        press(&mut form, ENTER),
        done(json!({"0": "left, right, up", "1": "words", "2": "No"}))
    );
}

#[test]
fn long_options_wrap_and_screen_readers_get_words() {
    let mut question = choice(true);
    let long = |end: &str| format!("{} {end}", "words of an answer".repeat(6));
    question.options[0].label = long("LABEL");
    question.options[0].description = long("MEANING");
    let mut form = AnswerForm::new(&[question, choice(false)]);
    press(&mut form, Key::plain(KeyCode::Char('2')));
    let text = |plain| -> String {
        let view = form.view(50, 30, &Theme::default(), plain);
        view.rows.iter().map(|row| row.text() + "\n").collect()
    };
    let drawn = text(false);
    assert!(drawn.contains("LABEL") && drawn.contains("MEANING"), "{drawn}");
    assert!(!drawn.contains('…') && drawn.contains("? Which?"), "{drawn}");
    assert!(drawn.lines().all(|row| row.chars().count() <= 50), "{drawn}");
    let spoken = text(true);
    for words in
        ["done: Way  pending: Way", "asks: Which?", "1. not chosen: words", "2. chosen: right"]
    {
        assert!(spoken.contains(words), "{words}: {spoken}");
    }
    assert!(!spoken.contains(['○', '✓', '[']), "{spoken}");
}

#[test]
fn every_form_view_fits_the_window() {
    let mut form = AnswerForm::new(&[choice(true), choice(false)]);
    for _ in 0..4 {
        for (width, height) in [(20, 4), (40, 8), (100, 30)] {
            let view = form.view(width, height, &Theme::default(), false);
            assert!(view.rows.len() <= height, "{width}×{height}");
            assert!(view.cursor.is_none_or(|(_, row)| row < view.rows.len().max(height)));
        }
        press(&mut form, DOWN);
    }
}

#[test]
fn tiny_window_requires_reading_before_choosing() {
    let mut form = AnswerForm::new(&[choice(false)]);
    let render = |form: &AnswerForm| -> String {
        let view = form.view(20, 4, &Theme::default(), false);
        view.rows.iter().map(|row| row.text() + "\n").collect()
    };
    let first = render(&form);
    assert!(first.contains("Which"), "the question comes first: {first}");
    let mut read = first;
    for _ in 0..6 {
        press(&mut form, Key::plain(KeyCode::PageDown));
        read += &render(&form);
    }
    assert!(form.pages[0].options.iter().all(|(label, _)| read.contains(label)), "{read}");
    // The selected option is out of view, so it is shown first.
    assert!(matches!(press(&mut form, ENTER), FormResult::Stay));
    assert!(render(&form).contains("❯ 1."), "{}", render(&form));
    assert!(matches!(press(&mut form, ENTER), FormResult::Done(_)));
}
