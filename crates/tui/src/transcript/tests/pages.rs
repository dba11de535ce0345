//! Tests of loaded sessions, and of pages of the whole transcript.

use super::*;

fn long_session(turns: usize) -> Vec<Content> {
    let args = json!({"file_path": "src/main.rs"});
    let args: Object = args.as_object().cloned().unwrap_or_default();
    (0..turns)
        .flat_map(|turn| {
            let mut output = Object::new();
            output.insert("output".into(), "text".repeat(200).into());
            [
                Content::user(vec![Part::text(format!("prompt {turn}"))]),
                Content::model(vec![Part::function_call(None, "read_file", args.clone())]),
                Content::user(vec![Part::function_response(None, "read_file", output, vec![])]),
                Content::model(vec![Part::text("An *answer*.\n\n```rust\nfn main() {}\n```\n")]),
            ]
        })
        .collect()
}

#[test]
fn loaded_session_emits_only_its_end() {
    let mut view = TestTranscript::default();
    view.transcript.load(&long_session(3), 2);
    assert_eq!(view.transcript.len(), 9);
    assert_eq!(
        view.take(),
        ["✓ ReadFile  src/main.rs", "", "✦ An answer.", "", "    fn main() {}"]
    );
}

#[test]
fn text_added_to_a_prompt_is_not_shown() {
    let texts = [
        "<session_context>\nx</session_context>",
        "read @a.rs",
        "\n--- Content from referenced files ---",
        "\nContent from @a.rs:\n",
        "fn secret() {}",
        "\n--- End of content ---",
    ];
    let mut view = TestTranscript::default();
    view.transcript.load(&[Content::user(texts.map(Part::text).to_vec())], 9);
    assert_eq!(view.take(), ["> read @a.rs"]);
}

#[test]
fn long_prompt_of_a_resumed_session_is_shortened() {
    let lines: Vec<String> = (0..200).map(|line| format!("pasted {line}")).collect();
    let mut view = TestTranscript::default();
    view.transcript.load(&[Content::user(vec![Part::text(lines.join("\n"))])], 9);
    let rows = view.take();
    assert_eq!((rows.len(), rows[0].as_str()), (31, "> pasted 0"), "{rows:?}");
    assert_eq!(rows[30].trim(), "[… 170 more lines]");
}

#[test]
fn transcript_pages_are_parts_of_one_text() {
    let mut view = TestTranscript::default();
    view.transcript.load(&long_session(20), 0);
    let (theme, mut transcript) = (view.theme, view.transcript);
    let whole = transcript.page(Anchor::Top { item: 0, row: 0 }, 40, 10_000, &theme, 0);
    assert!(whole.at_end);
    let bottom = transcript.page(Anchor::Bottom, 40, 7, &theme, 0);
    assert_eq!(bottom.rows, whole.rows[whole.rows.len() - 7..]);
    // Scroll up row by row to the top, and down again.
    let mut anchor = Anchor::Bottom;
    for start in (0..whole.rows.len() - 7).rev() {
        anchor = transcript.scroll(anchor, -1, 40, 7, &theme);
        let page = transcript.page(anchor, 40, 7, &theme, 0);
        assert_eq!(page.rows, whole.rows[start..start + 7], "at {start}");
        assert!(!page.at_end);
    }
    anchor = transcript.scroll(anchor, 10, 40, 7, &theme);
    assert_eq!(transcript.page(anchor, 40, 7, &theme, 0).rows, whole.rows[10..17]);
    assert_eq!(transcript.scroll(anchor, 10_000, 40, 7, &theme), Anchor::Bottom);
}

#[test]
fn page_of_a_streaming_answer_matches_the_final_one() {
    let text = "# Title\n\nText.\n\n- a\n- b\n\n```c\nint x;\nint y;\n```\nEnd";
    crate::highlight::wait_until_loaded();
    let mut view = TestTranscript::default();
    view.start("t", ItemStart::Text);
    for index in 0..text.len() {
        view.delta("t", &text[index..=index]);
        let page = view.transcript.page(Anchor::Bottom, 40, 50, &view.theme, 0);
        let mut whole = TestTranscript::default();
        whole.text("t", &text[..=index], false);
        assert_eq!(page.rows, whole.transcript.take_finished(40, &whole.theme), "{index}");
    }
}
