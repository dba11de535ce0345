//! Tests of what is in view of a long request.

use super::*;

/// Returns the text of the rows, and the text in the color of danger.
fn rows_and_danger(dialog: &QuestionDialog, width: usize, height: usize) -> (Vec<String>, String) {
    let theme = Theme::default();
    let rows = dialog.view(width, height, 1, &theme).rows;
    let spans = rows.iter().flat_map(|row| &row.spans);
    let danger = spans.filter(|span| span.style == theme.error.bold());
    let danger = danger.map(|span| span.text.to_string() + "|").collect();
    (rows.iter().map(|row| row.text().trim_end().to_owned()).collect(), danger)
}

#[test]
fn destructive_part_of_a_long_command_is_in_view() {
    let mut question = ask();
    let mut lines: Vec<String> = (1..=37).map(|line| format!("echo step {line}")).collect();
    lines.extend(["rm -rf /".to_owned(), "echo bye".to_owned(), "true".to_owned()]);
    question.policy_decision.parts = lines.iter().map(|line| format!("runs {line}")).collect();
    question.policy_decision.destructive = vec!["rm -rf /".to_owned()];
    question.policy_decision.reason = "`rm -rf /` deletes more than one file".to_owned();
    question.preview = Some(Preview::Command { command: lines.join("\n"), directory: "/p".into() });
    let mut dialog = QuestionDialog::new(question);
    for (width, height) in [(50, 10), (50, 13), (80, 20), (120, 36)] {
        let (rows, danger) = rows_and_danger(&dialog, width, height);
        assert!(danger.contains("rm -rf /|"), "{width}x{height}: {rows:#?}");
        let at = rows.iter().position(|row| row == "    rm -rf /");
        let at = at.unwrap_or_else(|| panic!("{width}x{height}: {rows:#?}"));
        let row_above = &rows[at - 1];
        assert!(row_above == "    echo step 37" || row_above.starts_with("    … "), "{rows:#?}");
    }
    // Scrolling shows the rows in their order.
    press(&mut dialog, Key::plain(KeyCode::PageDown));
    let (rows, _) = rows_and_danger(&dialog, 80, 20);
    assert!(!rows.iter().any(|row| row.contains("… ")), "{rows:#?}");
}

#[test]
fn suspicious_url_is_highlighted_below_a_warning() {
    let mut question = ask();
    question.question = Question::Info;
    let url = "http://169.254.169.254/latest/meta-data/";
    question.preview = Some(Preview::Urls {
        prompt: "summarize ".repeat(60),
        urls: vec!["https://example.com/".to_owned(), url.to_owned()],
    });
    let dialog = QuestionDialog::new(question);
    for (width, height) in [(50, 12), (80, 20)] {
        let (rows, danger) = rows_and_danger(&dialog, width, height);
        let warning = "Addressofacloud'smetadata,whichcontainscredentials";
        let shown: String = danger.split(['|', ' ']).collect();
        assert!(shown.contains(warning), "{danger} {rows:#?}");
        assert!(danger.contains(url), "{danger} {rows:#?}");
        assert!(!danger.contains("example.com"), "{danger}");
    }
}

#[test]
fn lines_of_an_argument_are_below_its_name() {
    let mut question = ask();
    let mut arguments = parallax_protocol::Object::new();
    arguments.insert("body".to_owned(), "one\ntwo".into());
    arguments.insert("count".to_owned(), 2.into());
    question.preview = Some(Preview::Mcp {
        server: "tracker".to_owned(),
        tool: "create".to_owned(),
        description: "Creates an issue".to_owned(),
        arguments,
    });
    question.question = Question::Mcp;
    let (rows, _) = rows_and_danger(&QuestionDialog::new(question), 80, 30);
    let at = rows.iter().position(|row| row == "  body:").expect("the name of the argument");
    assert_eq!(
        rows[at..at + 5],
        ["  body:", "    one", "    two", "  count: 2", "  Creates an issue"]
    );
}

#[test]
fn rule_is_in_view_at_all_heights() {
    let diff = parallax_protocol::tool::FileDiff {
        file_path: "/p/src/lib.rs".into(),
        diff: format!("@@ -1,31 +1,31 @@\n{}-old\n+new\n", " same\n".repeat(30)),
        lines_added: 1,
        lines_removed: 1,
        is_new_file: false,
        texts: None,
    };
    let previews = [
        ask().preview,
        None,
        Some(Preview::Command { command: "echo a\n".repeat(30), directory: "/p".into() }),
        Some(Preview::Diff(diff)),
    ];
    for (index, preview) in previews.into_iter().enumerate() {
        for destructive in [Vec::new(), vec!["rm -rf /".to_owned()]] {
            let mut question = ask();
            question.preview = preview.clone();
            question.policy_decision.reason = "this reason has many words and parts ".repeat(5);
            question.policy_decision.destructive = destructive.clone();
            question.policy_decision.rule = "the-rule".to_owned();
            let mut dialog = QuestionDialog::new(question);
            let mut cut = 0;
            for (width, height) in [50, 80].into_iter().flat_map(|it| (8..30).map(move |y| (it, y)))
            {
                let (rows, _) = rows_and_danger(&dialog, width, height);
                // The reason is complete, left out, or has a mark.
                let text: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
                let text = text.join(" ");
                if text.contains("this reason") {
                    let is_cut = text.matches("and parts").count() < 5;
                    assert!(!is_cut || text.contains('…'), "{index} {width}x{height}: {rows:#?}");
                    cut += usize::from(is_cut);
                }
                press(&mut dialog, Key::plain(KeyCode::PageDown));
                press(&mut dialog, plain('?'));
                let (rows, _) = rows_and_danger(&dialog, width, height);
                let has_rule = rows.iter().any(|row| row.contains("Rule: the-rule"));
                assert!(has_rule, "{index} {width}x{height}: {rows:#?}");
                press(&mut dialog, plain('?'));
            }
            assert!(cut > 0, "{index}");
        }
    }
}
