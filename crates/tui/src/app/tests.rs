//! Tests of the application state: events and keys in, rows and effects out.

mod pager;

use std::collections::VecDeque;

use parallax_protocol::event::{
    CallPhase, CallState, Compaction, CompactionCause, EndReason, Event, EventBody, ItemStart,
    ShellStart, TurnEnded,
};
use parallax_protocol::op::Op;
use parallax_protocol::tool::{Todo, TodoStatus};
use parallax_screen::{InputEvent, Key, KeyCode, Line};
use parallax_sdk::settings::UiSettings;

use super::{App, Layout};
use crate::app::commands::completions;
use crate::app::effect::Effect;
use crate::keymap::{Keymap, Platform};
use crate::theme::Theme;

mod background;
mod care;
mod devtools;
mod exit_messages;
mod pressed_again;

struct Bench {
    app: App,
    layout: Layout,
}

impl Bench {
    fn new(layout: Layout) -> Self {
        let settings =
            UiSettings { screen_reader: layout == Layout::Plain, ..UiSettings::default() };
        let keymap = Keymap::load(Platform::Linux, "");
        let mut app = App::new((100, 30), settings, Theme::default(), keymap);
        app.session.ready("");
        Self { app, layout }
    }

    fn event(&mut self, body: EventBody) {
        self.app.handle_event(&Event { seq: 0, turn: 1, body });
    }

    fn turn(&mut self) {
        self.event(EventBody::TurnStarted { prompt: "go".to_owned() });
    }

    fn prompt(&mut self) {
        let start = ItemStart::User { text: "go".to_owned() };
        self.event(EventBody::ItemStarted { item: "go".into(), start });
    }

    fn shell(&mut self, command: &str) {
        let start = ShellStart { command: command.to_owned(), background: false };
        self.event(EventBody::ItemStarted { item: "sh".into(), start: ItemStart::Shell(start) });
    }

    fn keys(&mut self, text: &str) {
        for char in text.chars() {
            self.press(Key::plain(match char {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{1b}' => KeyCode::Escape,
                char => KeyCode::Char(char),
            }));
        }
    }

    fn press(&mut self, key: Key) {
        self.app.handle_input(InputEvent::Key(key), std::time::Instant::now());
    }

    /// Returns the rows on the screen and those that went to the scrollback with them.
    fn rows(&mut self) -> Vec<String> {
        let frame = self.app.frame(self.layout);
        frame.finished.iter().chain(&frame.live).map(Line::text).collect()
    }

    #[track_caller]
    fn assert_visible(&mut self, text: &str) {
        let rows = self.rows();
        assert!(rows.iter().any(|row| row.contains(text)), "{text}: {rows:#?}");
    }

    #[track_caller]
    fn assert_hidden(&mut self, text: &str) {
        let rows = self.rows();
        assert!(!rows.iter().any(|row| row.contains(text)), "{text}: {rows:#?}");
    }

    fn ops(&mut self) -> VecDeque<Op> {
        let effects = self.app.take_effects().into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Send(op) => Some(op),
                _ => None,
            })
            .collect()
    }

    /// Returns the messages that wait.
    fn queued(&self) -> Vec<&str> {
        self.app.prompt_queue.waiting_messages().into_iter().map(|one| one.text).collect()
    }

    /// Returns the prompts being sent to the engine.
    fn prompts(&mut self) -> Vec<String> {
        let effects = self.app.take_effects().into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Prompt { text, .. } => Some(text),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn leading_whitespace_before_a_command_is_ignored() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys("  /quit\n");
    assert!(bench.app.take_effects().iter().any(|it| matches!(it, Effect::Quit { delete: false })));
    bench.keys("/quit now\n");
    assert!(!bench.app.take_effects().iter().any(|it| matches!(it, Effect::Quit { .. })));
    bench.assert_visible("Unknown argument `now` of `/quit`");
}

#[test]
fn key_hints_leave_room_for_the_composer_in_a_small_window() {
    for size in [(60, 10), (40, 12), (20, 5)] {
        let mut bench = Bench::new(Layout::Inline);
        bench.app.handle_input(InputEvent::Resize(size.0, size.1), std::time::Instant::now());
        bench.keys("?");
        let live = bench.app.frame(Layout::Inline).live.len();
        assert!(live <= usize::from(size.1), "{size:?}: {live}");
        bench.assert_visible("> ");
        bench.assert_visible("/help shows");
    }
}

#[test]
fn removing_a_queued_message_keeps_the_selection() {
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    for text in ["one", "two", "three", "four"] {
        bench.app.prompt_queue.push(text.to_owned());
    }
    bench.press(Key::plain(KeyCode::Up));
    bench.press(Key::plain(KeyCode::Down));
    bench.keys("xx");
    assert_eq!(bench.queued(), ["one", "four"]);
    bench.keys("x");
    bench.assert_visible("❯ 1. one");
    assert_eq!(bench.queued(), ["one"]);
}

#[test]
fn silent_command_shows_a_notice_and_the_key_focus() {
    let mut bench = Bench::new(Layout::Inline);
    bench.shell("cat");
    bench.assert_hidden("to type into it");
    // Not before five seconds have passed.
    assert!(bench.app.next_tick_ms().is_some_and(|ms| ms <= 5_000));
    bench.app.clock.advance(std::time::Duration::from_secs(6));
    bench.assert_visible("has produced no output for a while; press tab to type into it");
    bench.keys("\t");
    assert!(bench.app.shell.has_focus());
    bench.assert_visible("Keys go to the command; press shift+tab to return to the input");
    bench.assert_hidden("Type your message");
    bench.keys("x");
    assert!(matches!(bench.ops().back(), Some(Op::ToolInput { .. })));
    bench.press(Key::with(KeyCode::Tab, parallax_screen::Modifiers::SHIFT));
    bench.assert_visible("keys go to the input again");
    bench.assert_visible("Type your message");
}

#[test]
fn screen_reader_omits_an_empty_composer_during_an_answer() {
    let mut bench = Bench::new(Layout::Plain);
    bench.assert_visible("Type your message");
    bench.turn();
    bench.prompt();
    bench.assert_visible("Working (esc to stop).");
    for piece in ["one\n\n", "two\n\n", "three\n\n"] {
        if piece.starts_with("one") {
            let start = ItemStart::Text;
            bench.event(EventBody::ItemStarted { item: "a".into(), start });
        }
        bench.event(EventBody::ItemDelta { item: "a".into(), text: piece.to_owned() });
        bench.assert_hidden("Type your message");
    }
    // A draft is announced anyway.
    bench.keys("no");
    bench.assert_visible("> no");
}

#[test]
fn screen_reader_announces_a_started_command() {
    let mut bench = Bench::new(Layout::Plain);
    bench.turn();
    bench.event(EventBody::CallState(Box::new(CallState {
        item: "c".into(),
        call: "c".into(),
        phase: CallPhase::Executing,
        title: Some("sleep 3".to_owned()),
        kind: Some(parallax_protocol::tool::ToolKind::Execute),
    })));
    let rows = bench.rows();
    assert_eq!(rows.iter().filter(|row| *row == "Running: sleep 3").count(), 1, "{rows:?}");
    bench.assert_hidden("Running:");
    bench.app.clock.advance(std::time::Duration::from_secs(6));
    bench.assert_visible("to type into it");
}

fn emit_compaction(bench: &mut Bench) {
    bench.event(EventBody::Compaction(Compaction {
        cause: CompactionCause::Manual,
        how: None,
        before: 9,
        after: 9,
        remark: Some("it was interrupted".to_owned()),
    }));
}

#[test]
fn prompts_wait_until_a_compaction_ends() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys("/compress\n");
    assert!(matches!(bench.ops().back(), Some(Op::Compact { .. })));
    bench.assert_visible("Compacting the history");
    bench.keys("go on\n");
    bench.assert_visible("› go on");
    assert_eq!(bench.prompts(), [] as [&str; 0]);
    emit_compaction(&mut bench);
    bench.assert_hidden("Compacting the history");
    assert_eq!(bench.prompts(), ["go on"]);
}

#[test]
fn escape_cancels_compaction_and_restores_queued_prompts() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys("/compress\n");
    bench.keys("go on\n");
    bench.keys("\u{1b}");
    assert!(bench.ops().iter().any(|op| matches!(op, Op::Interrupt)));
    emit_compaction(&mut bench);
    bench.assert_visible("> go on");
    assert_eq!(bench.prompts(), [] as [&str; 0]);
}

#[test]
fn compaction_requested_during_a_turn_runs_after_it() {
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    bench.keys("/compress\n");
    bench.assert_hidden("Compacting the history");
    let ended = TurnEnded { reason: EndReason::Done, duration_ms: 1, is_removed: false };
    bench.event(EventBody::TurnEnded(ended));
    bench.assert_visible("Compacting the history");
    emit_compaction(&mut bench);
    bench.assert_hidden("Compacting the history");
}

#[test]
fn unknown_command_argument_runs_nothing() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys("/chat debug\n");
    bench.assert_visible("Unknown argument of `/chat`: `debug`. Did you mean");
    assert!(!bench.app.dialogs.is_open());
    bench.keys("/vim x\n");
    bench.assert_visible("`/vim` takes no argument");
    bench.keys("/ \n");
    bench.assert_visible("Unknown command `/`");
    assert_eq!(bench.prompts(), [] as [&str; 0]);
}

#[test]
fn partially_typed_prompt_command_is_completed_and_not_sent() {
    let mut bench = Bench::new(Layout::Inline);
    completions::set_commands(&mut bench.app);
    bench.keys("/commi\n");
    assert_eq!(bench.prompts(), [] as [&str; 0]);
    bench.assert_visible("> /commit");
    bench.keys("\n");
    assert_eq!(bench.prompts().len(), 1);
}

#[test]
fn cancelled_todo_has_the_same_count_in_tray_and_transcript() {
    let mut bench = Bench::new(Layout::Inline);
    let todo = |name: &str, status| Todo { description: name.to_owned(), status };
    bench.app.todos.update(&[
        todo("a", TodoStatus::Completed),
        todo("b", TodoStatus::Cancelled),
        todo("c", TodoStatus::InProgress),
    ]);
    bench.assert_visible("To-do list 1/2 done");
    bench.app.todos.toggle();
    bench.assert_visible("  - b");
    // When the work is over the list is hidden but can still be shown.
    bench.app.todos.toggle();
    bench.turn();
    bench.assert_visible("To-do list 1/2 done");
    let ended = TurnEnded { reason: EndReason::Done, duration_ms: 1, is_removed: false };
    bench.event(EventBody::TurnEnded(ended));
    bench.assert_hidden("To-do list 2/3 done");
    bench.app.todos.toggle();
    bench.assert_visible("To-do list 1/2 done");
}

#[test]
fn unrequested_context_report_updates_only_the_footer() {
    let mut bench = Bench::new(Layout::Inline);
    let picture = parallax_protocol::context::ContextBreakdown {
        tokens: 250,
        window: 1_000,
        mark: 800,
        blocks: Vec::new(),
        items: Vec::new(),
    };
    bench.event(EventBody::ContextBreakdown(Box::new(picture)));
    bench.assert_visible(" 25%");
    assert!(!bench.app.dialogs.is_open());
}

/// The bytes sent to the terminal for a key and after a pause in typing.
struct OutputByteCounter {
    bench: Bench,
    region: parallax_screen::Region,
}

impl OutputByteCounter {
    fn new((columns, rows): (u16, u16)) -> Self {
        let mut bench = Bench::new(Layout::Inline);
        bench.app.window.resize((columns, rows));
        completions::set_commands(&mut bench.app);
        let options = parallax_screen::PaintOptions {
            depth: parallax_screen::ColorDepth::Ansi256,
            links: true,
            synchronized: false,
        };
        let region = parallax_screen::Region::new(columns.into(), rows.into(), options);
        let mut costs = Self { bench, region };
        costs.frame();
        costs
    }

    fn frame(&mut self) -> usize {
        let frame = self.bench.app.frame(Layout::Inline);
        let narrow = |number| u16::try_from(number).unwrap();
        let cursor = frame.cursor.map(|(column, row)| (narrow(column), narrow(row)));
        let (commit, live) = (frame.finished.as_slice(), frame.live.as_slice());
        self.region.frame(&parallax_screen::Frame { commit, live, cursor }).len()
    }

    fn key(&mut self, key: Key) -> usize {
        self.bench.press(key);
        self.frame()
    }

    /// Waits for a pause in typing.
    fn pause(&mut self) -> usize {
        self.bench.app.clock.advance(std::time::Duration::from_millis(200));
        self.frame()
    }
}

#[test]
fn keys_in_the_command_list_are_fast() {
    for size in [(120, 40), (100, 30), (80, 24)] {
        let mut costs = OutputByteCounter::new(size);
        let typed = "/model set mo".chars().map(KeyCode::Char);
        let erased = std::iter::repeat_n(KeyCode::Backspace, 13);
        let accepted = "/mcp ".chars().map(KeyCode::Char);
        let again = std::iter::repeat_n(KeyCode::Backspace, 5);
        let stepped = std::iter::once(KeyCode::Char('/'))
            .chain(std::iter::repeat_n(KeyCode::Down, 60))
            .chain([KeyCode::Up, KeyCode::Escape]);
        let keys = typed.chain(erased).chain(accepted).chain(again).chain(stepped);
        let tab = [KeyCode::Backspace, KeyCode::Char('/'), KeyCode::Char('m'), KeyCode::Tab];
        for code in keys.chain(tab) {
            // Nothing may follow later, either.
            let bytes = costs.key(Key::plain(code)) + costs.pause();
            assert!(bytes <= 200, "{bytes} bytes for {code:?} at {size:?}");
        }
    }
}

#[test]
fn selected_command_is_described_at_once() {
    let mut costs = OutputByteCounter::new((100, 30));
    costs.bench.keys("/ab");
    costs.bench.assert_visible("❯ about");
    costs.bench.assert_visible("Show version, model");
    assert_eq!(costs.bench.app.next_tick_ms(), None);
}

#[test]
fn screen_reader_announces_how_long_a_turn_took_and_others_see_it() {
    let ended = || TurnEnded { reason: EndReason::Done, duration_ms: 12_400, is_removed: false };
    let mut bench = Bench::new(Layout::Plain);
    bench.turn();
    bench.prompt();
    let rows = bench.rows();
    let index = |text: &str| rows.iter().position(|row| row == text);
    assert!(
        index("You: go").is_some() && index("You: go") < index("Working (esc to stop)."),
        "{rows:?}"
    );
    bench.event(EventBody::TurnEnded(ended()));
    bench.assert_visible("Done. (12s)");
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    bench.event(EventBody::TurnEnded(ended()));
    bench.assert_visible("─ 12s · ");
    // Not in a window without space for it.
    let mut bench = Bench::new(Layout::Inline);
    bench.app.window.resize((20, 5));
    bench.turn();
    bench.event(EventBody::TurnEnded(ended()));
    bench.assert_hidden("12s");
}

/// Sends an approval request for a command.
fn send_request(bench: &mut Bench) {
    use parallax_protocol::event::{ApprovalRequest, Question};
    use parallax_protocol::op::ApprovalResponse;
    use parallax_protocol::permissions::Permissions;
    use parallax_protocol::policy::{Decision, PolicyDecision};
    use parallax_protocol::tool::ToolKind;

    bench.event(EventBody::ApprovalRequested(Box::new(ApprovalRequest {
        id: "ask".into(),
        call: "call".into(),
        agent: None,
        name: "run_shell_command".into(),
        kind: ToolKind::Execute,
        title: "cargo test".into(),
        preview: None,
        policy_decision: PolicyDecision::new(Decision::Ask, "default", "commands are asked for"),
        outcomes: vec![ApprovalResponse::ProceedOnce],
        question: Question::Exec,
        rules: Vec::new(),
        no_rule_reason: None,
        permissions: Permissions::default(),
        broader_permissions: Permissions::default(),
        not_undoable: Vec::new(),
    })));
}

/// Returns an approval request that opened over text and was visible for long.
fn bench_with_draft_request(text: &str) -> Bench {
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    bench.keys(text);
    bench.app.clock.advance(std::time::Duration::from_secs(5));
    send_request(&mut bench);
    bench.assert_visible("Allow execution of this command?");
    bench.app.clock.advance(std::time::Duration::from_secs(5));
    bench.ops();
    bench
}

fn has_decision(bench: &mut Bench) -> bool {
    bench.ops().iter().any(|op| matches!(op, Op::Decide(_)))
}

#[test]
fn first_enter_with_a_draft_focuses_the_request() {
    for key in ["\n", "1"] {
        let mut bench = bench_with_draft_request("my draft");
        bench.assert_visible("Your text is kept.");
        bench.keys(key);
        assert!(!has_decision(&mut bench), "{key:?}");
        bench.assert_visible("press it again to answer");
        bench.assert_hidden("Your text is kept.");
        bench.keys(key);
        assert!(has_decision(&mut bench), "{key:?}");
        bench.assert_visible("> my draft");
    }
    // Choosing an answer moves the focus, and without a text there is no conflict.
    let mut bench = bench_with_draft_request("my draft");
    bench.press(Key::plain(KeyCode::Down));
    bench.press(Key::plain(KeyCode::Up));
    bench.keys("\n");
    assert!(has_decision(&mut bench));
    let mut bench = bench_with_draft_request("");
    bench.assert_hidden("Your text is kept.");
    bench.keys("\n");
    assert!(has_decision(&mut bench));
}

#[test]
fn key_that_yanks_instead_of_toggling_yolo_shows_a_hint_once() {
    use parallax_screen::Modifiers;

    let mut bench = Bench::new(Layout::Inline);
    bench.keys("foo bar");
    bench.press(Key::ctrl('u'));
    bench.press(Key::ctrl('y'));
    bench.assert_visible("foo bar");
    bench.assert_visible(
        "ctrl+y inserted the deleted text; press another key before alt+y to toggle YOLO",
    );
    // Shown once per session.
    bench.app.hints.clear();
    bench.press(Key::ctrl('y'));
    bench.assert_hidden("inserted the deleted text");
    bench.ops();
    let yolo = Key::with(KeyCode::Char('y'), Modifiers::ALT);
    // Now the key inserts deleted text, of which there is none.
    bench.press(yolo);
    assert!(bench.ops().is_empty());
    bench.press(Key::plain(KeyCode::Left));
    bench.press(yolo);
    let ops = bench.ops();
    assert!(matches!(ops.front(), Some(Op::SetMode { .. })), "{ops:?}");
}
