//! Tests of lists with keys and in windows of all sizes.

use super::*;
use crate::theme::Theme;

fn list(count: usize) -> ListDialog {
    let items =
        (1..=count).map(|number| ListItem::new(number.to_string(), format!("item {number}"), ""));
    ListDialog::new("Items", items.collect())
}

/// Returns the text of a row unless it is empty.
fn text(row: &Line) -> Option<String> {
    let text = row.text().trim_end().to_owned();
    (!text.is_empty()).then_some(text)
}

fn press(list: &mut ListDialog, code: KeyCode) -> DialogResponse {
    let key = Key::plain(code);
    list.key(DialogKey::from_default_key(key), key)
}

#[test]
fn number_selects_when_unambiguous() {
    let mut short = list(5);
    assert_eq!(press(&mut short, KeyCode::Char('3')), DialogResponse::Chosen("3".into()));
    let mut long = list(25);
    assert_eq!(press(&mut long, KeyCode::Char('1')), DialogResponse::Stay);
    assert_eq!(press(&mut long, KeyCode::Char('2')), DialogResponse::Chosen("12".into()));
    assert_eq!(press(&mut long, KeyCode::Char('9')), DialogResponse::Chosen("9".into()));
}

#[test]
fn list_search_filters_and_escape_ends_it_first() {
    let mut list = list(30).with_search();
    for char in "item 2".chars() {
        press(&mut list, KeyCode::Char(char));
    }
    assert_eq!(list.matching.len(), 12);
    assert_eq!(press(&mut list, KeyCode::Enter), DialogResponse::Chosen("2".into()));
    assert_eq!(press(&mut list, KeyCode::Escape), DialogResponse::Stay);
    assert_eq!(press(&mut list, KeyCode::Escape), DialogResponse::Closed);
}

#[test]
fn list_search_finds_keywords_last() {
    let named = |id: &str, label: &str, keywords: &str| ListItem {
        keywords: keywords.to_owned(),
        ..ListItem::new(id, label, "")
    };
    let items = vec![named("a", "Status line", "ui.footer.items"), named("b", "Footer", "")];
    let mut list = ListDialog::new("Settings", items).with_search();
    for char in "footer".chars() {
        press(&mut list, KeyCode::Char(char));
    }
    assert_eq!(list.matching, [1, 0]);
}

#[test]
fn screen_reader_list_names_all_items() {
    let mut list = list(30).with_search().with_tabs(vec!["All", "None"]).hint("esc back");
    list.items[1].detail = "–".to_owned();
    let spoken = |list: &ListDialog| -> Vec<String> {
        list.screen_reader_view(60, &Theme::default()).rows.iter().map(Line::text).collect()
    };
    let rows = spoken(&list);
    assert_eq!(rows[..4], ["Items", "Tab 1 of 2: All", "❯ item 1", "  item 2: not set"]);
    assert_eq!(rows[31..], ["  item 30", "←→ group · esc back", "search: Type to search"]);
    press(&mut list, KeyCode::Char('9'));
    assert_eq!(spoken(&list)[1], "3 matches");
}

#[test]
fn full_description_of_a_truncated_selected_item_is_shown_below_the_list() {
    let items = vec![
        ListItem::new("a", "Paste a key", "checked, and kept where only you can read it"),
        ListItem::new("b", "Try it", "an offline demonstration: scripted words"),
    ];
    let mut list = ListDialog::new("How shall the model be reached?", items);
    let render = |list: &ListDialog, width, height| -> Vec<String> {
        list.view(width, height, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    let rows = render(&list, 40, 6);
    assert_eq!(rows[1], "❯ 1. Paste a key  checked, and kept whe…");
    assert_eq!(rows[3..5], ["  checked, and kept where only you can", "  read it"]);
    // With enough space, each item is shown in full.
    let rows = render(&list, 40, 20);
    assert_eq!(rows[1..3], ["❯ 1. Paste a key", "     checked, and kept where only you"]);
    assert_eq!(rows[4], "  2. Try it");
    assert!(!rows.join("\n").contains('…'), "{rows:?}");
    press(&mut list, KeyCode::Down);
    assert_eq!(render(&list, 40, 6)[3], "  an offline demonstration: scripted");
    assert!(!render(&list, 80, 20).join("\n").contains('…'));
}

#[test]
fn rows_above_a_list_are_paged() {
    let intro = (1..=20).map(|number| Line::raw(format!("it brings {number}"))).collect();
    let mut list = list(3).intro(intro);
    let render = |list: &ListDialog, width, height| -> Vec<String> {
        list.view(width, height, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    let rows = render(&list, 40, 10);
    assert_eq!(rows[0], "Items");
    assert_eq!(rows[4], "  ↓ 17 more · page up/down");
    assert_eq!(rows[5..8], ["❯ 1. item 1", "  2. item 2", "  3. item 3"]);
    assert_eq!(rows.len(), 9);
    press(&mut list, KeyCode::PageDown);
    let rows = render(&list, 40, 10);
    assert_eq!(rows[1..4], ["it brings 4", "it brings 5", "it brings 6"]);
    assert_eq!(rows[5], "❯ 1. item 1", "the choice stays");
    // With little space, each row can still be read before choosing.
    let mut read = Vec::new();
    for _ in 0..24 {
        read.extend(render(&list, 30, 4));
        press(&mut list, KeyCode::PageDown);
    }
    assert!((5..=20).all(|number| read.contains(&format!("it brings {number}"))), "{read:?}");
    assert!(read.iter().filter(|row| row.starts_with("❯ 1.")).count() >= 24, "{read:?}");
}

#[test]
fn answers_of_a_question_stay_in_view_below_long_text() {
    let detail = "/home/user/projects/orchard and everything in it";
    let items = ["Trust it", "Trust the parent folder", "Do not trust it"]
        .map(|label| ListItem::new(label, label, detail));
    let warnings = vec![Line::raw("It would run programs: two hooks and one MCP server.")];
    let intro = (1..=9).map(|number| Line::raw(format!("  entry {number}"))).collect();
    let list = ListDialog::new("Trust?", items.to_vec()).warnings(warnings).intro(intro);
    for height in [8, 10, 13, 15] {
        let rows: Vec<String> =
            list.view(48, height, &Theme::default()).rows.iter().filter_map(text).collect();
        assert!(rows.len() <= height, "{rows:?}");
        assert!(height < 10 || rows.iter().any(|row| row.contains("entry 1")), "{rows:?}");
        assert!(rows.iter().any(|row| row.contains("3. Do not trust it")), "{height}: {rows:#?}");
    }
}

#[test]
fn answers_of_a_question_stay_in_view_if_their_labels_are_cut() {
    let path = "/home/user/projects/orchard";
    let items = vec![
        ListItem::new("folder", "Trust this folder", path),
        ListItem::new("parent", "Trust the parent folder and everything in it", path),
        ListItem::new("no", "Do not trust it", "nothing in it is read as instructions"),
    ];
    let warnings = vec![Line::raw("It would run programs: 1 hook, 1 MCP server.")];
    let intro = (1..=6).map(|number| Line::raw(format!("  entry {number}"))).collect();
    let list = ListDialog::new("Do you trust this folder?", items).warnings(warnings).intro(intro);
    for height in 9..16 {
        for width in [32, 39, 49] {
            let rows: Vec<String> =
                list.view(width, height, &Theme::default()).rows.iter().filter_map(text).collect();
            assert!(rows.len() <= height, "{width}x{height}: {rows:#?}");
            let last = rows.iter().find(|row| row.contains("3. Do not trust"));
            assert!(last.is_some(), "{width}x{height}: {rows:#?}");
        }
    }
    // The whole path of the selected answer and the beginning of the text are in view, too.
    let rows: Vec<String> =
        list.view(49, 12, &Theme::default()).rows.iter().filter_map(text).collect();
    assert!(rows.contains(&format!("  {path}")), "{rows:#?}");
    assert!(rows.contains(&"  entry 1".to_owned()), "{rows:#?}");
    assert!(rows.iter().any(|row| row.contains("page up/down")), "{rows:#?}");
}

#[test]
fn warnings_are_in_view_and_entries_continue_under_their_text() {
    let intro =
        (1..=20).map(|number| Line::raw(format!("  entry {number} that is long"))).collect();
    let warnings = vec![Line::raw("It would run programs: 2 hooks.")];
    let explanation = vec![Line::raw("An explanation.")];
    let list = list(3).warnings(warnings).explanation(explanation).intro(intro);
    let render = |height| -> Vec<String> {
        list.view(24, height, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    for height in [8, 12, 60] {
        let rows = render(height);
        let at = rows.iter().position(|row| row == "It would run programs: 2");
        assert!(at.is_some_and(|at| at < 3), "{height}: {rows:?}");
        assert!(rows.contains(&"❯ 1. item 1".to_owned()), "{height}: {rows:?}");
        assert_eq!(rows.contains(&"An explanation.".to_owned()), height == 60, "{rows:?}");
    }
    let rows = render(60);
    let at = rows.iter().position(|row| row == "  entry 1 that is long").expect("an entry");
    assert_eq!(rows[at + 9], "  entry 10 that is long".get(..23).unwrap_or_default());
    let narrow: Vec<String> =
        list.view(18, 60, &Theme::default()).rows.iter().filter_map(text).collect();
    assert!(narrow.contains(&"    long".to_owned()), "{narrow:?}");
}

#[test]
fn disabled_item_shows_the_reason() {
    let mut items = vec![ListItem::new("a", "a", "")];
    items[0].disabled = Some("not here".to_owned());
    let mut list = ListDialog::new("x", items);
    assert_eq!(press(&mut list, KeyCode::Enter), DialogResponse::Stay);
    assert_eq!(list.notice.as_deref(), Some("not here"));
}

#[test]
fn no_row_is_wider_than_the_window() {
    let items = vec![ListItem::new("a", "日本語".repeat(30), "detail ".repeat(30))];
    let list = ListDialog::new("x", items);
    for width in 8..120 {
        for row in list.view(width, 12, &Theme::default()).rows {
            assert!(row.width() <= width, "{width}: {}", row.text());
        }
    }
}

#[test]
fn selected_item_fills_a_tiny_window() {
    let items = vec![
        ListItem::new("a", "Enter a Gemini API key", "from Google AI Studio"),
        ListItem::new("b", "Try it without a key", ""),
    ];
    let mut list = ListDialog::new("How?", items);
    let render = |list: &ListDialog| -> Vec<String> {
        list.view(19, 4, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    assert_eq!(render(&list)[1..3], ["❯ 1. Enter a Gemini", "     API key"]);
    press(&mut list, KeyCode::Down);
    assert_eq!(render(&list)[1..3], ["❯ 2. Try it without", "     a key"]);
    assert_eq!(render(&list).len(), 4);
}

#[test]
fn no_match_message_waits_until_the_search_ends() {
    let mut list = list(30).with_search();
    press(&mut list, KeyCode::Char('~'));
    let rows = |list: &ListDialog, height: usize| -> Vec<String> {
        list.view(60, height, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    assert!(rows(&list, 20).contains(&"  no match".to_owned()));
    list.search_status = Some("reading: 3 of 9".to_owned());
    let shown_rows = rows(&list, 20);
    assert!(shown_rows.contains(&"  no match so far".to_owned()), "{shown_rows:#?}");
    assert!(shown_rows.contains(&"  reading: 3 of 9".to_owned()), "{shown_rows:#?}");
    press(&mut list, KeyCode::Backspace);
    for height in 5..20 {
        assert!(rows(&list, height).len() <= height, "{height}: {:#?}", rows(&list, height));
    }
}

#[test]
fn empty_rows_surround_the_list_if_they_fit() {
    let render = |height| -> Vec<String> {
        let rows = list(3).view(40, height, &Theme::default()).rows;
        rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
    };
    let (items, hint) = (["❯ 1. item 1", "  2. item 2", "  3. item 3"], "enter choose · esc back");
    let airy = [&["Items", ""][..], &items, &["", hint]].concat();
    assert_eq!(render(7), airy);
    assert_eq!(render(6), [&["Items"][..], &items, &[hint]].concat());
}

#[test]
fn tabs_show_their_items_and_a_search_shows_all() {
    let items = ["apple", "pear", "carrot"]
        .iter()
        .enumerate()
        .map(|(at, name)| ListItem { tab: at / 2, ..ListItem::new(*name, *name, "") });
    let list = ListDialog::new("Food", items.collect());
    let mut list = list.with_search().with_tabs(vec!["Fruit", "Roots"]);
    let render = |list: &ListDialog| -> Vec<String> {
        list.view(60, 20, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    assert_eq!(render(&list)[1..5], [" Fruit   Roots", "⌕ Type to search", "❯ apple", "  pear"]);
    assert_eq!(press(&mut list, KeyCode::Right), DialogResponse::Moved("carrot".into()));
    assert_eq!(render(&list)[3], "❯ carrot");
    press(&mut list, KeyCode::Char('p'));
    let rows = render(&list);
    assert_eq!(rows[1..4], [" Fruit   Roots", "⌕ p", "❯ apple  Fruit"], "{rows:?}");
    assert_eq!(rows.last().map(String::as_str), Some("enter choose · esc clear search"));
    assert_eq!(press(&mut list, KeyCode::Escape), DialogResponse::Stay);
    assert_eq!(render(&list)[3], "❯ carrot", "the tab stays");
}

#[test]
fn digits_choose_only_until_something_is_searched_for() {
    let render = |list: &ListDialog| -> Vec<String> {
        list.view(40, 20, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    let mut digits = list(12).with_search().with_digits();
    assert!(render(&digits).contains(&"  9. item 9".to_owned()), "{:?}", render(&digits));
    assert_eq!(press(&mut digits, KeyCode::Char('3')), DialogResponse::Chosen("3".into()));
    for char in "item 1".chars() {
        press(&mut digits, KeyCode::Char(char));
    }
    assert!(render(&digits).contains(&"❯ item 1".to_owned()), "{:?}", render(&digits));
    assert_eq!(press(&mut digits, KeyCode::Enter), DialogResponse::Chosen("1".into()));
}

#[test]
fn search_begins_with_or_without_a_slash() {
    for typed in ["/12", "12"] {
        let mut list = list(30).with_search();
        for char in typed.chars() {
            press(&mut list, KeyCode::Char(char));
        }
        assert_eq!((list.search_text().as_str(), list.matching.len()), ("12", 1), "{typed}");
    }
}

#[test]
fn list_with_a_single_group_has_no_tabs() {
    let list = list(3).with_search().with_tabs(vec!["All"]);
    let rows: Vec<String> =
        list.view(40, 20, &Theme::default()).rows.iter().filter_map(text).collect();
    assert_eq!(rows[..2], ["Items", "⌕ Type to search"]);
    assert_eq!(rows.last().map(String::as_str), Some("enter choose · esc back"));
}

#[test]
fn current_item_opens_its_tab() {
    let item = |id: &str, tab| ListItem { tab, ..ListItem::new(id, id, "") };
    let list = ListDialog::new("x", vec![item("a", 0), item("b", 1), item("c", 1)])
        .with_search()
        .with_tabs(vec!["One", "Two"])
        .at("c");
    assert_eq!(list.current().map(|item| item.id.as_str()), Some("c"));
    assert_eq!(list.tab, 1);
}

#[test]
fn every_item_has_its_description_and_the_selected_one_all_of_it() {
    let long = "of a cart and everything that it carries, and of the road it takes";
    let item = |id: &str, tab| {
        let item = ListItem::new(id, id, "true").with_description(format!("{id} {long}"));
        ListItem {
            tab, ..item.with_preview(vec![Line::raw(format!("key.{id} · default: false"))])
        }
    };
    let items = vec![item("Horse", 0), item("Wheel", 0), item("Axle", 1)];
    let mut list = ListDialog::new("Parts", items).with_search().with_tabs(vec!["Front", "Rear"]);
    let render = |list: &ListDialog, height| -> Vec<String> {
        list.view(46, height, &Theme::default()).rows.iter().filter_map(text).collect()
    };
    assert_eq!(
        render(&list, 20)[3..9],
        [
            "❯ Horse  true",
            "    Horse of a cart and everything that it",
            "    carries, and of the road it takes",
            "    key.Horse · default: false",
            "  Wheel  true",
            "    Wheel of a cart and everything that it ca…"
        ]
    );
    press(&mut list, KeyCode::Down);
    let rows = render(&list, 20);
    assert_eq!(rows[3..5], ["  Horse  true", "    Horse of a cart and everything that it ca…"]);
    assert_eq!(rows[8], "    key.Wheel · default: false");
    // A search shows the group of each item.
    press(&mut list, KeyCode::Char('a'));
    press(&mut list, KeyCode::Char('x'));
    assert_eq!(render(&list, 20)[4], "    Rear · Axle of a cart and everything that");
    // Rows never exceed the window, and the selected label stays visible.
    press(&mut list, KeyCode::Escape);
    for height in 5..30 {
        let rows = list.view(46, height, &Theme::default()).rows;
        assert!(rows.len() <= height, "{height}: {}", rows.len());
        assert!(rows.iter().any(|row| row.text().starts_with('❯')), "{height}");
    }
}

#[test]
fn full_text_of_a_truncated_item_fits_a_low_window() {
    let detail = "current · Older · 1.0M tokens · $1.25 in, $10 out per 1M";
    let items = (1..=13).map(|number| ListItem::new(number.to_string(), "gemini-2.5-pro", detail));
    let list = ListDialog::new("Models", items.collect()).with_search();
    for height in 7..20 {
        let rows: Vec<String> =
            list.view(49, height, &Theme::default()).rows.iter().filter_map(text).collect();
        let words: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
        assert!(words.join(" ").contains("$10 out per 1M"), "{height}: {rows:#?}");
        assert!(rows.len() <= height, "{height}");
    }
}
