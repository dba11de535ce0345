use super::*;

fn diff(text: &str, is_new_file: bool) -> FileDiff {
    FileDiff {
        file_path: "/w/src/lib.rs".into(),
        diff: text.to_owned(),
        lines_added: 0,
        lines_removed: 0,
        is_new_file,
        texts: None,
    }
}

#[test]
fn changed_words_are_marked() {
    let theme = Theme::default();
    let change = diff("@@ -9,3 +9,3 @@\n a\n-let x = 1;\n+let y = 1;\n c\n", false);
    let rows = rows(&change, &DiffOptions::new(&theme, 30));
    let texts: Vec<String> = rows.iter().map(Line::text).collect();
    assert_eq!(texts, [" ⋯", " 9   a", "10 - let x = 1;", "10 + let y = 1;", "11   c"]);
    let marked: Vec<&str> = rows[3]
        .spans
        .iter()
        .filter(|span| span.style == theme.added.patch(theme.added_word))
        .map(|span| span.text.as_ref())
        .collect();
    assert_eq!(marked, ["y"]);
}

#[test]
fn code_of_a_diff_has_syntax_colors_with_and_without_tints() {
    crate::highlight::wait_until_loaded();
    let change = diff("@@ -1,2 +1,2 @@\n fn a() {\n-    let x = 1;\n+    let y = 1;\n", false);
    let plain = Theme::default();
    let tinted = plain.clone().adapt_to_terminal((0, 0, 0), parallax_screen::ColorDepth::Ansi256);
    for theme in [&plain, &tinted] {
        let rows = rows(&change, &DiffOptions::new(theme, 40));
        let style = |row: usize, word: &str| {
            let spans = &rows[row].spans;
            spans.iter().find(|span| span.text.trim() == word).map(|span| span.style)
        };
        assert_eq!(style(0, "fn"), Some(theme.keyword));
        for (row, tint) in [(1, theme.removed), (2, theme.added)] {
            assert_eq!(style(row, "let"), Some(on_row(theme.keyword, tint, theme)));
            // The sign always shows what was added and removed.
            let sign = if row == 1 { "-" } else { "+" };
            assert_eq!(style(row, sign), Some(theme.diff_sign(tint)));
        }
    }
    // Without a grammar, the text shows it, too.
    let unknown = FileDiff { file_path: "/w/notes.xyz".into(), ..change };
    let rows = rows(&unknown, &DiffOptions::new(&plain, 40));
    assert!(
        rows[2].spans.iter().any(|span| span.text.contains("let") && span.style == plain.added)
    );
}

#[test]
fn long_diff_is_truncated_and_counted() {
    let lines: String = (0..50).map(|number| format!("+line {number}\n")).collect();
    let change = diff(&format!("@@ -0,0 +1,50 @@\n{lines}"), true);
    let theme = Theme::default();
    let options = DiffOptions { max_rows: 4, ..DiffOptions::new(&theme, 30) };
    let texts: Vec<String> = rows(&change, &options).iter().map(Line::text).collect();
    assert_eq!(texts, [" 1 + line 0", " 2 + line 1", " 3 + line 2", "… 47 more lines"]);
}

#[test]
fn line_of_new_file_has_plus_before_its_own_sign() {
    let change = diff("@@ -0,0 +1,3 @@\n+- bullet\n+-- rule\n+\n", true);
    let theme = Theme::default();
    let shown = rows(&change, &DiffOptions::new(&theme, 30));
    let texts: Vec<String> = shown.iter().map(Line::text).collect();
    assert_eq!(texts, ["1 + - bullet", "2 + -- rule", "3 + "]);
    assert_eq!(shown[0].spans[1].style.fg, theme.added.fg);
    let options = DiffOptions { plain: true, ..DiffOptions::new(&theme, 30) };
    assert_eq!(rows(&change, &options)[0].text(), "1 added: - bullet");
}

#[test]
fn whitespace_alone_is_not_marked() {
    let theme = Theme::default();
    for (old, new) in [("a b", "a  b"), ("a b c", "a  b x"), ("f( x)", "f(x )"), ("a", "a ")] {
        let change = diff(&format!("@@ -1 +1 @@\n-{old}\n+{new}\n"), false);
        for row in rows(&change, &DiffOptions::new(&theme, 30)) {
            for span in &row.spans {
                let is_marked = span.style == theme.added.patch(theme.added_word)
                    || span.style == theme.removed.patch(theme.removed_word);
                assert!(!is_marked || !span.text.trim().is_empty(), "{old:?} {new:?}: {row:?}");
            }
        }
    }
}

#[test]
fn long_lines_wrap_with_a_hanging_indent_after_their_number() {
    let change = diff("@@ -1 +1 @@\n-\tabcdefgh\n+\tabcdefgX\n", false);
    let texts: Vec<String> =
        rows(&change, &DiffOptions::new(&Theme::default(), 12)).iter().map(Line::text).collect();
    assert_eq!(texts, ["1 -     abcd", "    efgh", "1 +     abcd", "    efgX"]);
}

#[test]
fn whitespace_only_change_has_a_note() {
    let change = diff("@@ -1 +1 @@\n-a\n+ a\n", false);
    assert_eq!(
        rows(&change, &DiffOptions::new(&Theme::default(), 40))[0].text(),
        "only whitespace changed"
    );
}

proptest::proptest! {
    #[test]
    fn diff_rows_fit_the_width(text in "(?s)(@@ -[0-9]{1,3},3 \\+1,9 @@\n)?([-+ ][\ta-z世\u{1b}]{0,30}\n){0,8}", width in 12usize..50) {
        for row in rows(&diff(&text, false), &DiffOptions::new(&Theme::default(), width)) {
            proptest::prop_assert!(row.width() <= width);
        }
    }
}
