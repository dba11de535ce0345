use parallax_screen::Line;
use proptest::prelude::*;

use super::block::{self, BlockContext, Definitions, RenderContext};
use super::code::CodeBlockCache;
use super::{RenderOptions, StreamedMarkdown, render};
use crate::highlight::wait_until_loaded;
use crate::streamed::{OPEN_LINES, RELEASED_LINES};
use parallax_screen::theme::Theme;

fn rows_as_text(rows: &[Line]) -> Vec<String> {
    rows.iter().map(Line::text).collect()
}

fn rendered(text: &str, width: usize) -> Vec<String> {
    rows_as_text(&render(text, &RenderOptions::new(&Theme::default(), width)))
}

/// Renders the text as one piece.
fn parsed_whole(text: &str, options: &RenderOptions<'_>) -> Vec<Line> {
    let mut codes = CodeBlockCache::default();
    let mut context = RenderContext { options, codes: &mut codes };
    block::render(text, &mut context, &mut BlockContext::START.clone(), &mut Definitions::default())
}

fn streamed(pieces: &[&str], options: &RenderOptions<'_>) -> Vec<Line> {
    let mut stream = StreamedMarkdown::new();
    let mut rows = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        stream.push(piece);
        if index % 3 == 1 {
            stream.remaining_rows(options);
        }
        rows.extend(stream.take_finished(options));
    }
    rows.extend(stream.finish(options));
    rows
}

#[test]
fn open_fences_and_lists_are_emitted_early() {
    let theme = Theme::default();
    let options = RenderOptions::new(&theme, 60);
    let mut stream = StreamedMarkdown::new();
    stream.push("Here:\n```rust\nlet a = 1;\nlet b");
    assert_eq!(rows_as_text(&stream.take_finished(&options)), ["Here:", "", "  let a = 1;"]);
    assert_eq!(rows_as_text(&stream.remaining_rows(&options)), ["  let b"]);
    stream.push(" = 2;\n```\n1. one\n1. two\n1. thr");
    assert_eq!(rows_as_text(&stream.take_finished(&options)), ["  let b = 2;", "", "1. one"]);
    stream.push("ee\n1. four\n");
    assert_eq!(rows_as_text(&stream.take_finished(&options)), ["2. two", "3. three"]);
    assert_eq!(rows_as_text(&stream.finish(&options)), ["4. four"]);
}

#[test]
fn characters_that_hide_text_are_spelled_out_everywhere() {
    for hidden in ['\u{202e}', '\u{2066}', '\u{e0041}', '\u{3164}', '\u{200b}'] {
        let number = format!("{:04X}", u32::from(hidden));
        let text = format!(
            "a{hidden}b `c{hidden}d` &#x{number};\n\n```sh\nrm{hidden}x\n```\n\n- > ```\n  > \
             y{hidden}z\n  > ```\n\n| e{hidden}f |\n| - |\n"
        );
        let rows = rendered(&text, 60).join("\n");
        assert_eq!(rows.matches(&format!("<U+{number}>")).count(), 6, "{rows}");
    }
}

#[test]
fn link_definitions_apply_to_later_text() {
    let rows = rendered("[a]: http://x.y\n\nSee [a].\n\nAnd [b].\n\nEnd.\n\n[b]: http://b\n", 60);
    let shown = ["See a (http://x.y).", "", "And [b].", "", "End.", "", "[b]: http://b"];
    assert_eq!(rows, [&["[a]: http://x.y", ""][..], &shown].concat());
    let rows = rendered("See [a].\n\n[a]: http://x.y\n\nEnd.", 60);
    assert_eq!(rows, ["See a (http://x.y).", "", "End."]);
}

#[test]
fn log_lines_like_definitions_are_shown() {
    let log = "[INFO]: done\n[WARN]: **slow**\n\n- [E1]: x\n- [E2]: y\n\n> [Q]: z\n\nText [INFO].";
    let shown = "[INFO]: done|[WARN]: slow||• [E1]: x|• [E2]: y||│ [Q]: z||Text [INFO].";
    assert_eq!(rendered(log, 60).join("|"), shown);
    let theme = Theme::default();
    let options = RenderOptions::new(&theme, 60);
    let pieces: Vec<&str> = log.split_inclusive([' ', '\n']).collect();
    assert_eq!(rows_as_text(&streamed(&pieces, &options)).join("|"), shown);
    // Text of an open block is shown too.
    let mut stream = StreamedMarkdown::new();
    stream.push("[INFO]: do");
    assert_eq!(rows_as_text(&stream.remaining_rows(&options)), ["[INFO]: do"]);
}

#[test]
fn control_characters_by_entity_are_not_shown() {
    for text in ["a&#27;[31mb", "`a\u{1b}[31m`", "[x](http://a&#27;b)", "```a&#7;\nb&#27;\n```"] {
        for row in render(text, &RenderOptions::new(&Theme::default(), 40)) {
            assert!(!row.text().contains(char::is_control), "{text:?}: {row:?}");
            for span in &row.spans {
                assert!(!span.link.as_deref().unwrap_or("").contains(char::is_control));
            }
        }
    }
}

#[test]
fn list_items_keep_their_written_numbers() {
    assert_eq!(rendered("1. a\n2. b\n10. c\n", 20), ["1. a", "2. b", "10. c"]);
    assert_eq!(rendered("1. a\n1. b\n1. c\n", 20), ["1. a", "2. b", "3. c"]);
    assert_eq!(rendered("1) a\n2) b\n", 20), ["1) a", "2) b"]);
    assert_eq!(
        rendered("3. a\n2. b\n   5. x\n   7. y\n", 20),
        ["3. a", "2. b", "   5. x", "   7. y"]
    );
}

#[test]
fn characters_between_digits_are_not_emphasis() {
    assert_eq!(
        rendered("2*3*4 and 2**3**4, *so* 5*6 and 7*8.\n", 60),
        ["2*3*4 and 2**3**4, so 5*6 and 7*8."]
    );
    assert_eq!(rendered("a*b*c 2 *x* **3** 4", 60), ["a*b*c 2 x 3 4"]);
    assert_eq!(rendered("| a |\n|---|\n| 2*3*4 |\n", 60)[3], "│ 2*3*4 │");
}

#[test]
fn names_patterns_and_html_keep_all_their_characters() {
    for text in [
        "src/wordcount/__init__.py and *.rs files in a*b*c",
        "a<b>c, Vec<String>, HashMap<K, V> and <div class=\"x\">text</div>",
        "x <br> y and <!-- note -->",
        "vector<std::string> of Name <me@example.org>",
        "https://a.b/*/c and https://a.b/x*y*z",
        "echo $$ and kill $$ for $5 and $10",
    ] {
        assert_eq!(rendered(text, 100), [text]);
        assert_eq!(rendered(&format!("# {text}"), 100), [text]);
        assert_eq!(rendered(&format!("- {text}"), 100), [format!("• {text}")]);
    }
    let table = rendered("| a |\n|---|\n| x<br>y<b>z |\n", 60);
    let excess = rendered("| a | b |\n|---|---|\n| 1 | `x|y` |\n| 2 | 3 | 4 |\n", 60);
    assert_eq!(excess[3..5], ["│ 1 │ x|y   │", "│ 2 │ 3 | 4 │"]);
    assert_eq!(table[3..5], ["│ x    │", "│ y<b>z │"].map(|row| row.replace("x    ", "x     ")));
}

#[test]
fn line_that_ends_in_a_backslash_keeps_it() {
    assert_eq!(rendered("cargo build \\\n  --release\n", 60), ["cargo build \\", "--release"]);
}

/// A sample of all elements.
const SAMPLE: &str = include_str!("sample.markdown");

#[test]
fn everything_renders_at_three_widths() {
    wait_until_loaded();
    let theme = Theme::default();
    for width in [40, 80, 140] {
        let rows = render(SAMPLE, &RenderOptions::new(&theme, width));
        insta::assert_snapshot!(
            format!("everything_{width}"),
            parallax_screen::described::describe_rows(&rows)
        );
    }
    let options =
        RenderOptions { plain: true, line_numbers: true, ..RenderOptions::new(&theme, 60) };
    insta::assert_snapshot!(
        "everything_plain",
        parallax_screen::described::describe_rows(&render(SAMPLE, &options))
    );
    let options = RenderOptions { raw: true, ..RenderOptions::new(&theme, 60) };
    insta::assert_snapshot!(
        "everything_raw",
        parallax_screen::described::describe_rows(&render(SAMPLE, &options))
    );
}

#[test]
fn rows_of_a_paragraph_are_final_before_it_ends() {
    let theme = Theme::default();
    let options = RenderOptions::new(&theme, 40);
    let mut stream = StreamedMarkdown::new();
    let words = "some **bold** words with `code` in them, ".repeat(12);
    let mut rows = Vec::new();
    for word in words.split_inclusive(' ') {
        stream.push(word);
        rows.extend(stream.take_finished(&options));
        assert!(
            stream.remaining_rows(&options).len() < 10,
            "{:?}",
            rows_as_text(&stream.remaining_rows(&options))
        );
    }
    assert!(rows.len() > 8, "{:?}", rows_as_text(&rows));
    stream.push("\n\n");
    rows.extend(stream.take_finished(&options));
    assert!(stream.remaining_rows(&options).is_empty());
    assert_eq!(rows, parsed_whole(&words, &options));
}

#[test]
fn plain_lines_are_final_two_lines_later() {
    let theme = Theme::default();
    let options = RenderOptions::new(&theme, 40);
    let mut stream = StreamedMarkdown::new();
    let mut rows = Vec::new();
    let lines: Vec<String> =
        (0..40).map(|number| format!("Line {number} with a few words\n")).collect();
    for line in &lines {
        stream.push(line);
        rows.extend(stream.take_finished(&options));
        let open = stream.remaining_rows(&options).len();
        assert!(open <= RELEASED_LINES + OPEN_LINES, "{open} open rows");
    }
    rows.extend(stream.finish(&options));
    assert_eq!(rows, parsed_whole(&lines.concat(), &options));
}

#[test]
fn lines_with_open_markup_and_short_headings_wait() {
    let theme = Theme::default();
    let options = RenderOptions::new(&theme, 40);
    let open = "some **bold\nmore\nmore\nmore\nmore\nend** of it\n\n";
    let heading = "A heading\nof two lines\n===\n\n";
    for text in [open, heading] {
        let pieces: Vec<&str> = text.split_inclusive('\n').collect();
        assert_eq!(streamed(&pieces, &options), parsed_whole(text, &options), "{text}");
    }
}

/// Markdown made of lines that are likely to interact.
fn markdown() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => Just(String::new()),
        3 => "[a-z ]{1,20}",
        2 => "[-*+] [a-z*` ]{0,12}",
        2 => "[0-9]{1,2}[.)] [a-z]{0,8}",
        2 => " {1,6}[-*a-z0-9. ]{1,10}",
        1 => "#{1,6} [a-z]{0,6}",
        2 => "(```|~~~)(rust|)",
        1 => "> ?[-a-z` ]{0,9}",
        2 => "\\|? ?[a-z]{1,6} \\| [a-z世界]{1,4} ?\\|?",
        1 => Just("|---|:-:|".to_owned()),
        1 => "(---|===|\\*\\*\\*|- - -)",
        1 => "<(div|!-- x|/div|pre|b)>?",
        1 => "\\[\\^1\\]:? ?[a-z]{0,5}",
        1 => "[\\$*_`\\\\\\[\\]()!~&<>#| a-z]{1,16}",
    ];
    proptest::collection::vec(line, 0..24).prop_map(|lines| lines.join("\n"))
}

/// Returns a word of a paragraph.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => "[a-z]{1,9}",
        3 => "[A-Z][a-z]{1,5}[.,;:!?]",
        1 => "[a-z]{1,4}_[a-z]{1,4}",
        1 => "(\\*|\\*\\*|`|_|~~|\\[|\\$|<|&)[a-z]{1,5}",
        1 => "[a-z]{1,5}(\\*|\\*\\*|`|_|~~|\\]\\(b\\)|\\$|>)",
        1 => "(-|\\+|#|>|1\\.|---|===|\\|)",
        1 => "https://[a-z]{1,30}\\.org/[a-z]{1,20}",
        1 => "[世界中文]{1,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// However the text is split, the rows are the same, including styles.
    #[test]
    fn rendering_does_not_depend_on_chunking(text in markdown(), cuts in proptest::collection::vec(0usize..400, 0..12), width in 10usize..70) {
        wait_until_loaded();
        let theme = Theme::default();
        let options = RenderOptions::new(&theme, width);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts {
            pieces.push(&text[start..cut]);
            start = cut;
        }
        pieces.push(&text[start..]);
        prop_assert_eq!(streamed(&pieces, &options), render(&text, &options));
    }

    /// The same for long paragraphs, of which rows are returned before they end.
    #[test]
    fn long_paragraphs_do_not_depend_on_chunking(words in proptest::collection::vec(word(), 20..160), size in 1usize..40, width in 12usize..70) {
        wait_until_loaded();
        let theme = Theme::default();
        let options = RenderOptions::new(&theme, width);
        let text = words.join(" ");
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(streamed(&pieces, &options), parsed_whole(&text, &options));
    }

    /// Rows returned early equal those of the text rendered as one piece.
    #[test]
    fn early_rows_match_final_rows(text in markdown()) {
        let text = format!("{text}\n");
        wait_until_loaded();
        let theme = Theme::default();
        let options = RenderOptions::new(&theme, 60);
        prop_assert_eq!(rows_as_text(&render(&text, &options)), rows_as_text(&parsed_whole(&text, &options)));
    }

    #[test]
    fn random_markdown_fits_the_width_without_panics(text in "(?s).{0,300}", more in markdown(), width in 8usize..60, raw: bool) {
        let theme = Theme::default();
        for text in [&text, &more] {
            let options = RenderOptions { raw, line_numbers: true, ..RenderOptions::new(&theme, width) };
            for row in render(text, &options) {
                prop_assert!(row.width() <= width, "{} > {}: {:?}", row.width(), width, row.text());
            }
        }
    }
}
