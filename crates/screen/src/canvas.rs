//! Decides what is painted and when: painting is delayed while the window size changes (see
//! [`crate::resize_debounce`]) or the terminal is lent to another program, and repaired if the
//! terminal had a different size than the frame was made for.
//!
//! A terminal that reflows moves everything when its width changes, and the program is notified
//! later: tmux waits up to a quarter of a second. A frame that arrives in between lands in the
//! wrong rows. Therefore, in tmux, each frame begins with a query for the cursor position and the
//! window size, and the next frame waits for the answer. If the frame was made for another size,
//! its vertical moves are replayed from the cursor's actual row to find the painted rows; they are
//! removed, and the frame's finished rows are painted again. Such a frame may have overwritten
//! finished rows above: a move down that was cut short at the end of the window makes the next move
//! up go too far. Those rows are painted again too; the newest are kept for this. For the same
//! reason the move up to the first painted row is a separate step: nothing is erased before the
//! cursor is known to be there.

mod view;

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use crate::line::Line;
use crate::mode::Mode;
use crate::paint::VerticalMove;
use crate::plain::PlainRenderer;
use crate::region::{ERASE_BELOW, Frame, PaintedRows, Region, move_vertically};
use crate::resize_debounce::PaintPermission;
use crate::row::Row;
use crate::terminal_state::{ASK_PLACE, CursorReply, Resize, TerminalState};
use crate::wrap::wrap;
use view::CoveredRows;

/// How long a frame waits for the answer to the previous one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of finished rows kept in case a frame overwrites them: more than a window has.
const MAX_KEPT: usize = 300;

/// What is on the screen, and what waits to be painted.
#[derive(Debug)]
pub(crate) struct Canvas {
    mode: Mode,
    region: Region,
    plain_output: PlainRenderer,
    /// Whether the terminal is in use by this program.
    is_active: bool,
    /// Finished rows that could not be painted yet.
    pending_rows: Vec<Line>,
    /// Live rows and cursor that could not be painted yet.
    pending_live: Option<Live>,
    frames: u64,
    /// The frame whose position has not been reported yet.
    sent_frame: Option<PendingFrame>,
    broken: Option<StaleRows>,
    /// Number of window rows from the cursor's row to the bottom, if the terminal reports it.
    rows_below: Option<usize>,
    /// The newest finished rows above the region, as they were painted.
    finished: VecDeque<Line>,
    /// Whether the next frame clears and repaints the window.
    repaints: bool,
    /// Maximum number of window rows above the region.
    max_rows_above: usize,
    /// The inline rows while a view covers them.
    covered_rows: Option<CoveredRows>,
}

/// How a frame may be painted.
#[derive(Debug, Clone, Copy)]
struct PaintMode {
    /// The size to paint for.
    size: (u16, u16),
    /// Whether the window must be measured again.
    resize: Resize,
    /// Whether to paint the finished rows, which cannot be removed again.
    commits: bool,
}

/// Live rows and their cursor.
type Live = (Vec<Line>, Option<(u16, u16)>);

/// A frame whose answer is pending.
#[derive(Debug)]
struct PendingFrame {
    frame: u64,
    at: Instant,
    size: (u16, u16),
    /// What was painted before it.
    before: PaintedRows,
    vertical_moves: Vec<VerticalMove>,
    commit: Vec<Line>,
    /// Whether it only moves the cursor to the first painted row.
    is_move_to_top: bool,
    /// Number of window rows from the cursor's row to the bottom, before it changed.
    rows_below: Option<usize>,
}

/// The rows left over from a frame of another size.
#[derive(Debug)]
struct StaleRows {
    columns: u16,
    /// How many rows the cursor is below the first painted one; negative if above it.
    rows_up: isize,
    /// How many rows above the first painted one were overwritten.
    damaged: usize,
    /// How many of the painted rows scrolled out at the top.
    scrolled_out_rows: usize,
}

impl PendingFrame {
    /// Returns how many painted rows scrolled out at the top of the window in which this move up
    /// ended.
    fn scrolled_out_rows(&self, reply: CursorReply) -> usize {
        let (columns, rows) = (usize::from(reply.size.0), usize::from(reply.size.1));
        let up = match self.vertical_moves.first() {
            Some(VerticalMove::Up(rows)) => *rows,
            _ => 0,
        };
        let pushed = match self.rows_below {
            Some(below) if reply.row == 0 => self.before.scrolled_out_below(below, columns, rows),
            _ => 0,
        };
        match pushed {
            0 => up.saturating_sub(reply.row.into()),
            pushed => up + pushed,
        }
    }

    /// Returns the distance in rows from the cursor to the window's end after a frame that was
    /// painted for the current size.
    fn rows_above_end(&self, reply: CursorReply) -> usize {
        let rows = usize::from(reply.size.1);
        let mut end = rows.saturating_sub(reply.row.into());
        for step in &self.vertical_moves {
            end = match *step {
                VerticalMove::Up(count) => (end + count).min(rows),
                VerticalMove::Down(count) | VerticalMove::Feed(count) => {
                    end.saturating_sub(count).max(1)
                }
            };
        }
        end
    }

    /// Replays the frame's moves in the actual window.
    fn replayed(&self, reply: CursorReply) -> StaleRows {
        let (columns, rows) = reply.size;
        let last = isize::try_from(rows).unwrap_or(0) - 1;
        let steps = |count: usize| isize::try_from(count).unwrap_or(0);
        let mut cursor = isize::try_from(reply.row).unwrap_or(0);
        let rows_above = self.before.rows_above_cursor(columns.into(), true);
        let mut top = cursor - steps(rows_above);
        let mut highest = cursor;
        for step in &self.vertical_moves {
            match *step {
                VerticalMove::Up(count) => cursor = (cursor - steps(count)).max(0),
                VerticalMove::Down(count) => cursor = (cursor + steps(count)).min(last),
                VerticalMove::Feed(count) => {
                    let moved = steps(count).min((last - cursor).max(0));
                    cursor += moved;
                    // The remaining steps scrolled the window.
                    top -= steps(count) - moved;
                    highest -= steps(count) - moved;
                }
            }
            highest = highest.min(cursor);
        }
        let scrolled_out_rows = usize::try_from(-top).unwrap_or(0);
        let top = top.max(0);
        let damaged = match self.is_move_to_top {
            // It wrote nothing.
            true => 0,
            false => usize::try_from(top - highest.max(0)).unwrap_or(0),
        };
        StaleRows { columns, rows_up: cursor - top, damaged, scrolled_out_rows }
    }
}

impl Canvas {
    pub fn new(mode: Mode, region: Region) -> Self {
        Self {
            mode,
            region,
            plain_output: PlainRenderer::default(),
            is_active: true,
            pending_rows: Vec::new(),
            pending_live: None,
            frames: 0,
            sent_frame: None,
            broken: None,
            rows_below: None,
            finished: VecDeque::new(),
            repaints: false,
            max_rows_above: usize::MAX,
            covered_rows: None,
        }
    }

    /// Paints a frame of a view over the inline rows.
    pub fn view(
        &mut self,
        terminal: &TerminalState,
        frame: &Frame<'_>,
        mouse: bool,
    ) -> io::Result<bool> {
        self.cover_mouse(terminal, mouse)?;
        if self.mode == Mode::Inline && !self.cover(terminal, mouse)? {
            self.pending_rows.extend_from_slice(frame.commit);
            return Ok(false);
        }
        self.paint_or_store(terminal, frame)
    }

    /// Paints a frame, or keeps it for later.
    pub fn frame(&mut self, terminal: &TerminalState, frame: &Frame<'_>) -> io::Result<bool> {
        self.close_view(terminal)?;
        self.paint_or_store(terminal, frame)
    }

    fn paint_or_store(&mut self, terminal: &TerminalState, frame: &Frame<'_>) -> io::Result<bool> {
        let turn = self.next_paint_mode(terminal)?;
        if self.is_covered() || turn.is_none_or(|turn| !turn.commits) {
            self.pending_rows.extend_from_slice(frame.commit);
        }
        if let Some(turn) = turn {
            self.pending_live = None;
            self.paint(terminal, frame, turn)?;
            // Held rows are painted with the next frame.
            return Ok(turn.commits);
        }
        self.pending_live = Some((frame.live.to_vec(), frame.cursor));
        Ok(false)
    }

    /// Returns how to paint, or `None` if painting must wait.
    fn next_paint_mode(&mut self, terminal: &TerminalState) -> io::Result<Option<PaintMode>> {
        if !self.is_active {
            return Ok(None);
        }
        if let Some(sent) = &self.sent_frame {
            if sent.at.elapsed() < ANSWER_TIMEOUT {
                return Ok(None);
            }
            self.sent_frame = None;
            terminal.forget_queries();
        }
        let turn = terminal.painting_size();
        if let Some((size, Resize::Ready(_))) = turn
            && self.mode == Mode::Inline
            && terminal.record_position_query(self.frames + 1)
        {
            // At once, whatever the window does: afterwards the first row is known, and a window
            // that shrinks drops what is below the cursor.
            self.move_to_top(terminal, size)?;
            return Ok(None);
        }
        let Some((size, resize)) = turn else { return Ok(None) };
        let may =
            if self.mode == Mode::Inline { terminal.may_paint() } else { PaintPermission::All };
        if may == PaintPermission::AfterAsking {
            terminal.query_window();
        }
        let paints = matches!(may, PaintPermission::All | PaintPermission::Live);
        Ok(paints.then_some(PaintMode { size, resize, commits: may == PaintPermission::All }))
    }

    /// Moves the cursor to the first painted row. The query has been recorded.
    fn move_to_top(&mut self, terminal: &TerminalState, size: (u16, u16)) -> io::Result<()> {
        let up = self.rows_up(usize::from(size.0), true);
        let mut bytes = ASK_PLACE.to_vec();
        bytes.extend(move_vertically(up));
        let moves = vec![match usize::try_from(up) {
            Ok(up) => VerticalMove::Up(up),
            Err(_) => VerticalMove::Down(up.unsigned_abs()),
        }];
        self.send(size, self.region.painted_rows(), moves, Vec::new(), true);
        terminal.tty.write(&bytes)
    }

    /// Records a frame whose answer is pending.
    fn send(
        &mut self,
        size: (u16, u16),
        before: PaintedRows,
        vertical_moves: Vec<VerticalMove>,
        commit: Vec<Line>,
        is_move_to_top: bool,
    ) {
        self.frames += 1;
        let at = Instant::now();
        let frame = self.frames;
        let rows_below = self.rows_below.take();
        self.sent_frame = Some(PendingFrame {
            frame,
            at,
            size,
            before,
            vertical_moves,
            commit,
            is_move_to_top,
            rows_below,
        });
    }

    /// Returns how many rows the cursor is below the first painted one in a window that is now
    /// `columns` wide.
    fn rows_up(&mut self, columns: usize, reflows: bool) -> isize {
        match self.broken.take() {
            Some(broken) if usize::from(broken.columns) == columns => {
                // Rows that scrolled out may have come back.
                let scrolled_out = self.region.painted_rows().scrolled_out_rows(columns);
                broken.rows_up + isize::try_from(scrolled_out).unwrap_or(0)
            }
            _ => {
                let rows = self.region.painted_rows().rows_above_cursor(columns, reflows);
                isize::try_from(rows).unwrap_or(0)
            }
        }
    }

    fn paint(
        &mut self,
        terminal: &TerminalState,
        frame: &Frame<'_>,
        PaintMode { size, resize, commits }: PaintMode,
    ) -> io::Result<()> {
        let columns = usize::from(size.0);
        let capabilities = terminal.capabilities();
        self.region.set_look(capabilities.paint_options());
        // They may have been made for another width and must not be truncated.
        let mut commit: Vec<Line> = match commits && !self.is_covered() {
            true => {
                let held = std::mem::take(&mut self.pending_rows);
                let all = held.iter().chain(frame.commit);
                all.flat_map(|line| wrap(line, columns, &[])).collect()
            }
            false => Vec::new(),
        };
        let mut bytes = Vec::new();
        let repaints = commits && std::mem::take(&mut self.repaints);
        if repaints {
            if self.mode == Mode::Inline {
                // Not more than were there: the scrollback has the rest.
                let room = usize::from(size.1).saturating_sub(commit.len() + frame.live.len());
                let room = room.min(self.max_rows_above);
                self.max_rows_above = 0;
                commit.splice(0..0, self.take_newest_rows(room, columns));
            }
            self.broken = None;
            self.region.restart(columns, size.1.into());
            bytes.extend_from_slice(b"\x1b[H");
        }
        if let Resize::Ready(column) = resize {
            if !repaints {
                bytes.extend(self.remove_painted_rows(terminal, size, column));
                self.max_rows_above = usize::MAX;
            }
            terminal.record_painted(size);
        }
        if self.mode == Mode::Inline {
            // A region that grew to the end of the window has scrolled what was above it.
            let room = usize::from(size.1).saturating_sub(frame.live.len().max(1));
            self.max_rows_above = self.max_rows_above.saturating_add(commit.len()).min(room);
        }
        let prefix = bytes.len();
        let before = self.region.painted_rows();
        let frame = Frame { commit: &commit, ..*frame };
        bytes.extend(match self.mode {
            Mode::Plain => self.plain_output.frame(&frame, columns),
            Mode::Inline => self.region.frame(&frame),
            Mode::Alternate => self.region.frame(&Frame { commit: &[], ..frame }),
        });
        if bytes.is_empty() {
            return Ok(());
        }
        if self.mode == Mode::Inline && terminal.record_position_query(self.frames + 1) {
            bytes.splice(prefix..prefix, ASK_PLACE.iter().copied());
            let moves = self.region.take_moves();
            self.send(size, before, moves, commit, false);
        } else {
            self.store_finished_rows(commit);
        }
        terminal.tty.write(&bytes)
    }

    /// Makes the next frame clear and repaint the window.
    pub fn repaint(&mut self) {
        self.repaints = self.mode != Mode::Plain && self.is_active;
    }

    /// Takes the newest finished rows that fill `room` rows of a window.
    fn take_newest_rows(&mut self, room: usize, columns: usize) -> Vec<Line> {
        let mut newest = Vec::new();
        let mut remaining = room;
        while let Some(line) = self.finished.back() {
            let rows = wrap(line, columns, &[]);
            let Some(rest) = remaining.checked_sub(rows.len()) else { break };
            remaining = rest;
            newest.push(rows);
            self.finished.pop_back();
        }
        newest.into_iter().rev().flatten().collect()
    }

    /// Removes the painted rows from a window that has changed.
    fn remove_painted_rows(
        &mut self,
        terminal: &TerminalState,
        (columns, rows): (u16, u16),
        cursor: Option<u16>,
    ) -> Vec<u8> {
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        match self.mode {
            Mode::Plain => Vec::new(),
            Mode::Alternate => {
                self.region.restart(columns, rows);
                b"\x1b[H".to_vec()
            }
            Mode::Inline => {
                let reflows = terminal.capabilities().wraps_on_resize().unwrap_or_else(|| {
                    // If nothing else is known, the cursor's column may help: it stops at the edge,
                    // or it is in a wrapped row. In doubt, a stale row is left rather than a
                    // finished one erased.
                    let before = self.region.cursor().0.unwrap_or(0);
                    let wrapped = before % columns;
                    before >= columns
                        && wrapped != columns - 1
                        && cursor.is_some_and(|column| usize::from(column) == wrapped)
                });
                if self.broken.is_none() {
                    return self.region.resize(columns, rows, reflows);
                }
                let up = self.rows_up(columns, reflows);
                self.region.restart_in_place(columns, rows);
                move_vertically(up)
            }
        }
    }

    /// Handles the reported positions of frames.
    pub fn handle_cursor_replies(&mut self, terminal: &TerminalState, replies: &[CursorReply]) {
        for reply in replies {
            let Some(sent) = self.sent_frame.take_if(|sent| sent.frame == reply.frame) else {
                continue;
            };
            if reply.size == sent.size {
                if sent.is_move_to_top {
                    let (columns, rows) = (reply.size.0.into(), reply.size.1.into());
                    self.region.restart_in_place(columns, rows);
                    self.region.record_scrolled(
                        &sent.before,
                        sent.scrolled_out_rows(*reply),
                        columns,
                    );
                    terminal.record_painted(reply.size);
                    if terminal.is_resizing() {
                        // Otherwise the rows that wait for the size to settle would be pushed out.
                        // If the terminal is gone, the next frame reports it.
                        let _ = terminal.tty.write(ERASE_BELOW);
                    }
                }
                self.rows_below = Some(sent.rows_above_end(*reply));
                self.store_finished_rows(sent.commit);
            } else {
                let mut broken = sent.replayed(*reply);
                let damaged = self.remove_damaged(&mut broken, sent.size.0);
                self.region.record_scrolled(
                    &sent.before,
                    broken.scrolled_out_rows,
                    reply.size.0.into(),
                );
                self.broken = Some(broken);
                self.pending_rows.splice(0..0, damaged.into_iter().chain(sent.commit));
                terminal.mark_window_changed();
            }
        }
    }

    /// Keeps finished rows that were painted correctly.
    fn store_finished_rows(&mut self, rows: Vec<Line>) {
        self.finished.extend(rows);
        let surplus = self.finished.len().saturating_sub(MAX_KEPT);
        self.finished.drain(..surplus);
    }

    /// Returns the finished rows that a frame overwrote; they are removed with what it painted.
    fn remove_damaged(&mut self, broken: &mut StaleRows, columns: u16) -> Vec<Line> {
        let mut rows = 0;
        let mut lines = Vec::new();
        while rows < broken.damaged {
            let Some(line) = self.finished.pop_back() else { break };
            let row = Row::new(&line, usize::from(columns).max(1));
            rows += row.reflowed_height(broken.columns.into());
            lines.push(line);
        }
        lines.reverse();
        // Overwritten output of other programs is lost.
        broken.rows_up += isize::try_from(rows.max(broken.damaged)).unwrap_or(0);
        lines
    }

    /// Whether the answer to the last frame is pending.
    pub fn awaits_answer(&self) -> bool {
        self.sent_frame.is_some()
    }

    /// Paints what waits, if that is possible now.
    pub fn flush(&mut self, terminal: &TerminalState) -> io::Result<()> {
        if self.pending_live.is_none() {
            return Ok(());
        }
        let turn = self.next_paint_mode(terminal)?;
        let Some(turn) = turn.filter(|turn| turn.resize == Resize::Settled) else {
            // After a change of the size, the interface creates new rows.
            return Ok(());
        };
        let Some((live, cursor)) = self.pending_live.take() else { return Ok(()) };
        self.paint(terminal, &Frame { commit: &[], live: &live, cursor }, turn)
    }

    /// Returns the bytes that replace the live rows with the rows still waiting and `rows`. Nothing
    /// is painted afterwards.
    pub fn release(&mut self, terminal: &TerminalState, rows: &[Line]) -> Vec<u8> {
        self.is_active = false;
        (self.pending_live, self.sent_frame) = (None, None);
        let mut bytes = Vec::new();
        if self.mode == Mode::Alternate {
            let (columns, height) = terminal.size();
            bytes.extend_from_slice(b"\x1b[?1049l");
            self.region.restart(columns.into(), height.into());
        } else if let Some((size, Resize::Ready(column))) = terminal.painting_size() {
            // The window has just changed.
            bytes = self.remove_painted_rows(terminal, size, column);
            terminal.record_painted(size);
        }
        let columns = usize::from(terminal.size().0);
        let held = std::mem::take(&mut self.pending_rows);
        let mut last: Vec<Line> = held.iter().flat_map(|line| wrap(line, columns, &[])).collect();
        last.extend_from_slice(rows);
        match self.mode {
            Mode::Plain => bytes.extend(self.plain_output.close(&last)),
            Mode::Alternate if last.is_empty() => {}
            Mode::Inline | Mode::Alternate => bytes.extend(self.region.close(&last)),
        }
        bytes
    }

    /// Starts again in the cursor's row.
    pub fn enter(&mut self, (columns, rows): (u16, u16)) {
        self.is_active = true;
        self.rows_below = None;
        // The rows above now belong to other programs.
        self.finished.clear();
        self.region.restart(columns.into(), rows.into());
        self.plain_output.restart();
    }

    pub fn is_entered(&self) -> bool {
        self.is_active
    }
}
