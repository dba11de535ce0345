//! Finds the text to replace: exactly, or else tolerating differences in whitespace and in the
//! shape of quotes and dashes.

use super::hit::{Replacement, RequestedEdit};
use super::source::{SourceText, plain_ends};
use super::tolerant;

/// How a match was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The text matches exactly.
    Exact,
    /// The text matches except for whitespace and the shape of quotes, dashes, and ellipses.
    Tolerant,
}

impl Strategy {
    /// Returns the note for the model about a match that is not exact.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Tolerant => Some(
                "`old_string` differs from the file in whitespace, quotes, or dashes; the file's \
                 own characters were kept. Matched",
            ),
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchResult {
    /// How the matches were found.
    pub strategy: Strategy,
    /// The matches, sorted and without overlaps. Empty if there are none.
    pub hits: Vec<Replacement>,
    /// Whether there are more matches than can be changed at once.
    pub has_more: bool,
}

/// Maximum number of occurrences changed at once.
const MAX_HITS: usize = 100_000;
/// Maximum size in bytes of the new text in one file.
const MAX_NEW: usize = 32 * 1024 * 1024;

/// Finds `old` in the text, with the first strategy that finds a match.
pub fn find(source: &SourceText<'_>, old: &str, new: &str) -> MatchResult {
    let requested_edit = RequestedEdit { old: plain_ends(old), new: plain_ends(new) };
    let room = (MAX_NEW / requested_edit.new.len().max(1)).clamp(1, MAX_HITS);
    let found = |strategy, mut hits: Vec<Replacement>| {
        let has_more = hits.len() > room;
        hits.truncate(room);
        MatchResult { strategy, hits, has_more }
    };
    if requested_edit.old.is_empty() {
        return found(Strategy::Exact, Vec::new());
    }
    let hits = exact(source, &requested_edit, room + 1);
    if !hits.is_empty() {
        return found(Strategy::Exact, hits);
    }
    found(Strategy::Tolerant, tolerant::find(source, &requested_edit, room + 1))
}

fn exact(source: &SourceText<'_>, edit: &RequestedEdit, limit: usize) -> Vec<Replacement> {
    source
        .text()
        .match_indices(&edit.old)
        .take(limit)
        .map(|(at, text)| {
            let range = at..at + text.len();
            // A line ending at the end of the match belongs to the previous line.
            let last = range.end.saturating_sub(1).max(range.start);
            let lines = (source.line_number(range.start), source.line_number(last));
            Replacement { range, new: edit.new.clone(), lines }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_assume, proptest};

    fn edit(text: &str, old: &str, new: &str) -> (Strategy, String) {
        let source = SourceText::new(text);
        let found = find(&source, old, new);
        (found.strategy, applied(&source, text, &found))
    }

    fn applied(source: &SourceText<'_>, raw: &str, found: &MatchResult) -> String {
        let mut out = String::new();
        let mut at = 0;
        for hit in &found.hits {
            let splice = source.splice(&hit.range, &hit.new);
            out.push_str(&raw[at..splice.range.start]);
            out.push_str(&splice.text);
            at = splice.range.end;
        }
        out + &raw[at..]
    }

    /// Returns the result of an edit with a tolerant match.
    fn tolerant(text: &str, old: &str, new: &str) -> String {
        let (strategy, result) = edit(text, old, new);
        assert_eq!(strategy, Strategy::Tolerant);
        result
    }

    #[test]
    fn indentation_of_the_file_is_kept_and_used_for_new_lines() {
        let text = "class A {\n\tone() {\n\t\treturn 1;\n\t}\n\n\ttwo() {}\n}\n";
        assert_eq!(
            tolerant(text, "  one() {\n    return 1;\n  }\n", "  one() {\n    return 2;\n  }\n"),
            "class A {\n\tone() {\n\t\treturn 2;\n\t}\n\n\ttwo() {}\n}\n"
        );
        let make = "build:\n\techo one\n\techo two\n\nclean:\n\trm x\n";
        assert_eq!(
            tolerant(
                make,
                "build:\n    echo one\n    echo two",
                "build:\n    echo one\n    if x; then \\\n        echo y; \\\n    fi\n    echo two"
            ),
            "build:\n\techo one\n\tif x; then \\\n\t\techo y; \\\n\tfi\n\techo two\n\nclean:\n\trm x\n"
        );
        // The model uses two spaces where the file has four, and moves a line to the left.
        let python = "def f():\n    if a:\n        b()\n        c()\n";
        assert_eq!(
            tolerant(
                python,
                "def f():\n  if a:\n    b()\n    c()\n",
                "def f():\n  if a:\n    for x in y:\n      b()\n  c()\n"
            ),
            "def f():\n    if a:\n        for x in y:\n            b()\n    c()\n"
        );
        // Only the first line lost its indentation.
        assert_eq!(
            tolerant(
                "\tif a:\n\t\tb()\n",
                "if a:\n        b()\n",
                "if a:\n        b()\n    else:\n        c()\n"
            ),
            "\tif a:\n\t\tb()\n\telse:\n\t\tc()\n"
        );
        // All lines lost their indentation.
        assert_eq!(
            tolerant(
                "  x {\n    go();\n  }\n",
                "x {\n  go();\n}\n",
                "x {\n  stay();\n  go();\n}\n"
            ),
            "  x {\n    stay();\n    go();\n  }\n"
        );
        // The model uses tabs in a file with spaces.
        assert_eq!(
            tolerant(
                "a {\n  b {\n    c\n  }\n}\n",
                "\tb {\n\t\tc\n\t}",
                "\tb {\n\t\tc\n\t\t\td\n\t}"
            ),
            "a {\n  b {\n    c\n      d\n  }\n}\n"
        );
    }

    #[test]
    fn final_line_ending_is_neither_added_nor_lost() {
        assert_eq!(tolerant("a\n  b  x", " b  x\n", " c\n"), "a\n  c");
        assert_eq!(tolerant("a\n\tb x\n\n\tc\n", "  b x\n", "  d\n"), "a\n\td\n\n\tc\n");
        assert_eq!(tolerant("a\n\tb x\n\n\tc\n", "  b x\n\n", "  d\n\n"), "a\n\td\n\n\tc\n");
    }

    #[test]
    fn whitespace_between_tokens_may_differ_but_not_join_words() {
        assert_eq!(
            tolerant(
                "  if(a==b){go();}\nend\n",
                "if (a == b) { go(); }\n",
                "if (b) {\n  stay();\n}\n"
            ),
            "  if(b){\n    stay();\n  }\nend\n"
        );
        assert_eq!(
            tolerant("call(a,\n     b,\n     c)\n", "call(a, b, c)", "call(a, x, c)"),
            "call(a,\n     x,\n     c)\n"
        );
        for (text, old) in
            [("new line\n", "newline"), ("newline\n", "new line"), ("xab c\n", "ab  c")]
        {
            assert_eq!(edit(text, old, "x").1, text);
        }
    }

    #[test]
    fn typographic_characters_match_and_stay() {
        let text = "The “old” rule — see §\u{a0}4 — still holds…\nChange me, it’s last.\n";
        let old = "The \"old\" rule - see § 4 -- still holds...\nChange me, it's last.";
        assert_eq!(
            tolerant(text, old, &old.replace("Change me", "Changed")),
            text.replace("Change me", "Changed")
        );
        assert_eq!(
            tolerant("She said, “Hello.” Twice.\n", "She said, \"Hello.\"", "She said, \"Hi.\""),
            "She said, “Hi.” Twice.\n"
        );
        assert_eq!(
            tolerant("plain \"x\" ...\n", "plain “x” …", "plain “y” …"),
            "plain \"y\" ...\n"
        );
        assert_eq!(edit("`x`\n", "'x'", "y").1, "`x`\n");
    }

    #[test]
    fn text_of_the_model_is_written_without_characters_of_the_file() {
        for (text, old, new, expected) in [
            ("echo\u{a0}hello\n", "echo hello\n", "printf hello\n", "printf hello\n"),
            ("x =\u{a0}1\nf()\n", "x = 1\nf()\n", "value = g(2)\nf()\n", "value = g(2)\nf()\n"),
            (
                "const s = “x”;\nlet  q;\n",
                "const s = \"x\";\nlet q;\n",
                "const t = [\"x\", \"y\", 'z'];\nlet q;\n",
                "const t = [\"x\", \"y\", 'z'];\nlet  q;\n",
            ),
            (
                "print(“hi”)\nx = 1\n",
                "print(\"hi\")\nx = 1\n",
                "log(\"hello\", \"b\")\nx = 1\n",
                "log(\"hello\", \"b\")\nx = 1\n",
            ),
            ("It’s ok\nb  c\n", "It's ok\nb c\n", "f('a')\nb c\n", "f('a')\nb  c\n"),
            ("tar –xzf a.tgz\n", "tar -xzf a.tgz\n", "unzip -q a.zip\n", "unzip -q a.zip\n"),
            ("# wait… then\n", "# wait... then\n", "f(*args, ...)\n", "f(*args, ...)\n"),
            ("int   a = 1;\n", "int a = 1;\n", "return foo(a, b);\n", "return foo(a, b);\n"),
            ("a  b   c\nd  e\n", "a b c\nd e\n", "z q r s\nd e\n", "z q r s\nd  e\n"),
            ("one  \ntwo  x\n", "one\ntwo x\n", "three\ntwo x\n", "three\ntwo  x\n"),
        ] {
            assert_eq!(tolerant(text, old, new), expected);
        }
    }

    #[test]
    fn new_lines_that_resemble_kept_lines_are_written_as_the_model_wrote_them() {
        for (text, old, added) in [
            (
                "# deploy with rsync –a src/ host:\nall:  x\n",
                "# deploy with rsync -a src/ host:\nall: x\n",
                "\ndeploy:\n\trsync -a src/ host:\n",
            ),
            (
                "# def\u{a0}run(self): is called\nx  = 1\n",
                "# def run(self): is called\nx = 1\n",
                "\ndef run(self):\n    pass\n",
            ),
            ("Call `f(“a”)` – now…\n", "Call `f(\"a\")` - now...\n", "f(\"a\") - now...\n"),
            ("rm –f   x\n", "rm -f x\n", "rm -f x y\n"),
        ] {
            assert_eq!(tolerant(text, old, &format!("{old}{added}")), format!("{text}{added}"));
            assert_eq!(tolerant(text, old, &format!("{added}{old}")), format!("{added}{text}"));
        }
        // The model changes one line and adds another one like it.
        assert_eq!(
            tolerant(
                "a = f(“x”,  b)\n",
                "a = f(\"x\", b)\n",
                "c = f(\"x\", d)\na = f(\"x\", b, e)\n"
            ),
            "c = f(\"x\", d)\na = f(“x”,  b, e)\n"
        );
    }

    #[test]
    fn quotes_and_dashes_next_to_kept_text_stay() {
        for (text, old, new, expected) in [
            (
                "He said “yes” and “no”.\n",
                "He said \"yes\" and \"no\".\n",
                "He said \"yes\" and \"maybe\".\n",
                "He said “yes” and “maybe”.\n",
            ),
            ("“a” – b  c\n", "\"a\" - b c\n", "\"a\" - b d\n", "“a” – b  d\n"),
            (
                "It’s  ok, isn’t it\n",
                "It's ok, isn't it\n",
                "It's ok, wasn't it\n",
                "It’s  ok, wasn't it\n",
            ),
            ("f( a,   b )\n", "f(a, b)\n", "f(c, b)\n", "f( c,   b )\n"),
        ] {
            assert_eq!(tolerant(text, old, new), expected);
        }
    }

    #[test]
    fn text_next_to_appended_text_keeps_the_characters_of_the_file() {
        for (text, old) in [
            ("Say  “hi”", "Say \"hi\""),
            ("It is “ok”", "It is \"ok\""),
            ("<p>It’s “ok”…", "<p>It's \"ok\"..."),
            ("a  list –", "a list -"),
        ] {
            for end in ["\nand bye", "\n", " now", ", twice", "\n- one\n"] {
                let file = format!("{text}\nend\n");
                let expected = format!("{text}{end}\nend\n");
                assert_eq!(tolerant(&file, old, &format!("{old}{end}")), expected);
                let (old, new) = (format!("{old}\n"), format!("{old}{end}\n"));
                assert_eq!(tolerant(&file, &old, &new), expected);
            }
            let new = format!("so {old}");
            assert_eq!(tolerant(&format!("{text}\nend\n"), old, &new), format!("so {text}\nend\n"));
        }
        assert_eq!(tolerant("“a”  b\n", "\"a\" b", "so \"a\" b"), "so “a”  b\n");
    }

    #[test]
    fn moved_and_duplicated_lines_keep_the_characters_of_the_file() {
        let (text, old) = ("It’s ok\nb  c\nd “e”\n", "It's ok\nb c\nd \"e\"\n");
        assert_eq!(tolerant(text, old, "d \"e\"\nb c\nIt's ok\n"), "d “e”\nb  c\nIt’s ok\n");
        assert_eq!(
            tolerant(text, old, "It's ok\nIt's ok\nb c\nd \"e\"\nnew\n  b c\n"),
            "It’s ok\nIt’s ok\nb  c\nd “e”\nnew\n  b  c\n"
        );
    }

    #[test]
    fn inserted_lines_use_the_indentation_unit_of_the_file() {
        let (old, new) = ("list: x\nend\n", "list: x\na:\n    b:\n        c\nend\n");
        for unit in ["\t", "  ", "   ", "    "] {
            let file = format!("top:\n{unit}a:\n{unit}{unit}b\nlist:  x\nend\n");
            let expected = file.replace("x\nend", &format!("x\na:\n{unit}b:\n{unit}{unit}c\nend"));
            assert_eq!(tolerant(&file, old, new), expected, "{unit:?}");
            let narrow = new.replace("    ", "  ");
            assert_eq!(tolerant(&file, old, &narrow), expected, "{unit:?}");
        }
        // The file has no indented line.
        assert_eq!(tolerant("list:  x\nend\n", old, new), new.replace("list: x", "list:  x"));
    }

    #[test]
    fn indentation_with_no_break_spaces_is_not_used_for_new_lines() {
        let text = "if a:\n\u{a0}\u{a0}\u{a0}\u{a0}b()\n";
        let old = "if a:\n    b()\n";
        let new = "if a:\n    b()\n    d()\n    if e:\n        f()\n";
        let added = "    d()\n    if e:\n        f()\n";
        assert_eq!(tolerant(text, old, new), format!("{text}{added}"));
    }

    #[test]
    fn alignment_is_kept_as_spaces_after_the_indentation_of_the_file() {
        let text = "int f(int a,\n      int b)\n{\n\treturn a;\n}\n";
        assert_eq!(
            tolerant(
                text,
                "int f(int a,\n      int b)\n{\n    return a;\n}\n",
                "int f(int a,\n      int b)\n{\n    int c = g(a,\n              b,\n              c);\n    if (c)\n        return c;\n}\n"
            ),
            "int f(int a,\n      int b)\n{\n\tint c = g(a,\n\t          b,\n\t          c);\n\tif (c)\n\t\treturn c;\n}\n"
        );
    }

    #[test]
    fn any_other_difference_prevents_the_match() {
        let text = "server:\n  host: app15\n  retries: 5\n  mode: slow\nhandler_v1(a, b);\n";
        for old in [
            "server:\n  host: app14\n  retries: 3\n  mode: slow",
            "handler_v2(a, b);",
            "handler_v1(a, b)) ;",
            "handler_v1(a b);",
            "  mode: slowly",
            "Handler_v1(a,  b);",
        ] {
            assert_eq!(edit(text, old, "x").1, text, "{old}");
        }
    }

    #[test]
    fn every_tolerant_match_counts() {
        let source = SourceText::new("\tgo( 1 );\n\tstay();\n\tgo(1 );\n");
        assert_eq!(find(&source, "go(1)  ;", "x").hits.len(), 2);
    }

    #[test]
    fn mixed_line_endings_are_preserved_where_nothing_changed() {
        let text = "a\r\nb\nc\r\nd\n";
        assert_eq!(edit(text, "b\nc", "b\nx\nc").1, "a\r\nb\nx\r\nc\r\nd\n");
        assert_eq!(edit(text, "b", "B").1, "a\r\nB\nc\r\nd\n");
        assert_eq!(edit(text, "a\nb\nc\nd\n", "a\nb\nC\nd\n").1, "a\r\nb\nC\r\nd\n");
        assert_eq!(edit("a\r\nb\r\n", "a\nb", "a\nx\ny").1, "a\r\nx\r\ny\r\n");
        assert_eq!(edit("a\nb", "b", "b\n").1, "a\nb\n");
        assert_eq!(edit("a\nb\n", "b\n", "b").1, "a\nb");
        assert_eq!(edit("$x $1", "$1", "$&$2").1, "$x $&$2");
    }

    proptest! {
        #[test]
        fn exact_match_equals_plain_replacement(
            text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,3}",
        ) {
            prop_assume!(text.contains(&old));
            let (strategy, result) = edit(&text, &old, &new);
            prop_assert_eq!(strategy, Strategy::Exact);
            prop_assert_eq!(result, text.replace(&old, &new));
        }

        #[test]
        fn bytes_outside_the_edited_lines_are_kept(
            lines in proptest::collection::vec("[ \ta-d(){}é\u{1F600}]{0,14}(\r?)", 0..14),
            from in 0usize..14, count in 1usize..4, noise in "[ a-dé]{0,2}", new in "[ a-d\r\n]{0,12}", old_end in any::<bool>(),
        ) {
            let text = lines.join("\n");
            let mut old = lines.iter().skip(from).take(count).map(|line| line.trim()).collect::<Vec<_>>().join("\n");
            old.push_str(&noise);
            if old_end { old.push('\n'); }
            let source = SourceText::new(&text);
            let found = find(&source, &old, &new);
            let result = applied(&source, &text, &found);
            if let (Some(first), Some(last)) = (found.hits.first(), found.hits.last()) {
                let raw: Vec<&str> = text.split_inclusive('\n').collect();
                let head = raw[..first.lines.0 - 1].concat();
                let tail = raw[last.lines.1.min(raw.len())..].concat();
                prop_assert!(result.starts_with(&head), "{:?} {:?}", found, result);
                prop_assert!(result.ends_with(&tail), "{:?} {:?}", found, result);
            } else {
                prop_assert_eq!(result, text);
            }
            for pair in found.hits.windows(2) {
                prop_assert!(pair[0].range.end <= pair[1].range.start);
            }
        }

        #[test]
        fn matching_arbitrary_text_does_not_panic(text: String, old: String, new: String) {
            let _ = edit(&text, &old, &new);
            let _ = edit(&format!("{text}{old}\r\n{text}"), &format!(" {old}"), &new);
        }
    }
}
