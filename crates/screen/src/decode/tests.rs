//! Sequences that terminals send, and their meaning.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::key::{MouseEvent, MouseKind};

fn decode(bytes: &[u8]) -> Vec<DecodedInput> {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(DecoderOptions::default());
    decoder.feed(bytes, &mut out);
    while decoder.wait_time().is_some() {
        decoder.give_up(&mut out);
    }
    out
}

fn keys(bytes: &[u8]) -> String {
    let named = decode(bytes).into_iter().map(|decoded| match decoded {
        DecodedInput::Event(InputEvent::Key(key)) => name(key),
        other => format!("{other:?}"),
    });
    named.collect::<Vec<_>>().join(" ")
}

/// Returns the name of a key as users write it.
fn name(key: Key) -> String {
    let mut name = String::new();
    for (modifier, prefix) in [
        (Modifiers::CTRL, "ctrl+"),
        (Modifiers::ALT, "alt+"),
        (Modifiers::SHIFT, "shift+"),
        (Modifiers::CMD, "cmd+"),
    ] {
        if key.modifiers.contains(modifier) {
            name.push_str(prefix);
        }
    }
    name + &match key.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(char) => char.to_string(),
        KeyCode::F(number) => format!("f{number}"),
        code => format!("{code:?}").to_lowercase(),
    }
}

#[test]
fn keys_of_every_protocol_are_decoded() {
    for (bytes, expected) in [
        // Characters and control codes.
        ("aÄ漢", "a Ä 漢"),
        (
            "\r\n\t\x7f\x08\x00\x1a\x1f\x1c",
            "enter ctrl+j tab backspace ctrl+h ctrl+space ctrl+z ctrl+_ ctrl+\\",
        ),
        // Escape as a prefix.
        ("\x1ba\x1bB\x1bä\x1b\x7f\x1b\r", "alt+a alt+shift+b alt+ä alt+backspace alt+enter"),
        ("\x1b", "escape"),
        ("\x1b\x1b", "escape escape"),
        ("\x1b\x1bx", "escape alt+x"),
        ("\x1b\x1b[A\x1b\x1bOC", "alt+up alt+right"),
        ("\x1b[", "alt+["),
        ("\x1bO", "alt+shift+o"),
        ("\x1b]", "alt+]"),
        ("\x1bP", "alt+shift+p"),
        ("\x1b]hello", "alt+] h e l l o"),
        // Arrows and function keys.
        (
            "\x1b[A\x1bOB\x1b[1;5C\x1b[1;3D\x1b[1;2H\x1b[F",
            "up down ctrl+right alt+left shift+home end",
        ),
        ("\x1bOP\x1b[[B\x1b[13~\x1b[15~\x1b[24~\x1b[1;2R\x1b[34~", "f1 f2 f3 f5 f12 shift+f3 f20"),
        (
            "\x1b[2~\x1b[3;5~\x1b[5~\x1b[6~\x1b[7~\x1b[8~",
            "insert ctrl+delete pageup pagedown home end",
        ),
        ("\x1b[Z", "shift+tab"),
        // rxvt.
        (
            "\x1b[a\x1bOd\x1b[3$\x1b[3^\x1b[3@\x1b[11^",
            "shift+up ctrl+left shift+delete ctrl+delete ctrl+shift+delete ctrl+f1",
        ),
        // The numeric keypad.
        ("\x1bOM\x1bOp\x1bOy\x1bOk\x1bOX", "enter 0 9 + ="),
        // kitty.
        (
            "\x1b[97u\x1b[97;5u\x1b[122;6u\x1b[13;2u\x1b[27u",
            "a ctrl+a ctrl+shift+z shift+enter escape",
        ),
        ("\x1b[97:65;2u\x1b[97;2u\x1b[97;9u\x1b[97;33u", "A A cmd+a cmd+a"),
        ("\x1b[97;1:3u\x1b[1;1:3A\x1b[97;1:2u", "a"),
        ("\x1b[57399u\x1b[57414u\x1b[57424;5u\x1b[57441u\x1b[57376u", "0 enter ctrl+end f13"),
        ("\x1b[97;69u\x1b[1;129A", "ctrl+a up"),
        // modifyOtherKeys.
        (
            "\x1b[27;5;97~\x1b[27;6;90~\x1b[27;2;13~\x1b[27;5;9~",
            "ctrl+a ctrl+shift+z shift+enter ctrl+tab",
        ),
        // Option on a Mac.
        ("∫ƒµΩ¸∂", "alt+b alt+f alt+m alt+z alt+shift+z alt+d"),
    ] {
        assert_eq!(keys(bytes.as_bytes()), expected, "{bytes:?}");
    }
}

#[test]
fn greek_letters_are_not_taken_for_alt_keys() {
    let mut out = Vec::new();
    Decoder::new(DecoderOptions { greek: true, ..DecoderOptions::default() })
        .feed("Ωµ".as_bytes(), &mut out);
    assert_eq!(
        out,
        [
            key(Key::plain(KeyCode::Char('Ω'))).unwrap(),
            key(Key::plain(KeyCode::Char('µ'))).unwrap()
        ]
    );
}

#[test]
fn terminal_replies_between_keys_are_not_keys() {
    let bytes = "h\x1b[?1ue\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\l\x1bP>|tmux \
                 3.3a\x1b\\l\x1b[>4;2m\x1b[?2026;2$y\x1b[?2031;0$yo\x1b[?62;22c!\x1b[?997;1n\x1b[8;24;80t\x1b[>1;2;3c";
    let (events, answers): (Vec<_>, Vec<_>) = decode(bytes.as_bytes())
        .into_iter()
        .partition(|decoded| matches!(decoded, DecodedInput::Event(_)));
    let input: String = events
        .iter()
        .filter_map(|event| match event {
            DecodedInput::Event(InputEvent::Key(key)) => key.character(),
            _ => None,
        })
        .collect();
    assert_eq!(input, "hello!");
    let expected = [
        TerminalReply::Kitty,
        TerminalReply::Background(0x1e, 0x1e, 0x2e),
        TerminalReply::Version("tmux 3.3a".to_owned()),
        TerminalReply::ModifyOtherKeys(2),
        TerminalReply::Mode { mode: 2026, known: true },
        TerminalReply::Mode { mode: 2031, known: false },
        TerminalReply::Attributes { sixel: false },
        TerminalReply::ColorScheme,
        TerminalReply::Size(80, 24),
    ];
    assert_eq!(answers, expected.map(DecodedInput::Answer));
}

#[test]
fn image_protocol_replies_are_not_keys() {
    let mut decoder = Decoder { awaits_graphics: true, ..Decoder::default() };
    let mut out = Vec::new();
    let bytes = b"a\x1b_b\x1b_Gi=1;OK\x1b\\c\x1b[?63;1;4;22c\x1b[?1;0;256S\x1b[6;20;10t\x1b_Gi=1;d";
    for byte in bytes {
        decoder.feed(&[*byte], &mut out);
    }
    let typed = |char| key(Key::plain(KeyCode::Char(char))).unwrap();
    let alt = |char| key(Key::with(KeyCode::Char(char), Modifiers::ALT)).unwrap();
    let mut expected = vec![typed('a'), alt('_'), typed('b')];
    expected.push(DecodedInput::Answer(TerminalReply::KittyGraphics(true)));
    expected.push(typed('c'));
    expected.push(DecodedInput::Answer(TerminalReply::Attributes { sixel: true }));
    expected.push(DecodedInput::Answer(TerminalReply::SixelColors(256)));
    expected.push(DecodedInput::Answer(TerminalReply::Cell(10, 20)));
    // It has been answered, and no other answer of this kind is expected.
    expected.push(alt('_'));
    expected.extend("Gi=1;d".chars().map(typed));
    assert_eq!(out, expected);

    let mut decoder = Decoder { awaits_graphics: true, ..Decoder::default() };
    let mut out = Vec::new();
    decoder.feed(b"\x1b_", &mut out);
    assert_eq!((out.len(), decoder.wait_time()), (0, Some(Duration::from_millis(200))));
    decoder.give_up(&mut out);
    assert_eq!(out, [alt('_')]);
}

#[test]
fn late_image_protocol_reply_is_not_typed() {
    let attributes = DecodedInput::Answer(TerminalReply::Attributes { sixel: false });
    let reply = DecodedInput::Answer(TerminalReply::KittyGraphics(true));
    for size in [1, 3, 64] {
        let mut decoder = Decoder { awaits_graphics: true, ..Decoder::default() };
        let mut out = Vec::new();
        for piece in b"\x1b[?62;22c\x1b_Gi=1;OK\x1b\\".chunks(size) {
            decoder.feed(piece, &mut out);
        }
        assert_eq!(out, [attributes.clone(), reply.clone()], "pieces of {size}");
    }
    let mut decoder = Decoder { awaits_graphics: true, ..Decoder::default() };
    let mut out = Vec::new();
    decoder.feed(b"\x1b_Go", &mut out);
    let typed = |char| key(Key::plain(KeyCode::Char(char))).unwrap();
    let alt = key(Key::with(KeyCode::Char('_'), Modifiers::ALT)).unwrap();
    assert_eq!(out, [alt.clone(), typed('G'), typed('o')]);
    out.clear();
    decoder.feed(b"\x1b_G", &mut out);
    decoder.give_up(&mut out);
    assert_eq!(out, [alt, typed('G')], "keys that nothing follows");
}

#[test]
fn cursor_report_is_recognized_only_after_a_query() {
    let mut decoder = Decoder { cursor_reports: 1, ..Decoder::default() };
    let mut out = Vec::new();
    decoder.feed(b"\x1b[1;5R\x1b[1;5R", &mut out);
    let f3 = Key::with(KeyCode::F(3), Modifiers::CTRL);
    assert_eq!(out, [DecodedInput::Answer(TerminalReply::Cursor(1, 5)), key(f3).unwrap()]);
}

#[test]
fn paste_is_one_event_with_line_feeds() {
    let pasted = decode(b"\x1b[200~a\r\nb\rc\x1b[A\x1b[201~x");
    let expected = [
        DecodedInput::Event(InputEvent::Paste("a\nb\nc\x1b[A".to_owned())),
        key(Key::plain(KeyCode::Char('x'))).unwrap(),
    ];
    assert_eq!(pasted, expected);
}

#[test]
fn unterminated_paste_is_emitted_after_a_timeout() {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    decoder.feed(b"\x1b[200~lost", &mut out);
    assert_eq!((out.len(), decoder.wait_time()), (0, Some(Duration::from_secs(30))));
    decoder.give_up(&mut out);
    assert_eq!(out, [DecodedInput::Event(InputEvent::Paste("lost".to_owned()))]);
}

#[test]
fn huge_paste_is_complete_in_pieces() {
    let text = "é\r\n".repeat(6 << 20);
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    decoder.feed(b"\x1b[200~", &mut out);
    for piece in text.as_bytes().chunks(65_537) {
        decoder.feed(piece, &mut out);
    }
    decoder.feed(b"\x1b[201~", &mut out);
    let pasted: String = out
        .iter()
        .map(|decoded| match decoded {
            DecodedInput::Event(InputEvent::Paste(text)) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(out.len() > 1 && pasted == "é\n".repeat(6 << 20));
}

#[test]
fn clipboard_and_mouse_reports_are_decoded() {
    let mouse = |kind, column, row| {
        DecodedInput::Event(InputEvent::Mouse(MouseEvent { kind, column, row }))
    };
    assert_eq!(
        decode(
            b"\x1b]52;c;aGk=\x07\x1b[<0;3;4M\x1b[<32;4;4M\x1b[<0;4;4m\x1b[<64;1;1M\x1b[M \
              a!\x1b[I\x1b[O"
        ),
        [
            DecodedInput::Event(InputEvent::Clipboard("hi".to_owned())),
            mouse(MouseKind::LeftDown, 2, 3),
            mouse(MouseKind::LeftDrag, 3, 3),
            mouse(MouseKind::LeftUp, 3, 3),
            mouse(MouseKind::WheelUp, 0, 0),
            mouse(MouseKind::LeftDown, 64, 0),
            DecodedInput::Event(InputEvent::Focus(true)),
            DecodedInput::Event(InputEvent::Focus(false)),
        ]
    );
}

#[test]
fn only_a_lone_escape_has_a_short_timeout() {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    decoder.feed(b"\x1b", &mut out);
    assert_eq!(decoder.wait_time(), Some(Duration::from_millis(25)));
    decoder.feed(b"]11;rgb:", &mut out);
    assert_eq!(decoder.wait_time(), Some(Duration::from_secs(1)));
    decoder.feed(b"0/0/0\x07", &mut out);
    assert_eq!((decoder.wait_time(), out.len()), (None, 1));
    // A slow network may split sequences.
    decoder.feed(b"\xe6", &mut out);
    assert_eq!(decoder.wait_time(), Some(Duration::from_secs(1)));
    decoder.feed(b"\x97", &mut out);
    decoder.feed(b"\xa5\x1b[", &mut out);
    assert_eq!(decoder.wait_time(), Some(Duration::from_millis(200)));
    decoder.feed(b"D", &mut out);
    assert_eq!(
        out[1..],
        [
            DecodedInput::Event(InputEvent::Key(Key::plain(KeyCode::Char('日')))),
            DecodedInput::Event(InputEvent::Key(Key::plain(KeyCode::Left)))
        ]
    );
}

/// Returns the events of the pieces. `true` means that the wait after a piece was long enough for a
/// lone Escape to be the key.
fn decode_pieces(pieces: &[(&[u8], bool)]) -> String {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    for (bytes, is_over) in pieces {
        decoder.feed(bytes, &mut out);
        // 45 ms is too long for Alt and too short for a lone Escape.
        decoder.give_up(&mut out);
        if *is_over {
            decoder.give_up(&mut out);
        }
    }
    while decoder.wait_time().is_some() {
        decoder.give_up(&mut out);
    }
    let named = out.into_iter().map(|decoded| match decoded {
        DecodedInput::Event(InputEvent::Key(key)) => name(key),
        DecodedInput::Answer(TerminalReply::Background(..)) => "<background>".to_owned(),
        other => format!("{other:?}"),
    });
    named.collect::<Vec<_>>().join(" ")
}

#[test]
fn sequence_split_after_escape_is_joined() {
    for (rest, expected) in [
        (&b"]11;rgb:1111/2222/3333\x07"[..], "<background>"),
        (b"[D", "left"),
        (b"OA", "up"),
        (b"[1;5C", "ctrl+right"),
        (b"\r", "alt+enter"),
    ] {
        assert_eq!(decode_pieces(&[(b"\x1b", false), (rest, false)]), expected);
    }
    // A character that follows Escape after a pause is a separate key.
    assert_eq!(decode_pieces(&[(b"\x1b", false), (b"j", false)]), "escape j");
    assert_eq!(decode_pieces(&[(b"\x1b", false), (b"\x1b", true)]), "escape escape");
}

#[test]
fn late_rest_of_an_escape_sequence_is_not_text() {
    for (rest, expected) in [
        (&b"]11;rgb:1111/2222/3333\x07"[..], "escape <background>"),
        (b"]11;rgb:1111/2222/3333\x1b\\", "escape <background>"),
        (b"]10;rgb:1111/2222/3333\x07", "escape"),
        (b"[D", "escape left"),
        (b"[", "escape ["),
        (b"]", "escape ]"),
        (b"[Draft]", "escape [ D r a f t ]"),
        (b"text", "escape t e x t"),
        ("é".as_bytes(), "escape é"),
        ("日本".as_bytes(), "escape 日 本"),
        ("😀".as_bytes(), "escape 😀"),
        (b"\r", "escape enter"),
    ] {
        assert_eq!(decode_pieces(&[(b"\x1b", true), (rest, false)]), expected, "{rest:?}");
    }
}

/// Byte streams: pieces of sequences, and arbitrary bytes.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(
            &[
                "\x1b",
                "\x1b[",
                "\x1bO",
                "\x1b]",
                "\x1bP",
                "[",
                "O",
                "]11;rgb:1/2/3",
                "\x07",
                "\x1b\\",
                "\x1b[200~",
                "\x1b[201~",
                "\x1b[1;5A",
                "\x1b[97;1:3u",
                "\x1bP>|x",
                "\x1b[M",
                "\x1b[<0;1;1M",
                "1;2R",
                "\r",
                "\n",
                "$",
                "~",
                "ä",
                "漢",
                "\x1b[3",
                ";",
                "52;c;aGk=",
                "?62c",
            ][..]
        )
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn decoding_does_not_depend_on_chunking(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut whole = Vec::new();
        let mut decoder = Decoder::default();
        decoder.feed(&bytes, &mut whole);
        let wait_time = decoder.wait_time();

        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut decoder = Decoder::default();
        let mut from = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            decoder.feed(&bytes[from..cut], &mut pieces);
            from = cut;
        }
        prop_assert_eq!(whole, pieces);
        prop_assert_eq!(wait_time, decoder.wait_time());
    }

    #[test]
    fn decoder_timeout_always_terminates(bytes in stream()) {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        decoder.feed(&bytes, &mut out);
        let mut rounds = 0;
        while decoder.wait_time().is_some() {
            decoder.give_up(&mut out);
            rounds += 1;
            // A lone Escape takes three rounds: not Alt, then the key, then nothing after it.
            prop_assert!(rounds <= 3 * bytes.len() + 1);
        }
    }

    #[test]
    fn typed_text_between_terminal_replies_is_kept(text in "[a-zé漢 ]{0,20}", answers in prop::collection::vec((any::<prop::sample::Index>(), 0..6_usize), 0..6)) {
        const ANSWERS: [&str; 6] = [
            "\x1b[?1u", "\x1b]11;rgb:ffff/ffff/ffff\x07", "\x1bP>|kitty(0.40)\x1b\\",
            "\x1b[?2026;1$y", "\x1b[?62;4c", "\x1b[>4;2m",
        ];
        let mut chars: Vec<String> = text.chars().map(String::from).collect();
        for (at, answer) in answers {
            let at = at.index(chars.len() + 1);
            chars.insert(at, ANSWERS[answer].to_owned());
        }
        let input: String = decode(chars.concat().as_bytes())
            .into_iter()
            .filter_map(|decoded| match decoded {
                DecodedInput::Event(InputEvent::Key(key)) => Some(key.character().unwrap()),
                DecodedInput::Event(other) => panic!("{other:?}"),
                DecodedInput::Answer(_) => None,
            })
            .collect();
        prop_assert_eq!(input, text);
    }
}
