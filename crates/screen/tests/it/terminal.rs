//! Tests of the screen on a pseudo-terminal whose other end answers queries or does not.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parallax_screen::{
    Frame, GraphicsCapabilities, GraphicsProtocol, Input, InputEvent, Key, KeyCode, Line, Screen,
    ScreenOptions,
};
use portable_pty::{MasterPty, PtySize, native_pty_system};

/// The terminal's end of a pseudo-terminal.
struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn new() -> Self {
        let pair = native_pty_system().openpty(size(80, 24)).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { master: pair.master, keyboard, output, seen: String::new() }
    }

    fn device(&self) -> OwnedFd {
        let path = self.master.tty_name().unwrap();
        std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap().into()
    }

    fn open(&self, options: ScreenOptions) -> (Screen, Input) {
        let variable = |name: &str| (name == "TERM").then(|| "xterm-256color".to_owned());
        Screen::open_terminal((self.device(), self.device()), options, variable).unwrap()
    }

    fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Reads until `end` appears and returns what was read.
    fn read_until(&mut self, end: &str) -> String {
        while !self.seen.contains(end) {
            match self.output.recv_timeout(Duration::from_secs(10)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8(bytes).unwrap()),
                Err(_) => panic!("no {end:?} in {:?}", self.seen),
            }
        }
        std::mem::take(&mut self.seen)
    }
}

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn live_rows(texts: &[&str]) -> Vec<Line> {
    texts.iter().map(|text| Line::raw((*text).to_owned())).collect()
}

fn typed(char: char) -> InputEvent {
    InputEvent::Key(Key::plain(KeyCode::Char(char)))
}

fn modes(device: &impl AsFd) -> String {
    format!("{:?}", rustix::termios::tcgetattr(device).unwrap())
}

#[tokio::test]
async fn keys_typed_before_startup_are_delivered() {
    let mut terminal = Terminal::new();
    let device = terminal.device();
    terminal.type_text("hé");
    // The line discipline has received it when it has echoed it.
    terminal.read_until("hé");
    let (_screen, mut input) = terminal.open(ScreenOptions::default());
    assert_eq!(input.next().await, Some(typed('h')));
    assert_eq!(input.next().await, Some(typed('é')));
    drop(device);
}

#[tokio::test]
async fn terminal_is_queried_once_and_its_replies_are_not_keys() {
    let mut terminal = Terminal::new();
    let device = terminal.device();
    let before = modes(&device);
    let (screen, mut input) = terminal.open(ScreenOptions::default());
    let query = terminal.read_until("\x1b[?7l");
    for question in [
        "\x1b[?u",
        "\x1b]11;?\x1b\\",
        "\x1b[>q",
        "\x1b[>4;?m",
        "\x1b[?2026$p",
        "\x1b[c",
        "\x1b[?2004h",
    ] {
        assert!(query.contains(question), "{question:?} in {query:?}");
    }
    assert_ne!(modes(&device), before);

    terminal
        .type_text("a\x1b[?0u\x1b]11;rgb:0000/8000/ffff\x1b\\b\x1bP>|kitty(0.40)\x1b\\\x1b[?62c");
    let events = [input.next().await, input.next().await, input.next().await];
    let expected = [typed('a'), InputEvent::Background(0, 127, 255), typed('b')];
    assert_eq!(events, expected.map(Some));
    terminal.read_until("\x1b[>1u");

    screen.close(&live_rows(&["bye"])).unwrap();
    let last = terminal.read_until("\x1b[?25h");
    for mode in ["bye", "\x1b[<u", "\x1b[?2004l", "\x1b[?1004l", "\x1b[?7h"] {
        assert!(last.contains(mode), "{mode:?} in {last:?}");
    }
    assert_eq!(modes(&device), before);
}

#[tokio::test]
async fn image_capable_terminal_is_queried() {
    let mut terminal = Terminal::new();
    let (screen, mut input) = terminal.open(ScreenOptions::default());
    let query = terminal.read_until("\x1b[?7l");
    let graphics = query.find("\x1b_Gi=1,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\");
    assert!(graphics.is_some_and(|offset| offset < query.find("\x1b[c").unwrap()), "{query:?}");
    assert_eq!(screen.drawing(None), None);

    terminal.type_text("\x1b[?63;1;4cx");
    assert_eq!(input.next().await, Some(typed('x')));
    terminal.read_until("\x1b[?1;1;0S\x1b[16t");
    let sixels = |colors, cell| {
        Some(GraphicsCapabilities { graphics: GraphicsProtocol::Sixel, cell, colors })
    };
    assert_eq!(screen.drawing(None), sixels(256, (10, 20)));
    terminal.type_text("\x1b[?1;0;16S\x1b[6;30;12ty");
    assert_eq!(input.next().await, Some(typed('y')));
    assert_eq!(screen.drawing(None), sixels(16, (12, 30)));
    let expected = screen.drawing(Some(GraphicsProtocol::Kitty)).map(|drawing| drawing.graphics);
    assert_eq!(expected, Some(GraphicsProtocol::Kitty));

    // Without images, none of this is queried.
    drop(screen);
    let mut terminal = Terminal::new();
    let options = ScreenOptions { query_pictures: false, ..ScreenOptions::default() };
    let (_screen, mut input) = terminal.open(options);
    terminal.type_text("\x1b[?63;1;4cx");
    assert_eq!(input.next().await, Some(typed('x')));
    let query = terminal.read_until("\x1b[?7l");
    assert!(!query.contains("\x1b_G") && !query.contains("\x1b[16t"), "{query:?}");
}

#[tokio::test]
async fn resized_window_is_painted_after_the_cursor_report() {
    let mut terminal = Terminal::new();
    let (mut screen, mut input) = terminal.open(ScreenOptions::default());
    terminal.read_until("\x1b[?7l");
    terminal.type_text("\x1b[?62cx");
    assert_eq!(input.next().await, Some(typed('x')));
    let rows = live_rows(&["first", "second"]);
    let frame = |commit| Frame { commit, live: &rows, cursor: Some((0, 1)) };
    assert!(screen.frame(frame(&[])).unwrap());
    terminal.read_until("second");

    terminal.master.resize(size(40, 24)).unwrap();
    let finished = live_rows(&["finished"]);
    assert!(!screen.frame(frame(&finished)).unwrap());
    terminal.read_until("\x1b[6n");
    // Keys are delivered while an answer of the terminal is pending.
    terminal.type_text("y\x1b[1;5R");
    assert_eq!(input.next().await, Some(typed('y')));
    assert_eq!(input.next().await, Some(InputEvent::Resize(40, 24)));
    assert!(screen.frame(frame(&[])).unwrap());
    let painted = terminal.read_until("second");
    assert!(painted.contains("\r \x1b[J\r"), "{painted:?}");
    assert!(painted.contains("finished") && !painted.contains("\x1b[2J"), "{painted:?}");
}

#[tokio::test]
async fn unresponsive_terminal_does_not_delay_the_first_frame() {
    let mut terminal = Terminal::new();
    let (mut screen, _input) = terminal.open(ScreenOptions::default());
    let rows = live_rows(&["row"]);
    screen.frame(Frame { commit: &[], live: &rows, cursor: None }).unwrap();
    terminal.read_until("row");
    terminal.master.resize(size(40, 24)).unwrap();
    assert!(screen.frame(Frame { commit: &[], live: &rows, cursor: None }).unwrap());
    terminal.read_until("row");
}

#[tokio::test]
async fn rows_finished_while_suspended_are_printed_afterwards() {
    let mut terminal = Terminal::new();
    let device = terminal.device();
    let before = modes(&device);
    let (mut screen, mut input) = terminal.open(ScreenOptions::default());
    let finished = live_rows(&["finished meanwhile"]);
    screen.release().unwrap();
    assert_eq!(modes(&device), before);
    assert!(!screen.frame(Frame { commit: &finished, live: &[], cursor: None }).unwrap());
    terminal.type_text("for another\n");
    let mut line = [0; 64];
    let read = rustix::io::read(&device, &mut line).unwrap();
    assert_eq!(&line[..read], b"for another\n");
    screen.enter().unwrap();
    assert_ne!(modes(&device), before);
    assert!(screen.frame(Frame { commit: &[], live: &[], cursor: None }).unwrap());
    terminal.read_until("finished meanwhile");
    terminal.type_text("k");
    assert_eq!(input.next().await, Some(typed('k')));
}

#[tokio::test]
async fn full_screen_view_leaves_inline_rows_unchanged() {
    let mut terminal = Terminal::new();
    let (mut screen, mut input) = terminal.open(ScreenOptions::default());
    terminal.read_until("\x1b[?7l");
    terminal.type_text("\x1b[?0u\x1b[?62cx");
    assert_eq!(input.next().await, Some(typed('x')));
    let mut shown = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 100);
    let rows = live_rows(&["composer", "footer"]);
    let view = live_rows(&["one", "two", "three", "four"]);
    let (output, meanwhile) = (live_rows(&["said"]), live_rows(&["meanwhile"]));
    let inline = |commit| Frame { commit, live: &rows, cursor: Some((3, 0)) };
    let over = |commit| Frame { commit, live: &view, cursor: None };

    assert!(screen.frame(inline(&output)).unwrap());
    shown.process(terminal.read_until("footer").as_bytes());
    shown.process(b"\x1b[3G");
    let before = (shown.screen().contents(), shown.screen().cursor_position());

    assert!(screen.view(over(&meanwhile), true).is_ok());
    let bytes = terminal.read_until("four");
    for mode in ["\x1b[?1049h", "\x1b[>1u", "\x1b[?1002h"] {
        assert!(bytes.contains(mode), "{mode:?} in {bytes:?}");
    }
    shown.process(bytes.as_bytes());
    assert_eq!(shown.screen().contents().trim_end(), "one\ntwo\nthree\nfour");

    // Another size and back again: each is painted at once.
    for columns in [60, 80] {
        terminal.master.resize(size(columns, 24)).unwrap();
        screen.view(over(&[]), true).unwrap();
        terminal.read_until("four");
    }

    // After many size changes a frame waits until the size is stable.
    while !screen.frame(inline(&[])).unwrap() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let bytes = terminal.read_until("footer");
    let gone = bytes.find("\x1b[?1049l").expect("the view goes");
    assert!(bytes.find("\x1b[<u").is_some_and(|keys| keys < gone), "{bytes:?}");
    let (back, after) = bytes.split_at(gone + "\x1b[?1049l".len());
    shown.process(back.as_bytes());
    assert_eq!((shown.screen().contents(), shown.screen().cursor_position()), before);
    shown.process(after.as_bytes());
    assert_eq!(shown.screen().contents().trim_end(), "said\nmeanwhile\ncomposer\nfooter");

    // Closing the screen in a view restores the terminal.
    screen.view(over(&[]), true).unwrap();
    terminal.read_until("four");
    screen.close(&live_rows(&["bye"])).unwrap();
    let last = terminal.read_until("\x1b[?2004l");
    let gone = last.find("\x1b[?1049l").expect("the view goes");
    assert!(last.find("bye").is_some_and(|bye| bye > gone), "{last:?}");
}
