//! The state of the terminal: the device, the event queue, the answers, and the size of the window.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::capabilities::{Capabilities, TerminalKind};
use crate::decode::{DecodedInput, TerminalReply};
use crate::key::InputEvent;
use crate::resize_debounce::{PaintPermission, ResizeDebounce};
use crate::tty::{Tty, add_restore_bytes};

/// Maximum number of queued events; the thread stops reading then.
const QUEUE_CAP: usize = 1_024;
/// How long the terminal may take to report the cursor position after a resize.
const RESIZE_TIMEOUT: Duration = Duration::from_millis(150);
/// How long the thread may take to release the terminal.
const PARK_TIMEOUT: Duration = Duration::from_secs(1);

/// Queries the background color.
pub(crate) const ASK_BACKGROUND: &[u8] = b"\x1b]11;?\x1b\\";
/// Queries the cursor position and the window size as the terminal sees them.
pub(crate) const ASK_PLACE: &[u8] = b"\x1b[6n\x1b[18t";
const ASK_SIXEL_COLORS: &[u8] = b"\x1b[?1;1;0S";
const ASK_CELL: &[u8] = b"\x1b[16t";
const ASK_CURSOR: &[u8] = b"\x1b[6n";
pub(crate) const KITTY_ON: &[u8] = b"\x1b[>1u";
pub(crate) const KITTY_OFF: &[u8] = b"\x1b[<u";
const MODIFY_KEYS_ON: &[u8] = b"\x1b[>4;2m";
pub(crate) const MODIFY_KEYS_OFF: &[u8] = b"\x1b[>4;0m";

/// The state of the terminal other than what is painted.
#[derive(Debug)]
pub(crate) struct TerminalState {
    pub tty: Tty,
    pub reply_arrived: Notify,
    wake_pipe: OwnedFd,
    state: Mutex<InnerState>,
    changed: Condvar,
}

#[derive(Debug)]
struct InnerState {
    /// The events with their arrival times.
    events: VecDeque<(InputEvent, Instant)>,
    capabilities: Capabilities,
    /// Whether queries are sent and modes are set.
    probes: bool,
    inline: bool,
    modify_keys_level: u16,
    modify_keys_on: bool,
    background: Option<(u8, u8, u8)>,
    cursor_reports: u32,
    /// Whether kitty graphics and images in general were queried.
    awaits_graphics: bool,
    queries_pictures: bool,
    /// The cursor position in the last report: row and column, from 0.
    cursor: (u16, u16),
    /// Whether the terminal reports the window size.
    reports_size: bool,
    reports_swapped_size: bool,
    /// The reasons for the pending size queries, in order.
    questions: VecDeque<SizeQueryReason>,
    cursor_replies: Vec<CursorReply>,
    /// The size the window is painted for, the last size of the device, and the last size reported
    /// by the terminal.
    size: (u16, u16),
    device: (u16, u16),
    reported_size: Option<(u16, u16)>,
    resize: Resize,
    unrest: ResizeDebounce,
    paused: bool,
    is_suspended: bool,
    stopped: bool,
    is_ended: bool,
    /// Whether this program suspended itself and knows that it continues.
    stopped_itself: bool,
}

/// The terminal's answer to the query before a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CursorReply {
    /// The frame's number.
    pub frame: u64,
    /// The cursor's row, from 0.
    pub row: u16,
    /// Columns and rows.
    pub size: (u16, u16),
}

/// The reason for a size query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeQueryReason {
    /// Before a frame is painted.
    Frame(u64),
    /// After the window changed.
    Resize,
}

/// The state of a window size change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resize {
    /// No change in progress.
    Settled,
    /// The cursor position was queried.
    Asked(Instant),
    /// Painting is possible again; the cursor's column, from 0, if it was reported.
    Ready(Option<u16>),
}

impl TerminalState {
    pub fn new(
        tty: Tty,
        wake_pipe: OwnedFd,
        capabilities: Capabilities,
        (probes, inline): (bool, bool),
    ) -> Self {
        let size = tty.size();
        Self {
            tty,
            reply_arrived: Notify::new(),
            wake_pipe,
            state: Mutex::new(InnerState {
                events: VecDeque::new(),
                capabilities,
                probes,
                inline,
                modify_keys_level: 0,
                modify_keys_on: false,
                background: None,
                cursor_reports: 0,
                awaits_graphics: false,
                queries_pictures: false,
                cursor: (0, 0),
                reports_size: false,
                reports_swapped_size: false,
                questions: VecDeque::new(),
                cursor_replies: Vec::new(),
                size,
                device: size,
                reported_size: None,
                resize: Resize::Settled,
                unrest: ResizeDebounce::default(),
                paused: false,
                is_suspended: false,
                stopped: false,
                is_ended: false,
                stopped_itself: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, InnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake_pipe, b"w");
    }

    pub fn capabilities(&self) -> Capabilities {
        self.state().capabilities
    }

    pub fn background(&self) -> Option<(u8, u8, u8)> {
        self.state().background
    }

    // --- the input end

    /// Returns the next event and its arrival time.
    pub fn take_event(&self) -> Option<(InputEvent, Instant)> {
        let mut state = self.state();
        let (event, came) = state.events.pop_front()?;
        let was_full = state.events.len() + 1 == QUEUE_CAP;
        drop(state);
        if was_full {
            self.wake();
        }
        let event = match event {
            // The size may have changed again in the meantime.
            InputEvent::Resize(..) => {
                let (columns, rows) = self.size();
                InputEvent::Resize(columns, rows)
            }
            event => event,
        };
        Some((event, came))
    }

    pub fn has_ended(&self) -> bool {
        self.state().is_ended
    }

    // --- the reading thread

    /// Waits while the terminal is released. Returns whether there is space for more events, or
    /// `None` when reading must stop.
    pub fn wait_for_turn(&self) -> Option<bool> {
        let mut state = self.state();
        while state.paused && !state.stopped {
            state.is_suspended = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_suspended = false;
        (!state.stopped).then_some(state.events.len() < QUEUE_CAP)
    }

    pub fn is_paused(&self) -> bool {
        let state = self.state();
        state.paused || state.stopped
    }

    /// Returns how many cursor reports are pending, and whether an answer of the kitty graphics
    /// protocol is.
    pub fn expected_replies(&self) -> (u32, bool) {
        let state = self.state();
        (state.cursor_reports, state.awaits_graphics)
    }

    /// Records a query for image support, which the caller sends.
    pub fn record_graphics_query(&self) {
        let mut state = self.state();
        (state.awaits_graphics, state.queries_pictures) = (true, true);
    }

    /// Handles decoded input: events go into the queue, answers update the state. Returns the
    /// positions that were reported for frames.
    pub fn record(&self, decoded: &mut Vec<DecodedInput>) -> Vec<CursorReply> {
        let came = Instant::now();
        let mut state = self.state();
        let mut replies = Vec::new();
        for item in decoded.drain(..) {
            match item {
                DecodedInput::Event(event) => {
                    // The user may have changed the colors in the meantime.
                    if event == InputEvent::Focus(true) && state.probes {
                        replies.extend_from_slice(ASK_BACKGROUND);
                    }
                    state.events.push_back((event, came));
                }
                DecodedInput::Answer(answer) => state.handle_reply(answer, &mut replies),
            }
        }
        let cursor_replies = std::mem::take(&mut state.cursor_replies);
        drop(state);
        if !replies.is_empty() {
            let _ = self.tty.write(&replies);
        }
        cursor_replies
    }

    /// Wakes those who wait for input or answers.
    pub fn wake_waiters(&self) {
        self.changed.notify_all();
        self.reply_arrived.notify_one();
    }

    /// Records that the terminal is gone.
    pub fn end(&self) {
        let mut state = self.state();
        state.push(InputEvent::Closed);
        state.is_ended = true;
        state.is_suspended = true;
        drop(state);
        self.changed.notify_all();
        self.reply_arrived.notify_one();
    }

    // --- the screen

    /// Stops the thread from reading.
    pub fn pause(&self) {
        let mut state = self.state();
        state.paused = true;
        self.wake();
        let deadline = Instant::now() + PARK_TIMEOUT;
        while !state.is_suspended && !state.is_ended {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets the thread read again.
    pub fn resume(&self) {
        self.state().paused = false;
        self.changed.notify_all();
    }

    /// Called before the program suspends itself, so that its continuation is not reported.
    pub fn record_own_suspend(&self) {
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

    /// Returns the sequences that restore the keyboard modes.
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

    /// Returns columns and rows from the best source available.
    pub fn size(&self) -> (u16, u16) {
        let current = self.tty.size();
        self.state().reported_size.unwrap_or(current)
    }

    /// Records a query for the position of this frame if the terminal answers such queries; the
    /// caller sends it.
    pub fn record_position_query(&self, frame: u64) -> bool {
        let mut state = self.state();
        if state.reports_size {
            state.cursor_reports += 1;
            state.questions.push_back(SizeQueryReason::Frame(frame));
        }
        state.reports_size
    }

    /// Records that the window size changed or may have changed.
    pub fn mark_window_changed(&self) {
        self.state().unrest.record_change(Instant::now());
        self.query_window();
    }

    /// Queries the window size and the cursor position.
    pub fn query_window(&self) {
        let mut state = self.state();
        state.device = self.tty.size();
        let asks = state.inline
            && state.capabilities.answers
            && (state.reports_size || state.device.0 != state.size.0);
        let mut question = ASK_CURSOR;
        if asks {
            state.cursor_reports += 1;
            if state.reports_size {
                state.questions.push_back(SizeQueryReason::Resize);
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
        self.reply_arrived.notify_one();
    }

    /// Returns what may be painted while the window size keeps changing.
    pub fn may_paint(&self) -> PaintPermission {
        self.state().unrest.permission(Instant::now())
    }

    /// Whether frames wait because the window size keeps changing.
    pub fn is_resizing(&self) -> bool {
        self.state().unrest.is_waiting()
    }

    pub fn resize_deadline(&self) -> Option<Instant> {
        match self.state().resize {
            Resize::Asked(since) => Some(since + RESIZE_TIMEOUT),
            _ => None,
        }
    }

    /// Gives up on an answer that is overdue.
    pub fn resize_overdue(&self) {
        let mut state = self.state();
        if let Resize::Asked(since) = state.resize
            && since.elapsed() >= RESIZE_TIMEOUT
        {
            state.reported_size = None;
            state.resize_ready(None);
            drop(state);
            self.reply_arrived.notify_one();
        }
    }

    /// Returns the size to paint for and whether the window must be measured again, or `None` while
    /// the size is unknown.
    pub fn painting_size(&self) -> Option<((u16, u16), Resize)> {
        self.resize_overdue();
        let device = self.tty.size();
        let state = self.state();
        if state.resize == Resize::Settled && device != state.device {
            drop(state);
            self.mark_window_changed();
        } else {
            drop(state);
        }
        let state = self.state();
        match state.resize {
            Resize::Settled => Some((state.size, Resize::Settled)),
            Resize::Asked(_) => None,
            ready => Some((state.reported_size.unwrap_or(device), ready)),
        }
    }

    /// Whether the window size was queried after a change.
    pub fn is_awaiting_size(&self) -> bool {
        matches!(self.state().resize, Resize::Asked(_))
    }

    /// Waits until the reading thread handles input, at most until the deadline.
    pub fn wait_for_answers(&self, deadline: Instant) {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let state = self.state();
        drop(self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner));
    }

    /// Forgets the pending queries, which will not be answered.
    pub fn forget_queries(&self) {
        let mut state = self.state();
        state.questions.clear();
        (state.reports_size, state.reports_swapped_size, state.reported_size) =
            (false, false, None);
    }

    /// Sets whether inline rows are painted, or a view over them. All queries must be answered
    /// before.
    pub fn set_inline(&self, inline: bool) {
        let mut state = self.state();
        state.inline = inline;
        state.reported_size = None;
    }

    /// Records the size that the window contents were painted for; another current size is a
    /// change.
    pub fn set_painted_size(&self, size: (u16, u16)) {
        let mut state = self.state();
        (state.size, state.device) = (size, size);
        state.resize = Resize::Settled;
        drop(state);
        self.painting_size();
    }

    /// Records that the window is painted for this size.
    pub fn record_painted(&self, size: (u16, u16)) {
        let mut state = self.state();
        state.size = size;
        state.device = self.tty.size();
        state.resize = Resize::Settled;
    }
}

impl InnerState {
    fn push(&mut self, event: InputEvent) {
        self.events.push_back((event, Instant::now()));
    }

    fn handle_reply(&mut self, answer: TerminalReply, replies: &mut Vec<u8>) {
        match answer {
            TerminalReply::Kitty => {
                if !std::mem::replace(&mut self.capabilities.kitty_keyboard, true) {
                    replies.extend_from_slice(KITTY_ON);
                    add_restore_bytes(KITTY_OFF);
                }
            }
            TerminalReply::ModifyOtherKeys(level) => self.modify_keys_level = level,
            TerminalReply::Mode { mode: 2026, known } => self.capabilities.synchronized = known,
            TerminalReply::Mode { .. } => {}
            TerminalReply::Attributes { sixel } => {
                self.capabilities.answers = true;
                self.capabilities.sixel = sixel;
                if std::mem::take(&mut self.queries_pictures) {
                    // Query only if images are drawn.
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
                    add_restore_bytes(MODIFY_KEYS_OFF);
                }
            }
            TerminalReply::KittyGraphics(knows) => {
                self.awaits_graphics = false;
                self.capabilities.kitty_graphics = knows;
            }
            TerminalReply::SixelColors(colors) => self.capabilities.sixel_colors = Some(colors),
            TerminalReply::Cell(width, height) => {
                self.capabilities.cell = (width > 0 && height > 0).then_some((width, height));
            }
            TerminalReply::Version(name) => self.capabilities.identify(&name),
            TerminalReply::Cursor(row, column) => {
                self.cursor_reports = self.cursor_reports.saturating_sub(1);
                self.cursor = (row.saturating_sub(1), column.saturating_sub(1));
                if !self.reports_size && self.cursor_reports == 0 {
                    self.resize_answered();
                }
            }
            TerminalReply::Size(columns, rows) => {
                let mut size = (columns.max(1), rows.max(1));
                if self.reports_swapped_size {
                    size = (size.1, size.0);
                }
                match self.questions.pop_front() {
                    Some(SizeQueryReason::Frame(frame)) => {
                        self.reported_size = Some(size);
                        self.cursor_replies.push(CursorReply { frame, row: self.cursor.0, size });
                    }
                    Some(SizeQueryReason::Resize) => {
                        self.reported_size = Some(size);
                        if !self.questions.contains(&SizeQueryReason::Resize) {
                            self.resize_answered();
                        }
                    }
                    None if self.reports_size => {}
                    // Queried at the start. Only tmux updates the device so late that it is worth
                    // the bytes.
                    None => {
                        let swapped = (size.1, size.0);
                        // tmux before 3.4 swaps columns and rows.
                        self.reports_swapped_size = swapped == self.device && size != self.device;
                        self.reports_size = self.capabilities.terminal == TerminalKind::Tmux
                            && (size == self.device) != (swapped == self.device);
                    }
                }
            }
            TerminalReply::ColorScheme => replies.extend_from_slice(ASK_BACKGROUND),
            TerminalReply::Background(red, green, blue) => {
                let color = (red, green, blue);
                // tmux reports white if it does not know the color.
                let is_false =
                    self.capabilities.terminal == TerminalKind::Tmux && color == (255, 255, 255);
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

/// Creates the pipe that wakes the thread.
pub(crate) fn wake_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reads, writes) = rustix::pipe::pipe()?;
    for end in [&reads, &writes] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok((reads, writes))
}
