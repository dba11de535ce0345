//! Tables of text, keys, and expected result; `|` is the cursor.

use parallax_screen::{Key, KeyCode};

use super::*;

fn keys(text: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let named = [
            ("<esc>", Key::plain(KeyCode::Escape)),
            ("<cr>", Key::plain(KeyCode::Enter)),
            ("<bs>", Key::plain(KeyCode::Backspace)),
            ("<c-r>", Key::ctrl('r')),
            ("<left>", Key::plain(KeyCode::Left)),
            ("<end>", Key::plain(KeyCode::End)),
            ("<del>", Key::plain(KeyCode::Delete)),
        ];
        match named.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, key)) => {
                keys.push(*key);
                rest = &rest[name.len()..];
            }
            None => {
                keys.push(Key::plain(KeyCode::Char(char)));
                rest = &rest[char.len_utf8()..];
            }
        }
    }
    keys
}

fn run(start: &str, input: &str) -> String {
    let offset = start.find('|').unwrap();
    let mut buffer = Buffer::default();
    buffer.set_columns(1000);
    buffer.reset(&start.replacen('|', "", 1));
    let position = buffer.text().position(offset);
    buffer.set_cursor(position);
    let mut vim = Vim::default();
    vim.key(&mut buffer, Key::plain(KeyCode::Escape));
    buffer.set_cursor(position);
    for key in keys(input) {
        if vim.key(&mut buffer, key) {
            continue;
        }
        match key.code {
            KeyCode::Char(char) if vim.mode() == VimMode::Insert => {
                buffer.insert(&char.to_string())
            }
            KeyCode::Enter => buffer.insert_newline(),
            KeyCode::Backspace => buffer.delete_left(),
            KeyCode::Left => buffer.move_left(),
            _ => {}
        }
    }
    let mut text = buffer.text().to_string();
    text.insert(buffer.text().offset(buffer.cursor()), '|');
    text
}

fn check(rows: &[(&str, &str, &str)]) {
    let failures: Vec<String> = rows
        .iter()
        .filter_map(|(start, keys, expected)| {
            let actual = run(start, keys);
            (actual != *expected)
                .then(|| format!("{start:?} {keys:?}: {actual:?}, expected {expected:?}"))
        })
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn replace_mode_and_last_selection_work() {
    check(&[
        ("|one two", "Rxy<esc>", "x|ye two"),
        ("|one", "Rwxyz<esc>", "wxy|z"),
        ("|one", "Rxy<bs><bs>z<esc>", "|zne"),
        ("one |two", "R<bs>x<esc>", "one|xtwo"),
        ("|one two", "Rab<esc>w.", "abe a|bo"),
        ("|one two", "ve<esc>wgvd", "| two"),
        ("|one two", "veUgvu", "|one two"),
        ("on|e two\nthree", "vjI- <esc>", "-| one two\nthree"),
        ("on|e two\nthree", "vjA!<esc>", "one two\nthree|!"),
        ("One. T|wo three! Four", "dis", "One. | Four"),
        ("One. T|wo three! Four", "das", "One. |Four"),
        ("One. Two. Th|ree", "das", "One. Two|."),
        ("a\n\nOne |two", "cisx<esc>", "a\n\n|x"),
        ("<a><b x=\"1\">o|ne</b></a>", "dit", "<a><b x=\"1\">|</b></a>"),
        ("<a><b>o|ne</b></a>", "dat", "<a>|</a>"),
        ("<a><br/><b>o|ne</b></a>", "2dit", "<a>|</a>"),
        ("a < b|", "dit", "a < |b"),
    ]);
}

#[test]
fn motions_move_the_cursor() {
    check(&[
        ("one t|wo", "h", "one |two"),
        ("|one", "h", "|one"),
        ("o|ne two", "3l", "one |two"),
        ("on|e", "5l", "on|e"),
        ("|one", "<end>", "on|e"),
        ("on|e", "<left>", "o|ne"),
        ("a|b\ncd", "j", "ab\nc|d"),
        ("ab\nc|d", "k", "a|b\ncd"),
        ("abc|d\nx\nefgh", "jj", "abcd\nx\nefg|h"),
        ("|abc\nx\nefgh", "$jj", "abc\nx\nefg|h"),
        ("|one two, three", "w", "one |two, three"),
        ("|one two, three", "2w", "one two|, three"),
        ("|one two, three", "2W", "one two, |three"),
        ("|one\n\ntwo", "w", "one\n|\ntwo"),
        ("|one\n  two", "w", "one\n  |two"),
        ("one| two", "w", "one |two"),
        ("one tw|o", "w", "one tw|o"),
        ("one two|, x", "b", "one |two, x"),
        ("one two, |x", "2b", "one |two, x"),
        ("one two, |x", "B", "one |two, x"),
        ("one\n|two", "b", "|one\ntwo"),
        ("|one two", "e", "on|e two"),
        ("|one two", "2e", "one tw|o"),
        ("on|e, two", "e", "one|, two"),
        ("on|e, two", "E", "one|, two"),
        ("one |two", "ge", "on|e two"),
        ("one two|", "gE", "on|e two"),
        ("  one t|wo", "0", "|  one two"),
        ("  one t|wo", "^", "  |one two"),
        ("|one two  ", "g_", "one tw|o  "),
        ("|one two", "$", "one tw|o"),
        ("|one\ntwo", "2$", "one\ntw|o"),
        ("|abcdef", "4|", "abc|def"),
        ("one\n  two\nth|ree", "gg", "|one\n  two\nthree"),
        ("o|ne\ntwo\n  three", "G", "one\ntwo\n  |three"),
        ("|one\ntwo\nthree", "2G", "one\n|two\nthree"),
        ("|one\ntwo\nthree", "2gg", "one\n|two\nthree"),
        ("|one\ntwo", "+", "one\n|two"),
        ("one\nt|wo", "-", "|one\ntwo"),
        ("|a-b-c-d", "f-", "a|-b-c-d"),
        ("|a-b-c-d", "2f-", "a-b|-c-d"),
        ("|a-b-c-d", "f-;", "a-b|-c-d"),
        ("|a-b-c-d", "f-;;,", "a-b|-c-d"),
        ("|ab-cd-ef", "t-", "a|b-cd-ef"),
        ("|ab-cd-ef", "t-;", "ab-c|d-ef"),
        ("ab-cd-e|f", "F-", "ab-cd|-ef"),
        ("ab-cd-e|f", "T-", "ab-cd-|ef"),
        ("ab-cd-e|f", "T-;", "ab-|cd-ef"),
        ("|abc", "fx", "|abc"),
        ("|f(a(b)c)", "%", "f(a(b)c|)"),
        ("f(a(b)c|)", "%", "f|(a(b)c)"),
        ("f|{\n}", "%", "f{\n|}"),
        ("|a\nb\n\nc\n\nd", "}", "a\nb\n|\nc\n\nd"),
        ("|a\nb\n\nc\n\nd", "2}", "a\nb\n\nc\n|\nd"),
        ("a\n\nb\n|c", "{", "a\n|\nb\nc"),
        ("|漢字とカナ", "w", "漢字|とカナ"),
        ("|漢字とカナ", "2w", "漢字と|カナ"),
        ("|e\u{301}x", "l", "e\u{301}|x"),
    ]);
}

#[test]
fn search_motions_find_matches() {
    check(&[
        ("|one two one", "/one<cr>", "one two |one"),
        ("|one two one", "/two<cr>n", "one |two one"),
        ("|a b a b a", "/a<cr>n", "a b a b |a"),
        ("|a b a b a", "/a<cr>nn", "|a b a b a"),
        ("|a b a b a", "/a<cr>nN", "a b |a b a"),
        ("|a b a b a", "2/a<cr>", "a b a b |a"),
        ("a b |a b a", "?a<cr>", "|a b a b a"),
        ("a b |a b a", "?a<cr>n", "a b a b |a"),
        ("|x Foo foo", "/foo<cr>", "x |Foo foo"),
        ("|x foo Foo", "/Foo<cr>", "x foo |Foo"),
        ("|foo bar\nfoo", "*", "foo bar\n|foo"),
        ("foo bar\nfo|o", "#", "|foo bar\nfoo"),
        ("|one two", "/zzz<cr>", "|one two"),
        ("|one two three", "/two<esc>x", "|ne two three"),
        ("|one two three", "d/three<cr>", "|three"),
        ("|one two", "/tx<bs>w<cr>", "one |two"),
    ]);
}

#[test]
fn operators_change_the_motion_range() {
    check(&[
        ("|one two three", "dw", "|two three"),
        ("|one two three", "2dw", "|three"),
        ("|one two three", "d2w", "|three"),
        ("|a b c d e f g", "2d3w", "|g"),
        ("one |two\nthree", "dw", "one| \nthree"),
        ("o|ne\ntwo", "dw", "|o\ntwo"),
        ("|one, two", "dW", "|two"),
        ("one tw|o", "db", "one |o"),
        ("one, t|wo", "dB", "one, |wo"),
        ("|one two", "de", "| two"),
        ("|one, two", "dE", "| two"),
        ("one t|wo", "d0", "|wo"),
        ("  one t|wo", "d^", "  |wo"),
        ("one| two", "d$", "on|e"),
        ("one| two", "D", "on|e"),
        ("one\nt|wo\nthree", "dd", "one\n|three"),
        ("one\ntw|o", "dd", "|one"),
        ("|one", "dd", "|"),
        ("|1\n2\n3\n4", "3dd", "|4"),
        ("|1\n2\n3\n4", "d2j", "|4"),
        ("1\n2\n|3\n4", "dk", "1\n|4"),
        ("1\n2\n|3", "dj", "1\n2\n|3"),
        ("1\n|2\n3", "dG", "|1"),
        ("1\n|2\n3", "dgg", "|3"),
        ("on|e", "dh", "o|e"),
        ("o|ne", "dl", "o|e"),
        ("a|bc-d", "df-", "a|d"),
        ("a|bc-d", "dt-", "a|-d"),
        ("abc-d|e", "dF-", "abc|e"),
        ("|f(x) y", "d%", "| y"),
        ("|one two", "cwnew<esc>", "ne|w two"),
        ("|one two three", "c2wx<esc>", "|x three"),
        ("one| two", "cwx<esc>", "one|xtwo"),
        ("|one two", "cex<esc>", "|x two"),
        ("o|ne two", "C!<esc>", "o|!"),
        ("o|ne\ntwo", "ccx<esc>", "|x\ntwo"),
        ("o|ne\ntwo", "Sx<esc>", "|x\ntwo"),
        ("|one two", "yw$p", "one twoone| "),
        ("|one two", "yeP", "on|eone two"),
        ("|one\ntwo", "yyjp", "one\ntwo\n|one"),
        ("|one\ntwo", "yyP", "|one\none\ntwo"),
        ("|one\ntwo", "Yp", "one\n|one\ntwo"),
        ("|one\ntwo", "yy2p", "one\n|one\none\ntwo"),
        ("|one\ntwo", "ddp", "two\n|one"),
        ("|ab", "xp", "b|a"),
        ("|ab", "x3p", "baa|a"),
        ("one |two", "yb", "|one two"),
        ("|one\ntwo\nx", ">>", "    |one\ntwo\nx"),
        ("|one\ntwo\nx", "2>>", "    |one\n    two\nx"),
        ("|one\ntwo\nx", ">j", "    |one\n    two\nx"),
        ("      o|ne", "<<", "  |one"),
        ("\to|ne", "<<", "|one"),
        ("|one Two", "gUw", "|ONE Two"),
        ("ONE T|wo", "guu", "|one two"),
        ("|one Two", "g~$", "|ONE tWO"),
        ("|one two", "dxw", "one |two"),
        ("|one two", "d<esc>w", "one |two"),
    ]);
}

#[test]
fn change_commands_replace_text() {
    check(&[
        ("a|bc", "x", "a|c"),
        ("a|bc", "5x", "|a"),
        ("|", "x", "|"),
        ("a|bc", "<del>", "a|c"),
        ("ab|c", "X", "a|c"),
        ("ab|c", "5X", "|c"),
        ("|abc", "sx<esc>", "|xbc"),
        ("|abc", "2sx<esc>", "|xc"),
        ("a|bc", "ix<esc>", "a|xbc"),
        ("a|bc", "ax<esc>", "ab|xc"),
        ("  a|bc", "Ix<esc>", "  |xabc"),
        ("a|bc", "Ax<esc>", "abc|x"),
        ("a|b\nc", "ox<esc>", "ab\n|x\nc"),
        ("a|b\nc", "Ox<esc>", "|x\nab\nc"),
        ("|b", "3ix<esc>", "xx|xb"),
        ("|a", "2ox<esc>", "a\nx\n|x"),
        ("|ab", "ix<bs>y<esc>", "|yab"),
        ("a|bc", "rx", "a|xc"),
        ("|abc", "2rx", "x|xc"),
        ("a|bc", "9rx", "a|bc"),
        ("a|bc", "r<cr>", "a\n|c"),
        ("|aBc", "~", "A|Bc"),
        ("|aBc", "9~", "Ab|C"),
        ("o|ne\n  two", "J", "one| two"),
        ("|one\ntwo\nthree", "3J", "one two| three"),
        ("|one\n", "J", "on|e"),
        ("|f(a\n)", "J", "f(a|)"),
        ("|one\n  two", "gJ", "one|  two"),
        ("|one", "J", "|one"),
    ]);
}

#[test]
fn undo_and_repeat_restore_changes() {
    check(&[
        ("|one two", "dwu", "|one two"),
        ("|one two", "dwu<c-r>", "|two"),
        ("|abc", "xxxuuu", "|abc"),
        ("|abc", "xxx3u", "|abc"),
        ("|abc", "ixyz w<esc>u", "|abc"),
        ("|abc", "cwone two<esc>u", "|abc"),
        ("|1\n2\n3", "3Ju", "|1\n2\n3"),
        ("|a b c d", "dw.", "|c d"),
        ("|a b c d e", "dw2.", "|d e"),
        ("|a b c d e f", "2dw.", "|e f"),
        ("|abc", "x..", "|"),
        ("|a b c", "cwx<esc>w.", "x |x c"),
        ("|1\n2", "Ax<esc>j.", "1x\n2|x"),
        ("|1\n2", "ox<esc>.", "1\nx\n|x\n2"),
        ("|one two", "3ia<esc>$.", "aaaone twaa|ao"),
        ("|a\nb\nc\nd", "dd.", "|c\nd"),
        ("|a\nb", ">>j.", "    a\n    |b"),
        ("|aaa", "rxl.", "x|xa"),
        ("|a-b-c", "df-.", "|c"),
        ("|a(1) b(2)", "f(ci(x<esc>f(.", "a(x) b(|x)"),
        ("|a-b-c", "dwp.", "-a|ab-c"),
        ("|abcdef", "vld.", "|ef"),
        ("|a\nb\nc\nd\ne", "Vjd.", "|e"),
        ("|one x one y one", "d/one<cr>.", "|one"),
    ]);
}

#[test]
fn registers_store_yanked_text() {
    check(&[
        ("|one two", "\"ayw\"bdw\"ap", "tone| wo"),
        ("|one two", "yiwwdiw\"0P", "oneon|e "),
        ("|a\nb", "\"ayyj\"Ayy\"ap", "a\nb\n|a\nb"),
        ("|one two", "yiww\"_diwP", "oneon|e "),
        ("|ab cd", "\"xyiwwviw\"xp", "ab a|b"),
    ]);
}

#[test]
fn text_objects_select_ranges() {
    check(&[
        ("one t|wo three", "diw", "one | three"),
        ("one t|wo three", "daw", "one |three"),
        ("one t|wo", "daw", "on|e"),
        ("one | two", "diw", "one|two"),
        ("a.b|.c d", "diW", "| d"),
        ("a.b|.c d", "daW", "|d"),
        ("a |b c d", "d2aw", "a |d"),
        ("f(\"a |b\")", "di\"", "f(\"|\")"),
        ("x \"a |b\" y", "da\"", "x |y"),
        ("|x = 'a b'", "ci'z<esc>", "x = '|z'"),
        ("`a|b`", "yi`P", "`a|bab`"),
        ("f(a, |b)", "di(", "f(|)"),
        ("f(a, |b)", "dab", "|f"),
        ("f(a(|b)c)", "d2i(", "f(|)"),
        ("f|(a(b)c)", "di)", "f(|)"),
        ("f(a(b)|)", "di)", "f(|)"),
        ("[a|, b]", "ci]x<esc>", "[|x]"),
        ("{ a|b }", "da{", "|"),
        ("f {\n  a|b\n  c\n}", "di{", "f {\n|}"),
        ("<a|b>", "di<", "<|>"),
        ("no |bracket", "di(", "no |bracket"),
        ("a\nb|\n\nc\nd", "dip", "|\nc\nd"),
        ("a\nb|\n\nc\nd", "dap", "|c\nd"),
        ("a\n\nb|\nc", "dap", "|a"),
        ("one t|wo", "gUiw", "one |TWO"),
        ("a|b cd", "viwd", "| cd"),
        ("(a|b c)", "vi(d", "(|)"),
        ("x\na|b\nc\n\nd", "vipd", "|\nd"),
    ]);
}

#[test]
fn visual_mode_selects_text() {
    check(&[
        ("|one two", "vld", "|e two"),
        ("one |two", "vhx", "one|wo"),
        ("|one two", "wvey0P", "tw|oone two"),
        ("|one\ntwo\nx", "Vjd", "|x"),
        ("|one\ntwo", "vjd", "|wo"),
        ("|one two", "veclonger<esc>", "longe|r two"),
        ("|one\ntwo", "Vcx<esc>", "|x\ntwo"),
        ("|one\ntwo", "vy:", "|one\ntwo"),
        ("|abc", "vl~", "|ABc"),
        ("|aBc", "vlU", "|ABc"),
        ("|ABC", "vlu", "|abC"),
        ("|abcd", "vlrx", "|xxcd"),
        ("|a\nb\nc", "VjJ", "a| b\nc"),
        ("|a\nb", "Vj>", "    |a\n    b"),
        ("ab|cd", "vhod", "a|d"),
        ("|ab cd", "yiwwvep", "ab a|b"),
        ("|abc", "vl<esc>x", "a|c"),
        ("|abc", "vlvx", "a|c"),
        ("|a\nb\nc", "vVd", "|b\nc"),
        ("|one two three", "vfed", "| two three"),
        ("|one two", "v/two<cr>d", "|wo"),
        ("|one two", "v$d", "|"),
        ("|one\ntwo", "vD", "|two"),
    ]);
}

#[test]
fn huge_count_is_cheap() {
    let text = run("|abc", "99999999x");
    assert_eq!(text, "|");
    let text = run("|abc", "yy99999999p");
    assert!(text.len() < 3 << 20);
}

#[test]
fn mode_and_pending_command_are_reported() {
    let mut buffer = Buffer::default();
    buffer.reset("one two");
    let mut vim = Vim::default();
    assert_eq!(vim.mode(), VimMode::Insert);
    for (typed, pending, mode) in [
        ("<esc>", "", VimMode::Normal),
        ("2d3", "6d", VimMode::Normal),
        ("<esc>/ab", "/ab", VimMode::Normal),
        ("<esc>V", "", VimMode::VisualLine),
    ] {
        for key in keys(typed) {
            assert!(vim.key(&mut buffer, key));
        }
        assert_eq!((vim.pending().as_str(), vim.mode()), (pending, mode), "{typed}");
    }
    vim.key(&mut buffer, Key::plain(KeyCode::Escape));
    assert!(!vim.key(&mut buffer, Key::plain(KeyCode::Escape)), "the second is the input's");
}
