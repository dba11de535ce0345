//! What the reading thread, the input end and the screen share: the device, the
//! queue of events, and what the terminal has answered.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::canvas::{ASK_PLACE, Canvas, Place};
use crate::capabilities::{Capabilities, Terminal};
use crate::decode::{Answer, Decoded};
use crate::key::InputEvent;
use crate::tty::{Tty, restore_also};
use crate::unrest::{May, Unrest};

/// Events that wait before the thread stops reading.
const QUEUE_CAP: usize = 1_024;
/// How long the terminal has to say where its cursor is after a resize.
const RESIZE_PATIENCE: Duration = Duration::from_millis(150);
/// How long the thread has to let go of the terminal.
const PARK_PATIENCE: Duration = Duration::from_secs(1);

/// Asks for the background's colour.
pub(crate) const ASK_BACKGROUND: &[u8] = b"\x1b]11;?\x1b\\";
const ASK_SIXEL_COLORS: &[u8] = b"\x1b[?1;1;0S";
const ASK_CELL: &[u8] = b"\x1b[16t";
const ASK_CURSOR: &[u8] = b"\x1b[6n";
pub(crate) const KITTY_ON: &[u8] = b"\x1b[>1u";
pub(crate) const KITTY_OFF: &[u8] = b"\x1b[<u";
const MODIFY_KEYS_ON: &[u8] = b"\x1b[>4;2m";
pub(crate) const MODIFY_KEYS_OFF: &[u8] = b"\x1b[>4;0m";

#[derive(Debug)]
pub(crate) struct Shared {
    pub tty: Tty,
    pub arrived: Notify,
    wake: OwnedFd,
    canvas: Mutex<Canvas>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// With when each came.
    events: VecDeque<(InputEvent, Instant)>,
    capabilities: Capabilities,
    /// Questions are sent and modes are set.
    probes: bool,
    inline: bool,
    modify_keys_level: u16,
    modify_keys_on: bool,
    background: Option<(u8, u8, u8)>,
    cursor_reports: u32,
    /// It was asked for the kitty graphics protocol, and for pictures at all.
    awaits_graphics: bool,
    asks_pictures: bool,
    /// Where the cursor was at the last report: row and column, from 0.
    cursor: (u16, u16),
    /// The terminal says how large its window is.
    tells_size: bool,
    tells_swapped: bool,
    /// What it was asked for its size for, in order.
    questions: VecDeque<Question>,
    places: Vec<Place>,
    /// The size for which the window is painted, the one that the device said last,
    /// and the one that the terminal told last.
    size: (u16, u16),
    device: (u16, u16),
    told: Option<(u16, u16)>,
    resize: Resize,
    unrest: Unrest,
    paused: bool,
    parked: bool,
    stopped: bool,
    ended: bool,
    /// This program has stopped itself and knows that it goes on.
    stopped_itself: bool,
}

/// Why the terminal was asked for its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Before a frame is painted.
    Frame(u64),
    /// After its window has changed.
    Resize,
}

/// What is known of a change of the window's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resize {
    /// None is under way.
    Settled,
    /// The terminal was asked where its cursor is.
    Asked(Instant),
    /// It may be painted again; the cursor's column, from 0, if it was told.
    Ready(Option<u16>),
}

impl Shared {
    pub fn new(
        tty: Tty,
        wake: OwnedFd,
        capabilities: Capabilities,
        (probes, inline): (bool, bool),
        canvas: Canvas,
    ) -> Self {
        let size = tty.size();
        Self {
            tty,
            arrived: Notify::new(),
            wake,
            canvas: Mutex::new(canvas),
            state: Mutex::new(State {
                events: VecDeque::new(),
                capabilities,
                probes,
                inline,
                modify_keys_level: 0,
                modify_keys_on: false,
                background: None,
                cursor_reports: 0,
                awaits_graphics: false,
                asks_pictures: false,
                cursor: (0, 0),
                tells_size: false,
                tells_swapped: false,
                questions: VecDeque::new(),
                places: Vec::new(),
                size,
                device: size,
                told: None,
                resize: Resize::Settled,
                unrest: Unrest::default(),
                paused: false,
                parked: false,
                stopped: false,
                ended: false,
                stopped_itself: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is painted. Taken before the state, never while it is held.
    pub fn canvas(&self) -> MutexGuard<'_, Canvas> {
        self.canvas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, b"w");
    }

    pub fn capabilities(&self) -> Capabilities {
        self.state().capabilities
    }

    pub fn background(&self) -> Option<(u8, u8, u8)> {
        self.state().background
    }

    // --- the input end

    /// The next event, with when it came.
    pub fn take_event(&self) -> Option<(InputEvent, Instant)> {
        let mut state = self.state();
        let (event, came) = state.events.pop_front()?;
        let was_full = state.events.len() + 1 == QUEUE_CAP;
        drop(state);
        if was_full {
            self.wake();
        }
        let event = match event {
            // The size may have changed again since.
            InputEvent::Resize(..) => {
                let (columns, rows) = self.size();
                InputEvent::Resize(columns, rows)
            }
            event => event,
        };
        Some((event, came))
    }

    pub fn has_ended(&self) -> bool {
        self.state().ended
    }

    // --- the reading thread

    /// Waits while the terminal is someone else's. Whether there is room for more
    /// events; `None` when it is over.
    pub fn wait_for_turn(&self) -> Option<bool> {
        let mut state = self.state();
        while state.paused && !state.stopped {
            state.parked = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.parked = false;
        (!state.stopped).then_some(state.events.len() < QUEUE_CAP)
    }

    pub fn is_paused(&self) -> bool {
        let state = self.state();
        state.paused || state.stopped
    }

    /// How many cursor reports are to come, and whether an answer of the kitty graphics
    /// protocol is.
    pub fn expected(&self) -> (u32, bool) {
        let state = self.state();
        (state.cursor_reports, state.awaits_graphics)
    }

    /// The terminal is asked what pictures it draws; the caller sends the question.
    pub fn asks_graphics(&self) {
        let mut state = self.state();
        (state.awaits_graphics, state.asks_pictures) = (true, true);
    }

    /// Takes what was decoded: events into the queue, answers into what is known.
    pub fn deliver(&self, decoded: &mut Vec<Decoded>) {
        if decoded.is_empty() {
            return;
        }
        let came = Instant::now();
        let mut state = self.state();
        let mut replies = Vec::new();
        for item in decoded.drain(..) {
            match item {
                Decoded::Event(event) => {
                    // The user may have changed the colours meanwhile.
                    if event == InputEvent::Focus(true) && state.probes {
                        replies.extend_from_slice(ASK_BACKGROUND);
                    }
                    state.events.push_back((event, came));
                }
                Decoded::Answer(answer) => state.take(answer, &mut replies),
            }
        }
        let places = std::mem::take(&mut state.places);
        drop(state);
        if !replies.is_empty() {
            let _ = self.tty.write(&replies);
        }
        if !places.is_empty() {
            let mut canvas = self.canvas();
            canvas.told(self, &places);
            // If the terminal is gone, the next frame says so.
            let _ = canvas.flush(self);
        }
        self.changed.notify_all();
        self.arrived.notify_one();
    }

    /// The terminal is gone.
    pub fn end(&self) {
        let mut state = self.state();
        state.push(InputEvent::Closed);
        state.ended = true;
        state.parked = true;
        drop(state);
        self.changed.notify_all();
        self.arrived.notify_one();
    }

    // --- the screen

    /// Keeps the thread from the terminal.
    pub fn pause(&self) {
        let mut state = self.state();
        state.paused = true;
        self.wake();
        let deadline = Instant::now() + PARK_PATIENCE;
        while !state.parked && !state.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets the thread read again.
    pub fn resume(&self) {
        self.state().paused = false;
        self.changed.notify_all();
    }

    /// The program is about to suspend itself, so its continuation is not reported.
    pub fn stops_itself(&self) {
        self.state().stopped_itself = true;
    }

    /// Whether the continuation must be reported, because another process suspended the
    /// program.
    pub fn was_stopped_by_others(&self) -> bool {
        !std::mem::take(&mut self.state().stopped_itself)
    }

    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
        self.wake();
    }

    /// What has to be sent so that the keyboard is as it was.
    pub fn keyboard_off(&self) -> Vec<u8> {
        let mut state = self.state();
        let mut bytes = Vec::new();
        if std::mem::take(&mut state.capabilities.kitty_keyboard) {
            bytes.extend_from_slice(KITTY_OFF);
        }
        if std::mem::take(&mut state.modify_keys_on) {
            bytes.extend_from_slice(MODIFY_KEYS_OFF);
        }
        bytes
    }

    // --- the window's size

    /// Columns and rows, from the best source available.
    pub fn size(&self) -> (u16, u16) {
        let now = self.tty.size();
        self.state().told.unwrap_or(now)
    }

    /// Asks where the frame of this number comes to, if the terminal tells. The caller
    /// sends the question.
    pub fn asks_place(&self, frame: u64) -> bool {
        let mut state = self.state();
        if state.tells_size {
            state.cursor_reports += 1;
            state.questions.push_back(Question::Frame(frame));
        }
        state.tells_size
    }

    /// The window has, or may have, another size.
    pub fn window_changed(&self) {
        self.state().unrest.changed(Instant::now());
        self.ask_window();
    }

    /// Finds out how large the window is and where its cursor.
    pub fn ask_window(&self) {
        let mut state = self.state();
        state.device = self.tty.size();
        let asks = state.inline
            && state.capabilities.answers
            && (state.tells_size || state.device.0 != state.size.0);
        let mut question = ASK_CURSOR;
        if asks {
            state.cursor_reports += 1;
            if state.tells_size {
                state.questions.push_back(Question::Resize);
                question = ASK_PLACE;
            }
            state.resize = Resize::Asked(Instant::now());
        } else {
            state.resize_ready(None);
        }
        drop(state);
        if asks {
            let _ = self.tty.write(question);
        }
        self.arrived.notify_one();
    }

    /// What may be painted while the window changes all the time.
    pub fn may_paint(&self) -> May {
        self.state().unrest.may(Instant::now())
    }

    /// Whether frames wait because the window changes all the time.
    pub fn is_restless(&self) -> bool {
        self.state().unrest.lasts()
    }

    pub fn resize_deadline(&self) -> Option<Instant> {
        match self.state().resize {
            Resize::Asked(since) => Some(since + RESIZE_PATIENCE),
            _ => None,
        }
    }

    /// The terminal has not answered in time.
    pub fn resize_overdue(&self) {
        let mut state = self.state();
        if let Resize::Asked(since) = state.resize
            && since.elapsed() >= RESIZE_PATIENCE
        {
            state.told = None;
            state.resize_ready(None);
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// The size to paint for, and whether the window must be measured again; `None` while
    /// it is unknown.
    pub fn painting_size(&self) -> Option<((u16, u16), Resize)> {
        self.resize_overdue();
        let device = self.tty.size();
        let state = self.state();
        if state.resize == Resize::Settled && device != state.device {
            drop(state);
            self.window_changed();
        } else {
            drop(state);
        }
        let state = self.state();
        match state.resize {
            Resize::Settled => Some((state.size, Resize::Settled)),
            Resize::Asked(_) => None,
            ready => Some((state.told.unwrap_or(device), ready)),
        }
    }

    /// Whether the terminal has yet to tell where something is.
    pub fn awaits_answers(&self) -> bool {
        let awaits = self.canvas().awaits_answer();
        awaits || matches!(self.state().resize, Resize::Asked(_))
    }

    /// Waits for the reading thread to take something, at most until then.
    pub fn wait_for_answers(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let state = self.state();
        drop(self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner));
    }

    /// The questions that are not answered yet will not be.
    pub fn forget_questions(&self) {
        let mut state = self.state();
        state.questions.clear();
        (state.tells_size, state.tells_swapped, state.told) = (false, false, None);
    }

    /// Whether inline rows are painted, or a view over them. Before that, all questions
    /// are answered.
    pub fn set_inline(&self, inline: bool) {
        let mut state = self.state();
        state.inline = inline;
        state.told = None;
    }

    /// What is in the window was painted for this size; if it has another one, that is
    /// a change.
    pub fn stands_for(&self, size: (u16, u16)) {
        let mut state = self.state();
        (state.size, state.device) = (size, size);
        state.resize = Resize::Settled;
        drop(state);
        self.painting_size();
    }

    /// The window is painted for this size.
    pub fn painted(&self, size: (u16, u16)) {
        let mut state = self.state();
        state.size = size;
        state.device = self.tty.size();
        state.resize = Resize::Settled;
    }
}

impl State {
    fn push(&mut self, event: InputEvent) {
        self.events.push_back((event, Instant::now()));
    }

    fn take(&mut self, answer: Answer, replies: &mut Vec<u8>) {
        match answer {
            Answer::Kitty => {
                if !std::mem::replace(&mut self.capabilities.kitty_keyboard, true) {
                    replies.extend_from_slice(KITTY_ON);
                    restore_also(KITTY_OFF);
                }
            }
            Answer::ModifyOtherKeys(level) => self.modify_keys_level = level,
            Answer::Mode { mode: 2026, known } => self.capabilities.synchronized = known,
            Answer::Mode { .. } => {}
            Answer::Attributes { sixel } => {
                self.capabilities.answers = true;
                self.awaits_graphics = false;
                self.capabilities.sixel = sixel;
                if std::mem::take(&mut self.asks_pictures) {
                    // Asked only if pictures are drawn.
                    if sixel {
                        replies.extend_from_slice(ASK_SIXEL_COLORS);
                    }
                    if self.capabilities.graphics().is_some() {
                        replies.extend_from_slice(ASK_CELL);
                    }
                }
                if !self.capabilities.kitty_keyboard
                    && self.modify_keys_level >= 2
                    && !std::mem::replace(&mut self.modify_keys_on, true)
                {
                    replies.extend_from_slice(MODIFY_KEYS_ON);
                    restore_also(MODIFY_KEYS_OFF);
                }
            }
            Answer::KittyGraphics(knows) => self.capabilities.kitty_graphics = knows,
            Answer::SixelColors(colors) => self.capabilities.sixel_colors = Some(colors),
            Answer::Cell(width, height) => {
                self.capabilities.cell = (width > 0 && height > 0).then_some((width, height));
            }
            Answer::Version(name) => self.capabilities.named(&name),
            Answer::Cursor(row, column) => {
                self.cursor_reports = self.cursor_reports.saturating_sub(1);
                self.cursor = (row.saturating_sub(1), column.saturating_sub(1));
                if !self.tells_size && self.cursor_reports == 0 {
                    self.resize_answered();
                }
            }
            Answer::Size(columns, rows) => {
                let mut size = (columns.max(1), rows.max(1));
                if self.tells_swapped {
                    size = (size.1, size.0);
                }
                match self.questions.pop_front() {
                    Some(Question::Frame(frame)) => {
                        self.told = Some(size);
                        self.places.push(Place { frame, row: self.cursor.0, size });
                    }
                    Some(Question::Resize) => {
                        self.told = Some(size);
                        if !self.questions.contains(&Question::Resize) {
                            self.resize_answered();
                        }
                    }
                    None if self.tells_size => {}
                    // Asked at the start. Only tmux is so late with telling the device
                    // that it is worth the bytes.
                    None => {
                        let swapped = (size.1, size.0);
                        // tmux before 3.4 tells columns and rows the wrong way round.
                        self.tells_swapped = swapped == self.device && size != self.device;
                        self.tells_size = self.capabilities.terminal == Terminal::Tmux
                            && (size == self.device) != (swapped == self.device);
                    }
                }
            }
            Answer::ColorScheme => replies.extend_from_slice(ASK_BACKGROUND),
            Answer::Background(red, green, blue) => {
                let color = (red, green, blue);
                // tmux says white when it does not know.
                let is_false =
                    self.capabilities.terminal == Terminal::Tmux && color == (255, 255, 255);
                if !is_false && self.background.replace(color) != Some(color) {
                    self.push(InputEvent::Background(red, green, blue));
                }
            }
        }
    }

    fn resize_answered(&mut self) {
        if matches!(self.resize, Resize::Asked(_)) {
            self.resize_ready(Some(self.cursor.1));
        }
    }

    fn resize_ready(&mut self, column: Option<u16>) {
        self.resize = Resize::Ready(column);
        // The size is filled in when the event is taken.
        self.push(InputEvent::Resize(0, 0));
    }
}

/// The two ends of the pipe that wakes the thread.
pub(crate) fn wake_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reads, writes) = rustix::pipe::pipe()?;
    for end in [&reads, &writes] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok((reads, writes))
}
